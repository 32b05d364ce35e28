"""Views of a catalog as assets: upstream of each are the tables and views of its query."""

import warnings
from collections.abc import Sequence

import dagster as dg

from paimon_assets.assets import translator as naming
from paimon_assets.assets.external_tables import names_matching, spec_of
from paimon_assets.assets.failures import naming_arguments
from paimon_assets.engine.control.catalog.catalog import Identifier, TableName
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.table.api import TableCatalog
from paimon_assets.engine.table.views import View
from paimon_assets.sql.statements import CATALOG_NAME
from paimon_assets.sql.table_uses import find_tables

_DIALECT = "spark"


class ExternalView(Value):
    """A view as it was when it was described."""

    identifier: Identifier
    view: View


def describe_views(
    catalog: TableCatalog, include: Sequence[str] = ("*",), exclude: Sequence[str] = ()
) -> list[ExternalView]:
    """Return the views of a catalog whose names match, sorted; patterns as for tables.

    >>> describe_views(catalog, ["shop.*"])
    []

    Raises:
        NotFoundError: A view was dropped meanwhile.
        UnsupportedFeatureError: The catalog keeps no views.
    """
    return [
        ExternalView(identifier=identifier, view=catalog.views.get(str(identifier)))
        for identifier in names_matching(catalog, catalog.views.list, include, exclude)
    ]


@naming_arguments
def build_external_view_specs(
    views: Sequence[ExternalView], translator: naming.PaimonTranslator = naming.DEFAULT_TRANSLATOR
) -> list[dg.AssetSpec]:
    """Return a virtual asset for each view; upstream are the tables and views of its query.

    >>> specs = build_external_view_specs(describe_views(catalog, ["shop.*"]))

    An input of such an asset runs the query on Spark; elsewhere it is refused by name.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.PreviewWarning)  # Dagster 1.13 previews virtual assets
        return [
            spec_of(
                each.identifier,
                Schema(fields=each.view.fields),
                each.view.comment,
                {"paimon/query": dg.MetadataValue.text(each.view.query_for(_DIALECT))},
                translator,
                kinds={naming.STORAGE_KIND, "view"},
                deps=[translator.get_asset_key(name) for name in _upstream(each)],
                is_virtual=True,
            )
            for each in views
        ]


def _upstream(each: ExternalView) -> list[Identifier]:
    """Return the tables and views a query names; none, if it is no SQL that is understood."""
    try:
        uses = find_tables(each.view.query_for(_DIALECT)).uses
    except InvalidInputError:
        return []
    upstream: dict[Identifier, None] = {}
    for use in uses:
        name = use.name[1:] if len(use.name) > 2 and use.name[0] == CATALOG_NAME else use.name
        if len(name) <= 2 and use.arguments is None and "/" not in name[-1]:
            full = Identifier(name[0] if len(name) > 1 else each.identifier.database, name[-1])
            parts = TableName.parse(full)
            if not parts.is_global:
                upstream[parts.table] = None
    return list(upstream)
