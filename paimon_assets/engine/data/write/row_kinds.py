"""Row kinds of incoming rows, and which rows are ignored.

Every row is +I unless the table names a `rowkind.field`. Kinds are read first, before filter,
bucket, sequence and merge; the column is stored unchanged.
Source: `org.apache.paimon.table.sink.RowKindGenerator`, `RowKindFilter`.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_assets.engine.codec.arrow.numpy_columns import from_numpy, to_numpy
from paimon_assets.engine.data.merge.records import Kinds, adds
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.options.all_options import (
    IGNORE_DELETE,
    IGNORE_UPDATE_BEFORE,
    ROWKIND_FIELD,
)
from paimon_assets.engine.spec.schema.schema import VALUE_KIND, TableSchema
from paimon_assets.engine.spec.types.data_types import BY_SHORT_TEXT, RowKind


def with_kinds(batch: pa.RecordBatch, kinds: Kinds) -> pa.RecordBatch:
    """Add the column `_VALUE_KIND`."""
    return batch.append_column(VALUE_KIND.name, from_numpy(kinds))


def split_kinds(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Kinds]:
    """Inverse of `with_kinds`."""
    kinds: Kinds = to_numpy(batch.column(VALUE_KIND.name))
    return batch.drop_columns([VALUE_KIND.name]), kinds


def row_kinds(batch: pa.RecordBatch, schema: TableSchema) -> Kinds | None:
    """Return the `_VALUE_KIND` byte of each row, or None if every row is +I."""
    name = schema.typed_options.get(ROWKIND_FIELD)
    return parse_kinds(batch.column(name), name) if name else None


def parse_kinds(column: Any, name: str) -> Kinds:
    """Return the `_VALUE_KIND` bytes of a column of short texts."""
    if column.null_count:
        raise InvalidInputError(
            f"Row kind cannot be null: column '{name}' is null in {column.null_count} of "
            f"{len(column)} rows; expected one of +I, -U, +U, -D.",
            kind="row-kind",
            details={"column": name, "rows": column.null_count},
        )
    encoded = column.dictionary_encode()
    texts = encoded.dictionary.to_pylist()  # a handful, however many rows
    text_kinds = [BY_SHORT_TEXT.get(text.upper()) for text in texts]
    if None in text_kinds:
        text = texts[text_kinds.index(None)]
        raise InvalidInputError(
            f"Unsupported short string '{text}' for row kind in column '{name}'; expected one of "
            "+I, -U, +U, -D.",
            kind="row-kind",
            details={"column": name, "value": text},
        )
    kinds: Kinds = np.array(text_kinds, dtype=np.int8)
    indices: npt.NDArray[np.int32] = to_numpy(encoded.indices)
    return kinds[indices]


def without_ignored(
    batch: pa.RecordBatch, schema: TableSchema
) -> tuple[pa.RecordBatch, Kinds | None]:
    """Return rows and their kinds without those that the table ignores.

    They are ignored by `ignore-delete` and `ignore-update-before`.
    """
    kinds, options = row_kinds(batch, schema), schema.typed_options
    if kinds is None:
        return batch, None
    mask = np.ones(len(kinds), dtype=np.bool_)
    if options.get(IGNORE_DELETE):
        mask = adds(kinds)
    elif options.get(IGNORE_UPDATE_BEFORE):
        mask = kinds != RowKind.UPDATE_BEFORE
    return (batch, kinds) if mask.all() else (batch.filter(from_numpy(mask)), kinds[mask])


def refuse_retracts(kinds: Kinds | None, schema: TableSchema) -> None:
    """Refuse -U and -D on a table without a primary key."""
    if kinds is None or schema.has_primary_key:
        return
    retracts = np.flatnonzero(~adds(kinds))
    if not len(retracts):
        return
    kind = RowKind(int(kinds[retracts[0]]))
    name = schema.typed_options.get(ROWKIND_FIELD)
    raise InvalidInputError(
        f"Append only writer can not accept row with RowKind {kind.short_text}: {len(retracts)} "
        f"rows of column '{name}' retract, but the table has no primary key. Set 'ignore-delete' "
        "to drop them.",
        kind="row-kind",
        details={"column": name, "value": kind.short_text, "rows": len(retracts)},
    )
