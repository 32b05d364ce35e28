"""Rows in, data files and commit messages out.

    batches → input_check → bucket → buffer → a writer per bucket → files

Concept → modules:
    one call of a write                               table_write
    checks of tables, rows, kinds                     write_support, input_check
    partition and bucket, in every bucket mode        row_key_extractor, dynamic_buckets
    keys that may change partition                    moving_keys
    memory, flushing                                  bucket_writer (RowBuffer)
    sort and merge by key, or order of arrival        bucket_writer (numbers: data.sequence)
    files, indexes                                    rolling_file
    statistics of a file                              column_stats
    files with other options: changelog, postponed    write_support
"""
