"""Rows in, data files and commit messages out.

    batches → input_check → row_kinds → row_key_extractor → row_buffer → a writer per bucket → files

Concept → files:
    one call of a write          table_write
    what is refused              write_support (tables), input_check (rows), row_kinds (kinds)
    partition and bucket         routing: row_key_extractor (by hash), bucket_assigner and
                                 partition_index (dynamic), key_assigner and key_index (keys that
                                 may change partition)
    index of a dynamic bucket    hash_index
    memory, flushing             row_buffer
    primary key: sort and merge  merge_tree_writer (numbers: data.sequence), or wait for a bucket
    no key: as they come         bucket_writer
    files with other options     file_kinds (changelog, postponed)
    files and their metadata     rolling_file, file_schema, file_stats
"""
