"""Local times ⇄ instants, in the zone of the cast.

Arrow's time zone database has no summer time after 2037.
"""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc

from paimon_assets.engine.codec.arrow.arrow_types import LTZ_ZONE, timestamp_type
from paimon_assets.engine.codec.arrow.arrow_values import UNIT_NANOS
from paimon_assets.engine.data.casting.arrays import column_of, valid_rows, values_of
from paimon_assets.engine.data.casting.cast import UTC, Array, Cast

_NANOS_PER_DAY = 86_400 * 10**9
_FAR = 2**62


def to_local(array: Array, cast: Cast) -> Array:
    """Return what clocks in the zone show at instants, as timestamps without zone."""
    if cast.zone == UTC:
        return array.view(timestamp_type(array.type.unit, None))
    shown = pc.local_timestamp(array.cast(timestamp_type(array.type.unit, cast.zone)))
    return _not_wrapped(shown, array, cast)


def to_instant(array: Array, cast: Cast) -> Array:
    """Return when clocks in the zone show these local times.

    Of a time that clocks show twice, Java takes the earlier; a time they leave out it moves forward
    by what they leave out. C++ refuses both.
    """
    unit = array.type.unit
    if cast.zone == UTC:
        return array.view(timestamp_type(unit, LTZ_ZONE))
    if not cast.is_java:
        reason = f"clocks in {cast.zone} show it twice or never"
        assumed = cast.tried(array, lambda part: pc.assume_timezone(part, cast.zone), reason)
        return _not_wrapped(assumed.cast(timestamp_type(unit, LTZ_ZONE)), array, cast)
    found = _earliest(array, cast)
    left_out = values_of(pc.local_timestamp(found)) != values_of(array)
    day = _NANOS_PER_DAY // UNIT_NANOS[unit]
    before = column_of(values_of(array) - day, array.type, array)
    moved = values_of(_earliest(before, cast)) + day
    instants = np.where(left_out, moved, values_of(found))
    return _not_wrapped(column_of(instants, timestamp_type(unit, LTZ_ZONE), array), array, cast)


def _earliest(array: Array, cast: Cast) -> Array:
    return pc.assume_timezone(array, cast.zone, ambiguous="earliest", nonexistent="earliest")


def _not_wrapped(result: Array, array: Array, cast: Cast) -> Array:
    """Return the result of moving times by some hours, unless that left 64 bits."""
    before, after = values_of(array), values_of(result)
    wrapped = ((before > _FAR) & (after < 0)) | ((before < -_FAR) & (after > 0))
    cast.check(wrapped & valid_rows(array), array, f"{result.type} cannot hold it")
    return result
