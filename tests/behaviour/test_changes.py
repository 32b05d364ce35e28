"""Every executor returns the same changes."""

import pyarrow as pa
import pytest
from msgspec.structs import replace

from paimon_assets import NotFoundError, Schema
from paimon_assets.engine.codec.json.metadata_json import snapshot_to_json
from paimon_assets.engine.fileio.local import LocalFileIO

EVENTS = (
    [(1, "a", 10, "+I"), (2, "b", 20, "+I")],
    [(1, "a", 10, "-U"), (3, "a", 30, "+I")],
    [(1, "a", 15, "+U"), (2, "b", 20, "-D")],
)


@pytest.fixture
def table(runner, new_catalog):
    made = new_catalog.create_table(
        "db.t",
        Schema.of(
            {"id": "BIGINT", "p": "STRING", "v": "BIGINT", "kind": "STRING"},
            primary_keys=["id", "p"],
            partition_keys=["p"],
            options={"bucket": "1", "rowkind.field": "kind"},
        ),
    )
    for events in EVENTS:
        rows = [dict(zip(made.schema.field_names, event, strict=True)) for event in events]
        data = runner.as_rows(pa.Table.from_pylist(rows))
        snapshot = made.new_write_builder().write(data, runner.executor).snapshot
        told = replace(snapshot, changelog_manifest_list=snapshot.delta_manifest_list)
        path = f"{made.path}/snapshot/snapshot-{snapshot.id}"
        LocalFileIO().replace(path, snapshot_to_json(told))
    return made


def test_changes_carry_their_kinds(runner, table):
    wanted = {
        "delta": [("+I", 3, 30), ("+U", 1, 15), ("-D", 2, 20), ("-U", 1, 10)],
        "diff": [("+I", 3, 30), ("+U", 1, 15), ("-D", 2, 20)],
        "changelog": [("+I", 3, 30), ("+U", 1, 15), ("-D", 2, 20), ("-U", 1, 10)],
    }
    for mode, rows in wanted.items():
        read = table.new_read_builder().between(1, 3, mode).with_columns(["id", "v"])
        found = read.with_row_kinds().to_arrow(runner.executor)
        assert sorted(tuple(row.values()) for row in found.to_pylist()) == rows
        for frame in runner.frames(read.with_row_kinds(), table)[:1]:
            assert sorted(map(tuple, frame.collect())) == rows


def test_snapshot_that_expired_is_named(runner, table):
    read = table.new_read_builder().at_snapshot(1)
    plan = read.plan()
    for entry in table.state.live_files(table.snapshot(1)):
        LocalFileIO().delete_file(table.state.file_path(entry))
    LocalFileIO().delete_file(f"{table.path}/snapshot/snapshot-1")
    with pytest.raises(NotFoundError, match="expired while it was read") as caught:
        read.read(plan, runner.executor).read_all()
    assert caught.value.kind == "snapshot-expired"
