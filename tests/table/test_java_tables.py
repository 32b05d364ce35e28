"""Whole tables that Java Paimon 0.8 to 1.4 wrote, read to the last row."""

import importlib
import itertools
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_assets import EmbeddedExecutor, open_table
from paimon_assets.engine.spec.predicate.predicate import equal

TABLES = Path(__file__).parents[3] / "shared" / "tables"
INDEX: dict[str, dict[str, Any]] = (
    json.loads((TABLES / "index.json").read_text(encoding="utf-8")) if TABLES.exists() else {}
)
pytestmark = pytest.mark.skipif(not INDEX, reason="needs ../shared/tables, written by Java Paimon")


def short(name: str) -> str:
    """`parquet/pk_09.db/pk_09` → `parquet/pk_09`."""
    directory, _, table = name.rpartition("/")
    return f"{directory.rpartition('/')[0]}/{table}".removeprefix("/")


def cases():
    return [pytest.param(name, id=short(name)) for name in sorted(INDEX)]


def plain(scalar: Any) -> Any:
    """Return a value that compares by content: timestamps by instant, decimals by value."""
    if not scalar.is_valid:
        return None
    data_type = scalar.type
    if pa.types.is_timestamp(data_type):
        unit = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[data_type.unit]
        return ("instant", data_type.tz is not None, scalar.value * unit)
    if pa.types.is_decimal(data_type):
        return ("decimal", scalar.as_py().normalize())
    if pa.types.is_map(data_type):
        pairs = [(plain(pair["key"]), plain(pair["value"])) for pair in scalar.values]
        return tuple(sorted(pairs, key=repr))
    if pa.types.is_list(data_type):
        return tuple(plain(value) for value in scalar.values)
    if pa.types.is_struct(data_type):
        return tuple(plain(value) for value in scalar.values())
    return scalar.as_py()


def multiset(table: pa.Table, names: list[str]) -> list[str]:
    columns = [[plain(value) for value in table.column(name)] for name in names]
    return sorted(map(repr, zip(*columns, strict=True)))


def read(name: str, **builder: Any) -> pa.Table:
    reader = open_table(str(TABLES / name)).new_read_builder()
    for method, argument in builder.items():
        reader = getattr(reader, method)(argument)
    return reader.to_arrow(EmbeddedExecutor(threads=2))


@pytest.mark.spark
@pytest.mark.parametrize("name", cases())
def test_spark_reads_same_rows(name, spark):
    executor = importlib.import_module("paimon_assets.spark.executor").SparkExecutor(spark)
    wanted = expected_rows(name)
    found = open_table(str(TABLES / name)).new_read_builder().to_arrow(executor)
    assert multiset(found, wanted.column_names) == multiset(wanted, wanted.column_names)


def expected_rows(name: str) -> pa.Table:
    return pq.ParquetFile(TABLES / INDEX[name]["expected"]).read()


@pytest.mark.parametrize("name", cases())
def test_java_table_has_rows_of_java(name):
    found, wanted = read(name), expected_rows(name)
    assert found.column_names == wanted.column_names
    assert found.num_rows == INDEX[name]["rows"]
    assert multiset(found, wanted.column_names) == multiset(wanted, wanted.column_names)


@pytest.mark.parametrize("name", cases())
def test_filter_on_java_table_finds_rows(name):
    wanted = expected_rows(name)
    for column in wanted.column_names:
        values = [value for value in wanted.column(column) if value.is_valid]
        if not values or not _is_comparable(values[0].type):
            continue
        value = values[len(values) // 2].as_py()
        found = read(name, with_filter=equal(column, value))
        rows = [number for number, each in enumerate(wanted.column(column).to_pylist())
                if each == value]  # fmt: skip
        chosen = wanted.take(pa.array(rows))
        assert multiset(found, wanted.column_names) == multiset(chosen, wanted.column_names)


def _is_comparable(data_type: pa.DataType) -> bool:
    return pa.types.is_integer(data_type) or pa.types.is_string(data_type)


@pytest.mark.parametrize(
    ("table", "columns"),
    [
        ("append_table_alter_table_with_cast_with_data_evolution", ["f6", "key1", "key0"]),
        ("blob_append_table_alter_table_with_cast_with_data_evolution", ["f5", "key0", "f6"]),
        ("blob_append_table_alter_table_with_cast_with_data_evolution", ["f5"]),
        ("data_evolution_with_dense_stats", ["f3", "f0"]),
        ("pk_09", ["f3"]),
    ],
)
def test_projection_of_java_table_equals_rows(table, columns):
    name = f"parquet/{table}.db/{table}"
    wanted = expected_rows(name)
    assert multiset(read(name, with_columns=columns), columns) == multiset(wanted, columns)


KEYED = [name for name in sorted(INDEX) if "pk_" in name]


@pytest.mark.parametrize("name", KEYED, ids=short)
def test_difference_leads_to_any_later_state(name):
    table = open_table(str(TABLES / name))
    names = list(table.schema.field_names)
    # A past state has its own columns; differences have today's.
    ids = [one.id for one in table.snapshots() if one.schema_id == table.schema.id]
    states = {number: _rows(table.new_read_builder().at_snapshot(number), names) for number in ids}
    for start, end in itertools.combinations(ids, 2):
        changes = table.new_read_builder().between(start, end, "diff").with_row_kinds()
        rows = _rows(changes, ["rowkind", *names])
        old, new = states[start], states[end]
        gone, came, changed = (_of_kind(rows, kind) for kind in ("-D", "+I", "+U"))
        assert gone <= old - new
        assert came | changed == new - old
        assert len(gone) + len(changed) == len(old - new)


def _rows(builder, names):
    return set(multiset(builder.to_arrow(), names))


def _of_kind(rows, kind):
    prefix = f"('{kind}', "
    return {f"({row.removeprefix(prefix)}" for row in rows if row.startswith(prefix)}


def test_branch_of_java_is_read_by_its_name():
    name = next(name for name in INDEX if "append_table_with_append_pt_branch" in name)
    table = open_table(str(TABLES / name))
    assert list(table.branches.list()) == ["test"]
    branch = table.at_branch("test")
    assert branch.latest_snapshot() is not None
    assert branch.to_arrow().num_rows > 0
    assert branch.system_table("files").to_arrow().num_rows == len(branch.state.live_files())


@pytest.mark.parametrize("name", sorted(INDEX), ids=short)
def test_system_tables_of_any_table_are_read(name):
    table = open_table(str(TABLES / name))
    for kind in ("files", "manifests", "partitions", "buckets", "table_indexes", "schemas"):
        system = table.system_table(kind)
        assert system.to_arrow().schema == system.arrow_schema
    assert table.system_table("files").to_arrow().num_rows == len(table.state.live_files())
