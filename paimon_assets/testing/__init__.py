"""Add-on: a warehouse in memory for tests of assets, rows in, rows out."""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Self

import dagster as dg

from paimon_assets.assets.resource import PaimonCatalogResource
from paimon_assets.assets.tables.table_write import NO_COLUMNS
from paimon_assets.assets.translator import DEFAULT_RESOURCE_KEY, RESOURCE_KEY
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.table.frames.frames import Frame, to_rows
from paimon_assets.engine.table.table import Table

__all__ = ["MemoryWarehouse"]


class MemoryWarehouse:
    """A warehouse in the memory of this process; it ends with the `with` block.

    >>> with MemoryWarehouse() as lake:
    ...     _ = lake.write("shop.orders", [{"id": 1}, {"id": 2}], primary_keys="id")
    ...     lake.rows("shop.orders", "id > 1")
    [{'id': 2}]
    """

    def __init__(self) -> None:
        root = f"memory://{uuid.uuid4().hex}"
        self.resource = PaimonCatalogResource(warehouse=root, executor="embedded")
        """The resource of the assets under test, and of IO managers."""
        self.catalog = self.resource.catalog()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for database in self.catalog.list_databases():
            self.catalog.drop_database(database, cascade=True)

    def write(
        self,
        table: str,
        rows: Frame | Sequence[Mapping[str, Any]],
        schema: Schema | None = None,
        **declared: Any,
    ) -> Table:
        """Write rows into a table, which is made if there is none, and return it.

        Args:
            table: `database.table`.
            rows: A frame, or rows as mappings.
            schema: Of a new table; by default the columns of the rows.
            declared: Keys and options of a new table without `schema`, as for `Schema.of`.

        Raises:
            PaimonError: As `TableCatalog.create_table` and `WriteBuilder.write`.
        """
        frame: Any = rows
        if isinstance(rows, Sequence):
            frame = [dict(row) for row in rows]
        self.catalog.create_database(Identifier.parse(table).database, ignore_if_exists=True)
        if not self.catalog.table_exists(table):
            if schema is None:
                executor = self.resource.new_executor()
                frame = to_rows(frame, executor, NO_COLUMNS)
                schema = Schema.of(executor.row_schema(frame), **declared)
            self.catalog.create_table(table, schema)
        opened = self.catalog.get_table(table)
        opened.new_write_builder().write(frame)
        return opened

    def rows(self, table: str, where: str | None = None) -> list[dict[str, Any]]:
        """Return rows as mappings, in the order of the primary key, else of their writes.

        Raises:
            NotFoundError: There is no such table.
            InvalidInputError: `where` does not parse.
        """
        opened = self.catalog.get_table(table)
        found = opened.to_arrow(where=where)
        keys: Any = [(name, "ascending") for name in opened.schema.primary_keys]
        return (found.sort_by(keys) if keys else found).to_pylist(maps_as_pydicts="strict")

    def materialize(
        self, assets: Sequence[Any], *, resources: Mapping[str, Any] | None = None, **options: Any
    ) -> dg.ExecuteInProcessResult:
        """Materialize assets into this warehouse, as `dagster.materialize`.

        Args:
            assets: Assets, and checks of theirs.
            resources: Resources besides the warehouse, such as an IO manager.
            options: As for `dagster.materialize`, such as `partition_key`.

        Raises:
            PaimonError: As the assets, unless `raise_on_error=False`.
        """
        keys = {DEFAULT_RESOURCE_KEY} | {
            spec.metadata.get(RESOURCE_KEY, DEFAULT_RESOURCE_KEY)
            for asset in assets
            if isinstance(asset, dg.AssetsDefinition)
            for spec in asset.specs
        }
        given = {**dict.fromkeys(keys, self.resource), **(resources or {})}
        return dg.materialize(assets, resources=given, **options)
