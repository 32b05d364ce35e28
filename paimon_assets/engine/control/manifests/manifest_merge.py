"""Folding small manifests together while committing, so that planning stays fast.

Two ways, decided by sizes alone:

    full    when small manifests and those with DELETEs sum up to the threshold: all of them, and
            the large ones that hold a deleted file, are rewritten without any DELETE
    minor   else: neighbours are folded up to the target size, a rest only if it is many; inside a
            fold an ADD and its DELETE cancel, a DELETE whose ADD is elsewhere stays

The set of live files never changes.
Source: `org.apache.paimon.operation.ManifestFileMerger`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from paimon_assets.engine.spec.metadata.manifest import (
    FileIdentifier,
    FileKind,
    ManifestEntry,
    ManifestFileMeta,
)
from paimon_assets.engine.spec.options.all_options import (
    MANIFEST_FULL_COMPACTION_SIZE,
    MANIFEST_MERGE_MIN_COUNT,
    MANIFEST_TARGET_FILE_SIZE,
    Options,
)

_MARGIN = 1.2
"""Rolled manifests aim above the target: just below it, they would be folded again and again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeLimits:
    """The limits at which manifests are folded."""

    target_bytes: int
    """Manifests of at least this size are large: they are left alone."""
    full_bytes: int
    """Bytes of small manifests, and of those with DELETEs, that start a full fold."""
    min_count: int
    """Neighbours below the target that are folded."""

    @classmethod
    def of(cls, options: Options) -> Self:
        """Read the limits from a table's options."""
        return cls(
            target_bytes=options.get(MANIFEST_TARGET_FILE_SIZE),
            full_bytes=options.get(MANIFEST_FULL_COMPACTION_SIZE),
            min_count=options.get(MANIFEST_MERGE_MIN_COUNT),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestStorage:
    """The part of the manifest store that merging needs."""

    read: Callable[[ManifestFileMeta], Sequence[ManifestEntry]]
    write: Callable[[Sequence[ManifestEntry]], ManifestFileMeta]
    may_hold: Callable[[ManifestFileMeta, frozenset[bytes]], bool]
    """Whether a manifest may hold files of one of the partitions."""


def merge_manifests(
    metas: Sequence[ManifestFileMeta], limits: MergeLimits, storage: ManifestStorage
) -> list[ManifestFileMeta]:
    """Return manifests with the same live files; `metas` themselves if nothing is due.

    Cost: O(1) if nothing is due; a minor fold reads and writes the manifests it folds.
    """
    candidates = [meta for meta in metas if _wants_rewriting(meta, limits)]
    if sum(meta.file_size for meta in candidates) >= limits.full_bytes:
        return _full(metas, limits, storage)
    return _minor(metas, limits, storage)


def _wants_rewriting(meta: ManifestFileMeta, limits: MergeLimits) -> bool:
    return meta.num_deleted_files > 0 or meta.file_size < limits.target_bytes


def _full(
    metas: Sequence[ManifestFileMeta], limits: MergeLimits, storage: ManifestStorage
) -> list[ManifestFileMeta]:
    deleted = {
        entry.identifier: entry.partition
        for meta in metas
        if meta.num_deleted_files > 0
        for entry in storage.read(meta)
        if entry.kind is FileKind.DELETE
    }
    partitions = frozenset(deleted.values())

    def holds_deleted(meta: ManifestFileMeta) -> bool:
        return storage.may_hold(meta, partitions) and any(
            entry.identifier in deleted for entry in storage.read(meta)
        )

    kept: list[ManifestFileMeta] = []
    rewritten: list[ManifestFileMeta] = []
    for meta in metas:
        due = _wants_rewriting(meta, limits) or (bool(deleted) and holds_deleted(meta))
        (rewritten if due else kept).append(meta)
    entries = (
        entry
        for meta in rewritten
        for entry in storage.read(meta)
        if entry.kind is FileKind.ADD and entry.identifier not in deleted
    )
    return kept + _written(list(entries), rewritten, limits, storage)


def _minor(
    metas: Sequence[ManifestFileMeta], limits: MergeLimits, storage: ManifestStorage
) -> list[ManifestFileMeta]:
    result: list[ManifestFileMeta] = []
    group: list[ManifestFileMeta] = []
    group_bytes = 0
    for meta in metas:
        group.append(meta)
        group_bytes += meta.file_size
        if group_bytes >= limits.target_bytes:
            result += _fold(group, limits, storage)
            group, group_bytes = [], 0
    if len(group) >= limits.min_count:
        return result + _fold(group, limits, storage)
    return result + group


def _fold(
    group: list[ManifestFileMeta], limits: MergeLimits, storage: ManifestStorage
) -> list[ManifestFileMeta]:
    if len(group) == 1:
        return group
    entries = cancelled(entry for meta in group for entry in storage.read(meta))
    return _written(entries, group, limits, storage)


def cancelled(entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """Drop ADDs with their DELETEs; a DELETE without its ADD stays, because it is elsewhere."""
    items = list(entries)
    deleted = {entry.identifier for entry in items if entry.kind is FileKind.DELETE}
    if not deleted:
        return items
    added = {entry.identifier for entry in items if entry.kind is FileKind.ADD}
    gone: set[FileIdentifier] = deleted & added
    return [entry for entry in items if entry.identifier not in gone]


def _written(
    entries: list[ManifestEntry],
    sources: Iterable[ManifestFileMeta],
    limits: MergeLimits,
    storage: ManifestStorage,
) -> list[ManifestFileMeta]:
    """Write entries into manifests of about the target size, judged by their sources' density."""
    if not entries:
        return []
    source_bytes, source_entries = 0, 0
    for meta in sources:
        source_bytes += meta.file_size
        source_entries += meta.num_added_files + meta.num_deleted_files
    entry_bytes = max(1.0, source_bytes / max(1, source_entries))
    per_manifest = max(1, int(limits.target_bytes * _MARGIN / entry_bytes))
    return [storage.write(chunk) for chunk in chunks(entries, per_manifest)]


def chunks(entries: Sequence[ManifestEntry], size: int) -> Iterator[Sequence[ManifestEntry]]:
    """Cut entries into pieces of `size`, the last one shorter."""
    for start in range(0, len(entries), size):
        yield entries[start : start + size]
