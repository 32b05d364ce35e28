"""The shape of the LSM tree: files in, decision out. Pure; no file is touched.

Sorted runs are those of the levels of a bucket, or the fewest that some files make:

    level 0      every file is a run of its own, the newest first
    level 1…     one run each, files without common keys

Compaction: with a primary key the first rule that applies picks a prefix of the runs, the
newest:

    early full          an option asks for all runs: interval, total size, size below the top
    size amplification  the newer runs are large against the oldest one: all of them
    size ratio          runs of alike size follow each other
    file number         there are more runs than the trigger
    forced level 0      files on level 0 must leave it (lookup, deletion vectors)

The files of the picked unit are merged, moved to its level, or left alone:

    sections of several runs          merged
    a small file that overlaps none   rewritten together with its neighbours
    a large file that overlaps none   moved: its metadata gets the new level
        … with deletes, to the top    rewritten, so that they are gone
        … where nothing shall stay    rewritten

Without a primary key:

    any order    small files by size into bins of about twice the target size
    in order     neighbouring small files of a bucket whose rows stay in order

Such files are joined when there are enough and none is larger than the rest together. So each
time a row is rewritten its file doubles at least: a log of n equal files costs log2(n) rewrites
of it, and not one for every few files; about as many small files as that, and a few, are left.
Source: `org.apache.paimon.mergetree.Levels`, `LevelSortedRun`,
`org.apache.paimon.mergetree.compact.IntervalPartition`,
`org.apache.paimon.mergetree.compact.UniversalCompaction`, `EarlyFullCompaction`,
`ForceUpLevel0Compaction`, `CompactStrategy`, `MergeTreeCompactTask`;
`org.apache.paimon.append.AppendCompactCoordinator`, `BucketedAppendCompactManager`, which join a
small file with every few that follow.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from enum import StrEnum
from itertools import groupby
from typing import Any, TypeVar

from msgspec import Struct, field

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.values import Value

Item = TypeVar("Item")
_FEWEST_LEVELS = 2


class LevelSortedRun(Value):
    """A sorted run and its level."""

    level: int
    files: tuple[DataFileMeta, ...]

    @property
    def total_size(self) -> int:
        """Bytes of its files."""
        return sum(file.file_size for file in self.files)


class Levels(Value):
    """The files of a bucket as runs."""

    count: int
    """How many levels there are, level 0 included."""
    runs: tuple[LevelSortedRun, ...]
    """Level 0 file by file, the newest first, then the levels that are not empty."""

    @staticmethod
    def of(files: Iterable[DataFileMeta], options: opt.Options) -> Levels:
        """Arrange the files of a bucket."""
        by_level: dict[int, list[DataFileMeta]] = {}
        for file in files:
            by_level.setdefault(file.level, []).append(file)
        count = max(num_levels(options), max(by_level, default=0) + 1)
        if count < _FEWEST_LEVELS:
            message = f"Table option '{opt.NUM_LEVELS.key}' must be at least {_FEWEST_LEVELS}."
            raise InvalidInputError(message, kind="option-value", option=opt.NUM_LEVELS.key)
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


def num_levels(options: opt.Options) -> int:
    """Return `num-levels`: one more than the compaction trigger, unless the table sets it."""
    return options.get(opt.NUM_LEVELS) or options.get(opt.COMPACTION_TRIGGER) + 1


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


Runs = Sequence[LevelSortedRun]


class PickReason(StrEnum):
    """The rule that picked a unit."""

    FULL = "full"
    INTERVAL = "optimization-interval"
    TOTAL_SIZE = "total-size"
    INCREMENTAL_SIZE = "incremental-size"
    SIZE_AMPLIFICATION = "size-amplification"
    SIZE_RATIO = "size-ratio"
    FILE_NUMBER = "file-number"
    FORCED_LEVEL_0 = "forced-level-0"
    REWRITE = "rewrite"


class CompactUnit(Value):
    """Files to compact, and the level they go to."""

    output_level: int
    files: tuple[DataFileMeta, ...]
    """Newest run first."""
    reason: PickReason
    rewrites_files: bool = False
    """Each file is rewritten by itself, rather than merged."""

    @staticmethod
    def of_runs(output_level: int, runs: Runs, reason: PickReason) -> CompactUnit:
        """Return the unit that compacts whole runs."""
        files = tuple(file for run in runs for file in run.files)
        return CompactUnit(output_level=output_level, files=files, reason=reason)

    @property
    def changes_something(self) -> bool:
        """Whether a file moves, or several files become one."""
        if self.rewrites_files:
            return bool(self.files)
        return len(self.files) > 1 or any(file.level != self.output_level for file in self.files)


class UniversalCompaction(Value):
    """The rules, with a table's numbers."""

    max_size_amplification: int = 200
    """Percent the newer runs may have of the oldest one."""
    size_ratio: int = 1
    """Percent the next run may be larger and still count as alike."""
    trigger: int = 5
    """Runs from which on there is something to do."""
    interval_ms: int | None = None
    total_size_threshold: int | None = None
    incremental_size_threshold: int | None = None
    force_up_level_0: bool = False

    @staticmethod
    def of(options: opt.Options, *, needs_lookup: bool, hour: int) -> UniversalCompaction:
        """Return the rules of a table."""
        return UniversalCompaction(
            max_size_amplification=options.get(opt.COMPACTION_MAX_SIZE_AMPLIFICATION),
            size_ratio=options.get(opt.COMPACTION_SIZE_RATIO) + off_peak_ratio(options, hour),
            trigger=options.get(opt.COMPACTION_TRIGGER),
            interval_ms=options.get(opt.COMPACTION_OPTIMIZATION_INTERVAL),
            total_size_threshold=options.get(opt.COMPACTION_TOTAL_SIZE_THRESHOLD),
            incremental_size_threshold=options.get(opt.COMPACTION_INCREMENTAL_SIZE_THRESHOLD),
            force_up_level_0=needs_lookup or options.get(opt.COMPACTION_FORCE_UP_LEVEL_0),
        )

    def pick(self, levels: Levels, *, since_full_ms: int | None = None) -> CompactUnit | None:
        """Pick a unit, None if nothing is due.

        >>> from paimon_assets.engine.lsm import Levels
        >>> UniversalCompaction().pick(Levels(count=6, runs=())) is None
        True
        """
        runs, top = levels.runs, levels.max_level
        unit = (
            self._early_full(top, runs, since_full_ms)
            or self.for_size_amplification(top, runs)
            or self.for_size_ratio(top, runs)
        )
        if unit is None and len(runs) > self.trigger:
            taken = len(runs) - self.trigger + 1
            unit = self._by_ratio(top, runs, taken, PickReason.FILE_NUMBER, forced=True)
        if unit is None and self.force_up_level_0:
            taken = sum(run.level == 0 for run in runs)
            if taken:
                unit = self._by_ratio(top, runs, taken, PickReason.FORCED_LEVEL_0, forced=True)
        return unit if unit is not None and unit.changes_something else None

    def _early_full(self, top: int, runs: Runs, since_full_ms: int | None) -> CompactUnit | None:
        if len(runs) <= 1:
            return None
        total = sum(run.total_size for run in runs)
        below = sum(run.total_size for run in runs if run.level != top)
        if self.interval_ms is not None and (
            since_full_ms is None or since_full_ms > self.interval_ms
        ):
            return CompactUnit.of_runs(top, runs, PickReason.INTERVAL)
        if self.total_size_threshold is not None and total < self.total_size_threshold:
            return CompactUnit.of_runs(top, runs, PickReason.TOTAL_SIZE)
        threshold = self.incremental_size_threshold
        if threshold is not None and below > threshold:
            return CompactUnit.of_runs(top, runs, PickReason.INCREMENTAL_SIZE)
        return None

    def for_size_amplification(self, top: int, runs: Runs) -> CompactUnit | None:
        """Take everything, if the newer runs are large against the oldest one."""
        if not runs or len(runs) < self.trigger:
            return None
        newer = sum(run.total_size for run in runs[:-1])
        if newer * 100 <= self.max_size_amplification * runs[-1].total_size:
            return None
        return CompactUnit.of_runs(top, runs, PickReason.SIZE_AMPLIFICATION)

    def for_size_ratio(self, top: int, runs: Runs) -> CompactUnit | None:
        """Take the newest run and those of alike size that follow it."""
        if len(runs) < self.trigger:
            return None
        return self._by_ratio(top, runs, 1, PickReason.SIZE_RATIO, forced=False)

    def _by_ratio(
        self, top: int, runs: Runs, taken: int, reason: PickReason, *, forced: bool
    ) -> CompactUnit | None:
        """Take `taken` runs, and more of them while the next one is not much larger."""
        size = sum(run.total_size for run in runs[:taken])
        triggered = forced or taken > 1
        for run in runs[taken:]:
            is_larger = size * (100 + self.size_ratio) < run.total_size * 100
            if is_larger and (not triggered or run.level > 1):
                break
            size += run.total_size
            taken += 1
            triggered = True
        return unit_of(runs, top, taken, reason) if triggered else None


