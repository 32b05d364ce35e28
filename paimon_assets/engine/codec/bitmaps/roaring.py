"""Roaring bitmaps of 32 bits that lie among other bytes.

Source: https://github.com/RoaringBitmap/RoaringFormatSpec
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap, BitMap64

from paimon_assets.engine.errors import FormatError


def serialized_bitmap(rows: npt.NDArray[np.uint32]) -> bytes:
    """Return a bitmap of these rows, as small as it gets."""
    return smallest(BitMap(rows))


def smallest(bitmap: BitMap | BitMap64) -> bytes:
    """Return a bitmap as small as it gets, in the portable format."""
    bitmap.run_optimize()
    return bytes(bitmap.serialize())


def read_bitmap(data: bytes, start: int) -> tuple[BitMap, int]:
    """Return the bitmap that begins at `start`, and where it ends."""
    try:
        bitmap: Any = BitMap.deserialize(data[start:])
    except (ValueError, IndexError) as error:
        raise FormatError(f"no roaring bitmap begins at byte {start}") from error
    return bitmap, start + len(bitmap.serialize())
