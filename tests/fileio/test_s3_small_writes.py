"""Small writes on S3: files go up while the storage is asked whether anything has changed."""

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pyarrow as pa
import pytest

from paimon_assets.engine import errors
from paimon_assets.engine.control.commit import file_store_commit
from paimon_assets.engine.control.managers import snapshot_manager
from paimon_assets.engine.fileio import request_planner
from paimon_assets.engine.spec.evolution.schema_change import add_column
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.table.api import open_catalog, open_table
from tests.testkit.effort import often
from tests.testkit.http_servers import CountingProxy
from tests.testkit.s3_server import BUCKET

COLUMNS = {"id": "BIGINT NOT NULL", "v": "BIGINT"}
KEYED = Schema.of(COLUMNS, primary_keys=["id"], options={"bucket": "1"})


class _Held(CountingProxy):
    """Answers a listing only when four files have come."""

    waits = False

    def __init__(self, upstream):
        super().__init__(upstream)
        self.files = threading.Semaphore(0)

    def answer(self, handler, body):
        if self.waits and "list-type" in handler.path:
            self.waits = False
            for _ in range(4):
                assert self.files.acquire(timeout=30)
        super().answer(handler, body)
        if handler.command == "PUT":
            self.files.release()


@pytest.fixture
def holding(server):
    with _Held(server["s3.endpoint"]).running() as proxy:
        yield proxy


def _append(table, *rows, overwrites=False):
    columns = table.schema.field_names
    values = [[row[0] for row in rows], [row[1] for row in rows]]
    values += [[None] * len(rows)] * (len(columns) - 2)
    frame = pa.table([pa.array(each, pa.int64()) for each in values], names=columns)
    writer = table.new_write_builder()
    return (writer.with_overwrite({}) if overwrites else writer).write(frame)


def _rows(path, options):
    read = open_table(path, options).new_read_builder().with_columns(["id", "v"]).to_arrow()
    return sorted(zip(*read.to_pydict().values(), strict=True))


@pytest.mark.parametrize("keyed", [False, True])
def test_small_write_uploads_all_files_at_once(server, holding, keyed):
    catalog = open_catalog(f"s3://{BUCKET}/held{keyed:d}", {**server, "s3.endpoint": holding.uri})
    catalog.create_database("d", ignore_if_exists=True)
    table = catalog.create_table("d.t", KEYED if keyed else Schema.of(COLUMNS))
    for number in range(2):
        _append(table, (number, number))
    holding.files, holding.waits = threading.Semaphore(0), True
    _append(table, (2, 2))
    assert not holding.waits
    assert _rows(table.path, server) == [(0, 0), (1, 1), (2, 2)]


@pytest.mark.parametrize("keyed", [False, True])
def test_newer_snapshot_rewrites_lists_and_numbered_rows(server, holding, keyed, monkeypatch):
    path = f"s3://{BUCKET}/newer{keyed:d}"
    catalog = open_catalog(path, {**server, "s3.endpoint": holding.uri})
    catalog.create_database("d", ignore_if_exists=True)
    table = catalog.create_table("d.t", KEYED if keyed else Schema.of(COLUMNS))
    for number in range(2):
        _append(table, (1, number))
    _append(open_catalog(path, server).get_table("d.t"), (1, 8))
    monkeypatch.setattr(snapshot_manager, "_NEWEST_SEEN", {("s3", f"{table.path}/snapshot"): 2})
    with holding.counting() as counts:
        assert _append(table, (1, 9)).snapshot.id == 4
    puts = [text.rpartition("/")[2] for *_, text in counts.requests if text.startswith("PUT")]
    data, lists = (len([n for n in puts if n.startswith(x)]) for x in ("data-", "manifest-list-"))
    assert (data, lists, "LATEST" in puts) == (1 + keyed, 4, True), puts
    expected = [(1, 9)] if keyed else [(1, 0), (1, 1), (1, 8), (1, 9)]
    assert _rows(table.path, server) == expected


