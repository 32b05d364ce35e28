"""Frames of other libraries ⇄ rows of a table. None of the libraries is imported before it is used.

Concept → files:
    pyarrow, pandas, polars, Spark, duckdb → rows    frames (object_columns, datetime_zones)
    what a read returns as                           frame_reads
    a read as a dataset of pyarrow                   arrow_dataset (imports pyarrow.dataset)
    filters of pyarrow and polars → Predicate        arrow_filter, frames
"""
