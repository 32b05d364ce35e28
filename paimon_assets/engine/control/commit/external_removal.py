"""The duties of a commit before it takes external files out of a table.

Nothing here deletes their bytes, but another engine's expiration would: it spares what a tag holds.
"""

from collections.abc import Iterable

from paimon_assets.engine.control.commit.partition_filter import PartitionFilter
from paimon_assets.engine.control.commit.request import CommitRequest
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.segments.segment_registry import (
    external_entries,
    hold_external,
    live_text_segments,
)
from paimon_assets.engine.errors import InvalidInputError, UnsupportedFeatureError
from paimon_assets.engine.spec.metadata.manifest import FileKind, ManifestEntry
from paimon_assets.engine.spec.metadata.snapshot import CommitKind, Snapshot


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
