"""Files whose `schema-N` is gone are read by the field ids inside them."""

import pyarrow as pa
import pytest

from paimon_assets.engine.errors import FormatError, NotFoundError
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.evolution.schema_change import (
    AddColumn,
    DropColumn,
    RenameColumn,
    UpdateColumnType,
)
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.spec.types.data_types import bigint, string
from paimon_assets.engine.table.api import open_table

ROWS = pa.table(
    {"k": pa.array([1, 2], pa.int32()), "a": ["x", "y"], "b": pa.array([7, 8], pa.int32())}
)


def evolved(catalog, file_format, keys, **options):
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
            RenameColumn(field_names=("a",), new_name="z"),
            UpdateColumnType(field_names=("b",), new_data_type=bigint()),
            AddColumn(field_names=("a",), data_type=string()),
        ]
    )
    late = {"k": pa.array([2, 3], pa.int32()), "z": ["w", "v"], "b": [9, 10], "a": ["n", "m"]}
    table.new_write_builder().write(pa.table(late))
    LocalFileIO().delete_file(f"{table.path}/schema/schema-0")
    return open_table(table.path)


def read(table, where=None):
    rows = table.to_arrow(where=where).to_pylist()
    return sorted(tuple(row[name] for name in ("k", "z", "b", "a")) for row in rows)


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
@pytest.mark.parametrize("keys", [(), ("k",)], ids=["append", "keys"])
def test_columns_are_found_by_the_ids_in_the_file(catalog, file_format, keys):
    table = evolved(catalog, file_format, keys)
    old = [(1, "x", 7, None)] if keys else [(1, "x", 7, None), (2, "y", 8, None)]
    expected = [*old, (2, "w", 9, "n"), (3, "v", 10, "m")]
    assert read(table) == sorted(expected, key=str)
    assert read(table, "b = 7 AND a IS NULL") == [(1, "x", 7, None)]
    assert read(table, "a = 'm' AND k = 3") == [(3, "v", 10, "m")]
    assert len(table.system_table("files").to_arrow()) == 2


def test_a_dropped_column_may_have_any_type(catalog):
    table = evolved(catalog, "parquet", ())
    table = table.alter([DropColumn(field_names=("b",))])
    found = table.to_arrow()
    assert found.column_names == ["k", "z", "a"]


def test_avro_files_name_the_schema_that_is_gone(catalog):
    table = evolved(catalog, "avro", ())
    with pytest.raises(FormatError, match=r"Restore 'schema/schema-0'") as raised:
        read(table)
    assert raised.value.kind == "schema-missing"


def test_no_earlier_snapshot_is_advised_where_there_is_none(catalog):
    table = catalog.create_table("db.t", Schema.of({"k": "INT"}))
    table.new_write_builder().write(ROWS.select(["k"]))
    LocalFileIO().delete_file(table.state.file_path(table.state.live_files()[0]))
    with pytest.raises(NotFoundError, match="There is no earlier snapshot: restore the file"):
        table.to_arrow()
