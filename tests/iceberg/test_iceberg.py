"""Iceberg metadata beside Paimon's: additions of a commit, later snapshots, and refusals."""

import json
import math
import shutil
import struct
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from paimon_assets import (
    InvalidInputError,
    SegmentSource,
    UnsupportedFeatureError,
    add_column,
    open_catalog,
    rename_column,
    set_option,
    update_column_nullability,
    update_column_type,
)
from paimon_assets.assets.metadata import snapshot_metadata
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.control.catalog.filesystem_catalog import FilesystemCatalog
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.maintenance.orphan_files import clean_orphan_files
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.types.data_types import DataField
from paimon_assets.engine.spec.types.type_text import parse_type
from paimon_assets.engine.table.system.table_health import table_health
from paimon_assets.engine.table.upkeep.maintenance import Maintenance, MaintenanceTask
from paimon_assets.iceberg import document
from paimon_assets.iceberg.changes import PublishedFiles
from paimon_assets.iceberg.follow import follow_commit, repair
from paimon_assets.iceberg.state import iceberg_state, newest_metadata
from paimon_assets.iceberg.table_schema import IcebergTable, PartitionField, partition_summary
from paimon_assets.server.serve import ServeSettings
from tests.iceberg.kit import histories, reader
from tests.testkit.effort import often
from tests.testkit.errors import refused
from tests.testkit.faulty_fileio import Fault, FaultyFileIO
from tests.testkit.metadata_tables import FixedClock
from tests.testkit.rest_server import serving
from tests.testkit.tables import arrow, compact, new_table

STORAGE = {"metadata.iceberg.storage": "table-location"}
COLUMNS = {"id": "BIGINT", "v": "STRING"}


def create(catalog, columns=COLUMNS, name="db.t", *, options=(), **declared):
    return new_table(catalog, columns, name=name, options={**STORAGE, **dict(options)}, **declared)


def folder(table):
    return Path(table._store.table_path) / "metadata"


def is_followed(table):
    """Whether a reader of Iceberg sees our rows, by a true document."""
    document = reader.newest(folder(table))
    newest = table.latest_snapshot()
    assert document["current-snapshot-id"] == newest.id == document["last-sequence-number"]
    assert reader.rows(document) == reader.ours(table.to_arrow())
    return str(iceberg_state(table._store)) == "up to date"


def test_ids_of_columns_begin_at_one(catalog):
    columns = {"a": "INT", "r": "ROW<x INT, y ARRAY<ROW<z INT>>>"}
    table = create(catalog, columns)
    plain = new_table(catalog, columns, name="db.plain")
    assert [field.id for field in table.schema.fields] == [1, 2]
    assert table.schema.highest_field_id == plain.schema.highest_field_id + 1
    assert [field.id for field in plain.schema.fields] == [0, 1]


@pytest.mark.parametrize(
    "text",
    ["TIME(3)", "MULTISET<INT>", "VARIANT", "TIMESTAMP(9)", "ARRAY<TIME(0)>",
     "TIMESTAMP(7) WITH LOCAL TIME ZONE", "MAP<ARRAY<INT>, INT>"],
)  # fmt: skip
def test_types_without_counterpart_are_refused_when_option_is_set(catalog, text):
    with refused(UnsupportedFeatureError, "column 'v'", kind="unsupported-iceberg-type"):
        create(catalog, {"id": "INT", "v": text})
    table = new_table(catalog, {"id": "INT", "v": text})
    with refused(UnsupportedFeatureError, "column 'v'", kind="unsupported-iceberg-type"):
        table.alter([set_option("metadata.iceberg.storage", "table-location")])
    table = create(catalog, {"id": "INT"}, "db.u")
    with refused(UnsupportedFeatureError, "column 'v'", kind="unsupported-iceberg-type"):
        table.alter([add_column("v", text)])


@pytest.mark.parametrize(
    ("old", "new"),
    [("INT", "STRING"), ("BIGINT", "INT"), ("DECIMAL(5, 2)", "DECIMAL(6, 3)"), ("DATE", "STRING"),
     ("VARCHAR(5)", "VARCHAR(4)"), ("DOUBLE", "FLOAT"), ("TIMESTAMP(6)", "TIMESTAMP(3)")],
)  # fmt: skip
def test_changes_that_iceberg_reads_otherwise_are_refused(catalog, old, new):
    table = create(catalog, {"v": old})
    with refused(UnsupportedFeatureError, kind="unsupported-iceberg-change"):
        table.alter([update_column_type("v", new)])
    table.alter([set_option("metadata.iceberg.storage", "disabled")])
    table.alter([update_column_type("v", new)])


