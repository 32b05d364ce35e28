"""Frames of other libraries ⇄ rows of a table. A library is imported only when it is used.

Concept → modules:
    pyarrow, pandas, polars, Spark, duckdb → rows    frames, object_columns, datetime_zones
    what a read returns as                           frame_reads
    a read as a dataset of pyarrow                   arrow_dataset
    filters of pyarrow and polars → Predicate        arrow_filter
"""
