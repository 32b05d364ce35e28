"""Identifier ⇄ AssetKey, and the names an asset carries because it is a Paimon table.

One place decides how `database.table` shows in Dagster, so that assets, checks, sensors and
maintenance jobs agree: above all on the pool, which keeps one writer at a time per table.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import dagster as dg

from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.errors import InvalidInputError

DEFAULT_RESOURCE_KEY = "paimon"
"""Key of the catalog resource, unless a function names its own."""
RESOURCE_KEY = "paimon/resource_key"
"""Metadata of an asset whose catalog has another key."""
ADDS_SEGMENTS = "paimon/adds_segments"
"""Metadata of an asset that adds folders to a table, beside whoever writes it."""
WRITES_COLUMNS = "paimon/writes_columns"
"""Metadata of an asset that writes some columns of a table, beside whoever writes its rows."""
STORAGE_KIND = "paimon"
"""Value of the tag and metadata `dagster/storage_kind`, and a `kind` of every table asset."""

TABLE_NAME = "dagster/table_name"
URI = "dagster/uri"
STORAGE_KIND_KEY = "dagster/storage_kind"

_GROUP_CHARACTERS = re.compile(r"[^A-Za-z0-9_]")


def is_pattern(table: object) -> bool:
    """Whether a text names all tables that fit it, such as `shop.*`."""
    return isinstance(table, str) and bool({*"*?["} & {*table})


def identifier_of(table: str | Identifier) -> Identifier:
    """Return the identifier `database.table` names; a pattern names none."""
    if is_pattern(table):
        raise InvalidInputError(
            f"'{table}' is a pattern, and one table is needed. Patterns stand in 'tables' of the "
            "config of a run: leave 'tables' of the job out, or list the tables by "
            "catalog.list_tables(…).",
            kind="table-pattern",
        )
    return table if isinstance(table, Identifier) else Identifier.parse(table)


class PaimonTranslator:
    """The names of the assets that tables become; subclass it to change keys, groups or owners.

    >>> class Lake(PaimonTranslator):
    ...     def get_asset_key(self, identifier: Identifier) -> dg.AssetKey:
    ...         return super().get_asset_key(identifier).with_prefix("lake")
    >>> Lake().get_asset_key(Identifier("ods", "orders"))
    AssetKey(['lake', 'ods', 'orders'])
    """

    def get_asset_key(self, identifier: Identifier) -> dg.AssetKey:
        """Return the key: the database, then the table."""
        return dg.AssetKey([identifier.database, identifier.table])

    def get_group_name(self, identifier: Identifier) -> str:
        """Return the group: the database, in the characters Dagster allows."""
        return _GROUP_CHARACTERS.sub("_", identifier.database)

    def get_owners(self, identifier: Identifier) -> Sequence[str]:
        """Return the owners: none."""
        del identifier
        return ()


DEFAULT_TRANSLATOR = PaimonTranslator()


def asset_key_of(table: str | Identifier) -> dg.AssetKey:
    """Return the default key of a table's asset: its database, then its name.

    >>> asset_key_of("shop.orders").path, pool_of("shop.orders")
    (['shop', 'orders'], 'paimon/shop.orders')

    Raises:
        InvalidInputError: The name is not `database.table`.
    """
    return DEFAULT_TRANSLATOR.get_asset_key(identifier_of(table))


def identifier_of_key(key: dg.AssetKey) -> Identifier:
    """Return the table of a default asset key: the last two parts."""
    if len(key.path) < 2:
        raise InvalidInputError(
            f"Asset key '{key.to_user_string()}' names no table: expected [..., database, table].",
            kind="asset-key",
        )
    return Identifier(*key.path[-2:])


def pool_of(table: str | Identifier) -> str:
    """Return the Dagster pool that all writers of a table share, so that a limit lets one run.

    A pool without a limit does nothing: see `concurrency.pools.default_limit` in dagster.yaml.

    Raises:
        InvalidInputError: The name is not `database.table`.
    """
    return f"paimon/{identifier_of(table)}"


def kinds_of(executor: str | None) -> set[str]:
    """Return the kinds of a table asset: Paimon, and Spark if it is the executor."""
    return {STORAGE_KIND, *({"spark"} & {executor})}


def uri_of(warehouse: str, table: str | Identifier) -> str:
    """Return the location of the table in a filesystem warehouse.

    >>> uri_of("s3://lake/warehouse/", "ods.orders")
    's3://lake/warehouse/ods.db/orders'
    """
    identifier = identifier_of(table)
    return f"{warehouse.rstrip('/')}/{identifier.database}.db/{identifier.table}"


def identifier_of_asset(asset: dg.AssetsDefinition | dg.AssetSpec) -> Identifier:
    """Return the one table of an asset definition, as `identifier_of_spec`."""
    if isinstance(asset, dg.AssetSpec):
        return identifier_of_spec(asset)
    specs = list(asset.specs)
    if len(specs) == 1:
        return identifier_of_spec(specs[0])
    raise InvalidInputError(
        f"Asset definition '{asset.node_def.name}' is not one Paimon table: it has {len(specs)} "
        "assets, and exactly one is needed.",
        kind="asset-table",
    )


def identifier_of_spec(spec: dg.AssetSpec) -> Identifier:
    """Return the table of an asset: `dagster/table_name`, else the last two parts of its key."""
    name = spec.metadata.get(TABLE_NAME)
    if isinstance(name, str):
        return identifier_of(name)
    if name is None and len(spec.key.path) > 1:
        return identifier_of_key(spec.key)
    raise InvalidInputError(
        f"Asset '{spec.key.to_user_string()}' names no Paimon table: it needs the metadata "
        f"'{TABLE_NAME}', from as_table_assets(…, io_manager=…) or paimon_output(table=…), or a "
        "key that ends in database and table.",
        kind="asset-table",
    )


def refuse_shared_tables(assets: dg.Definitions | Iterable[object]) -> None:
    """Check, from definitions alone, that no two of these assets write one table.

    >>> refuse_shared_tables([orders])

    Assets that add segments to a table do not count: each adds its own folder. Nor do those that
    write some of its columns. Assets of a `PaimonIOManager` count if their resources are known:
    give the `dg.Definitions`, or assets of `as_table_assets`. A run checks all assets, too.

    Raises:
        InvalidInputError: Names the table and both keys (kind `asset-table`).
    """
    resources: Mapping[str, object] = {}
    if isinstance(assets, dg.Definitions):
        resources, assets = assets.resources or {}, assets.assets or ()
    owners: dict[tuple[str, str], dg.AssetKey] = {}
    for asset in assets:
        if not isinstance(asset, dg.AssetsDefinition) or not asset.is_materializable:
            continue
        bound = {
            key: value.get_resource_definition() if isinstance(value, _RESOURCES) else value
            for key, value in {**resources, **asset.resource_defs}.items()
        }
        for spec in asset.specs:
            table = _table_of(asset, spec, bound)
            if table is not None and owners.setdefault(table, spec.key) != spec.key:
                raise two_writers(owners[table], spec.key, table[1])


_RESOURCES = (dg.ConfigurableResource, dg.ConfigurableIOManager)


def _table_of(
    asset: dg.AssetsDefinition, spec: dg.AssetSpec, resources: Mapping[str, Any]
) -> tuple[str, str] | None:
    """Return the address of the catalog, or else its key, and the table."""
    table = spec.metadata.get(TABLE_NAME)
    if spec.metadata.get(STORAGE_KIND_KEY) == STORAGE_KIND:
        if table is None or ADDS_SEGMENTS in spec.metadata or WRITES_COLUMNS in spec.metadata:
            return None
        key = spec.metadata.get(RESOURCE_KEY, DEFAULT_RESOURCE_KEY)
        return _address(resources.get(key)) or key, str(table)
    manager = resources.get(asset.get_io_manager_key_for_asset_key(spec.key))
    catalog = getattr(manager, "nested_resources", {}).get(DEFAULT_RESOURCE_KEY)
    output = asset.node_def.output_def_named(asset.get_output_name_for_asset_key(spec.key))
    if catalog is None or output.dagster_type.is_nothing:
        return None
    names = [_fields_of(manager).get("database", "default"), *spec.key.path][-2:]
    return _address(catalog.get_resource_definition()), str(table or Identifier(*names))


def _address(catalog: Any) -> str:
    """Return the address of a catalog as one text, empty without fields."""
    fields = _fields_of(catalog)
    names = ("warehouse", "metastore", "uri", "options")
    return str([fields.get(name) for name in names]) if fields else ""


def _fields_of(resource: Any) -> Mapping[str, Any]:
    """Return the fields of a resource's definition."""
    field = getattr(resource, "config_field", None)
    return field.default_value if field is not None and field.default_provided else {}


def two_writers(one: dg.AssetKey, other: dg.AssetKey, table: str) -> InvalidInputError:
    """Return the error of a table that two assets write."""
    first, second = sorted(key.to_user_string() for key in (one, other))
    message = (
        f"Assets '{first}' and '{second}' both write table "
        f"'{table}'. Give one of them another table: the default is the last two parts of its key."
    )
    return InvalidInputError(message, kind="asset-table", table=table)


def resource_key_of(asset: dg.AssetsDefinition | dg.AssetSpec) -> str:
    """Return the key of the catalog resource that an asset was defined with."""
    specs = [asset] if isinstance(asset, dg.AssetSpec) else asset.specs
    keys = [str(spec.metadata[RESOURCE_KEY]) for spec in specs if RESOURCE_KEY in spec.metadata]
    return keys[0] if keys else DEFAULT_RESOURCE_KEY
