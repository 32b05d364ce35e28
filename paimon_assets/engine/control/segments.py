"""Segments: the registry of external files that are part of a table, and their folders.

    <table>/segments/segments-<generation>.json      the newest one counts
    root ─▶ every file below it, but for hidden ones ─▶ by partition folder ─▶ partition values

Each change publishes the next generation if it is absent, so of two commands at once one plans
again. A few old generations stay for readers; older ones are emptied, and in the end deleted: a
writer whose old name is free again looks for newer ones after its publish, and plans again. The
registry is written before the snapshot: a command that dies between them leaves segments in
progress, and its snapshot, if there is one, settles them (`resolve`). An overwrite names itself at
the text segments that it takes out before it is published, so they go with its snapshot.
"""

import re
import uuid
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Self

from msgspec import Struct
from msgspec.structs import replace

from paimon_assets.engine import errors
from paimon_assets.engine.codec.json.segment_json import (
    SegmentList,
    segments_from_json,
    segments_to_json,
)
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.managers.numbered_files import read_or_none
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.fileio.opening import canonical_path
from paimon_assets.engine.spec.evolution.schema_change import SchemaChange, SetOption
from paimon_assets.engine.spec.metadata import snapshot as snap
from paimon_assets.engine.spec.metadata.manifest import ManifestEntry
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.paths import MAIN_BRANCH
from paimon_assets.engine.spec.schema.schema import BucketMode
from paimon_assets.engine.spec.segments.segment import (
    Segment,
    SegmentCommit,
    SegmentStatus,
    is_external,
    is_within,
    plain_path,
)
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.spec.words import printable

_DIRECTORY = "segments"
_PREFIX, _SUFFIX = "segments-", ".json"
_GENERATION = rf"{_PREFIX}([0-9]{{8}}|[1-9][0-9]{{8,17}}){re.escape(_SUFFIX)}"
_KEPT_GENERATIONS = 3
_KEPT_NAMES = 16
"""Generations whose names stay taken, emptied or not."""
_TRIES = 50

HOLD_TAG_PREFIX = "__segment_hold_"
"""Tags that keep other engines from deleting external files: `maintenance.removed_segments`."""


class SegmentRegistry(Value):
    """The registry of one table; without one, a table has no segments."""

    store: FileStore

    @property
    def directory(self) -> str:
        """Where its generations lie."""
        return f"{self.store.table_path}/{_DIRECTORY}"

    @property
    def is_kept(self) -> bool:
        """Whether a command ever changed it. Cost: one listing."""
        return bool(self._generations())

    def load(self) -> SegmentList:
        """Return the newest generation. Cost: one listing, and a read if there are segments."""
        return self._load()[1]

    def update(self, change: Callable[[SegmentList], SegmentList]) -> SegmentList:
        """Change the registry; concurrent changes are applied one after the other."""
        for _ in range(_TRIES):
            generation, listed = self._load()
            changed = change(listed)
            if changed == listed or self._publish(generation + 1, changed):
                return changed
        message = (
            f"Table '{self.store.label}': other commands changed its segments {_TRIES} times; try "
            "again."
        )
        raise errors.CommitConflictError(message, kind="segment-registry", table=self.store.label)

    def _load(self) -> tuple[int, SegmentList]:
        for _ in range(_TRIES):
            generations = self._generations()
            if not generations:
                return 0, SegmentList()
            newest = max(generations)
            path = self._path(newest)
            if data := read_or_none(self.store.file_io, path):  # else there are many newer ones
                return newest, _parse(data, path)
        raise errors.CommitConflictError(
            f"Table '{self.store.label}': its segments changed {_TRIES} times while being read.",
            kind="segment-registry",
        )

    def _generations(self) -> dict[int, int]:
        listed = self.store.file_io.list_directory(self.directory)
        return {
            int(found[1]): status.size
            for status in listed
            if (found := re.fullmatch(_GENERATION, status.name))
        }

    def _publish(self, generation: int, listed: SegmentList) -> bool:
        path, data = self._path(generation), segments_to_json(listed, writer=uuid.uuid4().hex)
        try:
            done = self.store.file_io.publish(path, data)
        except errors.CommitUnknownError:
            done = False
        if not done:  # a storage that repeats a call finds its own file in the way
            done = read_or_none(self.store.file_io, path) == data
        if not done:
            return False
        # A name as old as deleted ones was used and deleted before: no reader uses it. A change
        # with so many changes after it at once is made again, which changes nothing.
        sizes = self._generations()
        newest = max(sizes, default=generation)
        for number, size in sizes.items():
            if number <= newest - _KEPT_NAMES:
                self.store.file_io.delete_file(self._path(number))
            elif size and number <= newest - _KEPT_GENERATIONS:
                self.store.file_io.replace(self._path(number), b"")
        return generation > newest - _KEPT_NAMES

    def _path(self, generation: int) -> str:
        return f"{self.directory}/{_PREFIX}{generation:08d}{_SUFFIX}"


