"""Tables with Iceberg metadata: pyiceberg and duckdb see our rows after each commit."""

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from paimon_assets import (
    Schema,
    Table,
    TableCatalog,
    add_column,
    drop_column,
    open_catalog,
    rename_column,
    set_option,
    update_column_type,
)
from tests.iceberg.kit import histories, reader
from tests.iceberg.kit.histories import located, seen_alike
from tests.testkit.effort import often
from tests.testkit.tables import arrow

pytestmark = pytest.mark.interop

STORAGE = {"metadata.iceberg.storage": "table-location"}


def new_table(at: Path, columns: Any, **declared: Any) -> Table:
    options = {**STORAGE, **declared.pop("options", {})}
    return _catalog(at).create_table("db.t", Schema.of(columns, options=options, **declared))


def _catalog(at: Path) -> TableCatalog:
    catalog = open_catalog(str(at))
    catalog.create_database("db", ignore_if_exists=True)
    return catalog


NOW = dt.datetime(2024, 3, 1, 1, 2, 3, 456_789)
ALL_TYPES = {
    "boolean": ("BOOLEAN", True), "tiny": ("TINYINT", -7), "small": ("SMALLINT", -300),
    "int": ("INT", 2**31 - 1), "long": ("BIGINT", -(2**63)), "float": ("FLOAT", 0.5),
    "double": ("DOUBLE", -0.0), "amount": ("DECIMAL(10, 2)", Decimal("-12.34")),
    "large": ("DECIMAL(38, 10)", Decimal("1234567890123456789.0123456789")),
    "text": ("STRING", "a" * 40), "code": ("VARCHAR(3)", "äöü"), "fixed": ("CHAR(3)", "abc"),
    "bytes": ("BYTES", b"\xff" * 40), "day": ("DATE", dt.date(1969, 12, 31)),
    "at": ("TIMESTAMP(6)", NOW), "millis": ("TIMESTAMP(3)", NOW.replace(microsecond=456_000)),
    "seconds": ("TIMESTAMP(0)", NOW.replace(microsecond=0)),
    "instant": ("TIMESTAMP(6) WITH LOCAL TIME ZONE", NOW.replace(tzinfo=dt.UTC)),
    "list": ("ARRAY<STRING>", ["a", None]), "map": ("MAP<STRING, INT>", [("k", 1)]),
    "row": ("ROW<a INT, b ARRAY<ROW<c STRING>>>", {"a": 1, "b": [{"c": "x"}]}),
}  # fmt: skip


def test_all_types_with_nulls(tmp_path, iceberg):
    columns = {"id": "BIGINT NOT NULL", **{name: text for name, (text, _) in ALL_TYPES.items()}}
    table = new_table(tmp_path, columns)
    values = {name: value for name, (_, value) in ALL_TYPES.items()}
    table.append(arrow(columns, {"id": 1, **values}, {"id": 2}))
    seen_alike(table, iceberg)
    table.append(arrow(columns, {"id": 3}))
    seen_alike(table, iceberg)


PARTITIONED_BY = ["text", "int", "day", "amount", "boolean", "long", "code", "at"]


@pytest.mark.parametrize("column", PARTITIONED_BY)
def test_partitions_are_pruned_by_their_values(tmp_path, iceberg, column):
    text, value = ALL_TYPES[column]
    columns = {"id": "BIGINT", "p": text}
    table = new_table(tmp_path, columns, partition_keys=["p"])
    table.append(arrow(columns, {"id": 1, "p": value}, {"id": 2}))
    table.append(arrow(columns, {"id": 3, "p": value}))
    seen_alike(table, iceberg)
    (nulls,) = iceberg.read(f"{located(table)}##p is null").to_pylist()
    assert nulls == {"id": 2, "p": None}
    table.overwrite(arrow(columns, {"id": 4, "p": value}))
    seen_alike(table, iceberg)


