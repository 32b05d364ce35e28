"""ServedCatalog: a catalog that owns the newest versions; clients write data and manifests only.

It acts as a server, in this process: names, uuids, newest snapshots and schemas are in its
memory. Paths of tables do not have their names. Forbidden writes are refused at the storage, and
noted in `bypassed`: to write snapshots, schemas, tags, branches or consumers, to read a hint or a
consumer. A false snapshot and schema are above the newest: a reader that trusts a listing
falls over them.
"""

import datetime as dt
import re
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from uuid import uuid4

from msgspec.structs import replace

from paimon_assets import (
    AlreadyExistsError,
    CommitConflictError,
    CommitUnknownError,
    Identifier,
    InvalidInputError,
    NotFoundError,
    Schema,
    SchemaChange,
    Snapshot,
    StorageError,
)
from paimon_assets.engine.codec.json.metadata_json import snapshot_to_json
from paimon_assets.engine.control import rollback
from paimon_assets.engine.control.catalog.catalog import LoadedTable, check_name
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.managers.schema_manager import SchemaManager
from paimon_assets.engine.control.rollback import rollback_schema
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.metadata.snapshot import PartitionStatistics, Tag
from paimon_assets.engine.spec.options.all_options import BRANCH
from paimon_assets.engine.spec.paths import MAIN_BRANCH, TablePaths
from paimon_assets.engine.spec.schema.schema import TableSchema
from tests.testkit.faulty_fileio import WRITES, FaultyFileIO

GHOST = b"nobody's"
_STORAGE = LocalFileIO()
_KEPT = re.compile(
    r"/t-[0-9a-f]{32}(?P<branch>/branch(/branch-[^/]+)?)?"
    r"(/(?P<home>snapshot|schema|tag|consumer)(/(?P<name>.+))?)?"
)


class Answer(StrEnum):
    LOST_BEFORE = "the request is lost"
    LOST_AFTER = "the answer is lost"
    RACE = "another was faster"
    REFUSED = "the server refuses"


@dataclass(slots=True)
class _Served:
    uuid: str
    path: str
    is_external: bool = False
    newest: dict[str, Snapshot] = field(default_factory=dict)
    """Branch → its newest snapshot."""
    consumers: dict[tuple[str, str], int] = field(default_factory=dict)
    """(branch, consumer) → next snapshot."""


