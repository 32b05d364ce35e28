"""This engine, on the embedded executor, behind the calls of a benchmark."""

from importlib.metadata import version

import pyarrow as pa

from paimon_assets import EmbeddedExecutor, Schema, open_catalog


class Peer:
    """A warehouse of our own; tables are named `database.table`."""

    def __init__(self, warehouse: str) -> None:
        self._catalog = open_catalog(warehouse)
        self._executor = EmbeddedExecutor()

    def version(self) -> str:
        return f"paimon-assets (embedded), pyarrow {version('pyarrow')}"

    def create_table(
        self,
        table: str,
        columns: dict[str, str],
        primary_keys: list[str],
        partition_keys: list[str],
        options: dict[str, str],
    ) -> None:
        schema = Schema.of(
            columns, primary_keys=primary_keys, partition_keys=partition_keys, options=options
        )
        self._catalog.create_database(table.split(".", maxsplit=1)[0], ignore_if_exists=True)
        self._catalog.create_table(table, schema)

    def write(self, table: str, rows: pa.Table) -> None:
        self._catalog.get_table(table).new_write_builder().write(rows, self._executor)

    def read(self, table: str) -> pa.Table:
        return self._catalog.get_table(table).new_read_builder().to_arrow(self._executor)
