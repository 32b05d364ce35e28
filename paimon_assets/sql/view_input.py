"""An input of an asset that is a view: its query runs on Spark."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from paimon_assets.assets.resource import PaimonCatalogResource
from paimon_assets.assets.tables.io_metadata import COLUMNS, EXECUTOR, PREFIX, WHERE
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.errors import InvalidInputError, UnsupportedFeatureError
from paimon_assets.engine.executors import SPARK_FROM_BYTES, spark_module
from paimon_assets.engine.spec.predicate.predicate import Predicate
from paimon_assets.engine.table.frames.frames import Frame, FrameKind, from_batches

_TAKEN = frozenset({COLUMNS, WHERE, EXECUTOR})


def view_rows(
    paimon: PaimonCatalogResource,
    view: Identifier,
    kind: FrameKind,
    metadata: Mapping[str, Any],
    refused: UnsupportedFeatureError,
) -> Frame:
    """Return the rows of a view as a frame of some kind.

    All kinds but a Spark DataFrame hold them in memory. `refused` is raised where inputs do not
    run on Spark.
    """
    other = sorted({key for key in metadata if key.startswith(PREFIX)} - _TAKEN)
    if other:
        message = (
            f"'{view}' is a view, which takes no '{other[0].removeprefix(PREFIX)}': say columns"
            " and where, or read the tables of its query."
        )
        raise InvalidInputError(message, kind="view-input", view=str(view))
    # How large a view is, is not known; only Spark runs its query.
    works_on = paimon.executor_for(SPARK_FROM_BYTES, metadata.get(EXECUTOR))
    if kind is not FrameKind.SPARK and works_on != "spark":
        raise refused
    names = metadata.get(COLUMNS)
    columns = "*" if names is None else ", ".join(f"`{name}`" for name in names)
    where = f" WHERE {metadata[WHERE]}" if WHERE in metadata else ""
    text = f"SELECT {columns} FROM `{view.database}`.`{view.table}`{where}"
    module = spark_module("paimon_assets.sql.spark.spark_sql")
    types = spark_module("paimon_assets.spark.types")
    executor: Any = paimon.new_executor("spark")
    frame = module.spark_sql(executor.session, paimon.catalog(), text)
    if kind is FrameKind.SPARK:
        return frame

    def read(names: Sequence[str] | None, _: Predicate | None) -> pa.RecordBatchReader:
        columns_frame = frame if names is None else frame.select(*(f"`{name}`" for name in names))
        table: pa.Table = columns_frame.toArrow()
        return table.to_reader()

    return from_batches(kind, read, types.spark_arrow_schema(frame.schema))
