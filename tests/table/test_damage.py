"""Reads of files that are cut, changed or missing name the file and the way out."""

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_assets import FormatError, InvalidInputError, NotFoundError, Schema, open_table
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.evolution import schema_change as sc
from paimon_assets.engine.spec.types.data_types import bigint, string
from tests.testkit.errors import refused

TABLES = Path(__file__).parents[3] / "shared" / "tables"


def write_table(catalog, **options):
    """Return the path of a table that this process has not read before."""
    schema = Schema.of({"id": "BIGINT", "v": "STRING"}, options={"bucket": "-1", **options})
    table = catalog.create_table("db.t", schema)
    rows = pa.table({"id": list(range(3000)), "v": [f"value {n}" for n in range(3000)]})
    table.new_write_builder().write(rows)
    copy = Path(table.path).with_name("copy")
    shutil.copytree(table.path, copy)
    return copy


def read(path, where=None):
    return open_table(str(path)).to_arrow(where=where)


def read_and_write(path):
    read(path, "id = 1")
    rows = pa.table({"id": [1], "v": ["x"]})
    open_table(str(path)).new_write_builder().write(rows)


def cut(path):
    path.write_bytes(path.read_bytes()[:-20])


def cut_silently(path):
    """As many bytes as before, the second half of them zeros."""
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2] + bytes(len(data) - len(data) // 2))


def empty(path):
    path.write_bytes(b"")


DAMAGES = (cut, cut_silently, empty, Path.unlink)
FILES = {
    **{f"bucket-0/*.{name}": DAMAGES for name in ("parquet", "orc", "avro")},
    "manifest/manifest-[0-9a-f]*": DAMAGES,
    "manifest/manifest-list-*-1": DAMAGES,
    "snapshot/snapshot-1": (cut, empty),
    "schema/schema-0": (cut, empty),
}


@pytest.mark.parametrize(
    ("pattern", "damage"), [(pattern, each) for pattern in FILES for each in FILES[pattern]]
)
def test_damaged_or_missing_file_is_named(catalog, pattern, damage):
    is_data = pattern.startswith("bucket")
    file_format = pattern.rpartition(".")[2] if is_data else "parquet"
    table = write_table(catalog, **{"file.format": file_format})
    path = max(table.glob(pattern))
    damage(path)
    is_gone = damage is Path.unlink
    with pytest.raises(NotFoundError if is_gone else FormatError) as caught:
        read(table)
    assert path.name in caught.value.message
    assert Path(str(caught.value.details["path"])).name == path.name
    assert not (is_gone and is_data) or "snapshot" in caught.value.message


def test_missing_schema_is_named_by_its_files(catalog):
    table = write_table(catalog)
    expected = read(table)
    first = table / "schema" / "schema-0"
    newer = {**json.loads(first.read_text()), "id": 1}
    first.with_name("schema-1").write_text(json.dumps(newer))
    first.unlink()
    assert read(table) == expected


def test_table_without_any_schema_is_refused(catalog):
    table = write_table(catalog)
    (table / "schema" / "schema-0").unlink()
    with refused(NotFoundError, "schema", kind="table-not-found"):
        read(table)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("bucket", "many"),
        ("read.batch-size", "1.5"),
        ("file-index.read.enabled", "perhaps"),
        ("target-file-size", "big"),
    ],
)
def test_wrong_option_value_names_option(catalog, option, value):
    table = write_table(catalog)
    schema = table / "schema" / "schema-0"
    json_ = json.loads(schema.read_text())
    json_["options"][option] = value
    schema.write_text(json.dumps(json_))
    with pytest.raises(InvalidInputError, match=option) as caught:
        read_and_write(table)
    assert caught.value.details["option"] == option