@pytest.mark.parametrize(
    ("key", "value"),
    [("format-version", "1"), ("manifest-compression", "lzo"), ("storage", "everywhere"),
     ("previous-versions-max", "-1"), ("compaction.min.file-num", "1")],
)  # fmt: skip
def test_values_of_options_are_checked(catalog, key, value):
    with refused(InvalidInputError, f"metadata.iceberg.{key}", kind="option-value"):
        create(catalog, options={f"metadata.iceberg.{key}": value})


@pytest.mark.parametrize("keys", [[], ["v"]])
@pytest.mark.parametrize("version", ["2", "3"])
def test_each_commit_is_followed(catalog, keys, version):
    table = create(
        catalog, partition_keys=keys, options={"metadata.iceberg.format-version": version}
    )
    for n in range(4):
        table.append(arrow(COLUMNS, (n, "x"), (n + 10, None), (n + 20, "y")))
        assert is_followed(table)
    table.compact(full=True)
    assert is_followed(table)
    table.overwrite(arrow(COLUMNS, (7, "x")))
    assert is_followed(table)
    table.delete("id = 10")
    assert is_followed(table)
    table.truncate()
    assert is_followed(table)
    document = reader.newest(folder(table))
    operations = [each["summary"]["operation"] for each in document["snapshots"]]
    assert operations[:5] == ["append"] * 4 + ["replace"]
    assert [each.get("parent-snapshot-id") for each in document["snapshots"]] == [
        None,
        *(each["snapshot-id"] for each in document["snapshots"][:-1]),
    ]


def test_commit_adds_manifests_and_rewrites_none(catalog):
    table = create(catalog)
    for n in range(5):
        table.append(arrow(COLUMNS, (n, "x")))
    document = reader.newest(folder(table))
    for number in range(2, 6):
        before = {each["manifest_path"] for each in reader.manifests(document, number - 1)}
        after = {each["manifest_path"] for each in reader.manifests(document, number)}
        assert before < after
        assert len(after - before) == 1


def test_many_small_manifests_become_one(catalog):
    table = create(catalog, options={"metadata.iceberg.compaction.max.file-num": "5"})
    for n in range(23):
        table.append(arrow(COLUMNS, (n, "x")))
        assert is_followed(table)
        assert len(reader.manifests(reader.newest(folder(table)))) < 6


def test_rows_of_version_3_have_ids_of_their_own(catalog):
    table = create(catalog, options={"metadata.iceberg.format-version": "3",
                                     "metadata.iceberg.compaction.max.file-num": "4"})  # fmt: skip
    for n in range(9):
        table.append(arrow(COLUMNS, (n, "x"), (n + 10, "y")))
    table.delete("id = 3")
    document = reader.newest(folder(table))
    used = set()
    for manifest in reader.manifests(document):
        number = manifest["first_row_id"]
        for entry in reader.records(manifest["manifest_path"]):
            file = entry["data_file"]
            if entry["status"] == 2:
                continue
            first = file["first_row_id"]
            if first is None:
                first, number = number, number + file["record_count"]
            ids = set(range(first, first + file["record_count"]))
            assert used.isdisjoint(ids)
            used |= ids
    assert len(used) == 17
    assert max(used) < document["next-row-id"]
    firsts = [each["first-row-id"] for each in document["snapshots"]]
    ends = [each["first-row-id"] + each["added-rows"] for each in document["snapshots"]]
    assert firsts == [0, *ends[:-1]]


def test_columns_evolve_by_their_ids(catalog):
    table = create(catalog, {"a": "INT NOT NULL", "b": "STRING"})
    table.append(arrow({"a": "INT", "b": "STRING"}, (1, "x")))
    table = table.alter([rename_column("b", "c"), add_column("b", "INT", first=True),
                         update_column_type("a", "BIGINT"),
                         update_column_nullability("a", nullable=True)])  # fmt: skip
    table.append(arrow(table.schema, (5, None, "y")))
    assert is_followed(table)
    document = reader.newest(folder(table))
    shown = {each["name"]: each for each in document["schemas"][-1]["fields"]}
    assert {name: each["id"] for name, each in shown.items()} == {"b": 3, "a": 1, "c": 2}
    assert not shown["a"]["required"]
    # Files of before may hold nulls, so it is never required again.
    table = table.alter([set_option("alter-column-null-to-not-null.disabled", "false")])
    table = table.alter([update_column_nullability("c", nullable=False)])
    table.append(arrow(table.schema, (5, None, "y")))
    document = reader.newest(folder(table))
    assert not any(each["required"] for each in document["schemas"][-1]["fields"])
    assert [each["schema-id"] for each in document["schemas"]] == [0, 1, 3]


