"""Partition keys of Dagster against columns of a table: which rows belong to a run's partitions.

A static or dynamic key is the column's value as text. A time-window key is the window's half-open
range: in the definition's own calendar for DATE and TIMESTAMP columns, as instants for
TIMESTAMP_LTZ; for any other type the key itself is the value as text. Of a multi-partition key,
each dimension has its column.
"""

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

import dagster as dg
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_type
from paimon_assets.engine.codec.arrow.arrow_values import first_failing, to_scalar
from paimon_assets.engine.codec.arrow.numpy_columns import Longs
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.partition import unescape
from paimon_assets.engine.spec.predicate import predicate as pred
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types.data_types import DataField, TypeRoot
from paimon_assets.engine.spec.types.literals import Internal, to_internal
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.spec.words import plain_sample, sample
from paimon_assets.engine.table.frames.frames import Frame, is_spark_frame, spark_name

PARTITION_COLUMNS = "paimon/partition_columns"
"""Metadata key: the column, or dimension → column, that holds the key of a partitioned asset."""

_DAY = dt.timedelta(days=1)

PartitionColumns = str | Mapping[str, str]
"""The column of the partition key; of a multi-partition key, dimension → column."""


class Span(Struct, frozen=True):
    """Values of one column: `lower <= value < upper`, or `value = lower` where upper is None."""

    lower: Internal
    upper: Internal | None = None

    def holds(self, value: Internal) -> bool:
        lower, upper = _rank(self.lower), None if self.upper is None else _rank(self.upper)
        found = _rank(value)
        return found == lower if upper is None else lower <= found < upper


class RunPartitions(Value, dict=True):
    """The partitions a run is about, and the rows that belong to each."""

    keys: tuple[str, ...]
    """Dagster's partition keys, in its order."""
    fields: tuple[DataField, ...]
    cells: tuple[tuple[Span, ...], ...]
    """For each key, the values of each column."""

    @property
    def label(self) -> str:
        """How messages and snapshots name the partitions."""
        return label_of(self.keys)

    def numbers(self, columns: "Sequence[pa.Array[Any]]") -> Longs:
        """Return for each row the number of its partition, -1 for rows of none.

        There is one array for each of `fields`.
        """
        codes: Longs | None = None
        for index, values in zip(self._indexes, columns, strict=True):
            places = index.codes(values)
            if codes is None:
                codes = places
            else:
                inside = (codes >= 0) & (places >= 0)
                codes = np.where(inside, codes * len(index.spans) + places, -1)
        ordered, numbers = self._cell_codes
        if codes is None or not len(ordered):
            return np.full(len(columns[0]) if columns else 0, -1, np.int64)
        place = np.minimum(np.searchsorted(ordered, codes), len(ordered) - 1)
        return np.where(ordered[place] == codes, numbers[place], -1)

    def predicate(self) -> pred.Predicate:
        """Return the condition of all these rows; without partitions it holds for none."""
        if not self.cells:
            return pred.In(self.fields[0].name, ())
        # The column with the most values has one condition for each cell of the other columns.
        widest = max(range(len(self.fields)), key=lambda number: len(self._indexes[number].spans))
        groups: dict[tuple[Span, ...], list[Span]] = {}
        for cell in self.cells:
            groups.setdefault(cell[:widest] + cell[widest + 1 :], []).append(cell[widest])
        rest = self.fields[:widest] + self.fields[widest + 1 :]
        alternatives = []
        for cell, spans in groups.items():
            parts = [_condition(field, [span]) for field, span in zip(rest, cell, strict=True)]
            alternatives.append(pred.all_of([*parts, _condition(self.fields[widest], spans)]))
        return pred.any_of([each for each in alternatives if each is not None])

    def may_hold(self, file: str) -> bool:
        """Whether a file may hold such rows, by the folders of its path: `day=2024-01-31/`."""
        cells = self.cells
        texts = dict(part.split("=", 1) for part in file.split("/")[:-1] if "=" in part)
        for number, field in enumerate(self.fields):
            if field.name in texts:
                value = to_internal(unescape(texts[field.name]), field.type, field.name)
                cells = tuple(cell for cell in cells if cell[number].holds(value))
        return bool(cells)

    @cached_property
    def _indexes(self) -> "tuple[_SpanIndex, ...]":
        return tuple(
            _SpanIndex(field, {cell[number] for cell in self.cells})
            for number, field in enumerate(self.fields)
        )

    @cached_property
    def _cell_codes(self) -> tuple[Longs, Longs]:
        """Codes of the cells in ascending order, and the number of each cell."""
        codes = []
        for cell in self.cells:
            code = 0
            for index, span in zip(self._indexes, cell, strict=True):
                code = code * len(index.spans) + index.places[span]
            codes.append(code)
        numbers = np.asarray(codes, np.int64)
        order = np.argsort(numbers, kind="stable")
        return numbers[order], order.astype(np.int64)


