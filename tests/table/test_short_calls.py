"""Table.to_arrow, append, upsert, …: the usual in one call, and schemas of Arrow tables."""

import pyarrow as pa
import pytest

from paimon_assets import InvalidInputError, Schema, add_column, open_catalog

PEOPLE = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["a", "b", "c"]})


@pytest.fixture
def catalog(tmp_path):
    catalog = open_catalog(str(tmp_path))
    catalog.create_database("db")
    return catalog


def rows(table):
    return sorted(table.to_arrow().to_pylist(), key=lambda row: row["id"])


def test_a_table_without_a_key_from_an_arrow_schema(catalog):
    table = catalog.create_table("db.people", PEOPLE.schema)
    table.append(PEOPLE)
    assert table.count() == 3
    assert table.count("id > 1") == 2
    assert table.to_arrow(["name"], "id = 2").to_pylist() == [{"name": "b"}]
    assert table.to_arrow(limit=1).num_rows == 1
    assert table.to_pandas(where="id < 2")["name"].tolist() == ["a"]
    assert table.to_polars()["id"].sum() == 6
    assert table.scan(["id"]).to_arrow().column_names == ["id"]
    assert table.delete("id = 3").rows_matched == 1
    table.upsert(pa.table({"id": [2, 9], "name": ["B", "new"]}), on=["id"])
    assert [row["name"] for row in rows(table)] == ["a", "B", "new"]
    table.overwrite(PEOPLE.slice(0, 1))
    assert rows(table) == [{"id": 1, "name": "a"}]
    assert table.history().column("snapshot_id").to_pylist() == [1, 2, 3, 4]


def test_a_table_with_a_key(catalog):
    schema = Schema.of(PEOPLE.schema, primary_keys="id", options={"bucket": 1})
    table = catalog.create_table("db.people", schema)
    table.upsert(PEOPLE)
    table.upsert(pa.table({"id": [3], "name": ["C"]}))
    assert [row["name"] for row in rows(table)] == ["a", "b", "C"]
    assert table.compact(full=True).snapshot.commit_kind == "COMPACT"
    assert table.compact().snapshot is None
    with pytest.raises(InvalidInputError, match="Use upsert") as refused:
        table.append(PEOPLE)
    assert refused.value.kind == "primary-key"


def test_rows_are_the_same_by_a_key_or_by_named_columns(catalog):
    table = catalog.create_table("db.people", {"id": "BIGINT", "name": "STRING"})
    with pytest.raises(InvalidInputError, match=r"on=\['id'\]"):
        table.upsert(PEOPLE)
    assert table.latest_snapshot() is None


def test_overwriting_means_the_partitions_of_the_rows(catalog):
    schema = Schema.of({"id": "BIGINT", "day": "STRING"}, partition_keys="day")
    table = catalog.create_table("db.days", schema)
    table.append(pa.table({"id": [1, 2], "day": ["a", "b"]}))
    table.overwrite(pa.table({"id": [3], "day": ["b"]}))
    assert [row["id"] for row in rows(table)] == [1, 3]
    table.overwrite(pa.table({"id": [4], "day": ["c"]}), {})
    assert [row["id"] for row in rows(table)] == [4]


def test_refresh_loads_the_newest_schema_into_the_table(catalog):
    table = catalog.create_table("db.people", PEOPLE.schema)
    catalog.load_table("db.people").alter([add_column("age", "INT")])
    assert table.schema.field_names == ("id", "name")
    assert table.refresh() is table
    assert table.schema.field_names == ("id", "name", "age")


@pytest.mark.parametrize("columns", [["id"], "id BIGINT", 3])
def test_what_is_no_schema_is_refused(catalog, columns):
    with pytest.raises(InvalidInputError, match="made of a mapping"):
        catalog.create_table("db.people", columns)


def test_what_only_the_library_needs_is_no_attribute_of_a_table(catalog):
    table = catalog.create_table("db.people", PEOPLE.schema)
    assert {"to_arrow", "append", "tags", "history"} <= set(dir(table))
    internals = {"pointed_ledger", "shape", "file_io", "reopened", "create_tag", "live_files"}
    assert not internals & set(dir(table))
