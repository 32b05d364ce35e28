"""Bytes ⇄ values; touches no storage.

Concept → files:
    columns and their types     arrow_types (the only mapping DataType ⇄ pyarrow)
    single values               arrow_values
    numpy → Arrow               numpy_columns
    partition, keys, statistics binary_row
    row → bucket                bucket_function, over row_words (default) and hive_hash (hive)
    snapshot-N, schema-N, tags  metadata_json, tag_json
    statistics                  statistics_json
    manifest, manifest list     manifest_avro, over the container of avro
    DataSplit, commit messages  data_file_row and java_stream (framed by `contract.wire.wire`)
"""
