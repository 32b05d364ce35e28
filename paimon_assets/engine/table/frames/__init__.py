"""Frames of other libraries ⇄ rows of a table. A library is imported only when it is used.

Concept → modules:
    pyarrow, pandas, polars, Spark, duckdb ⇄ rows    frames, object_columns
    a read as a dataset of pyarrow                   arrow_dataset
    filters of pyarrow → Predicate                   arrow_filter
"""