_parse = lru_cache(maxsize=4)(segments_from_json)
"""Each plan of a table with segments reads the same bytes."""


def may_have_segments(store: FileStore) -> bool:
    """Whether a table is of a kind that segments can be added to."""
    schema = store.schema
    return not schema.has_primary_key and schema.bucket_mode is BucketMode.BUCKET_UNAWARE


def resolve(store: FileStore, segments: Iterable[Segment]) -> list[Segment]:
    """Return segments with those in progress as they are: committed, or still not."""
    return [_resolve(store, segment) for segment in segments]


def _resolve(store: FileStore, segment: Segment) -> Segment:
    for user, number in segment.removers:
        overwrite = store.snapshots.find_commit(user, number, [snap.CommitKind.OVERWRITE])
        if overwrite is not None and not _is_reached(store, segment.removed, overwrite):
            return replace(_removed_by(_resolve_added(store, segment), overwrite), removers=())
    return _resolve_added(store, segment)


def _removed_by(segment: Segment, snapshot: snap.Snapshot) -> Segment:
    return replace(
        segment,
        status=SegmentStatus.MARKED_FOR_DELETE,
        removed=commit_of(snapshot),
        removed_ms=snapshot.time_millis,
    )


def _resolve_added(store: FileStore, segment: Segment) -> Segment:
    if segment.status is not SegmentStatus.IN_PROGRESS:
        return segment
    snapshot = store.snapshots.find_commit(segment.commit_user, snap.BATCH_COMMIT_IDENTIFIER)
    if snapshot is None:
        return segment
    return replace(
        segment,
        status=SegmentStatus.SUCCESS,
        added=commit_of(snapshot),
        load_end_ms=snapshot.time_millis,
    )


def settle_all(store: FileStore, segments: Iterable[Segment]) -> list[Segment]:
    """Return segments whose state no longer depends on snapshots that are about to expire.

    Commits that a rollback undid were never made; a commit without its snapshot counts as made.
    """
    resolved = resolve(store, segments)
    newest = store.snapshots.latest()
    if newest is None:
        return resolved
    stay = (
        segment
        for segment in resolved
        if segment.added is None
        or segment.is_visible_to_paimon
        or _is_reached(store, segment.added, newest)
    )
    return [
        segment
        if segment.removed is None or _is_reached(store, segment.removed, newest)
        else replace(segment, status=SegmentStatus.SUCCESS, removed=None, removed_ms=None)
        for segment in stay
    ]


def commit_of(snapshot: snap.Snapshot) -> SegmentCommit:
    """Return the identity of a snapshot: its id and delta manifest list."""
    return SegmentCommit(snapshot_id=snapshot.id, delta_manifest_list=snapshot.delta_manifest_list)


