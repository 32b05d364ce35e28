"""theta_sketch, hll_sketch: the union of sketches that count distinct values.

A sketch is the bytes of Apache DataSketches, whose own library unites them. It is an extra: without
it all else works, also reading files of such columns that need no merging.
Source: `org.apache.paimon.utils.ThetaSketch`, `HllSketchUtil`.
"""

from __future__ import annotations

from functools import reduce
from importlib import import_module
from importlib.util import find_spec
from struct import pack
from typing import Any

from paimon_assets.engine.data.merge.aggregate.unions import united_values
from paimon_assets.engine.data.merge.records import Array, Grouped

_PREAMBLE_LONGS, _FLAGS, _SEED_HASH, _SAMPLING = 0, 5, slice(6, 8), slice(12, 16)
"""Where they are in a theta sketch."""
_IS_EMPTY, _IS_SINGLE = 0x04, 0x20

_LIBRARY = "datasketches"
SKETCHES_EXTRA = "paimon-assets[sketches]"
"""What to install for it."""


def has_sketches() -> bool:
    """Whether the library is there."""
    return find_spec(_LIBRARY) is not None


def united_theta_sketches(values: Array, grouped: Grouped, column: str) -> Array:
    """Unite the theta sketches of each group, to at most 4096 entries, as `united_values` does."""
    return united_values(values, grouped, _united_thetas, what="theta sketch", column=column)


def united_hll_sketches(values: Array, grouped: Grouped, column: str) -> Array:
    """Unite the HLL sketches of each group, to 4 bits a bucket, as `united_values` does."""
    return united_values(values, grouped, _united_hlls, what="HLL sketch", column=column)


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
