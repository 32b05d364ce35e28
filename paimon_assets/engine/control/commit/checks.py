"""CommitChecks: plans a commit on the newest snapshot and checks for conflicts.

    kind           looks at live files of                        for
    APPEND         nothing (bucket counts are remembered)        another bucket count, keys that got
                                                                 another bucket meanwhile
    COMPACT        the buckets it changes                        files gone or added twice, keys
                                                                 shared on one level, vectors of
                                                                 deleted rows without their file
    OVERWRITE      the partitions it changes                     the same

A bucket has one index file for hashes, and one for deletion vectors; without buckets a data file
has one vector. A commit names the index files that its own replace. Java replaces whatever a bucket
has: of two writers at the same time the first is lost. Here the second has a conflict.
Source: `org.apache.paimon.operation.commit.ConflictDetection`,
`org.apache.paimon.manifest.IndexManifestFileHandler`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise

from msgspec import Struct

from paimon_assets.engine.codec.rows.binary_row import key_range
from paimon_assets.engine.control.commit.changes import CommitChanges
from paimon_assets.engine.control.commit.partition_filter import (
    KeyRange,
    PartitionFilter,
    overwritten,
)
from paimon_assets.engine.control.commit.planned_on import check_known_keys, check_strict_mode
from paimon_assets.engine.control.commit.request import CommitRequest
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.write_planning import partition_buckets
from paimon_assets.engine.errors import (
    CommitConflictError,
    InvalidInputError,
    UnsupportedFeatureError,
)
from paimon_assets.engine.spec.metadata.manifest import (
    DELETION_VECTORS_INDEX,
    HASH_INDEX,
    FileIdentifier,
    FileKind,
    IndexManifestEntry,
    ManifestEntry,
)
from paimon_assets.engine.spec.metadata.snapshot import CommitKind, Snapshot
from paimon_assets.engine.spec.options.all_options import DATA_EVOLUTION_ENABLED
from paimon_assets.engine.spec.paths import MAIN_BRANCH
from paimon_assets.engine.spec.schema.schema import BucketMode
from paimon_assets.engine.spec.segments.segment import is_external
from paimon_assets.engine.spec.values import Value


def check_delta(delta: Sequence[ManifestEntry]) -> None:
    """Check that a commit names each file once: a file added twice would be read twice."""
    added, deleted = _identifiers(delta, FileKind.ADD), _identifiers(delta, FileKind.DELETE)
    for identifier in added.keys() & deleted.keys():
        raise _inconsistent(added[identifier], "both added and deleted")


def check_bucket_counts(live: Mapping[bytes, int], delta: Iterable[ManifestEntry]) -> None:
    """Check that a partition's files agree on their bucket count."""
    counts = dict(live)
    for entry in delta:
        if entry.total_buckets < 1:
            continue
        count = counts.setdefault(entry.partition, entry.total_buckets)
        if count != entry.total_buckets:
            raise CommitConflictError(
                f"File '{entry.file.file_name}' was written for {entry.total_buckets} buckets, but "
                f"its partition has {count}. Write again; a partition keeps its bucket count until "
                "it is overwritten.",
                kind="bucket-count",
                file=entry.file.file_name,
                buckets=count,
            )


def check_conflicts(
    base: Iterable[ManifestEntry], delta: Sequence[ManifestEntry], key_range: KeyRange | None
) -> None:
    """Check that a commit which deletes or moves files fits the files that are live now."""
    added, deleted = _identifiers(delta, FileKind.ADD), _identifiers(delta, FileKind.DELETE)
    live = _identifiers(base, FileKind.ADD)
    for identifier, entry in deleted.items():
        if identifier not in live:
            raise _conflict("file-gone", entry, "is to be deleted but is not live any more")
    for identifier, entry in added.items():
        if identifier in live:
            raise _conflict("file-added-twice", entry, "is live already")
    if key_range is not None:
        remaining = [entry for identifier, entry in live.items() if identifier not in deleted]
        _check_key_ranges(remaining, added.values(), key_range)


def _identifiers(
    entries: Iterable[ManifestEntry], kind: FileKind
) -> dict[FileIdentifier, ManifestEntry]:
    entry_of: dict[FileIdentifier, ManifestEntry] = {}
    for entry in entries:
        if entry.kind is not kind:
            continue
        if entry.identifier in entry_of:
            raise _inconsistent(entry, "named twice")
        entry_of[entry.identifier] = entry
    return entry_of


