"""Views as inputs: their query runs on Spark, whatever the rows are handed on as."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from paimon_assets.assets.resource import PaimonCatalogResource
from paimon_assets.assets.tables.io_metadata import COLUMNS, EXECUTOR, WHERE
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.errors import InvalidInputError, UnsupportedFeatureError
from paimon_assets.engine.spec.predicate.predicate import Predicate
from paimon_assets.engine.table.frames.frames import Frame, FrameKind, from_batches
from paimon_assets.executors import spark_module

_PREFIX = "paimon/"
_TAKEN = frozenset({COLUMNS, WHERE, EXECUTOR})


def view_rows(
    paimon: PaimonCatalogResource,
    view: Identifier,
    kind: FrameKind,
    metadata: Mapping[str, Any],
    refused: UnsupportedFeatureError,
) -> Frame:
    """Return the rows of a view as an input wants them.

    All kinds but a Spark DataFrame hold them in memory. `refused` is raised where Spark is not what
    runs inputs.
    """
    other = sorted({key for key in metadata if key.startswith(_PREFIX)} - _TAKEN)
    if other:
        raise InvalidInputError(
            f"'{view}' is a view, which takes no '{other[0].removeprefix(_PREFIX)}': say columns"
            " and where, or read the tables of its query.",
            kind="view-input",
            details={"view": str(view)},
        )
    asked = metadata.get(EXECUTOR)
    if kind is not FrameKind.SPARK and paimon.executor_kind(asked) != "spark":
        raise refused
    names = metadata.get(COLUMNS)
    columns = "*" if names is None else ", ".join(f"`{name}`" for name in names)
    where = f" WHERE {metadata[WHERE]}" if WHERE in metadata else ""
    text = f"SELECT {columns} FROM `{view.database}`.`{view.table}`{where}"  # noqa: S608 - names are quoted
    module = spark_module("paimon_assets.spark.sql.spark_sql")
    types = spark_module("paimon_assets.spark.types")
    executor: Any = paimon.new_executor("spark")
    frame = module.spark_sql(executor.session, paimon.catalog(), text)
    if kind is FrameKind.SPARK:
        return frame

    def read(wanted: Sequence[str] | None, _: Predicate | None) -> pa.RecordBatchReader:
        chosen = frame if wanted is None else frame.select(*(f"`{name}`" for name in wanted))
        table: pa.Table = chosen.toArrow()
        return table.to_reader()

    return from_batches(kind, read, types.spark_arrow_schema(frame.schema))