def test_gap_of_crash_is_closed_by_next_commit_or_repair(catalog):
    table = create(catalog)
    for n in range(6):
        table.append(arrow(COLUMNS, (n, "x")))
    for version in (4, 5, 6):
        folder(table).joinpath(f"v{version}.metadata.json").unlink()
    folder(table).joinpath("version-hint.text").write_text("3", encoding="utf-8")
    assert iceberg_state(table._store).behind == 3
    repair(table._store)
    assert is_followed(table)
    for path in (*folder(table).glob("v*.json"), folder(table) / "version-hint.text"):
        path.unlink()
    assert iceberg_state(table._store).behind == 6
    table.append(arrow(COLUMNS, (9, "x")))
    assert is_followed(table)
    document = reader.newest(folder(table))
    assert [each["snapshot-id"] for each in document["snapshots"]] == [7]


def test_damaged_document_is_replaced(catalog):
    table = create(catalog)
    table.append(arrow(COLUMNS, (1, "x")))
    uuid = reader.newest(folder(table))["table-uuid"]
    folder(table).joinpath("v1.metadata.json").write_text("{}", encoding="utf-8")
    table.append(arrow(COLUMNS, (2, "x")))
    assert is_followed(table)
    assert reader.newest(folder(table))["table-uuid"] != uuid


def test_document_of_another_writer_is_not_continued(catalog):
    table = create(catalog)
    table.append(arrow(COLUMNS, (1, "x")))
    path = folder(table) / "v1.metadata.json"
    document = json.loads(path.read_bytes())
    del document["properties"]
    path.write_text(json.dumps(document), encoding="utf-8")
    table.append(arrow(COLUMNS, (2, "x")))
    assert is_followed(table)
    assert len(reader.newest(folder(table))["snapshots"]) == 1


def test_without_option_nothing_is_written(catalog):
    table = new_table(catalog, COLUMNS)
    table.append(arrow(COLUMNS, (1, "x")))
    assert not folder(table).exists()
    assert newest_metadata(table._store) is None
    assert iceberg_state(table._store) is None
    assert repair(table._store) is None


def write_table(catalog, count=5, **declared):
    table = create(catalog, **declared)
    for n in range(count):
        table.append(arrow(COLUMNS, (n, "x")))
    return table


@pytest.mark.parametrize("version", ["2", "3"])
@pytest.mark.parametrize("kept", ["10", "0"])
def test_rollback_is_followed_at_once(catalog, version, kept):
    table = write_table(
        catalog,
        options={
            "metadata.iceberg.format-version": version,
            "metadata.iceberg.previous-versions-max": kept,
        },
    )
    before = reader.newest(folder(table))
    table.rollback_to(3)
    assert is_followed(table)
    after = reader.newest(folder(table))
    assert after["table-uuid"] == before["table-uuid"]
    assert after.get("next-row-id", 0) >= before.get("next-row-id", 0)
    names = {path.name for path in folder(table).glob("v*")}
    assert names.isdisjoint({"v4.metadata.json", "v5.metadata.json"})
    table.append(arrow(COLUMNS, (9, "y")))
    assert is_followed(table)


def test_foreign_rollback_is_followed_by_next_commit(catalog):
    table = write_table(catalog)
    for number in (5, 4):
        Path(table._store.paths.snapshot(number)).unlink()
    table._store.snapshots.write_latest_hint(3)
    assert iceberg_state(table._store).behind == 1
    table.append(arrow(COLUMNS, (9, "y")))
    assert is_followed(table)
    assert not folder(table).joinpath("v5.metadata.json").exists()


def test_tags_are_tags_of_iceberg(catalog):
    table = write_table(catalog)
    table.tags.create("first", 1)
    table.tags.create("third", 3)
    assert is_followed(table)
    table.append(arrow(COLUMNS, (7, "x")))

    def tags():
        refs = reader.newest(folder(table))["refs"]
        return {name: ref["snapshot-id"] for name, ref in refs.items() if ref["type"] == "tag"}

    assert tags() == {"first": 1, "third": 3}
    table.tags.replace("third", 4)
    table.tags.rename("first", "oldest")
    assert tags() == {"oldest": 1, "third": 4}
    table._store.tags.create("of-others", table.snapshot(2))
    table._store.tags.delete("third")
    table.append(arrow(COLUMNS, (8, "x")))
    assert tags() == {"oldest": 1, "of-others": 2}
    table.tags.delete("oldest")
    assert tags() == {"of-others": 2}


