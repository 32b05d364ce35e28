"""rbm32: the union of roaring bitmaps of 32-bit numbers, in the portable format.

Source: `org.apache.paimon.mergetree.compact.aggregate.FieldRoaringBitmap32Agg`,
https://github.com/RoaringBitmap/RoaringFormatSpec
"""

from typing import Any

import pyarrow as pa
from pyroaring import BitMap

from paimon_assets.engine.codec.numpy_columns import from_numpy
from paimon_assets.engine.data.merge.aggregate.lists import nested_list
from paimon_assets.engine.data.merge.records import Array, Segments, run_starts
from paimon_assets.engine.errors import FormatError


def united_bitmaps(values: Array, segments: Segments, column: str) -> Array:
    """Unite the bitmaps of each group.

    Raises:
        FormatError: A value is no bitmap; names the column.

    Cost:
        A Python loop over the groups that have a bitmap; uniting two bitmaps costs far more.
    """
    present = segments.valid(values)
    bitmaps: Any = values.take(from_numpy(present.rows))
    lists: Any = nested_list(present.groups, bitmaps, segments.count)
    united: list[bytes | None] = [None] * segments.count
    for group in present.groups[run_starts(present.groups)].tolist():
        united[group] = _united(lists[group].as_py(), column)
    result: Array = pa.array(united, values.type)
    return result


def _united(bitmaps: list[bytes], column: str) -> bytes:
    if len(bitmaps) == 1:
        return bitmaps[0]
    try:
        union = BitMap.union(*map(BitMap.deserialize, bitmaps))
    except (IndexError, ValueError) as error:
        raise FormatError(
            f"Column '{column}' holds a value that is no roaring bitmap of 32-bit numbers.",
            kind="roaring-bitmap",
            details={"column": column},
        ) from error
    union.run_optimize()
    return union.serialize()
