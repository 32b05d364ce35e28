"""rbm32, rbm64, theta_sketch, hll_sketch: the union of serialized sets.

Bitmaps have 32 bits in the portable format, or 64 bits in Java's. A sketch counts distinct values;
the library of Apache DataSketches, an extra, unites its bytes. Without the library, files of such
columns can be read unless they must be merged.
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

from paimon_assets.engine.codec.arrow.numpy_columns import Array, from_numpy
from paimon_assets.engine.codec.bitmaps import roaring
from paimon_assets.engine.data.merge.aggregate.lists import nested_list
from paimon_assets.engine.data.merge.records import Grouped, run_starts
from paimon_assets.engine.errors import FormatError
from paimon_assets.engine.spec.merge.merge_rules import AggregateFunction, FieldAggregation

_PREAMBLE_LONGS, _FLAGS, _SEED_HASH, _SAMPLING = 0, 5, slice(6, 8), slice(12, 16)
"""Bytes of a theta sketch."""
_IS_EMPTY, _IS_SINGLE = 0x04, 0x20

_LIBRARY = "datasketches"
SKETCHES_EXTRA = "paimon-assets[sketches]"
"""The requirement to install it."""


def has_sketches() -> bool:
    return find_spec(_LIBRARY) is not None


def unite_sets(values: Array, grouped: Grouped, settings: FieldAggregation) -> Array:
    """Unite the sets of each group; a single set stays unchanged.

    Cost:
        A Python loop over the groups that have a value; uniting two sets costs far more.
    """
    unite, name = _SETS[settings.function]
    present = grouped.valid(values)
    sets: Any = values.take(from_numpy(present.rows))
    lists: Any = nested_list(present.groups, sets, grouped.count)
    unions: list[bytes | None] = [None] * grouped.count
    try:
        for group in present.groups[run_starts(present.groups)].tolist():
            members = lists[group].as_py()
            unions[group] = members[0] if len(members) == 1 else unite(members)
    except (FormatError, IndexError, MemoryError, RuntimeError, ValueError) as error:
        message = f"Column '{settings.column}' holds a value that is not a valid {name} ({error})."
        raise FormatError(message, kind="aggregated-set", column=settings.column) from error
    result: Array = pa.array(unions, values.type)
    return result


def _unite_bitmaps(bitmaps: list[bytes]) -> bytes:
    return roaring.smallest(BitMap.union(*map(BitMap.deserialize, bitmaps)))


def _unite_bitmaps64(bitmaps: list[bytes]) -> bytes:
    return roaring.write_java_bitmap64(BitMap64.union(*map(roaring.read_java_bitmap64, bitmaps)))


def _unite_theta_sketches(sketches: list[bytes]) -> bytes:
    library: Any = import_module(_LIBRARY)
    union = library.theta_union()
    for sketch in sketches:
        union.update(library.compact_theta_sketch.deserialize(sketch))
    # Java writes some of the first bytes of a compact theta sketch otherwise than C++.
    head = bytearray(union.get_result().serialize())
    if head[_PREAMBLE_LONGS] > 1:
        head[_SAMPLING] = pack("<f", 1.0)
    elif head[_FLAGS] & _IS_EMPTY:
        head[_SEED_HASH] = bytes(2)
    else:
        head[_FLAGS] |= _IS_SINGLE
    return bytes(head)


def _unite_hll_sketches(sketches: list[bytes]) -> bytes:
    library: Any = import_module(_LIBRARY)

    def unite(result: Any, sketch: Any) -> Any:
        # One by one, as Java does: each sketch limits the buckets of its union.
        union = library.hll_union(sketch.lg_config_k)
        union.update(sketch)
        union.update(result)
        return union.get_result(library.tgt_hll_type.HLL_4)

    union: bytes = reduce(unite, map(library.hll_sketch.deserialize, sketches)).serialize_compact()
    return union


_SETS: Mapping[AggregateFunction, tuple[Callable[[list[bytes]], bytes], str]] = {
    AggregateFunction.RBM32: (_unite_bitmaps, "roaring bitmap of 32-bit numbers"),
    AggregateFunction.RBM64: (_unite_bitmaps64, "roaring bitmap of 64-bit numbers"),
    AggregateFunction.THETA_SKETCH: (_unite_theta_sketches, "theta sketch"),
    AggregateFunction.HLL_SKETCH: (_unite_hll_sketches, "HLL sketch"),
}
"""(two sets or more, oldest first → their union; name of a value for messages). The function raises
the library's errors on invalid bytes."""
