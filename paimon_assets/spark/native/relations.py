"""Files as a relation of Spark, kept for the next read of the same files.

Spark asks the storage for every file, and its class path for every format, each time a DataFrame
is made of files: 5 to 10 milliseconds for four of them, a third of what a lookup takes before its
job starts. Data files never change, so that a second read takes the relation of the first.
"""

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from paimon_assets.spark.job_names import is_connect
from paimon_assets.spark.kept import Kept

MOST_RELATIONS = 16
"""Kept for a session: those used last."""
MOST_FILES = 1_000
"""Of a relation that is kept; the JVM holds about a kilobyte for each."""

_relations = Kept(MOST_RELATIONS)


def kept_relation(session: SparkSession, key: object, load: Callable[[], DataFrame]) -> DataFrame:
    """Return the rows of files, whose relation is kept under a key; `load` makes a first one.

    Each DataFrame has columns of its own, so that two of them can be joined. Sessions of Connect
    keep nothing, nor does one in which files are not a plain relation.

    Raises:
        AnalysisException: As `load`.
    """
    if is_connect(session):
        return load()
    java: Any = session._jsparkSession  # noqa: SLF001 - PySpark has no call for it
    relation = _relations.get(session, key)
    if relation is not None:
        return DataFrame(java.baseRelationToDataFrame(relation), session)
    loaded = load()
    plan = loaded._jdf.queryExecution().analyzed()  # noqa: SLF001
    if plan.getClass().getSimpleName() == "LogicalRelation":
        _relations.keep(session, key, plan.relation())
    return loaded
