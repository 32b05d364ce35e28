"""What works around Spark, because it pays: each module says in its first line how much.

Without any of them the same rows are read and written by tasks of our own. A shortcut knows no
other, so it goes by deleting its module, its tests and its one call:

    native_read      Spark's own readers          executor: to_dataframe, count_rows
    s3a_storage      those on S3                  native_read: read_natively
    driver_read      small reads by the driver    executor: to_dataframe, count_rows
    size_estimate    the size that Spark assumes  executor: to_dataframe
    plain_scan       files read by the writers    executor: map_rows; dataframes/merge
    native_write     Spark's own writer           executor: map_rows
    micro_batch      few rows of a stream         executor: map_rows
    worker_imports   what a worker keeps          worker: task_threads
"""
