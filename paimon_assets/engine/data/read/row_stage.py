"""RowStage: the last step of every read, from columns of files to columns of the result.

columns of the files ─▶ + partition columns ─▶ predicate ─▶ projection = context.columns

The column `_VALUE_KIND`, if there is one, holds the kinds of rows; without it every row is +I.

Predicates follow SQL's three-valued logic: a row passes only if the predicate is true. They have no
NOT over other predicates, so an unknown part never makes the whole true, and leaves may return
false for "unknown". Floating point compares as Java's `compareTo` does: NaN equals itself and is
larger than every number, -0.0 is smaller than 0.0. Merges compare otherwise, see `data.key_order`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, reduce
from typing import Any, TypeAlias, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from paimon_assets.engine.codec.arrow import arrow_values
from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema, to_arrow_type
from paimon_assets.engine.codec.rows.binary_row import deserialize_row
from paimon_assets.engine.contract.context import ReadContext
from paimon_assets.engine.data.casting.casting import CastSettings, cast_column
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.predicate import predicate as pred
from paimon_assets.engine.spec.schema.schema import ROW_KIND, VALUE_KIND, with_tracking
from paimon_assets.engine.spec.types import data_types as types
from paimon_assets.engine.spec.values import Value

_TEXTS: pa.Array[Any] = pa.Array.from_buffers(
    pa.string(),
    len(types.RowKind),
    [
        None,
        pa.py_buffer(np.arange(0, 2 * len(types.RowKind) + 1, 2, dtype=np.int32).tobytes()),
        pa.py_buffer("".join(types.SHORT_TEXTS[kind] for kind in sorted(types.RowKind)).encode()),
    ],
)
"""The texts of kinds by the number of the kind; `pa.array` would load pandas."""


class RowStage(Value, dict=True):
    """Adds a split's partition columns, applies the whole predicate, projects."""

    context: ReadContext
    partition: bytes
    """Serialized BinaryRow of the split's partition."""

    @cached_property
    def file_fields(self) -> tuple[types.DataField, ...]:
        """Columns that must come from the files: projected or filtered, not partition columns.

        At least one, because an Arrow batch without columns does not keep its number of rows.
        """
        schema = self.context.schema
        names = {*self.context.columns, *pred.fields_of(self.context.predicate)}
        stored = [field for field in schema.fields if field.name not in schema.partition_keys]
        return tuple(field for field in stored if field.name in names) or tuple(stored[:1])

    @cached_property
    def constants(self) -> Mapping[str, Any]:
        """Partition column → its value in this split, as an Arrow scalar."""
        fields = self.context.schema.partition_fields
        if not fields:
            return {}
        values = deserialize_row(self.partition, [field.type for field in fields])
        return {
            field.name: arrow_values.to_scalar(value, field.type).cast(to_arrow_type(field.type))
            for field, value in zip(fields, values, strict=True)
        }

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        return to_arrow_schema(self.context.fields)

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Turn a batch of (at least) `file_fields` into the rows and columns of the result."""
        mask = self._mask(batch, self.context.predicate)
        if not self.context.columns:
            return (batch if mask is None else batch.filter(mask)).select([])
        columns = [self._column(batch, name) for name in self.context.columns]
        result = pa.RecordBatch.from_arrays(columns, schema=self.arrow_schema)
        return result if mask is None else result.filter(mask)

    def filter(self, batch: pa.RecordBatch, predicate: pred.Predicate) -> pa.RecordBatch:
        """Keep the rows for which a part of the predicate is true."""
        mask = self._mask(batch, predicate)
        return batch if mask is None else batch.filter(mask)

    def _mask(self, batch: pa.RecordBatch, predicate: pred.Predicate | None) -> Any:
        if predicate is None:
            return None
        schema = with_tracking(self.context.schema)
        casts = CastSettings.of(schema.typed_options)
        mask = passing_rows(
            predicate, lambda name: self._column(batch, name), schema.by_name, casts
        )
        return None if mask.true_count == len(mask) else mask

    def _column(self, batch: pa.RecordBatch, name: str) -> Any:
        if name == ROW_KIND.name and self.context.keeps_kinds:
            if VALUE_KIND.name not in batch.schema.names:
                return pa.repeat(_TEXTS[types.RowKind.INSERT], batch.num_rows)
            return _TEXTS.take(batch.column(VALUE_KIND.name))
        constant = self.constants.get(name)
        return batch.column(name) if constant is None else pa.repeat(constant, batch.num_rows)


Mask: TypeAlias = Any
"""A `pa.BooleanArray` without nulls; the stubs lack the results of kernels."""

_COMPARE: Mapping[pred.CompareOp, Callable[[Any, Any], Any]] = {
    pred.CompareOp.EQ: pc.equal,
    pred.CompareOp.NE: pc.not_equal,
    pred.CompareOp.LT: pc.less,
    pred.CompareOp.LE: pc.less_equal,
    pred.CompareOp.GT: pc.greater,
    pred.CompareOp.GE: pc.greater_equal,
}


def passing_rows(
    predicate: pred.Predicate,
    column_of: Callable[[str], Any],
    fields: Mapping[str, types.DataField],
    casts: CastSettings | None = None,
) -> Mask:
    """Evaluate a bound predicate; `casts` are the settings of the table's casts."""
    match predicate:
        case pred.And(children=children) | pred.Or(children=children):
            masks = (passing_rows(child, column_of, fields, casts) for child in children)
            return reduce(pc.and_ if isinstance(predicate, pred.And) else pc.or_, masks)
        case pred.IsNull(field=name, negated=negated):
            column = column_of(name)
            return pc.is_valid(column) if negated else pc.is_null(column)
        case pred.StartsWith(field=name, prefix=prefix):
            return _true(pc.starts_with(column_of(name), prefix))
        case pred.Like(field=name, pattern=pattern, negated=negated):
            matches: Any = pc.match_like(column_of(name), pattern)
            return _true(pc.invert(matches) if negated else matches)
        case pred.Comparison(field=name, op=op, literal=literal):
            return _comparison(column_of(name), op, literal, fields[name])
        case pred.In(field=name, literals=literals, negated=negated):
            return _membership(column_of(name), literals, fields[name], negated=negated)
        case pred.Applied(field=name, test=test):
            column = _result(predicate, column_of(name), fields[name].type, casts)
            field = replace(fields[name], type=pred.result_type(predicate, fields[name].type))
            return passing_rows(test, lambda _: column, {name: field}, casts)
        case _:
            assert_never(predicate)


