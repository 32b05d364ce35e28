"""The data plane: rows into files, files into rows. An executor calls it through `worker`.

Concept → modules:
    what an executor calls                                worker
    reads                                                 read/
    writes                                                write/
    merges                                                merge/
    compaction, deletes and updates                       compact/, row_change
    rows sorted beyond memory: new clustering, old keys   cluster
    file formats                                          format/
    casts                                                 casting/
    columns of a file → of a read, by field id            field_mapping
    keys, kinds, sequence numbers and padding             key_value, key_order, sequence,
                                                          repeated_keys
    columns inside columns                                nested
    deletion vectors, filters                             deletion, arrow_predicate
    footers of external files, statistics, lost values    footer, analyze, overflow
    threads and memory                                    threads
"""
