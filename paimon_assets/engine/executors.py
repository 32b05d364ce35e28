"""Executors by kind: this process, Spark, or a choice of both. Spark is loaded by name."""

import importlib
import importlib.util
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any, Protocol

import pyarrow as pa

from paimon_assets.engine.contract.commit_message import WriteResult
from paimon_assets.engine.contract.context import ReadContext, WriteContext
from paimon_assets.engine.contract.executor import (
    ClusteringExecutor,
    ClusterOrder,
    CountingExecutor,
    RepeatedKeys,
    RewritingExecutor,
    TaskBatch,
)
from paimon_assets.engine.contract.split import Splits
from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.table.frames.frames import is_spark_frame

EXECUTOR_KINDS = ("spark", "embedded", "auto")
"""The executor of rows: Spark, this process, or `AutoExecutor`'s choice for each piece of work."""

SPARK_FROM_BYTES = 512 * 1024 * 1024
"""Bytes of files from which `auto` works on Spark; starting it takes as long as reading these."""


def has_spark() -> bool:
    """Whether pyspark is installed."""
    return importlib.util.find_spec("pyspark") is not None


def kind_for(kind: str, input_bytes: int) -> str:
    """Return the executor, `spark` or `embedded`, of a kind for files of so many bytes."""
    if kind != "auto":
        return kind
    return "spark" if input_bytes >= SPARK_FROM_BYTES and has_spark() else "embedded"


class WholeExecutor(CountingExecutor[Any], ClusteringExecutor, RewritingExecutor, Protocol):
    """An executor that does all that is asked of one: each of a kind is."""


class AutoExecutor:
    """Works on Spark for Spark DataFrames and large inputs, else in this process.

    Methods do and raise as those of `EmbeddedExecutor` and `SparkExecutor`.

    Args:
        session: Returns the SparkSession; called when Spark is first needed.
        log: Gets lines of progress of this process.
    """

    def __init__(
        self, session: Callable[[], Any], *, log: Callable[[str], None] | None = None
    ) -> None:
        self._session = session
        self._log = log

    def _of_size(self, size: int) -> WholeExecutor:
        return new_executor(kind_for("auto", size), self._session, log=self._log)

    def _of_splits(self, splits: Splits) -> WholeExecutor:
        return self._of_size(sum(split.file_bytes for split in splits))

    def _of_rows(self, rows: Any) -> WholeExecutor:
        kind = "spark" if is_spark_frame(rows) else "embedded"
        return new_executor(kind, self._session, log=self._log)

    def map_splits(self, context: ReadContext, splits: Splits) -> Iterator[pa.RecordBatch]:
        """Read splits in order."""
        return self._of_splits(splits).map_splits(context, splits)

    def count_rows(self, context: ReadContext, splits: Splits) -> int:
        """Count the rows of a read."""
        return self._of_splits(splits).count_rows(context, splits)

    def repeated_keys(
        self, context: ReadContext, splits: Splits, key: Sequence[str]
    ) -> RepeatedKeys:
        """Find the values of a key that several rows share."""
        return self._of_splits(splits).repeated_keys(context, splits, key)

    def takes(self, rows: object) -> bool:
        """Whether rows are Arrow's or Spark's."""
        return is_spark_frame(rows) or EmbeddedExecutor().takes(rows)

    def row_schema(self, rows: Any) -> pa.Schema:
        """Return the schema of rows."""
        return self._of_rows(rows).row_schema(rows)

    def map_rows(self, context: WriteContext, rows: Any) -> WriteResult:
        """Write rows: DataFrames of Spark on Spark, other rows in this process, in memory."""
        return self._of_rows(rows).map_rows(context, rows)

    def rewrite(self, read: ReadContext, splits: Splits, write: WriteContext) -> WriteResult:
        """Read splits and write their rows."""
        return self._of_splits(splits).rewrite(read, splits, write)

    def cluster(
        self, read: ReadContext, splits: Splits, write: WriteContext, order: ClusterOrder
    ) -> WriteResult:
        """Write the rows of splits in another order."""
        return self._of_splits(splits).cluster(read, splits, write, order)

    def map_tasks(self, batch: TaskBatch) -> Iterator[tuple[int, bytes]]:
        """Run tasks; their weights are bytes."""
        return self._of_size(sum(batch.weights)).map_tasks(batch)


def new_executor(
    kind: str, session: Callable[[], Any], *, log: Callable[[str], None] | None = None
) -> WholeExecutor:
    """Return the executor that reads and writes rows.

    >>> executor = new_executor("embedded", session=lambda: None)
    >>> table.new_read_builder().to_arrow(executor).num_rows
    2

    Args:
        kind: One of `EXECUTOR_KINDS`.
        session: Returns the SparkSession; called if Spark is asked for, with `auto` when needed.
        log: Gets lines of progress of the work of this process.

    Raises:
        InvalidInputError: Another kind, or pyspark is not installed.
    """
    if kind == "auto" and has_spark():
        return AutoExecutor(session, log=log)
    if kind in {"auto", "embedded"}:
        return EmbeddedExecutor(log=log)
    if kind != "spark":
        message = f"Executor '{kind}' is unknown; expected one of {', '.join(EXECUTOR_KINDS)}."
        raise InvalidInputError(message, kind="executor-kind")
    module = spark_module("paimon_assets.spark.executor")
    executor: WholeExecutor = module.SparkExecutor(session())
    return executor


def spark_module(name: str) -> ModuleType:
    """Load a module of the spark extra by name.

    Raises:
        InvalidInputError: Kind `spark-missing`; names the package.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # py4j is installed with pyspark; without the one the other is missing.
        package = str(error.name).partition(".")[0].replace("py4j", "pyspark")
        extra = "dagster-pyspark" if package == "dagster_pyspark" else "spark"
        message = (
            f"Spark is asked for, but the package '{package}' is not installed: install "
            f"paimon-assets[{extra}], or choose the executor 'embedded'."
        )
        raise InvalidInputError(message, kind="spark-missing", package=package) from error