def test_write_builds_on_snapshot_of_other_thread(server, holding, monkeypatch):
    options = {**server, "s3.endpoint": holding.uri}
    catalog = open_catalog(f"s3://{BUCKET}/later", options)
    catalog.create_database("d", ignore_if_exists=True)
    table = catalog.create_table("d.t", Schema.of(COLUMNS))
    for number in range(2):
        _append(table, (number, 0))
    other = open_catalog(f"s3://{BUCKET}/later", options).get_table("d.t")
    is_first = True

    @contextmanager
    def turn(_):
        nonlocal is_first
        is_now, is_first = is_first, False
        if is_now:
            with ThreadPoolExecutor(1) as thread:
                thread.submit(_append, other, (2, 0)).result()
        yield

    monkeypatch.setattr(file_store_commit, "_turn", turn)
    with holding.counting() as counts:
        assert _append(table, (3, 0)).snapshot.id == 4
    puts = [text.rpartition("/")[2] for *_, text in counts.requests if text.startswith("PUT")]
    kinds = ("data-", "manifest-", "manifest-list-", "snapshot-")
    assert [sum(name.startswith(kind) for name in puts) for kind in kinds] == [2, 6, 4, 2], puts
    assert _rows(table.path, server) == [(number, 0) for number in range(4)]


@pytest.mark.parametrize("schema", [KEYED, Schema.of(COLUMNS)], ids=["keyed", "append"])
def test_first_append_builds_on_first_snapshot_of_other_process(
    server, holding, schema, monkeypatch
):
    path, options = f"s3://{BUCKET}/first", {**server, "s3.endpoint": holding.uri}
    catalog = open_catalog(path, options)
    catalog.create_database("d", ignore_if_exists=True)
    table = catalog.create_table(f"d.t{len(schema.primary_keys)}", schema)
    monkeypatch.setattr(request_planner, "_SMALL", {})
    _append(open_table(table.path, server), (0, 0))
    monkeypatch.setattr(request_planner, "_SMALL", {})
    monkeypatch.setattr(snapshot_manager, "_NEWEST_SEEN", {("s3", f"{table.path}/snapshot"): 0})
    with holding.counting() as counts:
        assert _append(table, (1, 1)).snapshot.id == 2
    names = [text.rpartition("/")[2] for *_, text in counts.requests if text.startswith("PUT")]
    assert sum(name.startswith("manifest-list-") for name in names) == 4, "two on a guess"
    assert _rows(table.path, server) == [(0, 0), (1, 1)]


@pytest.mark.parametrize("seed", range(often(6)))
def test_alternating_processes_write_as_one(server, seed, monkeypatch):
    """Each has a memory, so none knows of the other's commits before it asks."""
    draw, path = random.Random(seed), f"s3://{BUCKET}/turns{seed}"  # noqa: S311
    keyed = draw.random() < 0.6
    catalogs = [open_catalog(path, server) for _ in range(2)]
    catalogs[0].create_database("d", ignore_if_exists=True)
    catalogs[0].create_table("d.t", KEYED if keyed else Schema.of(COLUMNS))
    tables = [each.get_table("d.t") for each in catalogs]
    memories = {}, {}
    rows, states, added = [], {}, 0
    for number in range(30):
        process = draw.randrange(2)
        table = tables[process]
        monkeypatch.setattr(request_planner, "_SMALL", memories[process])
        action = draw.choice(["write"] * 6 + ["overwrite", "compact", "alter", "rollback"])
        if action == "write":
            key = draw.randrange(3)
            rows = [row for row in rows if not keyed or row[0] != key] + [(key, number)]
            _append(table, (key, number))
        elif action == "overwrite":
            rows = [(7, number)]
            _append(table, (7, number), overwrites=True)
        elif action == "compact":
            table.new_compaction_builder().with_strategy("full").run()
        elif action == "alter" and added < 2:
            added += 1
            catalogs[draw.randrange(2)].alter_table("d.t", [add_column(f"c{added}", "BIGINT")])
        elif action == "rollback":
            before = table.latest_snapshot()
            if before is not None and before.id - 1 in states:
                table.rollback_to(before.id - 1)
                rows = states[before.id - 1]
        newest = open_table(table.path, server).latest_snapshot()
        states[0 if newest is None else newest.id] = rows
        assert _rows(table.path, server) == sorted(rows), (number, action)


@pytest.mark.parametrize("name", ["data-*", "manifest-*", "manifest-list-*-1", "manifest-list-*-2"])
def test_snapshots_name_only_stored_files(proxy, faults, name):
    catalog = open_catalog(f"s3://{BUCKET}/refused", proxy[1])
    catalog.create_database("d", ignore_if_exists=True)
    catalog.drop_table("d.t", ignore_if_missing=True)
    table = catalog.create_table("d.t", Schema.of(COLUMNS))
    for number in range(2):
        _append(table, (number, number))
    faults.plan("PUT", f"*/{name}", 403)
    with pytest.raises(errors.StorageError):
        _append(table, (2, 2))
    assert faults.fired
    faults.reset()
    _append(table, (3, 3))
    assert _rows(table.path, proxy[1]) == [(0, 0), (1, 1), (3, 3)]
