"""Sorted runs: those of the levels of a bucket, and the fewest that given files make.

    level 0      every file is a run of its own, the newest first
    level 1…     one run each, files without common keys

Source: `org.apache.paimon.mergetree.Levels`, `LevelSortedRun`,
`org.apache.paimon.mergetree.compact.IntervalPartition`.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.options.all_options import COMPACTION_TRIGGER, NUM_LEVELS, Options

Item = TypeVar("Item")
_FEWEST_LEVELS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelSortedRun:
    """A sorted run and the level it lies on."""

    level: int
    files: tuple[DataFileMeta, ...]

    @property
    def total_size(self) -> int:
        """Bytes of its files."""
        return sum(file.file_size for file in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """The files of a bucket as runs."""

    count: int
    """How many levels there are, level 0 included."""
    runs: tuple[LevelSortedRun, ...]
    """Level 0 file by file, the newest first, then the levels that are not empty."""

    @staticmethod
    def of(files: Iterable[DataFileMeta], options: Options) -> Levels:
        """Arrange the files of a bucket."""
        by_level: dict[int, list[DataFileMeta]] = {}
        for file in files:
            by_level.setdefault(file.level, []).append(file)
        count = max(num_levels(options), max(by_level, default=0) + 1)
        if count < _FEWEST_LEVELS:
            raise InvalidInputError(
                f"Table option '{NUM_LEVELS.key}' must be at least {_FEWEST_LEVELS}.",
                kind="option-value",
                details={"option": NUM_LEVELS.key},
            )
        level_0 = sorted(
            by_level.pop(0, []),
            key=lambda file: (
                -file.max_sequence_number,
                file.min_sequence_number,
                file.creation_time or 0,
                file.file_name,
            ),
        )
        runs = [
            *(LevelSortedRun(level=0, files=(file,)) for file in level_0),
            *(LevelSortedRun(level=n, files=tuple(by_level[n])) for n in sorted(by_level)),
        ]
        return Levels(count=count, runs=tuple(runs))

    @property
    def max_level(self) -> int:
        """The highest level, be it empty."""
        return self.count - 1

    @property
    def highest_level(self) -> int:
        """The highest level that holds a file, -1 if none does."""
        return max((run.level for run in self.runs), default=-1)


def num_levels(options: Options) -> int:
    """Return `num-levels`: one more than the compaction trigger, unless the table says."""
    return options.get(NUM_LEVELS) or options.get(COMPACTION_TRIGGER) + 1


def interval_partition(
    items: Iterable[Item], key_range: Callable[[Item], tuple[Any, Any]]
) -> list[list[list[Item]]]:
    """Group `items` into sections of the fewest sorted runs.

    Sections share no key, so each can be merged on its own; the files of a run share no key, so
    they can be read one after the other.

    Cost:
        O(n log n) comparisons for n items.

    >>> interval_partition([(5, 9), (1, 3), (2, 4)], lambda item: item)
    [[[(1, 3)], [(2, 4)]], [[(5, 9)]]]
    """
    ranged = sorted(((*key_range(item), item) for item in items), key=lambda entry: entry[:2])
    sections: list[list[list[Item]]] = []
    section: list[tuple[Any, Any, Item]] = []
    highest: Any = None
    for low, high, item in ranged:
        if section and low > highest:
            sections.append(_sorted_runs(section))
            section = []
        if not section or high > highest:
            highest = high
        section.append((low, high, item))
    if section:
        sections.append(_sorted_runs(section))
    return sections


def _sorted_runs(section: list[tuple[Any, Any, Item]]) -> list[list[Item]]:
    """Put each item on the run that ended first, if it ended before the item begins."""
    runs: list[list[Item]] = []
    ends: list[tuple[Any, int]] = []
    for low, high, item in section:
        if ends and ends[0][0] < low:
            run = ends[0][1]
            heapq.heapreplace(ends, (high, run))
            runs[run].append(item)
        else:
            heapq.heappush(ends, (high, len(runs)))
            runs.append([item])
    return runs
