"""Arrow batches as opaque bytes in Spark rows.

Spark turns every Arrow column into rows and back whenever a batch crosses between Python and the
JVM. Rows that only pass through (a shuffle, a read for the driver) therefore travel as bytes: one
Spark row holds a whole batch, whatever its types, and is moved without being looked into.
"""

from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat
from msgspec import Struct

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.words import counted

POSITION_COLUMN = "__paimon_position"
"""BIGINT column of a DataFrame with the position of each row in the input.

It decides the order of rows with equal keys and sequences, and is not written.
"""

PACKED_BYTES = 64 * 1024
"""Wished upper limit of the bytes of a Spark row that is handed to Python.

A batch may hold thousands of rows without a limit of bytes (`arrow_batches`).
"""
LARGE_BYTES = 8 * 1024 * 1024
"""The same of a row that Python gives, and of pieces that are joined."""

_SPARK_NAMES: dict[pa.DataType, str] = {
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.binary(): "binary",
    pa.string(): "string",
}

Positions = npt.NDArray[np.int64]
T = TypeVar("T")


class Packed(Struct, frozen=True):
    """A batch as it came out of a Spark row."""

    position: int
    batch: pa.RecordBatch


def columns(**types: pa.DataType) -> pa.Schema:
    """Return the Arrow schema of Spark rows we make ourselves: name → type."""
    return pa.schema(types)


def ddl(schema: pa.Schema) -> str:
    """Return such a schema as Spark's `mapInArrow` wants it.

    >>> ddl(columns(position=pa.int64(), rows=pa.binary()))
    'position bigint, rows binary'
    """
    return ", ".join(f"{field.name} {_SPARK_NAMES[field.type]}" for field in schema)


def pack(batch: pa.RecordBatch) -> bytes:
    """Encode a batch without its schema."""
    return batch.serialize().to_pybytes()


def unpack(data: bytes, schema: pa.Schema) -> pa.RecordBatch:
    return pa.ipc.read_record_batch(pa.py_buffer(data), schema)


def pieces(batch: pa.RecordBatch, limit_bytes: int = PACKED_BYTES) -> Iterator[pa.RecordBatch]:
    """Yield a batch in slices of about `limit_bytes`; none for an empty batch."""
    count = -(-batch.nbytes // limit_bytes) or 1
    step = max(1, -(-batch.num_rows // count))
    for start in range(0, batch.num_rows, step):
        yield batch.slice(start, step)


def chunks(
    batches: Iterable[T], limit_bytes: int, size: Callable[[T], int] = attrgetter("nbytes")
) -> Iterator[list[T]]:
    """Collect batches up to about `limit_bytes`, in order."""
    waiting: list[T] = []
    waiting_bytes = 0
    for batch in batches:
        waiting.append(batch)
        waiting_bytes += size(batch)
        if waiting_bytes >= limit_bytes:
            yield waiting
            waiting, waiting_bytes = [], 0
    if waiting:
        yield waiting


def join_pieces(packed: Iterable[Packed], limit_bytes: int = LARGE_BYTES) -> Iterator[Packed]:
    """Join pieces up to about `limit_bytes`, each with the position of its first."""
    for waiting in chunks(packed, limit_bytes, attrgetter("batch.nbytes")):
        yield Packed(waiting[0].position, join_batches([piece.batch for piece in waiting]))


def join_batches(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    whole = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return whole[0] if whole else batches[0]


def without_dictionaries(schema: pa.Schema) -> pa.Schema:
    """Return the schema with plain columns for dictionaries, which packed batches cannot carry."""
    types: list[Any] = schema.types
    plain = (kind.value_type if pat.is_dictionary(kind) else kind for kind in types)
    return pa.schema([f.with_type(kind) for f, kind in zip(schema, plain, strict=True)])


def take_positions(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Positions]:
    column: Any = batch.column(POSITION_COLUMN)
    if column.null_count:
        message = (
            f"Column '{POSITION_COLUMN}', the position of rows, is null in "
            f"{counted(column.null_count, 'row')}, as after an outer join. Fill it, or "
            "drop the column."
        )
        raise InvalidInputError(message, kind="row-position", rows=column.null_count)
    positions = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return batch.drop_columns([POSITION_COLUMN]), positions


def in_position_order(packed: Iterable[Packed]) -> Iterator[pa.RecordBatch]:
    """Merge batches that hold a position column into the order of their positions.

    Cost:
        Batches that do not overlap pass untouched. Of overlapping ones the rows are held that may
        still have to wait: everything, if the input was shuffled completely.
    """
    held: pa.RecordBatch | None = None
    for piece in packed:
        if held is None:
            held = piece.batch
            continue
        positions = take_positions(held)[1]
        ready = int(np.searchsorted(positions, piece.position, side="left"))
        if ready:
            yield take_positions(held.slice(0, ready))[0]
        if ready == len(positions):
            held = piece.batch
        else:
            both = join_batches([held.slice(ready), piece.batch])
            held = both.take(pc.array_sort_indices(both.column(POSITION_COLUMN)))
    if held is not None:
        yield take_positions(held)[0]