def test_expired_snapshots_go_and_those_of_tags_stay(catalog):
    table = write_table(catalog, 9)
    table.tags.create("kept", 2)
    lists = {each["snapshot-id"]: each["manifest-list"]
             for each in reader.newest(folder(table))["snapshots"]}  # fmt: skip
    Maintenance(store=table._store, expire_before=7).run(MaintenanceTask.EXPIRE_SNAPSHOTS)
    document = reader.newest(folder(table))
    assert [each["snapshot-id"] for each in document["snapshots"]] == [2, 7, 8, 9]
    assert is_followed(table)
    assert len(reader.rows(document, 2)) == 2
    assert {number for number, path in lists.items() if Path(path).exists()} == {2, 7, 8, 9}


def test_old_documents_are_deleted_beyond_limit(catalog):
    table = write_table(catalog, 7, options={"metadata.iceberg.previous-versions-max": "2"})
    names = sorted(path.name for path in folder(table).glob("v*.json"))
    assert names == [f"v{n}.metadata.json" for n in (5, 6, 7)]
    log = reader.newest(folder(table))["metadata-log"]
    assert [Path(each["metadata-file"]).name for each in log] == names[:2]


def test_history_and_files_are_bounded(catalog, monkeypatch):
    monkeypatch.setattr(document, "MOST_SNAPSHOTS", 4)
    table = write_table(
        catalog, 30, options={"metadata.iceberg.previous-versions-max": "1",
                              "metadata.iceberg.compaction.max.file-num": "5"})  # fmt: skip
    newest = reader.newest(folder(table))
    assert [each["snapshot-id"] for each in newest["snapshots"]] == [27, 28, 29, 30]
    assert is_followed(table)
    named = {manifest["manifest_path"] for number in range(27, 31)
             for manifest in reader.manifests(newest, number)}  # fmt: skip
    assert {str(path) for path in folder(table).glob("*-m0.avro")} == named
    assert len(list(folder(table).glob("snap-*"))) == 4


def test_commit_published_by_other_process_leaves_no_files(catalog):
    table = write_table(catalog, 3)
    before = sorted(folder(table).iterdir())
    follow_commit(table._store, table.latest_snapshot(), table.snapshot(2))
    assert sorted(folder(table).iterdir()) == before
    follow_commit(table._store, table.snapshot(2), table.snapshot(1))
    assert sorted(folder(table).iterdir()) == before
    assert is_followed(table)


@pytest.mark.parametrize("storage", ["table-location", "hadoop-catalog"])
def test_rename_and_drop(catalog, tmp_path, storage):
    table = write_table(catalog, 3, options={"metadata.iceberg.storage": storage})
    uuid = newest_metadata(table._store).document["table-uuid"]
    catalog.rename_table("db.t", "db.u")
    table = catalog.get_table("db.u")
    found = newest_metadata(table._store)
    assert found.document["location"] == table._store.table_path
    assert (found.document["table-uuid"] == uuid) == (storage == "table-location")
    assert reader.rows(found.document) == reader.ours(table.to_arrow())
    table.append(arrow(COLUMNS, (8, "x")))
    place = Path(newest_metadata(table._store).location).parent
    assert not Path(str(place).replace("/u/", "/t/")).exists()
    catalog.drop_table("db.u")
    assert not place.exists()
    again = write_table(catalog, 1, name="db.u", options={"metadata.iceberg.storage": storage})
    assert newest_metadata(again._store).document["table-uuid"] != uuid


def test_renamed_deletion_vectors_name_renamed_data_files(catalog):
    """pyiceberg reads the paths in the Puffin file; after a rename it showed deleted rows."""
    options = {"metadata.iceberg.storage": "table-location", "deletion-vectors.enabled": "true"}
    options |= {"metadata.iceberg.format-version": "3"}
    table = write_table(catalog, 1, options=options)
    table.append(arrow(COLUMNS, (7, "x"), (8, "y")))
    table.delete("id = 8")
    for name in ("db.u", "db.v"):
        catalog.rename_table(table.name, name)
        table = catalog.get_table(name)
        document = newest_metadata(table._store).document
        vectors = [*reader.live_files(document, content=1)]
        assert vectors
        for vector in vectors:
            assert vector["referenced_data_file"].startswith(table.path)
            puffin = Path(vector["file_path"]).read_bytes()
            assert f'"{vector["referenced_data_file"]}"'.encode() in puffin


