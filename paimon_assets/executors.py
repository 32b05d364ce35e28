"""The executor of a kind: this process, or Spark, which is loaded by name: pyspark is an extra."""

import importlib
import importlib.util
from collections.abc import Callable
from types import ModuleType
from typing import Any

from paimon_assets.engine.contract.executor import CountingExecutor
from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.errors import InvalidInputError

EXECUTOR_KINDS = ("spark", "embedded", "auto")
"""Who reads and writes rows: Spark, this process, or Spark where pyspark is installed."""


def chosen_kind(kind: str) -> str:
    """Return the kind itself, of `auto` the one that is meant."""
    if kind != "auto":
        return kind
    return "embedded" if importlib.util.find_spec("pyspark") is None else "spark"


def new_executor(kind: str, session: Callable[[], Any]) -> CountingExecutor[Any]:
    """Return who reads and writes rows.

    Args:
        kind: One of `EXECUTOR_KINDS`.
        session: Returns the SparkSession; called if Spark is asked for.

    Raises:
        InvalidInputError: Another kind, or pyspark is not installed.
    """
    kind = chosen_kind(kind)
    if kind == "embedded":
        return EmbeddedExecutor()
    if kind != "spark":
        raise InvalidInputError(
            f"Executor '{kind}' is unknown; expected one of {', '.join(EXECUTOR_KINDS)}.",
            kind="executor-kind",
        )
    module = spark_module("paimon_assets.spark.executor")
    executor: CountingExecutor[Any] = module.SparkExecutor(session())
    return executor


def spark_module(name: str) -> ModuleType:
    """Load a module of the spark extra by name.

    Raises:
        InvalidInputError: Kind `spark-missing`; names the package.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # py4j comes with pyspark; who lacks it has not installed that.
        package = str(error.name).partition(".")[0].replace("py4j", "pyspark")
        raise InvalidInputError(
            f"Spark is asked for, but the package '{package}' is not installed: install "
            "paimon-assets[spark], or choose the executor 'embedded'.",
            kind="spark-missing",
            details={"package": package},
        ) from error
