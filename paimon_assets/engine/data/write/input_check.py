"""Incoming batches against the table's schema, before anything is written.

    batch as given → columns by name → exact Arrow types → nulls, lengths → defaults → the table's

Conversions lose nothing or are refused: integers of any width that fit, larger string and binary
layouts, dictionaries, timestamp and time units, decimals, floats to wider floats, columns of nulls.
A batch that has the table's types already is passed on without a copy.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema
from paimon_assets.engine.codec.arrow.numpy_columns import to_numpy
from paimon_assets.engine.data.sequence import first_failing
from paimon_assets.engine.data.write.column_defaults import column_defaults
from paimon_assets.engine.errors import Detail, InvalidInputError
from paimon_assets.engine.spec.options.file_options import WRITE_MERGE_SCHEMA
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types.data_types import (
    BINARY_ROOTS,
    CHARACTER_ROOTS,
    MAX_LENGTH,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    VectorType,
)

_SHOWN_POSITIONS = 5
_SHOWN_CHARACTERS = 60


@dataclass(slots=True, kw_only=True)
class InputCheck:
    """Checks the batches of one write, and brings them into the table's columns and types."""

    table: str
    """For messages."""
    schema: TableSchema
    rows_seen: int = 0
    _target: pa.Schema = field(init=False)
    _defaults: Mapping[str, Any] = field(init=False)
    _optional: frozenset[str] = field(init=False)
    """Columns that rows need not have."""
    _accepted: pa.Schema | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        """Prepare the Arrow schema every batch is brought to."""
        self._target = to_arrow_schema(self.schema.fields)
        self._defaults = column_defaults(self.schema, self.table)
        merging = self.schema.typed_options.get(WRITE_MERGE_SCHEMA)
        self._optional = frozenset(
            field.name
            for field in self.schema.fields
            if field.name in self._defaults or (merging and field.type.nullable)
        )

    def conform(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch with the table's columns, in its order and Arrow types.

        Raises:
            InvalidInputError: Names the table, the column, both types and an offending value.
        """
        if self._accepted is None or batch.schema != self._accepted:
            self._check_names(batch.schema)
            self._accepted = batch.schema
        columns = []
        for column, arrow in zip(self.schema.fields, self._target, strict=True):
            default = self._defaults.get(column.name)
            if column.name not in batch.schema.names:
                columns.append(_absent(batch.num_rows, default, arrow.type))
                continue
            values = self._converted(batch.column(column.name), arrow.type, column)
            self._check_values(values, column)
            if default is not None and values.null_count:
                values = pc.coalesce(values, default)
            columns.append(values)
        self.rows_seen += batch.num_rows
        return pa.RecordBatch.from_arrays(columns, schema=self._target)

    def _refuse(
        self,
        message: str,
        kind: str,
        column: str,
        cause: Exception | None = None,
        **details: Detail,
    ) -> NoReturn:
        raise InvalidInputError(
            f"Table '{self.table}': {message}",
            kind=kind,
            details={"table": self.table, "column": column, **details},
        ) from cause

    def _check_names(self, given: pa.Schema) -> None:
        repeated = [name for name, count in Counter(given.names).items() if count > 1]
        missing = [
            name
            for name in self.schema.field_names
            if name not in given.names and name not in self._optional
        ]
        extra = [name for name in given.names if name not in self.schema.by_name]
        unknown = (
            "the rows have columns the table does not have; drop or rename them, or set"
            f" '{WRITE_MERGE_SCHEMA.key}' to true to add them"
        )
        problems = [
            f"{problem}: {', '.join(names)}"
            for names, problem in (
                (repeated, "the rows have columns that occur twice"),
                (missing, "the rows lack columns of the table; give nulls where nothing is known"),
                (extra, unknown),
            )
            if names
        ]
        if problems:
            first = [*repeated, *missing, *extra][0]
            self._refuse(f"{'. And '.join(problems)}.", "input-columns", first)

    def _converted(self, values: Any, target: Any, column: DataField) -> Any:
        if values.type == target:
            return values
        if pat.is_null(values.type):
            return pa.nulls(len(values), target)
        plain = values.dictionary_decode() if pat.is_dictionary(values.type) else values
        if not is_lossless_family(plain.type, target):
            example = _example(values.drop_null(), 0)
            self._refuse(
                f"column '{column.name}' is {column.type} and takes Arrow type {target}, but the "
                f"rows have {values.type}{example}. Cast the column to {target} first.",
                "input-type",
                column.name,
                expected=str(target),
                actual=str(values.type),
            )
        try:
            return plain.cast(target, safe=True)
        except pa.ArrowInvalid as error:
            bad = first_failing(plain, lambda part: part.cast(target, safe=True))
            self._refuse(
                f"column '{column.name}' is {column.type}; not every value of the given type "
                f"{values.type} fits it{_example(plain, bad)}, row {self.rows_seen + bad}.",
                "input-value",
                column.name,
                error,
                row=self.rows_seen + bad,
            )

    def _check_values(self, values: Any, column: DataField) -> None:
        if values.null_count and not column.type.nullable:
            self._refuse_nulls(values, column)
        hidden = inner_null(values, column.type)
        if hidden:
            self._refuse(
                f"column '{column.name}' is {column.type}, but holds a null in {hidden}.",
                "input-null",
                column.name,
            )
        self._check_length(values, column)

    def _refuse_nulls(self, values: Any, column: DataField) -> NoReturn:
        rows = np.flatnonzero(to_numpy(values.is_null()))
        shown = ", ".join(str(self.rows_seen + row) for row in rows[:_SHOWN_POSITIONS].tolist())
        part = "a primary-key column" if column.name in self.schema.primary_keys else "NOT NULL"
        self._refuse(
            f"column '{column.name}' is {part}, but {len(rows)} of {len(values)} rows are null "
            f"(rows {shown}{', …' if len(rows) > _SHOWN_POSITIONS else ''}).",
            "input-null",
            column.name,
            rows=len(rows),
        )

    def _check_length(self, values: Any, column: DataField) -> None:
        data_type = column.type
        if not isinstance(data_type, AtomicType) or data_type.length in (None, MAX_LENGTH):
            return
        if data_type.root not in CHARACTER_ROOTS | BINARY_ROOTS:
            return
        limit: Any = data_type.length
        lengths = pc.binary_length(values)
        if _maximum(lengths) <= limit:  # bytes bound characters from above
            return
        unit = "bytes"
        if data_type.root in CHARACTER_ROOTS:
            lengths, unit = pc.utf8_length(values), "characters"
        longest = _maximum(lengths)
        if longest > limit:
            bad = pc.index(lengths, longest).as_py()
            self._refuse(
                f"column '{column.name}' is {data_type}, but the rows hold values of up to "
                f"{longest} {unit}{_example(values, bad)}, row {self.rows_seen + bad}.",
                "input-length",
                column.name,
                length=longest,
                row=self.rows_seen + bad,
            )


def _absent(count: int, default: Any, arrow_type: Any) -> Any:
    """Return a column the rows do not have."""
    return pa.nulls(count, arrow_type) if default is None else pa.repeat(default, count)


def _maximum(lengths: Any) -> int:
    return int(pc.max(lengths).as_py() or 0)


def _example(values: Any, position: int) -> str:
    """Show one value for a message; nothing if there is none."""
    if position >= len(values):
        return ""
    text = repr(values[position].as_py())
    if len(text) > _SHOWN_CHARACTERS:
        text = text[:_SHOWN_CHARACTERS] + "…"
    return f", for example {text}"


def is_lossless_family(source: Any, target: Any) -> bool:
    """Whether a checked cast from one Arrow type to another keeps every value it accepts.

    >>> is_lossless_family(pa.int64(), pa.int8()), is_lossless_family(pa.float64(), pa.float32())
    (True, False)
    """
    if source == target:
        return True
    if pat.is_null(source):
        return True
    if pat.is_nested(target):
        return _is_nested_lossless(source, target)
    if pat.is_timestamp(source) and pat.is_timestamp(target):
        return (source.tz is None) == (target.tz is None)
    if pat.is_floating(source) and pat.is_floating(target):
        return bool(source.bit_width <= target.bit_width)
    return any(family(source) and family(target) for family in _FAMILIES)


def _is_text(arrow_type: Any) -> bool:
    return (
        pat.is_string(arrow_type)
        or pat.is_large_string(arrow_type)
        or pat.is_string_view(arrow_type)
    )


def _is_bytes(arrow_type: Any) -> bool:
    return (
        pat.is_binary(arrow_type)
        or pat.is_large_binary(arrow_type)
        or pat.is_binary_view(arrow_type)
        or pat.is_fixed_size_binary(arrow_type)
    )


_FAMILIES = (pat.is_integer, _is_text, _is_bytes, pat.is_date, pat.is_time, pat.is_decimal)


def _is_nested_lossless(source: Any, target: Any) -> bool:
    if pat.is_map(target):
        return bool(
            pat.is_map(source)
            and is_lossless_family(source.key_type, target.key_type)
            and is_lossless_family(source.item_type, target.item_type)
        )
    if pat.is_struct(target):
        return bool(
            pat.is_struct(source)
            and [inner.name for inner in source] == [inner.name for inner in target]
            and all(
                is_lossless_family(given.type, wanted.type)
                for given, wanted in zip(source, target, strict=True)
            )
        )
    if pat.is_fixed_size_list(target):
        if not pat.is_fixed_size_list(source) or source.list_size != target.list_size:
            return False
    elif not (pat.is_list(source) or pat.is_large_list(source) or pat.is_fixed_size_list(source)):
        return False
    return is_lossless_family(source.value_type, target.value_type)


def inner_null(values: Any, data_type: DataType) -> str:
    """Name the first NOT NULL place inside nested values that holds a null; empty if none does.

    Args:
        values: Values in the Arrow type of `data_type`; nulls at the top are not looked at.
        data_type: The column's type.
    """
    match data_type:
        case ArrayType(element=element) | VectorType(element=element):
            return _inner_null("an element", values.flatten(), element)
        case MultisetType(element=element):
            return _inner_null("an element", _entries(values, values.keys), element)
        case MapType(key=key, value=value):
            return _inner_null("a key", _entries(values, values.keys), key) or _inner_null(
                "a value", _entries(values, values.items), value
            )
        case RowType(fields=fields):
            present = values.drop_null()
            for position, inner in enumerate(fields):
                found = _inner_null(f"field '{inner.name}'", present.field(position), inner.type)
                if found:
                    return found
            return ""
        case _:
            return ""


def _entries(maps: Any, flat: Any) -> Any:
    """Cut the flat keys or items of maps to those the maps reach; Arrow gives them all."""
    offsets = maps.offsets
    if not len(offsets):
        return flat.slice(0, 0)
    first, end = offsets[0].as_py(), offsets[-1].as_py()
    return flat.slice(first, end - first)


def _inner_null(place: str, values: Any, data_type: DataType) -> str:
    if values.null_count and not data_type.nullable:
        return place
    found = inner_null(values, data_type)
    return f"{found} of {place}" if found else ""
