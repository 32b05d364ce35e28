"""Tables on an S3 server, over HTTP."""

import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pyarrow as pa
import pytest
from msgspec.structs import replace

from paimon_assets.engine import errors
from paimon_assets.engine.control.catalog.filesystem_catalog import FilesystemCatalog
from paimon_assets.engine.data.format.formats import open_reader, open_writer
from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.fileio import object_store
from paimon_assets.engine.fileio.object_store import ObjectFileIO
from paimon_assets.engine.fileio.opening import file_io_for
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.table.api import open_catalog, open_table
from paimon_assets.engine.table.table import Table
from paimon_assets.engine.table.upkeep.maintenance import MaintenanceTask
from tests.testkit.errors import refused
from tests.testkit.faults.writers import fork_server
from tests.testkit.faulty_fileio import FaultyFileIO
from tests.testkit.http_servers import counting_proxy
from tests.testkit.s3_server import ACCESS_KEY, BUCKET, SECRET_KEY, boto3_client, s3_server
from tests.testkit.tables import new_catalog_in, new_table

pytestmark = pytest.mark.slow

WAREHOUSE = f"s3://{BUCKET}/warehouse"
WRITERS, COMMITS = 3, 2
KEYED = Schema.of(
    {"id": "BIGINT", "day": "STRING", "v": "STRING"},
    primary_keys=["id", "day"],
    partition_keys=["day"],
    options={"bucket": "2", "commit.max-retries": "100", "commit.max-retry-wait": "20 ms"},
)


@pytest.fixture(scope="module")
def options():
    """Return the options of a running server."""
    with s3_server() as found:
        yield found


@pytest.fixture
def catalog(options, request):
    """Return a catalog in a directory of the test's own."""
    return new_catalog_in(f"{WAREHOUSE}/{request.node.name}", options=options)


SCHEMA_OF_RENAMED = Schema.of({"id": "INT"})


def _rows(*rows):
    return pa.Table.from_pylist([dict(zip(("id", "day", "v"), row, strict=True)) for row in rows])


def _write(table, rows):
    return table.new_write_builder().write(rows, EmbeddedExecutor())


def test_upserts_and_time_travel_on_s3(catalog):
    table = new_table(catalog, KEYED)
    _write(table, _rows((1, "a", "old"), (2, "b", "kept")))
    _write(table, _rows((1, "a", "new")))
    read = table.new_read_builder()
    assert read.to_arrow().sort_by("id").to_pylist() == [
        {"id": 1, "day": "a", "v": "new"},
        {"id": 2, "day": "b", "v": "kept"},
    ]
    assert read.with_filter("day = 'a'").at_snapshot(1).to_arrow()["v"].to_pylist() == ["old"]
    assert catalog.list_tables("db") == ["t"]


def test_dropped_table_is_gone_with_its_files(catalog, options):
    table = new_table(catalog, KEYED)
    _write(table, _rows((1, "a", "x")))
    catalog.drop_table("db.t")
    assert catalog.list_tables("db") == []
    assert file_io_for(WAREHOUSE, options).list_directory(table.path) == []


@pytest.mark.parametrize("marker", [".directory", "", None])
@pytest.mark.parametrize("has_id", [False, True])
def test_empty_database_is_dropped(options, request, marker, has_id):
    warehouse = f"{WAREHOUSE}/{request.node.name}"
    foreign, key = boto3_client(options), f"{warehouse.removeprefix(f's3://{BUCKET}/')}/db.db/"
    if marker is not None:  # Java's own ends in a slash
        foreign.put_object(Bucket=BUCKET, Key=key + marker, Body=b"")
    catalog = new_catalog_in(warehouse, options=options)
    if has_id:
        catalog.alter_database("db", updates={"a": "b"})
    foreign.put_object(Bucket=BUCKET, Key=key + "landing/a.csv", Body=b"1")
    with pytest.raises(errors.InvalidInputError, match="'landing', which is no table"):
        catalog.drop_database("db")
    assert catalog.list_databases() == ["db"]
    assert catalog.get_database("db").options == ({"a": "b"} if has_id else {})
    foreign.delete_object(Bucket=BUCKET, Key=key + "landing/a.csv")
    if catalog.list_databases():
        catalog.drop_database("db")
    assert catalog.list_databases() == []
    assert foreign.list_objects_v2(Bucket=BUCKET, Prefix=key)["KeyCount"] == 0


