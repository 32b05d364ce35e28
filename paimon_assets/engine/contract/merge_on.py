"""MergeOn: the columns in which rows of a table and rows to merge are equal if they match."""

from collections.abc import Callable, Sequence
from typing import Any, Self, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_type
from paimon_assets.engine.codec.arrow.arrow_values import internals
from paimon_assets.engine.errors import InvalidInputError, NotFoundError
from paimon_assets.engine.spec.predicate import predicate as pred
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types.data_types import (
    BINARY_ROOTS,
    CHARACTER_ROOTS,
    INTEGER_ROOTS,
    TIMESTAMP_ROOTS,
    DataField,
    TypeRoot,
)
from paimon_assets.engine.spec.values import Value

_ORDERED = CHARACTER_ROOTS | INTEGER_ROOTS | TIMESTAMP_ROOTS | {TypeRoot.DATE, TypeRoot.DECIMAL}
_COMPARED = _ORDERED | BINARY_ROOTS | {TypeRoot.BOOLEAN, TypeRoot.TIME}
_ALIKE: tuple[tuple[Callable[[Any], bool], ...], ...] = (
    (pat.is_boolean,),
    (pat.is_integer, pat.is_floating, pat.is_decimal),
    (pat.is_string, pat.is_large_string),
    (pat.is_binary, pat.is_large_binary, pat.is_fixed_size_binary),
    (pat.is_date, pat.is_timestamp),
    (pat.is_time,),
)
_MOST_LISTED = 1000
"""So many values of a partition column are listed in a predicate; of more, their range."""

RowsT = TypeVar("RowsT", pa.RecordBatch, pa.Table)


class MergeOn(Value):
    """Columns, of both sides, in which a row and a source row are equal if they match."""

    table: str
    columns: tuple[DataField, ...]
    partition_keys: frozenset[str]
    """The columns that rows of the table are partitioned by."""

    @classmethod
    def of(cls, table: str, schema: TableSchema, on: Sequence[str], source: Sequence[str]) -> Self:
        """Check columns."""
        for name in on:
            column = schema.column(name)
            if name not in source:
                message = (
                    f"The source lacks the column '{name}' by which it is merged into table"
                    f" '{table}'."
                )
                raise NotFoundError(message, kind="column-not-found", table=table, column=name)
            if column.type.root not in _COMPARED:
                raise _refusal(table, name, f"is {column.type}, which is not compared")
        if schema.has_primary_key and set(on) != set(schema.primary_keys):
            keys = ", ".join(schema.primary_keys)
            raise _refusal(table, keys, "are the primary key: merge on all of them, and no more")
        if not on:
            raise _refusal(table, "", "must say which rows match")
        return cls(
            table=table,
            columns=tuple(map(schema.column, on)),
            partition_keys=frozenset(schema.partition_keys),
        )

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def convert(self, rows: RowsT) -> RowsT:
        """Return source rows with these columns in the table's types."""
        for column in self.columns:
            values = self._convert_column(rows.column(column.name), column)
            rows = rows.set_column(rows.schema.get_field_index(column.name), column.name, values)
        return rows

    def _convert_column(self, values: Any, column: DataField) -> Any:
        target = to_arrow_type(column.type)
        plain: Any = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
        if pat.is_dictionary(plain.type):
            plain = plain.dictionary_decode()
        other = f"is {column.type}, but {plain.type} in the source"
        if not _is_alike(plain.type, target):
            raise _refusal(self.table, column.name, other)
        try:
            cast: Any = plain.cast(target)
            if plain.type == target or pat.is_null(plain.type):
                return cast
            # Arrow rounds to decimals, and cuts times off to days.
            changed = pc.any(pc.not_equal(cast.cast(plain.type), plain)).as_py()
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise _refusal(self.table, column.name, f"is {column.type}: {error}") from error
        if changed:
            raise _refusal(self.table, column.name, f"{other}, with values that it does not hold")
        return cast

    def predicate(self, rows: pa.Table) -> pred.Predicate | None:
        """Return a bound predicate that every row passes which a source row may match."""
        parts: list[pred.Predicate] = []
        for column in self.columns:
            name, values = column.name, rows.column(column.name)
            if name in self.partition_keys:
                distinct: Any = values.unique().drop_null()
                if 0 < len(distinct) <= _MOST_LISTED:
                    parts.append(pred.In(name, tuple(internals(distinct, column.type))))
                    continue
            if column.type.root in _ORDERED and values.null_count < len(values):
                low, high = internals(pa.array(_ends(values), values.type), column.type)
                parts.append(pred.Comparison(name, pred.CompareOp.GE, low))
                parts.append(pred.Comparison(name, pred.CompareOp.LE, high))
        return pred.all_of(parts)

    def bounds(self, rows: pa.Table) -> pa.Table:
        """Return a few rows that have the same `predicate`, and like them null where all are."""
        columns: list[Any] = []
        for column in self.columns:
            distinct: Any = rows.column(column.name).unique().drop_null()
            if len(distinct) > 1:
                listed = column.name in self.partition_keys
                ends = _ends(distinct) if column.type.root in _ORDERED else []
                some = distinct[: _MOST_LISTED + 1 if listed else 1]
                distinct = pa.concat_arrays([pa.array(ends, distinct.type), some])
            columns.append(distinct)
        count = max(map(len, columns))
        padded = [
            pa.concat_arrays([values, pa.nulls(count - len(values), values.type)])
            for values in columns
        ]
        return pa.Table.from_arrays(padded, names=list(self.names))

    def keys(self, rows: pa.RecordBatch) -> "list[pa.Array[Any]]":
        """Return these columns as int64 or binary, equal where they are."""
        return [_key(rows.column(name)) for name in self.names]

    def key_types(self) -> list[pa.DataType]:
        empty = [pa.array([], to_arrow_type(column.type)) for column in self.columns]
        return [key.type for key in map(_key, empty)]


def _is_alike(source: Any, target: Any) -> bool:
    """Whether values of two types may be equal; Arrow casts more, such as a date to a number."""
    if pat.is_null(source):
        return True
    zones = {getattr(kind, "tz", None) is None for kind in (source, target)}
    return len(zones) == 1 and any(
        all(any(is_member(kind) for is_member in family) for kind in (source, target))
        for family in _ALIKE
    )


def _key(values: Any) -> Any:
    kind = values.type
    if pat.is_decimal(kind):
        return values.view(pa.binary(kind.byte_width)).cast(pa.binary())
    if pat.is_string(kind) or pat.is_binary(kind) or pat.is_fixed_size_binary(kind):
        return values.cast(pa.binary())
    if pat.is_date32(kind) or pat.is_time32(kind):
        values = values.cast(pa.int32())
    return values.cast(pa.int64())


def _ends(values: Any) -> list[Any]:
    ends = pc.min_max(values)
    return [ends["min"], ends["max"]]


def _refusal(table: str, column: str, reason: str) -> InvalidInputError:
    message = f"Cannot merge into table '{table}': column '{column}' {reason}."
    return InvalidInputError(message, kind="merge-on", table=table, column=column)
