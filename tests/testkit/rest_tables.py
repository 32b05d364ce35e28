"""Tables over REST as a writer uses them: files by the engine, the snapshot by the server."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from paimon_assets import CommitUnknownError, Snapshot, Table
from paimon_assets.engine.codec.json.metadata_json import snapshot_to_json
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.fileio.local import LocalFileIO
from tests.testkit import tables
from tests.testkit.rest_server import RestClient
from tests.testkit.tables import arrow

FIELDS = [
    {"id": 0, "name": "id", "type": "INT NOT NULL"},
    {"id": 1, "name": "text", "type": "STRING"},
]


def table_body(name: str, database: str = "db", **schema: Any) -> dict[str, Any]:
    """The body that creates a table of (id, text)."""
    plain = {"fields": FIELDS, "partitionKeys": [], "primaryKeys": [], "options": {}}
    return {"identifier": {"database": database, "object": name}, "schema": {**plain, **schema}}


def rename_body(source: str, target: str) -> dict[str, Any]:
    """The body that renames a table or view, of names with their databases."""
    names = {"source": source, "destination": target}
    parts = {key: name.partition(".") for key, name in names.items()}
    return {key: {"database": part[0], "object": part[2]} for key, part in parts.items()}


def created(client: RestClient, name: str, database: str = "db", **schema: Any) -> Any:
    answer = client.post(f"databases/{database}/tables", table_body(name, database, **schema))
    assert (answer.status, answer.body) == (200, b""), answer.body
    return client.get(f"databases/{database}/tables/{name}").json


def commit_body(table: Mapping[str, Any], snapshot: Snapshot, **more: Any) -> dict[str, Any]:
    members = json.loads(snapshot_to_json(snapshot))
    return {"tableId": table["id"], "snapshot": members, "statistics": [], **more}


class Posted:
    """The last step of a commit, by the server. Counts lost answers."""

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


class PostedStore(FileStore):
    """Directories are read; the server publishes."""

    posted: Any = None

    def publish(self, *changes: Any) -> bool:
        return bool(self.posted.commit(*changes))


def _posting(table: Mapping[str, Any], posted: Any, branch: str = "main") -> Table:
    options = {"branch": branch}
    store = FileStore.open(LocalFileIO(), table["path"], options=options, name=table["name"])
    return Table(
        PostedStore(
            file_io=store.file_io,
            table_path=store.table_path,
            schema=store.schema,
            name=store.name,
            posted=posted,
        )
    )


def open_posted(client: RestClient, table: Mapping[str, Any]) -> tuple[Table, Posted]:
    """Open a table whose snapshots the server publishes."""
    posted = Posted(client, table)
    return _posting(table, posted), posted


def rows(*ids: int) -> pa.Table:
    columns = {"id": "INT NOT NULL", "text": "STRING"}
    return arrow(columns, *((number, f"x{number}") for number in ids))


def write(table: Table, *ids: int) -> Snapshot:
    snapshot: Snapshot = tables.write(table, rows(*ids))
    return snapshot


def ids_of(table: Table) -> list[Any]:
    return [number for (number,) in tables.read(table, ["id"])]


class Unpublished:
    """Keeps the snapshot back that a commit was about to publish."""

    def __init__(self) -> None:
        self.snapshot: Snapshot | None = None

    def commit(self, snapshot: Snapshot, base_uuid: str | None, statistics: Sequence[Any]) -> bool:
        self.snapshot = snapshot
        raise KeyboardInterrupt


def prepared(table: Mapping[str, Any], *ids: int, branch: str = "main") -> Snapshot:
    """Write all of a commit but its snapshot, and return that."""
    kept = Unpublished()
    try:
        write(_posting(table, kept, branch), *ids)
    except KeyboardInterrupt:
        assert kept.snapshot is not None
        return kept.snapshot
    raise AssertionError("it was committed")
