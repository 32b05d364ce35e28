"""Views of a catalog as assets: read by others, materialized by nobody; their tables are upstream.

catalog ─▶ describe_views ─▶ ExternalView ─▶ AssetSpec with the tables of its query as deps
"""

from collections.abc import Sequence
from dataclasses import dataclass

import dagster as dg

from paimon_assets.assets.external.external_tables import is_any
from paimon_assets.assets.metadata import COLUMN_SCHEMA, column_schema
from paimon_assets.assets.translator import (
    DEFAULT_TRANSLATOR,
    STORAGE_KIND,
    STORAGE_KIND_KEY,
    TABLE_NAME,
    PaimonTranslator,
)
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.table.api import TableCatalog
from paimon_assets.engine.table.sql.statements import CATALOG_NAME
from paimon_assets.engine.table.sql.table_uses import find_tables
from paimon_assets.engine.table.table_name import TableName
from paimon_assets.engine.table.views import View

_DIALECT = "spark"


@dataclass(frozen=True, kw_only=True)
class ExternalView:
    """A view as it was when it was described."""

    identifier: Identifier
    view: View


def describe_views(
    catalog: TableCatalog, include: Sequence[str] = ("*",), exclude: Sequence[str] = ()
) -> list[ExternalView]:
    """Return the views of a catalog whose names match, sorted; patterns as for tables.

    Raises:
        NotFoundError: A view was dropped meanwhile.
        UnsupportedFeatureError: The catalog keeps no views.
    """
    return [
        ExternalView(identifier=Identifier(database, name), view=catalog.views.get(full))
        for database in catalog.list_databases()
        for name in catalog.views.list(database)
        for full in [f"{database}.{name}"]
        if is_any(full, include) and not is_any(full, exclude)
    ]


def build_external_view_specs(
    views: Sequence[ExternalView], translator: PaimonTranslator = DEFAULT_TRANSLATOR
) -> list[dg.AssetSpec]:
    """Return the assets of views; what their query for Spark names is upstream of them.

    An input of such an asset runs the query on Spark; elsewhere it is refused by name.
    """
    return [
        dg.AssetSpec(
            key=translator.get_asset_key(each.identifier),
            deps=[translator.get_asset_key(name) for name in _upstream(each)],
            description=each.view.comment or None,
            group_name=translator.get_group_name(each.identifier),
            owners=list(translator.get_owners(each.identifier)),
            kinds={STORAGE_KIND, "view"},
            tags={STORAGE_KIND_KEY: STORAGE_KIND},
            metadata={
                TABLE_NAME: str(each.identifier),
                STORAGE_KIND_KEY: STORAGE_KIND,
                COLUMN_SCHEMA: column_schema(Schema(fields=each.view.fields)),
                "paimon/query": dg.MetadataValue.text(each.view.query_for(_DIALECT)),
            },
        )
        for each in views
    ]


def _upstream(each: ExternalView) -> list[Identifier]:
    """Return the tables and views a query names; none, if it is no SQL that is understood."""
    try:
        uses = find_tables(each.view.query_for(_DIALECT)).uses
    except InvalidInputError:
        return []
    found: dict[Identifier, None] = {}
    for use in uses:
        name = use.name[1:] if len(use.name) > 2 and use.name[0] == CATALOG_NAME else use.name
        if len(name) <= 2 and use.arguments is None and "/" not in name[-1]:
            full = Identifier(name[0] if len(name) > 1 else each.identifier.database, name[-1])
            parts = TableName.parse(full)
            if not parts.is_global:
                found[parts.table] = None
    return list(found)
