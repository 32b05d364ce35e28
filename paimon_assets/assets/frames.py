"""Frames people return and ask for (pyarrow, pandas, polars, Spark) ⇄ rows of a table.

The only place that knows frame libraries. None of them is imported: a frame is recognised by the
module its type comes from, and whoever made it has imported its library.
"""

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, get_origin

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_type
from paimon_assets.engine.contract.executor import CountingExecutor
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.schema.schema import TableSchema

Frame = Any
"""A pyarrow Table, RecordBatch, RecordBatchReader, Dataset or Scanner; a pandas DataFrame; a polars
DataFrame or LazyFrame; a Spark DataFrame, classic or Connect."""

_SUPPORTED = (
    "a pyarrow Table, RecordBatch, RecordBatchReader, Dataset or Scanner, a pandas DataFrame, a "
    "polars DataFrame or LazyFrame, a Spark DataFrame, or None for nothing to write"
)


class FrameKind(StrEnum):
    """The kind of frame an input is loaded as."""

    ARROW = "pyarrow.Table"
    READER = "pyarrow.RecordBatchReader"
    PANDAS = "pandas.DataFrame"
    POLARS = "polars.DataFrame"
    POLARS_LAZY = "polars.LazyFrame"
    SPARK = "pyspark.sql.DataFrame"


def frame_kind(annotation: object) -> FrameKind:
    """Return what an input annotated so is loaded as; a pyarrow Table without annotation.

    Raises:
        InvalidInputError: Another type; lists those that can be asked for.
    """
    if annotation is None or annotation is Any:
        return FrameKind.ARROW
    wanted = get_origin(annotation) or annotation
    for kind in FrameKind:
        library, _, name = kind.value.partition(".")
        if isinstance(wanted, type) and _is_named(wanted, library, name.rsplit(".", 1)[-1]):
            return kind
    raise InvalidInputError(
        f"An input cannot be loaded as {annotation}; annotate it as one of {', '.join(FrameKind)}.",
        kind="frame-type",
    )


Batches = Callable[[Sequence[str] | None], pa.RecordBatchReader]
"""Reads columns by name, or all for None; may be called again."""


def from_batches(kind: FrameKind, batches: Batches) -> Frame:
    """Return rows as a frame of this process.

    A reader and a polars LazyFrame read in bounded memory; the LazyFrame reads the columns its
    query needs. In a pandas frame, integers and booleans with gaps get pandas' own nullable types,
    so that no number is rounded.

    Args:
        kind: All but SPARK.
        batches: The read.
    """
    match kind:
        case FrameKind.READER:
            return batches(None)
        case FrameKind.PANDAS:
            return _to_pandas(batches(None).read_all())
        case FrameKind.POLARS:
            return importlib.import_module("polars").from_arrow(batches(None).read_all())
        case FrameKind.POLARS_LAZY:
            return _to_lazy(batches)
        case _:
            return batches(None).read_all()


def _to_pandas(table: pa.Table) -> Any:
    frame = table.to_pandas()
    for name, column in zip(table.column_names, table.columns, strict=True):
        if column.null_count and (pat.is_integer(column.type) or pat.is_boolean(column.type)):
            frame[name] = column.to_pandas(types_mapper=_nullable_dtype)
    return frame


def _nullable_dtype(arrow_type: Any) -> Any:
    """Return pandas' own type of integers or booleans with gaps."""
    is_boolean = pat.is_boolean(arrow_type)
    name = "boolean" if is_boolean else str(arrow_type).replace("int", "Int")
    return importlib.import_module("pandas").api.types.pandas_dtype(name)


def _to_lazy(batches: Batches) -> Any:
    polars = importlib.import_module("polars")
    plugins = importlib.import_module("polars.io.plugins")
    reader = batches(None)
    schema = polars.from_arrow(reader.schema.empty_table()).schema
    reader.close()

    def read(
        columns: list[str] | None, predicate: Any, row_limit: int | None, _size: int | None
    ) -> Iterator[Any]:
        left = row_limit
        with batches(columns or None) as opened:
            for batch in opened:
                frame = polars.from_arrow(pa.Table.from_batches([batch]))
                if left is not None:
                    frame = frame.head(left)
                    left -= frame.height
                yield frame if predicate is None else frame.filter(predicate)
                if left == 0:
                    return

    return plugins.register_io_source(read, schema=schema)


def is_spark_frame(frame: Frame) -> bool:
    """Whether `frame` is a Spark DataFrame, classic or Connect."""
    return _is_of(frame, "pyspark", "DataFrame")


