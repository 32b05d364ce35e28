"""Time travel by every kind of target; consumers; expired snapshots."""

import datetime as dt

import pytest
from msgspec.structs import replace

from paimon_assets import InvalidInputError, NotFoundError, Schema
from paimon_assets.engine.codec.json.metadata_json import snapshot_to_json
from paimon_assets.engine.control.manifests import SHARED_CACHE
from paimon_assets.engine.fileio.local import LocalFileIO
from tests.testkit.errors import refused
from tests.testkit.tables import values, write


def change(table, number, **members):
    """Write other members into a snapshot's file."""
    path = f"{table.path}/snapshot/snapshot-{number}"
    LocalFileIO().replace(path, snapshot_to_json(replace(table.snapshot(number), **members)))


@pytest.fixture
def table(catalog):
    made = catalog.create_table("db.t", Schema.of({"id": "BIGINT"}))
    for number in (1, 2, 3):
        write(made, (number,))
        change(made, number, time_millis=number * 10_000, watermark=number * 100)
    made.tags.create("v1", 1)
    made.tags.create("2", 3)
    return made


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, 3),
        ({"scan.mode": "latest-full"}, 3),
        ({"scan.mode": "full"}, 3),
        ({"scan.mode": "compacted-full"}, 3),
        ({"scan.snapshot-id": "2"}, 2),
        ({"scan.mode": "from-snapshot", "scan.snapshot-id": "2"}, 2),
        ({"scan.mode": "from-snapshot-full", "scan.snapshot-id": "1"}, 1),
        ({"scan.tag-name": "v1"}, 1),
        ({"scan.timestamp-millis": "20000"}, 2),
        ({"scan.timestamp": "1970-01-01 00:00:29.999"}, 2),
        ({"scan.timestamp": "1970-01-01T01:00:10+01:00"}, 1),
        ({"scan.mode": "from-timestamp", "scan.timestamp": "10000"}, 1),
        ({"scan.watermark": "100"}, 1),
        ({"scan.watermark": "101"}, 2),
        ({"scan.version": "v1"}, 1),
        ({"scan.version": "2"}, 3),
        ({"scan.version": "1"}, 1),
        ({"scan.version": "watermark-250"}, 3),
    ],
)
def test_time_travel_targets_have_many_forms(table, options, wanted):
    builder = table.new_read_builder().with_options(options)
    assert values(builder) == list(range(1, wanted + 1))
    assert values(table.copy(options).new_read_builder()) == list(range(1, wanted + 1))
    assert builder.plan().snapshot.id == wanted


def test_builder_has_method_for_each_target(table):
    builder = table.new_read_builder()
    for travelled in (
        builder.at_snapshot(2),
        builder.at_timestamp(20_000),
        builder.at_timestamp(dt.datetime.fromtimestamp(20, dt.UTC)),
        builder.at_timestamp("1970-01-01 00:00:20"),
        builder.at_watermark(200),
        builder.at_version("watermark-200"),
    ):
        assert values(travelled) == [1, 2]
    assert values(builder.at_tag("v1")) == [1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scan.snapshot-id": "1", "scan.tag-name": "v1"}, "'scan.snapshot-id', 'scan.tag-name'"),
        ({"scan.snapshot-id": "1", "incremental-between": "1,2"}, "only one of"),
        ({"scan.mode": "from-timestamp"}, "'scan.timestamp', 'scan.timestamp-millis'"),
        ({"scan.mode": "from-timestamp", "scan.snapshot-id": "1"}, "does not go with"),
        ({"scan.mode": "latest-full", "scan.tag-name": "v1"}, "latest-full does not go with"),
        ({"scan.mode": "incremental"}, "needs one of 'incremental-between'"),
        ({"scan.mode": "sideways"}, "expected one of default, latest-full"),
        ({"scan.snapshot-id": "one"}, "scan.snapshot-id"),
        ({"scan.timestamp": "yesterday"}, "such as 2024-01-31 12:00:00"),
        ({"incremental-between": "1"}, "two values with a comma"),
        ({"incremental-between": "1,2,3"}, "two values with a comma"),
    ],
)
def test_contradictions_and_unknown_values_are_refused_by_name(table, options, message):
    with pytest.raises(InvalidInputError, match=message):
        table.new_read_builder().with_options(options).plan()


def test_missing_or_unsupported_target_is_named(table):
    builder = table.new_read_builder()
    with pytest.raises(NotFoundError, match="watermark of 999 or later; the newest is 300"):
        builder.at_watermark(999).plan()
    with pytest.raises(NotFoundError, match="no version 'v9'"):
        builder.at_version("v9").plan()
    with pytest.raises(NotFoundError, match="no branch 'b9'"):
        builder.at_branch("b9").plan()
    with pytest.raises(NotFoundError, match="no snapshot at or before"):
        builder.at_timestamp(9_999).plan()
    with pytest.raises(NotFoundError, match="Snapshot 9 "):
        builder.at_snapshot(9).plan()


def test_compacted_snapshot_is_found(table):
    change(table, 2, commit_kind=type(table.snapshot(2).commit_kind).COMPACT)
    assert values(table.new_read_builder().with_options({"scan.mode": "compacted-full"})) == [1, 2]