def off_peak_ratio(options: opt.Options, hour: int) -> int:
    """Return the addition to `compaction.size-ratio` at an hour of the day.

    Source: `org.apache.paimon.mergetree.compact.OffPeakHours`.

    >>> night = {"compaction.offpeak.start.hour": "22", "compaction.offpeak.end.hour": "5"}
    >>> options = opt.Options({**night, "compaction.offpeak-ratio": "20"})
    >>> [off_peak_ratio(options, hour) for hour in (21, 22, 4, 5)]
    [0, 20, 20, 0]
    """
    start, end = (
        options.get(opt.COMPACTION_OFF_PEAK_START),
        options.get(opt.COMPACTION_OFF_PEAK_END),
    )
    if -1 in (start, end) or start == end:
        return 0
    inside = start <= hour < end if start <= end else hour < end or start <= hour
    return options.get(opt.COMPACTION_OFF_PEAK_RATIO) if inside else 0


def unit_of(runs: Runs, top: int, taken: int, reason: PickReason) -> CompactUnit:
    """Return the unit of the newest `taken` runs, or more: nothing is written to level 0."""
    output_level = top if taken == len(runs) else max(0, runs[taken].level - 1)
    if output_level == 0:
        for run in runs[taken:]:
            taken += 1
            if run.level != 0:
                output_level = run.level
                break
    if taken == len(runs):
        output_level = top
    return CompactUnit.of_runs(output_level, runs[:taken], reason)


