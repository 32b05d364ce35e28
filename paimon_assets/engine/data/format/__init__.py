"""The formats of data files, each one value.

Concept → files:
    what a format is                 base
    all of them, and the door        formats
    Parquet                          parquet, dictionary_choice
    ORC                              orc
    Avro                             avro, avro_types, avro_encoding (blocks: codec.avro)
    values of one column, raw        blob
    texts of segments                text, csv, json
    errors that name the file        named_errors
"""
