"""Which rows change, and their new values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat
from msgspec.structs import replace

from paimon_assets.engine.codec.arrow.arrow_types import empty_batch, to_arrow_type
from paimon_assets.engine.codec.arrow.arrow_values import to_scalar
from paimon_assets.engine.codec.arrow.numpy_columns import Flags, Longs, from_numpy, to_numpy
from paimon_assets.engine.contract.write_tasks import RowChange
from paimon_assets.engine.data.casting.casting import CastSettings
from paimon_assets.engine.data.read.data_files import POSITION
from paimon_assets.engine.data.read.row_stage import passing_rows
from paimon_assets.engine.data.write.input_check import InputCheck
from paimon_assets.engine.data.write.row_key_extractor import distinct_rows
from paimon_assets.engine.errors import InvalidInputError, UnsupportedFeatureError
from paimon_assets.engine.spec.merge.engine_traits import EngineTraits
from paimon_assets.engine.spec.options.all_options import MERGE_ENGINE
from paimon_assets.engine.spec.predicate import predicate as pred
from paimon_assets.engine.spec.schema.schema import with_tracking

_ROWS_AT_ONCE = 131_072
"""Rows to look up at once, at least; more if there are more source rows."""
_CHECKED: Mapping[pred.Operator, Callable[[Any, Any], Any]] = {
    pred.Operator.ADD: pc.add_checked,
    pred.Operator.SUBTRACT: pc.subtract_checked,
    pred.Operator.MULTIPLY: pc.multiply_checked,
    pred.Operator.DIVIDE: pc.divide_checked,
}


class Matcher:
    """Finds the rows that change: by a predicate, or because they match a source row."""

    def __init__(self, change: RowChange) -> None:
        self._change = change
        self.columns = pred.fields_of(change.read.predicate) | set(change.on)
        """The columns by which rows match."""
        self.source: pa.RecordBatch | None = None
        """The source rows; None if a predicate alone decides."""
        if change.source is not None:
            self.source = one_batch(pa.ipc.open_stream(change.source).read_all())

    def join_batches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Join batches, so that the source is hashed for many rows at a time."""
        if self.source is None:
            yield from batches
        else:
            yield from join_batches(batches, max(_ROWS_AT_ONCE, self.source.num_rows))

    def matches(self, rows: pa.RecordBatch) -> tuple[Flags, Longs | None]:
        """Return which rows change and, for these, the number of their source row."""
        predicate, source = self._change.read.predicate, self.source
        mask: Flags = np.ones(rows.num_rows, dtype=np.bool_)
        if predicate is not None:
            schema = self._change.read.schema
            casts = CastSettings.of(schema.typed_options)
            fields = with_tracking(schema).by_name
            mask = to_numpy(passing_rows(predicate, rows.column, fields, casts))
        if source is None:
            return mask, None
        if not rows.num_rows or not source.num_rows:
            return np.zeros_like(mask), np.empty(0, dtype=np.int64)
        # Source rows come first: the first row of a key that a source row has is that source row.
        columns: list[Any] = [
            pa.concat_arrays([source.column(name), rows.column(name)]) for name in self._change.on
        ]
        numbers, first_rows = distinct_rows(columns)
        source_rows: Longs = first_rows[numbers[source.num_rows :]]
        mask = mask & (source_rows < source.num_rows)
        for name in self._change.on:
            mask &= to_numpy(pc.is_valid(rows.column(name)))
        return mask, source_rows[mask]

    def positions(self, rows: Iterable[pa.RecordBatch]) -> tuple[Longs, Longs | None]:
        """Return the positions of the rows that change, which come with theirs, as `matches`."""
        positions: list[Longs] = [np.empty(0, dtype=np.int64)]
        numbers: list[Longs] = []
        for batch in self.join_batches(rows):
            mask, source_rows = self.matches(batch)
            positions.append(to_numpy(batch.column(POSITION))[mask])
            if source_rows is not None:
                numbers.append(source_rows)
        return np.concatenate(positions), np.concatenate(numbers) if numbers else None

    def source_of(self, numbers: Longs | None) -> pa.RecordBatch | None:
        """Return some source rows; None if nothing is merged, as in an update or a delete."""
        if self.source is None or numbers is None:
            return None
        return self.source.take(from_numpy(numbers))

    def deletes(self, source: pa.RecordBatch | None, count: int) -> Flags:
        """Return which of `count` rows their source rows delete."""
        if self._change.deletes is None or source is None:
            return np.zeros(count, dtype=np.bool_)
        deletes: Any = source.column(self._change.deletes)
        return to_numpy(deletes.fill_null(False))  # noqa: FBT003 - a value


