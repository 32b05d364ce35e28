"""Refusals of tables name ways out, and each is taken."""

import json
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_assets import (
    AlreadyExistsError,
    FormatError,
    InvalidInputError,
    Schema,
    StorageError,
    UnsupportedFeatureError,
    add_column,
    drop_column,
    open_catalog,
    set_option,
    update_column_type,
)
from paimon_assets.engine.table.upkeep.maintenance import MaintenanceTask
from paimon_assets.erasure import erase
from tests.testkit import foreign
from tests.testkit.errors import refused
from tests.testkit.evolving import EVOLVING, Doubling, update
from tests.testkit.tables import new_table, read, write

EXPIRE = MaintenanceTask.EXPIRE_SNAPSHOTS
_COLUMNS = {"k": "INT", "n": "INT", "score": "BIGINT"}


def _double(table):
    table.new_column_write_builder(["score"], reads=["k", "n"]).write(Doubling())
    return sorted(read(table, ["k", "score"]))


@pytest.mark.parametrize("way_out", ["other name", "removed"])
def test_occupied_folder_is_usable_once_emptied_or_changed(catalog, way_out):
    path = Path(catalog.create_table("db.first", Schema.of({"k": "INT"})).path).parent / "t"
    path.mkdir()
    (path / "notes.txt").write_text("foreign")
    with refused(InvalidInputError, "another name, or remove its content", kind="folder-not-empty"):
        catalog.create_table("db.t", Schema.of({"k": "INT"}))
    if way_out == "removed":
        (path / "notes.txt").unlink()
    table = catalog.create_table(
        "db.t" if way_out == "removed" else "db.u", Schema.of({"k": "INT"})
    )
    write(table, (1,))
    assert read(table) == [(1,)]


@pytest.mark.parametrize(
    "changed", ["file.format", "changelog-file.format", "file.format.per.level"]
)
def test_types_that_format_lacks_are_written_as_parquet(catalog, changed):
    options = {
        "bucket": "1",
        "changelog-producer": "input",
        changed: "0:avro" if "level" in changed else "avro",
    }
    schema = Schema.of({"k": "INT", "t": "TIMESTAMP(9)"}, primary_keys=["k"], options=options)
    table = catalog.create_table("db.t", schema)
    with refused(UnsupportedFeatureError, f"Set '{changed}' to parquet", kind="file-format-type"):
        write(table, (1, None))
    table = table.alter([set_option(changed, "0:parquet" if "level" in changed else "parquet")])
    write(table, (1, None))
    assert read(table) == [(1, None)]


def test_partial_update_writes_columns_with_key(catalog):
    keyed = catalog.create_table("db.k", Schema.of(_COLUMNS, primary_keys=["k"]))
    write(keyed, (1, 5, None))
    kind = "unsupported-keyed-columns"
    with refused(UnsupportedFeatureError, "'merge-engine' = partial-update", kind=kind):
        _double(keyed)
    options = {"bucket": "1", "merge-engine": "partial-update"}
    table = catalog.create_table("db.t", Schema.of(_COLUMNS, primary_keys=["k"], options=options))
    write(table, (1, 5, None))
    columns = pa.table({"k": pa.array([1], pa.int32()), "score": [10]})
    table.copy({"write.fill-missing": "true"}).upsert(columns)
    assert read(table) == [(1, 5, 10)]


def test_data_evolution_table_writes_single_columns(catalog):
    plain = catalog.create_table("db.p", Schema.of(_COLUMNS))
    write(plain, (1, 5, None))
    with refused(UnsupportedFeatureError, "Create it with", kind="unsupported-column-files"):
        _double(plain)
    table = catalog.create_table("db.t", Schema.of(_COLUMNS, options=EVOLVING))
    write(table, (1, 5, None))
    assert _double(table) == [(1, 10)]