@pytest.mark.skipif(not TABLES.exists(), reason="needs ../shared/tables, written by Java Paimon")
@pytest.mark.parametrize("damage", ["cut", "checksum", "gone"])
def test_damaged_deletion_vectors_are_named(tmp_path, damage):
    source = TABLES / "parquet/pk_table_scan_and_read_dv.db/pk_table_scan_and_read_dv"
    table = tmp_path / "pk_table_scan_and_read_dv"
    shutil.copytree(source, table)
    indexes = list(table.glob("index/index-*"))
    for path in indexes:
        data = path.read_bytes()
        if damage == "gone":
            path.unlink()
        else:
            path.write_bytes(data[:-3] if damage == "cut" else data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(NotFoundError if damage == "gone" else FormatError) as caught:
        read(table)
    assert Path(str(caught.value.details["path"])).name in {path.name for path in indexes}


ROWS = pa.table(
    {"k": pa.array([1, 2], pa.int32()), "a": ["x", "y"], "b": pa.array([7, 8], pa.int32())}
)


def evolved_table(catalog, file_format, keys, **options):
    """A table whose first file was written with a schema that is gone."""
    schema = Schema.of(
        {"k": "INT", "a": "CHAR(3)", "b": "INT"},
        primary_keys=keys,
        options={"bucket": "1" if keys else "-1", "file.format": file_format, **options},
    )
    table = catalog.create_table("db.t", schema)
    table.new_write_builder().write(ROWS)
    table = table.alter(
        [
            sc.RenameColumn(field_names=("a",), new_name="z"),
            sc.UpdateColumnType(field_names=("b",), new_data_type=bigint()),
            sc.AddColumn(field_names=("a",), data_type=string()),
        ]
    )
    late = {"k": pa.array([2, 3], pa.int32()), "z": ["w", "v"], "b": [9, 10], "a": ["n", "m"]}
    table.new_write_builder().write(pa.table(late))
    Path(table.path, "schema", "schema-0").rename(f"{table.path}.schema-0")
    return open_table(table.path)


def read_columns(table, where=None):
    rows = table.to_arrow(where=where).to_pylist()
    return sorted(tuple(row[name] for name in ("k", "z", "b", "a")) for row in rows)


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
@pytest.mark.parametrize("keys", [(), ("k",)], ids=["append", "keys"])
def test_columns_are_found_by_ids_in_file(catalog, file_format, keys):
    table = evolved_table(catalog, file_format, keys)
    old = [(1, "x", 7, None)] if keys else [(1, "x", 7, None), (2, "y", 8, None)]
    expected = [*old, (2, "w", 9, "n"), (3, "v", 10, "m")]
    assert read_columns(table) == sorted(expected, key=str)
    assert read_columns(table, "b = 7 AND a IS NULL") == [(1, "x", 7, None)]
    assert read_columns(table, "a = 'm' AND k = 3") == [(3, "v", 10, "m")]
    assert len(table.system_table("files").to_arrow()) == 2


def test_dropped_column_may_have_any_type(catalog):
    table = evolved_table(catalog, "parquet", ())
    table = table.alter([sc.DropColumn(field_names=("b",))])
    assert table.to_arrow().column_names == ["k", "z", "a"]


@pytest.mark.way_out("schema-missing")
def test_avro_files_name_missing_schema(catalog):
    table = evolved_table(catalog, "avro", ())
    with refused(FormatError, r"Restore 'schema/schema-0'", kind="schema-missing"):
        read_columns(table)
    Path(f"{table.path}.schema-0").rename(Path(table.path, "schema", "schema-0"))
    assert len(read_columns(open_table(table.path))) == 4


def test_damage_without_earlier_snapshot_advises_none(catalog):
    table = catalog.create_table("db.t", Schema.of({"k": "INT"}))
    table.new_write_builder().write(ROWS.select(["k"]))
    LocalFileIO().delete_file(table.state.file_path(table.state.live_files()[0]))
    with pytest.raises(NotFoundError, match="There is no earlier snapshot: restore the file"):
        table.to_arrow()
