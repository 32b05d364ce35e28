"""Bitmap index: for each value of a column, the rows that hold it.

    version 1   int32 rows · int32 values · boolean nulls? [int32 offset]
                values: key, int32 offset
    version 2   int32 rows · int32 values · boolean nulls? [int32 offset, length]
                int32 blocks: first key, int32 offset · int32 bytes of all blocks
                block: int32 entries: key, int32 offset, length; keys ascend
    then the bitmaps; offsets count from the first one, and -1 - p means row p alone

A key is a big-endian number, or an int32 length and bytes.
Source: `org.apache.paimon.fileindex.bitmap.BitmapFileIndex`, `BitmapFileIndexMeta`,
`BitmapFileIndexMetaV2`.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field
from pyroaring import BitMap

from paimon_assets.engine.codec.arrow.numpy_columns import Array, from_numpy, to_numpy
from paimon_assets.engine.codec.bitmaps.roaring import read_bitmap, smallest
from paimon_assets.engine.codec.file_index.file_index_bloom import equal_longs, to_longs
from paimon_assets.engine.errors import FormatError
from paimon_assets.engine.spec.options.all_options import BITMAP_BLOCK_SIZE
from paimon_assets.engine.spec.types import data_types as types
from paimon_assets.engine.spec.values import Value

INDEX_TYPE = "bitmap"
FLAT_VERSION = 1
BLOCK_VERSION = 2
_WIDTHS = {
    types.TypeRoot.BOOLEAN: 1,
    types.TypeRoot.TINYINT: 1,
    types.TypeRoot.SMALLINT: 2,
    types.TypeRoot.INT: 4,
    types.TypeRoot.BIGINT: 8,
    types.TypeRoot.FLOAT: 4,
    types.TypeRoot.DOUBLE: 8,
    types.TypeRoot.DATE: 4,
    types.TypeRoot.TIME: 4,
    **dict.fromkeys(types.TIMESTAMP_ROOTS, 8),
}
_FLOATS = frozenset({types.TypeRoot.FLOAT, types.TypeRoot.DOUBLE})
_HEAD = struct.Struct(">bii?")
_INT = struct.Struct(">i")
_PAIR = struct.Struct(">ii")

Numbers = npt.NDArray[Any]


def is_indexed_by_bitmap(data_type: types.DataType) -> bool:
    return data_type.root in types.BITMAP_ROOTS


class BitmapBuilder(Struct, kw_only=True):
    """Collects one file's column. Memory: 12 bytes a row, or 4 and each distinct text."""

    data_type: types.DataType
    version: int = BLOCK_VERSION
    block_bytes: int = BITMAP_BLOCK_SIZE.default
    _rows: int = 0
    _present: list[Numbers] = field(default_factory=list)
    _values: list[Any] = field(default_factory=list)

    def add(self, values: Array) -> None:
        present = np.flatnonzero(to_numpy(values.is_valid())) + self._rows
        self._present.append(present.astype(np.uint32))
        plain = values.drop_null()
        if self.data_type.root in types.CHARACTER_ROOTS:
            self._values.append(plain.cast(pa.large_binary()).dictionary_encode())
        else:
            self._values.append(to_longs(plain, self.data_type))
        self._rows += len(values)

    def finish(self) -> bytes:
        """Return the index. Cost: a step for each value that several rows hold."""
        rows = np.concatenate([np.empty(0, np.uint32), *self._present])
        keys, sizes, codes = self._keys()
        order = np.argsort(codes, kind="stable")
        counts = np.bincount(codes, minlength=len(keys))
        nulls = np.setdiff1d(np.arange(self._rows, dtype=np.uint32), rows, assume_unique=True)
        bodies = _Bodies()
        null_place = bodies.add(nulls) if len(nulls) else (0, 0)
        places = bodies.add_all(rows[order], counts)
        head = _HEAD.pack(self.version, self._rows, len(keys), len(nulls) > 0)
        if self.version == FLAT_VERSION:
            nowhere = _INT.pack(null_place[0]) if len(nulls) else b""
            parts = [head, nowhere, *_join(keys, places[:, :1])]
        else:
            # Java gives the length of the bitmap even where it writes the row instead.
            length = len(smallest(BitMap(nulls)))
            nowhere = _PAIR.pack(null_place[0], length) if len(nulls) else b""
            parts = [head, nowhere, *self._blocks(keys, sizes, places)]
        return b"".join((*parts, *bodies.parts))

    def _keys(self) -> tuple[Any, Numbers, Numbers]:
        """Return the distinct keys ascending as bytes, their lengths, and the key of each row."""
        if self.data_type.root in types.CHARACTER_ROOTS:
            empty = pa.nulls(0, pa.large_binary()).dictionary_encode()
            joined: Any = pa.chunked_array([empty, *self._values]).unify_dictionaries()
            whole: Any = joined.combine_chunks()
            order = to_numpy(pc.sort_indices(whole.dictionary)).astype(np.int64)
            # Keys ascend; `ranks` leads from the dictionary's number of a text to its key.
            ranks = np.empty(len(order), np.int64)
            ranks[order] = np.arange(len(order))
            texts = whole.dictionary.take(from_numpy(order))
            lengths = to_numpy(pc.binary_length(texts)).astype(np.int64)
            keys = _texts_joined([_ints(lengths), texts])
            return keys, lengths + _INT.size, ranks[to_numpy(whole.indices)]
        longs = np.concatenate([np.empty(0, np.int64), *self._values])
        ordered, codes = np.unique(_in_order(longs, self.data_type), return_inverse=True)
        width = _WIDTHS[self.data_type.root]
        plain = _in_order(ordered, self.data_type).astype(f">i{width}")
        return _fix(plain.tobytes(), width), np.full(len(plain), width), codes

    def _blocks(self, keys: Array, sizes: Numbers, places: Numbers) -> Iterator[bytes]:
        """Yield the table of blocks, and the blocks."""
        ends = np.cumsum(sizes + _PAIR.size)
        begins = [0] if len(ends) else []
        while begins and begins[-1] < len(ends):
            before = int(ends[begins[-1] - 1]) if begins[-1] else 0
            room = before + self.block_bytes - _INT.size
            begins.append(max(int(np.searchsorted(ends, room, "right")), begins[-1] + 1))
        blocks = []
        for start, stop in pairwise(begins):
            entries = b"".join(_join(keys[start:stop], places[start:stop]))
            blocks.append(_INT.pack(stop - start) + entries)
        yield _INT.pack(len(blocks))
        at = 0
        for start, block in zip(begins, blocks, strict=False):
            yield keys[start].as_py() + _INT.pack(at)
            at += len(block)
        yield _INT.pack(at)
        yield from blocks


