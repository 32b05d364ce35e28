"""Column lineage: columns of upstream tables that a column is made of.

The author of an asset declares it (`pass_through`).
Filters, orders and join conditions choose rows and make no values, so they are no lineage.
"""

from collections.abc import Mapping, Sequence

import dagster as dg

from paimon_assets.assets.metadata import Metadata
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.schema.schema import Schema

COLUMN_LINEAGE = "dagster/column_lineage"

PassThrough = Mapping[dg.AssetKey, Sequence[str] | Mapping[str, str | Sequence[str]]]
"""Upstream asset → columns that keep their names, or column here → column or columns there."""


def lineage_metadata(pass_through: PassThrough, schema: Schema, table: str) -> Metadata:
    """Return column lineage as metadata; empty if there is none.

    >>> schema = Schema.of({"id": "BIGINT", "name": "STRING"})
    >>> upstream = dg.AssetKey(["ods", "people"])
    >>> found = lineage_metadata({upstream: {"name": "full_name"}}, schema, "dm.people")
    >>> found["dagster/column_lineage"].deps_by_column["name"][0].column_name
    'full_name'
    """
    names = [field.name for field in schema.fields]
    deps: dict[str, list[dg.TableColumnDep]] = {}
    for key, columns in pass_through.items():
        pairs: Mapping[str, str | Sequence[str]] = (
            columns if isinstance(columns, Mapping) else dict(zip(columns, columns, strict=True))
        )
        for name, sources in pairs.items():
            if names and name not in names:
                message = (
                    f"pass_through names '{name}', which is no column of table {table}: "
                    f"{', '.join(names)}."
                )
                raise InvalidInputError(message, kind="column-lineage", table=table, column=name)
            deps.setdefault(name, []).extend(
                dg.TableColumnDep(asset_key=key, column_name=source)
                for source in ([sources] if isinstance(sources, str) else sources)
            )
    if not deps:
        return {}
    ordered = {name: deps[name] for name in names or deps if name in deps}
    return {COLUMN_LINEAGE: dg.TableColumnLineage(deps_by_column=ordered)}
