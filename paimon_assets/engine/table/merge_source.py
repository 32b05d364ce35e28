"""MergeSource: rows that are merged into a table, and where in it they may match."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_assets.engine.codec.arrow_types import to_arrow_type
from paimon_assets.engine.codec.arrow_values import internals
from paimon_assets.engine.codec.numpy_columns import from_numpy
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.errors import InvalidInputError, NotFoundError
from paimon_assets.engine.spec.predicate import CompareOp, Comparison, In, Predicate, all_of
from paimon_assets.engine.spec.schema import TableSchema
from paimon_assets.engine.spec.types import (
    CHARACTER_ROOTS,
    INTEGER_ROOTS,
    TIMESTAMP_ROOTS,
    DataField,
    TypeRoot,
)

_ORDERED = CHARACTER_ROOTS | INTEGER_ROOTS | TIMESTAMP_ROOTS | {TypeRoot.DATE, TypeRoot.DECIMAL}
_UNMATCHED = frozenset({TypeRoot.FLOAT, TypeRoot.DOUBLE})
_MOST_LISTED = 1000
"""So many values of a partition column are listed in a predicate; of more, their range."""


class WhenMatched(StrEnum):
    """What becomes of a row that matches a source row."""

    UPDATE = "update"
    """It takes the source's values of all columns the source has."""
    DELETE = "delete"
    KEEP = "keep"


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeSource:
    """Source rows; each may match some rows of the table, each row matches one of them at most."""

    table: str
    schema: TableSchema
    rows: pa.Table
    """With the columns `on` in the table's types."""
    on: tuple[str, ...]
    inserts: bool
    given: pa.Table = field(repr=False)
    """The rows as they were given."""

    @classmethod
    def of(
        cls, store: FileStore, rows: pa.Table, on: Sequence[str], *, inserts: bool
    ) -> "MergeSource":
        """Check source rows.

        Args:
            store: The table.
            rows: In memory.
            on: Columns, of both sides, in which a row and a source row are equal if they match;
                of a primary-key table its primary key. Null equals nothing.
            inserts: Source rows without a match become rows of the table.

        Raises:
            NotFoundError: A column is missing on one side.
            InvalidInputError: Kind `merge-on` for other columns or types, `merge-duplicates` for
                source rows that are equal in them.
        """
        _check_columns(store, rows, on)
        cast = rows
        for name in on:
            column = store.schema.column(name)
            values = _converted(rows.column(name), column, store.label)
            cast = cast.set_column(cast.schema.get_field_index(name), name, values)
        _check_unique(cast, on, store.label)
        return cls(
            table=store.label,
            schema=store.schema,
            rows=cast,
            on=tuple(on),
            inserts=inserts,
            given=rows,
        )

    def predicate(self) -> Predicate | None:
        """Return a bound predicate that every row passes which matches a source row."""
        return all_of(self._within(self.schema.column(name)) for name in self.on)

    def to_stream(self) -> bytes:
        """Return the rows as an Arrow stream."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.rows.schema) as writer:
            writer.write_table(self.rows)
        return sink.getvalue().to_pybytes()

    def without(self, matched: npt.NDArray[np.int64]) -> pa.Table:
        """Return the columns of the table of the source rows that did not match."""
        alive = np.ones(self.given.num_rows, dtype=np.bool_)
        alive[matched] = False
        names = [name for name in self.given.column_names if name in self.schema.by_name]
        return self.given.select(names).filter(from_numpy(alive))

    def _within(self, column: DataField) -> Predicate | None:
        values: Any = self.rows.column(column.name)
        if column.name in self.schema.partition_keys:
            found = values.unique().drop_null()
            if 0 < len(found) <= _MOST_LISTED:
                return In(column.name, tuple(internals(found, column.type)))
        if column.type.root not in _ORDERED or values.null_count == len(values):
            return None
        ends = pc.min_max(values)
        low, high = (
            internals(pa.array([ends[end]], values.type), column.type)[0] for end in ("min", "max")
        )
        return all_of(
            [
                Comparison(column.name, CompareOp.GE, low),
                Comparison(column.name, CompareOp.LE, high),
            ]
        )


def _check_columns(store: FileStore, rows: pa.Table, on: Sequence[str]) -> None:
    schema = store.schema
    for name in on:
        column = schema.column(name)
        if name not in rows.column_names:
            raise NotFoundError(
                f"The source lacks the column '{name}' by which it is merged into table"
                f" '{store.label}'.",
                kind="column-not-found",
                details={"table": store.label, "column": name},
            )
        if column.type.root in _UNMATCHED:
            raise _refused(store.label, name, f"is {column.type}, which is not compared")
    if schema.has_primary_key and set(on) != set(schema.primary_keys):
        keys = ", ".join(schema.primary_keys)
        raise _refused(store.label, keys, "are the primary key: merge on all of them, and no more")
    if not on:
        raise _refused(store.label, "", "must say which rows match")


def _converted(values: Any, column: DataField, table: str) -> Any:
    target = to_arrow_type(column.type)
    plain = values.combine_chunks()
    if pa.types.is_dictionary(plain.type):
        plain = plain.dictionary_decode()
    is_text = pa.types.is_string(plain.type) or pa.types.is_large_string(plain.type)
    if is_text != pa.types.is_string(target) and not pa.types.is_null(plain.type):
        raise _refused(table, column.name, f"is {column.type}, but {plain.type} in the source")
    try:
        return plain.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise _refused(table, column.name, f"is {column.type}: {error}") from error


def _check_unique(rows: pa.Table, on: Sequence[str], table: str) -> None:
    keys = rows.select(list(on)).drop_null()
    counts = keys.append_column("__rows", pa.repeat(pa.scalar(1), keys.num_rows))
    grouped: Any = counts.group_by(list(on)).aggregate([("__rows", "sum")])
    double = grouped.filter(pc.field("__rows_sum") > 1)
    if double.num_rows:
        example = {name: double.column(name)[0].as_py() for name in on}
        raise InvalidInputError(
            f"{double.num_rows} keys occur several times in the rows to merge into table"
            f" '{table}', for example {example}; which of them counts is not known. Keep one of"
            " each.",
            kind="merge-duplicates",
            details={"table": table, "keys": double.num_rows},
        )


def _refused(table: str, column: str, reason: str) -> InvalidInputError:
    return InvalidInputError(
        f"Cannot merge into table '{table}': column '{column}' {reason}.",
        kind="merge-on",
        details={"table": table, "column": column},
    )
