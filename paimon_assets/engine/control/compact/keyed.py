"""What to compact in one bucket of a primary-key table.

Source: `org.apache.paimon.mergetree.compact.MergeTreeCompactManager`.
"""

from dataclasses import dataclass

from paimon_assets.engine.codec.rows.key_range import ComparableKey, key_range
from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.contract.tasks.compact_task import CompactTask
from paimon_assets.engine.control.compact.buckets import LiveBucket
from paimon_assets.engine.control.compact.unit import PlannedUnit, files_of_size, target_bytes_of
from paimon_assets.engine.lsm.compact_steps import UnitShape, compact_steps
from paimon_assets.engine.lsm.interval_partition import interval_partition
from paimon_assets.engine.lsm.levels import Levels
from paimon_assets.engine.lsm.universal_compaction import (
    CompactUnit,
    UniversalCompaction,
    drops_deletes,
    pick_full,
)
from paimon_assets.engine.spec.merge.lookup import LookupStrategy
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.options.compaction_options import (
    COMPACTION_REWRITE_ALL_FILES,
    COMPACTION_SMALL_FILE_RATIO,
)
from paimon_assets.engine.spec.schema.schema import TableSchema

_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedPlanner:
    """Plans buckets of one table."""

    schema: TableSchema
    is_full: bool
    now_ms: int
    """The local wall clock, as files say their creation."""

    def unit_of(self, bucket: LiveBucket) -> PlannedUnit | None:
        """Return what to compact in a bucket, None if nothing is due."""
        levels = Levels.of(bucket.files, self.schema.typed_options)
        unit = self._pick(levels, bucket)
        if unit is None:
            return None
        strategy = LookupStrategy.of(self.schema)
        task = CompactTask(
            split=bucket.split(unit.files),
            above=self._above(unit, bucket, strategy),
            output_level=unit.output_level,
            max_level=levels.max_level,
            drops_deletes=drops_deletes(unit, levels, has_vectors=strategy.deletion_vectors),
            rewrites_files=unit.rewrites_files,
            index_files=bucket.index_files,
            index_directory=bucket.index_directory,
        )
        return self._planned(unit, levels, bucket, task)

    def _pick(self, levels: Levels, bucket: LiveBucket) -> CompactUnit | None:
        if self.is_full:
            every = self.schema.typed_options.get(COMPACTION_REWRITE_ALL_FILES)
            marked = [f for f in bucket.files if every or f.file_name in bucket.vectors]
            return pick_full(levels, marked)
        rules = UniversalCompaction.of(
            self.schema.typed_options,
            needs_lookup=LookupStrategy.of(self.schema).is_needed,
            hour=self.now_ms // _HOUR_MS % 24,
        )
        top = [file for file in bucket.files if file.level == levels.max_level]
        written = max((file.creation_time or 0 for file in top), default=None)
        since = None if written is None else self.now_ms - written
        return rules.pick(levels, since_full_ms=since)

    def _above(
        self, unit: CompactUnit, bucket: LiveBucket, strategy: LookupStrategy
    ) -> DataSplit | None:
        """Return the files in which keys of level 0 are looked up."""
        taken = {file.file_name for file in unit.files}
        if not strategy.is_needed or not any(file.level == 0 for file in unit.files):
            return None
        above = [
            file
            for file in bucket.files
            if file.level > unit.output_level and file.file_name not in taken
        ]
        return bucket.split(above) if above else None

    def _planned(
        self, unit: CompactUnit, levels: Levels, bucket: LiveBucket, task: CompactTask
    ) -> PlannedUnit:
        options = self.schema.typed_options
        target = target_bytes_of(self.schema)
        shape = UnitShape(
            output_level=unit.output_level,
            max_level=levels.max_level,
            min_file_size=int(target * options.get(COMPACTION_SMALL_FILE_RATIO)),
            to_rewrite=bucket.vectors.keys(),
            rewrites_files=unit.rewrites_files,
            moves_files=not options.get(COMPACTION_REWRITE_ALL_FILES),
        )
        steps = compact_steps(interval_partition(unit.files, self._key_range), shape)
        rewritten = [
            sum(file.file_size for section in group for run in section for file in run)
            for group in steps.rewrites
        ]
        taken = {file.file_name for file in unit.files}
        left = [run for run in levels.runs if run.files[0].file_name not in taken]
        stays = unit.rewrites_files or any(run.level == unit.output_level for run in left)
        return PlannedUnit(
            task=task,
            reason=str(unit.reason),
            upgrades=len(steps.upgrades),
            runs_before=len(levels.runs),
            runs_after=len(left) + (not stays),
            expected_files=len(steps.upgrades)
            + sum(files_of_size(size, target) for size in rewritten),
        )

    def _key_range(self, file: DataFileMeta) -> tuple[ComparableKey, ComparableKey]:
        return key_range(file, [field.type for field in self.schema.key_fields])
