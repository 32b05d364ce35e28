"""Nothing outside a table's directories is read or deleted, whatever names its metadata holds."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from msgspec.structs import replace

from paimon_assets.engine import errors
from paimon_assets.engine.codec.avro.manifest_avro import (
    read_index_manifest,
    read_manifest,
    read_manifest_list,
    write_index_manifest,
    write_manifest,
    write_manifest_list,
)
from paimon_assets.engine.codec.json.metadata_json import snapshot_from_json, snapshot_to_json
from paimon_assets.engine.codec.rows.data_file_row import file_from_row, file_to_row
from paimon_assets.engine.control.features import check_readable, check_writable
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.maintenance.expire_snapshots import delete_files
from paimon_assets.engine.control.maintenance.orphan_files import clean_orphan_files
from paimon_assets.engine.control.managers.schema_manager import SchemaManager
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.evolution import schema_change as sc
from paimon_assets.engine.spec.options.all_options import ALL_OPTIONS, Options
from paimon_assets.engine.spec.paths import TablePaths
from paimon_assets.engine.spec.schema.schema import Schema, TableSchema, first_table_schema
from tests.faults.test_races import add, drop, expire
from tests.testkit import metadata_tables
from tests.testkit.builders import data_file, entry, snapshot
from tests.testkit.errors import refused
from tests.testkit.faulty_fileio import FaultyFileIO

SCHEMA = Schema.of({"a": "INT", "b": "STRING"}, primary_keys=["a"], options={"bucket": "1"})


@pytest.fixture
def paths(tmp_path):
    return TablePaths(table=str(tmp_path))


def _copy(paths: TablePaths, schema_id: int) -> None:
    data = LocalFileIO().read_bytes(paths.schema(0)).replace(b'"id":0', b'"id":%d' % schema_id, 1)
    LocalFileIO().write_bytes(paths.schema(schema_id), data)


def test_created_schema_is_latest(paths):
    manager = SchemaManager(LocalFileIO(), paths)
    assert manager.latest() is None
    created = manager.create(SCHEMA, time_millis=7)
    assert created.time_millis == 7
    assert SchemaManager(LocalFileIO(), paths).latest() == created


def test_table_is_created_once(paths):
    manager = SchemaManager(LocalFileIO(), paths)
    manager.create(SCHEMA, time_millis=7)
    with pytest.raises(errors.AlreadyExistsError):
        manager.create(SCHEMA, time_millis=8)


def test_invalid_schema_is_not_written(paths):
    manager = SchemaManager(LocalFileIO(), paths)
    with pytest.raises(errors.InvalidInputError):
        manager.create(Schema.of({"a": "INT"}, partition_keys=["x"]), time_millis=7)
    assert manager.list_ids() == []


def test_ids_are_ordered_as_numbers(paths):
    manager = SchemaManager(LocalFileIO(), paths)
    manager.create(SCHEMA, time_millis=7)
    for number in range(1, 12):
        _copy(paths, number)
    assert manager.list_ids() == list(range(12))
    assert manager.latest() == manager.schema(11)


def test_latest_id_is_found_from_known_one_without_listing(paths):
    first = SchemaManager(LocalFileIO(), paths).create(SCHEMA, time_millis=7)
    _copy(paths, 1)
    file_io = FaultyFileIO(LocalFileIO())
    assert SchemaManager(file_io, paths).latest_id(first) == 1
    assert file_io.count("list_directory") == 0


def test_dropped_table_is_noticed(paths):
    manager = SchemaManager(LocalFileIO(), paths)
    first = manager.create(SCHEMA, time_millis=7)
    LocalFileIO().delete_directory(paths.table)
    with pytest.raises(errors.NotFoundError, match="dropped"):
        manager.latest_id(first)


def test_schema_is_read_once(paths):
    SchemaManager(LocalFileIO(), paths).create(SCHEMA, time_millis=7)
    file_io = FaultyFileIO(LocalFileIO())
    manager = SchemaManager(file_io, paths)
    assert manager.schema(0) is manager.schema(0)
    assert file_io.count("read_bytes") == 1


def _manager(paths, file_io=None):
    manager = SchemaManager(file_io or LocalFileIO(), paths)
    if not manager.list_ids():
        manager.create(SCHEMA, time_millis=7)
    return manager


def test_changes_make_one_schema(paths):
    manager = _manager(paths)
    new = manager.commit_changes(
        [sc.add_column("c", "INT"), sc.rename_column("b", "x")], time_millis=8
    )
    assert (new.id, new.time_millis, new.field_names) == (1, 8, ("a", "x", "c"))
    assert SchemaManager(LocalFileIO(), paths).latest() == new
    assert manager.list_ids() == [0, 1]


def test_refused_changes_leave_no_schema(paths):
    manager = _manager(paths)
    with pytest.raises(errors.InvalidInputError):
        manager.commit_changes([sc.add_column("c", "INT"), sc.drop_column("a")], time_millis=8)
    assert manager.list_ids() == [0]


def test_ineffective_changes_create_no_schema(paths):
    manager = _manager(paths)
    assert manager.commit_changes([], time_millis=8).id == 0
    assert manager.commit_changes([sc.set_option("bucket", "1")], time_millis=8).id == 0
    assert manager.list_ids() == [0]


def test_dry_run_shows_changes_without_writing(paths):
    manager = _manager(paths)
    assert manager.evolve([sc.add_column("c", "INT")], time_millis=8).id == 1
    assert manager.list_ids() == [0]


def test_change_of_missing_table_is_refused(paths):
    manager = SchemaManager(LocalFileIO(), paths)
    with pytest.raises(errors.NotFoundError, match="does not exist"):
        manager.commit_changes([sc.add_column("c", "INT")], time_millis=8)


def test_race_loser_changes_schema_of_winner(paths):
    _manager(paths)
    barrier = Barrier(8)

    def change(number):
        manager = SchemaManager(LocalFileIO(), paths)
        barrier.wait()
        return manager.commit_changes([sc.add_column(f"c{number}", "INT")], time_millis=number)

    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(change, range(8)))
    manager = SchemaManager(LocalFileIO(), paths)
    last = manager.latest()
    assert sorted(schema.id for schema in made) == list(range(1, 9))
    assert sorted(last.field_names) == sorted(["a", "b", *(f"c{n}" for n in range(8))])
    assert len({field.id for field in last.fields}) == 10
    assert last.highest_field_id == 9
    for schema in made:
        assert len(manager.schema(schema.id).fields) == 2 + schema.id


class _Overtaking(FaultyFileIO):
    """Lets another change win, each time a schema is about to be published."""

    def __init__(self, paths, changes):
        super().__init__(LocalFileIO())
        self.other, self.changes = SchemaManager(LocalFileIO(), paths), list(changes)

    def publish(self, path, data):
        if self.changes:
            self.other.commit_changes([self.changes.pop(0)], time_millis=9)
        return super().publish(path, data)


def test_change_made_impossible_by_race_is_refused(paths):
    _manager(paths)
    manager = SchemaManager(_Overtaking(paths, [sc.drop_column("b")]), paths)
    with pytest.raises(errors.NotFoundError, match="Column 'b' does not exist"):
        manager.commit_changes([sc.rename_column("b", "x")], time_millis=8)
    assert manager.list_ids() == [0, 1]


@pytest.mark.way_out("schema-conflict")
def test_change_checked_on_another_schema_is_conflict(paths):
    base = _manager(paths).latest()
    manager = SchemaManager(_Overtaking(paths, [sc.add_column("c", "INT")]), paths)
    with refused(errors.CommitConflictError, "at schema 1 now", kind="schema-conflict"):
        manager.commit_changes([sc.drop_column("b")], time_millis=8, base=base)
    assert manager.list_ids() == [0, 1]
    manager.commit_changes([sc.drop_column("b")], time_millis=8, base=manager.latest())
    assert manager.list_ids() == [0, 1, 2]


def test_schema_change_gives_up_after_lost_races(paths):
    _manager(paths)
    changes = [sc.set_option("write-only", str(n % 2 == 0).lower()) for n in range(200)]
    manager = SchemaManager(_Overtaking(paths, changes), paths)
    with pytest.raises(errors.CommitConflictError, match="100 times"):
        manager.commit_changes([sc.drop_column("b")], time_millis=8)


class _Deaf(FaultyFileIO):
    """Loses the answer of every publish, done or not."""

    def __init__(self, *, publishes):
        super().__init__(LocalFileIO())
        self.publishes = publishes

    def publish(self, path, data):
        if self.publishes:
            super().publish(path, data)
        raise errors.CommitUnknownError("no answer")


def test_lost_answer_of_schema_change_is_found(paths):
    _manager(paths)
    manager = SchemaManager(_Deaf(publishes=True), paths)
    assert manager.commit_changes([sc.drop_column("b")], time_millis=8).id == 1
    with pytest.raises(errors.CommitUnknownError):
        SchemaManager(_Deaf(publishes=False), paths).commit_changes(
            [sc.add_column("c", "INT")], time_millis=8
        )
    assert manager.list_ids() == [0, 1]


def test_some_changes_are_refused_after_first_commit(store):
    store.schemas.commit_changes([sc.set_option("type", "table")], time_millis=8)
    metadata_tables.commit(store, metadata_tables.message(metadata_tables.plain_file()))
    with pytest.raises(errors.InvalidInputError, match="the table has been written to"):
        store.schemas.commit_changes([sc.set_option("merge-engine", "first-row")], time_millis=8)


KEY = {"columns": {"k": "INT", "v": "INT"}, "primary_keys": ["k"]}
PLAIN = {"columns": {"k": "INT", "v": "INT"}}


def _schema(declared, **options: str) -> TableSchema:
    schema = Schema.of(
        declared["columns"],
        primary_keys=declared.get("primary_keys", ()),
        options={"bucket": "1", **options} if "primary_keys" in declared else options,
    )
    return first_table_schema(schema, time_millis=0)


@pytest.mark.parametrize(
    ("declared", "options"),
    [
        (PLAIN, {"row-tracking.enabled": "true"}),
        (PLAIN, {"deletion-vectors.enabled": "true"}),
        (KEY, {"deletion-vectors.enabled": "true"}),
        (PLAIN, {"data-evolution.enabled": "true"}),
        (PLAIN, {"branch": "test"}),
        (PLAIN, {"metadata.iceberg.storage": "hive-catalog"}),
        (PLAIN, {"manifest.format": "parquet"}),
        ({"columns": {"b": "BLOB", "v": "INT"}}, {"data-evolution.enabled": "true"}),
        (PLAIN, {"scan.fallback-branch": "old"}),
        (PLAIN, {"fields.v.map.storage-layout": "default"}),
        (KEY, {"bucket": "-1"}),
        (KEY, {"bucket": "-2"}),
        (KEY, {"changelog-producer": "input"}),
    ],
)
def test_write_only_features_do_not_stop_reads(declared, options):
    check_readable("db.t", _schema(declared, **options))


@pytest.mark.parametrize("storage", ["disabled", "table-location", "Hadoop-Catalog"])
def test_own_iceberg_metadata_and_avro_manifests_are_writable(storage):
    options = {"metadata.iceberg.storage": storage, "manifest.format": "AVRO"}
    check_writable("db.t", _schema(PLAIN, **options))


LATER = metadata_tables.FixedClock(now=4_000_000_000_000)
BAD_NAMES = ["../x", "a/b", "..", ".", "", "/etc/passwd", "a\0b"]
BAD_PATHS = ["/a/../b", "s3://b/../x", "../b", "file:/a/./b"]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_metadata_name_is_one_path_part(tmp_path, name):
    file = entry(file=data_file(file_name=name))
    extra = entry(file=data_file(extra_files=("fine", name)))
    index = metadata_tables.vectors_of(file_name=name)
    for damaged in (file, extra):
        with pytest.raises(errors.FormatError, match="is not the name of a file"):
            read_manifest(write_manifest([damaged]), "manifest-1")
        with pytest.raises(errors.FormatError, match="is not the name of a file"):
            file_from_row(file_to_row(damaged.file))
    with pytest.raises(errors.FormatError, match="is not the name of a file"):
        read_index_manifest(write_index_manifest([index]), "index-manifest-1")
    store = metadata_tables.new_store(tmp_path)
    metadata_tables.commit(store, metadata_tables.message(metadata_tables.plain_file()))
    meta = store.manifests.manifests_of(store.snapshots.snapshot(1))[0]
    with pytest.raises(errors.FormatError, match="is not the name of a file"):
        read_manifest_list(write_manifest_list([replace(meta, file_name=name)]), "manifest-list-1")
    for member in (
        "base_manifest_list",
        "delta_manifest_list",
        "changelog_manifest_list",
        "index_manifest",
        "statistics",
    ):
        data = snapshot_to_json(snapshot(**{member: name}))
        with pytest.raises(errors.FormatError, match="is not the name of a file"):
            snapshot_from_json(data, "snapshot-1")


@pytest.mark.parametrize("path", BAD_PATHS)
def test_metadata_path_has_no_parent_steps(path):
    file = entry(file=data_file(external_path=path))
    with pytest.raises(errors.FormatError, match="leads up"):
        read_manifest(write_manifest([file]), "manifest-1")
    with pytest.raises(errors.FormatError, match="leads up"):
        file_from_row(file_to_row(file.file))
    index = metadata_tables.vectors_of(external_path=path)
    with pytest.raises(errors.FormatError, match="leads up"):
        read_index_manifest(write_index_manifest([index]), "index-manifest-1")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("data-file.path-directory", "../victim"),
        ("data-file.path-directory", "a/../../out"),
        ("data-file.external-paths", "/data/../victim"),
        ("data-file.prefix", "../x-"),
        ("changelog-file.prefix", "a/b-"),
        ("branch", "../../victim"),
        ("scan.fallback-branch", "../x"),
        ("scan.primary-branch", ".."),
    ],
)
def test_option_path_stays_inside_table(tmp_path, key, value):
    options = {option.key: option for option in ALL_OPTIONS}
    with pytest.raises(errors.InvalidInputError, match=key):
        Options({key: value}).get(options[key])
    if key == "data-file.path-directory":
        store = metadata_tables.new_store(tmp_path)
        (tmp_path / "victim" / "bucket-0").mkdir(parents=True)
        victim = tmp_path / "victim" / "bucket-0" / "data-1.parquet"
        victim.write_bytes(b"x")
        path = Path(store.paths.schema(0))
        members = json.loads(path.read_bytes())
        path.write_text(json.dumps({**members, "options": {key: value}}))
        with pytest.raises(errors.InvalidInputError, match=key):
            clean_orphan_files(
                FileStore.open(LocalFileIO(), store.table_path), clock=LATER, dry_run=False
            )
        assert victim.exists()


def test_directory_below_table_may_be_written_with_slashes(tmp_path):
    option = {option.key: option for option in ALL_OPTIONS}["data-file.path-directory"]
    assert Options({option.key: "/data/files/"}).get(option) == "data/files"


@pytest.mark.way_out("path-outside")
def test_deletions_stay_in_table_directories(store, tmp_path):
    victim = tmp_path / "victim"
    victim.write_bytes(b"x")
    for path in (str(victim), f"{store.table_path}/../victim", f"{store.table_path}-2/x"):
        with refused(errors.FormatError, "is in none of the directories", kind="path-outside"):
            delete_files(store, [path])
    assert victim.exists()
    own = Path(store.table_path, "bucket-0", "x")
    own.parent.mkdir(exist_ok=True)
    own.touch()
    delete_files(store, [str(own)])
    assert not own.exists()


def test_deletions_follow_no_linked_bucket(store, tmp_path):
    add(store, "a")
    add(store, "b")
    drop(store, "a")
    bucket = Path(store.table_path) / "bucket-0"
    bucket.rename(tmp_path / "elsewhere")
    bucket.symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "orphan").write_bytes(b"x")
    os.utime(tmp_path / "elsewhere" / "orphan", (1, 1))
    expire(store)
    assert store.snapshots.list_ids() == [3]
    found = clean_orphan_files(store, clock=LATER, dry_run=False)
    assert not [status for status in found.files if "bucket-0" in status.path]
    assert {path.name for path in (tmp_path / "elsewhere").iterdir()} == {"a", "b", "orphan"}


def test_linked_table_directory_is_cleaned(store, tmp_path):
    add(store, "a")
    drop(store, "a")
    (tmp_path / "table").rename(tmp_path / "disk")
    (tmp_path / "table").symlink_to(tmp_path / "disk")
    expire(store)
    assert not (tmp_path / "disk" / "bucket-0" / "a").exists()
