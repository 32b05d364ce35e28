"""Tables that other programs write, as assets: described once, shown without a catalog.

    catalog ─▶ describe_tables ─▶ ExternalTable ─▶ AssetSpec ─▶ Definitions
                                                       └─▶ observations, sensors

Describing touches the catalog; everything after it does not, so that definitions load from a file
(`PaimonTablesComponent`).
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any

import dagster as dg

from paimon_assets.assets import translator as naming
from paimon_assets.assets.failures import dagster_failures, naming_arguments
from paimon_assets.assets.metadata import COLUMN_SCHEMA, Metadata, column_schema, state_of
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.spec.schema.schema import Schema, TableSchema
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.table.api import TableCatalog

OpenCatalog = Callable[[], TableCatalog]
"""Opens the catalog when something is asked of it, never when definitions load."""


class ExternalTable(Value):
    """A table as it was when it was described."""

    identifier: Identifier
    path: str
    schema: TableSchema


def describe_tables(
    catalog: TableCatalog, include: Sequence[str] = ("*",), exclude: Sequence[str] = ()
) -> list[ExternalTable]:
    """Return the tables of a catalog whose names match, sorted.

    >>> [str(each.identifier) for each in describe_tables(catalog, ["shop.*"])]
    ['shop.orders']

    Args:
        catalog: Is asked for its databases, tables and their newest schemas.
        include: Patterns of `database.table`, such as `ods.*`; one must match.
        exclude: Patterns of which none may match.

    Raises:
        NotFoundError: A table was dropped meanwhile.
        FormatError, StorageError: Metadata is damaged, or the storage failed.

    Cost:
        A listing a database, and one or two small reads a table that matches.
    """
    return [
        ExternalTable(identifier=identifier, path=table.path, schema=table.schema)
        for identifier in names_matching(catalog, catalog.list_tables, include, exclude)
        for table in [catalog.get_table(identifier)]
    ]


def names_matching(
    catalog: TableCatalog,
    names_in: Callable[[str], Sequence[str]],
    include: Sequence[str],
    exclude: Sequence[str],
) -> Iterator[Identifier]:
    for database in catalog.list_databases():
        for name in names_in(database):
            full = f"{database}.{name}"
            if _is_any(full, include) and not _is_any(full, exclude):
                yield Identifier(database, name)


def _is_any(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


@naming_arguments
def build_external_table_specs(
    tables: Sequence[ExternalTable], translator: naming.PaimonTranslator = naming.DEFAULT_TRANSLATOR
) -> list[dg.AssetSpec]:
    """Return the assets of tables that no asset here materializes; reads nothing.

    >>> specs = build_external_table_specs(describe_tables(catalog, ["shop.*"]))
    >>> specs[0].key
    AssetKey(['shop', 'orders'])
    """
    return [
        spec_of(
            table.identifier,
            table.schema,
            table.schema.comment,
            {naming.URI: table.path, "paimon/schema_id": table.schema.id},
            translator,
        )
        for table in tables
    ]


def spec_of(
    identifier: Identifier,
    schema: TableSchema | Schema,
    comment: str | None,
    metadata: Metadata,
    translator: naming.PaimonTranslator,
    **more: Any,
) -> dg.AssetSpec:
    known = {naming.TABLE_NAME: str(identifier), naming.STORAGE_KIND_KEY: naming.STORAGE_KIND}
    fields: dict[str, Any] = {"kinds": {naming.STORAGE_KIND}, **more}
    return dg.AssetSpec(
        key=translator.get_asset_key(identifier),
        description=comment or None,
        group_name=translator.get_group_name(identifier),
        owners=list(translator.get_owners(identifier)),
        tags={naming.STORAGE_KIND_KEY: naming.STORAGE_KIND},
        metadata={**known, COLUMN_SCHEMA: column_schema(schema), **metadata},
        **fields,
    )


@naming_arguments
def build_observable_tables(
    specs: Sequence[dg.AssetSpec], open_catalog: OpenCatalog, *, name: str = "observe_tables"
) -> dg.AssetsDefinition:
    """Make external tables observable: "Observe" in the UI reads the newest state.

    >>> observable = build_observable_tables(specs, lambda: catalog)

    An observation carries the data version, which a compaction does not change, so that automation
    conditions downstream follow foreign commits.

    Args:
        specs: From `build_external_table_specs`.
        open_catalog: Called when an observation runs.
        name: The name of the op.

    Cost:
        A run: the newest snapshot and its manifests of each table that is observed.
    """

    def observe(context: dg.AssetExecutionContext) -> Iterator[dg.ObserveResult]:
        catalog = open_catalog()
        for spec in specs:
            if spec.key not in context.selected_asset_keys:
                continue
            identifier = naming.identifier_of(str(spec.metadata[naming.TABLE_NAME]))
            with dagster_failures(identifier):
                table = catalog.get_table(identifier)
                state, version = state_of(table, table.latest_snapshot())
            yield dg.ObserveResult(asset_key=spec.key, data_version=version, metadata=state)

    with warnings.catch_warnings():
        # Beta in Dagster 1.13; documented, and not warned about at every load.
        warnings.simplefilter("ignore", dg.BetaWarning)
        decorate = dg.multi_observable_source_asset(name=name, specs=specs, can_subset=True)
        assets: dg.AssetsDefinition = decorate(observe)
    return assets
