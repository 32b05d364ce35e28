"""Inputs other than whole tables: views, whose query runs on Spark, and columns inside columns."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from paimon_assets.assets.resource import PaimonCatalogResource
from paimon_assets.assets.tables.io_metadata import COLUMNS, EXECUTOR, WHERE
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.errors import InvalidInputError, NotFoundError, UnsupportedFeatureError
from paimon_assets.engine.spec.predicate.predicate import Predicate
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types.data_types import DataField, RowType
from paimon_assets.engine.table.frames.frames import Frame, FrameKind, from_batches, spark_name
from paimon_assets.executors import SPARK_FROM_BYTES, spark_module

_PREFIX = "paimon/"
_TAKEN = frozenset({COLUMNS, WHERE, EXECUTOR})


def view_rows(
    paimon: PaimonCatalogResource,
    view: Identifier,
    kind: FrameKind,
    metadata: Mapping[str, Any],
    refused: UnsupportedFeatureError,
) -> Frame:
    """Return the rows of a view as a frame of some kind.

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
    # How large a view is, is not known; only Spark runs its query.
    works_on = paimon.executor_for(SPARK_FROM_BYTES, metadata.get(EXECUTOR))
    if kind is not FrameKind.SPARK and works_on != "spark":
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

    def read(names: Sequence[str] | None, _: Predicate | None) -> pa.RecordBatchReader:
        columns_frame = frame if names is None else frame.select(*(f"`{name}`" for name in names))
        table: pa.Table = columns_frame.toArrow()
        return table.to_reader()

    return from_batches(kind, read, types.spark_arrow_schema(frame.schema))


@dataclass(frozen=True, kw_only=True)
class NestedColumns:
    """The columns of an input, some of them inside others."""

    paths: dict[str, tuple[str, ...]]
    """Name in the frame → the column it is of, and the fields below that."""

    @property
    def tops(self) -> tuple[str, ...]:
        """The columns that are read."""
        return tuple(dict.fromkeys(path[0] for path in self.paths.values()))

    def tops_of(self, names: Sequence[str] | None) -> tuple[str, ...]:
        """Return the columns that some names need, of all for None."""
        chosen = self.paths if names is None else names
        return tuple(dict.fromkeys(self._path(name)[0] for name in chosen))

    def narrowed(
        self, reader: pa.RecordBatchReader, names: Sequence[str] | None = None
    ) -> pa.RecordBatchReader:
        """Return a reader of the columns asked for, in the memory of one batch.

        A column that is none of the tops, as `rowkind`, comes first.
        """
        more = [name for name in reader.schema.names if name not in self.tops]
        chosen = [*more, *self.paths] if names is None else list(names)
        empty = pa.RecordBatch.from_pylist([], schema=reader.schema)
        schema = self._of(empty, chosen).schema

        def batches() -> Iterator[pa.RecordBatch]:
            with reader:
                for batch in reader:
                    yield self._of(batch, chosen)

        return pa.RecordBatchReader.from_batches(schema, batches())

    def of_spark(self, frame: Any) -> Any:
        """Return the same columns of a Spark DataFrame."""
        more = [name for name in frame.columns if name not in self.tops]
        return frame.select(*(_spark_field(frame, self._path(n), n) for n in (*more, *self.paths)))

    def _of(self, batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
        arrays: list[Any] = []
        for name in names:
            top, *below = self._path(name)
            column: Any = batch.column(batch.schema.names.index(top))
            arrays.append(pc.struct_field(column, below) if below else column)
        return pa.RecordBatch.from_arrays(arrays, names=list(names))

    def _path(self, name: str) -> tuple[str, ...]:
        return self.paths.get(name, (name,))


def nested_columns(names: Sequence[str], schema: TableSchema) -> NestedColumns | None:
    """Return the columns of an input, None if none of them lies inside another.

    A column whose own name has dots comes before a field inside one.
    """
    paths = {name: _path(name, schema) for name in names}
    if all(len(path) == 1 for path in paths.values()):
        return None
    return NestedColumns(paths=paths)


def _path(name: str, schema: TableSchema) -> tuple[str, ...]:
    if name in schema.by_name:
        return (name,)
    parts = name.split(".")
    for length in range(len(parts) - 1, 0, -1):
        top = schema.by_name.get(".".join(parts[:length]))
        if top is not None:
            return (top.name, *_below(name, top, parts[length:]))
    return (name,)  # whoever plans the read says that there is none


def _below(name: str, top: DataField, parts: Sequence[str]) -> Sequence[str]:
    field = top
    for part in parts:
        inner = field.type.fields if isinstance(field.type, RowType) else ()
        next_field = next((each for each in inner if each.name == part), None)
        if next_field is None:
            has = ", ".join(each.name for each in inner) or "none"
            raise NotFoundError(
                f"Column '{name}' does not exist; '{field.name}' is {field.type.root} and has the "
                f"fields {has}.",
                kind="column-not-found",
                details={"column": name},
            )
        field = next_field
    return parts


def _spark_field(frame: Any, path: Sequence[str], name: str) -> Any:
    top, *below = path
    column = frame[spark_name(top)]
    for part in below:
        column = column.getField(part)
    return column.alias(name)
