"""Columns → the bytes of their rows in Avro's binary encoding, without a step a row.

A cell is what one value takes. The cells of a row, of an element, or of a key with its value are
joined in turn: where each begins follows from the lengths of all before it, so a column of cells is
put to its places at once.
Source: https://avro.apache.org/docs/1.12.0/specification/#binary-encoding
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.types as pat

from paimon_assets.engine.codec.arrow.numpy_columns import to_numpy
from paimon_assets.engine.data.format.avro_types import Json
from paimon_assets.engine.errors import InvalidInputError

Bytes = npt.NDArray[np.uint8]
Longs = npt.NDArray[np.int64]

_BITS = 7
"""The bits of a number in each byte; the eighth says that more follow."""
_MOST_BYTES = 10
_MORE = 0x80


@dataclass(frozen=True, slots=True)
class Cells:
    """The encoded values of a column, one after the other."""

    lengths: Longs
    """Row → bytes."""
    data: Bytes


def encoded_rows(columns: Sequence[Any], record: Json) -> bytes:
    """Return rows as an Avro block holds them.

    Args:
        columns: Arrow arrays in the types that store them (`Shape.stored`), not sliced.
        record: The Avro record whose fields they are.

    Raises:
        InvalidInputError: A null in a field that has none; names it.

    Cost:
        Some 20 bytes of memory for each one encoded.
    """
    cells = []
    for column, field in zip(columns, record["fields"], strict=True):
        try:
            cells.append(_encoded(column, field["type"]))
        except InvalidInputError as error:
            message = f"Column '{field['name']}': {error.message}"
            raise InvalidInputError(message, kind=error.kind) from error
    return _joined(cells).data.tobytes()


def _encoded(array: Any, avro: Json) -> Cells:
    if isinstance(avro, list):  # of null and a type: the number of the branch, then the value
        present = to_numpy(array.is_valid())
        values = _encoded(array.drop_null(), avro[1])
        lengths = np.zeros(len(array), dtype=np.int64)
        lengths[present] = values.lengths
        return _joined([_single(2 * present.astype(np.uint8)), Cells(lengths, values.data)])
    if array.null_count:
        raise InvalidInputError("a null where there is none in an Avro file.", kind="null")
    arrow_type = array.type
    if pat.is_integer(arrow_type):
        return _numbers(to_numpy(array).astype(np.int64))
    if pat.is_boolean(arrow_type):
        return _single(to_numpy(array).astype(np.uint8))
    if pat.is_floating(arrow_type):
        reals = to_numpy(array)
        return Cells(np.full(len(reals), reals.itemsize, dtype=np.int64), reals.view(np.uint8))
    if pat.is_string(arrow_type) or pat.is_binary(arrow_type):
        return _texts(array)
    return _nested(array, avro)


def _nested(array: Any, avro: Json) -> Cells:
    if pat.is_struct(array.type):
        fields = zip(array.flatten(), avro["fields"], strict=True)
        return _joined([_encoded(child, field["type"]) for child, field in fields])
    if pat.is_map(array.type):
        items = _joined([_encoded(array.keys, "string"), _encoded(array.items, avro["values"])])
    else:
        items = _encoded(array.values, avro["items"])
    # A count with so many items, unless there are none; then a count of 0.
    ends = _ends(array)
    counts = np.diff(ends)
    filled = counts > 0
    counted = _numbers(counts[filled])
    heads = np.zeros(len(array), dtype=np.int64)
    heads[filled] = counted.lengths
    before = np.concatenate([[0], np.cumsum(items.lengths)])
    bodies = np.diff(before[ends])
    end = _single(np.zeros(len(array), dtype=np.uint8))
    return _joined([Cells(heads, counted.data), Cells(bodies, items.data), end])


def _texts(array: Any) -> Cells:
    ends = _ends(array)
    data = np.frombuffer(array.buffers()[2] or b"", dtype=np.uint8)[ends[0] : ends[-1]]
    lengths = np.diff(ends)
    return _joined([_numbers(lengths), Cells(lengths, data)])


def _ends(array: Any) -> Longs:
    """Return where each value of an array begins, and where the last one ends."""
    if not len(array):
        return np.zeros(1, dtype=np.int64)
    start, count = array.offset * np.dtype(np.int32).itemsize, len(array) + 1
    ends = np.frombuffer(array.buffers()[1], dtype=np.int32, count=count, offset=start)
    return ends.astype(np.int64)


def _single(values: Bytes) -> Cells:
    return Cells(np.ones(len(values), dtype=np.int64), values)


def _numbers(values: Longs) -> Cells:
    """Encode numbers, zig-zag and variable length."""
    bits = ((values << 1) ^ (values >> 63)).view(np.uint64)[:, None]  # the sign comes last
    places = np.arange(_MOST_BYTES, dtype=np.uint64)
    rest = bits >> (places * np.uint64(_BITS))
    lengths = np.maximum(1, np.count_nonzero(rest, axis=1)).astype(np.int64)
    follows = places[None, :].astype(np.int64) < lengths[:, None] - 1
    groups = (rest & np.uint64(_MORE - 1)).astype(np.uint8) | (follows * np.uint8(_MORE))
    inside = places[None, :].astype(np.int64) < lengths[:, None]
    return Cells(lengths, groups[inside])


def _joined(parts: Sequence[Cells]) -> Cells:
    """Put the cells of some columns beside each other, row by row."""
    if len(parts) == 1:
        return parts[0]
    lengths = np.stack([part.lengths for part in parts], axis=1)
    ends = np.cumsum(lengths).reshape(lengths.shape)
    starts = ends - lengths
    data = np.empty(int(lengths.sum()), dtype=np.uint8)
    for number, part in enumerate(parts):
        own = np.cumsum(part.lengths) - part.lengths
        moved = np.repeat(starts[:, number] - own, part.lengths)
        data[moved + np.arange(len(part.data))] = part.data
    return Cells(lengths.sum(axis=1), data)
