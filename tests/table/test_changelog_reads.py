"""Reads of changelog files, streaming splits, audit_log and binlog: every change counts."""

from dataclasses import replace

import pyarrow as pa
import pytest

from paimon_assets.engine.codec.json.metadata_json import snapshot_to_json
from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.errors import NotFoundError, UnsupportedFeatureError
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.schema.schema import Schema

EXECUTOR = EmbeddedExecutor(threads=2)
OPTIONS = {"bucket": "1", "rowkind.field": "kind", "merge-engine": "aggregation"}
EVENTS = (
    [(1, 10, "+I"), (2, 20, "+I")],
    [(1, 10, "-U"), (3, 30, "+I")],
    [(1, 15, "+U"), (2, 20, "-D")],
)


@pytest.fixture
def table(catalog):
    """A table whose delta files are its changelog files too, as `changelog-producer` = input."""
    made = catalog.create_table(
        "db.t",
        Schema.of(
            {"id": "BIGINT", "v": "BIGINT", "kind": "STRING"},
            primary_keys=["id"],
            options={**OPTIONS, "fields.v.aggregate-function": "sum"},
        ),
    )
    for rows in EVENTS:
        columns = [[row[number] for row in rows] for number in range(3)]
        data = pa.table(dict(zip(("id", "v", "kind"), columns, strict=True)))
        snapshot = made.new_write_builder().write(data, EXECUTOR).snapshot
        with_changelog = replace(snapshot, changelog_manifest_list=snapshot.delta_manifest_list)
        path = f"{made.path}/snapshot/snapshot-{snapshot.id}"
        LocalFileIO().replace(path, snapshot_to_json(with_changelog))
    return made


def told(builder):
    found = builder.with_columns(["id", "v"]).to_arrow(EXECUTOR).to_pylist()
    return [tuple(row.values()) for row in found]


def test_with_kinds_every_change_is_told_in_the_order_it_happened(table):
    changes = table.new_read_builder().between(0, 3, "changelog").with_row_kinds()
    assert told(changes) == [
        ("+I", 1, 10), ("+I", 2, 20), ("-U", 1, 10), ("+I", 3, 30), ("+U", 1, 15), ("-D", 2, 20)
    ]  # fmt: skip
    assert all(split.is_streaming for split in changes.plan().splits)


def test_without_kinds_the_last_row_of_a_key_is_told_as_it_is(table):
    assert told(table.new_read_builder().between(0, 3, "changelog")) == [(1, 15), (3, 30)]


def test_a_streaming_split_needs_the_column_of_kinds(table):
    plan = table.new_read_builder().between(0, 3, "changelog").with_row_kinds().plan()
    context = replace(plan.context, columns=("id",))
    with pytest.raises(UnsupportedFeatureError, match="column 'rowkind'"):
        list(EXECUTOR.map_splits(context, plan.splits))


def test_the_mode_follows_from_the_producer(table):
    audit = table.copy({"changelog-producer": "lookup", "incremental-between": "1,3"})
    found = audit.system_table("audit_log").to_arrow().select(["rowkind", "id"]).to_pylist()
    assert [tuple(row.values()) for row in found] == [("-U", 1), ("+I", 3), ("+U", 1), ("-D", 2)]


def test_a_changelog_outlives_its_snapshot(table):
    storage, path = LocalFileIO(), table.path
    changes = table.new_read_builder().between(1, 3, "changelog").with_row_kinds()
    for number in (1, 2):
        data = storage.read_bytes(f"{path}/snapshot/snapshot-{number}")
        storage.delete_file(f"{path}/snapshot/snapshot-{number}")
    with pytest.raises(NotFoundError, match="snapshot 2 has expired; the oldest is 3"):
        changes.plan()
    storage.write_bytes(f"{path}/changelog/changelog-2", data)
    assert told(changes) == [("-U", 1, 10), ("+I", 3, 30), ("+U", 1, 15), ("-D", 2, 20)]


@pytest.mark.parametrize("batch_rows", [1, 2, 4096])
def test_binlog_tells_an_update_as_one_row(table, batch_rows):
    options = {"incremental-between": "1,3", "incremental-between-scan-mode": "changelog"}
    several = {"read.batch-size": str(batch_rows)}
    binlog = table.copy({**options, **several}).system_table("binlog")
    found = binlog.to_arrow()
    assert found.schema == binlog.arrow_schema
    rows = [tuple(row.values())[:3] for row in found.to_pylist()]
    # The -U of key 1 and its +U lie in two commits, with another row between them.
    assert rows == [("-U", [1], [10]), ("+I", [3], [30]), ("+U", [1], [15]), ("-D", [2], [20])]


def test_binlog_packs_neighbours(catalog):
    made = catalog.create_table(
        "db.p",
        Schema.of(
            {"id": "BIGINT", "v": "BIGINT", "kind": "STRING"},
            primary_keys=["v"],
            options={"bucket": "1", "rowkind.field": "kind"},
        ),
    )
    data = pa.table({"id": [7, 7, 8], "v": [1, 2, 3], "kind": ["-U", "+U", "-U"]})
    made.new_write_builder().write(data, EXECUTOR)
    for options in ({}, {"read.batch-size": "1"}):
        found = made.copy(options).system_table("binlog").to_arrow().to_pylist()
        assert [tuple(row.values())[:3] for row in found] == [
            ("+U", [7, 7], [1, 2]), ("-U", [8], [3])
        ]  # fmt: skip