@pytest.mark.parametrize("has_id", [False, True])
def test_table_created_while_its_database_is_dropped_stays(options, request, has_id):
    for step in range(100):
        warehouse = f"{WAREHOUSE}/{request.node.name}/{step}"
        other = open_catalog(warehouse, options)
        other.create_database("db", options={"a": "b"} if has_id else None)
        tables = []

        def turn(number, _method, _path, other=other, step=step, tables=tables):
            if number == step:
                with suppress(errors.NotFoundError):  # the drop won
                    tables.append(other.create_table("db.t", KEYED))
                    _write(tables[0], _rows((1, "a", "x")))

        file_io = FaultyFileIO(file_io_for(warehouse, options), before=turn)
        with suppress(errors.InvalidInputError):
            FilesystemCatalog(warehouse, file_io).drop_database("db")
        if len(file_io.calls) <= step:
            break
        for table in tables:
            assert table.new_read_builder().to_arrow()["v"].to_pylist() == ["x"]
            assert other.list_tables("db") == ["t"]
    assert step > 3


@pytest.mark.way_out("bucket-not-found")
def test_bucket_that_does_not_exist_is_not_made(options):
    foreign = boto3_client(options)
    catalog = open_catalog("s3://paimon-tset/warehouse", options)
    with refused(errors.StorageError, "paimon-tset", kind="bucket-not-found"):
        catalog.create_database("db")
    file_io = file_io_for("s3://paimon-tset/x", options)
    with pytest.raises(OSError, match="bucket"), file_io.open_output("s3://paimon-tset/x/y"):
        pass
    for call in (file_io.write_bytes, file_io.publish, file_io.replace, file_io.write_hint):
        with pytest.raises(errors.PaimonError, match="paimon-tset"):
            call("s3://paimon-tset/x/y", b"1")
    with pytest.raises(errors.PaimonError, match="paimon-tset"):
        file_io.make_directory("s3://paimon-tset")
    for call in (catalog.list_databases, lambda: catalog.list_tables("db")):
        with suppress(errors.PaimonError):
            call()
    assert [bucket["Name"] for bucket in foreign.list_buckets()["Buckets"]] == [BUCKET]
    foreign.create_bucket(Bucket="paimon-tset")
    catalog.create_database("db")
    assert catalog.list_databases() == ["db"]


def test_late_hints_end_in_order_before_deletion(options):
    file_io, path = file_io_for(WAREHOUSE, options), f"{WAREHOUSE}/late/LATEST"
    for number in range(5):
        file_io.write_hint_later(path, b"%d" % number)
    assert object_store._HINTS[path].result() is None
    assert file_io.read_bytes(path) == b"4"
    file_io.write_hint_later(path, b"5")
    file_io.delete_file(path)
    assert not file_io.exists(path)
    file_io.write_hint_later(path, b"6")
    file_io.delete_directory(f"{WAREHOUSE}/late")
    assert not file_io.exists(path)
    nowhere = "s3://paimon-tset/x/LATEST"
    file_io_for(nowhere, options).write_hint_later(nowhere, b"1")
    assert object_store._HINTS.pop(nowhere).result() is None, "it is logged"


def test_probe_whose_puts_are_both_taken_is_put_again(options, monkeypatch):
    refused, path = iter([False, False, True, False, False, False]), f"{WAREHOUSE}/both/x"
    monkeypatch.setattr(ObjectFileIO, "_is_refused", staticmethod(lambda *_: next(refused)))
    monkeypatch.setattr(object_store, "_PROVEN", set())
    file_io = file_io_for(WAREHOUSE, options)
    assert file_io.publish(path, b"1")
    object_store._PROVEN.clear()
    with pytest.raises(errors.UnsupportedFeatureError, match="ignores the condition"):
        file_io.publish(f"{path}2", b"1")


def test_one_of_many_publishers_of_name_wins(options):
    path = f"{WAREHOUSE}/published"

    def publish(number):
        return file_io_for(WAREHOUSE, options).publish(path, b"%d" % number)

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(publish, range(8)))
    assert sum(won) == 1
    assert file_io_for(WAREHOUSE, options).read_bytes(path) == b"%d" % won.index(True)


