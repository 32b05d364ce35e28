"""Frames of pyarrow, pandas, polars, duckdb and Spark ⇄ rows of a table.

The only place that knows frame libraries. None of them is imported: a frame is recognised by the
module of its type, and its creator has imported the library.

Filters of polars → Predicate.

An Expr lists its parts (`meta.pop`, the last one first), but not its function: so that is tried,
and the result compared.
"""

import importlib
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from functools import partial
from itertools import chain
from types import ModuleType
from typing import Any, get_origin

import pyarrow as pa
import pyarrow.types as pat

from paimon_assets.engine.codec.arrow import arrow_types
from paimon_assets.engine.codec.arrow.arrow_values import first_failing
from paimon_assets.engine.contract.executor import Executor, TakingExecutor
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.predicate import predicate as pred
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.words import printable, sample
from paimon_assets.engine.table.frames import object_columns as objects
from paimon_assets.engine.table.frames.arrow_filter import is_comparable


def weaker_filter(polars: Any, expression: Any) -> pred.Predicate | None:
    """Return a filter that is true wherever a polars Expr is; None if there is none."""
    parts = expression.meta.pop()[::-1]
    match parts:
        case [left, right] if expression.meta.eq(left & right):
            return pred.all_of(weaker_filter(polars, side) for side in parts)
        case [left, right] if expression.meta.eq(left | right):
            sides = [weaker_filter(polars, side) for side in parts]
            return pred.any_of([side for side in sides if side]) if None not in sides else None
        case [left, right] if left.meta.is_column() and right.meta.is_literal():
            return _comparison(polars, expression, left, right, is_mirrored=False)
        case [left, right] if left.meta.is_literal() and right.meta.is_column():
            return _comparison(polars, expression, right, left, is_mirrored=True)
        case [column] if column.meta.is_column():
            name = column.meta.output_name()
            if expression.meta.eq(column.is_null()):
                return pred.IsNull(name)
            return (
                pred.IsNull(name, negated=True)
                if expression.meta.eq(column.is_not_null())
                else None
            )
        case _:
            return None


def _comparison(
    polars: Any, expression: Any, column: Any, literal: Any, *, is_mirrored: bool
) -> pred.Predicate | None:
    name, value = column.meta.output_name(), polars.select(literal).to_series()
    values = value.to_list()
    if len(values) == 1 and isinstance(values[0], list):
        values = values[0]
    if not all(one is not None and is_comparable(one) for one in values):
        return None
    if not is_mirrored and expression.meta.eq(column.is_in(literal)):
        return pred.In(name, tuple(values))
    sides = (literal, column) if is_mirrored else (column, literal)
    for op in pred.CompareOp:
        if len(values) == 1 and expression.meta.eq(op.compare(*sides)):
            return pred.Comparison(name, op.mirror if is_mirrored else op, values[0])
    return None


Frame = Any
"""A pyarrow Table, RecordBatch, RecordBatchReader, Dataset or Scanner; a pandas DataFrame; a polars
DataFrame or LazyFrame; a duckdb relation, or whatever else has `__arrow_c_stream__`; a Spark
DataFrame, classic or Connect; a list of dicts; an iterator of these but Spark's."""

_REASON = 200
"""Characters of a library's own message."""


class FrameKind(StrEnum):
    """The kind of frame an input is loaded as."""

    ARROW = "pyarrow.Table"
    READER = "pyarrow.RecordBatchReader"
    DATASET = "pyarrow.dataset.Dataset"
    PANDAS = "pandas.DataFrame"
    POLARS = "polars.DataFrame"
    POLARS_LAZY = "polars.LazyFrame"
    SPARK = "pyspark.sql.DataFrame"


def frame_kind(annotation: object) -> FrameKind:
    """Return the frame type of an annotation; a pyarrow Table without one."""
    if annotation is None or annotation is Any:
        return FrameKind.ARROW
    frame_type = get_origin(annotation) or annotation
    for kind in FrameKind:
        library, _, name = kind.value.partition(".")
        if isinstance(frame_type, type) and _is_named(frame_type, library, name.rsplit(".", 1)[-1]):
            return kind
    raise InvalidInputError(
        f"An input cannot be loaded as {annotation}; annotate it as one of {', '.join(FrameKind)}.",
        kind="frame-type",
    )


