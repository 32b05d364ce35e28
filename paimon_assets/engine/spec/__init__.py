"""The Paimon format: frozen values and pure functions, standard library and msgspec.

Concept → modules:
    data types, casts, row kinds                      types/
    table options                                     options/
    declared and stored schemas, system columns       schema/
    changes of a schema                               evolution/
    merge rules, sequence padding                     merge/
    filters, pruning                                  predicate/
    snapshot, manifest, data file, statistics, tag    metadata/
    segments                                          segments/
    paths and partitions                              paths, partition
    texts                                             words
    values                                            values
"""
