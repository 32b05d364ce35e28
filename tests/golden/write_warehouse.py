"""Write the golden warehouse of a version: tables of every kind, and the rows that they hold.

Once for each release, with its code: `python -m tests.golden.write_warehouse 0.2.0`.
"""

import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

from paimon_assets import Schema, Table, add_column, rename_column, update_column_type
from paimon_assets.sql.operations import create_branch
from tests.testkit.tables import compact, new_catalog_in, new_table, write

FOLDER = Path(__file__).parent / "warehouses"
VALUES = {
    "id": "BIGINT",
    "flag": "BOOLEAN",
    "tiny": "TINYINT",
    "price": "DECIMAL(20, 4)",
    "share": "DOUBLE",
    "name": "STRING",
    "code": "CHAR(3)",
    "raw": "BYTES",
    "day": "DATE",
    "clock": "TIME(3)",
    "at": "TIMESTAMP(6)",
    "exact": "TIMESTAMP(9)",
    "instant": "TIMESTAMP(3) WITH LOCAL TIME ZONE",
    "tags": "ARRAY<STRING>",
    "counts": "MAP<STRING, INT>",
    "place": "ROW<x INT, y STRING>",
}
KEYED = {"id": "BIGINT", "day": "STRING", "amount": "INT", "note": "STRING"}
MERGES = {
    "deduplicate": {},
    "vectors": {"deletion-vectors.enabled": "true"},
    "partial": {"merge-engine": "partial-update"},
    "aggregated": {"merge-engine": "aggregation", "fields.amount.aggregate-function": "sum"},
    "first": {"merge-engine": "first-row", "changelog-producer": "lookup"},
    "changes": {"changelog-producer": "input"},
    "dynamic": {"bucket": "-1"},
    "indexed": {"file-index.bloom-filter.columns": "note"},
    "cross": {"bucket": "-1"},
}


def _values(count: int) -> pa.Table:
    schema = new_rows_schema(VALUES)
    rows = [
        {
            "id": number,
            "flag": number % 2 == 0,
            "tiny": number - 2,
            "price": None if number == 3 else f"{number * 1000}.2500",
            "share": number / 4,
            "name": "Zoë" * number,
            "code": "abc",
            "raw": bytes([number, 255]),
            "day": number * 1000,
            "clock": number * 1000,
            "at": number * 86_400_000_000 + 1,
            "exact": number * 1_000_000_007,
            "instant": number * 3_600_000,
            "tags": [None, "a"] if number % 2 else None,
            "counts": [("k", number)],
            "place": {"x": number, "y": None},
        }
        for number in range(count)
    ]
    columns = []
    for field in schema:
        listed = [row[field.name] for row in rows]
        if pa.types.is_decimal(field.type):
            columns.append(pa.array(listed, pa.string()).cast(field.type))
        else:
            columns.append(pa.array(listed, field.type))
    return pa.Table.from_arrays(columns, schema=schema)


def new_rows_schema(columns: dict[str, str]) -> pa.Schema:
    """Return the Arrow schema of columns."""
    from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema

    return to_arrow_schema(Schema.of(columns).fields)


def write_tables(warehouse: Path) -> None:
    """Make all tables of the golden warehouse in an empty folder."""
    catalog = new_catalog_in(warehouse)
    for file_format in ("parquet", "orc", "avro"):
        options = {"file.format": file_format, "orc.timestamp-ltz.legacy.type": "false"}
        rows = _values(5)
        if file_format == "avro":  # holds no nanoseconds
            rows = rows.drop_columns("exact")
        columns = {name: VALUES[name] for name in rows.column_names}
        new_table(catalog, columns, rows, name=f"db.values_{file_format}", options=options)
    for name, options in MERGES.items():
        partitions = () if name == "dynamic" else ("day",)
        keys = ["id"] if name in ("dynamic", "cross") else ["id", "day"]
        table = new_table(
            catalog,
            KEYED,
            name=f"db.{name}",
            primary_keys=keys,
            partition_keys=partitions,
            options={"bucket": "2", **options},
        )
        write(table, *((number, "ab"[number % 2], number, f"n{number}") for number in range(20)))
        write(table, (1, "b", 7, None), (30, "a", 1, "new"))
        compact(table)
        write(table, (2, "a", 9, "late"))
        if name == "vectors":
            compact(table)
        if name in ("deduplicate", "vectors", "dynamic"):
            table.delete("id > 15 and id < 20")
    history = new_table(catalog, KEYED, (1, "a", 1, "x"), (2, "b", 2, "y"), name="db.history")
    history.tags.create("first")
    create_branch(history, "side", "first")
    write(history.at_branch("side"), (9, "z", 9, "side"))
    history = history.alter(
        [
            rename_column("note", "text"),
            update_column_type("amount", "BIGINT"),
            add_column("more", "DOUBLE"),
        ]
    )
    write(history, (3, "a", 2**40, "z", 0.5))
    tracked = new_table(
        catalog,
        KEYED,
        (1, "a", 1, "x"),
        (2, "b", 2, "y"),
        name="db.evolved",
        options={"row-tracking.enabled": "true", "data-evolution.enabled": "true"},
    )
    tracked.new_row_change_builder().update({"amount": "7"}, "id = 2")
    padded = new_table(
        catalog,
        {"id": "BIGINT", "at": "TIMESTAMP(0)", "kind": "STRING", "v": "INT"},
        name="db.padded",
        primary_keys=["id"],
        options={
            "bucket": "1",
            "sequence.field": "at",
            "sequence.auto-padding": "row-kind-flag",
            "rowkind.field": "kind",
        },
    )
    write(padded, (1, 0, "+I", 1), (1, 5, "-U", 1), (1, 5, "+U", 2), (2, 6, "+I", 1))
    write(padded, (2, 7, "-D", 1))


def states(warehouse: Path) -> Iterator[tuple[str, Table, Any]]:
    """Yield the name of each state of each table, the table, and a reader of that state."""
    catalog = new_catalog_in(warehouse)
    for name in catalog.list_tables("db"):
        table = catalog.get_table(f"db.{name}")
        for snapshot in table.snapshots():
            reader = table.new_read_builder().at_snapshot(snapshot.id)
            yield f"{name}@{snapshot.id}", table, reader
    history = catalog.get_table("db.history")
    yield "history@first", history, history.new_read_builder().at_tag("first")
    side = history.at_branch("side")
    yield "history@side", side, side.new_read_builder()


def main(version: str) -> None:
    """Write the warehouse and its rows into one archive."""
    with TemporaryDirectory() as folder:
        warehouse = Path(folder) / "warehouse"
        write_tables(warehouse)
        for name, _, reader in states(warehouse):
            rows = reader.to_arrow()
            (Path(folder) / "rows").mkdir(exist_ok=True)
            with pa.ipc.new_file(str(Path(folder) / "rows" / f"{name}.arrow"), rows.schema) as file:
                file.write_table(rows)
        FOLDER.mkdir(exist_ok=True)
        with zipfile.ZipFile(FOLDER / f"{version}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(Path(folder).rglob("*")):
                archive.write(path, path.relative_to(folder))


if __name__ == "__main__":
    main(sys.argv[1])
