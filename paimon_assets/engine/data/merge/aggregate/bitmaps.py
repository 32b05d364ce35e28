"""rbm32, rbm64: the union of roaring bitmaps, of 32 bits in the portable format, of 64 in Java's.

Source: `org.apache.paimon.mergetree.compact.aggregate.FieldRoaringBitmap32Agg`,
`FieldRoaringBitmap64Agg`, https://github.com/RoaringBitmap/RoaringFormatSpec
"""

from pyroaring import BitMap, BitMap64

from paimon_assets.engine.codec.bitmaps.roaring64 import read_java_bitmap64, write_java_bitmap64
from paimon_assets.engine.data.merge.aggregate.unions import united_values
from paimon_assets.engine.data.merge.records import Array, Grouped


def united_bitmaps(values: Array, grouped: Grouped, column: str) -> Array:
    """Unite the bitmaps of 32 bits of each group, as `united_values` does."""
    what = "roaring bitmap of 32-bit numbers"
    return united_values(values, grouped, _united, what=what, column=column)


def united_bitmaps64(values: Array, grouped: Grouped, column: str) -> Array:
    """Unite the bitmaps of 64 bits of each group, as `united_values` does."""
    what = "roaring bitmap of 64-bit numbers"
    return united_values(values, grouped, _united64, what=what, column=column)


def _united(bitmaps: list[bytes]) -> bytes:
    union = BitMap.union(*map(BitMap.deserialize, bitmaps))
    union.run_optimize()
    return union.serialize()


def _united64(bitmaps: list[bytes]) -> bytes:
    return write_java_bitmap64(BitMap64.union(*map(read_java_bitmap64, bitmaps)))
