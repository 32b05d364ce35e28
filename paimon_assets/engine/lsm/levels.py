"""Levels: the sorted runs of one bucket, newest first.

    level 0      every file is a run of its own, the newest first
    level 1…     one run each, files without common keys

Source: `org.apache.paimon.mergetree.Levels`, `LevelSortedRun`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.options.all_options import COMPACTION_TRIGGER, NUM_LEVELS, Options

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
        runs = [
            LevelSortedRun(level=0, files=(file,)) for file in newest_first(by_level.pop(0, []))
        ]
        runs += [
            LevelSortedRun(level=level, files=tuple(by_level[level])) for level in sorted(by_level)
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


def newest_first(files: Iterable[DataFileMeta]) -> Sequence[DataFileMeta]:
    """Return files of level 0 as their runs are ordered."""
    return sorted(
        files,
        key=lambda file: (
            -file.max_sequence_number,
            file.min_sequence_number,
            file.creation_time or 0,
            file.file_name,
        ),
    )
