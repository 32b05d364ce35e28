"""Tables over REST as a writer uses them: files by the engine, the snapshot by the server."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from paimon_assets import CommitUnknownError, EmbeddedExecutor, Snapshot, Table
from paimon_assets.engine.codec.json.metadata_json import snapshot_to_json
from paimon_assets.engine.control.catalog.managed import CatalogEnvironment
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.fileio.local import LocalFileIO
from tests.testkit.rest_server import RestClient

FIELDS = [
    {"id": 0, "name": "id", "type": "INT NOT NULL"},
    {"id": 1, "name": "text", "type": "STRING"},
]


def table_body(name: str, database: str = "db", **schema: Any) -> dict[str, Any]:
    """The body that creates a table of (id, text)."""
    plain = {"fields": FIELDS, "partitionKeys": [], "primaryKeys": [], "options": {}}
    return {"identifier": {"database": database, "object": name}, "schema": {**plain, **schema}}


def created(client: RestClient, name: str, database: str = "db", **schema: Any) -> Any:
    answer = client.post(f"databases/{database}/tables", table_body(name, database, **schema))
    assert (answer.status, answer.body) == (200, b""), answer.body
    return client.get(f"databases/{database}/tables/{name}").json


def commit_body(table: Mapping[str, Any], snapshot: Snapshot, **others: Any) -> dict[str, Any]:
    members = json.loads(snapshot_to_json(snapshot))
    return {"tableId": table["id"], "snapshot": members, "statistics": [], **others}


class Posted:
    """The last step of a commit, by the server. Counts what it lost."""

    def __init__(self, client: RestClient, table: Mapping[str, Any], branch: str = "") -> None:
        self._client = client
        self._table = table
        suffix = f"%24branch_{branch}" if branch else ""
        self._path = f"databases/{table['database']}/tables/{table['name']}{suffix}/commit"
        self.lost = 0

    def commit(self, snapshot: Snapshot, base_uuid: str | None, statistics: Sequence[Any]) -> bool:
        body = commit_body(self._table, snapshot, baseSnapshotUuid=base_uuid)
        try:
            answer = self._client.post(self._path, body)
        except OSError as error:
            raise CommitUnknownError("no answer") from error
        if answer.status != 200:
            raise CommitUnknownError(f"{answer.status} {answer.body!r}")
        self.lost += not answer.json["success"]
        return bool(answer.json["success"])


class PostedEnvironment(CatalogEnvironment):
    """Directories are read; the server publishes."""

    posted: Posted

    def publish(self, file_io: Any, paths: Any, *what: Any) -> bool:
        return self.posted.commit(*what)


def open_posted(client: RestClient, table: Mapping[str, Any]) -> tuple[Table, Posted]:
    """Open a table whose snapshots the server publishes."""
    environment = PostedEnvironment()
    posted = Posted(client, table)
    object.__setattr__(environment, "posted", posted)
    store = FileStore.open(LocalFileIO(), table["path"], name=table["name"])
    return Table(
        FileStore(
            file_io=store.file_io,
            table_path=store.table_path,
            schema=store.schema,
            name=store.name,
            environment=environment,
        )
    ), posted


def rows(*ids: int) -> pa.Table:
    fields: list[pa.Field[Any]] = [
        pa.field("id", pa.int32(), nullable=False),
        pa.field("text", pa.string()),
    ]
    return pa.table(
        [pa.array(ids, pa.int32()), pa.array([f"x{number}" for number in ids])],
        schema=pa.schema(fields),
    )


def write(table: Table, *ids: int) -> Snapshot:
    snapshot = table.new_write_builder().write(rows(*ids), EmbeddedExecutor()).snapshot
    assert snapshot is not None
    return snapshot


def ids_of(table: Table) -> list[Any]:
    found: list[Any] = table.new_read_builder().to_arrow()["id"].to_pylist()
    return sorted(found)


class Unpublished:
    """Keeps the snapshot back that a commit was about to publish."""

    def __init__(self) -> None:
        self.snapshot: Snapshot | None = None

    def commit(self, snapshot: Snapshot, base_uuid: str | None, statistics: Sequence[Any]) -> bool:
        self.snapshot = snapshot
        raise KeyboardInterrupt


def prepared(table: Mapping[str, Any], *ids: int, branch: str = "main") -> Snapshot:
    """Write all of a commit but its snapshot, and return that."""
    environment, kept = PostedEnvironment(), Unpublished()
    object.__setattr__(environment, "posted", kept)
    store = FileStore.open(
        LocalFileIO(), table["path"], options={"branch": branch}, name=table["name"]
    )
    held = FileStore(
        file_io=store.file_io,
        table_path=store.table_path,
        schema=store.schema,
        name=store.name,
        environment=environment,
    )
    try:
        write(Table(held), *ids)
    except KeyboardInterrupt:
        assert kept.snapshot is not None
        return kept.snapshot
    raise AssertionError("it was committed")