@pytest.mark.parametrize("version", ["2", "3"])
@pytest.mark.parametrize("storage", ["table-location", "hadoop-catalog"])
def test_rename_keeps_tags_and_history(catalog, storage, version):
    options = {"metadata.iceberg.storage": storage, "metadata.iceberg.format-version": version}
    table = write_table(catalog, 5, options=options)
    table.tags.create("second", 2)
    table.tags.create("fourth", 4)
    before = reader.newest(Path(newest_metadata(table._store).location).parent)
    expected = {number: reader.rows(before, number) for number in (2, 4, 5)}
    Maintenance(store=table._store, expire_before=4).run(MaintenanceTask.EXPIRE_SNAPSHOTS)
    catalog.rename_table("db.t", "db.u")
    table = catalog.get_table("db.u")
    for more in range(2):
        shown = newest_metadata(table._store).document
        refs = {name: ref["snapshot-id"] for name, ref in shown["refs"].items()}
        assert refs == {"second": 2, "fourth": 4, "main": 5 + more}
        assert [each["snapshot-id"] for each in shown["snapshots"]] == [2, *range(4, 6 + more)]
        for number, rows in expected.items():
            assert reader.rows(shown, number) == rows
        table.append(arrow(COLUMNS, (8, "x")))


@settings(max_examples=often(60), phases=(Phase.generate,))
@given(
    st.sampled_from(["FLOAT", "DOUBLE"]),
    st.lists(st.sampled_from([None, 0.0, -0.0]) | st.floats(width=32), min_size=1),
)
def test_float_partition_summaries_bound_all_but_nan(type_text, values):
    data_type = parse_type(type_text)
    summary = partition_summary(data_type, values)
    assert summary["contains_null"] == (None in values)
    numbers = [value for value in values if value is not None]
    assert summary["contains_nan"] == any(map(math.isnan, numbers))
    numbers = [value for value in numbers if not math.isnan(value)]
    bounds = [summary["lower_bound"], summary["upper_bound"]]
    if not numbers:
        assert bounds == [None, None]
        return
    low, high = (struct.unpack("<f" if type_text == "FLOAT" else "<d", each)[0] for each in bounds)
    assert (low, high) == (min(numbers), max(numbers))
    signs = [math.copysign(1, each) for each in (low, high)]
    assert low or signs[0] < 0
    assert high or signs[1] > 0
    field = PartitionField(column=DataField(id=1, name="p", type=data_type), field_id=1000)
    assert all(field.may_be_in(value, summary) for value in values)
    assert not field.may_be_in(math.nan, summary) or summary["contains_nan"]


def test_branches_have_none_and_fast_forward_is_followed(catalog):
    table = write_table(catalog, 3)
    table.branches.create("b", snapshot_id=2)
    table.at_branch("b").append(arrow(COLUMNS, (50, "b")))
    assert reader.newest(folder(table))["current-snapshot-id"] == 3
    table.branches.fast_forward("b")
    assert is_followed(catalog.get_table("db.t"))


def test_only_iceberg_orphans_are_cleaned(catalog):
    table = write_table(catalog, 4)
    table.rollback_to(2)
    table.append(arrow(COLUMNS, (8, "x")))
    stray = folder(table) / "mine.txt"
    stray.write_text("x", encoding="utf-8")
    cleaned = clean_orphan_files(
        table._store, dry_run=False, clock=FixedClock(now=4_000_000_000_000)
    )
    names = {Path(status.path).name for status in cleaned.files if "/metadata/" in status.path}
    assert len([name for name in names if name.startswith("snap-")]) == 2
    assert len(names) == 4
    assert stray.exists()
    assert is_followed(table)
    assert not clean_orphan_files(table._store, clock=FixedClock(now=4_000_000_000_000)).files


def test_changed_schema_is_shown_at_once(catalog):
    table = write_table(catalog, 2)
    table = table.alter([add_column("n", "INT"), rename_column("v", "w")])
    document = reader.newest(folder(table))
    assert document["current-schema-id"] == table.schema.id
    assert [each["name"] for each in document["schemas"][-1]["fields"]] == ["id", "w", "n"]
    table = table.alter([set_option("metadata.iceberg.storage", "disabled")])
    table.append(arrow(table.schema, (7, "x", 1)))
    table = table.alter([set_option("metadata.iceberg.storage", "table-location")])
    assert is_followed(table)
    assert len(reader.newest(folder(table))["snapshots"]) == 3