def pick_full(levels: Levels, to_rewrite: Sequence[DataFileMeta] = ()) -> CompactUnit | None:
    """Return the unit that moves all runs to the top level; None if it has them in one run."""
    if not levels.runs:
        return None
    if len(levels.runs) == 1 and levels.runs[0].level == levels.max_level:
        if not to_rewrite:
            return None
        return CompactUnit(
            output_level=levels.max_level,
            files=tuple(to_rewrite),
            reason=PickReason.REWRITE,
            rewrites_files=True,
        )
    return CompactUnit.of_runs(levels.max_level, levels.runs, PickReason.FULL)


def drops_deletes(unit: CompactUnit, levels: Levels, *, has_vectors: bool) -> bool:
    """Whether records that retract are gone after the compaction.

    They are as soon as nothing older is below them; with deletion vectors always, because those
    mark the deleted rows.
    """
    if unit.output_level == 0:
        return False
    return has_vectors or unit.output_level >= levels.highest_level


_FEWEST_FILES = 2


class AppendCompaction(Value):
    """The numbers of a table."""

    target_bytes: int
    """Size of full files."""
    open_file_bytes: int
    """Minimum cost of one file."""
    min_files: int
    """Small files that are worth it, where they do not fill a file."""
    is_full: bool = False
    """Whether a file is rewritten for smaller ones."""

    def in_any_order(
        self, files: Iterable[DataFileMeta], group_of: Callable[[DataFileMeta], Hashable | None]
    ) -> list[list[DataFileMeta]]:
        """Pack files into bins."""
        groups: dict[Hashable, list[DataFileMeta]] = {}
        free: list[DataFileMeta] = []
        for file in sorted(files, key=lambda file: file.file_size):
            group = group_of(file)
            if group is None:
                free.append(file)
            else:
                groups.setdefault(group, []).append(file)
        bins = self._bins(sorted(groups.values(), key=_bytes_of), fewest=1)
        for part in self._parts(free):
            bins += self._bins([[file] for file in part], fewest=self.min_files)
        return bins

    def _bins(
        self, groups: Iterable[list[DataFileMeta]], *, fewest: int
    ) -> list[list[DataFileMeta]]:
        bins: list[list[DataFileMeta]] = []
        current: list[DataFileMeta] = []
        for group in groups:
            current = current + group
            weight = _bytes_of(current) + self.open_file_bytes * len(current)
            if len(current) >= _FEWEST_FILES and weight >= 2 * self.target_bytes:
                bins.append(current)
                current = []
        if current and len(current) >= fewest:
            bins.append(current)
        return bins

    def in_order(
        self,
        files: Sequence[DataFileMeta],
        is_candidate: Callable[[DataFileMeta], bool],
        is_urgent: Callable[[DataFileMeta], bool],
    ) -> list[list[DataFileMeta]]:
        """Return stretches of neighbouring candidates."""
        stretches = (list(some) for fits, some in groupby(files, key=is_candidate) if fits)
        return [
            part
            for stretch in stretches
            for part in ([stretch] if any(map(is_urgent, stretch)) else self._parts(stretch))
        ]

    def _parts(self, files: list[DataFileMeta]) -> list[list[DataFileMeta]]:
        """Return the parts of a stretch of small files that are worth it.

        Cost:
            A file is examined as often as its size doubles: the part left out exceeds the rest.
        """
        total = _bytes_of(files)
        fills_files = total >= 2 * self.target_bytes
        if len(files) < (_FEWEST_FILES if fills_files else self.min_files):
            return []
        largest = max(range(len(files)), key=lambda number: files[number].file_size)
        if self.is_full or 2 * files[largest].file_size <= total:
            return [files]
        return self._parts(files[:largest]) + self._parts(files[largest + 1 :])