def to_rows(frame: Frame, executor: CountingExecutor[Any], schema: TableSchema) -> Any:
    """Return what `executor` takes as rows.

    Arrow and Spark frames pass as they are; a RecordBatchReader, Dataset or Scanner is streamed. A
    pandas frame is converted column by column to the table's types, because it cannot tell an
    integer with gaps from a float, nor a day from its midnight; a polars frame is converted by
    polars.

    Args:
        frame: What a person's function returned; not None.
        executor: Who will write; only a Spark executor takes Spark frames.
        schema: The table's.

    Raises:
        InvalidInputError: Not a frame, a Spark frame on the embedded executor, or a pandas column
            whose values do not fit the table's column; names it.
    """
    if is_spark_frame(frame):
        if not executor.takes(frame):
            raise InvalidInputError(
                "The function returned a Spark DataFrame, but the table is written by the "
                "embedded executor. Set executor='spark' on the asset or on "
                "PaimonCatalogResource, or return frame.toArrow().",
                kind="frame-type",
            )
        return frame
    if _is_of(frame, "polars", "LazyFrame"):
        return frame.collect(engine="streaming").to_arrow()
    if _is_of(frame, "polars", "DataFrame"):
        return frame.to_arrow()
    if _is_of(frame, "pandas", "DataFrame"):
        return _from_pandas(frame, schema)
    return _from_arrow(frame)


def _is_of(frame: Frame, library: str, name: str) -> bool:
    return _is_named(type(frame), library, name)


def _is_named(kind: type, library: str, name: str) -> bool:
    return any(
        base.__name__ == name and base.__module__.split(".", 1)[0] == library
        for base in kind.__mro__
    )


def _from_arrow(frame: Frame) -> Any:
    if isinstance(frame, pa.Table | pa.RecordBatchReader):
        return frame
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame])
    # By name, because pyarrow.dataset imports pandas.
    if _is_of(frame, "pyarrow", "Dataset"):
        return frame.scanner().to_reader()
    if _is_of(frame, "pyarrow", "Scanner"):
        return frame.to_reader()
    kind = f"{type(frame).__module__}.{type(frame).__qualname__}"
    raise InvalidInputError(
        f"The function returned a {kind}; expected {_SUPPORTED}.", kind="frame-type"
    )


def _from_pandas(frame: Any, schema: TableSchema) -> pa.Table:
    """Convert column by column; an index that names table columns counts as columns."""
    missing = [name for name in frame.index.names if name in schema.by_name]
    if any(name not in frame.columns for name in missing):
        frame = frame.reset_index()
    columns: Mapping[str, Any] = {str(name): frame[name] for name in frame.columns}
    return pa.table({name: _from_series(name, column, schema) for name, column in columns.items()})


def _from_series(name: str, column: Any, schema: TableSchema) -> Any:
    field = schema.by_name.get(name)
    wanted = to_arrow_type(field.type) if field is not None else None
    try:
        return pa.Array.from_pandas(column) if wanted is None else _as_wanted(column, wanted)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        shown = f" of type {field.type}" if field is not None else ""
        raise InvalidInputError(
            f"Column '{name}' of the pandas frame ({column.dtype}) does not fit the table's column"
            f"{shown}: {error}",
            kind="frame-values",
            details={"column": name},
        ) from error


def _as_wanted(column: Any, wanted: Any) -> Any:
    """Convert a pandas column; where pandas' conversion would lose something, check or leave it.

    What is left as pandas has it is refused by the writer, with a message of its own: times with a
    zone for times without one, booleans for numbers.
    """
    if not (pat.is_primitive(wanted) or pat.is_decimal(wanted)):
        return pa.Array.from_pandas(column, type=wanted)
    natural: Any = pa.Array.from_pandas(column)
    if pat.is_decimal(wanted) or pat.is_time(wanted):
        return natural
    if pat.is_timestamp(natural.type) and pat.is_date(wanted):
        return _days(natural, wanted)
    if pat.is_timestamp(natural.type) and pat.is_timestamp(wanted):
        if (natural.type.tz is None) != (wanted.tz is None):
            return natural
    elif pat.is_boolean(natural.type) != pat.is_boolean(wanted):
        return natural
    elif pat.is_float64(natural.type) and pat.is_floating(wanted):
        return _narrowed(natural, wanted)
    return pa.Array.from_pandas(column, type=wanted)


def _days(moments: Any, wanted: Any) -> Any:
    """Return the days of moments at midnight; pandas has no dates."""
    if moments.type.tz is not None:
        return moments
    days = moments.cast(wanted)
    late = moments.filter(pc.not_equal(days.cast(moments.type), moments))
    if len(late):
        raise pa.ArrowInvalid(f"{late[0]} is no day, it has a time; take .dt.normalize() first")
    return days


def _narrowed(numbers: Any, wanted: Any) -> Any:
    narrow = numbers.cast(wanted)
    inexact = numbers.filter(pc.not_equal(narrow.cast(numbers.type), numbers))
    if len(inexact):
        raise pa.ArrowInvalid(f"{inexact[0]} would be rounded; take .astype('float32') first")
    return narrow