def _years(column: Any) -> Any:
    """Return the year of dates and times; Arrow's own wraps beyond 32767."""
    instants = column.to_numpy(zero_copy_only=False)
    years = instants.astype("datetime64[Y]").astype(np.int64) + 1970
    return pa.array(years, pa.int64(), mask=np.isnat(instants))


_KERNELS: Mapping[str, Callable[[Any], Any]] = {
    "lower": pc.utf8_lower,
    "upper": pc.utf8_upper,
    "trim": lambda column: pc.utf8_trim(column, " "),
    "length": pc.utf8_length,
    "abs": pc.abs,
    "year": _years,
    "month": pc.month,
    "day": pc.day,
    "hour": pc.hour,
}


def _result(
    leaf: pred.Applied, column: Any, data_type: types.DataType, casts: CastSettings | None
) -> Any:
    """Call a function for every row; times with a zone are taken in the zone of casts."""
    target = pred.result_type(leaf, data_type)
    if leaf.function == "cast":
        try:
            return cast_column(column, data_type, target, casts)
        except InvalidInputError as error:
            message = f"The filter's cast of column '{leaf.field}' fails: {error.message}"
            raise error.with_message(message, column=leaf.field) from error
    if leaf.function == "coalesce":
        instead: Any = leaf.argument
        try:
            return pc.coalesce(column, arrow_values.to_scalar(instead, data_type).cast(column.type))
        except pa.ArrowInvalid as error:
            text = (
                f"Column '{leaf.field}' is {data_type}, which does not hold the {instead} that the"
                " filter's coalesce gives it."
            )
            raise InvalidInputError(text, kind="literal", column=leaf.field) from error
    if data_type.root in types.INTEGER_ROOTS:
        column = column.cast(to_arrow_type(target))
    if isinstance(data_type, types.AtomicType) and data_type.root is types.TypeRoot.TIMESTAMP_LTZ:
        local = replace(data_type, root=types.TypeRoot.TIMESTAMP)
        column = cast_column(column, data_type, local, casts)
    return _KERNELS[leaf.function](column)