def _in_order(longs: Numbers, data_type: types.DataType) -> Numbers:
    """Return numbers that sort as Java sorts the values; for floats it is its own inverse."""
    if data_type.root not in _FLOATS:
        return longs
    mask = np.int64(0x7FFFFFFF if data_type.root is types.TypeRoot.FLOAT else 2**63 - 1)
    return np.where(longs < 0, longs ^ mask, longs)


def _fix(data: bytes, width: int) -> Any:
    """Return equally long parts of `data` as a column of bytes."""
    count = len(data) // width
    column: Array = pa.Array.from_buffers(pa.binary(width), count, [None, pa.py_buffer(data)])
    return column.cast(pa.large_binary())


def _ints(values: Numbers) -> Any:
    return _fix(values.astype(">i4").tobytes(), _INT.size)


def _texts_joined(columns: list[Any]) -> Any:
    count = len(columns[0])
    buffers = [None, pa.py_buffer(bytes(8 * (count + 1))), pa.py_buffer(b"")]
    nothing: Any = pa.Array.from_buffers(pa.large_binary(), count, buffers)
    return pc.binary_join_element_wise(*columns, nothing)


def _join(keys: Array, places: Numbers) -> Iterator[bytes]:
    """Yield the bytes of entries: each key, then its numbers."""
    column = _texts_joined([keys, *(_ints(places[:, each]) for each in range(places.shape[1]))])
    _, offsets, data = column.buffers()
    if data is not None and len(column):
        ends = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
        yield data.slice(int(ends[0]), int(ends[-1] - ends[0])).to_pybytes()


class _Bodies(Struct):
    """The bitmaps of an index, one behind the other."""

    parts: list[bytes] = field(default_factory=list)
    total_bytes: int = 0

    def add(self, rows: Numbers) -> tuple[int, int]:
        """Return (offset, length) of the bitmap of these rows; a row alone has none."""
        if len(rows) == 1:
            return -1 - int(rows[0]), -1
        body = smallest(BitMap(rows))
        place = self.total_bytes, len(body)
        self.parts.append(body)
        self.total_bytes += len(body)
        return place

    def add_all(self, rows: Numbers, counts: Numbers) -> Numbers:
        """Add the bitmaps of consecutive stretches of rows; return (offset, length) of each."""
        ends = np.cumsum(counts)
        places = np.full((len(counts), 2), -1, np.int64)
        alone = counts == 1
        places[alone, 0] = -1 - rows[(ends - 1)[alone]].astype(np.int64)
        for number in np.flatnonzero(~alone).tolist():
            stop = int(ends[number])
            places[number] = self.add(rows[stop - int(counts[number]) : stop])
        return places


