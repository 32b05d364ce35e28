"""Bytes ⇄ values; touches no storage.

Concept → modules:
    types and values ⇄ Arrow (the only mapping) and numpy    arrow/
    BinaryRow, rows of splits and messages, key ranges       rows/
    row → bucket                                             hashing/
    Avro containers, manifests, index manifests              avro/
    snapshot-N, schema-N, tags, statistics, segments         json/
    documents of REST catalogs                               rest/
    roaring bitmaps, deletion vectors                        bitmaps/
    bloom filters and bitmaps of a file's columns            file_index/
    files of rows outside tables                             row_files
    parts of ORC and Parquet files that pyarrow hides        orc_footer, parquet_footer
"""
