"""Spark as an Executor: the only code that imports pyspark.

Concept → files:
    a session, without preparing the machine    session (get_session), java (find_java)
    reading and writing tables on Spark         executor (SparkExecutor)
    what runs inside a task                     worker
    which task writes which bucket              shuffle
    batches as opaque bytes in Spark rows       packing
    errors on their way through Spark           failure
    Paimon ⇄ Spark types                        types
    files as a DataFrame that keeps their order sources (files_to_dataframe)

Rows of a write, drawn:

    DataFrame ─ mapInArrow(route) ─▶ (task, partition, bucket, position, packed rows)
              ─ repartition(task) ─ sort ─ mapInArrow(write) ─▶ wire bytes of commit messages
"""
