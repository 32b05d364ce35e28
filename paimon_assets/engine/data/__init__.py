"""The data plane: rows into files, files into rows. An executor calls it through `worker`.

Concept → modules:
    entry points of executors                             worker
    reads                                                 read/
    writes                                                write/
    merges                                                merge/
    compaction, deletes and updates                       compact/, row_change
    rows sorted beyond memory: new clustering, old keys   cluster
    file formats                                          format/
    casts                                                 casting/
    columns of a file, and of a read by field id          field_mapping
    order of keys, sequence numbers and padding           key_order, sequence
    parts of nested columns                               nested
    footers of external files                             footer
    statistics of a table                                 analyze
    keys that several rows share                          repeated_keys
    values that a change of type would lose               cast_losses
    threads and memory                                    threads
"""