class ServedCatalog:
    """A `VersionedCatalog` whose truth is not in the tables' directories."""

    def __init__(self, warehouse: str) -> None:
        self._warehouse = warehouse.rstrip("/")
        self._databases: dict[str, dict[str, _Served]] = {}
        self._lock = threading.RLock()
        self._clients = FaultyFileIO(_STORAGE, before=self._guard)
        self.answers: deque[Answer] = deque()
        """Outcomes of the next commits; after them all succeed."""
        self.meddling: Callable[[], object] | None = None
        """Another writer's operation just before the next commit is judged."""
        self.loses_answer = False
        """Whether the next change of a schema, or new tag, is made without an answer."""
        self.bypassed: list[str] = []
        """Forbidden operations of clients."""
        self.statistics: list[PartitionStatistics] = []
        """The statistics of the last commit."""
        self.is_lost = False
        self.is_silent = False
        """Whether a commit that was lost cannot be looked up either."""
        self.creates_external = False
        """Whether tables to be created manage their versions themselves."""

    def _guard(self, number: int, method: str, path: str) -> None:
        found = _KEPT.search(path)
        if found is None or any(
            served.is_external and path.startswith(served.path)
            for tables in self._databases.values()
            for served in tables.values()
        ):
            return
        home, name = found["home"], found["name"] or ""
        writes = method in WRITES
        expiring = home == "snapshot" and (name == "EARLIEST" or method == "delete_file")
        if home is None:
            is_theirs = not (writes and found["branch"])
        elif writes:
            is_theirs = expiring
        else:
            is_theirs = name != "LATEST" and (home != "consumer" or method == "list_directory")
        if not is_theirs:
            self.bypassed.append(f"{method} {path}")
            raise AssertionError(f"not a client's to do: {method} {path}")

    def list_databases(self) -> list[str]:
        return sorted(self._databases)

    def create_database(self, name: str, *, ignore_if_exists: bool = False) -> None:
        check_name("database", name)
        if name in self._databases and not ignore_if_exists:
            raise AlreadyExistsError(f"Database '{name}' exists already.", kind="database-exists")
        self._databases.setdefault(name, {})

    def drop_database(self, name: str, *, cascade: bool = False) -> None:
        if self._tables(name) and not cascade:
            raise InvalidInputError(
                f"Database '{name}' holds tables; drop it with cascade.", kind="database-not-empty"
            )
        for table in list(self._tables(name)):
            self.drop_table(Identifier(name, table))
        del self._databases[name]

    def list_tables(self, database: str) -> list[str]:
        return sorted(self._tables(database))

    def load_table(
        self, identifier: Identifier, *, newest: TableSchema | None = None
    ) -> LoadedTable:
        with self._lock:
            served = self._serve(identifier)
            return LoadedTable(
                location=served.path,
                schema=self.load_schema(identifier),
                file_io=self._clients,
                uuid=served.uuid,
                versions=None if served.is_external else self,
                audit={"owner": "me", "created_at": 1_700_000_000_000},
            )

    def load_schema(self, identifier: Identifier) -> TableSchema:
        with self._lock:
            served = self._serve(identifier)
            with self._working(served):
                schema = self._schemas(served, identifier.branch).latest()
        if schema is None:
            raise NotFoundError(f"No branch '{identifier.branch}'.", kind="branch-not-found")
        return replace(schema, time_millis=0)

    def create_table(
        self, identifier: Identifier, schema: Schema, *, ignore_if_exists: bool = False
    ) -> TableSchema:
        with self._lock:
            tables = self._tables(identifier.database)
            if identifier.table in tables:
                if ignore_if_exists:
                    return self.load_schema(identifier)
                raise AlreadyExistsError(
                    f"Table '{identifier}' exists already.", kind="table-exists"
                )
            uuid = uuid4().hex
            served = _Served(uuid, f"{self._warehouse}/tables/t-{uuid}", self.creates_external)
            with self._working(served):
                made = self._schemas(served, MAIN_BRANCH).create(schema, time_millis=_now())
            tables[identifier.table] = served
            return made

    def alter_table(self, identifier: Identifier, changes: Sequence[SchemaChange]) -> TableSchema:
        with self._changing(identifier) as served:
            schemas = self._schemas(served, identifier.branch)
            made = schemas.commit_changes(changes, time_millis=_now())
        self._answer()
        return made

    def drop_table(
        self, identifier: Identifier, *, ignore_if_missing: bool = False, cascade: bool = False
    ) -> None:
        with self._lock:
            if ignore_if_missing and identifier.table not in self._tables(identifier.database):
                return
            served = self._serve(identifier)
            del self._databases[identifier.database][identifier.table]
            _STORAGE.delete_directory(served.path)

    def rename_table(self, source: Identifier, target: Identifier) -> None:
        with self._lock:
            served = self._serve(source)
            if target.table in self._tables(target.database):
                raise AlreadyExistsError(f"Table '{target}' exists already.", kind="table-exists")
            del self._databases[source.database][source.table]
            self._databases[target.database][target.table] = served

    def load_snapshot(self, identifier: Identifier) -> Snapshot | None:
        if self.is_silent and self.is_lost:
            raise StorageError("The server does not answer.")
        with self._lock:
            return self._serve(identifier).newest.get(identifier.branch)

    def commit_snapshot(
        self,
        identifier: Identifier,
        table_uuid: str,
        snapshot: Snapshot,
        *,
        base_uuid: str | None,
        statistics: Sequence[PartitionStatistics],
    ) -> bool:
        answer = self.answers.popleft() if self.answers else None
        self.is_lost = answer in (Answer.LOST_BEFORE, Answer.LOST_AFTER)
        if answer is Answer.LOST_BEFORE:
            raise CommitUnknownError("The connection broke.")
        if answer is Answer.REFUSED:
            raise StorageError("The server has no room.")
        if answer is Answer.RACE:
            return False
        meddling, self.meddling = self.meddling, None
        if meddling is not None:
            meddling()
        with self._changing(identifier) as served:
            if served.uuid != table_uuid:
                raise NotFoundError(f"Table '{identifier}' is another.", kind="table-not-found")
            newest = served.newest.get(identifier.branch)
            after, uuid = (0, None) if newest is None else (newest.id, newest.uuid)
            if (after + 1, uuid) != (snapshot.id, base_uuid):
                return False
            path = self._paths(served, identifier.branch).snapshot(snapshot.id)
            assert _STORAGE.publish(path, snapshot_to_json(snapshot))
            served.newest[identifier.branch] = snapshot
            self.statistics = list(statistics)
        if answer is Answer.LOST_AFTER:
            raise CommitUnknownError("The connection broke.")
        return True

    def rollback_to(
        self, identifier: Identifier, target: int | str, *, from_snapshot: int | None = None
    ) -> None:
        with self._changing(identifier) as served:
            newest = served.newest[identifier.branch].id
            if from_snapshot not in (None, newest):
                raise CommitConflictError(f"Snapshot {newest} is the newest.")
            store = self._store(served, identifier.branch)
            if isinstance(target, int):
                rollback.rollback_to_snapshot(store, target)
            else:
                rollback.rollback_to_tag(store, target)
            self._look_again(served)

    def rollback_schema(self, identifier: Identifier, schema_id: int) -> None:
        with self._changing(identifier) as served:
            rollback_schema(self._store(served, identifier.branch), schema_id)
            self._look_again(served)

    def list_tags(self, identifier: Identifier) -> list[str]:
        with self._changing(identifier) as served:
            return [tag.name for tag in self._store(served, identifier.branch).tags.list()]

    def get_tag(self, identifier: Identifier, name: str) -> Tag:
        with self._changing(identifier) as served:
            return self._store(served, identifier.branch).tags.get(name)

    def create_tag(
        self,
        identifier: Identifier,
        name: str,
        snapshot_id: int,
        *,
        time_retained: dt.timedelta | None = None,
    ) -> None:
        with self._changing(identifier) as served:
            store = self._store(served, identifier.branch)
            snapshot = store.snapshots.snapshot(snapshot_id)
            store.tags.create(name, snapshot, time_retained=time_retained)
        self._answer()

    def delete_tag(self, identifier: Identifier, name: str) -> None:
        with self._changing(identifier) as served:
            self._store(served, identifier.branch).tags.delete(name)

    def list_branches(self, identifier: Identifier) -> list[str]:
        with self._changing(identifier) as served:
            return sorted(self._store(served, MAIN_BRANCH).branches.list())

    def create_branch(
        self, identifier: Identifier, name: str, *, from_tag: str | None = None
    ) -> None:
        with self._changing(identifier) as served:
            self._store(served, identifier.branch).branches.create(name, tag=from_tag)
            self._look_again(served)

    def drop_branch(self, identifier: Identifier, name: str) -> None:
        with self._changing(identifier) as served:
            self._store(served, identifier.branch).branches.delete(name)
            served.newest.pop(name, None)

    def fast_forward(self, identifier: Identifier, name: str, *, keeps_main: bool = False) -> None:
        with self._changing(identifier) as served:
            branches = self._store(served, identifier.branch).branches
            branches.fast_forward(name, keeps_main=keeps_main)
            self._look_again(served)

    def list_consumers(self, identifier: Identifier) -> dict[str, int]:
        with self._lock:
            consumers = self._serve(identifier).consumers.items()
        return {name: at for (branch, name), at in consumers if branch == identifier.branch}

    def reset_consumer(
        self, identifier: Identifier, consumer_id: str, next_snapshot: int | None
    ) -> None:
        with self._lock:
            consumers = self._serve(identifier).consumers
            if next_snapshot is None:
                consumers.pop((identifier.branch, consumer_id), None)
            else:
                consumers[identifier.branch, consumer_id] = next_snapshot

    def _answer(self) -> None:
        lost, self.loses_answer = self.loses_answer, False
        if lost:
            raise CommitUnknownError("The connection broke.")

    def _tables(self, database: str) -> dict[str, _Served]:
        if database not in self._databases:
            raise NotFoundError(f"Database '{database}' does not exist.", kind="database-not-found")
        return self._databases[database]

    def _serve(self, identifier: Identifier) -> _Served:
        found = self._tables(identifier.database).get(identifier.table)
        if found is None:
            raise NotFoundError(f"Table '{identifier}' does not exist.", kind="table-not-found")
        return found

    @contextmanager
    def _changing(self, identifier: Identifier) -> Iterator[_Served]:
        with self._lock:
            served = self._serve(identifier)
            with self._working(served):
                yield served

    def _look_again(self, served: _Served) -> None:
        """Take the newest snapshots that a rollback or a branch has left."""
        for branch in self._branches(served):
            newest = self._store(served, branch).snapshots.latest()
            if newest is not None:
                served.newest[branch] = newest

    @contextmanager
    def _working(self, served: _Served) -> Iterator[None]:
        """Work in a directory without the false files, as Paimon's own catalog would leave it."""
        if served.is_external:
            yield
            return
        for branch in self._branches(served):
            for path in self._ghosts(served, branch):
                _STORAGE.delete_file(path)
        try:
            yield
        finally:
            for branch in self._branches(served):
                _STORAGE.delete_file(f"{self._paths(served, branch).snapshot_directory}/LATEST")
                for path in self._ghosts(served, branch):
                    _STORAGE.replace(path, GHOST)

    def _ghosts(self, served: _Served, branch: str) -> list[str]:
        paths, newest = self._paths(served, branch), served.newest.get(branch)
        schemas = self._schemas(served, branch)
        ids = [n for n in schemas.list_ids() if _STORAGE.read_bytes(paths.schema(n)) != GHOST]
        return [
            paths.snapshot(1 if newest is None else newest.id + 1),
            paths.schema(max(ids, default=-1) + 1),
        ]

    def _branches(self, served: _Served) -> list[str]:
        store = [MAIN_BRANCH] if _STORAGE.exists(f"{served.path}/schema") else []
        listed = _STORAGE.list_directory(f"{served.path}/branch")
        return store + [status.name.removeprefix("branch-") for status in listed]

    def _store(self, served: _Served, branch: str) -> FileStore:
        return FileStore.open(_STORAGE, served.path, options={BRANCH.key: branch})

    def _schemas(self, served: _Served, branch: str) -> SchemaManager:
        return SchemaManager(_STORAGE, self._paths(served, branch))

    def _paths(self, served: _Served, branch: str) -> TablePaths:
        return TablePaths(table=served.path, branch=branch)


def _now() -> int:
    return int(dt.datetime.now(dt.UTC).timestamp() * 1000)