def test_branch_is_read_and_written_by_its_name(catalog, table):
    table.branches.create("b", tag="v1")
    branch = catalog.get_table("db.t$branch_b")
    write(branch, (7,))
    assert branch.name == "db.t$branch_b"
    assert values(branch.new_read_builder()) == [1, 7]
    assert values(table.new_read_builder().at_branch("b").at_snapshot(1)) == [1]
    assert values(branch.new_read_builder().at_branch("main")) == [1, 2, 3]
    assert values(table.new_read_builder()) == [1, 2, 3]
    table.branches.fast_forward("b")
    assert values(catalog.get_table("db.t").new_read_builder()) == [1, 7]
    for name in ("db.t$", "db.t$branch_", "db.t$a$b", "db.$files"):
        with pytest.raises(InvalidInputError, match="names no table"):
            catalog.get_table(name)
    with pytest.raises(InvalidInputError, match="get_system_table"):
        catalog.get_table("db.t$files")
    with pytest.raises(InvalidInputError, match="cannot be called"):
        catalog.create_table("db.t$x", Schema.of({"id": "BIGINT"}))


def test_rolled_back_table_continues(table):
    assert table.rollback_to("v1").snapshots == (3, 2)
    assert values(table.new_read_builder()) == [1]
    write(table, (9,))
    assert table.rollback_to(2).snapshots == ()
    assert values(table.new_read_builder()) == [1, 9]


def test_consumer_reads_table_once_and_then_new_rows(table):
    read = table.new_read_builder().with_consumer("etl")
    first = read.plan()
    assert values(read) == [1, 2, 3]
    assert values(read) == [1, 2, 3]
    assert table.consumers.advance("etl", first.next_snapshot) == 4
    assert values(read) == []
    assert read.plan().next_snapshot == 4
    write(table, (4,))
    assert values(read) == [4]
    plan = read.plan()
    write(table, (5,))
    assert sorted(read.read(plan).read_all()["id"].to_pylist()) == [4]
    table.consumers.advance("etl", plan.next_snapshot)
    assert values(read) == [5]


def test_consumer_of_empty_table_misses_nothing(catalog):
    table = catalog.create_table("db.e", Schema.of({"id": "BIGINT"}))
    read = table.new_read_builder().with_consumer("etl")
    assert read.plan().next_snapshot == 1
    table.consumers.advance("etl", 1)
    write(table, (1,))
    assert values(read) == [1]


def test_lost_consumer_gets_way_out(table):
    read = table.new_read_builder().with_consumer("etl")
    table.consumers.advance("etl", 4)
    table.rollback_to(1)
    with refused(InvalidInputError, r"rolled back. Reset the consumer", kind="consumer-ahead"):
        read.plan()
    with pytest.raises(InvalidInputError, match=r"leave out 'scan.tag-name'"):
        read.at_tag("v1").plan()
    write(table, (8,))
    LocalFileIO().delete_file(f"{table.path}/snapshot/snapshot-1")
    table.consumers.reset("etl", 1)
    with pytest.raises(NotFoundError, match="snapshot 1 has expired; the oldest is 2"):
        read.plan()


def expire(table, number):
    """Expire a snapshot: delete its file, and the files that it alone needs."""
    for entry in table.state.live_files(table.snapshot(number)):
        LocalFileIO().delete_file(table.state.file_path(entry))
    LocalFileIO().delete_file(f"{table.path}/snapshot/snapshot-{number}")


def test_snapshot_expired_during_read_is_named(table):
    read = table.new_read_builder().at_snapshot(2)
    plan = read.plan()
    table.tags.delete("v1")
    expire(table, 2)
    with pytest.raises(NotFoundError, match=r"Snapshot 2 .* expired while it was read") as caught:
        read.read(plan).read_all()
    assert caught.value.kind == "snapshot-expired"
    assert "the oldest is 1 now" in caught.value.message
    assert ".parquet" in caught.value.message


def test_missing_file_is_not_reported_as_expired(table):
    path = table.state.file_path(table.state.live_files()[0])
    LocalFileIO().delete_file(path)
    with pytest.raises(NotFoundError, match="something else than an expiration") as caught:
        table.to_arrow()
    assert caught.value.kind == "file-not-found"
    assert caught.value.details["path"] == path


def test_changes_expired_during_read_are_named(table):
    read = table.new_read_builder().between(1, 3)
    plan = read.plan()
    expire(table, 2)
    with pytest.raises(NotFoundError, match=r"Snapshot 2 .* expired while it was read"):
        read.read(plan).read_all()
    with pytest.raises(NotFoundError, match="snapshot 2 has expired; the oldest is 1"):
        read.plan()


def test_plan_explains_missing_manifest(table):
    snapshot = table.snapshot(2)
    LocalFileIO().delete_file(f"{table.path}/manifest/{snapshot.delta_manifest_list}")
    SHARED_CACHE.forget(("file", f"{table.path}/manifest/{snapshot.delta_manifest_list}"))
    for read in (table.new_read_builder().at_snapshot(2), table.new_read_builder().between(1, 3)):
        with pytest.raises(NotFoundError, match="something else than an expiration") as caught:
            read.plan()
        assert caught.value.kind == "file-not-found"
        assert snapshot.delta_manifest_list in caught.value.message


def test_changes_are_not_read_without_merging(table):
    with pytest.raises(InvalidInputError, match="read-optimized read"):
        table.new_read_builder().between(1, 3).read_optimized().plan()


def test_target_of_caller_overrides_stored_one(catalog):
    options = {"scan.mode": "from-snapshot", "scan.snapshot-id": "1"}
    table = catalog.create_table("db.s", Schema.of({"id": "BIGINT"}, options=options))
    for number in (1, 2, 3):
        write(table, (number,))
    read = table.new_read_builder()
    assert values(read) == [1]
    assert values(read.at_version("2")) == [1, 2]
    assert values(table.copy({"scan.mode": "latest"}).new_read_builder()) == [1, 2, 3]
    assert values(read.between(1, 3)) == [2, 3]
    table.consumers.advance("etl", 3)
    assert values(read.with_consumer("etl")) == [3]
