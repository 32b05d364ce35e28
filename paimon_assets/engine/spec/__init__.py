"""What the Paimon format is: frozen values and pure functions, standard library only.

Rooms:
    types/       data types, their texts and values, casts, row kinds
    options/     table options, beside their kin
    schema/      declared and stored schemas, system columns
    evolution/   changes of a schema, their rules, differences of two schemas
    merge/       how records of one key become one row; sequence padding
    predicate/   filters and value expressions, what bounds say of them
    metadata/    snapshot, manifest, data file, index file, statistics, tag
    segments/    files of others
    partition, paths   where things lie
"""