def _check_key_ranges(
    remaining: Iterable[ManifestEntry], added: Iterable[ManifestEntry], key_range: KeyRange
) -> None:
    """Files of one level above 0 are one sorted run, so they share no key."""
    runs: dict[tuple[bytes, int, int], list[ManifestEntry]] = {}
    for entry in added:
        if entry.file.level > 0:
            runs.setdefault((entry.partition, entry.bucket, entry.file.level), []).append(entry)
    for entry in remaining:
        run = runs.get((entry.partition, entry.bucket, entry.file.level))
        if run is not None:
            run.append(entry)
    for run in runs.values():
        ranged = sorted(
            ((*key_range(entry.file), entry) for entry in run), key=lambda item: item[:2]
        )
        for (_, high, left), (low, _, right) in pairwise(ranged):
            if low <= high:
                raise _conflict(
                    "key-range",
                    right,
                    f"shares keys with '{left.file.file_name}' on level {right.file.level}",
                )


def _inconsistent(entry: ManifestEntry, event: str) -> InvalidInputError:
    name, bucket = entry.file.file_name, entry.bucket
    message = f"File '{name}' of bucket {bucket} is {event} by one commit."
    return InvalidInputError(message, kind="delta-inconsistent", file=name, bucket=bucket)


def _conflict(kind: str, entry: ManifestEntry, event: str) -> CommitConflictError:
    return bucket_changed(kind, "File", entry.file.file_name, entry.bucket, event)


def bucket_changed(kind: str, noun: str, name: str, bucket: int, event: str) -> CommitConflictError:
    """Return the error for a file of a bucket that another commit changed."""
    message = (
        f"{noun} '{name}' of bucket {bucket} {event}: another commit changed the bucket meanwhile. "
        "Plan again."
    )
    return CommitConflictError(message, kind=kind, file=name, bucket=bucket)


DataFileKey = tuple[bytes, int, str]
"""(partition, bucket, file name) of a data file, to which a deletion vector belongs."""


def apply(
    live: Sequence[IndexManifestEntry], changes: Sequence[IndexManifestEntry], *, has_buckets: bool
) -> tuple[IndexManifestEntry, ...]:
    """Return the live index files after a commit, in order of their addition."""
    deleted = {_key(entry): entry for entry in changes if entry.kind is FileKind.DELETE}
    added = [entry for entry in changes if entry.kind is FileKind.ADD]
    present = {_key(entry) for entry in live}
    for identity, entry in deleted.items():
        if identity not in present:
            raise _index_conflict("index-gone", entry, "is to be deleted but is not live any more")
    kept = [entry for entry in live if _key(entry) not in deleted]
    _check_additions(kept, added, has_buckets=has_buckets)
    return (*kept, *added)


def _check_additions(
    kept: Iterable[IndexManifestEntry], added: Iterable[IndexManifestEntry], *, has_buckets: bool
) -> None:
    places = {place for entry in kept for place in _places(entry, has_buckets=has_buckets)}
    for entry in added:
        for place in _places(entry, has_buckets=has_buckets):
            if place in places:
                raise _index_conflict(
                    "index-changed", entry, "would stand beside one it does not know"
                )
            places.add(place)


def _places(entry: IndexManifestEntry, *, has_buckets: bool) -> Iterator[tuple[str, DataFileKey]]:
    """Return the keys that only one index file may have."""
    kind, name = entry.file.index_type, entry.file.file_name
    yield ("name", (entry.partition, entry.bucket, name))
    if kind == HASH_INDEX or (kind == DELETION_VECTORS_INDEX and has_buckets):
        yield (kind, (entry.partition, entry.bucket, ""))
    elif kind == DELETION_VECTORS_INDEX:
        for key in _vector_keys(entry):
            yield (kind, key)