Batches = Callable[[Sequence[str] | None, pred.Predicate | None], pa.RecordBatchReader]
"""Reads columns by name (all for None) of at least the rows for which a filter is true (all for
None); may be called again."""


def from_batches(kind: FrameKind, batches: Batches, schema: pa.Schema) -> Frame:
    """Return rows as a frame of this process.

    A reader, a dataset and a polars LazyFrame read in bounded memory; the last two read the columns
    and the rows their query needs. In a pandas frame, integers and booleans with gaps get pandas'
    own nullable types, so that no number is rounded.
    """
    match kind:
        case FrameKind.READER:
            return batches(None, None)
        case FrameKind.DATASET:
            name = "paimon_assets.engine.table.frames.arrow_dataset"
            return importlib.import_module(name).ScanDataset(schema, batches)
        case FrameKind.PANDAS:
            return to_pandas(batches(None, None).read_all())
        case FrameKind.POLARS:
            return library("polars").from_arrow(batches(None, None).read_all())
        case FrameKind.POLARS_LAZY:
            return to_lazy(batches, schema)
        case _:
            return batches(None, None).read_all()


def to_pandas(table: pa.Table) -> Any:
    """Return a pandas DataFrame, with the types of `from_batches`."""
    has_nested = any(map(pat.is_nested, table.schema.types))
    frame = table.to_pandas(integer_object_nulls=has_nested)  # lists of integers stay integers
    for name, column in zip(table.column_names, table.columns, strict=True):
        is_boolean = pat.is_boolean(column.type)
        if column.null_count and (is_boolean or pat.is_integer(column.type)):
            own = "boolean" if is_boolean else str(column.type).replace("int", "Int")
            dtype = library("pandas").api.types.pandas_dtype(own)
            frame[name] = column.to_pandas(types_mapper=partial(lambda own, _: own, dtype))
    return frame


def to_lazy(batches: Batches, arrow_schema: pa.Schema) -> Any:
    """Return a polars LazyFrame; columns, filters and limit of its query reach the read."""
    polars, plugins = library("polars"), importlib.import_module("polars.io.plugins")
    schema = polars.from_arrow(arrow_schema.empty_table()).schema

    def read(
        columns: list[str] | None, predicate: Any, row_limit: int | None, _size: int | None
    ) -> Iterator[Any]:
        left = row_limit
        # The limit counts rows before the filter.
        pushed = None if predicate is None or left is not None else weaker_filter(polars, predicate)
        with batches(columns or None, pushed) as opened:
            for batch in opened:
                frame = polars.from_arrow(pa.Table.from_batches([batch]))
                if left is not None:
                    frame = frame.head(left)
                    left -= frame.height
                frame = frame if predicate is None else frame.filter(predicate)
                yield frame.select(columns) if columns else frame
                if left == 0:
                    return

    return plugins.register_io_source(read, schema=schema)


def is_spark_frame(frame: Frame) -> bool:
    """Whether `frame` is a Spark DataFrame, classic or Connect."""
    return _is_of(frame, "pyspark", "DataFrame")


def spark_name(column: str) -> str:
    """Return a column's name as Spark reads it."""
    return "`" + column.replace("`", "``") + "`"


