"""FileStoreCommit: messages → one snapshot, by optimistic concurrency.

    ┌─▶ newest snapshot ─▶ did this commit happen already? ─▶ plan, conflicts? ─▶ manifests, lists
    │                                                                              │
    ├── lost: delete own lists, wait ◀── publish snapshot N+1, if there is none ◀──┘ N is the newest
    │                                         │ won
    └── N+1 is withdrawn ◀── look back: is it the same table, and N+1 on N the newest?
                                              │ yes
                                              └─▶ hint, done

Threads of one process take turns at a table from that look to the publish: they would only lose
to each other. A turn is a courtesy, which ends after a while; races are decided by the publish.

The first try does not wait for the newest snapshot: it prepares on the one that was seen last while
an object store is asked, and publishes only if that one is the newest. If not, its manifests stay,
and the next try writes other lists.

Everything before the publish is invisible; the publish is atomic (`fileio.atomic`). If its answer
is lost, the snapshots are looked at, and it is published again, a few times. Then nothing is
deleted and the caller gets `CommitUnknownError`: the same commit again finds out.

A rollback deletes snapshots first and then looks for later ones; a commit publishes first and then
looks at its base. So at least one of the two sees the other. Expiration frees numbers, and a slow
writer may take such a number. It then finds that its base is gone, and above its own number either
a hole or a snapshot that was built on another one (`look_back`); it withdraws its snapshot.
The hint is written after that look. A snapshot names its base, and a commit never builds on a
snapshot whose base is not the one below it. The schema file shows whether a table was renamed, or
dropped and created again.
Source: `org.apache.paimon.operation.FileStoreCommitImpl`.
"""

import logging
import os
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import Any
from uuid import uuid4
from weakref import WeakValueDictionary

from msgspec import Struct
from msgspec.structs import replace

from paimon_assets.engine import errors
from paimon_assets.engine.codec.json.metadata_json import statistics_to_json
from paimon_assets.engine.contract.commit_message import CommitMessage
from paimon_assets.engine.control.clock import Clock, SystemClock
from paimon_assets.engine.control.commit import partition_filter
from paimon_assets.engine.control.commit.changes import (
    CommitChanges,
    changes_of,
    inherited_properties,
)
from paimon_assets.engine.control.commit.checks import CommitChecks, protect_external
from paimon_assets.engine.control.commit.commit_files import CommitFiles, partition_statistics
from paimon_assets.engine.control.commit.planned_on import SCHEMA_CHANGED, PlannedOn
from paimon_assets.engine.control.commit.request import CommitRequest, RetryPolicy, WholeState
from paimon_assets.engine.control.features import check_writable
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.listeners import follow_commit
from paimon_assets.engine.control.managers.numbered_files import check_follows
from paimon_assets.engine.control.manifests import ManifestNames
from paimon_assets.engine.control.scan.file_store_scan import FileStoreScan
from paimon_assets.engine.spec.metadata import snapshot as snap
from paimon_assets.engine.spec.metadata.data_file import FileOrigin
from paimon_assets.engine.spec.metadata.manifest import FileKind, ManifestEntry
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.predicate.predicate import Predicate

logger = logging.getLogger(__name__)

Condition = Callable[[snap.Snapshot | None], None]
"""Raises if nothing may be committed on top of a snapshot; None is the table without any."""

_MOST_PUBLISHES = 4
"""How often a snapshot is published whose answers are lost."""
_TURNS: WeakValueDictionary[tuple[str, str], Any] = WeakValueDictionary()
"""(scheme, snapshot folder) → the lock of the thread that has its turn."""
_LONGEST_TURN_SECONDS = 10.0

os.register_at_fork(after_in_child=_TURNS.clear)


@contextmanager
def _turn(store: FileStore) -> Iterator[None]:
    """Let the threads of this process have their turns at a table, one after the other."""
    key = store.file_io.spec.scheme, store.paths.snapshot_directory
    lock = _TURNS.setdefault(key, RLock())
    is_mine = lock.acquire(timeout=_LONGEST_TURN_SECONDS)
    try:
        yield
    finally:
        if is_mine:
            lock.release()


class _Lost(Struct, frozen=True):
    """A try that another commit, or a rollback, was faster than."""

    gap: tuple[int, int] | None = None
    """The snapshots below and above a break in the line, if there is one at the newest."""
    is_guess: bool = False
    """Whether it was prepared on a snapshot that is not the newest."""