def check_vectors(
    before: Iterable[IndexManifestEntry],
    after: Sequence[IndexManifestEntry],
    base: Iterable[ManifestEntry],
    delta: Iterable[ManifestEntry],
) -> None:
    """Check that deletion vectors and data files go together."""
    entries = list(delta)
    added = {_key(entry) for entry in entries if entry.kind is FileKind.ADD}
    removed = {_key(entry) for entry in entries if entry.kind is FileKind.DELETE} - added
    known = {key for entry in before for key in _vector_keys(entry)}
    live = {_key(entry) for entry in base} - removed | added
    for entry in after:
        for key in _vector_keys(entry):
            if key in removed:
                raise _vector_conflict("vector-left", key, "is to be deleted, but has one")
            if key not in known and key not in live:
                raise _vector_conflict("vector-without-file", key, "is not live")


def _key(entry: IndexManifestEntry | ManifestEntry) -> DataFileKey:
    return (entry.partition, entry.bucket, entry.file.file_name)


def _vector_keys(entry: IndexManifestEntry) -> Iterator[DataFileKey]:
    for vector in entry.file.deletion_vectors or ():
        yield (entry.partition, entry.bucket, vector.data_file_name)


def _index_conflict(kind: str, entry: IndexManifestEntry, event: str) -> CommitConflictError:
    return bucket_changed(kind, "Index file", entry.file.file_name, entry.bucket, event)


def _vector_conflict(kind: str, key: DataFileKey, event: str) -> CommitConflictError:
    _, bucket, name = key
    text = f"{event}, and there is a deletion vector of it"
    return bucket_changed(kind, "Data file", name, bucket, text)


class CheckedChanges(Value):
    """The changes of a commit on top of one snapshot, free of conflicts."""

    changes: CommitChanges
    index: tuple[IndexManifestEntry, ...] | None
    """All live index files afterwards; None if they stay as they are."""


class CommitChecks(Struct, frozen=True, dict=True):
    """Checks of one table."""

    store: FileStore

    def plan(self, request: CommitRequest, latest: Snapshot | None) -> CheckedChanges:
        """Return the changes of a commit on top of the newest snapshot."""
        changes, scope = request.changes, request.overwrites
        looks_at_files = request.kind in (CommitKind.OVERWRITE, CommitKind.COMPACT)
        index: tuple[IndexManifestEntry, ...] = ()
        if latest is not None and latest.index_manifest and (looks_at_files or changes.index):
            index = self.store.manifests.read_index(latest.index_manifest)
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
        user, kind = request.commit_user, request.kind
        check_strict_mode(self.store, latest, changes.partitions, commit_user=user, kind=kind)
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
            if self.store.schema.typed_options.get(DATA_EVOLUTION_ENABLED):
                from paimon_assets.engine.control.commit.column_conflicts import check_ranges

                check_ranges(base, changes.entries)
            if any(entry.file.index_type == DELETION_VECTORS_INDEX for entry in after):
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
) -> bool:
    """Protect the external files that a commit removes; return whether text segments go.

    A tag of the newest snapshot does, see `hold_external`.
    """
    scope = request.overwrites
    takes_text = scope is not None and _take_out_text_segments(store, latest, scope, request)
    gone = (entry for entry in entries if entry.kind is FileKind.DELETE)
    options = store.schema.typed_options
    external = [entry for entry in gone if is_external(options, entry.file)]
    if not external:
        return takes_text
    if request.kind is CommitKind.COMPACT:
        raise UnsupportedFeatureError(
            f"Table {store.label}: '{external[0].file.external_path}' is a file of a segment. "
            "Custom compaction does not support other format segment; leave it out.",
            kind="segment-compaction",
            table=store.label,
            path=external[0].file.external_path,
        )
    from paimon_assets.engine.control.segments import hold_external

    hold_external(store, latest, external)
    return takes_text


def _take_out_text_segments(
    store: FileStore, latest: Snapshot | None, scope: PartitionFilter, request: CommitRequest
) -> bool:
    from paimon_assets.engine.control.segments import live_text_segments, mark_removal

    segments = [each for each in live_text_segments(store, latest) if scope.takes(each.partition)]
    if not segments:
        return False
    if store.paths.branch != MAIN_BRANCH:
        raise InvalidInputError(
            f"Table {store.label}: segment {segments[0].id} ('{segments[0].folder}', "
            f"{segments[0].format}) is in a partition that is to be overwritten; open the main "
            "branch, or delete the segment first.",
            kind="segment-overwrite",
            table=store.label,
            segment=segments[0].id,
        )
    mark_removal(store, segments, (str(request.commit_user), request.commit_identifier))
    return True