def to_rows(
    frame: Frame, executor: Executor[Any], schema: TableSchema, *, show_values: bool = True
) -> Any:
    """Return rows in a form that `executor` takes.

    A value is kept exactly, or refused (`docs/frames.md`). Arrow and Spark frames pass as they are;
    a reader, Dataset, Scanner or LazyFrame is streamed. A pandas frame is converted by column to
    the table's types: in it an integer with gaps is a float, and a day is its midnight.
    """
    if is_spark_frame(frame):
        if not (isinstance(executor, TakingExecutor) and executor.takes(frame)):
            raise InvalidInputError(
                "The rows are a Spark DataFrame, but the table is written by the embedded "
                "executor. Choose the Spark executor (executor='spark' on an asset or on "
                "PaimonCatalogResource, SparkExecutor(session) elsewhere), or give "
                "frame.toArrow().",
                kind="frame-type",
            )
        return frame
    if _is_of(frame, "polars", "LazyFrame"):
        return _from_lazy(frame)
    if _is_of(frame, "polars", "DataFrame"):
        return _from_polars(frame)
    if _is_of(frame, "pandas", "DataFrame"):
        with objects.zones_kept():
            return _from_pandas(frame, schema, show=show_values)
    if isinstance(frame, list):
        return _from_records(frame, schema)
    if isinstance(frame, Iterator) and not hasattr(frame, "__arrow_c_stream__"):
        return _chain(
            (to_rows(one, executor, schema, show_values=show_values) for one in frame), schema
        )
    return _from_arrow(frame)


def _from_records(records: list[Any], schema: TableSchema) -> pa.Table:
    """Return dicts as rows; a column that a dict lacks is null there."""
    if not records:
        return arrow_types.to_arrow_schema(schema.fields).empty_table()
    try:
        column = pa.array(records)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        message = f"The dicts are no rows: {str(error)[:_REASON]}."
        raise InvalidInputError(message, kind="frame-values") from error
    if not pat.is_struct(column.type):
        message = f"A list of rows holds dicts, column → value, not {column.type}."
        raise InvalidInputError(message, kind="frame-type")
    return pa.Table.from_batches([pa.RecordBatch.from_struct_array(column)])


