"""Segments of a table: add, show, delete, clean and refresh files that somebody else owns.

    registry: in progress ─▶ one commit for the whole command ─▶ registry: success

A command that dies on the way leaves either both or neither: whether its snapshot exists decides.
No operation here, or anywhere in this package, deletes or writes a foreign byte.
"""

import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from paimon_assets.engine.codec.segment_json import SegmentList
from paimon_assets.engine.contract.commit_message import CommitMessage, DataIncrement
from paimon_assets.engine.contract.executor import Executor
from paimon_assets.engine.contract.footer_task import FileFooter
from paimon_assets.engine.control.clock import Clock, SystemClock
from paimon_assets.engine.control.commit.file_store_commit import FileStoreCommit
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.scan.file_store_scan import FileStoreScan
from paimon_assets.engine.control.segment_folder import walk
from paimon_assets.engine.control.segment_registry import (
    SegmentRegistry,
    commit_of,
    foreign_entries,
    is_live_in,
    resolved,
)
from paimon_assets.engine.control.segment_roots import SegmentRoots
from paimon_assets.engine.errors import (
    AlreadyExistsError,
    CommitConflictError,
    CommitUnknownError,
    NotFoundError,
    PaimonError,
)
from paimon_assets.engine.spec.data_file import DataFileMeta
from paimon_assets.engine.spec.manifest import ManifestEntry
from paimon_assets.engine.spec.options import WRITE_ONLY
from paimon_assets.engine.spec.schema_change import SetOption
from paimon_assets.engine.spec.segment import (
    SEGMENT_IDS_PROPERTY,
    Segment,
    SegmentStatus,
    is_within,
    plain_path,
)
from paimon_assets.engine.spec.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Snapshot
from paimon_assets.engine.table.segment_files import (
    data_file,
    file_message,
    files_of,
    segment_files,
    wall_clock_ms,
)
from paimon_assets.engine.table.segment_import import (
    ImportPlan,
    SegmentSource,
    differences_of,
    plan_import,
    read_footers,
    schema_problem,
)

