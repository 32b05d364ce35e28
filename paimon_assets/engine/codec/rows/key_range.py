"""Keys of files as values that compare as keys do, wherever key ranges are compared.

Python's own order is not enough: NaN has no place in it, -0.0 equals 0.0, and None compares with
nothing. Merging orders floating point by Java's total order (-0.0 < 0.0, NaN last) and nulls first;
sections and conflicts must see the same order, or keys that meet are read apart.
"""

import math
from collections.abc import Sequence
from typing import Any

from paimon_assets.engine.codec.rows.binary_row import deserialize_row
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.types.data_types import DataType
from paimon_assets.engine.spec.types.literals import Internal

ComparableKey = tuple[tuple[Any, ...], ...]

_NULL = (0,)
_NAN = (2,)


def key_range(file: DataFileMeta, types: Sequence[DataType]) -> tuple[ComparableKey, ComparableKey]:
    """Return the smallest and the largest key of a file of a primary-key table."""
    return comparable_key(file.min_key, types), comparable_key(file.max_key, types)


def comparable_key(row: bytes, types: Sequence[DataType]) -> ComparableKey:
    """Decode a serialized key into tuples that compare as keys are ordered.

    >>> from paimon_assets.engine.codec.rows.binary_row import serialize_row
    >>> from paimon_assets.engine.spec.types.data_types import bigint
    >>> null, one = (serialize_row([value], [bigint()]) for value in (None, 1))
    >>> comparable_key(null, [bigint()]) < comparable_key(one, [bigint()])
    True
    """
    return tuple(_comparable(value) for value in deserialize_row(row, types))


def _comparable(value: Internal) -> tuple[Any, ...]:
    if value is None:
        return _NULL
    if not isinstance(value, float):
        return (1, value)
    return _NAN if math.isnan(value) else (1, value, math.copysign(1.0, value))
