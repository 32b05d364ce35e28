"""Spark as an Executor: the only code that imports pyspark.

Concept → files:
    a session, without preparing the machine    session/
    what workers lack, and what they are sent   preflight, worker_probe, storage_look
    what jobs are called, lines in a run's log  job_names, job_log
    reading and writing tables on Spark         executor (SparkExecutor)
    what runs inside a task                     worker
    a batch of tasks as jobs                    task_jobs
    which task writes which bucket              shuffle
    batches as opaque bytes in Spark rows       packing
    what a DataFrame claims to hold             claimed_size
    what a session's JVM made before            kept
    errors on their way through Spark           failure
    Paimon ⇄ Spark types                        types
    a table ⇄ a DataFrame, merges, streams      dataframes/
    spark.read.format("paimon_assets")          data_source/
    files Spark reads, or tasks in its place    native/
    SQL over the tables of a catalog            sql/

Names below are loaded when they are first used.

Rows of a write, drawn:

    DataFrame ─ mapInArrow(route) ─▶ (task, partition, bucket, position, packed rows)
              ─ repartition(task) ─ sort ─ mapInArrow(write) ─▶ wire bytes of commit messages
"""

from typing import TYPE_CHECKING

from paimon_assets.lazy_door import lazy_door

if TYPE_CHECKING:
    from paimon_assets.spark.data_source.data_source import register as register
    from paimon_assets.spark.dataframes.merge import merge_dataframe as merge_dataframe
    from paimon_assets.spark.dataframes.streaming import streaming_sink as streaming_sink
    from paimon_assets.spark.dataframes.tables import (
        system_to_spark as system_to_spark,
        to_spark as to_spark,
        write_dataframe as write_dataframe,
    )
    from paimon_assets.spark.executor import SparkExecutor as SparkExecutor
    from paimon_assets.spark.session.session import (
        SparkSettings as SparkSettings,
        get_session as get_session,
    )
    from paimon_assets.spark.sql.magic import load_magic as load_magic
    from paimon_assets.spark.sql.spark_sql import (
        register_views as register_views,
        spark_sql as spark_sql,
    )

__all__, __getattr__, __dir__ = lazy_door(__name__)
