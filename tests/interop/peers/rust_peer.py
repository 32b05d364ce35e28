"""pypaimon-rust behind the few calls interop and bench need. Runs in the peers' environment."""

from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
from pypaimon_rust.datafusion import PaimonCatalog, SQLContext  # type: ignore[import-not-found]  # own environment


class Peer:
    """A filesystem catalog of pypaimon-rust; tables are named `database.table`."""

    def __init__(self, warehouse: str) -> None:
        Path(warehouse).mkdir(parents=True, exist_ok=True)
        self._sql = SQLContext()
        self._sql.register_catalog("c", {"warehouse": f"file://{warehouse}"}, "")
        self._catalog = PaimonCatalog({"warehouse": f"file://{warehouse}"})

    def version(self) -> str:
        return f"pypaimon-rust {version('pypaimon-rust')}"

    def create_table(
        self,
        table: str,
        columns: dict[str, Any],
        primary_keys: list[str],
        partition_keys: list[str],
        options: dict[str, str],
    ) -> None:
        """Create a table; columns are name → Paimon type, as in schema files."""
        database = table.split(".", maxsplit=1)[0]
        self._sql.sql(f"CREATE SCHEMA IF NOT EXISTS c.{database}")
        lines = [f"`{name}` {text}" for name, text in columns.items()]
        if primary_keys:
            lines.append(f"PRIMARY KEY ({', '.join(primary_keys)})")
        statement = f"CREATE TABLE c.{table} ({', '.join(lines)})"
        if partition_keys:
            statement += f" PARTITIONED BY ({', '.join(partition_keys)})"
        if options:
            listed = ", ".join(f"'{key}'='{value}'" for key, value in options.items())
            statement += f" WITH ({listed})"
        self._sql.sql(statement)

    def write(self, table: str, rows: pa.Table) -> None:
        builder = self._open(table).new_batch_write_builder()
        write, commit = builder.new_write(), builder.new_commit()
        for batch in rows.to_batches():
            write.write_arrow(batch)
        commit.commit(write.prepare_commit())
        write.close()
        commit.close()

    def read(self, table: str, columns: list[str] | None = None) -> pa.Table:
        builder = self._open(table).new_read_builder()
        if columns:
            builder = builder.with_projection(columns)
        batches = builder.new_read().read(builder.new_scan().plan().splits())
        return pa.Table.from_batches(batches)

    def _open(self, table: str):  # a class of the extension module, without types
        database, name = table.split(".", maxsplit=1)
        return self._catalog.get_table((database, name))