def _chain(frames: Iterable[Any], schema: TableSchema) -> Any:
    """Return a reader of frames one after the other, with the columns of the first."""
    frames = iter(frames)
    first = next(frames, None)
    if first is None:
        return arrow_types.to_arrow_schema(schema.fields).empty_table()
    if is_spark_frame(first):
        message = "An iterator yields Spark DataFrames: return one, joined by unionByName."
        raise InvalidInputError(message, kind="frame-type")
    columns = first.schema

    def batches() -> Iterator[pa.RecordBatch]:
        for number, frame in enumerate(chain([first], frames), start=1):
            table = frame.read_all() if isinstance(frame, pa.RecordBatchReader) else frame
            if sorted(table.column_names) != sorted(columns.names):
                raise InvalidInputError(
                    f"Frame {number} has the columns {', '.join(table.column_names)}, the first "
                    f"has {', '.join(columns.names)}; give every frame the same columns.",
                    kind="frame-columns",
                )
            try:
                yield from table.select(columns.names).cast(columns).to_batches()
            except (pa.ArrowException, ValueError) as error:
                message = f"Frame {number} does not fit the types of the first: {error}."
                raise InvalidInputError(message, kind="frame-values") from error

    return pa.RecordBatchReader.from_batches(columns, batches())


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
        # Threads of Arrow read a gigabyte ahead, and hold a Parquet file's bytes until its end.
        own: Any = getattr(frame, "format", None)
        options: Any = getattr(own, "default_fragment_scan_options", None)
        chosen = {"use_threads": False, "fragment_readahead": 1, "batch_readahead": 1}
        if getattr(options, "pre_buffer", False) and options == options.__class__():
            chosen["fragment_scan_options"] = options.__class__(pre_buffer=False)
        return frame.scanner(**chosen).to_reader()
    if _is_of(frame, "pyarrow", "Scanner"):
        return frame.to_reader()
    if hasattr(frame, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(frame)
    kind = f"{type(frame).__module__}.{type(frame).__qualname__}"
    raise InvalidInputError(
        f"The rows are a {kind}; expected a pyarrow Table, RecordBatch, RecordBatchReader, Dataset"
        " or Scanner, a pandas DataFrame, a polars DataFrame or LazyFrame, a duckdb relation, a"
        " Spark DataFrame, a list of dicts, an iterator of frames, or anything with"
        " __arrow_c_stream__.",
        kind="frame-type",
    )


def _from_lazy(frame: Any) -> pa.RecordBatchReader:
    """Return a reader that runs a polars query, once, while its rows are read."""
    schema = _from_polars(frame.collect_schema().to_frame()).schema
    parts = (_from_polars(part).cast(schema) for part in frame.collect_batches(lazy=True))
    batches = (batch for part in parts for batch in part.to_batches())
    return pa.RecordBatchReader.from_batches(schema, batches)


def _from_polars(frame: Any) -> pa.Table:
    for name, dtype in frame.schema.items():
        unknown = _NOT_ARROW & set(_polars_kinds(dtype))
        if unknown:
            message = (
                f"Column '{name}' of the polars frame is {dtype}, and Arrow has no type for "
                f"{min(unknown)}; cast it first."
            )
            raise InvalidInputError(message, kind="frame-values", column=name)
    rows: pa.Table = frame.to_arrow()
    return rows


_NOT_ARROW = frozenset({"Object", "Int128", "UInt128", "Unknown"})
"""polars exports these as pointers, or as formats that pyarrow does not read."""


def _polars_kinds(dtype: Any) -> Iterator[str]:
    yield dtype.base_type().__name__
    inner = [field.dtype for field in getattr(dtype, "fields", ())]
    for part in [*inner, getattr(dtype, "inner", None)]:
        if part is not None:
            yield from _polars_kinds(part)


def _from_pandas(frame: Any, schema: TableSchema, *, show: bool) -> pa.Table:
    """Convert column by column; levels of the index that name columns of the table are columns."""
    levels = [name for name in frame.index.names if name in schema.by_name]
    names = [str(name) for name in frame.columns]
    if levels:
        both = [name for name in frame.index.names if name is not None and str(name) in names]
        if both:
            message = (
                f"'{both[0]}' is a column of the pandas frame and a level of its index; drop or "
                "rename one of them."
            )
            raise InvalidInputError(message, kind="frame-columns", column=str(both[0]))
        frame = frame.reset_index()
        names = [str(name) for name in frame.columns]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        message = (
            f"The pandas frame has columns that occur twice as text: {', '.join(twice)}; drop or "
            "rename them."
        )
        raise InvalidInputError(message, kind="frame-columns", column=twice[0])
    broken = [name for name in map(printable, names) if name not in names]
    if broken:
        message = (
            f"The pandas frame has a column '{broken[0]}', whose name holds half a character; "
            "rename it."
        )
        raise InvalidInputError(message, kind="frame-columns", column=broken[0])
    return pa.table(
        {
            str(name): _from_series(str(name), column, schema, show=show)
            for name, column in frame.items()
        }
    )


def _from_series(name: str, column: Any, schema: TableSchema, *, show: bool) -> Any:
    field = schema.by_name.get(name)
    target = None if field is None else arrow_types.to_arrow_type(field.type)
    shown = "" if field is None else f" is {field.type}, but it"
    try:
        return _convert(column, target)
    except objects.Mismatch as mismatch:
        row, value = mismatch.position, sample(mismatch.value, show=show)
        message = (
            f"Column '{name}' of the pandas frame ({column.dtype}){shown} cannot be stored: row "
            f"{row} holds {value}, which {mismatch.reason}."
        )
        raise InvalidInputError(message, kind="frame-values", column=name, row=row) from None
    except objects.CONVERSION_ERRORS as error:
        reason = f": {error}"[:_REASON] if show else ""
        text = (
            f"Column '{name}' of the pandas frame ({column.dtype}){shown} cannot be stored{reason}"
        )
        raise InvalidInputError(text, kind="frame-values", column=name) from error if show else None


def _convert(column: Any, target: Any) -> Any:
    """Convert a pandas column; for None as target type, to the one pyarrow takes it for."""
    if str(column.dtype) == "category":
        column = column.cat.remove_unused_categories()
        categories = column.cat.categories.to_series()
        if target is None:
            target = _natural_type(categories)
        codes = pa.array(column.cat.codes, mask=(column.cat.codes < 0).to_numpy())
        try:
            return _convert(categories, target).take(codes)
        except objects.Mismatch as mismatch:
            used = (column.cat.codes == mismatch.position).to_numpy()
            mismatch.position = int(used.argmax())
            raise
    if column.dtype == object:
        items = column.tolist()
        return objects.from_objects(items, _natural_type(items) if target is None else target)
    if hasattr(column, "sparse"):
        column = column.sparse.to_dense()
    try:
        values: Any = pa.Array.from_pandas(column)
    except UnicodeEncodeError as error:
        bad = first_failing(column.array, pa.array, objects.CONVERSION_ERRORS)
        raise objects.Mismatch(bad, column.iloc[bad], "is no Unicode text") from error
    if target is None:
        return values
    chunked = isinstance(values, pa.ChunkedArray)
    return objects.fit_column(values.combine_chunks() if chunked else values, target)


def _natural_type(values: Any) -> Any:
    """Return the Arrow type pyarrow takes values for; of objects, one `from_objects` knows."""
    arrow_type = pa.array(values, from_pandas=True).type
    try:
        return arrow_types.to_arrow_type(arrow_types.from_arrow_type(arrow_type))
    except InvalidInputError:  # whoever makes or checks the column refuses it, by its name
        return arrow_type


class FrameResults:
    """The reads of rows as frames, all of them made of `to_reader`."""

    __slots__ = ()

    @abstractmethod
    def to_reader(self, executor: Executor[Any] | None = None) -> pa.RecordBatchReader:
        """Plan, and read in bounded memory."""

    def to_arrow(self, executor: Executor[Any] | None = None) -> pa.Table:
        """Plan, and read everything into memory."""
        return self.to_reader(executor).read_all()

    def to_batches(self, executor: Executor[Any] | None = None) -> Iterator[pa.RecordBatch]:
        """Plan, and yield batches in bounded memory."""
        with self.to_reader(executor) as reader:
            yield from reader

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Hand the rows over by Arrow's C interface, so that a read passes for Arrow data."""
        reader: Any = self.to_reader()
        stream: object = reader.__arrow_c_stream__(requested_schema)
        return stream

    def to_pandas(self, executor: Executor[Any] | None = None) -> Any:
        """Read into a pandas DataFrame; numbers with gaps get pandas' own nullable types."""
        library("pandas")
        return to_pandas(self.to_arrow(executor))

    def to_polars(self, executor: Executor[Any] | None = None) -> Any:
        """Read into a polars DataFrame."""
        return library("polars").from_arrow(self.to_arrow(executor))


class FrameReads(FrameResults):
    """A read that also serves lazy frames, which name columns and rows later."""

    __slots__ = ()

    @abstractmethod
    def narrow(
        self,
        columns: Sequence[str] | None,
        predicate: pred.Predicate | None,
        executor: Executor[Any] | None = None,
    ) -> pa.RecordBatchReader:
        """Read some columns, and at least the rows for which a filter is true."""

    @property
    @abstractmethod
    def arrow_schema(self) -> pa.Schema:
        """The columns, without planning."""

    def scan_polars(self) -> Any:
        """Return a polars LazyFrame; its query's columns, filters and limit reach the read.

        It is planned for each `collect`: a time-travel target of this read holds for all of them.
        """
        return to_lazy(self.narrow, self.arrow_schema)

    def to_dataset(self) -> Any:
        """Return a `pyarrow.dataset.Dataset`; columns and filters of its scans reach the read."""
        module = importlib.import_module("paimon_assets.engine.table.frames.arrow_dataset")
        return module.ScanDataset(self.arrow_schema, self.narrow)

    def to_duckdb(self, connection: Any = None) -> Any:
        """Return a duckdb relation; columns and filters of its query reach the read."""
        return (connection or library("duckdb")).from_arrow(self.to_dataset())

    def to_spark(self, session: Any) -> Any:
        """Plan now, and return a lazy Spark DataFrame (`paimon_assets.spark.to_spark`)."""
        tables = importlib.import_module("paimon_assets.spark.dataframes.tables")
        return tables.to_spark(self, session)


def library(name: str) -> ModuleType:
    """Load a library of frames."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        message = f"The package '{error.name}' is not installed: install paimon-assets[{name}]."
        raise InvalidInputError(message, kind="library-missing", package=error.name) from error