def rows_at(positions: Longs, rows: pa.RecordBatch) -> tuple[Flags, Longs]:
    """Return which rows have one of some positions (ascending), and the place of each of theirs."""
    own: Longs = to_numpy(rows.column(POSITION))
    places = np.minimum(np.searchsorted(positions, own), len(positions) - 1)
    mask: Flags = positions[places] == own
    return mask, places[mask]


def one_batch(rows: pa.Table) -> pa.RecordBatch:
    batches = rows.combine_chunks().to_batches()
    if len(batches) > 1:
        raise UnsupportedFeatureError(
            f"{rows.num_rows} source rows that one task needs hold more than 2 GB in a column; "
            "merge them in parts, or into a table with more buckets.",
            kind="merge-source-size",
        )
    return batches[0] if batches else empty_batch(rows.schema)


def join_batches(
    batches: Iterable[pa.RecordBatch], min_rows: int = _ROWS_AT_ONCE
) -> Iterator[pa.RecordBatch]:
    """Join batches to larger ones of `min_rows` rows, except the last; long texts may split one."""
    parts: list[pa.RecordBatch] = []
    row_count = 0
    for batch in batches:
        parts.append(batch)
        row_count += batch.num_rows
        if row_count >= min_rows:
            yield from pa.Table.from_batches(parts).combine_chunks().to_batches()
            parts, row_count = [], 0
    if parts:
        yield from pa.Table.from_batches(parts).combine_chunks().to_batches()


class RowUpdate:
    """The assignments of an update or merge.

    Args:
        change: The change.
        assignments: Its own.
        names: Columns of the rows that `apply` returns; all of the table's by default.
    """

    def __init__(
        self,
        change: RowChange,
        assignments: Sequence[pred.Assignment],
        names: Sequence[str] | None = None,
    ) -> None:
        self._table, self._schema = change.read.table, change.write.schema
        self._assignments = assignments
        self._names = tuple(self._schema.field_names if names is None else names)
        new = frozenset(each.column for each in assignments)
        written = self._schema
        if names is not None:
            written = replace(written, fields=written.columns(names), partition_keys=())
        self._check = InputCheck(table=self._table, schema=written, new=new, stored=True)

    def apply(self, rows: pa.RecordBatch, source: pa.RecordBatch | None) -> pa.RecordBatch:
        """Return rows, which have all columns that the assignments need, with their new values."""
        new = {each.column: self._values(each, rows, source) for each in self._assignments}
        names = self._names
        columns = [new[name] if name in new else rows.column(name) for name in names]
        result = self._check.conform(pa.RecordBatch.from_arrays(columns, names=list(names)))
        traits = EngineTraits.of(self._schema)
        for name in new if traits.null_keeps_value else ():
            if result.column(name).null_count:
                raise UnsupportedFeatureError(
                    f"Cannot update rows of table '{self._table}': column '{name}' would"
                    f" become null, and '{MERGE_ENGINE.key}' = {traits.engine} keeps the old value"
                    " then. Delete the rows and write them again.",
                    kind="row-update",
                    table=self._table,
                    column=name,
                )
        return result

    def _values(
        self, assignment: pred.Assignment, rows: pa.RecordBatch, source: pa.RecordBatch | None
    ) -> Any:
        target, expression = self._schema.column(assignment.column), assignment.expression
        if isinstance(expression, pred.LiteralValue):
            arrow_type = to_arrow_type(target.type)
            value: Any = expression.value
            scalar: Any = pa.scalar(None, arrow_type)
            if value is not None:
                scalar = to_scalar(value, target.type)
                with suppress(pa.ArrowInvalid):  # the check refuses it
                    scalar = scalar.cast(arrow_type)
            return pa.repeat(scalar, rows.num_rows)
        try:
            value = _evaluate(expression, rows, source)
            is_column = isinstance(value, pa.Array | pa.ChunkedArray)
            return value if is_column else pa.repeat(value, rows.num_rows)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise InvalidInputError(
                f"Table '{self._table}': the new values of column '{target.name}' cannot be"
                f" computed: {error}.",
                kind="expression",
                table=self._table,
                column=target.name,
            ) from error


