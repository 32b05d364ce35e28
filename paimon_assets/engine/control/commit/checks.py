"""CommitChecks: plans a commit on the newest snapshot and checks for conflicts.

    kind           looks at live files of                        for
    APPEND         nothing (bucket counts are remembered)        another bucket count, keys that got
                                                                 another bucket meanwhile
    COMPACT        the buckets it changes                        files gone or added twice, keys
                                                                 shared on one level, vectors of
                                                                 deleted rows without their file
    OVERWRITE      the partitions it changes                     the same

Source: `org.apache.paimon.operation.commit.ConflictDetection`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from paimon_assets.engine.codec.rows.binary_row import key_range
from paimon_assets.engine.control.commit.changes import CommitChanges
from paimon_assets.engine.control.commit.conflict import (
    KeyRange,
    apply,
    check_bucket_counts,
    check_conflicts,
    check_delta,
    check_vectors,
    holds_vectors,
)
from paimon_assets.engine.control.commit.partition_filter import PartitionFilter, overwritten
from paimon_assets.engine.control.commit.planned_on import check_known_keys, check_strict_mode
from paimon_assets.engine.control.commit.request import CommitRequest
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.segments.segment_registry import (
    external_entries,
    hold_external,
    live_text_segments,
)
from paimon_assets.engine.control.write_planning import partition_buckets
from paimon_assets.engine.errors import InvalidInputError, UnsupportedFeatureError
from paimon_assets.engine.spec.metadata.index_file import IndexManifestEntry
from paimon_assets.engine.spec.metadata.manifest import FileKind, ManifestEntry
from paimon_assets.engine.spec.metadata.snapshot import CommitKind, Snapshot
from paimon_assets.engine.spec.schema.schema import BucketMode


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedChanges:
    """The changes of a commit on top of one snapshot, free of conflicts."""

    changes: CommitChanges
    index: tuple[IndexManifestEntry, ...] | None
    """All live index files afterwards; None if they stay as they are."""


@dataclass(frozen=True)
class CommitChecks:
    """Checks of one table."""

    store: FileStore

    def plan(self, request: CommitRequest, latest: Snapshot | None) -> CheckedChanges:
        """Return the changes of a commit on top of the newest snapshot."""
        changes, scope = request.changes, request.overwrites
        looks_at_files = request.kind in (CommitKind.OVERWRITE, CommitKind.COMPACT)
        index = self._live_index(latest) if looks_at_files or changes.index else ()
        base: list[ManifestEntry] = []
        if scope is not None:
            base = scope.live_files(latest)
            changes = overwritten(scope, base, index, changes)
        elif looks_at_files:
            partitions = PartitionFilter.of(self.store, changes.partitions)
            # Whether all files of a partition go decides whether an overwrite may rescale it.
            whole = request.kind is CommitKind.OVERWRITE
            base = partitions.live_files(latest, None if whole else changes.buckets)
        check_delta(changes.entries)
        check_strict_mode(
            self.store,
            latest,
            changes.partitions,
            commit_user=request.commit_user,
            kind=request.kind,
        )
        if request.planned_on is not None:
            request.planned_on.check(self.store, latest, changes.buckets)
        self._check_bucket_counts(changes, base, request.kind, latest)
        after = index
        if changes.index:
            has_buckets = self.store.schema.bucket_mode is not BucketMode.BUCKET_UNAWARE
            after = apply(index, changes.index, has_buckets=has_buckets)
        check_known_keys(self.store, latest, changes)
        if looks_at_files:
            check_conflicts(base, changes.entries, self.key_range)
            if holds_vectors(after):
                check_vectors(index, after, base, changes.entries)
        return CheckedChanges(changes=changes, index=after if changes.index else None)

    @cached_property
    def key_range(self) -> KeyRange | None:
        """File → its keys, of a primary-key table."""
        schema = self.store.schema
        if not schema.has_primary_key:
            return None
        types = [column.type for column in schema.key_fields]
        return lambda file: key_range(file, types)

    def _live_index(self, latest: Snapshot | None) -> tuple[IndexManifestEntry, ...]:
        if latest is None or latest.index_manifest is None:
            return ()
        return self.store.manifests.read_index(latest.index_manifest)

    def _check_bucket_counts(
        self,
        changes: CommitChanges,
        base: Iterable[ManifestEntry],
        kind: CommitKind,
        latest: Snapshot | None,
    ) -> None:
        """Files that stay and files that come agree on the count; an overwrite may leave none."""
        if not any(entry.total_buckets > 0 for entry in changes.entries):
            return
        if kind is CommitKind.OVERWRITE:
            gone = {e.identifier for e in changes.entries if e.kind is FileKind.DELETE}
            stay = (entry for entry in base if entry.identifier not in gone)
            known = {e.partition: e.total_buckets for e in stay if e.total_buckets > 0}
        else:
            known = partition_buckets(self.store, latest, changes.partitions)
        added = [entry for entry in changes.entries if entry.kind is FileKind.ADD]
        check_bucket_counts(known, added)


def protect_external(
    store: FileStore,
    latest: Snapshot | None,
    entries: Iterable[ManifestEntry],
    request: CommitRequest,
) -> None:
    """Tag the newest snapshot if a commit removes external files of it; see `hold_external`."""
    if request.overwrites is not None:
        _refuse_text_segments(store, latest, request.overwrites)
    foreign = external_entries(store, (entry for entry in entries if entry.kind is FileKind.DELETE))
    if foreign and request.kind is CommitKind.COMPACT:
        raise UnsupportedFeatureError(
            f"Table {store.label}: '{foreign[0].file.external_path}' is a file of a segment. "
            "Custom compaction does not support other format segment; leave it out.",
            kind="segment-compaction",
            details={"table": store.label, "path": foreign[0].file.external_path},
        )
    hold_external(store, latest, foreign)


def _refuse_text_segments(
    store: FileStore, latest: Snapshot | None, scope: PartitionFilter
) -> None:
    for segment in live_text_segments(store, latest):
        if scope.takes(segment.partition):
            raise InvalidInputError(
                f"Table {store.label}: segment {segment.id} ('{segment.folder}', {segment.format}) "
                "lies in a partition that is to be overwritten; delete the segment first.",
                kind="segment-overwrite",
                details={"table": store.label, "segment": segment.id},
            )
