"""Files that Spark's own Parquet and ORC readers read: ORC in 0.68 s, by our tasks in 1.14.

Its rows stay in the JVM, and Spark skips files that a query does not need. The engine reads the
rest; the two are united. The session's `spark.paimon_assets.nativeRead` = false turns this off.

Concept → modules:
    the rows of a read, in a few scans               scans
    files that both read alike                       plain_files
    a filter as Spark's SQL                          condition
"""