def _evaluate(
    expression: pred.Expression, rows: pa.RecordBatch, source: pa.RecordBatch | None
) -> Any:
    """Return the values of an expression, as an Arrow array or, for a constant, a scalar."""
    match expression:
        case pred.ColumnValue(name=name):
            return rows.column(name)
        case pred.SourceValue(name=name):
            if source is None:
                raise ValueError(f"there is no source with a column '{name}'")
            return source.column(name)
        case pred.LiteralValue(value=value):
            constant: Any = value
            return pa.scalar(constant)
        case pred.Operation(operator=operator, operands=operands):
            values = [_evaluate(each, rows, source) for each in operands]
            return _apply(operator, values, operands)
        case _:
            assert_never(expression)


def _apply(operator: pred.Operator, values: list[Any], operands: Sequence[pred.Expression]) -> Any:
    if operator is pred.Operator.ROUND:
        digits = values[1].as_py() if len(values) > 1 else 0
        return pc.round(values[0], ndigits=digits, round_mode="half_towards_infinity")
    pairs = list(zip(values, operands, strict=True))
    types = [value.type for value, operand in pairs if not isinstance(operand, pred.LiteralValue)]
    if types:
        target = next(filter(pat.is_floating, types), types[0])
        values = [_typed_operand(value, operand, target) for value, operand in pairs]
    match operator:
        case pred.Operator.CONCAT:
            return pc.binary_join_element_wise(*values, "")
        case pred.Operator.COALESCE:
            return pc.coalesce(*values)
        case pred.Operator.DIVIDE if all(pat.is_integer(value.type) for value in values):
            values = [value.cast(pa.float64()) for value in values]
        case _:
            pass
    result = values[0]
    for value in values[1:]:
        result = _CHECKED[operator](result, value)
    return result


def _typed_operand(value: Any, operand: pred.Expression, target: Any) -> Any:
    """Cast a literal to the type of the other operands, as far as nothing relevant is lost."""
    if not isinstance(operand, pred.LiteralValue):
        return value
    literal: Any = operand.value
    if literal is None:
        return pa.scalar(None, target)
    if pat.is_floating(target) and not isinstance(literal, bool | str):
        return pa.scalar(float(literal), target)
    if isinstance(literal, str):
        return value.cast(target)
    if pat.is_decimal(target) and isinstance(literal, int):
        return pa.scalar(Decimal(literal))
    return value


def replace_rows(rows: pa.RecordBatch, changed: pa.RecordBatch, mask: Flags) -> pa.RecordBatch:
    indices = np.arange(rows.num_rows, dtype=np.int64)
    indices[mask] = rows.num_rows + np.arange(changed.num_rows, dtype=np.int64)
    columns: list[Any] = []
    for old, values in zip(rows.columns, changed.columns, strict=True):
        # Arrow refuses null rows with NOT NULL fields even in a cast to the same type.
        new: Any = values if values.type.equals(old.type) else values.cast(old.type)
        columns.append(pa.concat_arrays([old, new]).take(from_numpy(indices)))
    return pa.RecordBatch.from_arrays(columns, names=rows.schema.names)