def test_statistics_skip_files_and_no_rows(tmp_path, iceberg):
    columns = {"id": "BIGINT", "name": "STRING", "f": "DOUBLE"}
    table = new_table(tmp_path, columns)
    for start in range(0, 30, 10):
        rows = [(n, f"n{n:02}" * 20, float(n) if n % 7 else float("nan")) for n in
                range(start, start + 10)]  # fmt: skip
        table.append(arrow(columns, *rows))
    for where, count in (
        ("id = 11", 1), ("id > 25", 4), (f"name = '{'n29' * 20}'", 1), ("f < 3", 2),
        ("id is null", 0), ("name >= 'n29'", 1),
    ):  # fmt: skip
        assert iceberg.read(f"{located(table)}##{where}").num_rows == count, where


def test_columns_are_known_by_their_ids(tmp_path, iceberg):
    columns = {"a": "INT", "b": "STRING", "c": "FLOAT", "d": "DECIMAL(5, 2)"}
    table = new_table(tmp_path, columns)
    table.append(arrow(columns, (1, "x", 0.5, Decimal("1.25"))))
    table = table.alter(
        [
            rename_column("b", "a2"),
            update_column_type("a", "BIGINT"),
            update_column_type("c", "DOUBLE"),
            update_column_type("d", "DECIMAL(9, 2)"),
            add_column("e", "INT", first=True),
        ]
    )
    table.append(arrow(table.schema, (7, 2**40, "y", 1.5, Decimal("1234567.25"))))
    seen_alike(table, iceberg)
    table = table.alter([drop_column("a2"), add_column("a2", "INT")])
    table.append(arrow(table.schema, (8, 3, None, None, 5)))
    seen_alike(table, iceberg)
    assert iceberg.read(f"{located(table)}##a > 1").num_rows == 2
    first = iceberg.read(f"{located(table)}#1")
    assert first.to_pylist() == [{"a": 1, "b": "x", "c": 0.5, "d": Decimal("1.25")}]


def test_late_activation_writes_whole_state_once(tmp_path, iceberg):
    columns = {"id": "BIGINT", "v": "STRING"}
    table = _catalog(tmp_path).create_table("db.t", Schema.of(columns))
    for n in range(3):
        table.append(arrow(columns, (n, "x")))
    table = table.alter([set_option("metadata.iceberg.storage", "hadoop-catalog")])
    table.append(arrow(columns, (9, None)))
    seen_alike(table, iceberg)
    assert located(table) == f"{tmp_path}/iceberg/db/t/metadata/v4.metadata.json"


def test_compaction_deletion_and_overwrite(tmp_path, iceberg):
    columns = {"id": "BIGINT", "v": "STRING"}
    table = new_table(tmp_path, columns)
    for n in range(12):
        table.append(arrow(columns, (n, "x"), (n + 100, None)))
    table.compact(full=True)
    seen_alike(table, iceberg)
    table.delete("id > 105")
    seen_alike(table, iceberg)
    table.overwrite(arrow(columns, (1, "y")), {})
    seen_alike(table, iceberg)
    table.truncate()
    seen_alike(table, iceberg)
    table.append(arrow(columns, (2, "z")))
    seen_alike(table, iceberg)


@pytest.mark.parametrize("partition", ["a b", "50%", "x/y", "k=v", "äö", "a+b&c", "q?r#s", "c:d"])
def test_partitions_of_any_text_are_found(tmp_path, iceberg, partition):
    columns = {"id": "BIGINT", "p": "STRING"}
    table = new_table(tmp_path, columns, partition_keys=["p"])
    table.append(arrow(columns, (1, partition), (2, "plain")))
    seen_alike(table, iceberg)


@pytest.mark.parametrize("option", ["data-file.path-directory", "data-file.external-paths"])
def test_files_are_at_place_of_option(tmp_path, iceberg, option):
    columns = {"id": "BIGINT", "p": "STRING"}
    options = {option: "data"}
    if option == "data-file.external-paths":
        options = {option: (tmp_path / "out").as_uri(),
                   "data-file.external-paths.strategy": "round-robin"}  # fmt: skip
    table = new_table(tmp_path / "in", columns, partition_keys=["p"], options=options)
    table.append(arrow(columns, (1, "x"), (2, "y")))
    table.append(arrow(columns, (3, "x")))
    seen_alike(table, iceberg)
    table.compact(full=True)
    seen_alike(table, iceberg)


