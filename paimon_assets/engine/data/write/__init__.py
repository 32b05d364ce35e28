"""Rows in, data files and commit messages out.

    batches → input_check → row_kinds → buckets → row_buffer → a writer per bucket → files

Concept → modules:
    one call of a write                               table_write
    checks of tables, rows, kinds                     write_support, input_check, row_kinds
    partition and bucket                              buckets/
    memory, flushing                                  row_buffer
    primary key: sort and merge                       merge_tree_writer (numbers: data.sequence)
    no key: in order of arrival                       bucket_writer
    files with other options: changelog, postponed    file_kinds
    files, statistics, indexes                        files/
    files of a failed write                           unfinished
"""
