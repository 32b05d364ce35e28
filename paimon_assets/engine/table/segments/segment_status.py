"""The state of segments in the newest snapshot: overwritten, compacted, rolled back."""

from collections.abc import Collection, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Self

from paimon_assets.engine.codec.json.segment_json import SegmentList
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.scan.file_store_scan import FileStoreScan
from paimon_assets.engine.control.segments.segment_registry import is_live_in, resolve
from paimon_assets.engine.errors import AlreadyExistsError, InvalidInputError, NotFoundError
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.segments.segment import (
    Load,
    Segment,
    SegmentStatus,
    is_external,
    plain_path,
)

_SETTLED = (SegmentStatus.SUCCESS, SegmentStatus.MARKED_FOR_DELETE)
"""Which of the two a segment is the newest snapshot says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Newest:
    """The newest snapshot, and the names of its live files."""

    store: FileStore
    snapshot: Snapshot
    own: frozenset[str]
    foreign: frozenset[str]

    @classmethod
    def of(cls, store: FileStore) -> Self | None:
        """Look; None if there is no snapshot."""
        latest = store.snapshots.latest()
        if latest is None:
            return None
        names: dict[bool, set[str]] = {False: set(), True: set()}
        for entry in FileStoreScan(store).live_files(latest):
            is_others = is_external(store.schema.typed_options, entry.file)
            names[is_others].add(entry.file.file_name)
        return cls(
            store=store,
            snapshot=latest,
            own=frozenset(names[False]),
            foreign=frozenset(names[True]),
        )

    def segment(self, segment: Segment) -> Segment:
        """Return a segment with its status."""
        if segment.status not in _SETTLED:
            return segment
        if segment.is_visible_to_paimon:
            is_live = any(file.file_name in self.foreign for file in segment.files)
        else:
            is_live = is_live_in(self.store, segment, self.snapshot)
        return replace(segment, status=_SETTLED[0] if is_live else _SETTLED[1])

    def load(self, load: Load) -> Load:
        """Return a load with its status; what took in the rows of one that lives is not said."""
        if any(file.file_name in self.own for file in load.files):
            return replace(load, status=SegmentStatus.SUCCESS, compacted_into=None)
        is_compacted = load.compacted_into is not None
        status = SegmentStatus.COMPACTED if is_compacted else SegmentStatus.MARKED_FOR_DELETE
        return replace(load, status=status)


def segments_now(store: FileStore, segments: Iterable[Segment]) -> list[Segment]:
    """Return segments with the status that the newest snapshot gives them.

    Cost:
        The manifests of the newest snapshot.
    """
    # What is in progress comes first: its commit must not be newer than the newest snapshot.
    settled = resolve(store, segments)
    newest = _Newest.of(store) if settled else None
    return settled if newest is None else [newest.segment(segment) for segment in settled]


def all_now(store: FileStore, listed: SegmentList) -> list[Segment | Load]:
    """Return segments and loads by id, as `segments_now`.

    Args:
        store: The table.
        listed: With its loads; all snapshots in it must be older than this call.
    """
    settled = resolve(store, listed.segments)
    newest = _Newest.of(store) if settled or listed.loads else None
    loads = list(listed.loads)
    if newest is not None:
        settled = [newest.segment(segment) for segment in settled]
        loads = [newest.load(load) for load in loads]
    now: list[Segment | Load] = [*settled, *loads]
    return sorted(now, key=lambda item: item.id)


def external_paths(store: FileStore) -> frozenset[str]:
    """Return the plain paths of the newest snapshot's external files, in a registry or not."""
    latest = store.snapshots.latest()
    live = [] if latest is None else FileStoreScan(store).live_files(latest)
    options = store.schema.typed_options
    return frozenset(
        plain_path(entry.file.external_path or "")
        for entry in live
        if is_external(options, entry.file)
    )


def refuse_taken(
    store: FileStore, segments: Iterable[Segment], paths: AbstractSet[str], user: str
) -> None:
    """Refuse files that the command of another user has added.

    Raises:
        AlreadyExistsError: Names the segment.
    """
    for segment in segments_now(store, segments):
        is_taken = segment.status is SegmentStatus.SUCCESS and segment.commit_user != user
        if is_taken and not paths.isdisjoint(paths_of([segment])):
            raise AlreadyExistsError(
                "path already exists in table status file, can not add same segment path "
                f"repeatedly: another command added it as segment {segment.id} of table "
                f"{store.label}.",
                kind="segment-path-duplicate",
                details={"segment": segment.id},
            )


def is_in_vain(store: FileStore, segment: Segment, paths: AbstractSet[str]) -> bool:
    """Whether a command that is not committed began with files that are taken by now.

    It died, or will find that another was first.
    """
    if segment.status is not SegmentStatus.IN_PROGRESS or paths.isdisjoint(paths_of([segment])):
        return False
    [now] = resolve(store, [segment])
    return now.status is SegmentStatus.IN_PROGRESS


def paths_of(segments: Iterable[Segment]) -> set[str]:
    """Return the plain paths of the files of segments."""
    return {plain_path(segment.path_of(file)) for segment in segments for file in segment.files}


def check_folders(store: FileStore, ids: Collection[int], listed: Iterable[Segment | Load]) -> None:
    """Refuse to refresh loads: they have no folder.

    Raises:
        InvalidInputError: One of the ids is a load of the table's own.
    """
    for item in listed:
        if isinstance(item, Load) and item.id in ids:
            raise InvalidInputError(
                f"Segment {item.id} of table '{store.label}' is a load of the table's "
                "own, which has no folder to read anew; name segments that were imported.",
                kind="segment-own",
                details={"table": store.label, "segment": item.id},
            )


def check_ids(store: FileStore, ids: Collection[int], live: Iterable[Segment | Load]) -> None:
    """Check that all ids are of live segments.

    Raises:
        NotFoundError: One is not.
    """
    missing = sorted(set(ids) - {segment.id for segment in live})
    if missing:
        raise NotFoundError(
            f"Table '{store.label}' has no live segment {missing[0]}; show its segments.",
            kind="segment-not-found",
            details={"table": store.label, "segment": missing[0]},
        )
