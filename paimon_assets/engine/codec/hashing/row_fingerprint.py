"""A hash of 64 bits of every row: two rows with another value in a column have another one.

It is stored (`table.write.keyed_columns`), so it must not change. A number of a wider type has the
hash of the narrower one; -0.0 and 0.0 have two.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
import pyarrow.types as pat

from paimon_assets.engine.codec.arrow.numpy_columns import decimal_words, to_numpy
from paimon_assets.engine.codec.hashing.xxhash64 import xxhash64

Longs = npt.NDArray[np.uint64]

_STEP, _FIRST, _SECOND = (
    np.uint64(number) for number in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)
_NULL = np.uint64(0x6A09E667F3BCC909)


def row_fingerprints(columns: Iterable[Any], row_count: int) -> Longs:
    """Return the hash of each row of some Arrow arrays; their order counts.

    >>> import pyarrow as pa
    >>> one, other = row_fingerprints([pa.array([1, 1]), pa.array(["a", None])], 2)
    >>> bool(one == other)
    False
    """
    state = np.zeros(row_count, np.uint64)
    for column in columns:
        state = mixed(state + _hashes(column))
    return state


def mixed(values: Longs) -> Longs:
    """Return pseudo-random bits: the finalizer of SplitMix64."""
    bits = values + _STEP
    bits = (bits ^ (bits >> np.uint64(30))) * _FIRST
    bits = (bits ^ (bits >> np.uint64(27))) * _SECOND
    return bits ^ (bits >> np.uint64(31))


def _hashes(column: Any) -> Longs:
    kind = column.type
    if pat.is_null(kind):
        return np.full(len(column), _NULL)
    if pat.is_map(kind):
        hashes = _of_lists(column, [column.keys, column.items])
    elif pat.is_nested(kind) and not pat.is_struct(kind):
        hashes = _of_lists(column, [column.values])
    elif pat.is_struct(kind):
        hashes = row_fingerprints(column.flatten(), len(column))
    elif pat.is_decimal(kind):
        low, high = decimal_words(column).view(np.uint64).T
        hashes = mixed(mixed(low) + high)
    elif pat.is_primitive(kind):
        plain = column if pat.is_boolean(kind) else column.view(f"int{kind.bit_width}")
        hashes = mixed(to_numpy(plain).astype(np.int64).view(np.uint64))
    else:
        hashes = xxhash64(column)
    if not column.null_count:
        return hashes
    return np.where(to_numpy(pc.is_valid(column)), hashes, _NULL)


def _of_lists(column: Any, parts: list[Any]) -> Longs:
    """Return hashes of lists: sums of those of their elements with their places."""
    offsets = to_numpy(column.offsets).astype(np.int64)
    first, last = (int(offsets[0]), int(offsets[-1])) if len(offsets) else (0, 0)
    elements = row_fingerprints([part.slice(first, last - first) for part in parts], last - first)
    counts = np.diff(offsets)
    places = np.arange(last - first) - np.repeat(offsets[:-1] - first, counts)
    sums = np.concatenate(
        [np.zeros(1, np.uint64), np.cumsum(mixed(elements + places.astype(np.uint64)))]
    )
    return mixed(sums[offsets[1:] - first] - sums[offsets[:-1] - first] + counts.view(np.uint64))
