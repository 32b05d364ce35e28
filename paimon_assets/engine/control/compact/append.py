"""Compaction plans for a partition, or a bucket, of a table without primary key.

Files of others (those with a path of their own) and full files are left alone. Files whose deletion
vectors lie in one index file are compacted by one task, for the index file is replaced as a whole.
Source: `org.apache.paimon.append.AppendCompactCoordinator`, `BucketedAppendCompactManager`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from paimon_assets.engine.contract.tasks.compact_task import CompactTask
from paimon_assets.engine.control.compact.buckets import LiveBucket
from paimon_assets.engine.control.compact.unit import PlannedUnit, files_of_size, target_bytes_of
from paimon_assets.engine.lsm.append_compaction import AppendCompaction
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.options.all_options import SPLIT_OPEN_FILE_COST
from paimon_assets.engine.spec.options.compaction_options import (
    COMPACTION_DELETE_RATIO,
    COMPACTION_MIN_FILE_NUM,
    COMPACTION_REWRITE_ALL_FILES,
    COMPACTION_SMALL_FILE_RATIO,
)
from paimon_assets.engine.spec.schema.schema import BucketMode, TableSchema

_SMALL_FILES = "small-files"
_DELETED_ROWS = "deleted-rows"
_REWRITE = "rewrite"
_FEWEST_FILES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendPlanner:
    """Plans buckets of one table."""

    schema: TableSchema
    is_full: bool
    """Whether two small files are worth it, and a single deleted row."""
    compacted_files: frozenset[str] = frozenset()
    """Names of files that stay where they are, between their neighbours."""

    @property
    def target_bytes(self) -> int:
        """Size of full files."""
        return target_bytes_of(self.schema)

    @property
    def rewrites_all(self) -> bool:
        """Whether full files are rewritten too."""
        return self.is_full and self.schema.typed_options.get(COMPACTION_REWRITE_ALL_FILES)

    @property
    def _min_files(self) -> int:
        if self.rewrites_all:
            return 1
        if self.is_full:
            return _FEWEST_FILES
        return self.schema.typed_options.get(COMPACTION_MIN_FILE_NUM)

    def units_of(self, bucket: LiveBucket) -> Iterator[PlannedUnit]:
        """Yield the units of a bucket (a partition, where there are no buckets)."""
        options = self.schema.typed_options
        rules = AppendCompaction(
            target_bytes=self.target_bytes,
            open_file_bytes=options.get(SPLIT_OPEN_FILE_COST),
            min_files=self._min_files,
            is_full=self.is_full,
        )
        for files in self._groups(bucket, rules):
            yield self._plan(bucket, files)

    def _groups(self, bucket: LiveBucket, rules: AppendCompaction) -> list[list[DataFileMeta]]:
        if self.schema.bucket_mode is BucketMode.BUCKET_UNAWARE:
            index_of = {
                vector.data_file_name: index.file_name
                for index in bucket.index_files
                for vector in index.deletion_vectors or ()
            }
            candidates = [file for file in bucket.files if self._is_candidate(file, bucket)]
            return rules.in_any_order(candidates, lambda file: index_of.get(file.file_name))
        groups = rules.in_order(
            self._in_order(bucket),
            lambda file: self._is_candidate(file, bucket),
            lambda file: self._has_many_deletes(file, bucket),
        )
        if bucket.index_files and groups:
            # The index file of a bucket is replaced as a whole, so by one task.
            return [max(groups, key=len)]
        return groups

    def _in_order(self, bucket: LiveBucket) -> Sequence[DataFileMeta]:
        """Return the files in the order of their rows."""
        if self.schema.bucket_mode is BucketMode.BUCKET_UNAWARE:
            return bucket.files
        return sorted(bucket.files, key=lambda file: file.min_sequence_number)

    def _is_candidate(self, file: DataFileMeta, bucket: LiveBucket) -> bool:
        if file.external_path is not None or file.file_name in self.compacted_files:
            return False
        if self.rewrites_all:
            return True
        small = self.target_bytes * self.schema.typed_options.get(COMPACTION_SMALL_FILE_RATIO)
        return file.file_size < small or self._has_many_deletes(file, bucket)

    def _has_many_deletes(self, file: DataFileMeta, bucket: LiveBucket) -> bool:
        vector = bucket.vectors.get(file.file_name)
        if vector is None or file.external_path is not None:
            return False
        ratio = 0.0 if self.is_full else self.schema.typed_options.get(COMPACTION_DELETE_RATIO)
        return vector.cardinality is None or vector.cardinality > file.row_count * ratio

    def _plan(self, bucket: LiveBucket, files: Sequence[DataFileMeta]) -> PlannedUnit:
        names = {file.file_name for file in files}
        touched = tuple(
            index
            for index in bucket.index_files
            if any(vector.data_file_name in names for vector in index.deletion_vectors or ())
        )
        ordered = [file for file in self._in_order(bucket) if file.file_name in names]
        task = CompactTask(
            split=bucket.split(ordered), index_files=touched, index_directory=bucket.index_directory
        )
        expected = files_of_size(sum(file.file_size for file in files), self.target_bytes)
        return PlannedUnit(
            task=task,
            reason=_REWRITE if self.rewrites_all else _DELETED_ROWS if touched else _SMALL_FILES,
            runs_before=len(bucket.files),
            runs_after=len(bucket.files) - len(files) + expected,
            expected_files=expected,
        )
