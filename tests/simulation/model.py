"""The rules beside the actors: checked after each write, and when all have ended.

Snapshots make a tree: each names the one it is built on. A snapshot's task is known by its
number, and so are the rows of each. A writer that is too late publishes a snapshot
whose base is gone, and withdraws it: such a one is astray until then, and needs nothing.
"""

import io
import re
from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow.parquet as pq

from paimon_assets import NotFoundError, PaimonError, Table, open_catalog
from paimon_assets.assets.files import ledger
from paimon_assets.engine.codec.json.metadata_json import snapshot_from_json, tag_from_json
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.maintenance.references import data_file_paths, metadata_paths
from paimon_assets.engine.control.scan.file_store_scan import FileStoreScan
from paimon_assets.engine.fileio.opening import file_io_for
from paimon_assets.engine.spec.metadata.snapshot import BUILT_ON_PROPERTY, CommitKind, Snapshot
from paimon_assets.iceberg.follow import repair
from paimon_assets.iceberg.state import writes_iceberg
from paimon_assets.iceberg.table_schema import metadata_directory
from tests.simulation.iceberg import Documents, is_of, version_of
from tests.simulation.operations import (
    EXECUTOR,
    INGESTED,
    NAMED,
    OPERATIONS,
    OTHER_NAME,
    SHARED,
    SOURCE,
    TABLE,
    TAG,
    Rows,
    Task,
    or_erased,
)
from tests.simulation.scheduler import Call, Scheduler
from tests.simulation.world import Kind, World

_ROOT = re.compile(
    r"(?P<table>.*/d\.db/[a-z]+)(?:/branch/branch-(?P<branch>[^/]+))?"
    r"/(?P<kind>snapshot|tag)/(?:snapshot|tag)-(?P<name>[^/]+)"
)
_DOCUMENT = re.compile(r"(?P<table>.*/d\.db/[a-z]+)/metadata/v[0-9]+\.metadata\.json")
_DATA = ("/bucket-", "/manifest/", "/index/", "/ingestion/", "/statistics/")


@dataclass(slots=True)
class Node:
    """A snapshot that was published once."""

    parent: str | None
    user: str
    identifier: int
    kind: str
    rows: Rows
    made: int
    """The call that published it."""


@dataclass(slots=True)
class Root:
    """A snapshot or tag file, and the files it needs."""

    snapshot: Snapshot
    needed: frozenset[str] = frozenset()
    """Paths inside the table."""
    is_astray: bool = False

    @property
    def data(self) -> frozenset[str]:
        return frozenset(path for path in self.needed if path.startswith("bucket-"))


@dataclass(slots=True)
class Record:
    """The outcome of a task."""

    task: Task
    began: int
    ended: int | None = None
    """The call after which its outcome was known."""
    outcome: str = "open"
    """`done`, `refused`, or `unknown`: it died, or has no answer."""
    value: object = None
    error: BaseException | None = None
    stumbled: bool = False
    """Whether the storage failed, or it died, in one of its attempts."""

    def may_undo(self, other: "Record") -> bool:
        """Whether it may have undone another one's commit, which began before it returned."""
        if not OPERATIONS[self.task.name].undoes or (
            self.outcome == "refused" and not self.stumbled
        ):
            return False
        return self.outcome != "done" or (self.ended or 0) >= other.began