ABANDONED_MS = 60 * 60 * 1000
"""A command that has been in progress for so long is taken for dead."""
_SETTLED = (SegmentStatus.SUCCESS, SegmentStatus.MARKED_FOR_DELETE)
"""Which of the two a segment is the newest snapshot says: others may overwrite or roll back."""
RETENTION_MS = 7 * 24 * 60 * 60 * 1000
"""How long CLEAN keeps the rows of deleted segments, as CarbonData's trash does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentOutcome:
    """What a command did."""

    segments: tuple[Segment, ...]
    """The segments it added, took away or read anew."""
    snapshot: Snapshot | None
    """What it committed; None if there was nothing to commit."""
    was_already_committed: bool = False
    """This user had committed before: nothing was done now."""


@dataclass(frozen=True, kw_only=True)
class Segments:
    """The segments of one table."""

    store: FileStore
    clock: Clock = field(default_factory=SystemClock)
    roots: SegmentRoots | None = None
    """Where `add` and `refresh` take files from, if not from anywhere."""

    @property
    def registry(self) -> SegmentRegistry:
        """Where they are listed."""
        return SegmentRegistry(store=self.store)

    def listed(self) -> list[Segment]:
        """Return all segments by id, as they are now: one whose files others removed is deleted.

        Cost:
            The registry, and the manifests of the newest snapshot.
        """
        return self._as_they_are(self.registry.load().segments)

    def live(self) -> list[Segment]:
        """Return the segments whose rows a read returns, by id."""
        return [segment for segment in self.listed() if segment.status is SegmentStatus.SUCCESS]

    def plan(self, source: SegmentSource, executor: Executor[Any]) -> ImportPlan:
        """Return what `add` would do: files, inferred columns, partitions, problem."""
        held = self._manifest_paths()
        return plan_import(self.store, source, self.live(), executor, held=held, roots=self.roots)

    def add(
        self,
        source: SegmentSource,
        executor: Executor[Any],
        *,
        commit_user: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> SegmentOutcome:
        """Make the files of a folder part of the table where they lie, in one snapshot.

        One segment for each partition folder. No byte of a file is copied, moved or written, and
        none but its footer is read (text formats are read to check and count their rows).

        Args:
            source: The folder, its format, and the partition option.
            executor: Who reads the footers.
            commit_user: Adding again under one name finds the first time.
            properties: Stored in the snapshot.

        Raises:
            InvalidInputError: A rule of ADD SEGMENT is broken; nothing was committed. Also its
                kinds NotFoundError and AlreadyExistsError.
            UnsupportedFeatureError: The table, storage or format can have no segments.
            FormatError: A file is not of the format.
            CommitUnknownError: As for every commit.
        """
        user = commit_user or f"segment-add-{uuid.uuid4()}"
        earlier = self._of_command(user)
        if earlier is not None:
            return earlier
        began_ms = self.clock.now_millis()
        plan = self.plan(source, executor)
        if plan.problem is not None:
            raise plan.problem
        if not plan.folders:
            return SegmentOutcome(segments=(), snapshot=None)
        begun = self._begin(plan, user, began_ms)
        try:
            if any(segment.is_visible_to_paimon for segment in begun):
                self._keep_writers_from_compacting()
            snapshot = self._commit(
                self._additions(begun, plan.footers, plan.root), (), begun, user, properties
            )
        except CommitUnknownError:
            raise
        except PaimonError:
            self._change(lambda item: None if item.commit_user == user else item)
            raise
        done = self._finish(user, snapshot)
        return SegmentOutcome(segments=tuple(done), snapshot=snapshot)

    def delete(
        self,
        ids: Collection[int] = (),
        *,
        before_ms: int | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> SegmentOutcome:
        """Take segments out of the table, in one snapshot; their files stay as they are.

        Args:
            ids: Which.
            before_ms: Also those that were added before this epoch millisecond.
            properties: Stored in the snapshot.

        Raises:
            NotFoundError: An id is none of a live segment's; nothing was committed.
        """
        live = self.live()
        self._check_ids(ids, live)
        chosen = [
            segment
            for segment in live
            if segment.id in ids or (before_ms is not None and segment.load_start_ms < before_ms)
        ]
        if not chosen:
            return SegmentOutcome(segments=(), snapshot=None)
        user = f"segment-delete-{uuid.uuid4()}"
        snapshot = self._commit((), self._entries_of(chosen), chosen, user, properties)
        numbers = {segment.id for segment in chosen}

        def marked(segment: Segment) -> Segment:
            if segment.id not in numbers or segment.status is SegmentStatus.MARKED_FOR_DELETE:
                return segment
            now = resolved(self.store, [segment])[0]
            return replace(
                now,
                status=SegmentStatus.MARKED_FOR_DELETE,
                removed=commit_of(snapshot),
                removed_ms=snapshot.time_millis,
            )

        changed = self._change(marked)
        return SegmentOutcome(
            segments=tuple(item for item in changed if item.id in numbers), snapshot=snapshot
        )

    def clean(self, *, retention_ms: int = RETENTION_MS, force: bool = False) -> list[Segment]:
        """Forget segments that are deleted or failed; only metadata goes, never a foreign byte.

        Snapshots that had a segment of a text format no longer find its rows, and a rollback to
        one that had another segment finds its rows, but not its id.

        Args:
            retention_ms: Keep what was deleted less than this ago.
            force: Forget all of them.

        Returns:
            What was forgotten.
        """
        limit = self.clock.now_millis() - retention_ms
        now = {segment.id: segment for segment in self.listed()}

        def is_dead(segment: Segment) -> bool:
            current = now.get(segment.id, segment)
            if current.status is SegmentStatus.IN_PROGRESS:
                return self._is_abandoned(current)
            if current.status is SegmentStatus.SUCCESS:
                return False
            ended = current.removed_ms or current.load_end_ms or current.load_start_ms
            return force or ended < limit

        gone = [segment for segment in now.values() if is_dead(segment)]
        self._change(lambda item: None if is_dead(item) else item)
        return gone

    def refresh(
        self, ids: Collection[int], executor: Executor[Any], *, commit_user: str | None = None
    ) -> SegmentOutcome:
        """Take segments as their folders are now, in one snapshot: files change, come and go.

        Args:
            ids: Of live segments; empty means all of them.
            executor: Who reads the footers.
            commit_user: Who commits.

        Raises:
            NotFoundError: An id is none of a live segment's, or a folder is gone or empty.
            InvalidInputError: A file does not have the table's columns; nothing was committed.
        """
        live = self.live()
        self._check_ids(ids, live)
        chosen = [segment for segment in live if not ids or segment.id in ids]
        renewed: list[Segment] = []
        footers: dict[str, FileFooter] = {}
        for segment in chosen:
            found = self._renewed(segment, live, executor, footers)
            if found is not None:
                renewed.append(found)
        if not renewed:
            return SegmentOutcome(segments=(), snapshot=None)
        numbers = {segment.id: segment for segment in renewed}
        before = [segment for segment in chosen if segment.id in numbers]
        user = commit_user or f"segment-refresh-{uuid.uuid4()}"
        added = [message for item in renewed for message in self._messages(item, footers)]
        snapshot = self._commit(added, self._entries_of(before), renewed, user, None)
        self._change(lambda item: numbers.get(item.id, item))
        return SegmentOutcome(segments=tuple(renewed), snapshot=snapshot)

    def _renewed(
        self,
        segment: Segment,
        live: Iterable[Segment],
        executor: Executor[Any],
        footers: dict[str, FileFooter],
    ) -> Segment | None:
        """Return a segment as its folder is now, None if nothing changed."""
        others = {
            plain_path(other.path_of(file))
            for other in live
            if other.id != segment.id and is_within(other.folder, segment.folder)
            for file in other.files
        }
        base = plain_path(segment.folder)
        files = [
            file
            for file in walk(self.store.file_io, segment.folder, self.roots)
            if f"{base}/{file.name}" not in others
        ]
        if not files:
            raise NotFoundError(
                f"'{segment.folder}' of segment {segment.id} holds no file any more; delete the "
                "segment instead.",
                kind="segment-no-data",
                details={"segment": segment.id},
            )
        known = [(file.name, file.size, file.modified_ms) for file in segment.files]
        if known == [(file.name, file.size, file.modified_ms) for file in files]:
            return None
        # The files keep the names that columns had then, whatever they are called now.
        store = self.store.with_schema(self.store.schemas.schema(segment.schema_id))
        found = read_footers(store, segment.folder, segment.format, files, executor)
        differences = differences_of(store, files, found)
        if differences:
            raise schema_problem(store, segment.folder, differences, found)
        footers.update({f"{base}/{name}": footer for name, footer in found.items()})
        listed = segment_files(segment.id, segment.format, files, files, found)
        return replace(segment, files=listed)

    def _begin(self, plan: ImportPlan, user: str, began_ms: int) -> list[Segment]:
        """Enter the plan's segments as in progress; ids are given here."""
        source = plan.source
        name = source.format.strip().lower()
        paths = {f"{plain_path(plan.root)}/{file.name}" for file in plan.files}

        def entered(listed: SegmentList) -> SegmentList:
            kept = [item for item in listed.segments if item.commit_user != user]
            self._refuse_concurrent(kept, paths)
            added = [
                Segment(
                    id=listed.next_id + number,
                    status=SegmentStatus.IN_PROGRESS,
                    path=plan.root,
                    folder=f"{plan.root}/{folder.name}" if folder.name else plan.root,
                    format=name,
                    partition=folder.partition,
                    partition_text=folder.text,
                    files=files_of(listed.next_id + number, name, folder, plan.footers),
                    schema_id=self.store.schema.id,
                    commit_user=user,
                    load_start_ms=began_ms,
                    options=source.options,
                )
                for number, folder in enumerate(plan.folders)
            ]
            return SegmentList(next_id=listed.next_id + len(added), segments=(*kept, *added))

        listed = self.registry.update(entered)
        return [segment for segment in listed.segments if segment.commit_user == user]

    def _refuse_concurrent(self, segments: Iterable[Segment], paths: set[str]) -> None:
        """Refuse files that another command took, or is taking, since the plan was made."""
        for segment in self._as_they_are(segments):
            busy = segment.status is SegmentStatus.IN_PROGRESS and not self._is_abandoned(segment)
            if not busy and segment.status is not SegmentStatus.SUCCESS:
                continue
            if any(plain_path(segment.path_of(file)) in paths for file in segment.files):
                raise (CommitConflictError if busy else AlreadyExistsError)(
                    "path already exists in table status file, can not add same segment path "
                    f"repeatedly: another command {'is adding' if busy else 'added'} it as segment "
                    f"{segment.id} of table {self.store.label}.",
                    kind="segment-path-duplicate",
                    details={"segment": segment.id},
                )

    def _is_abandoned(self, segment: Segment) -> bool:
        return segment.load_start_ms < self.clock.now_millis() - ABANDONED_MS

    def _finish(self, user: str, snapshot: Snapshot) -> list[Segment]:
        def done(segment: Segment) -> Segment:
            if segment.commit_user != user:
                return segment
            return replace(
                segment,
                status=SegmentStatus.SUCCESS,
                added=commit_of(snapshot),
                load_end_ms=max(snapshot.time_millis, segment.load_start_ms),
            )

        return [item for item in self._change(done) if item.commit_user == user]

    def _of_command(self, user: str) -> SegmentOutcome | None:
        """Return what a command of this user did before, if it was committed."""
        snapshot = self.store.snapshots.find_commit(user, BATCH_COMMIT_IDENTIFIER)
        if snapshot is None:
            return None
        done = self._finish(user, snapshot)
        return SegmentOutcome(segments=tuple(done), snapshot=snapshot, was_already_committed=True)

    def _as_they_are(self, segments: Iterable[Segment]) -> list[Segment]:
        """Return segments with the status that the newest snapshot gives them."""
        listed = resolved(self.store, segments)
        latest = self.store.snapshots.latest() if listed else None
        if latest is None:
            return listed
        live = FileStoreScan(self.store).live_files(latest)
        names = {entry.file.file_name for entry in foreign_entries(self.store, live)}

        def is_live(segment: Segment) -> bool:
            if not segment.is_visible_to_paimon:
                return is_live_in(self.store, segment, latest)
            return any(file.file_name in names for file in segment.files)

        return [
            segment
            if segment.status not in _SETTLED
            else replace(
                segment,
                status=_SETTLED[0] if is_live(segment) else SegmentStatus.MARKED_FOR_DELETE,
            )
            for segment in listed
        ]

    def _manifest_paths(self) -> frozenset[str]:
        """Return the foreign files of the newest snapshot, known to the registry or not."""
        latest = self.store.snapshots.latest()
        live = [] if latest is None else FileStoreScan(self.store).live_files(latest)
        foreign = foreign_entries(self.store, live)
        return frozenset(plain_path(entry.file.external_path or "") for entry in foreign)

    def _check_ids(self, ids: Collection[int], live: Iterable[Segment]) -> None:
        missing = sorted(set(ids) - {segment.id for segment in live})
        if missing:
            raise NotFoundError(
                f"Table '{self.store.label}' has no live segment {missing[0]}; show its segments.",
                kind="segment-not-found",
                details={"table": self.store.label, "segment": missing[0]},
            )

    def _keep_writers_from_compacting(self) -> None:
        """Tell other engines' writers to compact nothing: they would delete foreign files later."""
        schemas = self.store.schemas
        newest = schemas.latest() or self.store.schema
        if not newest.typed_options.has(WRITE_ONLY):
            change = SetOption(key=WRITE_ONLY.key, value="true")
            schemas.commit_changes([change], time_millis=self.clock.now_millis())

    def _additions(
        self, segments: Iterable[Segment], footers: Mapping[str, FileFooter], root: str
    ) -> list[CommitMessage]:
        base = plain_path(root)
        by_path = {f"{base}/{name}": footer for name, footer in footers.items()}
        return [message for item in segments for message in self._messages(item, by_path)]

    def _messages(self, segment: Segment, footers: Mapping[str, FileFooter]) -> list[CommitMessage]:
        """Return what makes a segment's files live; nothing for text formats."""
        if not segment.is_visible_to_paimon:
            return []
        created = wall_clock_ms(self.clock.now_millis())
        new_files = tuple(
            data_file(segment, file, footers[plain_path(segment.path_of(file))], created)
            for file in segment.files
        )
        return [file_message(segment.partition, DataIncrement(new_files=new_files))]

    def _entries_of(self, segments: Iterable[Segment]) -> list[ManifestEntry]:
        """Return the live entries of some segments."""
        latest = self.store.snapshots.latest()
        if latest is None:
            return []
        names = {file.file_name for segment in segments for file in segment.files}
        live = FileStoreScan(self.store).live_files(latest)
        return [entry for entry in live if entry.file.file_name in names]

    def _commit(
        self,
        added: Sequence[CommitMessage],
        removed: Iterable[ManifestEntry],
        segments: Iterable[Segment],
        user: str,
        properties: Mapping[str, str] | None,
    ) -> Snapshot:
        """Commit files that come and go; without either, a snapshot that marks the moment."""
        by_partition: dict[bytes, list[DataFileMeta]] = defaultdict(list)
        for entry in removed:
            by_partition[entry.partition].append(entry.file)
        deletions = [
            file_message(partition, DataIncrement(deleted_files=tuple(files)))
            for partition, files in by_partition.items()
        ]
        ids = ",".join(str(segment.id) for segment in segments)
        return FileStoreCommit(self.store, clock=self.clock).commit(
            [*deletions, *added],
            commit_user=user,
            commit_identifier=BATCH_COMMIT_IDENTIFIER,
            kind=CommitKind.OVERWRITE if deletions else CommitKind.APPEND,
            properties={**(properties or {}), SEGMENT_IDS_PROPERTY: ids},
        )

    def _change(self, change: Callable[[Segment], Segment | None]) -> list[Segment]:
        """Change or forget segments in the registry."""

        def changed(listed: SegmentList) -> SegmentList:
            kept = (change(segment) for segment in listed.segments)
            return replace(listed, segments=tuple(item for item in kept if item is not None))

        return [*self.registry.update(changed).segments]
