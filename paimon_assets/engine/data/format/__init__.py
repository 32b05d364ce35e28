"""The formats of data files behind one pair of protocols.

Concept → files:
    protocols                        base
    which format, which codec        formats
    Parquet                          parquet, dictionary_choice
    ORC                              orc
    Avro                             avro, avro_types, avro_encoding (blocks: codec.avro)
    values of one column, raw        blob
    errors that name the file        named_errors
"""