@pytest.mark.parametrize("bucket", ["1", "-1", "-2"])
def test_keyed_tables_show_compacted_rows(catalog, bucket):
    table = create(catalog, primary_keys=["id"], options={"bucket": bucket})
    for n in range(3):
        table.upsert(arrow(COLUMNS, (n, "x"), (n + 1, "y")))
        assert iceberg_state(table._store).behind == n + 1
        assert reader.rows(reader.newest(folder(table))) == []
    table.compact(full=True)
    assert is_followed(table)
    shown = reader.rows(reader.newest(folder(table)))
    table.upsert(arrow(COLUMNS, (0, "new"), (9, "z")))
    assert reader.rows(reader.newest(folder(table))) == shown
    table.delete("id = 1")
    assert iceberg_state(table._store).behind == 2
    table.compact(full=True)
    assert is_followed(table)


@pytest.mark.hunt
@pytest.mark.parametrize("kind", histories.KINDS)
def test_any_history_is_followed(catalog, kind):
    for seed in range(often(1)):
        history = histories.History(
            catalog, kind, seed, {"metadata.iceberg.format-version": "32"[seed % 2]}
        )
        for step in history.run(range(12)):
            newest = history.table.latest_snapshot()
            if newest is None:
                continue
            where = f"{kind}, seed {seed}: {history.steps}"
            if iceberg_state(history.table._store).behind and history.table.segments().live():
                continue
            document = reader.newest(history.folder)
            assert document["current-snapshot-id"] == newest.id, where
            table = IcebergTable.of(history.table._store, newest.schema_id)
            shown = {file["file_path"] for file in reader.live_files(document)}
            assert shown == set(PublishedFiles(table=table).live(newest).added), where
            for each in document["snapshots"]:
                reader.rows(document, each["snapshot-id"])
            if iceberg_state(history.table._store).behind == 0:
                assert reader.rows(document) == reader.ours(history.table.to_arrow()), where
            assert step


def overwrite(table):
    table.overwrite(table.to_arrow())


def compact_all(table):
    compact(table.copy({"compaction.force-rewrite-all-files": "true"}))


def add_foreign(table, folder):
    folder.mkdir()
    pq.write_table(arrow(COLUMNS, (2, "y")), folder / "a.parquet")
    table.segments().add(SegmentSource(path=str(folder)))


def make_parquet(table, _):
    table.alter([set_option("file.format", "parquet")])


def make_text(table, _):
    table.alter([update_column_type("id", "STRING")])


@pytest.mark.way_out("unsupported-iceberg-file")
@pytest.mark.parametrize(
    ("change", "way_out"),
    [
        (add_foreign, overwrite),
        (make_parquet, overwrite),
        (make_parquet, compact_all),
        (make_text, overwrite),
        (make_text, compact_all),
    ],
)
def test_table_without_foreign_files_is_shown_again(catalog, tmp_path, change, way_out):
    options = {"file.format": "orc"} if change is make_parquet else {}
    change(new_table(catalog, COLUMNS, (1, "x"), (3, "z"), options=options), tmp_path / "others")
    table = catalog.get_table("db.t").alter([set_option(key, STORAGE[key]) for key in STORAGE])
    with refused(UnsupportedFeatureError, "Overwrite", kind="unsupported-iceberg-file"):
        table.maintenance().run(MaintenanceTask.ICEBERG)
    way_out(table)
    assert iceberg_state(table._store).behind == 0
    document = reader.newest(folder(table))
    assert reader.rows(document) == reader.ours(table.to_arrow())


def test_health_shows_how_far_iceberg_is_behind(catalog):
    table = create(catalog, primary_keys=["id"], options={"bucket": "1"})
    for n in range(3):
        table.upsert(arrow(COLUMNS, (n, "x")))
    plain = new_table(catalog, COLUMNS, name="db.plain")
    assert table_health(table._store).iceberg_behind == 3
    assert table_health(plain._store).iceberg_behind is None
    assert snapshot_metadata(table, table.latest_snapshot())["paimon/iceberg_behind"] == 3
    table.compact(full=True)
    assert table_health(table._store).iceberg_behind == 0
    assert snapshot_metadata(table, table.latest_snapshot())["paimon/iceberg_behind"] == 0


