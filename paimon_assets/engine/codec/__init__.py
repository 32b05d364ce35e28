"""Bytes ⇄ values; touches no storage.

Rooms:
    arrow/       types and values ⇄ Arrow (the only mapping DataType ⇄ pyarrow) and numpy
    rows/        BinaryRow, file rows of DataSplits and commit messages, key ranges
    hashing/     row → bucket: bucket_function, over row_words (default) and hive_hash (hive)
    avro/        containers, manifests, manifest lists, index manifests
    json/        snapshot-N, schema-N, tags, statistics, segments
    rest/        the documents of REST catalogs
    bitmaps/     roaring bitmaps, deletion vectors
    file_index/  bloom filters, bitmaps, bit slices
    row_files    files of rows that are no part of a table
    orc_footer   statistics that pyarrow does not show
    orc_times    timestamps that pyarrow does not hold
"""
