"""SQL on Spark: statements over the tables of a catalog, in a session that knows nothing of it.

Concept → modules:
    spark_sql, INSERT, views, %paimon_sql         spark_sql
    tables, views and functions as DataFrames     frames
    needed columns and rows of a query            pushdown
    columns as a table stores them                assignment_casts
    UPDATE, DELETE by Spark's expressions         changes
    MERGE INTO                                    merges
"""