class _SpanIndex:
    """The spans of one column; finds the span of each value."""

    def __init__(self, field: DataField, spans: Iterable[Span]) -> None:
        self._type: Any = to_arrow_type(field.type)
        self.spans: list[Span] = sorted(spans, key=lambda span: _rank(span.lower))
        self.places = {span: place for place, span in enumerate(self.spans)}
        self._is_windows = any(span.upper is not None for span in self.spans)
        lowers = [to_scalar(span.lower, field.type) for span in self.spans]
        if self._is_windows:
            uppers = [to_scalar(span.upper, field.type) for span in self.spans]
            self._lowers = _as_numbers(pa.array(lowers, self._type))
            self._uppers = _as_numbers(pa.array(uppers, self._type))
        else:
            self._values: Any = pa.array(lowers, self._type)

    def codes(self, values: "pa.Array[Any]") -> Longs:
        """Return the place of each value's span, -1 for values of none and for nulls."""
        cast: Any = values.cast(self._type)
        if not self._is_windows:
            places = pc.index_in(cast, value_set=self._values).fill_null(-1)
            return np.asarray(places, np.int64)
        numbers = _as_numbers(cast.fill_null(0))
        place = np.searchsorted(self._lowers, numbers, side="right") - 1
        inside = (place >= 0) & (numbers < self._uppers[place]) & np.asarray(cast.is_valid())
        return np.where(inside, place, -1)


def _rank(value: Internal) -> tuple[str, Any]:
    return type(value).__name__, value


def _as_numbers(values: Any) -> Longs:
    """Return days or timestamps as integers; windows exist for these only."""
    if pa.types.is_date32(values.type):
        values = values.view(pa.int32())
    return np.asarray(values.cast(pa.int64()), np.int64)


def run_partitions(
    keys: Sequence[str],
    definition: dg.PartitionsDefinition[Any],
    columns: PartitionColumns,
    schema: TableSchema,
) -> RunPartitions:
    """Return the rows that belong to partition keys.

    They need not follow each other.
    """
    dimensions = _dimensions(definition, columns)
    fields = tuple(schema.column(column) for column, _, _ in dimensions)
    refuse_equal_keys(definition, columns, fields)
    cells = [
        tuple(
            _span(parts[name], part_of, field)
            for (_, name, part_of), field in zip(dimensions, fields, strict=True)
        )
        for parts in (_parts(key, definition) for key in keys)
    ]
    if len(set(cells)) < len(cells):
        _refuse_equal(zip(map(str, keys), cells, strict=True), fields[0])
    return RunPartitions(keys=tuple(map(str, keys)), fields=fields, cells=tuple(cells))


def keys_before(definition: dg.PartitionsDefinition[Any], key: str) -> list[str] | None:
    """Return the keys of time windows before a key's, the newest last; None without windows.

    Other dimensions of a multi-partition key stay.
    """
    if isinstance(definition, dg.TimeWindowPartitionsDefinition):
        keys = definition.get_partition_keys()
        return list(keys[: keys.index(key)]) if key in keys else []
    if isinstance(definition, dg.MultiPartitionsDefinition):
        parts = definition.get_partition_key_from_str(key).keys_by_dimension
        for dimension in definition.partitions_defs:
            before = keys_before(dimension.partitions_def, parts[dimension.name])
            if before is not None:
                keys_of = ({**parts, dimension.name: each} for each in before)
                return [str(dg.MultiPartitionKey(each)) for each in keys_of]
    return None


def refuse_equal_keys(
    definition: dg.PartitionsDefinition[Any], columns: PartitionColumns, fields: Iterable[DataField]
) -> None:
    """Refuse static keys that are one value of their column: their runs would share the rows.

    Keys that are no values of the column are left to the run that is about them. The fields are the
    table's columns, all or those that hold the key.
    """
    by_name = {field.name: field for field in fields}
    for column, _, part_of in _dimensions(definition, columns):
        if isinstance(part_of, dg.StaticPartitionsDefinition) and column in by_name:
            spans = []
            for key in part_of.get_partition_keys():
                with suppress(InvalidInputError):
                    spans.append((key, _span(key, part_of, by_name[column])))
            _refuse_equal(spans, by_name[column])


def _refuse_equal(values: Iterable[tuple[str, Any]], field: DataField) -> None:
    keys: dict[Any, str] = {}
    for key, value in values:
        first = keys.setdefault(value, key)
        if first != key:
            message = (
                f"Partition keys '{first}' and '{key}' are one value of column '{field.name}' "
                f"({field.type}): each run would replace the other's rows. Keep one of them."
            )
            raise InvalidInputError(message, kind="partition-key", column=field.name)