def is_live_in(store: FileStore, segment: Segment, snapshot: snap.Snapshot) -> bool:
    """Whether a snapshot has a segment that is in the registry alone."""
    return _is_reached(store, segment.added, snapshot) and not _is_reached(
        store, segment.removed, snapshot
    )


def is_refreshed_between(
    store: FileStore, segment: Segment, start: snap.Snapshot | None, end: snap.Snapshot
) -> bool:
    """Whether a segment of `start` was refreshed since, up to `end`."""
    return (
        start is not None
        and is_live_in(store, segment, start)
        and not _is_reached(store, segment.refreshed, start)
        and _is_reached(store, segment.refreshed, end)
    )


def _is_reached(store: FileStore, commit: SegmentCommit | None, snapshot: snap.Snapshot) -> bool:
    """Whether a snapshot is after a commit that was not rolled back."""
    if commit is None or commit.snapshot_id > snapshot.id:
        return False
    if commit.snapshot_id != snapshot.id:
        earlier = store.snapshots.snapshot_or_none(commit.snapshot_id)
        if earlier is None:
            return store.paths.branch == MAIN_BRANCH or _is_before_fork(store, commit)
        snapshot = earlier
    return snapshot.delta_manifest_list == commit.delta_manifest_list


def _main_of(store: FileStore) -> FileStore:
    is_main = store.paths.branch == MAIN_BRANCH
    return store if is_main else store.with_options({opt.BRANCH.key: MAIN_BRANCH})


def _is_before_fork(branch: FileStore, commit: SegmentCommit) -> bool:
    """Whether main and a branch both hold a snapshot or tag that has a commit."""
    main = _main_of(branch)
    earliest = branch.snapshots.earliest_id()
    first = None if earliest is None else branch.snapshots.snapshot_or_none(earliest)
    points = [tag.snapshot for tag in branch.tags.list()]
    points += [] if first is None else [first]
    held = {tag.snapshot.delta_manifest_list for tag in main.tags.list()}
    for point in points:
        same = main.snapshots.snapshot_or_none(point.id)
        if same is not None:
            held.add(same.delta_manifest_list)
        if point.delta_manifest_list in held and _is_reached(main, commit, point):
            return True
    return False


