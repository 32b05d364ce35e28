"""A table that another process drops and creates again is not read through an old handle."""

from uuid import uuid4

import pyarrow as pa
import pytest
from msgspec.structs import replace

from paimon_assets import NotFoundError, Schema, add_column, open_catalog
from paimon_assets.engine.codec.json.metadata_json import snapshot_to_json
from paimon_assets.engine.table.upkeep.maintenance import MaintenanceTask
from tests.testkit.faults.writers import fork_server
from tests.testkit.s3_server import BUCKET, s3_server

APPEND = Schema.of({"id": "BIGINT"})
KEYED = Schema.of({"id": "BIGINT"}, primary_keys=["id"], options={"bucket": "1"})
ONE = pa.table({"id": [1]})
MAINTENANCE = (MaintenanceTask.EXPIRE_SNAPSHOTS, MaintenanceTask.CLEAN_ORPHANS)


def _tag(table):
    table.tags.create("new", 1)


def _run(task):
    def run(table):
        replace(table.maintenance(), orphans_older_than_ms=0, expire_before=2).run(task)

    return run


OPERATIONS = {
    "read": lambda t: t.to_arrow(),
    "read a snapshot": lambda t: t.new_read_builder().at_snapshot(1).to_arrow(),
    "read a tag": lambda t: t.new_read_builder().at_tag("kept").to_arrow(),
    "count": lambda t: t.count(),
    "count a filter": lambda t: t.count("id = 1"),
    "tag": _tag,
    "delete a tag": lambda t: t.tags.delete("kept"),
    "newest snapshot": lambda t: t.latest_snapshot(),
    **{str(task): _run(task) for task in MAINTENANCE},
}


def create(warehouse, options, schema, name, commits):
    """Create a table with one tag, in this process or in another one."""
    catalog = open_catalog(warehouse, options)
    catalog.create_database("d", ignore_if_exists=True)
    catalog.drop_table(f"d.{name}", ignore_if_missing=True)
    table = catalog.create_table(f"d.{name}", schema)
    for _ in range(commits):
        table.new_write_builder().write(ONE)
    if commits:
        table.tags.create("kept", 1)
    return table


@pytest.fixture(scope="module", params=["local", "s3"])
def warehouse(request, tmp_path_factory):
    if request.param == "local":
        yield str(tmp_path_factory.mktemp("warehouse")), {}
        return
    with s3_server() as options:
        yield f"s3://{BUCKET}/again", options


def _tree(table):
    """Return the files of a table."""
    file_io, folders = table.state.file_io, [table.path]
    files = set()
    while folders:
        for status in file_io.list_directory(folders.pop()):
            (folders.append if status.is_directory else files.add)(status.path)
    return files


@pytest.mark.parametrize("by", ["this engine", "another engine"])
@pytest.mark.parametrize("schemas", [(APPEND, KEYED), (KEYED, APPEND), (APPEND, APPEND)])
def test_old_handle_does_not_touch_recreated_table(schemas, by, warehouse):
    for commits in (3, 0):
        handles = {name: create(*warehouse, schemas[0], "t", 3) for name in ("used", "unused")}
        handles["used"] = open_catalog(*warehouse).get_table("d.t")
        assert handles["used"].count() == 3 if schemas[0] is APPEND else 1
        context = fork_server()
        other = context.Process(target=create, args=(*warehouse, schemas[1], "t", commits))
        other.start()
        other.join(120)
        new = open_catalog(*warehouse).get_table("d.t")
        if by == "another engine":
            _forget_properties(new)
        new.state.file_io.write_bytes(f"{new.path}/bucket-0/data-{uuid4()}-0.parquet", b"")
        files = _tree(new)
        for table in handles.values():
            for name, operation in OPERATIONS.items():
                if commits or "tag" not in name:
                    with pytest.raises(NotFoundError, match="dropped or renamed meanwhile"):
                        operation(table)
        assert _tree(new) == files
        assert new.count() == (commits if schemas[1] is APPEND else min(commits, 1))


def _forget_properties(table):
    """Let snapshots be as those of an engine that does not name their schema."""
    for snapshot in table.snapshots():
        path = table._store.paths.snapshot(snapshot.id)
        data = snapshot_to_json(replace(snapshot, properties={}))
        table.state.file_io.replace(path, data)


def test_open_handle_continues_after_any_foreign_change(warehouse):
    table = create(*warehouse, APPEND, "stays", 1)
    reader = open_catalog(*warehouse).get_table("d.stays")
    writer = open_catalog(*warehouse).get_table("d.stays")
    writer.alter([add_column("more", "INT")])
    writer = open_catalog(*warehouse).get_table("d.stays")
    writer.append(ONE.append_column("more", pa.array([1], pa.int32())))
    assert reader.count() == table.count() == 2
    _forget_properties(writer)
    assert [reader.count(), reader.to_arrow().num_rows] == [2, 2]
    assert reader.new_read_builder().at_snapshot(1).to_arrow().num_rows == 1
    writer.branches.create("b", snapshot_id=1)
    writer.branches.fast_forward("b")
    assert open_catalog(*warehouse).get_table("d.stays").count() == 1
