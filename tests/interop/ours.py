"""Our side of an exchange: create, write and read by the public API."""

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from paimon_assets import EmbeddedExecutor, Schema, open_catalog
from tests.testkit.model import Row
from tests.testkit.rows import rows_to_arrow


def create(warehouse: Path, table: str, schema: Schema) -> None:
    catalog = open_catalog(str(warehouse))
    catalog.create_database(table.split(".", maxsplit=1)[0], ignore_if_exists=True)
    catalog.create_table(table, schema)


def write(warehouse: Path, table: str, rows: Iterable[Row], schema: Schema) -> None:
    opened = open_catalog(str(warehouse)).get_table(table)
    opened.new_write_builder().write(rows_to_arrow(rows, schema), EmbeddedExecutor())


def read(warehouse: Path, table: str) -> pa.Table:
    return open_catalog(str(warehouse)).get_table(table).new_read_builder().to_arrow()
