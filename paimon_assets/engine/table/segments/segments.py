"""Segments of a table: add, list, delete, clean and refresh external files.

    registry: in progress ─▶ one commit for the whole command ─▶ registry: success

After a crash, the existence of the snapshot decides whether the command happened. No operation
writes or deletes an external file.

Writes of the table itself are listed as loads (`Load`). The first command that changes segments
stores their ids; before it, ids are counted from the oldest snapshot and change as it expires.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
from msgspec import field
from msgspec.structs import replace

from paimon_assets.engine.codec.json.segment_json import SegmentList
from paimon_assets.engine.contract.commit_message import CommitMessage
from paimon_assets.engine.contract.executor import Executor
from paimon_assets.engine.contract.report_tasks import FileFooter
from paimon_assets.engine.control.clock import Clock, SystemClock
from paimon_assets.engine.control.commit.abort import deleted_on_definite_failure
from paimon_assets.engine.control.commit.file_store_commit import Condition, FileStoreCommit
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.listeners import find_followed
from paimon_assets.engine.control.maintenance.removed_segments import readable_segments
from paimon_assets.engine.control.managers.commit_history import NewUser
from paimon_assets.engine.control.scan.file_store_scan import FileStoreScan
from paimon_assets.engine.control.scan.segment_scan import difference, with_loads
from paimon_assets.engine.control.segments import SegmentRegistry, SegmentRoots, commit_of, resolve
from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.errors import InvalidInputError, NotFoundError, UnsupportedFeatureError
from paimon_assets.engine.spec.evolution.schema_change import SetOption
from paimon_assets.engine.spec.metadata import snapshot as snap
from paimon_assets.engine.spec.options.all_options import WRITE_ONLY
from paimon_assets.engine.spec.paths import MAIN_BRANCH
from paimon_assets.engine.spec.segments import segment as seg
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.table.segments import segment_import as imports
from paimon_assets.engine.table.segments import segment_status as status

ABANDONED_MS = 60 * 60 * 1000
"""`clean` removes a command from the list that has been in progress for so long."""


class SegmentOutcome(Value):
    """The outcome of a command."""

    segments: tuple[seg.Segment | seg.Load, ...]
    """The segments it added, deleted or refreshed."""
    snapshot: snap.Snapshot | None
    """None if there was nothing to commit."""
    was_already_committed: bool = False
    """An earlier call of this commit user had committed; this one did nothing."""


class Segments(Value):
    """The segments of one table.

    Methods may also raise `StorageError`, if the storage failed, and `FormatError`, if metadata is
    damaged.
    """

    store: FileStore
    clock: Clock = field(default_factory=SystemClock)
    roots: SegmentRoots | None = None
    """The folders that `add` and `refresh` may read; None allows all."""

    @property
    def registry(self) -> SegmentRegistry:
        """The stored list of segments."""
        return SegmentRegistry(store=self.store)

    def listed(self) -> list[seg.Segment | seg.Load]:
        """Return all segments and loads by id, with the status that the newest snapshot gives.

        Cost:
            Reads the registry, the manifests of the newest snapshot, and the delta manifests of
            the snapshots since the registry changed; of all snapshots if there is no registry.
        """
        return status.all_now(self.store, with_loads(self.store, self.registry.load()))

    def shown(self, *, limit: int | None = None, history: bool = False) -> pa.Table:
        """Return `listed` as SHOW SEGMENTS prints it; see `segment_status.show_segments`."""
        return status.show_segments(self.listed(), limit=limit, history=history)

    def live(self) -> list[seg.Segment]:
        """Return the segments whose rows a read returns, by id; no loads."""
        now = status.segments_now(self.store, self.registry.load().segments)
        return [segment for segment in now if segment.status is seg.SegmentStatus.SUCCESS]

    def plan(
        self, source: imports.SegmentSource, executor: Executor[Any] | None = None
    ) -> imports.ImportPlan:
        """Return the plan of `add`: files, inferred columns, partitions, and why it would fail.

        Raises:
            PaimonError: As `segment_import.plan_import`; other errors of `add` are in `problem`.
        """
        latest, options = self.store.snapshots.latest(), self.store.schema.typed_options
        entries = [] if latest is None else FileStoreScan(self.store).live_files(latest)
        external = (entry.file for entry in entries if seg.is_external(options, entry.file))
        return imports.plan_import(
            self.store,
            source,
            self.live(),
            executor or EmbeddedExecutor(),
            held=frozenset(seg.plain_path(file.external_path or "") for file in external),
            roots=self.roots,
        )

    def add(
        self,
        source: imports.SegmentSource,
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
            executor: Reads the footers; this process by default.
            commit_user: A second call with the same user finds the commit of the first.
            properties: Stored in the snapshot.

        Raises:
            InvalidInputError: The folder, its files or the options do not fit the table; nothing
                was committed. NotFoundError and AlreadyExistsError are subclasses.
            UnsupportedFeatureError: The table, storage or format can have no segments.
            FormatError: A file is not of the format.
            CommitConflictError, CommitUnknownError: As for every commit.
        """
        user = commit_user or NewUser("segment-add-")
        base = self.store.snapshots.latest()
        earlier = find_followed(self.store, user, snap.BATCH_COMMIT_IDENTIFIER)
        if earlier is not None:
            done = tuple(self._finish(user, earlier))
            return SegmentOutcome(segments=done, snapshot=earlier, was_already_committed=True)
        start_ms = self.clock.now_millis()
        plan = self.plan(source, executor)
        if plan.problem is not None:
            raise plan.problem
        if not plan.folders:
            return SegmentOutcome(segments=(), snapshot=None)
        segments = self._begin(plan, user, start_ms)
        with deleted_on_definite_failure(
            lambda: self._change(lambda item: None if item.commit_user == user else item)
        ):
            newest = self.store.schemas.latest() or self.store.schema
            is_visible = any(segment.is_visible_to_paimon for segment in segments)
            if is_visible and not newest.typed_options.has(WRITE_ONLY):
                # Other engines would compact external files, and delete them later.
                change = SetOption(key=WRITE_ONLY.key, value="true")
                self.store.schemas.commit_changes([change], time_millis=self.clock.now_millis())
            root = seg.plain_path(plan.root)
            footers = {f"{root}/{name}": footer for name, footer in plan.footers.items()}
            messages = status.additions(segments, footers, self.clock)
            paths = seg.paths_of(segments)

            def refuse_shared_files(latest: snap.Snapshot | None) -> None:
                if latest != base:
                    status.refuse_taken(self.store, self.registry.load().segments, paths, user)

            snapshot = self._commit(messages, segments, user, properties, refuse_shared_files)
        return SegmentOutcome(segments=tuple(self._finish(user, snapshot)), snapshot=snapshot)

    def delete(self, ids: Collection[int] = (), *, before_ms: int | None = None) -> SegmentOutcome:
        """Delete segments from the table, in one snapshot; external files stay where they are.

        Args:
            ids: Segments or loads. The files of loads are deleted when their snapshots expire.
            before_ms: Also the segments that were added before this epoch millisecond; no loads.

        Raises:
            NotFoundError: No live segment has this id; nothing was committed.
            UnsupportedFeatureError: Kind `segment-own`; a load of a table with keys, or one that
                shares an index of deleted rows with other files. Or another branch than main
                is open, or this engine cannot write the table.
            CommitConflictError: Another commit changed the same files meanwhile.
            CommitUnknownError: As for every commit.
        """
        live = [item for item in self._pin() if item.status is seg.SegmentStatus.SUCCESS]
        status.check_ids(self.store, ids, live)
        imported = [
            item
            for item in live
            if isinstance(item, seg.Segment)
            and (item.id in ids or (before_ms is not None and item.load_start_ms < before_ms))
        ]
        loads = [item for item in live if isinstance(item, seg.Load) and item.id in ids]
        if loads and self.store.schema.has_primary_key:
            raise UnsupportedFeatureError(
                f"Segment {loads[0].id} of table {self.store.label} is a load of the table's own, "
                "which cannot be taken away: older rows of its keys would come back. Delete its "
                "rows by a condition, or roll back.",
                kind="segment-own",
                table=self.store.label,
                segment=loads[0].id,
            )
        items: list[seg.Segment | seg.Load] = [*imported, *loads]
        if not items:
            return SegmentOutcome(segments=(), snapshot=None)
        user = NewUser("segment-delete-")
        snapshot = self._commit(status.removals(self.store, items), items, user)
        imported_ids = {segment.id for segment in imported}

        def mark(segment: seg.Segment) -> seg.Segment:
            if (
                segment.id not in imported_ids
                or segment.status is seg.SegmentStatus.MARKED_FOR_DELETE
            ):
                return segment
            return replace(
                resolve(self.store, [segment])[0],
                status=seg.SegmentStatus.MARKED_FOR_DELETE,
                removed=commit_of(snapshot),
                removed_ms=snapshot.time_millis,
            )

        segments = self._change(mark) if imported else []
        deleted: list[seg.Segment | seg.Load] = [
            item for item in segments if item.id in imported_ids
        ]
        deleted += [
            replace(
                load, status=seg.SegmentStatus.MARKED_FOR_DELETE, removed_ms=snapshot.time_millis
            )
            for load in loads
        ]
        deleted.sort(key=lambda item: item.id)
        return SegmentOutcome(segments=tuple(deleted), snapshot=snapshot)

    def clean(
        self, *, retention_ms: int = seg.RETENTION_MS, force: bool = False, dry_run: bool = False
    ) -> list[seg.Segment | seg.Load]:
        """Remove deleted, compacted and failed segments from the list, and return them.

        No file changes. With `force`, older snapshots and tags lose the rows of segments in a text
        format; after a rollback, other segments have their rows but no id.

        Args:
            retention_ms: Keep segments that were deleted less than this ago.
            force: Remove them also if a snapshot or tag can still read them.
            dry_run: Only return them.

        Raises:
            UnsupportedFeatureError: A branch other than main is open.
            CommitConflictError: Other commands changed the segments too often.
        """
        limit = self.clock.now_millis() - retention_ms
        items = {item.id: item for item in self._pin()}
        readable = set[int]() if force else readable_segments(self.store)

        def is_dead(item: seg.Segment | seg.Load) -> bool:
            current = items.get(item.id, item)
            if isinstance(current, seg.Segment) and current.status is seg.SegmentStatus.IN_PROGRESS:
                return current.load_start_ms < self.clock.now_millis() - ABANDONED_MS
            if current.status is seg.SegmentStatus.SUCCESS:
                return False
            ended = current.removed_ms or current.load_end_ms or current.load_start_ms
            return force or (ended < limit and item.id not in readable)

        def remove_dead(listed: SegmentList) -> SegmentList:
            segments = (item for item in listed.segments if not is_dead(item))
            loads = (item for item in listed.loads if not is_dead(item))
            return replace(listed, segments=tuple(segments), loads=tuple(loads))

        if not dry_run:
            self.registry.update(remove_dead)
        return [item for item in items.values() if is_dead(item)]

    def refresh(
        self, ids: Collection[int], executor: Executor[Any] | None = None
    ) -> SegmentOutcome:
        """Read the folders of segments again and commit their new, changed and missing files.

        Args:
            ids: The ids of live segments; empty means all of them.
            executor: Reads the footers; this process by default.

        Raises:
            NotFoundError: No live segment has this id, or a folder is missing or empty.
            InvalidInputError: A file does not have the table's columns, or the id is that of a
                load (kind `segment-own`); nothing was committed.
            UnsupportedFeatureError: A branch other than main is open.
            FormatError: A file is not of the format.
            CommitConflictError, CommitUnknownError: As for every commit.
        """
        items = self._pin()
        segments = (item for item in items if isinstance(item, seg.Segment))
        live = [item for item in segments if item.status is seg.SegmentStatus.SUCCESS]
        own = [item.id for item in items if isinstance(item, seg.Load) and item.id in ids]
        if own:
            raise InvalidInputError(
                f"Segment {own[0]} of table '{self.store.label}' is a load of the table's own, "
                "which has no folder to read again; name segments that were imported.",
                kind="segment-own",
                table=self.store.label,
                segment=own[0],
            )
        status.check_ids(self.store, ids, live)
        footers: dict[str, FileFooter] = {}
        executor = executor or EmbeddedExecutor()
        replaced, refreshed = [], []
        for segment in live:
            if ids and segment.id not in ids:
                continue
            current = self._with_current_files(segment, live, executor, footers)
            if current is not None:
                replaced.append(segment)
                refreshed.append(current)
        if not refreshed:
            return SegmentOutcome(segments=(), snapshot=None)
        user = NewUser("segment-refresh-")
        messages = [
            *status.removals(self.store, replaced),
            *status.additions(refreshed, footers, self.clock),
        ]
        snapshot = self._commit(messages, refreshed, user)
        by_id = {item.id: replace(item, refreshed=commit_of(snapshot)) for item in refreshed}
        self._change(lambda item: by_id.get(item.id, item))
        return SegmentOutcome(segments=tuple(by_id.values()), snapshot=snapshot)

    def _with_current_files(
        self,
        segment: seg.Segment,
        live: Iterable[seg.Segment],
        executor: Executor[Any],
        footers: dict[str, FileFooter],
    ) -> seg.Segment | None:
        """Return a segment with the files that are in its folder now; None if nothing changed."""
        of_other_segments = {
            seg.plain_path(other.path_of(file))
            for other in live
            if other.id != segment.id and seg.is_within(other.folder, segment.folder)
            for file in other.files
        }
        base = seg.plain_path(segment.folder)
        files = [
            file
            for file in imports.data_files(self.store, segment.folder, segment.format, self.roots)
            if f"{base}/{file.name}" not in of_other_segments
        ]
        if not files:
            message = (
                f"'{segment.folder}' of segment {segment.id} holds no file any more; delete the "
                "segment instead."
            )
            raise NotFoundError(message, kind="segment-no-data", segment=segment.id)
        known = {file.name: file for file in segment.files}
        if known.keys() == {file.name for file in files} and not any(
            difference(known[file.name], file) for file in files
        ):
            return None
        # The files have the column names of the schema they were added with.
        store = self.store.with_schema(self.store.schemas.schema(segment.schema_id))
        read = imports.read_footers(
            store, segment.folder, segment.format, files, executor, options=segment.reader_options
        )
        differences = imports.differences_of(store, files, read)
        if differences:
            raise imports.schema_problem(store, segment.folder, differences, read)
        footers.update({f"{base}/{name}": footer for name, footer in read.items()})
        return replace(
            segment, files=imports.segment_files(segment.id, segment.format, files, read)
        )

    def _begin(self, plan: imports.ImportPlan, user: str, start_ms: int) -> list[seg.Segment]:
        """List the plan's segments as in progress, with new ids.

        Another command in progress may have the same files: it may be dead. If both are alive, the
        first to commit wins (`refuse_shared_files`).
        """
        source = plan.source
        name = source.format.strip().lower()
        paths = {f"{seg.plain_path(plan.root)}/{file.name}" for file in plan.files}

        def add(stored: SegmentList) -> SegmentList:
            listed = with_loads(self.store, stored)
            foreign = [item for item in listed.segments if item.commit_user != user]
            status.refuse_taken(self.store, foreign, paths, user)
            new = [
                seg.Segment(
                    id=listed.next_id + number,
                    status=seg.SegmentStatus.IN_PROGRESS,
                    path=plan.root,
                    folder=f"{plan.root}/{folder.name}" if folder.name else plan.root,
                    format=name,
                    partition=folder.partition,
                    partition_text=folder.text,
                    files=imports.segment_files(
                        listed.next_id + number,
                        name,
                        folder.files,
                        plan.footers,
                        prefix=f"{folder.name}/" if folder.name else "",
                    ),
                    schema_id=self.store.schema.id,
                    commit_user=user,
                    load_start_ms=start_ms,
                    options=source.all_options,
                    roots=() if self.roots is None else self.roots.folders,
                )
                for number, folder in enumerate(plan.folders)
            ]
            next_id = listed.next_id + len(new)
            return replace(listed, next_id=next_id, segments=(*foreign, *new))

        listed = self.registry.update(add)
        return [segment for segment in listed.segments if segment.commit_user == user]

    def _finish(self, user: str, snapshot: snap.Snapshot) -> list[seg.Segment]:
        """List a command's segments as committed; remove those in progress with their files."""
        own = [item for item in self.registry.load().segments if item.commit_user == user]
        paths = seg.paths_of(own)

        def finish(segment: seg.Segment) -> seg.Segment | None:
            if segment.commit_user != user:
                # It died, or will find that another was first.
                is_open = segment.status is seg.SegmentStatus.IN_PROGRESS
                if not is_open or paths.isdisjoint(seg.paths_of([segment])):
                    return segment
                [now] = resolve(self.store, [segment])
                return None if now.status is seg.SegmentStatus.IN_PROGRESS else segment
            return replace(
                segment,
                status=seg.SegmentStatus.SUCCESS,
                added=commit_of(snapshot),
                load_end_ms=max(snapshot.time_millis, segment.load_start_ms),
            )

        return [item for item in self._change(finish) if item.commit_user == user]

    def _pin(self) -> list[seg.Segment | seg.Load]:
        """Store ids for the loads of all snapshots; return segments and loads as `listed` does."""
        if self.store.paths.branch != MAIN_BRANCH:
            raise UnsupportedFeatureError(
                f"Segments of {self.store.label} are those of the main branch; open that to "
                "change them.",
                kind="segment-table",
                table=self.store.label,
                branch=self.store.paths.branch,
            )
        return status.all_now(self.store, self.registry.update(partial(with_loads, self.store)))

    def _commit(
        self,
        messages: Sequence[CommitMessage],
        segments: Iterable[seg.Segment | seg.Load],
        user: str,
        properties: Mapping[str, str] | None = None,
        condition: Condition | None = None,
    ) -> snap.Snapshot:
        """Commit added and removed files; without any, an empty snapshot records the command."""
        ids = sorted(segment.id for segment in segments)
        deletes = any(message.data_increment.deleted_files for message in messages)
        return FileStoreCommit(self.store, clock=self.clock, condition=condition).commit(
            messages,
            commit_user=user,
            commit_identifier=snap.BATCH_COMMIT_IDENTIFIER,
            kind=snap.CommitKind.OVERWRITE if deletes else snap.CommitKind.APPEND,
            properties={**(properties or {}), seg.SEGMENT_IDS_PROPERTY: ",".join(map(str, ids))},
        )

    def _change(self, change: Callable[[seg.Segment], seg.Segment | None]) -> list[seg.Segment]:
        """Change segments in the registry; None removes one."""

        def change_all(listed: SegmentList) -> SegmentList:
            segments = map(change, listed.segments)
            return replace(listed, segments=tuple(item for item in segments if item is not None))

        return [*self.registry.update(change_all).segments]