@dataclass(slots=True)
class Model:
    world: World
    scheduler: Scheduler
    foreign: frozenset[str]
    """Paths of files that are not the table's."""
    records: list[Record] = field(default_factory=list)
    nodes: dict[str | None, Node] = field(default_factory=dict)
    """UUID → snapshot. An erasure keeps it, and gives lists other names."""
    lists: dict[str, str | None] = field(default_factory=dict)
    """Name of a delta list → UUID."""
    roots: dict[str, Root] = field(default_factory=dict)
    needed: dict[bytes, frozenset[str]] = field(default_factory=dict)
    first: frozenset[str] = frozenset()
    """Paths of snapshots and tags that were there before."""
    is_over: bool = False
    """Whether all tasks have ended."""
    is_erased_again: bool = False
    """Whether Iceberg's metadata needed it: a commit was followed beside an erasure."""
    documents: Documents = field(init=False)

    def __post_init__(self) -> None:
        self.documents = Documents(self.world.store, self.world.path_of)

    def history(self) -> Hashable:
        """Return the order of its events, on which verdicts depend beside files."""
        events = [(record.began, record.task.user) for record in self.records]
        events += [(record.ended or 0, record.outcome) for record in self.records]
        if self._has("upsert", "erase"):
            events += [(node.made, str(name)) for name, node in self.nodes.items()]
        astray = tuple(path for path, root in sorted(self.roots.items()) if root.is_astray)
        return tuple(each for _, each in sorted(events)), astray

    def look_around(self) -> None:
        """Look at all snapshots and tags that are there."""
        before = {path.partition("/d.db/")[2][1:]: root for path, root in self.roots.items()}
        self.roots = {}
        paths = [path for path, _ in self.world.store.below("")]
        matches = [match for path in paths if (match := _ROOT.fullmatch(path))]
        for match in sorted(matches, key=_order):  # main first: branches begin there
            known = before.get(match[0].partition("/d.db/")[2][1:])  # of whatever name its table is
            self._note_seen(match[0], match, known)

    def look(self, call: Call) -> None:
        """Check all that a write may have broken; AssertionError if it has."""
        self.world.outside.memory.clear()
        paths = [path for path in (call.path, call.target) if path]
        touched = self.foreign.intersection(paths)
        assert not touched, f"{call.kind} touched the foreign file {touched}"
        if call.is_tree:
            self.look_around()
            return
        for path in paths:
            if match := _ROOT.fullmatch(path):
                self._root_changed(path, match)
            elif match := _DOCUMENT.fullmatch(path):
                self._document_changed(path, match["table"])
            elif call.kind == "delete" and not self._is_moving:
                self._note_deleted(path)

    @property
    def _is_moving(self) -> bool:
        """Whether the table may be on its way to another name, or out."""
        return self._has("drop", "rename")

    def _has(self, *names: str) -> bool:
        return any(record.task.name in names for record in self.records)

    def _document_changed(self, path: str, table: str) -> None:
        if not self.world.store.has(path) or not self.world.store.file(path).data:
            return
        prefix = f"{table}/snapshot/snapshot-"
        snapshots = {
            int(path.removeprefix(prefix)): root.snapshot
            for path, root in self.roots.items()
            if path.startswith(prefix) and not root.is_astray
        }
        undoing = any(OPERATIONS[record.task.name].undoes for record in self.records)
        are_undone = undoing or self._is_moving
        shown = {} if self._is_moving else snapshots
        is_erasing = self._has("erase") and not self.is_over
        rows = self.documents.check(path, shown, are_undone=are_undone, is_erasing=is_erasing)
        if rows is not None:
            newest = snapshots[version_of(path)]
            self._check_fit(rows, newest, "Iceberg's readers see in")

    def _root_changed(self, path: str, match: re.Match[str]) -> None:
        if self.world.store.has(path):
            self._note_seen(path, match)
        elif self.roots.pop(path, None) is not None and match["kind"] == "snapshot":
            number, home = int(match["name"]), path.rpartition("-")[0]
            is_replaced = self.world.kind is Kind.HDFS and self._is_acting("erase")
            # Undone, not expired: later ones are astray.
            if f"{home}-{number - 1}" in self.roots and not is_replaced:
                while (above := self.roots.get(f"{home}-{number + 1}")) is not None:
                    above.is_astray, number = True, number + 1
        store = self._store(match) if match["kind"] == "snapshot" else None
        if store is not None and not (self._is_moving or self._may_be_empty):
            assert store.snapshots.latest() is not None, f"the table is empty after {path} changed"

    @property
    def _may_be_empty(self) -> bool:
        """Whether the table may have no snapshot for some calls.

        The target of a rollback may expire meanwhile, and is put back. HDFS has no step that
        replaces a file.
        """
        undoing = [r for r in self.records if OPERATIONS[r.task.name].undoes]
        if self.world.kind is Kind.HDFS and any(
            r.task.name in ("forward", "revert") and r.ended is None for r in undoing
        ):
            return True
        return any(
            None in (one.ended, other.ended) and self._overlap(one, other)
            for one in undoing
            for other in self.records
            if other.task.name == "expire"
        )

    def _may_undo(self, one: Record, other: Record) -> bool:
        """Whether a record may have undone another; docs/guarantees.md: "written to the same"."""
        if one.task.name != "expire":
            return one.may_undo(other)
        undoing = [r for r in self.records if OPERATIONS[r.task.name].undoes]
        return self._end_of(one) >= other.began and any(self._overlap(one, r) for r in undoing)

    def _overlap(self, one: Record, other: Record) -> bool:
        return self._end_of(one) >= other.began and self._end_of(other) >= one.began

    def _end_of(self, record: Record) -> int:
        return self.scheduler.calls if record.ended is None else record.ended

    def _note_deleted(self, path: str) -> None:
        if not any(part in path for part in _DATA):
            return
        for root_path, root in self.roots.items():
            match = _match(root_path)
            table = match["table"]
            if not root.is_astray and path.startswith(table):
                inside = path[len(table) + 1 :]
                # A branch has a schema; else its deletion was killed.
                is_needed = inside in root.needed and self._store(match)
                assert not is_needed, f"{path} was deleted, {root_path} needs it"

    def _note_seen(self, path: str, match: re.Match[str], known: Root | None = None) -> None:
        """Take in a snapshot or tag file, once it has its bytes."""
        data = self.world.store.file(path).data
        if not data:
            return
        if match["kind"] == "tag":
            snapshot = tag_from_json(match["name"], data, path).snapshot
        else:
            snapshot = snapshot_from_json(data, path)
        name, is_snapshot = snapshot.delta_manifest_list, match["kind"] == "snapshot"
        is_new = is_snapshot and snapshot.uuid not in self.nodes
        is_erased = is_snapshot and name not in self.lists and not is_new
        self.lists[name] = snapshot.uuid
        self.roots[path] = root = Root(snapshot, is_astray=known is not None and known.is_astray)
        if is_new:
            root.is_astray = not self._follows(path, snapshot)
            self.nodes[snapshot.uuid] = self._node(snapshot)
        elif is_erased:
            node = self.nodes[snapshot.uuid]
            node.rows = or_erased(node.rows)
        elif known is None and self._is_going_on("tag", "retag", "branch", "promote"):
            # A tag or branch looks for its snapshot once more, and is deleted if that is gone.
            source = self.roots.get(f"{match['table']}/snapshot/snapshot-{snapshot.id}")
            root.is_astray = (
                source is None or source.is_astray or source.snapshot.names_other_files(snapshot)
            )
        if is_snapshot and not is_new and self._is_going_on("erase"):
            root.is_astray |= self._is_expired(path, snapshot.id)
        store = None if root.is_astray or self._is_moving else self._store(match)
        if store is None:
            return
        missing = self._missing(store, match, data, root)
        assert not missing, f"{path} lacks {missing}"
        if is_new and snapshot.commit_kind is CommitKind.APPEND:
            self._check_adds(path, root)
        elif is_new or is_erased:
            self._check_rows(Table(store), snapshot)

    def _is_expired(self, path: str, number: int) -> bool:
        """Whether an erasure replaced an expired snapshot: it looks again, and deletes it."""
        home = path.rpartition("/")[0]
        hint = f"{home}/EARLIEST"
        oldest = self.world.store.file(hint).data if self.world.store.has(hint) else b""
        return number < int(oldest or 0) and self.world.store.has(f"{home}/snapshot-{int(oldest)}")

    def _is_going_on(self, *names: str) -> bool:
        return any(r.task.name in names and r.ended is None for r in self.records)

    def _is_acting(self, name: str) -> bool:
        """Whether the last call is of an operation."""
        actor = self.scheduler.current
        tasks = [r.task for r in self.records if actor and r.task.is_of(actor.name)]
        return bool(tasks) and tasks[-1].name == name

    def _missing(
        self, store: FileStore, match: re.Match[str], data: bytes, root: Root
    ) -> list[str]:
        """Return the missing files of a snapshot."""
        if data not in self.needed:
            try:
                self.needed[data] = frozenset(self._needed_files(store, root.snapshot))
            except NotFoundError as error:
                return [str(error)]
        root.needed = self.needed[data]
        return [f for f in root.needed if not self.world.store.has(f"{match['table']}/{f}")]

    def _follows(self, path: str, snapshot: Snapshot) -> bool:
        built_on = snapshot.properties.get(BUILT_ON_PROPERTY)
        below = self.roots.get(f"{path.rpartition('-')[0]}-{snapshot.id - 1}")
        if built_on is None:  # an erasure leaves it out
            return snapshot.id == 1 or below is not None
        return below is not None and below.snapshot.delta_manifest_list == built_on

    def _node(self, snapshot: Snapshot) -> Node:
        parent = self.lists.get(snapshot.properties.get(BUILT_ON_PROPERTY, ""))
        before: Rows = self.nodes[parent].rows if parent in self.nodes else {}
        user = snapshot.commit_user
        if user == ledger.property_of(SOURCE):
            number = INGESTED + snapshot.commit_identifier
            rows: Rows = {**before, number: (number,)}
        elif " " not in user:  # an erasure's
            rows = or_erased(before)
        else:
            name, text = user.split(" ")
            rows = OPERATIONS[name].change(before, int(text))
            if name == "upsert" and self._is_beside(parent, user):
                rows = {**rows, SHARED: (*before.get(SHARED, (None,)), int(text))}
        kind = str(snapshot.commit_kind)
        made = self.scheduler.calls
        return Node(parent, user, snapshot.commit_identifier, kind, rows, made)

    def _store(self, match: re.Match[str]) -> FileStore | None:
        """Return a branch; None while it is made, or on its way out."""
        warehouse = self.world.kind.value
        path = f"{warehouse}/d.db/{match['table'].rpartition('/')[2]}"
        options = {"branch": match["branch"]} if match["branch"] else None
        try:
            return FileStore.open(file_io_for(warehouse), path, options=options)
        except NotFoundError:
            assert match["branch"] or self._is_moving, f"{match['table']} has no schema"
            return None

    def _needed_files(self, store: FileStore, snapshot: Snapshot) -> Iterator[str]:
        paths = set(metadata_paths(store, snapshot))
        for entry in FileStoreScan(store).live_files(snapshot):
            paths.update(data_file_paths(store, entry))
        return (path.removeprefix(f"{store.table_path}/") for path in paths)

    def _check_rows(self, table: Table, snapshot: Snapshot) -> None:
        self._check_fit(rows_in(table, snapshot.id), snapshot, "there are in")

    def _check_fit(self, rows: list[tuple[Any, Any]], snapshot: Snapshot, where: str) -> None:
        node, found = self.nodes[snapshot.uuid], dict(rows)
        # An erasure that has not ended may have erased a key's newest record before an older one.
        is_open = any(r.task.name == "erase" and r.outcome != "done" for r in self.records)
        fits = len(found) == len(rows) and all(
            found.get(key) in node.rows.get(key, ()) or (is_open and key == SHARED)
            for key in {*found, *node.rows}
        )
        assert fits, (
            f"{where} snapshot {snapshot.id} of '{snapshot.commit_user}' the rows {rows}, "
            f"not {node.rows}"
        )

    def _check_adds(self, path: str, root: Root) -> None:
        """Raise if an append lost a file of its base; its rows are read after other kinds."""
        below = self.roots.get(f"{path.rpartition('-')[0]}-{root.snapshot.id - 1}")
        lost = below.data - root.data if below is not None else ()
        assert not lost, f"{path}, an append, lost {sorted(lost)}"

    def _is_beside(self, name: str | None, user: str) -> bool:
        """Whether an upsert was planned before another one, now below it, was committed.

        Sequence numbers are given when rows are written: of two at once either may count.
        """
        began = next((r.began for r in self.records if r.task.user == user), 0)
        line = map(self.nodes.__getitem__, self._line(name))
        recent = (node.user for node in line if node.made >= began)
        return any(user.startswith(("upsert ", "delete ")) for user in recent)

    # When all have ended.

    def check_end(self) -> None:
        """Raise if a task is lost or half done, or a file is missing."""
        self.world.outside.memory.clear()
        self.is_over = True
        for path, root in self.roots.items():  # their bases may be back
            match = _match(path)
            is_main = match["kind"] == "snapshot" and not match["branch"]
            root.is_astray &= is_main and not self._follows(path, root.snapshot)
        astray = [path for path, root in self.roots.items() if root.is_astray]
        self._check_lost()
        self.look_around()
        catalog = open_catalog(self.world.kind.value)
        name = next((n for n in (OTHER_NAME, TABLE) if catalog.table_exists(n)), None)
        may_fail = self.world.store.was_late or any(record.stumbled for record in self.records)
        if name is None:
            dropped = [r for r in self.records if r.task.name == "drop" and r.outcome != "done"]
            assert dropped, "there is no table"  # it was not created again
            return
        table = catalog.get_table(name)
        store = table._store
        assert may_fail or not astray, f"{astray} are astray"
        newest = store.snapshots.latest()
        is_gap = newest is not None and store.paths.snapshot(newest.id).endswith(tuple(astray))
        if newest is not None and is_gap:
            newest = max(  # acknowledged commits are below the gap
                (store.snapshots.snapshot(n) for n in store.snapshots.list_ids() if n < newest.id),
                key=lambda snapshot: snapshot.id,
                default=None,
            )
        names = set(self._line(None if newest is None else newest.uuid))
        line = [self.nodes[each] for each in names]
        counts = Counter((node.user, node.identifier, node.kind) for node in line)
        twice = [each for each, n in counts.items() if n > 1 and not self._is_forgotten(each[0])]
        assert not twice, f"committed twice: {twice}"
        # A commit on top of one that was late for a dropped table is not promised.
        # Nor is a table that an alteration beside a rename made of the old name.
        is_alone = not all(map(catalog.table_exists, (OTHER_NAME, TABLE)))
        is_promised = is_alone and not self._has("drop")
        if newest is not None and is_promised:
            self._check_rows(table, newest)
        else:
            # A commit may have found either of two tables; one without an answer may name a base
            # that is not there.
            roots = [root for path, root in self.roots.items() if "/t/snapshot/" in path]
            there = {root.snapshot.uuid for root in roots}
            self._check_dropped(names if is_alone else names | there, there)
        for record in self.records if is_promised else ():
            self._check_record(record, names)
            if record.task.name == "erase" and record.outcome == "done":
                self._check_erased(record)
        ingested = sum(node.user == ledger.property_of(SOURCE) for node in line)
        try:
            counted = ledger.load_ledger(table, SOURCE).generation
        except PaimonError as error:
            if (
                is_promised and not may_fail
            ):  # else the first run was killed, and the snapshots before expired
                raise AssertionError(f"the ledger is lost: {error}") from error
        else:
            assert is_gap or counted == ingested, (
                f"{ingested} files are ingested, the ledger has {counted}"
            )
        if is_promised:
            self._check_tag(self.world.path_of(store.paths.tag(TAG)))
            self._check_followed(table, may_fail=may_fail)
        if name == TABLE and is_promised:
            self._go_on(may_fail=may_fail, is_gap=is_gap)

    def _check_lost(self) -> None:
        """Raise if a state that was there before is gone, and no task deletes states."""
        # HDFS has no step that replaces a file: an erasure that dies there leaves a hidden one.
        may_be_hidden = self.world.kind is Kind.HDFS and any(
            record.task.name == "erase" and record.stumbled for record in self.records
        )
        deletes = self._is_moving or self._has(
            "expire", "rollback", "undo", "forward", "revert", "untag"
        )
        lost = self.first - self.roots.keys()
        assert not lost or deletes or may_be_hidden, f"{lost} are lost"

    def _check_tag(self, path: str) -> None:
        """Raise if a tag is back, or names the snapshot of before."""
        changes = [r for r in self.records if r.task.name in ("untag", "retag")]
        last = max(changes, key=self._end_of, default=None)
        if (
            last is None
            or last.outcome != "done"
            or self._has("rollback", "undo", "forward", "revert")
        ):
            return
        if not any(r is not last and self._end_of(r) > last.began for r in changes):
            root = self.roots.get(path)
            found = None if root is None else root.snapshot.id
            expected = NAMED if last.task.name == "retag" else None
            assert found == expected, f"tag '{TAG}' names {found}, not {expected}"

    def _is_forgotten(self, user: str) -> bool:
        """Whether a task that is tried again could not see its commit: it expired, or was promoted.

        The preview is discarded then, and the next one begins with the promoted snapshot.
        """
        record = next((r for r in self.records if r.task.user == user), None)
        return (
            record is not None
            and record.stumbled
            and (
                record.task.name == "promote"
                or any(r.task.name == "expire" and self._overlap(r, record) for r in self.records)
            )
        )

    def _line(self, name: str | None) -> Iterator[str | None]:
        while name in self.nodes:
            yield name
            name = self.nodes[name].parent

    def _check_dropped(self, line: set[str | None], there: set[str | None]) -> None:
        """Raise if a commit is in a table that was made after it, or lost by its own.

        A commit beside the drop may be in both for some time, and carry later ones away with it.
        """
        drops = [record for record in self.records if record.task.name == "drop"]
        commits = [(r, r.value) for r in self.records if isinstance(r.value, Snapshot)]
        order = [(each.began, each.ended or 0) for each in drops]
        is_disjoint = all(
            record in drops
            or (not record.stumbled and (ended < record.began or (record.ended or 0) < began))
            for began, ended in order
            for record in self.records
        )
        for record, made in commits if all(each.outcome == "done" for each in drops) else ():
            is_there = made.uuid in line
            if any((record.ended or 0) < began for began, _ in order):
                assert made.uuid not in there, (
                    f"'{record.task.user}' outlived the drop of its table"
                )
            elif is_disjoint and not any(
                self._may_undo(other, record) for other in self.records if other not in drops
            ):
                assert is_there, f"'{record.task.user}' was acknowledged, and is lost"

    def _check_record(self, record: Record, line: set[str | None]) -> None:
        if isinstance(record.value, Snapshot) and record.outcome == "done":
            is_there = record.value.uuid in line
            rivals = self.records
            if record.task.name in ("rollback", "undo"):  # a killed expiration may not put it back
                rivals = [r for r in rivals if r.task.name == "expire" and r.stumbled]
            undone = any(self._may_undo(other, record) for other in rivals)
            assert undone or is_there, f"'{record.task.user}' was acknowledged, and is lost"
        # A promotion is several steps: it may publish before storage fails, or the table moves.
        may_be_promoted = record.task.name == "promote" and (record.stumbled or self._is_moving)
        # So may a put without an answer, once the commit that had its name has withdrawn it.
        if record.outcome == "refused" and not (may_be_promoted or self.world.store.was_late):
            users = {self.nodes[name].user for name in line} | {
                root.snapshot.commit_user
                for path, root in self.roots.items()
                if "/branch-pr-" not in path  # a refused promotion leaves its preview
            }
            assert record.task.user not in users, f"'{record.task.user}' was refused, and is there"

    def _check_erased(self, record: Record) -> None:
        """Raise if a row is in a file that a state of before needs."""
        for path, root in self.roots.items():
            table = _match(path)["table"]
            if self.nodes[root.snapshot.uuid].made < record.began:
                for name in root.data:
                    data = self.world.store.file(f"{table}/{name}").data
                    keys = pq.read_table(io.BytesIO(data), columns=["id"])["id"].to_pylist()
                    assert SHARED not in keys, f"{path} needs {name}, which has an erased row"

    def _check_followed(self, table: Table, *, may_fail: bool) -> None:
        if any(record.task.name == "rename" and record.stumbled for record in self.records):
            repair(table._store)  # a commit beside it found no table, and it died before it looked
        try:
            if self._has("erase") or not self.world.store.has_failed:
                self._check_hinted(table._store)
        except AssertionError:
            erasures = [record for record in self.records if record.task.name == "erase"]
            is_alone = not any(
                record is not other and self._overlap(record, other)
                for record in erasures
                for other in self.records
            )
            if not erasures or (is_alone and not may_fail):
                raise
            self.is_erased_again = True
            catalog = open_catalog(self.world.kind.value)
            OPERATIONS["erase"].perform(catalog, erasures[0].task)

    def _go_on(self, *, may_fail: bool, is_gap: bool) -> None:
        """Write once more: nothing blocks the table, except files of a dead writer."""
        try:
            task = Task("append", 9_999)
            catalog = open_catalog(self.world.kind.value)
            OPERATIONS["append"].perform(catalog, task)
            self._check_hinted(catalog.get_table(TABLE)._store)
        except PaimonError as error:
            # The writer of its base may have withdrawn that one's lists: a file is missing then.
            if not (is_gap or (may_fail and error.kind == "snapshot-gap")):
                raise AssertionError(f"nothing can be written any more: {error}") from error

    def _check_hinted(self, store: FileStore) -> None:
        """Raise unless Iceberg's readers see the newest commit."""
        if not writes_iceberg(store):
            return
        folder = self.world.path_of(metadata_directory(store))
        document, newest = self.documents.hint_target(folder), store.snapshots.latest()
        assert document is not None, f"readers of {folder} are led nowhere"
        assert newest is not None, f"there is no snapshot beside {folder}"
        assert is_of(document["snapshots"][-1], newest), f"{folder} is behind {newest.id}"
        self._document_changed(f"{folder}/v{newest.id}.metadata.json", folder.rpartition("/")[0])


def _match(path: str) -> re.Match[str]:
    match = _ROOT.fullmatch(path)
    assert match is not None
    return match


def _order(match: re.Match[str]) -> tuple[str, str, int]:
    name = match["name"]
    return match["branch"] or "", match["kind"], int(name) if name.isdigit() else 0


def rows_in(table: Table, snapshot_id: int) -> list[tuple[Any, Any]]:
    found = table.new_read_builder().at_snapshot(snapshot_id).to_arrow(EXECUTOR)
    columns = (found["id"].to_pylist(), found["v"].to_pylist())
    return sorted(zip(*columns, strict=True))
