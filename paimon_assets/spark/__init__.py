"""Spark as an Executor: the only code that imports pyspark.

Concept → files:
    a session, without preparing the machine    session/
    reading and writing tables on Spark         executor (SparkExecutor)
    what runs inside a task                     worker
    a batch of tasks as jobs                    task_jobs
    which task writes which bucket              shuffle
    batches as opaque bytes in Spark rows       packing
    what a DataFrame claims to hold             claimed_size
    errors on their way through Spark           failure
    Paimon ⇄ Spark types                        types
    a table ⇄ a DataFrame, merges, streams      dataframes/
    spark.read.format("paimon_assets")          data_source/
    files Spark's own reader reads              native/

Rows of a write, drawn:

    DataFrame ─ mapInArrow(route) ─▶ (task, partition, bucket, position, packed rows)
              ─ repartition(task) ─ sort ─ mapInArrow(write) ─▶ wire bytes of commit messages
"""
