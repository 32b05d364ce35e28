"""Blob files: one BLOB column of some rows.

    entries   int32 LE magic · value · int64 LE bytes of the entry · int32 LE CRC32 of all before
    index     differences of the entries' lengths as zig-zag varints; -1 is a null
    end       int32 LE bytes of the index · byte version = 1

The file does not name its column; the table's metadata does.
Source: `org.apache.paimon.format.blob.BlobFormatWriter`.
"""

from __future__ import annotations

import struct
import zlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NoReturn

import pyarrow as pa

from paimon_assets.engine.data.format.base import FileFormat, FileToRead, FormatReader
from paimon_assets.engine.errors import FormatError, UnsupportedFeatureError
from paimon_assets.engine.spec.predicate.predicate import Predicate

MAGIC = struct.pack("<i", 1_481_511_375)
_VERSION = 1
_FOOTER = struct.Struct("<ib")
_TAIL = struct.Struct("<qI")
_FRAME_BYTES = len(MAGIC) + _TAIL.size
_NULL, _PLACEHOLDER = -1, -2
_BATCH_BYTES = 64 * 1024 * 1024
"""Limit of a batch's values; a larger value is a batch of its own."""


class BlobReader(FormatReader):
    title = "blob"

    def _columns(self, file: FileToRead) -> pa.Schema:
        self._lengths = self._read_index()
        stored = (max(length, 0) for length in self._lengths)
        self._offsets = list(accumulate(stored, initial=0))
        return pa.schema([(name, pa.large_binary()) for name in file.columns or ()])

    def _batches(
        self, names: list[str], predicate: Predicate | None, batch_rows: int, batch_bytes: int
    ) -> Iterator[pa.RecordBatch]:
        """Read values, in file order; see `FormatReader`. Nothing is pruned by `predicate`.

        Cost:
            One storage call a batch, and a step of Python a value: values are large.
        """
        start, batch_bytes = 0, min(batch_bytes, _BATCH_BYTES)
        while start < len(self._lengths):
            begin = self._offsets[start]
            fitting = bisect_right(self._offsets, begin + batch_bytes) - 1
            stop = max(start + 1, min(fitting, start + batch_rows, len(self._lengths)))
            values: list[bytes | None] = [None] * (stop - start)
            if names:
                self._source.seek(begin)
                data = self._source.read(self._offsets[stop] - begin)
                values = [
                    self._value(data, self._offsets[row] - begin, self._lengths[row])
                    for row in range(start, stop)
                ]
            rows = pa.record_batch([pa.array(values, pa.large_binary())], schema=self.schema)
            yield rows.select(names)
            start = stop

    def row_ranges(self, predicate: Predicate | None) -> Sequence[tuple[int, int]]:
        return [(0, len(self._lengths))]

    def _value(self, data: bytes, offset: int, length: int) -> bytes | None:
        if length == _NULL:
            return None
        if length == _PLACEHOLDER:
            message = (
                f"Blob file '{self._path}' updates some of its rows only; this engine reads blob"
                " files that hold every row."
            )
            raise UnsupportedFeatureError(message, kind="blob-placeholder", path=self._path)
        end = offset + length
        entry = data[offset : end - 4]
        entry_bytes, checksum = _TAIL.unpack_from(data, end - _TAIL.size)
        if not entry.startswith(MAGIC) or entry_bytes != length or checksum != zlib.crc32(entry):
            self._raise_damage(f"the value at byte {offset} was changed")
        return entry[len(MAGIC) : -8]

    def _read_index(self) -> list[int]:
        size = self._source.size()
        if size < _FOOTER.size:
            self._raise_damage(f"it has {size} bytes")
        self._source.seek(size - _FOOTER.size)
        index_bytes, version = _FOOTER.unpack(self._source.read(_FOOTER.size))
        end = size - _FOOTER.size
        if version != _VERSION or not 0 <= index_bytes <= end:
            self._raise_damage(
                f"it ends with version {version} and an index of {index_bytes} bytes"
            )
        self._source.seek(end - index_bytes)
        lengths = list(accumulate(_varints(self._source.read(index_bytes))))
        if any(length < _FRAME_BYTES and length not in (_NULL, _PLACEHOLDER) for length in lengths):
            self._raise_damage("its index holds an impossible length")
        if sum(max(length, 0) for length in lengths) != end - index_bytes:
            self._raise_damage("its index does not add up to its size")
        return lengths

    def _raise_damage(self, problem: str) -> NoReturn:
        raise FormatError(f"Data file '{self._path}' is damaged: {problem}.", path=self._path)


def _varints(data: bytes) -> Iterator[int]:
    """Decode zig-zag varints: seven bits a byte, the smallest first."""
    value, shift = 0, 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:  # the high bit means that more bytes follow
            yield (value >> 1) ^ -(value & 1)
            value, shift = 0, 0


FORMATS = (FileFormat(name="blob", reader=BlobReader, is_one_column=True),)