class BitmapIndex(Value):
    """A bitmap index that was read; bitmaps are decoded when asked for."""

    data: bytes
    data_type: types.DataType
    row_count: int
    null_offset: int | None
    block_keys: tuple[Any, ...] = ()
    """Sort key of the first key of each block."""
    block_starts: tuple[int, ...] = ()
    entries: Mapping[bytes, int] | None = None
    """Key → offset, where there are no blocks."""
    body_start: int

    @staticmethod
    def of(data: bytes, data_type: types.DataType) -> BitmapIndex:
        try:
            return _open(data, data_type)
        except (struct.error, IndexError) as error:
            raise FormatError(f"a bitmap index ends after {len(data)} bytes") from error

    @property
    def nulls(self) -> BitMap:
        return BitMap() if self.null_offset is None else self._bitmap(self.null_offset)

    @property
    def present(self) -> BitMap:
        return BitMap(range(self.row_count)) - self.nulls

    def holding(self, literals: Iterable[Any]) -> BitMap | None:
        """Return the rows whose value an index cannot distinguish from one of the literals."""
        found = BitMap()
        for literal in literals:
            if self.data_type.root in types.CHARACTER_ROOTS:
                text = literal.encode()
                keys = [_INT.pack(len(text)) + text]
            else:
                numbers = equal_longs(literal, self.data_type)
                if numbers is None:
                    return None
                width = _WIDTHS[self.data_type.root]
                limit = 1 << (8 * width - 1)
                fitting = (number for number in numbers if -limit <= number < limit)
                keys = [number.to_bytes(width, "big", signed=True) for number in fitting]
            for key in keys:
                offset = self._offset(key)
                found |= BitMap() if offset is None else self._bitmap(offset)
        return found

    def _offset(self, key: bytes) -> int | None:
        if self.entries is not None:
            return self.entries.get(key)
        number = bisect_right(self.block_keys, _sort_key(key, self.data_type)) - 1
        if number < 0:
            return None
        at = self.block_starts[number]
        try:
            (count,) = _INT.unpack_from(self.data, at)
            entries, _ = _entries(self.data, at + _INT.size, count, self.data_type, _PAIR)
        except (struct.error, IndexError) as error:
            raise FormatError(f"a block of a bitmap index begins at byte {at}") from error
        return entries.get(key)

    def _bitmap(self, offset: int) -> BitMap:
        if offset < 0:
            return BitMap([-1 - offset])
        bitmap, _ = read_bitmap(self.data, self.body_start + offset)
        return bitmap


def _open(data: bytes, data_type: types.DataType) -> BitmapIndex:
    version, rows, count, has_null = _HEAD.unpack_from(data)
    if version not in (FLAT_VERSION, BLOCK_VERSION):
        raise FormatError(f"a bitmap index of version {version}")
    at = _HEAD.size
    place = _INT if version == FLAT_VERSION else _PAIR
    known: dict[str, Any] = {"data": data, "data_type": data_type, "row_count": rows}
    known["null_offset"] = place.unpack_from(data, at)[0] if has_null else None
    at += place.size if has_null else 0
    if version == FLAT_VERSION:
        entries, at = _entries(data, at, count, data_type, _INT)
        return BitmapIndex(**known, entries=entries, body_start=at)
    (blocks,) = _INT.unpack_from(data, at)
    starts, at = _entries(data, at + _INT.size, blocks, data_type, _INT)
    (block_bytes,) = _INT.unpack_from(data, at)
    at += _INT.size
    return BitmapIndex(
        **known,
        block_keys=tuple(_sort_key(key, data_type) for key in starts),
        block_starts=tuple(at + start for start in starts.values()),
        body_start=at + block_bytes,
    )


def _entries(
    data: bytes, at: int, count: int, data_type: types.DataType, place: struct.Struct
) -> tuple[dict[bytes, int], int]:
    """Return (key → offset, where the entries end). Cost: a step for each of `count` entries."""
    entries = {}
    width = _WIDTHS.get(data_type.root)
    for _ in range(count):
        end = at + (width or _INT.size + _INT.unpack_from(data, at)[0])
        if not at < end < len(data):
            raise IndexError(end)
        entries[data[at:end]] = place.unpack_from(data, end)[0]
        at = end + place.size
    return entries, at


def _sort_key(key: bytes, data_type: types.DataType) -> Any:
    if data_type.root in types.CHARACTER_ROOTS:
        return key[_INT.size :]
    number = int.from_bytes(key, "big", signed=True)
    if data_type.root in _FLOATS and number < 0:
        number ^= (1 << (8 * len(key) - 1)) - 1
    return number
