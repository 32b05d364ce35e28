"""The tables of a job: those of its assets, and those named in the Launchpad."""

import re
from collections.abc import Sequence

import dagster as dg

from paimon_assets.assets import translator as naming
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.table.api import TableCatalog
from paimon_assets.engine.table.upkeep.many_tables import tables_named

TableLike = dg.AssetsDefinition | str | Identifier
_NO_NAME = re.compile(r"[^A-Za-z0-9_]")


def several(tables: Sequence[TableLike] | TableLike) -> Sequence[TableLike]:
    """Return tables as a sequence, one by itself too."""
    return [tables] if isinstance(tables, TableLike) else tables


class DeclaredTable(Value):
    """A table that a job knows, and the asset it reports on."""

    identifier: Identifier
    asset_key: dg.AssetKey
    pool: str

    @property
    def step(self) -> str:
        return _NO_NAME.sub("_", f"{self.identifier.database}__{self.identifier.table}")


class DeclaredTables(Value):
    """The tables that a job was built with; other tables get the asset keys of its translator."""

    tables: tuple[DeclaredTable, ...]
    translator: naming.PaimonTranslator

    @staticmethod
    def of(
        tables: Sequence[TableLike] | TableLike,
        translator: naming.PaimonTranslator = naming.DEFAULT_TRANSLATOR,
    ) -> "DeclaredTables":
        """Return the tables of assets, be they several of one definition, and of names."""
        declared: list[DeclaredTable] = []
        for table in several(tables):
            if not isinstance(table, dg.AssetsDefinition):
                declared.append(_declared_table(naming.identifier_of(table), translator))
                continue
            pools = table.node_def.pools
            for spec in table.specs:
                identifier = naming.identifier_of_spec(spec)
                pool = next(iter(pools)) if len(pools) == 1 else naming.pool_of(identifier)
                declared.append(DeclaredTable(identifier=identifier, asset_key=spec.key, pool=pool))
        return DeclaredTables(tables=tuple(declared), translator=translator)

    def find(self, identifier: Identifier) -> DeclaredTable:
        """Return a table by name, with the translator's key if the job does not know it."""
        for table in self.tables:
            if table.identifier == identifier:
                return table
        return _declared_table(identifier, self.translator)

    def choose(self, names: Sequence[str], catalog: TableCatalog) -> list[DeclaredTable]:
        """Return the tables a form names, or all that the job knows if it names none."""
        if not names:
            return list(self.tables)
        identifiers = [table for text in names for table in tables_named(text, catalog)]
        return [self.find(each) for each in dict.fromkeys(identifiers)]


def _declared_table(identifier: Identifier, translator: naming.PaimonTranslator) -> DeclaredTable:
    key = translator.get_asset_key(identifier)
    return DeclaredTable(identifier=identifier, asset_key=key, pool=naming.pool_of(identifier))