def _bytes_of(files: Iterable[DataFileMeta]) -> int:
    return sum(file.file_size for file in files)


Section = Sequence[Sequence[DataFileMeta]]
"""Runs that overlap; see `sorted_runs`."""


class UnitShape(Value):
    """The shape of a unit by which its files are chosen."""

    output_level: int
    max_level: int
    min_file_size: int
    """Smaller files are rewritten together with their neighbours."""
    to_rewrite: Collection[str] = ()
    """Names of files that must not stay as they are: a deletion vector marks rows of theirs."""
    expired: Collection[str] = ()
    """Names of files with rows that are too old, which must not even move as they are."""
    rewrites_files: bool = False
    """Every file is rewritten by itself."""
    moves_files: bool = True
    """A file may stay unchanged, and get a new level only."""


class CompactSteps(Struct):
    """Files by their step."""

    rewrites: list[list[Section]] = field(default_factory=list)
    """Neighbouring sections that are written into common files, in key order."""
    upgrades: list[DataFileMeta] = field(default_factory=list)
    """Files that only get the output level."""


def compact_steps(sections: Sequence[Section], shape: UnitShape) -> CompactSteps:
    """Decide about the files of a unit."""
    steps = CompactSteps()
    if shape.rewrites_files:
        steps.rewrites = [[[[file]]] for section in sections for run in section for file in run]
        return steps
    neighbours: list[Section] = []
    for section in sections:
        for file in section[0] if len(section) == 1 else ():
            if file.file_size < shape.min_file_size:
                neighbours.append([[file]])
            else:
                neighbours = _rewrite(neighbours, steps, shape)
                _upgrade(file, steps, shape)
        if len(section) > 1:
            neighbours.append(section)
    _rewrite(neighbours, steps, shape)
    return steps


def _rewrite(neighbours: list[Section], steps: CompactSteps, shape: UnitShape) -> list[Section]:
    """Add neighbouring sections; a single file alone is not rewritten for its size."""
    if len(neighbours) == 1 and len(neighbours[0]) == 1:
        for file in neighbours[0][0]:
            _upgrade(file, steps, shape)
    elif neighbours:
        steps.rewrites.append(neighbours)
    return []


def _upgrade(file: DataFileMeta, steps: CompactSteps, shape: UnitShape) -> None:
    is_fixed = not shape.moves_files or file.file_name in shape.expired
    to_top = shape.output_level == shape.max_level
    if file.level == shape.output_level and not is_fixed:
        if file.file_name in shape.to_rewrite:
            steps.rewrites.append([[[file]]])
    elif is_fixed or (to_top and file.delete_row_count != 0):
        steps.rewrites.append([[[file]]])
    else:
        steps.upgrades.append(file)