class _Prepared(Struct, frozen=True):
    """A try whose files are written."""

    snapshot: snap.Snapshot
    base: snap.Snapshot | None
    changes: CommitChanges


class FileStoreCommit:
    """Commits to one table."""

    def __init__(
        self,
        store: FileStore,
        *,
        clock: Clock | None = None,
        planned_on: PlannedOn | None = None,
        condition: Condition | None = None,
        confirm: Callable[[], bool] = lambda: True,
    ) -> None:
        """Take `confirm` from the block of guesses that the messages were made in, if any."""
        self._store = store
        self._clock = clock or SystemClock()
        self._planned_on = planned_on
        self._condition = condition
        self._confirm = confirm
        self._policy = RetryPolicy.of(store.schema.typed_options)
        self._checks = CommitChecks(store)
        self._takes_text = False
        """Whether text segments are listed as taken out by this commit."""
        self._is_unsure = False
        """Whether a publish of the snapshot had no answer, and may have its effect later."""

    def commit(
        self,
        messages: Iterable[CommitMessage],
        *,
        commit_user: str,
        commit_identifier: int,
        kind: snap.CommitKind = snap.CommitKind.APPEND,
        properties: Mapping[str, str] | None = None,
        watermark: int | None = None,
    ) -> snap.Snapshot:
        """Publish messages in one snapshot; without messages, an empty one."""
        request = CommitRequest(
            changes=self._changes(messages, kind),
            commit_user=commit_user,
            commit_identifier=commit_identifier,
            kind=kind,
            planned_on=self._planned_on,
            properties=dict(properties or {}),
            watermark=watermark,
        )
        return self._until_done(request)

    def overwrite(
        self,
        messages: Iterable[CommitMessage],
        *,
        commit_user: str,
        commit_identifier: int,
        partitions: frozenset[bytes] | None = None,
        predicate: Predicate | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> snap.Snapshot:
        """Replace all that some partitions hold by new files, in one snapshot.

        Each try replaces the files of the newest snapshot, those of commits meanwhile,
        too. The new files may have another bucket count; changelog files of the messages are not
        committed. Files that lie in other partitions are an error of kind `overwrite-partition`.
        """
        if partitions is not None and predicate is not None:
            raise errors.InvalidInputError(
                "An overwrite takes partitions or a predicate, not both.", kind="partition-spec"
            )
        new = self._changes(messages, snap.CommitKind.OVERWRITE)
        scope = (
            partition_filter.PartitionFilter.where(self._store, predicate)
            if partitions is None
            else partition_filter.PartitionFilter.of(self._store, partitions)
        )
        partition_filter.check_new_files(self._store, scope, new)
        options = self._store.schema.typed_options
        entries = partition_filter.upgrade(new.entries, self._checks.key_range, options)
        request = CommitRequest(
            changes=CommitChanges(entries=entries, index=new.index),
            overwrites=scope,
            commit_user=commit_user,
            commit_identifier=commit_identifier,
            kind=snap.CommitKind.OVERWRITE,
            properties=dict(properties or {}),
        )
        return self._until_done(request)

    def commit_statistics(
        self, statistics: snap.Statistics, *, commit_user: str, commit_identifier: int
    ) -> snap.Snapshot:
        """Write statistics and name them in a snapshot of kind ANALYZE; no file changes.

        Later snapshots keep them until the schema changes; if it has, the commit is a conflict.
        """
        store = self._store
        check_writable(store.label, store.schema)
        name = f"stat-{uuid4()}-0"
        path = store.paths.statistics(name)
        store.file_io.write_bytes(path, statistics_to_json(statistics))
        request = CommitRequest(
            changes=CommitChanges(),
            commit_user=commit_user,
            commit_identifier=commit_identifier,
            kind=snap.CommitKind.ANALYZE,
            statistics=(name, statistics.schema_id),
        )
        try:
            snapshot = self._until_done(request)
        except errors.CommitUnknownError:
            raise
        except errors.PaimonError:
            store.file_io.delete_file(path)
            raise
        if snapshot.statistics != name:  # committed before
            store.file_io.delete_file(path)
        return snapshot

    def assign_row_ids(self, *, commit_user: str, commit_identifier: int) -> snap.Snapshot:
        """Give ids to live rows without any, in a snapshot of new manifests and the same files.

        Source: `org.apache.paimon.append.dataevolution.DataEvolutionRowIdReassigner`.

        Cost:
            The entries of all live files are in memory.
        """
        from paimon_assets.engine.control.commit.row_ids import with_ids_of_all

        def state(latest: snap.Snapshot, next_row_id: int) -> WholeState:
            live, next_row_id = with_ids_of_all(
                FileStoreScan(self._store).live_files(latest),
                snapshot_id=latest.id + 1,
                next_row_id=next_row_id,
            )
            return WholeState(live=live, next_row_id=next_row_id)

        kind = snap.CommitKind.OVERWRITE
        return self.restate(
            state, kind=kind, commit_user=commit_user, commit_identifier=commit_identifier
        )

    def restate(
        self,
        state: Callable[[snap.Snapshot, int], WholeState],
        *,
        kind: snap.CommitKind,
        commit_user: str,
        commit_identifier: int,
    ) -> snap.Snapshot:
        """Name all live files in new manifests, as `state` has them for the newest snapshot."""
        request = CommitRequest(
            changes=CommitChanges(),
            commit_user=commit_user,
            commit_identifier=commit_identifier,
            kind=kind,
            restates=state,
        )
        return self._until_done(request)

    def _changes(self, messages: Iterable[CommitMessage], kind: snap.CommitKind) -> CommitChanges:
        schema = self._store.schema
        check_writable(self._store.label, schema)
        return changes_of(messages, kind, default_buckets=schema.typed_options.get(opt.BUCKET))

    def _until_done(self, request: CommitRequest) -> snap.Snapshot:
        files = CommitFiles(store=self._store, names=ManifestNames())
        began_ms = self._clock.now_millis()
        lost = 0
        done = self._try_once(request, files, guesses=True)
        while not isinstance(done, snap.Snapshot):
            if not done.is_guess:
                lost += 1
                self._wait(done, lost, began_ms, files)
            done = self._try_once(request, files)
        return done

    def _wait(self, last: _Lost, lost: int, began_ms: float, files: CommitFiles) -> None:
        """Wait before the next try, or give up."""
        if self._policy.is_over(lost, self._clock.now_millis() - began_ms):
            files.clean_all()
            raise self._conflict(last, lost)
        wait_ms = self._policy.wait_ms(lost, random.random)
        logger.warning(
            "table %s: lost commit race %d, next try in %.0f ms", self._store.label, lost, wait_ms
        )
        self._clock.sleep_millis(wait_ms)

    def _try_once(
        self, request: CommitRequest, files: CommitFiles, *, guesses: bool = False
    ) -> snap.Snapshot | _Lost:
        with _turn(self._store):
            with self._store.ahead(with_break=True, guesses=guesses) as confirm:
                # Storages that renew credentials may have opened another one for the inner block.
                prepared = self._prepare(request, files, lambda: self._confirm() and confirm())
            if not isinstance(prepared, _Prepared):
                return prepared
            snapshot, base = prepared.snapshot, prepared.base
            statistics = (
                partition_statistics(self._store.partitions, prepared.changes.entries)
                if self._store.managed is not None
                else ()
            )
            is_published = self._publish(snapshot, base, statistics, files)
            if is_published:
                self._store.snapshots.remember(snapshot.id)
        if is_published:
            if self._continues(snapshot, base, request, files):
                follow_commit(self._store, snapshot, base)
                return snapshot
            if self._is_unsure:
                files.leave()
        files.clean_lost_try()
        return _Lost()

    def _prepare(
        self, request: CommitRequest, files: CommitFiles, confirm: Callable[[], bool]
    ) -> _Prepared | snap.Snapshot | _Lost:
        """Write the files of a snapshot on top of the newest one; `confirm` checks that."""
        latest = None
        try:
            latest = self._store.snapshots.latest()
            done = self._store.snapshots.find_commit_up_to(
                latest, request.commit_user, request.commit_identifier, [request.kind]
            )
            if done is not None:
                with self._store.file_io.at_once():  # its end ends the writer's block
                    files.clean_all()
                if not confirm():
                    return _Lost(is_guess=True)
                follow_commit(self._store, done)
                return done
            gap = None if latest is None else self._gap_at(latest)
            if gap is not None:
                return _Lost(gap=gap, is_guess=not confirm())
            if latest is not None:
                check_follows(latest.id, "snapshot", self._store.table_path)
            if self._condition is not None:
                self._condition(latest)
            schema_id = self._store.schemas.latest_id(self._store.schema)
            checked = self._checks.plan(request, latest)
            self._refuse_unkept(schema_id, request.kind, checked.changes.entries)
            changes, next_row_id = self._number_entries(checked.changes, latest, schema_id)
            live, index, total = None, checked.index, None
            if request.restates is not None and latest is not None:
                state = request.restates(latest, next_row_id)
                live, index, total = state.live, state.index, state.total_record_count
                next_row_id = state.next_row_id
            lists = files.write(changes, latest, index, live)
            if not confirm():
                files.clean_lost_try()
                return _Lost(is_guess=True)
            self._takes_text |= protect_external(
                self._store, latest, checked.changes.entries, request
            )
            inherited = {
                **inherited_properties(self._store, latest, changes, request.kind),
                snap.SCHEMA_PROPERTY: self._store.schemas.schema(schema_id).identity,
            }
            now_ms = self._clock.now_millis()
            snapshot = request.snapshot(changes, lists, latest, schema_id, now_ms, inherited)
            snapshot = replace(snapshot, next_row_id=next_row_id)
            if total is not None:
                snapshot = replace(snapshot, total_record_count=total, statistics=None)
        except errors.PaimonError as error:
            # The snapshot was not published, so no other process knows these files.
            files.clean_all()
            if not confirm():
                return _Lost(is_guess=True)
            is_missing = isinstance(error, errors.NotFoundError)
            if is_missing and latest is not None and not self._store.snapshots.is_same(latest):
                return _Lost()  # it expired meanwhile
            raise
        return _Prepared(snapshot, latest, changes)

    def _gap_at(self, latest: snap.Snapshot) -> tuple[int, int] | None:
        """Return the snapshots around a break at the newest one; read its lists beside the look."""
        manifests = self._store.manifests
        with self._store.file_io.ahead(reads=manifests.unread_lists([latest])):
            gap = self._store.snapshots.break_at(latest)
            if gap is None:
                manifests.fetch_lists([latest])
        return gap

    def _number_entries(
        self, changes: CommitChanges, latest: snap.Snapshot | None, schema_id: int
    ) -> tuple[CommitChanges, int]:
        """Return changes with the row ids of their new rows, and the row id after them."""
        next_row_id = (latest.next_row_id or 0) if latest else 0
        if not self._store.schemas.schema(schema_id).typed_options.get(opt.ROW_TRACKING_ENABLED):
            return changes, next_row_id
        snapshot_id = latest.id + 1 if latest else snap.FIRST_SNAPSHOT_ID
        from paimon_assets.engine.control.commit.row_ids import with_row_ids

        entries, next_row_id = with_row_ids(
            changes.entries, snapshot_id=snapshot_id, next_row_id=next_row_id
        )
        return replace(changes, entries=entries), next_row_id

    def _refuse_unkept(
        self, schema_id: int, kind: snap.CommitKind, entries: Iterable[ManifestEntry]
    ) -> None:
        """Refuse new rows whose values the newest schema would change; compactions add none."""
        store = self._store
        if schema_id == store.schema.id:
            return
        newest, entries = store.schemas.schema(schema_id), list(entries)
        options, known = newest.typed_options, store.schema.typed_options
        rewrites = any(
            entry.kind is FileKind.DELETE or entry.file.file_source is FileOrigin.COMPACT
            for entry in entries
        )
        for option in (opt.ROW_TRACKING_ENABLED, opt.DATA_EVOLUTION_ENABLED):
            if rewrites and options.get(option) != known.get(option):
                raise errors.CommitConflictError(
                    f"Table '{store.label}': '{option.key}' was set by schema {schema_id}, and"
                    f" files were written again by schema {store.schema.id}, without row ids. Open"
                    " the table again, and repeat it.",
                    kind=SCHEMA_CHANGED,
                    table=store.label,
                    schema_id=schema_id,
                )
        if kind not in (snap.CommitKind.APPEND, snap.CommitKind.OVERWRITE):
            return
        from paimon_assets.engine.spec.evolution.schema_diff import first_unkept

        column = first_unkept(store.schema, newest)
        adds = any(entry.kind is FileKind.ADD for entry in entries)
        if column is None or not adds:
            return
        raise errors.CommitConflictError(
            f"Table '{store.label}': schema {schema_id} changed column '{column.name}' after the "
            f"rows were planned by schema {store.schema.id}, and would show other values. Open "
            "the table again and write them again.",
            kind=SCHEMA_CHANGED,
            table=store.label,
            column=column.name,
            schema_id=schema_id,
        )

    def _continues(
        self,
        snapshot: snap.Snapshot,
        base: snap.Snapshot | None,
        request: CommitRequest,
        files: CommitFiles,
    ) -> bool:
        """Report a published snapshot that continues the line; else it was withdrawn.

        A catalog that manages the table has checked that when it published.
        """
        if self._store.managed is None:
            try:
                unknown, added = self._unknown(snapshot), files.of_changes()
                from paimon_assets.engine.control.commit.look_back import looked_back

                if not looked_back(self._store, snapshot, base, unknown, added):
                    return False
            except errors.NotFoundError:
                files.clean_all()
                raise
        self._report(snapshot, request)
        return True

    def _publish(
        self,
        snapshot: snap.Snapshot,
        base: snap.Snapshot | None,
        statistics: Sequence[snap.PartitionStatistics],
        files: CommitFiles,
    ) -> bool:
        """Publish a snapshot; False if another commit has the name.

        If the answer is lost, and the snapshot is not found, the same bytes are published again: at
        worst the snapshot itself has the name.
        """
        store, base_uuid = self._store, None if base is None else base.uuid
        unknown: errors.PaimonError | None = None
        self._is_unsure = False
        for number in range(1, _MOST_PUBLISHES + 1):
            is_lost = False
            try:
                if store.publish(snapshot, base_uuid, statistics):
                    return True
                # A catalog also refuses another base than the newest, though the id is free.
                is_lost = store.managed is not None and unknown is None
            except errors.CommitUnknownError as error:
                unknown, self._is_unsure = error, True
            except errors.PaimonError as error:
                if unknown is None:
                    files.clean_all()
                    raise
                unknown = error  # this one failed; the outcome of the first is unknown
            try:
                published = store.snapshots.published_as(snapshot.id)
            except errors.PaimonError as error:
                published, unknown = None, error
            if published is not None:
                return published.delta_manifest_list == snapshot.delta_manifest_list
            if is_lost and unknown is None:
                return False
            if number < _MOST_PUBLISHES:
                logger.warning(
                    "table %s: no answer whether snapshot %d exists", store.label, snapshot.id
                )
                self._clock.sleep_millis(self._policy.wait_ms(number, random.random))
        raise self._unknown(snapshot) from unknown

    def _conflict(self, last: _Lost, lost: int) -> errors.CommitConflictError:
        label = self._store.label
        if last.gap is None:
            text = (
                f"{lost} other commits were faster; raise 'commit.max-retries', or let fewer "
                "writers commit at once."
            )
        else:
            below, above = last.gap
            text = (
                f"snapshot {above} is there, but its base is not: a rollback or an "
                "expiration has not finished, or a writer died beside one. Make a branch of "
                f"snapshot {above}, which keeps it, and compare it with snapshot {below}. If the "
                "branch has all rows, let main become that branch ('fast_forward'). "
                f"Else 'rollback_to({below})' drops snapshot {above} with all that is not in "
                f"snapshot {below}, and keeps all up to snapshot {below}."
            )
        return errors.CommitConflictError(
            f"Table '{label}': {text}",
            kind="commit-retries" if last.gap is None else "snapshot-gap",
            table=label,
            lost=lost,
        )

    def _unknown(self, snapshot: snap.Snapshot) -> errors.CommitUnknownError:
        return errors.CommitUnknownError(
            f"Table '{self._store.label}': whether snapshot {snapshot.id} was committed is "
            "unknown. Nothing was deleted. Commit again as the same user with the same "
            "identifier: it finds the snapshot, or makes it.",
            table=self._store.label,
            snapshot_id=snapshot.id,
            commit_user=snapshot.commit_user,
            commit_identifier=snapshot.commit_identifier,
        )

    def _report(self, snapshot: snap.Snapshot, request: CommitRequest) -> None:
        """Renew the hint, pointers to ledgers, and segments; the commit is made without them."""
        try:
            self._store.snapshots.write_latest_hint(snapshot.id)
            for key in request.properties:
                if key.startswith(snap.LEDGER_PROPERTY_PREFIX):
                    from paimon_assets.engine.control.ledgers import point_to

                    point_to(self._store, snapshot, key)
            if self._takes_text:
                from paimon_assets.engine.control.segments import settle_removal

                settle_removal(self._store, snapshot)
        except errors.PaimonError:
            logger.warning(
                "table %s: a hint to snapshot %d was not written",
                self._store.label,
                snapshot.id,
                exc_info=True,
            )