def column_names(columns: PartitionColumns) -> tuple[str, ...]:
    return (columns,) if isinstance(columns, str) else tuple(columns.values())


def label_of(keys: Sequence[str]) -> str:
    """Return a short name of partition keys: the key, or first...last."""
    return f"{keys[0]}...{keys[-1]}" if len(keys) > 1 else "".join(keys)


_Dimension = tuple[str, str, dg.PartitionsDefinition[Any]]
"""Column, name of the dimension (empty if there is but one), its definition."""


def _dimensions(
    definition: dg.PartitionsDefinition[Any], columns: PartitionColumns
) -> list[_Dimension]:
    if not isinstance(definition, dg.MultiPartitionsDefinition):
        if not isinstance(columns, str):
            raise InvalidInputError(
                f"The asset has one partition dimension; name its column instead of {columns}.",
                kind="partition-column",
            )
        return [(columns, "", definition)]
    parts = {part.name: part.partitions_def for part in definition.partitions_defs}
    named = {} if isinstance(columns, str) else dict(columns)
    if set(named) != set(parts):
        raise InvalidInputError(
            f"The asset's partition dimensions are {', '.join(sorted(parts))}; give each its "
            f"column, as a mapping of dimension to column, not {columns!r}.",
            kind="partition-column",
        )
    return [(column, name, parts[name]) for name, column in named.items()]


def _parts(key: str, definition: dg.PartitionsDefinition[Any]) -> Mapping[str, str]:
    """Return dimension → key; the one of a definition without dimensions has no name."""
    if isinstance(definition, dg.MultiPartitionsDefinition):
        parts: Mapping[str, str] = definition.get_partition_key_from_str(key).keys_by_dimension
        return parts
    return {"": key}


def _span(key: str, definition: dg.PartitionsDefinition[Any], field: DataField) -> Span:
    if not key:
        message = f"An empty partition key is no value of column '{field.name}'."
        raise InvalidInputError(message, kind="partition-key", column=field.name)
    if isinstance(definition, dg.TimeWindowPartitionsDefinition):
        window = definition.time_window_for_partition_key(key)
        bounds = _window_bounds(field, window.start, window.end)
        if bounds is not None:
            return Span(*bounds)
    value = to_internal(key, field.type, field.name)
    if to_scalar(value, field.type).type != to_arrow_type(field.type):
        message = f"Column '{field.name}' is {field.type}; partition key '{key}' does not fit it."
        raise InvalidInputError(message, kind="literal", column=field.name)
    return Span(value)


def _window_bounds(
    field: DataField, start: dt.datetime, end: dt.datetime
) -> tuple[int, int] | None:
    """Return a window as days or nanoseconds, None for columns of other types."""
    local = (start.replace(tzinfo=None), end.replace(tzinfo=None))
    is_exact = True
    match field.type.root:
        case TypeRoot.DATE:
            bounds: tuple[dt.date, dt.date] = (start.date(), end.date())
            is_exact = (local[1] - local[0]) % _DAY == dt.timedelta(0)
        case TypeRoot.TIMESTAMP:
            bounds = local
        case TypeRoot.TIMESTAMP_LTZ:
            bounds = (start.astimezone(dt.UTC), end.astimezone(dt.UTC))
        case _:
            return None
    lower, upper = (int(to_internal(bound, field.type, field.name) or 0) for bound in bounds)
    # Where a clock is set back, a window may end at the wall time of its start.
    if not is_exact or lower >= upper:
        message = (
            f"Column '{field.name}' ({field.type}) cannot tell the window from {start} to {end} "
            "from its neighbours. Use a TIMESTAMP WITH LOCAL TIME ZONE column, or wider windows."
        )
        raise InvalidInputError(message, kind="partition-window", column=field.name)
    return lower, upper


def _condition(field: DataField, spans: Sequence[Span]) -> pred.Predicate:
    """Return the condition of any of some spans; windows that touch become one."""
    points = [span.lower for span in spans if span.upper is None]
    alternatives: list[pred.Predicate] = [pred.In(field.name, tuple(points))] if points else []
    for window in _join(span for span in spans if span.upper is not None):
        low = pred.Comparison(field.name, pred.CompareOp.GE, window.lower)
        high = pred.Comparison(field.name, pred.CompareOp.LT, window.upper)
        alternatives.append(pred.And((low, high)))
    return pred.any_of(alternatives)


def _join(windows: Iterable[Span]) -> list[Span]:
    joined: list[Span] = []
    for window in sorted(windows, key=lambda span: _rank(span.lower)):
        if joined and joined[-1].upper == window.lower:
            joined[-1] = Span(joined[-1].lower, window.upper)
        else:
            joined.append(window)
    return joined


