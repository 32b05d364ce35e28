"""Segments of a table: add, show, delete, clean and refresh files that somebody else owns.

    registry: in progress ─▶ one commit for the whole command ─▶ registry: success

A command that dies on the way leaves either both or neither: whether its snapshot exists decides.
No operation here, or anywhere in this package, deletes or writes a foreign byte.

What the table's own snapshots brought is listed along with them (`Load`). The first command that
changes segments fixes the numbers of loads; until then they move up when snapshots expire.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from paimon_assets.engine.codec.json.segment_json import SegmentList
from paimon_assets.engine.contract.commit_message import CommitMessage
from paimon_assets.engine.contract.executor import Executor
from paimon_assets.engine.contract.tasks.footer_task import FileFooter
from paimon_assets.engine.control.clock import Clock, SystemClock
from paimon_assets.engine.control.commit.abort import undone_on_sure_failure
from paimon_assets.engine.control.commit.file_store_commit import Condition, FileStoreCommit
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.maintenance.past_segments import readable_segments
from paimon_assets.engine.control.managers.commit_history import NewUser
from paimon_assets.engine.control.scan.segment_loads import with_loads
from paimon_assets.engine.control.segments.segment_folder import walk
from paimon_assets.engine.control.segments.segment_registry import (
    SegmentRegistry,
    commit_of,
    resolve,
)
from paimon_assets.engine.control.segments.segment_roots import SegmentRoots
from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.errors import NotFoundError, UnsupportedFeatureError
from paimon_assets.engine.spec.evolution.schema_change import SetOption
from paimon_assets.engine.spec.metadata.snapshot import (
    BATCH_COMMIT_IDENTIFIER,
    CommitKind,
    Snapshot,
)
from paimon_assets.engine.spec.options.all_options import WRITE_ONLY
from paimon_assets.engine.spec.paths import MAIN_BRANCH
from paimon_assets.engine.spec.segments.segment import (
    RETENTION_MS,
    SEGMENT_IDS_PROPERTY,
    Load,
    Segment,
    SegmentStatus,
    is_within,
    plain_path,
)
from paimon_assets.engine.table.segments.segment_commit import (
    additions,
    check_loads_deletable,
    removals,
)
from paimon_assets.engine.table.segments.segment_import import (
    ImportPlan,
    SegmentSource,
    differences_of,
    files_of,
    plan_import,
    read_footers,
    schema_problem,
    segment_files,
)
from paimon_assets.engine.table.segments.segment_status import (
    all_now,
    check_folders,
    check_ids,
    foreign_paths,
    is_in_vain,
    paths_of,
    refuse_taken,
    segments_now,
)

ABANDONED_MS = 60 * 60 * 1000
"""`clean` forgets a command that has been in progress for so long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentOutcome:
    """The outcome of a command."""

    segments: tuple[Segment | Load, ...]
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

    def listed(self) -> list[Segment | Load]:
        """Return all segments and loads by id; one whose files others removed shows as gone.

        Raises:
            FormatError, StorageError: Metadata is damaged, or the storage failed.

        Cost:
            The registry, the manifests of the newest snapshot, and the delta manifests of those
            that came since the registry last changed: of all snapshots where there is none.
        """
        return all_now(self.store, with_loads(self.store, self.registry.load()))

    def live(self) -> list[Segment]:
        """Return the segments of others whose rows a read returns, by id.

        Raises:
            FormatError, StorageError: Metadata is damaged, or the storage failed.

        Cost: the registry, and the manifests of the newest snapshot.
        """
        now = segments_now(self.store, self.registry.load().segments)
        return [segment for segment in now if segment.status is SegmentStatus.SUCCESS]

    def plan(self, source: SegmentSource, executor: Executor[Any] | None = None) -> ImportPlan:
        """Return what `add` would do: files, inferred columns, partitions, problem.

        Raises:
            PaimonError: As `segment_import.plan_import`; what else `add` would raise is `problem`.
        """
        return plan_import(
            self.store,
            source,
            self.live(),
            executor or EmbeddedExecutor(),
            held=foreign_paths(self.store),
            roots=self.roots,
        )

    def add(
        self,
        source: SegmentSource,
        executor: Executor[Any] | None = None,
        *,
        commit_user: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> SegmentOutcome:
        """Make the files of a folder part of the table where they lie, in one snapshot.

        One segment for each partition folder. No byte of a file is copied, moved or written, and
        none but its footer is read (text formats are read to check and count their rows).

        Args:
            source: The folder, its format, and the partition option.
            executor: Who reads the footers; this process by default.
            commit_user: Adding again under one name finds the first time.
            properties: Stored in the snapshot.

        Raises:
            InvalidInputError: A rule of ADD SEGMENT is broken; nothing was committed. Also its
                kinds NotFoundError and AlreadyExistsError.
            UnsupportedFeatureError: The table, storage or format can have no segments.
            FormatError: A file is not of the format.
            CommitConflictError, CommitUnknownError: As for every commit.
        """
        user = commit_user or NewUser("segment-add-")
        looked_at = self.store.snapshots.latest()
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
        with undone_on_sure_failure(
            lambda: self._change(lambda item: None if item.commit_user == user else item)
        ):
            if any(segment.is_visible_to_paimon for segment in begun):
                self._keep_writers_from_compacting()
            base = plain_path(plan.root)
            footers = {f"{base}/{name}": footer for name, footer in plan.footers.items()}
            added = additions(begun, footers, self.clock)
            paths = paths_of(begun)

            def none_was_faster(latest: Snapshot | None) -> None:
                if latest != looked_at:
                    refuse_taken(self.store, self.registry.load().segments, paths, user)

            snapshot = self._commit(added, begun, user, properties, none_was_faster)
        done = self._finish(user, snapshot)
        return SegmentOutcome(segments=tuple(done), snapshot=snapshot)

    def delete(
        self,
        ids: Collection[int] = (),
        *,
        before_ms: int | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> SegmentOutcome:
        """Take segments out of the table, in one snapshot; files of others stay as they are.

        Args:
            ids: Which; loads of the table's own as well, whose files go when snapshots expire.
            before_ms: Also the segments of others that were added before this epoch millisecond;
                never a load of the table's own.
            properties: Stored in the snapshot.

        Raises:
            NotFoundError: An id is none of a live segment's; nothing was committed.
            UnsupportedFeatureError: Kind `segment-own`; a load of a table with keys, or one whose
                deleted rows are marked along with those of other files. Or another branch than main
                is open, or the table is not one this engine writes.
            CommitConflictError: Another commit changed the same files meanwhile.
            CommitUnknownError: As for every commit.
        """
        live = [item for item in self._pin() if item.status is SegmentStatus.SUCCESS]
        check_ids(self.store, ids, live)
        imported = [
            item
            for item in live
            if isinstance(item, Segment)
            and (item.id in ids or (before_ms is not None and item.load_start_ms < before_ms))
        ]
        loads = [item for item in live if isinstance(item, Load) and item.id in ids]
        check_loads_deletable(self.store, loads)
        chosen: list[Segment | Load] = [*imported, *loads]
        if not chosen:
            return SegmentOutcome(segments=(), snapshot=None)
        user = NewUser("segment-delete-")
        snapshot = self._commit(removals(self.store, chosen), chosen, user, properties)
        numbers = {segment.id for segment in imported}

        def marked(segment: Segment) -> Segment:
            if segment.id not in numbers or segment.status is SegmentStatus.MARKED_FOR_DELETE:
                return segment
            now = resolve(self.store, [segment])[0]
            return replace(
                now,
                status=SegmentStatus.MARKED_FOR_DELETE,
                removed=commit_of(snapshot),
                removed_ms=snapshot.time_millis,
            )

        changed = self._change(marked) if imported else []
        gone = [
            replace(load, status=SegmentStatus.MARKED_FOR_DELETE, removed_ms=snapshot.time_millis)
            for load in loads
        ]
        done: list[Segment | Load] = [item for item in changed if item.id in numbers]
        done = sorted([*done, *gone], key=lambda item: item.id)
        return SegmentOutcome(segments=tuple(done), snapshot=snapshot)

    def clean(
        self,
        *,
        retention_ms: int = RETENTION_MS,
        force: bool = False,
        dry_run: bool = False,
    ) -> list[Segment | Load]:
        """Forget segments that are deleted, compacted or failed, and return them.

        Only the list changes. By force, snapshots and tags that had a segment of a text format lose
        its rows; a rollback to one that had another finds its rows, but not its id.

        Args:
            retention_ms: Keep what was deleted less than this ago.
            force: Forget all of them, readable or not.
            dry_run: Only return them.

        Raises:
            UnsupportedFeatureError: A branch other than main is open.
            CommitConflictError: Other commands changed the segments too often.
        """
        limit = self.clock.now_millis() - retention_ms
        now = {item.id: item for item in self._pin()}
        readable = set[int]() if force else readable_segments(self.store)

        def is_dead(item: Segment | Load) -> bool:
            current = now.get(item.id, item)
            if isinstance(current, Segment) and current.status is SegmentStatus.IN_PROGRESS:
                return current.load_start_ms < self.clock.now_millis() - ABANDONED_MS
            if current.status is SegmentStatus.SUCCESS:
                return False
            ended = current.removed_ms or current.load_end_ms or current.load_start_ms
            return force or (ended < limit and item.id not in readable)

        def kept(listed: SegmentList) -> SegmentList:
            segments = (item for item in listed.segments if not is_dead(item))
            loads = (item for item in listed.loads if not is_dead(item))
            return replace(listed, segments=tuple(segments), loads=tuple(loads))

        if not dry_run:
            self.registry.update(kept)
        return [item for item in now.values() if is_dead(item)]

    def refresh(
        self,
        ids: Collection[int],
        executor: Executor[Any] | None = None,
        *,
        commit_user: str | None = None,
    ) -> SegmentOutcome:
        """Take segments as their folders are now, in one snapshot: files change, come and go.

        Args:
            ids: The ids of live segments; empty means all of them.
            executor: Who reads the footers; this process by default.
            commit_user: Who commits.

        Raises:
            NotFoundError: An id is none of a live segment's, or a folder is gone or empty.
            InvalidInputError: A file does not have the table's columns, or an id is that of a load
                of the table's own (kind `segment-own`); nothing was committed.
            UnsupportedFeatureError: A branch other than main is open.
            FormatError: A file is not of the format.
            CommitConflictError, CommitUnknownError: As for every commit.
        """
        pinned = self._pin()
        live = [
            item
            for item in pinned
            if isinstance(item, Segment) and item.status is SegmentStatus.SUCCESS
        ]
        check_folders(self.store, ids, pinned)
        check_ids(self.store, ids, live)
        chosen = [segment for segment in live if not ids or segment.id in ids]
        footers: dict[str, FileFooter] = {}
        executor = executor or EmbeddedExecutor()
        found = [self._renew(segment, live, executor, footers) for segment in chosen]
        renewed = [segment for segment in found if segment is not None]
        if not renewed:
            return SegmentOutcome(segments=(), snapshot=None)
        numbers = {segment.id: segment for segment in renewed}
        before = [segment for segment in chosen if segment.id in numbers]
        user = commit_user or NewUser("segment-refresh-")
        messages = [*removals(self.store, before), *additions(renewed, footers, self.clock)]
        snapshot = self._commit(messages, renewed, user, None)
        numbers = {item.id: replace(item, refreshed=commit_of(snapshot)) for item in renewed}
        self._change(lambda item: numbers.get(item.id, item))
        return SegmentOutcome(segments=tuple(numbers.values()), snapshot=snapshot)

    def _renew(
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
        found = read_footers(
            store, segment.folder, segment.format, files, executor, options=segment.reader_options
        )
        differences = differences_of(store, files, found)
        if differences:
            raise schema_problem(store, segment.folder, differences, found)
        footers.update({f"{base}/{name}": footer for name, footer in found.items()})
        listed = segment_files(segment.id, segment.format, files, files, found)
        return replace(segment, files=listed)

    def _begin(self, plan: ImportPlan, user: str, began_ms: int) -> list[Segment]:
        """Enter the plan's segments as in progress; ids are given here.

        Others that are in progress with the same files are left alone: they may be dead, or their
        commit may come first. Of two that live one commits (`add`).
        """
        source = plan.source
        name = source.format.strip().lower()
        paths = {f"{plain_path(plan.root)}/{file.name}" for file in plan.files}

        def entered(found: SegmentList) -> SegmentList:
            listed = with_loads(self.store, found)
            kept = [item for item in listed.segments if item.commit_user != user]
            refuse_taken(self.store, kept, paths, user)
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
                    options=source.all_options,
                    roots=() if self.roots is None else self.roots.folders,
                )
                for number, folder in enumerate(plan.folders)
            ]
            number = listed.next_id + len(added)
            return replace(listed, next_id=number, segments=(*kept, *added))

        listed = self.registry.update(entered)
        return [segment for segment in listed.segments if segment.commit_user == user]

    def _finish(self, user: str, snapshot: Snapshot) -> list[Segment]:
        """Enter a command's segments as committed; forget what others began with their files."""
        mine = [item for item in self.registry.load().segments if item.commit_user == user]
        paths = paths_of(mine)

        def done(segment: Segment) -> Segment | None:
            if segment.commit_user != user:
                return None if is_in_vain(self.store, segment, paths) else segment
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

    def _pin(self) -> list[Segment | Load]:
        """Return what `listed` does, from numbers that the registry now keeps."""
        if self.store.paths.branch != MAIN_BRANCH:
            raise UnsupportedFeatureError(
                f"Segments of {self.store.label} are those of the main branch; open that to "
                "change them.",
                kind="segment-table",
                details={"table": self.store.label, "branch": self.store.paths.branch},
            )
        return all_now(self.store, self.registry.update(partial(with_loads, self.store)))

    def _keep_writers_from_compacting(self) -> None:
        """Keep other engines from compacting: they would delete foreign files later."""
        schemas = self.store.schemas
        newest = schemas.latest() or self.store.schema
        if not newest.typed_options.has(WRITE_ONLY):
            change = SetOption(key=WRITE_ONLY.key, value="true")
            schemas.commit_changes([change], time_millis=self.clock.now_millis())

    def _commit(
        self,
        messages: Sequence[CommitMessage],
        segments: Iterable[Segment | Load],
        user: str,
        properties: Mapping[str, str] | None,
        condition: Condition | None = None,
    ) -> Snapshot:
        """Commit files that come and go; without either, a snapshot that marks the moment."""
        ids = sorted(segment.id for segment in segments)
        takes_away = any(message.data_increment.deleted_files for message in messages)
        return FileStoreCommit(self.store, clock=self.clock, condition=condition).commit(
            messages,
            commit_user=user,
            commit_identifier=BATCH_COMMIT_IDENTIFIER,
            kind=CommitKind.OVERWRITE if takes_away else CommitKind.APPEND,
            properties={**(properties or {}), SEGMENT_IDS_PROPERTY: ",".join(map(str, ids))},
        )

    def _change(self, change: Callable[[Segment], Segment | None]) -> list[Segment]:
        """Change or forget segments in the registry."""

        def changed(listed: SegmentList) -> SegmentList:
            kept = (change(segment) for segment in listed.segments)
            return replace(listed, segments=tuple(item for item in kept if item is not None))

        return [*self.registry.update(changed).segments]
