"""Spark as an Executor: the only code that imports pyspark.

Concept → files:
    a session, without preparing the machine    session (get_session), java (find_java)
    reading and writing tables on Spark         executor (SparkExecutor)
    what runs inside a task                     worker
    a batch of tasks as jobs                    task_jobs
    which task writes which bucket              shuffle
    batches as opaque bytes in Spark rows       packing
    errors on their way through Spark           failure
    Paimon ⇄ Spark types                        types
    files as a DataFrame that keeps their order sources (files_to_dataframe)
    a table ⇄ a DataFrame, in one call          tables (to_spark, write_dataframe, system_to_spark)
    a DataFrame merged into a table             merge (merge_dataframe), merge_worker
    spark.read.format("paimon_assets")          data_source (register), location,
                                                data_source_{writer,stream,system}
    files Spark's own reader reads              native_read, native_scan
    Spark's filters ⇄ predicates                filters
    Structured Streaming into a table           streaming (streaming_sink)

Rows of a write, drawn:

    DataFrame ─ mapInArrow(route) ─▶ (task, partition, bucket, position, packed rows)
              ─ repartition(task) ─ sort ─ mapInArrow(write) ─▶ wire bytes of commit messages
"""
