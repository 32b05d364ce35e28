"""Universal compaction: which runs of a bucket to merge, and into which level.

The first rule that applies picks a prefix of the runs, the newest:

    early full          an option asks for all runs: interval, total size, size below the top
    size amplification  the newer runs are large against the oldest one: all of them
    size ratio          runs of alike size follow each other
    file number         there are more runs than the trigger
    forced level 0      what lies on level 0 must leave it (lookup, deletion vectors)

Source: `org.apache.paimon.mergetree.compact.UniversalCompaction`, `EarlyFullCompaction`,
`ForceUpLevel0Compaction`, `CompactStrategy`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from paimon_assets.engine.lsm.sorted_runs import Levels, LevelSortedRun
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.options.all_options import (
    COMPACTION_FORCE_UP_LEVEL_0,
    COMPACTION_INCREMENTAL_SIZE_THRESHOLD,
    COMPACTION_MAX_SIZE_AMPLIFICATION,
    COMPACTION_OFF_PEAK_END,
    COMPACTION_OFF_PEAK_RATIO,
    COMPACTION_OFF_PEAK_START,
    COMPACTION_OPTIMIZATION_INTERVAL,
    COMPACTION_SIZE_RATIO,
    COMPACTION_TOTAL_SIZE_THRESHOLD,
    COMPACTION_TRIGGER,
    Options,
)

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


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactUnit:
    """Files to compact, and the level they go to."""

    output_level: int
    files: tuple[DataFileMeta, ...]
    """Newest run first."""
    reason: PickReason
    rewrites_files: bool = False
    """Each file is rewritten by itself, rather than merged with the others."""

    @staticmethod
    def of_runs(output_level: int, runs: Runs, reason: PickReason) -> CompactUnit:
        """Take whole runs."""
        files = tuple(file for run in runs for file in run.files)
        return CompactUnit(output_level=output_level, files=files, reason=reason)

    @property
    def changes_something(self) -> bool:
        """Whether there is more than one file that lies where it should already."""
        if self.rewrites_files:
            return bool(self.files)
        return len(self.files) > 1 or any(file.level != self.output_level for file in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class UniversalCompaction:
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
    def of(options: Options, *, needs_lookup: bool, hour: int) -> UniversalCompaction:
        """Return the rules of a table."""
        return UniversalCompaction(
            max_size_amplification=options.get(COMPACTION_MAX_SIZE_AMPLIFICATION),
            size_ratio=options.get(COMPACTION_SIZE_RATIO) + off_peak_ratio(options, hour),
            trigger=options.get(COMPACTION_TRIGGER),
            interval_ms=options.get(COMPACTION_OPTIMIZATION_INTERVAL),
            total_size_threshold=options.get(COMPACTION_TOTAL_SIZE_THRESHOLD),
            incremental_size_threshold=options.get(COMPACTION_INCREMENTAL_SIZE_THRESHOLD),
            force_up_level_0=needs_lookup or options.get(COMPACTION_FORCE_UP_LEVEL_0),
        )

    def pick(self, levels: Levels, *, since_full_ms: int | None = None) -> CompactUnit | None:
        """Pick a unit, None if nothing is due.

        >>> from paimon_assets.engine.lsm.sorted_runs import Levels
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


def off_peak_ratio(options: Options, hour: int) -> int:
    """Return the addition to `compaction.size-ratio` at an hour of the day.

    Source: `org.apache.paimon.mergetree.compact.OffPeakHours`.

    >>> night = {"compaction.offpeak.start.hour": "22", "compaction.offpeak.end.hour": "5"}
    >>> options = Options({**night, "compaction.offpeak-ratio": "20"})
    >>> [off_peak_ratio(options, hour) for hour in (21, 22, 4, 5)]
    [0, 20, 20, 0]
    """
    start, end = options.get(COMPACTION_OFF_PEAK_START), options.get(COMPACTION_OFF_PEAK_END)
    if -1 in (start, end) or start == end:
        return 0
    inside = start <= hour < end if start <= end else hour < end or start <= hour
    return options.get(COMPACTION_OFF_PEAK_RATIO) if inside else 0


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
    """Take all runs to the top level, None if they are one run there already."""
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

    They are as soon as nothing older lies below them; with deletion vectors always, because what
    they delete is marked there.
    """
    if unit.output_level == 0:
        return False
    return has_vectors or unit.output_level >= levels.highest_level
