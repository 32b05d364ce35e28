"""The formats of data files; each is one `FileFormat` value.

Concept → modules:
    what a format is             base
    all of them                  formats
    Parquet                      parquet, parquet_chunks, parquet_times
    ORC                          orc, orc_values
    Avro                         avro, avro_types
    raw values of one column     blob
    texts of segments            text, csv, json, text_streams, text_values
    external files               external_files
    errors that name the file    named_errors
"""