def _true(mask: Any) -> Mask:
    return mask.fill_null(False) if mask.null_count else mask  # noqa: FBT003 - pyarrow's order


def _none(column: Any) -> Mask:
    return pa.repeat(pa.scalar(value=False), len(column))


def _comparison(column: Any, op: pred.CompareOp, literal: Any, field: types.DataField) -> Mask:
    if literal is None:
        return _none(column)
    if field.type.root in types.TIMESTAMP_ROOTS:
        op, literal = _whole_units(op, int(literal), arrow_values.UNIT_NANOS[column.type.unit])
        if literal is None:
            return _true(pc.is_valid(column)) if op is pred.CompareOp.NE else _none(column)
        return _compare(op, column.view(pa.int64()), pa.scalar(literal, pa.int64()))
    if pa.types.is_floating(column.type):
        return _compare_floats(op, column, float(literal), field)
    return _compare(op, column, arrow_values.to_scalar(literal, field.type))


def _compare_floats(
    op: pred.CompareOp, column: Any, literal: float, field: types.DataField
) -> Mask:
    """Compare numbers as Arrow does; a zero or NaN by its rank in Java's order."""
    if literal == 0 or math.isnan(literal):
        rank = pa.scalar(int(arrow_values.total_order_words(np.array([literal]))[0]), pa.uint64())
        return _compare(op, arrow_values.total_order(column), rank)
    mask = _compare(op, column, arrow_values.to_scalar(literal, field.type))
    if op in (pred.CompareOp.GT, pred.CompareOp.GE):
        return pc.or_(mask, _true(pc.is_nan(column)))
    return mask


def _whole_units(
    op: pred.CompareOp, nanos: int, unit_nanos: int
) -> tuple[pred.CompareOp, int | None]:
    """Rewrite a comparison with nanoseconds into one with the column's unit.

    A literal between two values of the column equals no value (None); `<` becomes `<=` with the
    value below it. Literals beyond 64 bits become the first or last value.
    """
    whole, rest = divmod(nanos, unit_nanos)
    bound = 2**63 - 1
    if rest or not -bound <= whole <= bound:
        whole = max(-bound, min(whole, bound))
        if op in (pred.CompareOp.EQ, pred.CompareOp.NE):
            return op, None
        return (
            pred.CompareOp.LE if op in (pred.CompareOp.LT, pred.CompareOp.LE) else pred.CompareOp.GT
        ), whole
    return op, whole


def _compare(op: pred.CompareOp, column: Any, literal: Any) -> Mask:
    return _true(_COMPARE[op](column, literal))


def _membership(
    column: Any, literals: tuple[Any, ...], field: types.DataField, *, negated: bool
) -> Mask:
    if negated and any(literal is None for literal in literals):
        return _none(column)
    mask = pc.is_in(column, value_set=_value_set(literals, field, column.type))
    return pc.and_(pc.invert(mask), pc.is_valid(column)) if negated else mask


def _value_set(literals: Sequence[Any], field: types.DataField, arrow_type: Any) -> Any:
    """Return literals in the column's type, without those that it cannot hold: they equal nothing.

    `is_in` compares the bits of floating-point numbers: NaN equals NaN, the zeros differ.
    """
    if field.type.root not in types.TIMESTAMP_ROOTS:  # their values are in nanoseconds
        with suppress(pa.ArrowException, OverflowError, ValueError, TypeError):
            own: Any = pa.array(literals, to_arrow_type(field.type))
            return own.cast(arrow_type).drop_null()
    values = []
    for literal in literals:
        with suppress(pa.ArrowInvalid, InvalidInputError):
            values.append(arrow_values.to_scalar(literal, field.type).cast(arrow_type))
    return pa.array(values, arrow_type).drop_null()
