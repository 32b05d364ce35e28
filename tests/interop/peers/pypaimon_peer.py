"""pypaimon behind the few calls interop and bench need. Runs in the peers' environment."""

from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from pypaimon import CatalogFactory, Schema  # type: ignore[import-not-found]  # own environment
from pypaimon.schema.data_types import DataField, DataTypeParser, PyarrowFieldParser  # type: ignore[import-not-found]  # own environment


class Peer:
    """A filesystem catalog of pypaimon; tables are named `database.table`."""

    more_options: ClassVar[dict[str, str]] = {}
    """Options of all tables that it makes."""
    switches: ClassVar[str] = "off"

    def __init__(self, warehouse: str) -> None:
        Path(warehouse).mkdir(parents=True, exist_ok=True)
        self._catalog = CatalogFactory.create({"warehouse": f"file://{warehouse}"})

    def version(self) -> str:
        return f"pypaimon {version('pypaimon')}, native switches {self.switches}"

    def create_table(
        self,
        table: str,
        columns: dict[str, Any],
        primary_keys: list[str],
        partition_keys: list[str],
        options: dict[str, str],
    ) -> None:
        """Create a table; columns are name → Paimon type, as in schema files."""
        fields = [
            DataField(index, name, DataTypeParser.parse_data_type(text))
            for index, (name, text) in enumerate(columns.items())
        ]
        schema = Schema(
            fields=fields,
            partition_keys=partition_keys,
            primary_keys=primary_keys,
            options=options | self.more_options,
        )
        self._catalog.create_database(table.split(".", maxsplit=1)[0], True)
        self._catalog.create_table(table, schema, False)

    def write(self, table: str, rows: pa.Table) -> None:
        opened = self._catalog.get_table(table)
        target = PyarrowFieldParser.from_paimon_schema(opened.fields)
        builder = opened.new_batch_write_builder()
        write, commit = builder.new_write(), builder.new_commit()
        write.write_arrow(rows.cast(target))
        commit.commit(write.prepare_commit())
        write.close()
        commit.close()

    def update_columns(self, table: str, rows: pa.Table) -> None:
        """Give rows, which hold `_ROW_ID`, new values of their other columns."""
        builder = self._catalog.get_table(table).new_batch_write_builder()
        names = [name for name in rows.column_names if name != "_ROW_ID"]
        update = builder.new_update().with_update_type(names)
        commit = builder.new_commit()
        commit.commit(update.update_by_arrow_with_row_id(rows))
        commit.close()

    def delete_ids(self, table: str, rows: pa.Table) -> None:
        """Delete the rows whose `_ROW_ID` these are."""
        builder = self._catalog.get_table(table).new_batch_write_builder()
        commit = builder.new_commit()
        update = builder.new_update()
        commit.commit(update.delete_by_row_id(rows["_ROW_ID"].to_pylist()))
        commit.close()

    def read(self, table: str, columns: list[str] | None = None) -> pa.Table:
        builder = self._catalog.get_table(table).new_read_builder()
        if columns:
            builder = builder.with_projection(columns)
        table_read: pa.Table = builder.new_read().to_arrow(builder.new_scan().plan().splits())
        return table_read