def test_rows_change_after_ids_are_enabled(tmp_path):
    table = new_table(tmp_path, _COLUMNS, (1, 5, None))
    schemas = Path(table.path) / "schema"
    schema = json.loads((schemas / "schema-0").read_text())
    schema = {**schema, "id": 1, "options": {**schema["options"], **EVOLVING}}
    (schemas / "schema-1").write_text(json.dumps(schema))  # as another engine sets options
    table = table.refresh()
    kind = "unsupported-rows-without-ids"
    with refused(UnsupportedFeatureError, r"Table\.enable_row_ids", kind=kind):
        update(table, {"n": 6})
    with refused(UnsupportedFeatureError, r"Table\.enable_row_ids", kind=kind):
        _double(table)
    table = table.enable_row_ids(data_evolution=True)
    update(table, {"n": 6})
    assert _double(table) == [(1, 12)]


def test_number_is_written_after_column_is_widened(catalog):
    table = catalog.create_table("db.t", Schema.of({"n": "INT"}))
    rows = pa.table({"n": [2**40]})
    with refused(InvalidInputError, "Correct it, or alter the column", kind="input-value"):
        table.append(rows)
    table = table.alter([update_column_type("n", "BIGINT")])
    table.append(rows)
    assert read(table) == [(2**40,)]


@pytest.mark.parametrize("columns", [{"a": pa.int32()}, {"a": pa.int64(), "b": pa.string()}])
def test_segment_is_added_after_its_columns(catalog, tmp_path, columns):
    rows = pa.table({name: pa.nulls(1, kind) for name, kind in columns.items()})
    foreign.write(tmp_path / "in" / "1.parquet", rows)
    table = catalog.create_table("db.t", Schema.of({"a": "INT", "b": "STRING"}))
    with refused(InvalidInputError, "Alter the table to the file's columns", kind="segment-schema"):
        foreign.add_segment(table, tmp_path / "in", "parquet")
    change = update_column_type("a", "BIGINT") if "b" in columns else drop_column("b")
    foreign.add_segment(table.alter([change]), tmp_path / "in", "parquet")
    assert table.refresh().count() == 1


def test_consumers_columns_and_types_are_refused_with_their_kinds(catalog):
    table = catalog.create_table("db.t", Schema.of({"n": "INT"}))
    write(table, (1,))
    consumer = table.new_read_builder().with_consumer("c")
    with refused(InvalidInputError, "leave out the limit", kind="consumer-limit"):
        consumer.with_limit(1).plan()
    assert len(consumer.plan().splits) == 1
    with refused(AlreadyExistsError, "exists already", kind="column-exists"):
        table.alter([add_column("n", "INT")])
    with refused(FormatError, "Did you mean|did you mean", kind="data-type"):
        table.alter([add_column("m", "STRNG")])


def test_catalog_of_another_kind_is_opened_as_warehouse(catalog, tmp_path):
    options = {"metastore": "glue"}
    with refused(UnsupportedFeatureError, "'metastore' = filesystem", kind="unsupported-metastore"):
        open_catalog(str(tmp_path), options)
    assert open_catalog(str(tmp_path), {"metastore": "filesystem"}).list_databases() == []


@pytest.mark.parametrize(
    ("name", "error", "kind"),
    [
        ("tag", StorageError, "not-a-folder"),
        ("changelog", StorageError, "not-a-folder"),
        ("branch", StorageError, "not-a-folder"),
        ("consumer", StorageError, "not-a-folder"),
        ("segments", StorageError, "not-a-folder"),
        ("tag/tag-x", FormatError, "metadata-json"),
        ("consumer/consumer-x", FormatError, "metadata-json"),
    ],
)
def test_foreign_file_in_place_of_own_is_named_until_it_is_moved(catalog, name, error, kind):
    retained = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"}
    table = new_table(catalog, {"k": "INT"}, (1,), options=retained)
    write(table, (2,))
    file = Path(table.path, name)
    file.parent.mkdir(exist_ok=True)
    file.write_text("a note")
    calls = (partial(erase, table, "k = 1"), partial(table.maintenance().run, EXPIRE))
    for call in calls if name != "consumer/consumer-x" else calls[1:]:
        with refused(error, f"{file}.*elsewhere", kind=kind):
            call()
    file.rename(f"{table.path}.note")
    for call in calls:
        call()
    assert read(table) == [(2,)]
    assert len(table.snapshots()) == 1
