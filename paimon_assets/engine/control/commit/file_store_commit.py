"""FileStoreCommit: messages → one snapshot, by optimistic concurrency.

    ┌─▶ newest snapshot ─▶ did this commit happen already? ─▶ conflicts? ─▶ manifests and lists
    │                                                                              │
    └── lost: delete own lists, wait ◀── publish snapshot N+1, if there is none ◀──┘
                                              │ won
                                              └─▶ hint, done

Everything before the publish is invisible; the publish is atomic (`fileio.atomic`). If its answer
is lost, the snapshots are looked at; if they do not tell, nothing is deleted and the caller hears
`CommitUnknownError`: committing again with the same user and identifier finds out.
Source: `org.apache.paimon.operation.FileStoreCommitImpl`.
"""

import logging
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from paimon_assets.engine.codec.key_range import key_range
from paimon_assets.engine.codec.metadata_json import snapshot_to_json
from paimon_assets.engine.contract.commit_message import CommitMessage
from paimon_assets.engine.control.clock import Clock, SystemClock
from paimon_assets.engine.control.commit.changes import entries_of
from paimon_assets.engine.control.commit.conflict import (
    KeyRange,
    check_bucket_counts,
    check_conflicts,
    check_delta,
)
from paimon_assets.engine.control.commit.retry import RetryPolicy
from paimon_assets.engine.control.features import check_writable
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.manifest_merge import MergeLimits, chunks, merge_manifests
from paimon_assets.engine.control.manifest_store import ManifestNames
from paimon_assets.engine.control.planning import partition_buckets
from paimon_assets.engine.control.scan.file_store_scan import FileStoreScan
from paimon_assets.engine.errors import (
    CommitConflictError,
    CommitUnknownError,
    NotFoundError,
    PaimonError,
    StorageError,
)
from paimon_assets.engine.spec.manifest import FileKind, ManifestEntry, ManifestFileMeta
from paimon_assets.engine.spec.options import BUCKET
from paimon_assets.engine.spec.predicate import all_of, equal
from paimon_assets.engine.spec.prune import may_match
from paimon_assets.engine.spec.snapshot import FIRST_SNAPSHOT_ID, CommitKind, Snapshot

logger = logging.getLogger(__name__)

_ENTRIES_A_MANIFEST = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest:
    """One commit: what it changes and who makes it."""

    entries: tuple[ManifestEntry, ...]
    commit_user: str
    commit_identifier: int
    kind: CommitKind
    properties: Mapping[str, str]
    watermark: int | None


@dataclass(slots=True)
class _Written:
    """What a commit has written so far."""

    names: ManifestNames
    delta: list[ManifestFileMeta] = field(default_factory=list)
    """The commit's own manifests, the same for every try."""
    cleaned: set[str] = field(default_factory=set)
    """Names that were dealt with."""

    def of_lost_try(self) -> list[str]:
        """Return the names that only the current try uses, once."""
        keep = {meta.file_name for meta in self.delta}
        return self._once(name for name in self.names.issued if name not in keep)

    def everything(self) -> list[str]:
        """Return all names, once; the next try begins from nothing."""
        self.delta.clear()
        return self._once(self.names.issued)

    def _once(self, names: Iterable[str]) -> list[str]:
        fresh = [name for name in names if name not in self.cleaned]
        self.cleaned.update(fresh)
        return fresh


