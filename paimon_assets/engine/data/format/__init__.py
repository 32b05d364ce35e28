"""The formats of data files; each is one `FileFormat` value.

Concept → modules:
    protocols of a format        base
    all of them                  formats
    Parquet, ORC, Avro           parquet (its writer: parquet_writer), orc, avro
    the Julian calendar          calendars
    raw values of one column     blob
    texts of segments            text, text_streams
    external files               external_files
"""
