"""Small batches of a stream, known by what Spark knows of them, without running anything."""

from typing import Any

from pyspark.sql import DataFrame

_SMALL_BYTES = 8 * 1024 * 1024
"""Up to this much one task writes all buckets sooner than a shuffle deals them to several."""
_NARROW = ("Project", "Filter")


def is_small_batch(frame: DataFrame, *, tasks: int) -> bool:
    """Whether one task may as well write all rows: they lie in one Spark partition, and are few.

    Only of an RDD's rows, as those `foreachBatch` gets are, with columns computed and rows left
    out: other DataFrames may have work before them that would lose its tasks.

    Args:
        frame: The rows.
        tasks: Tasks that would write otherwise; if it is one, any number of rows counts as few.

    Cost:
        A plan of Spark's optimizer, no job.
    """
    java: Any = getattr(frame, "_jdf", None)
    if java is None:  # Connect does not say.
        return False
    plan = java.queryExecution().optimizedPlan()
    size = plan.stats().sizeInBytes()
    while plan.nodeName() in _NARROW:
        plan = plan.children().head()
    if plan.nodeName() != "LogicalRDD" or plan.rdd().getNumPartitions() != 1:
        return False
    return tasks == 1 or int(str(size)) <= _SMALL_BYTES