def test_files_of_other_processes_are_seen_at_once(options):
    path = f"{WAREHOUSE}/seen"
    ours, foreign = file_io_for(WAREHOUSE, options), boto3_client(options)
    assert ours.list_directory(path) == []
    assert not ours.exists(f"{path}/a")
    foreign.put_object(Bucket=BUCKET, Key="warehouse/seen/a", Body=b"1")
    assert [status.name for status in ours.list_directory(path)] == ["a"]
    foreign.put_object(Bucket=BUCKET, Key="warehouse/seen/b", Body=b"22")
    listed = ours.list_directory(path)
    assert [(status.name, status.size) for status in listed] == [("a", 1), ("b", 2)]
    assert all(status.modified_ms > 0 for status in listed)
    assert ours.read_bytes(f"{path}/b") == b"22"
    foreign.put_object(Bucket=BUCKET, Key="warehouse/seen/b", Body=b"333")
    assert ours.read_bytes(f"{path}/b") == b"333"
    assert ours.file_size(f"{path}/b") == 3


def test_one_listing_answers_for_directories_side_by_side(options):
    foreign = file_io_for(WAREHOUSE, options)
    with counting_proxy(options) as (proxy, through):
        ours, table = file_io_for(WAREHOUSE, through), f"{WAREHOUSE}/side"
        for name in ("bucket-0/x", "schema/s-0", "snapshot/LATEST", "snapshot/s-1"):
            ours.write_bytes(f"{table}/{name}", name.encode())
        foreign.write_bytes(f"{table}/snapshot/LATEST", b"2")
        foreign.write_bytes(f"{table}/snapshot/s-2", b"two")
        foreign.write_bytes(f"{table}/segments/deep/er", b"two")
        read = [f"{table}/{name}" for name in ("schema/s-0", "snapshot/LATEST", "snapshot/s-0")]
        asked = [f"{table}/{name}" for name in ("schema/s-1", "snapshot/s-2", "snapshot/s-3")]
        lists = [f"{table}/segments", f"{table}/statistics"]
        with proxy.counting() as counts, ours.ahead(reads=read, files=asked, lists=lists):
            assert [ours.exists(path) for path in asked] == [False, True, False]
            assert [ours.read_bytes(path) for path in read[:2]] == [b"schema/s-0", b"2"]
            with pytest.raises(errors.NotFoundError):
                ours.read_bytes(read[2])
            (deep,) = ours.list_directory(lists[0])
            assert (deep.name, deep.is_directory) == ("deep", True)
            assert ours.list_directory(lists[1]) == []
        assert len(counts.requests) == 3  # the listing, the changed file, and the one never read
        for number in range(101):
            foreign.write_bytes(f"{table}/statistics/{number}", b"")
        for _ in range(2):
            with ours.ahead(reads=read, files=asked, lists=lists):
                assert [ours.exists(path) for path in asked] == [False, True, False]
                assert ours.read_bytes(read[1]) == b"2"
                assert len(ours.list_directory(lists[1])) == 101


class _Slow(ObjectFileIO):
    """Does something else before it publishes its first snapshot."""

    def __init__(self, spec, beside):
        super().__init__(spec)
        self._beside = [beside]

    def publish(self, path, data):
        if "/snapshot/" in path and self._beside:
            self._beside.pop()()
        return super().publish(path, data)


@pytest.mark.parametrize("commits", [0, 2])
def test_writer_of_expired_number_plans_again(catalog, commits):
    table = new_table(catalog, {"id": "BIGINT"})
    for number in range(commits):
        table.append(pa.table({"id": [number]}))

    def commit_and_expire():
        for number in range(10, 15):
            table.append(pa.table({"id": [number]}))
        upkeep = replace(table.maintenance(), expire_before=commits + 4)
        upkeep.run(MaintenanceTask.EXPIRE_SNAPSHOTS)

    slow = replace(table._store, file_io=_Slow(table._store.file_io.spec, commit_and_expire))
    assert Table(slow).append(pa.table({"id": [100]})).snapshot.id == commits + 6
    ids = table.to_arrow()["id"].to_pylist()
    assert sorted(ids) == [*range(commits), *range(10, 15), 100]
    assert [each.id for each in table.snapshots()] == [commits + 4, commits + 5, commits + 6]