def test_writers_at_same_time_are_all_followed(catalog):
    create(catalog)

    def write(start):
        table = catalog.get_table("db.t")
        for n in range(start, start + 8):
            table.append(arrow(COLUMNS, (n, "x")))

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(write, (0, 10, 20)))
    table = catalog.get_table("db.t")
    # The first writer may point to its own document at last; the next commit sees all.
    table.append(arrow(COLUMNS, (99, "x")))
    assert is_followed(table)


def test_cost_of_commit_does_not_grow(catalog, monkeypatch):
    monkeypatch.setattr(document, "MOST_SNAPSHOTS", 5)
    table = write_table(catalog, 40, options={"metadata.iceberg.compaction.max.file-num": "8"})
    sizes = [path.stat().st_size for path in sorted(folder(table).glob("v*.json"))]
    assert max(sizes) < 1.05 * min(sizes)
    assert len(sizes) == 11
    assert len(list(folder(table).iterdir())) < 11 + 5 + 8 + 5


@pytest.mark.parametrize("lost", ["snap-4-*.avro", "*-m0.avro"])
def test_lost_manifests_begin_new_history(catalog, lost):
    table = write_table(catalog, 4)
    for path in folder(table).glob(lost):
        path.unlink()
    table.overwrite(arrow(COLUMNS, (9, "y")), {})
    assert is_followed(table)
    assert len(reader.newest(folder(table))["snapshots"]) == 1


IN_CATALOG = {"metadata.iceberg.storage": "hadoop-catalog"}


def in_catalog(table):
    """Return the folder of a table's metadata in the warehouse."""
    return Path(newest_metadata(table._store).location).parent


@pytest.mark.parametrize("through", ["directory", "server"])
def test_dropped_database_leaves_no_metadata_of_ours(catalog, through):
    catalog.create_database("gone")
    places = [in_catalog(write_table(catalog, 2, name=f"{database}.{name}", options=IN_CATALOG))
              for database, name in (("gone", "a"), ("gone", "b"), ("db", "t"))]  # fmt: skip
    if through == "directory":
        catalog.drop_database("gone", cascade=True)
    else:
        with serving(ServeSettings(warehouse=catalog._catalog.warehouse, insecure=True)) as client:
            assert client.delete("databases/gone").status == 200
    assert [place.parents[1].exists() for place in places] == [False, False, True]
    assert places[2].joinpath("version-hint.text").exists()


def test_foreign_files_stay_when_database_is_dropped(catalog):
    catalog.create_database("gone")
    own, other = (in_catalog(write_table(catalog, 1, name=f"gone.{name}", options=IN_CATALOG))
                  for name in "ab")  # fmt: skip
    document = other / "v1.metadata.json"
    text = json.loads(document.read_bytes())
    text["properties"].pop("paimon-assets.iceberg")
    document.write_text(json.dumps(text), encoding="utf-8")
    mine = own / "mine.txt"
    mine.write_text("x", encoding="utf-8")
    stranger = own.parents[1] / "no-table" / "metadata" / "v1.metadata.json"
    stranger.parent.mkdir(parents=True)
    stranger.write_text("{}", encoding="utf-8")
    catalog.drop_database("gone", cascade=True)
    assert list(own.iterdir()) == [mine]
    assert document.exists()
    assert stranger.exists()


def test_metadata_is_deleted_with_table_without_option(catalog):
    table = write_table(catalog, 2, options=IN_CATALOG)
    place = in_catalog(table)
    table.alter([set_option("metadata.iceberg.storage", "disabled")])
    catalog.drop_table("db.t")
    assert not place.exists()


def test_new_table_has_no_metadata_of_dropped_one(catalog):
    """Other engines drop a table, and leave its metadata in the warehouse."""
    table = write_table(catalog, 3, options=IN_CATALOG)
    place = in_catalog(table)
    shutil.rmtree(table._store.table_path)
    table = new_table(catalog, COLUMNS, options=IN_CATALOG)
    state = iceberg_state(table._store)
    assert (state.metadata, state.behind) == (None, 0)
    for n in range(5):
        table.copy({"metadata.iceberg.storage": "disabled"}).append(arrow(COLUMNS, (n, "new")))
    assert iceberg_state(table._store).behind == 5
    table.append(arrow(COLUMNS, (9, "new")))
    assert [each["snapshot-id"] for each in reader.newest(place)["snapshots"]] == [6]
    assert reader.rows(reader.newest(place)) == reader.ours(table.to_arrow())
    assert [path.name for path in place.glob("v*.json")] == ["v6.metadata.json"]


