"""rbm32, rbm64, theta_sketch, hll_sketch: the union of sets that lie in the bytes of some library.

Bitmaps are of 32 bits in the portable format, or of 64 in Java's. A sketch counts distinct values;
it is the bytes of Apache DataSketches, whose own library unites them. It is an extra: without it
all else works, also reading files of such columns that need no merging.
Source: `org.apache.paimon.mergetree.compact.aggregate.FieldRoaringBitmap32Agg`,
`FieldRoaringBitmap64Agg`, `org.apache.paimon.utils.ThetaSketch`, `HllSketchUtil`,
https://github.com/RoaringBitmap/RoaringFormatSpec
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from importlib import import_module
from importlib.util import find_spec
from struct import pack
from typing import Any

import pyarrow as pa
from pyroaring import BitMap, BitMap64

from paimon_assets.engine.codec.arrow.numpy_columns import from_numpy
from paimon_assets.engine.codec.bitmaps.roaring import smallest
from paimon_assets.engine.codec.bitmaps.roaring64 import read_java_bitmap64, write_java_bitmap64
from paimon_assets.engine.data.merge.aggregate.lists import nested_list
from paimon_assets.engine.data.merge.records import Array, Grouped, run_starts
from paimon_assets.engine.errors import FormatError
from paimon_assets.engine.spec.merge.merge_rules import AggregateFunction, FieldAggregation

_PREAMBLE_LONGS, _FLAGS, _SEED_HASH, _SAMPLING = 0, 5, slice(6, 8), slice(12, 16)
"""Where they are in a theta sketch."""
_IS_EMPTY, _IS_SINGLE = 0x04, 0x20

_LIBRARY = "datasketches"
SKETCHES_EXTRA = "paimon-assets[sketches]"
"""What to install for it."""


def has_sketches() -> bool:
    """Whether the library is there."""
    return find_spec(_LIBRARY) is not None


def united(values: Array, grouped: Grouped, settings: FieldAggregation) -> Array:
    """Unite the sets of each group; one alone is taken as it is.

    Cost:
        A Python loop over the groups that have a value; uniting two sets costs far more.
    """
    unite, what = _SETS[settings.function]
    present = grouped.valid(values)
    sets: Any = values.take(from_numpy(present.rows))
    lists: Any = nested_list(present.groups, sets, grouped.count)
    united: list[bytes | None] = [None] * grouped.count
    try:
        for group in present.groups[run_starts(present.groups)].tolist():
            members = lists[group].as_py()
            united[group] = members[0] if len(members) == 1 else unite(members)
    except (FormatError, IndexError, MemoryError, RuntimeError, ValueError) as error:
        raise FormatError(
            f"Column '{settings.column}' holds a value that is no {what} ({error}).",
            kind="aggregated-set",
            details={"column": settings.column},
        ) from error
    result: Array = pa.array(united, values.type)
    return result


def _united_bitmaps(bitmaps: list[bytes]) -> bytes:
    return smallest(BitMap.union(*map(BitMap.deserialize, bitmaps)))


def _united_bitmaps64(bitmaps: list[bytes]) -> bytes:
    return write_java_bitmap64(BitMap64.union(*map(read_java_bitmap64, bitmaps)))


def _united_thetas(sketches: list[bytes]) -> bytes:
    library = _library()
    union = library.theta_union()
    for sketch in sketches:
        union.update(library.compact_theta_sketch.deserialize(sketch))
    return _as_java_writes(union.get_result().serialize())


def _as_java_writes(sketch: bytes) -> bytes:
    """Fill in what Java writes into the first bytes of a compact theta sketch and C++ does not."""
    head = bytearray(sketch)
    if head[_PREAMBLE_LONGS] > 1:
        head[_SAMPLING] = pack("<f", 1.0)
    elif head[_FLAGS] & _IS_EMPTY:
        head[_SEED_HASH] = bytes(2)
    else:
        head[_FLAGS] |= _IS_SINGLE
    return bytes(head)


def _united_hlls(sketches: list[bytes]) -> bytes:
    library = _library()

    def unite(so_far: Any, sketch: Any) -> Any:
        # One by one, as Java does: each sketch says how many buckets its union may have.
        union = library.hll_union(sketch.lg_config_k)
        union.update(sketch)
        union.update(so_far)
        return union.get_result(library.tgt_hll_type.HLL_4)

    found: bytes = reduce(unite, map(library.hll_sketch.deserialize, sketches)).serialize_compact()
    return found


def _library() -> Any:
    return import_module(_LIBRARY)


_SETS: Mapping[AggregateFunction, tuple[Callable[[list[bytes]], bytes], str]] = {
    AggregateFunction.RBM32: (_united_bitmaps, "roaring bitmap of 32-bit numbers"),
    AggregateFunction.RBM64: (_united_bitmaps64, "roaring bitmap of 64-bit numbers"),
    AggregateFunction.THETA_SKETCH: (_united_thetas, "theta sketch"),
    AggregateFunction.HLL_SKETCH: (_united_hlls, "HLL sketch"),
}
"""(two sets or more, oldest first → their union; what a value is, for messages); the first raises
one of what libraries raise on bytes that are something else."""