class FileStoreCommit:
    """Commits to one table.

    Args:
        store: The table; its schema is the one the files were written with.
        clock: Says the time of the snapshot, and waits.
        random_fraction: Returns numbers in [0, 1), for jitter.
        new_names: Returns fresh names of manifests.
    """

    def __init__(
        self,
        store: FileStore,
        *,
        clock: Clock | None = None,
        random_fraction: Callable[[], float] = random.random,
        new_names: Callable[[], ManifestNames] = ManifestNames.fresh,
    ) -> None:
        self._store = store
        self._clock = clock or SystemClock()
        self._random = random_fraction
        self._new_names = new_names
        self._limits = MergeLimits.of(store.schema.typed_options)
        self._policy = RetryPolicy.of(store.schema.typed_options)

    def commit(
        self,
        messages: Iterable[CommitMessage],
        *,
        commit_user: str,
        commit_identifier: int,
        kind: CommitKind = CommitKind.APPEND,
        properties: Mapping[str, str] | None = None,
        watermark: int | None = None,
    ) -> Snapshot:
        """Make what the messages say visible, in one snapshot; without messages, an empty one.

        Args:
            messages: Of one write.
            commit_user: Who commits; with the identifier it makes the commit happen once only.
            commit_identifier: Which of the user's commits.
            kind: APPEND, or OVERWRITE or COMPACT for messages that delete files.
            properties: Stored in the snapshot.
            watermark: Event time in epoch milliseconds; the table's never goes back.

        Returns:
            The snapshot, perhaps of an earlier try by the same user with the same identifier.

        Raises:
            CommitConflictError: Another commit is in the way, or was faster too often; nothing was
                committed and everything but the data files was cleaned up.
            CommitUnknownError: It may have been committed; nothing was deleted.
            StorageError: The storage failed; nothing was committed.
            InvalidInputError: The messages contradict themselves, or the kind.
            UnsupportedFeatureError: The table is not one this engine writes.
        """
        schema = self._store.schema
        check_writable(self._store.label, schema)
        buckets = schema.typed_options.get(BUCKET)
        request = CommitRequest(
            entries=entries_of(messages, kind, default_buckets=buckets),
            commit_user=commit_user,
            commit_identifier=commit_identifier,
            kind=kind,
            properties=dict(properties or {}),
            watermark=watermark,
        )
        check_delta(request.entries)
        return self._until_done(request)

    def _until_done(self, request: CommitRequest) -> Snapshot:
        written = _Written(self._new_names())
        lost = 0
        while True:
            done = self._try_once(request, written)
            if done is not None:
                return done
            lost += 1
            if lost > self._policy.max_retries:
                self._clean(written.everything())
                raise CommitConflictError(
                    f"Table '{self._store.label}': {lost} other commits were faster; raise "
                    "'commit.max-retries', or let fewer writers commit at once.",
                    kind="commit-retries",
                    details={"table": self._store.label, "lost": lost},
                )
            wait_ms = self._policy.wait_ms(lost, self._random)
            logger.warning(
                "table %s: lost commit race %d, next try in %.0f ms",
                self._store.label,
                lost,
                wait_ms,
            )
            self._clock.sleep_millis(wait_ms)

    def _try_once(self, request: CommitRequest, written: _Written) -> Snapshot | None:
        """Try on the newest snapshot; None means that another commit was faster."""
        try:
            latest = self._store.snapshots.latest()
            done = self._store.snapshots.find_commit(
                request.commit_user, request.commit_identifier, [request.kind], latest=latest
            )
            if done is not None:
                self._clean(written.everything())
                return done
            self._check(request, latest)
            snapshot = self._prepared(request, latest, written)
        except PaimonError:
            # The snapshot was not published, so nobody else knows of these files.
            self._clean(written.everything())
            raise
        if self._published(snapshot, written):
            self._tell(snapshot)
            return snapshot
        self._clean(written.of_lost_try())
        return None

    def _check(self, request: CommitRequest, latest: Snapshot | None) -> None:
        store, entries = self._store, request.entries
        partitions = {entry.partition for entry in entries}
        if request.kind is not CommitKind.OVERWRITE and any(e.total_buckets > 0 for e in entries):
            check_bucket_counts(partition_buckets(store, latest, partitions), entries)
        if request.kind is CommitKind.APPEND:
            return
        live = [] if latest is None else FileStoreScan(store).live_files(latest)
        base = [entry for entry in live if entry.partition in partitions]
        check_conflicts(base, entries, self._key_range())

    def _key_range(self) -> KeyRange | None:
        if not self._store.schema.has_primary_key:
            return None
        types = [column.type for column in self._store.schema.key_fields]
        return lambda file: key_range(file, types)

    def _prepared(
        self, request: CommitRequest, latest: Snapshot | None, written: _Written
    ) -> Snapshot:
        """Write manifests and lists, and describe the snapshot they make."""
        store = self._store
        schema_id = store.schemas.latest_id(store.schema.id)
        if not written.delta:
            written.delta.extend(
                store.manifests.write(chunk, written.names)
                for chunk in chunks(request.entries, _ENTRIES_A_MANIFEST)
            )
        before = () if latest is None else store.manifests.manifests_of(latest)
        base = merge_manifests(before, self._limits, _MergeStorage(store, written.names))
        base_list, base_bytes = store.manifests.write_list(base, written.names)
        delta_list, delta_bytes = store.manifests.write_list(written.delta, written.names)
        rows = sum(_row_change(entry) for entry in request.entries)
        return Snapshot(
            id=latest.id + 1 if latest else FIRST_SNAPSHOT_ID,
            schema_id=schema_id,
            base_manifest_list=base_list,
            base_manifest_list_size=base_bytes,
            delta_manifest_list=delta_list,
            delta_manifest_list_size=delta_bytes,
            commit_user=request.commit_user,
            commit_identifier=request.commit_identifier,
            commit_kind=request.kind,
            time_millis=self._clock.now_millis(),
            total_record_count=rows + (latest.total_record_count if latest else 0),
            delta_record_count=rows,
            watermark=_later(latest.watermark if latest else None, request.watermark),
            index_manifest=latest.index_manifest if latest else None,
            # Statistics describe columns; they lapse with the schema they were made for.
            statistics=latest.statistics if latest and latest.schema_id == schema_id else None,
            next_row_id=(latest.next_row_id or 0) if latest else 0,
            properties=request.properties,
        )

    def _published(self, snapshot: Snapshot, written: _Written) -> bool:
        """Publish a snapshot; False if the name was taken by another commit's."""
        path = self._store.paths.snapshot(snapshot.id)
        unknown: CommitUnknownError | None = None
        try:
            if self._store.file_io.publish(path, snapshot_to_json(snapshot)):
                return True
        except CommitUnknownError as error:
            unknown = error
        except PaimonError:
            self._clean(written.everything())
            raise
        # A storage that repeats a call whose answer was lost finds its own snapshot in the way.
        found = self._look(snapshot)
        if found is None:
            raise self._unknown(snapshot) from unknown
        return found.delta_manifest_list == snapshot.delta_manifest_list

    def _look(self, snapshot: Snapshot) -> Snapshot | None:
        try:
            return self._store.snapshots.snapshot_or_none(snapshot.id)
        except PaimonError as error:
            raise self._unknown(snapshot) from error

    def _unknown(self, snapshot: Snapshot) -> CommitUnknownError:
        return CommitUnknownError(
            f"Table '{self._store.label}': whether snapshot {snapshot.id} was committed is "
            "unknown. Nothing was deleted. Commit again as the same user with the same "
            "identifier: it finds the snapshot, or makes it.",
            details={
                "table": self._store.label,
                "snapshot_id": snapshot.id,
                "commit_user": snapshot.commit_user,
                "commit_identifier": snapshot.commit_identifier,
            },
        )

    def _tell(self, snapshot: Snapshot) -> None:
        """Renew the hint; the commit stands without it."""
        try:
            self._store.snapshots.write_latest_hint(snapshot.id)
        except (StorageError, NotFoundError):
            logger.warning(
                "table %s: hint to snapshot %d was not written",
                self._store.label,
                snapshot.id,
                exc_info=True,
            )

    def _clean(self, names: Iterable[str]) -> None:
        """Delete manifests no snapshot names; what cannot be deleted is left as an orphan."""
        for name in names:
            try:
                self._store.manifests.delete(name)
            except StorageError:
                logger.warning("orphan manifest '%s' is left", name, exc_info=True)


class _MergeStorage:
    """Manifest merging on a table's store."""

    def __init__(self, store: FileStore, names: ManifestNames) -> None:
        self._store = store
        self._names = names

    def read(self, meta: ManifestFileMeta) -> Sequence[ManifestEntry]:
        return self._store.manifests.read(meta)

    def write(self, entries: Sequence[ManifestEntry]) -> ManifestFileMeta:
        return self._store.manifests.write(entries, self._names)

    def may_hold(self, meta: ManifestFileMeta, partitions: frozenset[bytes]) -> bool:
        count = meta.num_added_files + meta.num_deleted_files
        bounds = self._store.partitions.bounds(meta.partition_stats, count)
        keys = self._store.schema.partition_keys
        return any(
            may_match(
                all_of(map(equal, keys, self._store.partitions.values(partition))),
                bounds.__getitem__,
            )
            for partition in partitions
        )


def _row_change(entry: ManifestEntry) -> int:
    return entry.file.row_count if entry.kind is FileKind.ADD else -entry.file.row_count


def _later(previous: int | None, given: int | None) -> int | None:
    known = [value for value in (previous, given) if value is not None]
    return max(known) if known else None
