"""Index files of a commit onto those of the newest snapshot: pure functions over entries.

    HASH                a bucket has one
    DELETION_VECTORS    a bucket has one; without buckets, a data file has one vector
    global indexes      by name

A commit names the files that its own replace. Java puts a bucket's new file in the place of
whatever is there, so that of two writers who delete rows of a bucket, or bring it new keys, at the
same moment the first is forgotten; here the second has a conflict.
Source: `org.apache.paimon.manifest.IndexManifestFileHandler`,
`org.apache.paimon.operation.commit.ConflictDetection`.
"""

from collections.abc import Iterable, Iterator, Sequence

from paimon_assets.engine.control.commit.conflict import bucket_changed
from paimon_assets.engine.errors import CommitConflictError
from paimon_assets.engine.spec.metadata.index_file import (
    DELETION_VECTORS_INDEX,
    HASH_INDEX,
    IndexManifestEntry,
)
from paimon_assets.engine.spec.metadata.manifest import FileKind, ManifestEntry

DataFileKey = tuple[bytes, int, str]
"""(partition, bucket, file name): of a data file, what a deletion vector belongs to."""


def apply(
    live: Sequence[IndexManifestEntry], changes: Sequence[IndexManifestEntry], *, has_buckets: bool
) -> tuple[IndexManifestEntry, ...]:
    """Return the live index files after a commit, in order of their addition."""
    deleted = {_key(entry): entry for entry in changes if entry.kind is FileKind.DELETE}
    added = [entry for entry in changes if entry.kind is FileKind.ADD]
    present = {_key(entry) for entry in live}
    for identity, entry in deleted.items():
        if identity not in present:
            raise _conflict("index-gone", entry, "is to be deleted but is not live any more")
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
                raise _conflict("index-changed", entry, "would stand beside one it does not know")
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


def holds_vectors(entries: Iterable[IndexManifestEntry]) -> bool:
    """Whether some index file holds deletion vectors."""
    return any(entry.file.index_type == DELETION_VECTORS_INDEX for entry in entries)


def _key(entry: IndexManifestEntry | ManifestEntry) -> DataFileKey:
    return (entry.partition, entry.bucket, entry.file.file_name)


def _vector_keys(entry: IndexManifestEntry) -> Iterator[DataFileKey]:
    for vector in entry.file.deletion_vectors or ():
        yield (entry.partition, entry.bucket, vector.data_file_name)


def _conflict(kind: str, entry: IndexManifestEntry, what: str) -> CommitConflictError:
    return bucket_changed(kind, "Index file", entry.file.file_name, entry.bucket, what)


def _vector_conflict(kind: str, key: DataFileKey, what: str) -> CommitConflictError:
    _, bucket, name = key
    said = f"{what}, and there is a deletion vector of it"
    return bucket_changed(kind, "Data file", name, bucket, said)
