"""Deletion vectors ⇄ bytes: which rows of a data file are deleted, as a roaring bitmap.

    index file   byte version = 1, then vectors
    vector       int32 BE length of body · body (magic, bitmap) · int32 BE CRC32 of body

    32 bits      magic big-endian, bitmap in the portable roaring format
    64 bits      magic little-endian, int64 LE count, then (int32 LE high bits, 32-bit bitmap) each

Positions are row ordinals of the physical file, from 0.
Source: `org.apache.paimon.deletionvectors.DeletionVectorsIndexFile`, `BitmapDeletionVector`,
`Bitmap64DeletionVector`; https://github.com/RoaringBitmap/RoaringFormatSpec
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from pyroaring import BitMap, BitMap64

from paimon_assets.engine.codec.bitmaps.roaring import smallest
from paimon_assets.engine.errors import FormatError, InvalidInputError
from paimon_assets.engine.spec.metadata.manifest import DeletionVectorMeta

INDEX_FILE_VERSION = b"\x01"
"""First byte of an index file of deletion vectors; alone, an index file without vectors."""

_MAGIC_32 = struct.pack(">i", 1_581_511_376)
_MAGIC_64 = struct.pack("<i", 1_681_511_377)
_INT = struct.Struct(">i")
_CHECKSUM = struct.Struct(">I")
FRAME_BYTES = _INT.size + _CHECKSUM.size
"""Length field and checksum around a body."""
_MAX_32 = 2**32 - 1

_Bitmap: TypeAlias = BitMap | BitMap64


class DeletionVector(Struct, frozen=True, eq=False):
    """The deleted rows of one data file."""

    rows: npt.NDArray[np.unsignedinteger[Any]]
    """Positions, ascending, each once; 4 bytes a row, 8 if one is beyond 32 bits."""

    @staticmethod
    def of(positions: Iterable[int]) -> DeletionVector:
        return DeletionVector.of_sorted(BitMap64(positions).to_array())

    @staticmethod
    def of_sorted(positions: Any) -> DeletionVector:
        """Take an array of positions, ascending, each once."""
        rows = np.asarray(positions)
        fits = not len(rows) or int(rows[-1]) <= _MAX_32
        return DeletionVector(rows.astype(np.uint32 if fits else np.uint64, copy=False))

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def last(self) -> int:
        """The largest position, -1 if there is none."""
        return int(self.rows[-1]) if len(self.rows) else -1

    def positions(self, start: int, stop: int) -> npt.NDArray[np.unsignedinteger[Any]]:
        """Return the deleted positions in `[start, stop)`, ascending. Cost: O(log n), no copy."""
        low, high = np.searchsorted(self.rows, np.array([start, stop], dtype=np.uint64))
        return self.rows[low:high]

    def without(self, positions: npt.NDArray[np.int64]) -> DeletionVector:
        """Return the vector of the file that lacks some rows, given ascending."""
        rows = self.rows[~np.isin(self.rows, positions)].astype(np.int64)
        return DeletionVector.of_sorted(rows - np.searchsorted(positions, rows))


def encode_vector(vector: DeletionVector, *, bitmap64: bool = False) -> bytes:
    if bitmap64:
        body = _MAGIC_64 + smallest(BitMap64(vector.rows))
    elif vector.last <= _MAX_32:
        body = _MAGIC_32 + smallest(BitMap(vector.rows))
    else:
        raise InvalidInputError(
            f"Row position {vector.last} does not fit a 32-bit deletion vector; write 64-bit ones"
            " ('deletion-vectors.bitmap64').",
            kind="deletion-vector",
        )
    return _INT.pack(len(body)) + body + _CHECKSUM.pack(zlib.crc32(body))


def decode_vector(
    data: bytes, path: str, *, length: int | None = None, cardinality: int | None = None
) -> DeletionVector:
    """Decode a vector with its frame; its magic number identifies its form."""
    if len(data) < FRAME_BYTES + len(_MAGIC_32):
        raise _damage(path, f"it ends after {len(data)} bytes")
    (body_bytes,) = _INT.unpack_from(data)
    body = data[_INT.size : _INT.size + max(body_bytes, 0)]
    if len(body) != body_bytes or len(data) < body_bytes + FRAME_BYTES:
        raise _damage(path, f"it should have {body_bytes} bytes, of which {len(body)} are there")
    magic = body[: len(_MAGIC_32)]
    if magic not in (_MAGIC_32, _MAGIC_64):
        raise _damage(path, f"it begins with the unknown magic {magic.hex()}")
    noted = body_bytes if magic == _MAGIC_32 else body_bytes + FRAME_BYTES
    if length is not None and length != noted:
        raise _damage(path, f"it has {length} bytes by the table and {noted} by its own head")
    (checksum,) = _CHECKSUM.unpack_from(data, _INT.size + body_bytes)
    if checksum != zlib.crc32(body):
        raise _damage(path, "its checksum is wrong")
    kind: type[_Bitmap] = BitMap if magic == _MAGIC_32 else BitMap64
    try:
        vector = DeletionVector.of_sorted(kind.deserialize(body[len(magic) :]).to_array())
    except (IndexError, ValueError) as error:
        raise _damage(path, "it is no roaring bitmap") from error
    if cardinality is not None and len(vector) != cardinality:
        raise _damage(path, f"it holds {len(vector)} rows, and {cardinality} by the table")
    return vector


def _damage(path: str, fault: str) -> FormatError:
    return FormatError(
        f"{path}: damaged deletion vector, {fault}.", kind="deletion-vector", path=path
    )


def write_index_file(
    vectors: Mapping[str, DeletionVector], *, bitmap64: bool = False
) -> tuple[bytes, tuple[DeletionVectorMeta, ...]]:
    parts, metas, offset = [INDEX_FILE_VERSION], [], len(INDEX_FILE_VERSION)
    for name, vector in vectors.items():
        encoded = encode_vector(vector, bitmap64=bitmap64)
        metas.append(
            DeletionVectorMeta(
                data_file_name=name,
                offset=offset,
                length=len(encoded) - (0 if bitmap64 else FRAME_BYTES),
                cardinality=len(vector),
            )
        )
        parts.append(encoded)
        offset += len(encoded)
    return b"".join(parts), tuple(metas)
