"""Keys of level 0 met with what lies above it: one record a key, the one of the lowest level.

    files of the section    level 0 ─┐            level 1, 2 … ─┐
    files above it          ─────────┼── per key ──────────────┴▶ the lowest one is merged in; if it
                                     │                            lies above the section, its place
                                     ▼                            is noted: a deletion vector
                                 all are merged

Source: `org.apache.paimon.mergetree.compact.LookupMergeFunction`,
`LookupChangelogMergeFunctionWrapper`, `FirstRowMergeFunctionWrapper`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_assets.engine.codec.arrow.numpy_columns import from_numpy
from paimon_assets.engine.data.compact.section_read import FILE_NUMBER
from paimon_assets.engine.data.deletion import POSITION
from paimon_assets.engine.data.key_order import Flags, KeyOrder, Order
from paimon_assets.engine.data.merge.deduplicate import only
from paimon_assets.engine.data.merge.records import NOTHING
from paimon_assets.engine.data.merge.sort_merge import (
    FILE_LEVEL,
    MergePlan,
    lowest_of_each_key,
    numbers,
    record_order,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Rows found in files above the section."""

    files: npt.NDArray[np.int64]
    """Number of each row's file."""
    positions: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRange:
    """A key range with what was found."""

    slices: Sequence[pa.RecordBatch]
    """The rows to merge."""
    by_key: KeyOrder
    keys: Order
    """Key number of each row, by row number."""
    key_count: int
    before: Order
    """Row number of what each key was before, `NOTHING` where that is unknown or nothing."""
    changes: Flags
    """Which keys have a record of level 0."""
    found: Place | None
    """Where keys of the section were found above it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """The lookup of a section's keys in higher levels."""

    plan: MergePlan
    keys_only: bool
    """The rows above hold no values: only whether there is one, and where, is of interest."""
    drops_known: bool
    """First row: keys that are above already are not written again."""

    def find(
        self, section: Sequence[pa.RecordBatch], above: Sequence[pa.RecordBatch]
    ) -> FoundRange:
        """Meet the rows of a key range."""
        # Runs above are older, and stand first: the order of runs is that of age.
        every = [*above, *section]
        by_key = record_order(every, self.plan)
        key_of_place = np.cumsum(by_key.starts) - 1
        count = int(key_of_place[-1]) + 1
        keys = np.empty(len(key_of_place), dtype=np.int64)
        keys[by_key.order] = key_of_place
        split = sum(rows.num_rows for rows in above)
        levels = numbers(every, FILE_LEVEL)
        is_above = np.arange(len(keys)) < split
        of_section, high = _mark(keys[split:], count), ~is_above & (levels > 0)
        has_high = _mark(keys[high], count)
        candidates = high | (is_above & (of_section & ~has_high)[keys])
        chosen = candidates.copy()
        chosen[by_key.order] &= lowest_of_each_key(by_key, levels, candidates)
        counts = chosen | (~is_above & (levels == 0))
        found = chosen & is_above
        before = np.full(count, NOTHING, dtype=np.int64)
        before[keys[chosen]] = np.flatnonzero(chosen)
        changes = _mark(keys[~is_above & (levels == 0)], count)
        if self.drops_known:
            counts &= ~_mark(keys[found], count)[keys]
        if self.keys_only:
            counts &= ~is_above
        stays = counts.copy()
        stays[split:] = True
        slices, start = [], 0
        for rows in above:  # those that nobody asked for are left out, the others numbered anew
            kept = stays[start : start + rows.num_rows]
            start += rows.num_rows
            if kept.any():
                slices.append(rows.filter(from_numpy(kept)))
        renumbered = np.cumsum(stays) - 1
        left = only(by_key, counts[by_key.order])
        has_values = (before >= 0) & stays[before]
        return FoundRange(
            slices=[*slices, *section],
            by_key=KeyOrder(order=renumbered[left.order], starts=left.starts),
            keys=keys[stays],
            key_count=count,
            before=np.where(has_values, renumbered[before], NOTHING),
            changes=changes,
            found=_places(above, found[:split]),
        )


def _places(above: Sequence[pa.RecordBatch], found: Flags) -> Place | None:
    if not found.any():
        return None
    return Place(
        files=numbers(above, FILE_NUMBER).astype(np.int64)[found],
        positions=numbers(above, POSITION)[found],
    )


def _mark(keys: npt.NDArray[Any], count: int) -> Flags:
    marked = np.zeros(count, dtype=np.bool_)
    marked[keys] = True
    return marked