@pytest.mark.parametrize("kept", ["0", "10"])
def test_slow_writer_keeps_files_of_faster_one(catalog, kept):
    table = write_table(catalog, 4, options={"metadata.iceberg.previous-versions-max": kept})
    before = sorted(folder(table).iterdir())
    for number in (2, 3, 4):
        follow_commit(table._store, table.snapshot(number), table.snapshot(number - 1))
        assert sorted(folder(table).iterdir()) == before
    assert is_followed(table)


def test_hint_of_slow_writer_leads_to_newest_document(catalog, monkeypatch):
    table = write_table(catalog, 2)
    table.copy({"metadata.iceberg.storage": "disabled"}).append(arrow(COLUMNS, (7, "x")))
    snapshots = {number: table.snapshot(number) for number in (2, 3)}
    file_io = type(table._store.file_io)
    write_hint, raced = file_io.write_hint, []

    def slow(self, path, data):
        if data == b"3" and not raced:
            raced.append(path)
            table.append(arrow(COLUMNS, (8, "x")))
        write_hint(self, path, data)

    monkeypatch.setattr(file_io, "write_hint", slow)
    follow_commit(table._store, snapshots[3], snapshots[2])
    assert raced
    assert is_followed(table)


@pytest.mark.parametrize("kept", ["0", "1", "10"])
@pytest.mark.parametrize("other_writers", [1, 2, 4])
def test_hint_of_slow_writer_does_not_go_back(catalog, kept, other_writers):
    """Its document, and the next one, are deleted by the time: before whichever call that is."""
    for stop in count():
        options = {"metadata.iceberg.previous-versions-max": kept}
        table = write_table(catalog, 2, name=f"db.t{stop}", options=options)
        table.copy({"metadata.iceberg.storage": "disabled"}).append(arrow(COLUMNS, (7, "x")))
        snapshots = [table.snapshot(3), table.snapshot(2)]

        def before(number, _method, _path, table=table, stop=stop):
            for other in range(other_writers if number == stop else 0):
                table.append(arrow(COLUMNS, (10 + other, "x")))

        file_io = FaultyFileIO(table._store.file_io, before=before)
        follow_commit(replace(table._store, file_io=file_io), *snapshots)
        assert is_followed(table), stop
        if len(file_io.calls) <= stop:
            break
    assert stop > 5


@pytest.mark.parametrize("fault", [Fault.FAIL, Fault.LOSE_ANSWER])
def test_faults_show_no_partial_state(catalog, fault):
    """Whatever call goes wrong, the hint leads to a whole snapshot, and the next commit heals."""
    for call in count():
        table = write_table(catalog, 2, name=f"db.t{call}")
        table.copy({"metadata.iceberg.storage": "disabled"}).append(arrow(COLUMNS, (7, "x")))
        file_io = FaultyFileIO(LocalFileIO())
        faulty = FilesystemCatalog(catalog._catalog.warehouse, file_io)
        store = FileStore.load(faulty, Identifier("db", f"t{call}"))
        file_io._faults[len(file_io.calls) + call] = fault
        follow_commit(store, table.snapshot(3), table.snapshot(2))
        document = reader.newest(folder(table))
        assert len(reader.rows(document)) == document["current-snapshot-id"], call
        for path in folder(table).glob("v*.json"):
            shown = json.loads(path.read_bytes())
            assert len(reader.rows(shown)) == shown["current-snapshot-id"], (call, path)
        table.append(arrow(COLUMNS, (8, "x")))
        assert is_followed(table), call
        if not file_io.fired:
            break
    assert call > 5


@pytest.mark.parametrize("storage", ["table-location", "hadoop-catalog"])
def test_relative_warehouse_has_absolute_paths(catalog, monkeypatch, tmp_path, storage):
    monkeypatch.chdir(tmp_path)
    near = open_catalog("warehouse")
    table = write_table(near, 2, options={"metadata.iceberg.storage": storage})
    monkeypatch.chdir("/")
    far = catalog.get_table("db.t")
    found = newest_metadata(far._store)
    assert found.document["location"] == f"{tmp_path}/warehouse/db.db/t"
    assert reader.rows(found.document) == reader.ours(far.to_arrow())
    far.append(arrow(COLUMNS, (7, "x")))
    assert len(newest_metadata(far._store).document["snapshots"]) == 3
    monkeypatch.chdir(tmp_path)
    assert iceberg_state(table.refresh()._store).behind == 0
    near.drop_table("db.t")
    assert not Path(found.location).parent.exists()