def external_entries(store: FileStore, entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    options = store.schema.typed_options
    return [entry for entry in entries if is_external(options, entry.file)]


def hold_external(
    store: FileStore, snapshot: snap.Snapshot | None, entries: Iterable[ManifestEntry]
) -> None:
    """Tag a snapshot before a commit takes external files out of the table.

    The expiration of other engines deletes the files of such a commit; it spares those of a tag.
    Deleting the tag with another engine deletes the files, so its name warns of that.
    """
    external = external_entries(store, entries)
    if snapshot is None or not external:
        return
    parts = external[0].file.file_name.split("-")
    number = parts[1] if len(parts) > 2 and parts[0] == "segment" else "x"
    # A tag of this name holds the same snapshot: names carry its id.
    store.tags.hold(f"{HOLD_TAG_PREFIX}{number}_{snapshot.id}", snapshot)


def check_row_changes(store: FileStore, entries: Iterable[ManifestEntry], operation: str) -> None:
    """Refuse UPDATE and DELETE of rows while a live segment has another format than the table."""
    own = store.schema.typed_options.get(opt.FILE_FORMAT)
    formats = {entry.file.file_format for entry in external_entries(store, entries)}
    formats |= {segment.format for segment in live_text_segments(store, store.snapshots.latest())}
    foreign = sorted(formats - {own})
    if foreign:
        raise errors.UnsupportedFeatureError(
            f"Unsupported {operation} operation on table containing mixed format segments: "
            f"{store.label} is {own}, with segments of {', '.join(foreign)}; delete these first.",
            kind="segment-mixed-formats",
            table=store.label,
            format=foreign[0],
        )


def check_own_folders(store: FileStore, changes: Iterable[SchemaChange]) -> None:
    """Refuse to make a folder the table's own that holds, or is inside, one of its segments."""
    options = {change.key: change.value for change in changes if isinstance(change, SetOption)}
    if opt.DATA_FILE_EXTERNAL_PATHS.key not in options:
        return
    own = [plain_path(root) for root in opt.Options(options).get(opt.DATA_FILE_EXTERNAL_PATHS)]
    main = replace(store, schema=store.schema.with_dynamic_options({opt.BRANCH.key: MAIN_BRANCH}))
    for segment in SegmentRegistry(store=main).load().segments:
        folder = plain_path(segment.folder)
        for root in own:
            if segment.removed is None and (is_within(folder, root) or is_within(root, folder)):
                raise errors.InvalidInputError(
                    f"Table '{store.label}': '{root}' cannot become a folder of its own files: "
                    f"segment {segment.id} is in '{segment.folder}' and has another owner. "
                    "Name another folder, or delete the segment first.",
                    kind="segment-path-owned",
                    table=store.label,
                    segment=segment.id,
                    path=root,
                )


def live_text_segments(store: FileStore, snapshot: snap.Snapshot | None) -> list[Segment]:
    """Return the segments of a snapshot that stand in the registry alone, by id."""
    if snapshot is None:
        return []
    segments = registered_text_segments(store)
    return [segment for segment in segments if is_live_in(store, segment, snapshot)]


def mark_removal(store: FileStore, segments: Iterable[Segment], remover: tuple[str, int]) -> None:
    """List text segments as taken out by a commit that is about to be published."""
    ids = {segment.id for segment in segments}

    def mark(segment: Segment) -> Segment:
        if segment.id not in ids or remover in segment.removers:
            return segment
        return replace(segment, removers=(*segment.removers, remover))

    _change(store, mark)


def settle_removal(store: FileStore, snapshot: snap.Snapshot) -> None:
    """List the segments as removed that a published overwrite has named."""
    remover = (str(snapshot.commit_user), snapshot.commit_identifier)

    def settle(segment: Segment) -> Segment:
        if remover not in segment.removers:
            return segment
        left = tuple(other for other in segment.removers if other != remover)
        return replace(_removed_by(_resolve_added(store, segment), snapshot), removers=left)

    _change(store, settle)


def _change(store: FileStore, change: Callable[[Segment], Segment]) -> None:
    SegmentRegistry(store=store).update(
        lambda listed: replace(listed, segments=tuple(map(change, listed.segments)))
    )


def registered_text_segments(store: FileStore) -> list[Segment]:
    """Return the segments of text formats that a table or one of its branches may have."""
    if not may_have_segments(store):
        return []
    listed = SegmentRegistry(store=store).load().segments
    texts = [segment for segment in listed if not segment.is_visible_to_paimon]
    return resolve(_main_of(store), texts) if texts else []


class SegmentRoots(Struct, frozen=True):
    """The folders, in their one spelling; without any, nothing may be imported."""

    folders: tuple[str, ...]

    @classmethod
    def of(cls, roots: Iterable[str]) -> Self:
        folders = tuple(roots)
        if not all(root.strip() for root in folders):
            raise errors.InvalidInputError(
                f"A folder that segments may come from is blank: {list(folders)}; name it in full.",
                kind="segment-roots",
            )
        return cls(tuple(plain_path(canonical_path(root)) for root in folders))

    def check(self, path: str) -> None:
        place = plain_path(canonical_path(path))
        if any(is_within(place, folder) for folder in self.folders):
            return
        leads = "" if place == plain_path(path) else f" leads to '{place}', which"
        raise errors.InvalidInputError(
            f"'{path}'{leads} is in none of the folders that segments may come from "
            f"({', '.join(self.folders) or 'there are none'}). Name a folder below one of them, or "
            "have its folder added to that list.",
            kind="segment-path-outside",
            path=path,
            roots=", ".join(self.folders),
        )


_LISTERS = 16
_DEEPEST = 64
_OTHER_TABLES = {
    "_delta_log": "a Delta",
    r"\.hoodie": "a Hudi",
    r"(base|(delete_)?delta_\d{7})_\d{7}(_\d{4})?(_v\d+)?": "a Hive ACID",
}
"""Name of a folder → the kind of table that it is in."""


class FolderFile(Value, order=True):
    """One file below a folder; two with other tags may be equal, as ledgers hold no tags."""

    name: str
    """Path below the folder; it identifies the file."""
    size: int
    modified_ms: int
    """Epoch milliseconds; 0 if the storage does not say."""
    tag: str = ""
    """As `FileStatus.tag`."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FolderFile) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def _identity(self) -> tuple[str, int, int]:
        return self.name, self.size, self.modified_ms

    @property
    def is_text(self) -> bool:
        """Whether the name is UTF-8; files with other bytes in their names are not read."""
        return self.display_name == self.name

    @property
    def display_name(self) -> str:
        """The name as people see it."""
        return printable(self.name)


def check_exists(file_io: FileIO, root: str) -> None:
    """Raise `NotFoundError` if there is no such folder."""
    if not file_io.exists(root):
        raise errors.NotFoundError(
            f"The segment path '{root}' does not exist.", kind="segment-path-not-found", path=root
        )


def walk(file_io: FileIO, root: str, roots: SegmentRoots | None = None) -> list[FolderFile]:
    """Return every file below a folder, by name; names that begin with `_` or `.` are hidden.

    Links to folders are followed, but each folder is read once. Cost: one listing a folder, some at
    once; with `roots`, local links are looked for file by file.
    """
    check_exists(file_io, root)
    found: list[FolderFile] = []
    folders, visited = [root], set[str]()
    with ThreadPoolExecutor(_LISTERS, thread_name_prefix="walk-segment") as pool:
        for _ in range(_DEEPEST):
            if not folders:
                break
            listings = pool.map(file_io.list_directory, folders)
            statuses = [status for listing in listings for status in listing]
            for status in statuses:
                kinds = (
                    it for name, it in _OTHER_TABLES.items() if re.fullmatch(name, status.name)
                )
                if status.is_directory and (kind := next(kinds, None)):
                    raise errors.UnsupportedFeatureError(
                        f"'{root}' holds {kind} table ('{status.path}'), whose log decides which "
                        "of its files still count; write the rows of that table as plain files.",
                        kind="segment-other-table",
                        path=root,
                    )
            shown = [status for status in statuses if not status.name.startswith(("_", "."))]
            folders = [status.path for status in shown if status.is_directory]
            if file_io.spec.scheme == "file":
                folders = [path for path in folders if _is_new(path, root, visited)]
            found += [
                FolderFile(
                    name=plain_path(status.path).removeprefix(plain_path(root)).lstrip("/"),
                    size=status.size,
                    modified_ms=status.modified_ms,
                    tag=status.tag,
                )
                for status in shown
                if not (status.is_directory or status.name.endswith(".crc"))
            ]
        else:
            message = f"'{root}' has folders more than {_DEEPEST} deep; name one further down."
            raise errors.InvalidInputError(message, kind="segment-path-depth")
    files = sorted(found, key=lambda file: file.name)
    if roots is not None:
        for file in files:
            roots.check(f"{root}/{file.name}")
    return files


def _is_new(path: str, root: str, visited: set[str]) -> bool:
    """Whether a local folder is to be read at this path; folders behind links are remembered."""
    folder, real_root = canonical_path(path), canonical_path(root)
    if folder == real_root + path[len(root) :]:
        return True
    below = folder[len(real_root) :]
    if is_within(folder, real_root) and "/_" not in below and "/." not in below:
        return False
    is_new = folder not in visited
    visited.add(folder)
    return is_new


def spec_text(spec: Mapping[str, str]) -> str:
    """Return a partition as SHOW SEGMENTS writes it, without the braces."""
    return ",".join(f"{name}={value}" for name, value in spec.items())