def _commit_many(path, options, writer):
    for number in range(COMMITS):
        table = open_table(path, options)
        builder = table.new_write_builder().with_commit_user(f"writer-{writer}")
        rows = _rows((number, str(writer), "mine"), (-1, "shared", str(writer)))
        builder.with_commit_identifier(number).write(rows, EmbeddedExecutor())


def test_concurrent_processes_lose_nothing(catalog, options):
    table = new_table(catalog, KEYED)
    context = fork_server()
    processes = [
        context.Process(target=_commit_many, args=(table.path, options, writer))
        for writer in range(WRITERS)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0] * WRITERS
    snapshots = table.snapshots()
    assert [snapshot.id for snapshot in snapshots] == list(range(1, WRITERS * COMMITS + 1))
    rows = table.new_read_builder().with_filter("day <> 'shared'").to_arrow()
    assert sorted(zip(rows["day"].to_pylist(), rows["id"].to_pylist(), strict=True)) == [
        (str(writer), number) for writer in range(WRITERS) for number in range(COMMITS)
    ]
    assert table.new_read_builder().with_filter("day = 'shared'").to_arrow().num_rows == 1


def test_missing_path_is_named(options):
    path = f"{WAREHOUSE}/absent"
    with pytest.raises(errors.NotFoundError, match="absent"):
        file_io_for(WAREHOUSE, options).read_bytes(path)


def test_no_secret_is_shown_when_storage_fails(options):
    wrong = {**options, "s3.endpoint": "http://127.0.0.1:9"}
    with pytest.raises(errors.PaimonError) as failure:
        open_catalog(WAREHOUSE, wrong).create_database("db")
    shown = f"{failure.value!r} {failure.value.details} {failure.value.__cause__!r}"
    assert SECRET_KEY not in shown
    assert ACCESS_KEY not in shown


def test_table_and_branch_are_renamed_with_all_files(catalog):
    """A rename is a copy and a delete; fsspec's directories are no objects to copy."""
    table = new_table(
        catalog, SCHEMA_OF_RENAMED, pa.table({"id": pa.array([1, 2], pa.int32())}), name="db.old"
    )
    table.tags.create("one")
    table.branches.create("side", tag="one")
    catalog.rename_table("db.old", "db.new")
    assert catalog.list_tables("db") == ["new"]
    for name in ("db.new", "db.new$branch_side"):
        found = catalog.get_table(name).new_read_builder().to_arrow()
        assert sorted(found["id"].to_pylist()) == [1, 2]
    assert catalog._catalog.file_io.list_directory(table.path) == []


def test_only_ends_of_immutable_files_are_cached(options):
    file_io = file_io_for(WAREHOUSE, options)
    files = [(f"{WAREHOUSE}/fixed", 3), (f"{WAREHOUSE}/may-change", 3)]
    for data in (b"old", b"new"):
        for path, _ in files:
            file_io.write_bytes(path, data)
        file_io.open_ahead(files[:1], fixed=True)
        file_io.open_ahead(files[1:])
        found = [file_io.open_input(path, size).read() for path, size in files]
    assert found == [b"old", b"new"]


def test_end_of_written_file_is_cached(options):
    file_io = file_io_for(WAREHOUSE, options)
    for size in (1000, 300_000, 9_000_000):
        path, data = f"{WAREHOUSE}/written-{size}", random.Random(size).randbytes(size)  # noqa: S311
        with file_io.open_output(path) as stream:
            for start in range(0, size, 99_999):
                stream.write(data[start : start + 99_999])
        file_io.delete_file(path)
        source = file_io.open_input(path, size)
        source.seek(size - 900)
        assert source.read() == data[-900:]


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("other", [-1, 1, 300_000])
def test_file_of_another_size_than_in_manifest_is_refused(options, file_format, other):
    file_io = file_io_for(WAREHOUSE, options)
    path = f"{WAREHOUSE}/sizes/{file_format}-{other}"
    rows = pa.table({"id": pa.array(range(100_000))})
    writer = open_writer(file_io, path, rows.schema, file_format=file_format)
    writer.write(rows)
    writer.close()
    size = file_io.file_size(path)
    with open_reader(file_io, path, file_format=file_format, file_bytes=size) as reader:
        assert reader.schema.names == ["id"]
    with refused(errors.FormatError, kind="file-size"):
        open_reader(file_io, path, file_format=file_format, file_bytes=size + other)