def test_lists_name_their_counts_as_athena_wants_them(tmp_path, iceberg):
    """The names of Iceberg 1.4, with the ids of today; one table may have lists of both."""
    columns = {"id": "BIGINT", "v": "STRING"}
    key = "metadata.iceberg.manifest-legacy-version"
    table = new_table(tmp_path, columns, options={key: "true"})
    for n in range(3):
        table.append(arrow(columns, (n, "x")))
    seen_alike(table, iceberg)
    legacy = reader.manifests(reader.newest(Path(located(table)).parent))
    assert [each["added_data_files_count"] for each in legacy] == [1, 1, 1]
    assert not any("_files_count" in key and "_data_" not in key for each in legacy for key in each)
    table = table.alter([set_option(key, "false")])
    table.append(arrow(columns, (9, "y")))
    seen_alike(table, iceberg)
    plain = reader.manifests(reader.newest(Path(located(table)).parent))
    assert [each["added_files_count"] for each in plain] == [1, 1, 1, 1]


VECTORS = {"deletion-vectors.enabled": "true", "metadata.iceberg.format-version": "3"}


@pytest.mark.parametrize("bitmap64", ["true", "false"])
@pytest.mark.parametrize("declared", [{}, {"partition_keys": ["p"]}])
def test_deletion_vectors_of_append_tables(tmp_path, iceberg, declared, bitmap64):
    columns = {"id": "BIGINT", "p": "STRING"}
    options = {**VECTORS, "deletion-vectors.bitmap64": bitmap64}
    table = new_table(tmp_path, columns, options=options, **declared)
    for start in (0, 10):
        table.append(arrow(columns, *((n, "ab"[n % 2]) for n in range(start, start + 10))))
    table.delete("id in (1, 4, 7, 10, 13)")
    seen_alike(table, iceberg)
    table.delete("id = 5 or id > 17")
    seen_alike(table, iceberg)
    table.append(arrow(columns, (30, "c")))
    seen_alike(table, iceberg)
    table.compact(full=True)
    seen_alike(table, iceberg)


@pytest.mark.parametrize("bitmap64", ["true", "false"])
def test_deletion_vectors_of_keyed_tables(tmp_path, iceberg, bitmap64):
    columns = {"id": "BIGINT", "v": "STRING"}
    options = {**VECTORS, "deletion-vectors.bitmap64": bitmap64, "bucket": "2"}
    table = new_table(tmp_path, columns, options=options, primary_keys=["id"])
    table.upsert(arrow(columns, *((n, "x") for n in range(20))))
    table.compact(full=True)
    seen_alike(table, iceberg)
    for n in range(4):
        table.upsert(arrow(columns, (n, "new"), (n + 30, "y")))
        seen_alike(table, iceberg)
        table.compact()
        seen_alike(table, iceberg)
    table.delete("id > 31")
    table.compact(full=True)
    seen_alike(table, iceberg)


def test_version_3_without_deletion_vectors(tmp_path, iceberg):
    columns = {"id": "BIGINT", "v": "STRING"}
    table = new_table(tmp_path, columns, options={"metadata.iceberg.format-version": "3"})
    for n in range(3):
        table.append(arrow(columns, (n, "x")))
        seen_alike(table, iceberg)
    table.compact(full=True)
    seen_alike(table, iceberg)


@pytest.mark.parametrize("kind", histories.KINDS)
def test_readers_follow_any_history(tmp_path, iceberg, kind):
    """After each step rows are ours; those that wait for a compaction get one at times."""
    followed = 0
    for seed in range(often(2)):
        catalog = _catalog(tmp_path)
        history = histories.History(
            catalog, kind, seed + 50, {"metadata.iceberg.format-version": "23"[seed % 2]}
        )
        for number, _ in enumerate(history.run(range(20))):
            table = history.table
            if number % 3 == 0 and table.state.iceberg_behind():
                table.compact(full=True)
            if table.latest_snapshot() is not None and not table.state.iceberg_behind():
                seen_alike(table, iceberg)
                followed += 1
    assert followed > 4
