"""SQL on Spark: statements over the tables of a catalog, in a session that knows nothing of it.

Concept → modules:
    spark_sql, register_views                     spark_sql
    tables, views and functions as DataFrames     frames
    what a query needs of its tables              pushdown
    columns as a table stores them                assignment_casts
    INSERT, CREATE TABLE AS                       inserts
    UPDATE, DELETE by what only Spark computes    changes
    MERGE INTO                                    merges
    %paimon_sql in notebooks                      magic
"""