def _sql(predicate: pred.Predicate, fields: Mapping[str, DataField]) -> str:
    match predicate:
        case pred.In(field=name, literals=values):
            if not values:
                return "false"
            listed = ", ".join(_sql_literal(fields[name], value) for value in values)
            return f"coalesce({spark_name(name)} IN ({listed}), false)"
        case pred.Comparison(field=name, op=op, literal=value):
            return f"coalesce({spark_name(name)} {op} {_sql_literal(fields[name], value)}, false)"
        case pred.And(children=children) | pred.Or(children=children):
            word = " AND " if isinstance(predicate, pred.And) else " OR "
            return f"({word.join(_sql(child, fields) for child in children)})"
        case _:
            raise TypeError(f"{type(predicate).__name__} is no condition of partitions")


def _sql_literal(field: DataField, internal: Any) -> str:
    value = to_scalar(internal, field.type).as_py()
    match value:
        case str():
            escaped = value.replace("\\", "\\\\").replace("'", "\\'")
            return f"'{escaped}'"
        case dt.datetime():
            return f"TIMESTAMP_{'LTZ' if value.tzinfo else 'NTZ'} '{value}'"
        case dt.date():
            return f"DATE '{value}'"
        case _:
            return str(value)


_SHOWN = 5


def only_rows_of(partitions: RunPartitions, rows: Frame, *, show_values: bool = True) -> Frame:
    """Return the rows unchanged, refusing any that lie outside the partitions.

    A reader is checked while it is read, before anything is committed; a Spark frame by one job
    that looks for a few offending values.
    """
    if is_spark_frame(rows):
        _require_columns(partitions, rows.columns)
        names = [spark_name(field.name) for field in partitions.fields]
        inside = _sql(partitions.predicate(), {each.name: each for each in partitions.fields})
        outside = rows.filter(f"NOT ({inside})").select(*names)
        examples = outside.limit(_SHOWN).toArrow()
        if examples.num_rows:
            raise _outside(partitions, examples.columns, show=show_values)
        return rows
    if not isinstance(rows, pa.RecordBatchReader):
        for batch in rows.to_batches():
            _check(partitions, batch, show=show_values)
        return rows

    def check_batches() -> Iterator[pa.RecordBatch]:
        for batch in rows:
            _check(partitions, batch, show=show_values)
            yield batch

    return pa.RecordBatchReader.from_batches(rows.schema, check_batches())


def _check(partitions: RunPartitions, batch: pa.RecordBatch, *, show: bool) -> None:
    _require_columns(partitions, batch.schema.names)
    columns: list[Any] = [batch.column(field.name) for field in partitions.fields]
    try:
        outside = pa.array(partitions.numbers(columns) < 0)
    except pa.ArrowException as error:
        raise _no_values(partitions, columns, show=show) from (error if show else None)
    if pc.any(outside).as_py():
        raise _outside(partitions, [column.filter(outside) for column in columns], show=show)


def _no_values(
    partitions: RunPartitions, columns: Sequence[Any], *, show: bool
) -> InvalidInputError:
    """Return the error of the first column with a value that its type cannot hold."""
    for field, values in zip(partitions.fields, columns, strict=True):
        target: Any = to_arrow_type(field.type)
        try:
            values.cast(target)
        except pa.ArrowException:
            break
    bad = first_failing(values, lambda part: part.cast(target))
    value = sample(values[bad].as_py(), show=show)
    message = (
        f"Column '{field.name}' is {field.type} and holds the partition; the rows have "
        f"{values.type}, and {value} is not a value of it. Cast the column first."
    )
    return InvalidInputError(message, kind="input-type", column=field.name)


def _require_columns(partitions: RunPartitions, names: Sequence[str]) -> None:
    for field in partitions.fields:
        if field.name not in names:
            message = f"The rows lack column '{field.name}', which holds the partition."
            raise InvalidInputError(message, kind="outside-partition", column=field.name)


def _outside(partitions: RunPartitions, columns: Sequence[Any], *, show: bool) -> InvalidInputError:
    parts = []
    for field, column in zip(partitions.fields, columns, strict=True):
        examples = column.unique()[:_SHOWN].to_pylist() if show else [None]
        shown = ", ".join(plain_sample(value, show=show) for value in examples)
        parts.append(f"column '{field.name}' holds {shown}")
    noun = "partition" if len(partitions.keys) == 1 else "partitions"
    return InvalidInputError(
        f"Rows lie outside {noun} '{partitions.label}': {'; '.join(parts)}. Nothing was committed; "
        f"return only rows of the {noun}.",
        kind="outside-partition",
        column=partitions.fields[0].name,
        partition=partitions.label,
    )
