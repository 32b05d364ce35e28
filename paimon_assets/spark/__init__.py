"""Spark as an Executor: the core's only code that imports pyspark.

Names are loaded when they are first used. Rows of a write:

    DataFrame ─ mapInArrow(route) ─▶ (task, partition, bucket, position, packed rows)
              ─ repartition(task) ─ sort ─ mapInArrow(write) ─▶ wire bytes of commit messages

Concept → modules:
    reading and writing tables on Spark                executor, task_jobs
    code that runs inside a task                       worker, packing
    the tasks of a read, and a session's cache         python_rows
    buckets of tasks, sorting                          shuffle, cluster
    a session, and the Java it needs                   session, java
    checks of workers, packages sent to them           preflight, worker_probe
    names of jobs, lines in a run's log                job_names
    errors on their way through Spark, ended tokens    failure
    Paimon ⇄ Spark types                               types
    Spark's plans, footers of Parquet files            plans
    tables ⇄ DataFrames, merges, streams               dataframes/
    spark.read.format("paimon_assets")                 data_source, table_location
    shortcuts around Spark that pay                    shortcuts/
"""

from typing import TYPE_CHECKING

from paimon_assets.lazy_door import lazy_door

if TYPE_CHECKING:
    from paimon_assets.spark.data_source import register as register
    from paimon_assets.spark.dataframes.merge import merge_dataframe as merge_dataframe
    from paimon_assets.spark.dataframes.tables import streaming_sink as streaming_sink
    from paimon_assets.spark.dataframes.tables import (
        system_to_spark as system_to_spark,
        to_spark as to_spark,
        write_dataframe as write_dataframe,
    )
    from paimon_assets.spark.executor import SparkExecutor as SparkExecutor
    from paimon_assets.spark.session import (
        SparkSettings as SparkSettings,
        get_session as get_session,
    )

__all__, __getattr__, __dir__ = lazy_door(
    __name__,
    {
        "spark.data_source": "register",
        "spark.dataframes.merge": "merge_dataframe",
        "spark.dataframes.tables": "streaming_sink system_to_spark to_spark write_dataframe",
        "spark.executor": "SparkExecutor",
        "spark.session": "SparkSettings get_session",
    },
)
