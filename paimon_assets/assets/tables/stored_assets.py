"""Assets of the IO manager, with what every table asset carries.

@dg.asset ─▶ as_table_assets ─▶ table name, uri, kinds, columns ─▶ checks, compaction, the UI
└─▶ pool, which keeps one writer at a time per table
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import dagster as dg

from paimon_assets.assets.metadata import Metadata, declared_columns
from paimon_assets.assets.resource import DEFAULT_RESOURCE_KEY, RESOURCE_KEY
from paimon_assets.assets.tables.io_manager import PaimonIOManager
from paimon_assets.assets.tables.io_metadata import (
    EXECUTOR,
    OUTPUT_KEYS,
    check_keys,
    declared_schema,
)
from paimon_assets.assets.translator import (
    STORAGE_KIND,
    STORAGE_KIND_KEY,
    TABLE_NAME,
    URI,
    PaimonTranslator,
    kinds_of,
    pool_of,
    uri_of,
)
from paimon_assets.engine.control.catalog.catalog import Identifier

AssetT = TypeVar("AssetT")

_NO_GROUP = "default"
"""The group Dagster gives an asset that names none."""


def as_table_assets(
    assets: Iterable[AssetT],
    *,
    io_manager: PaimonIOManager,
    io_manager_key: str = "io_manager",
    resource_key: str = DEFAULT_RESOURCE_KEY,
) -> list[AssetT | dg.AssetsDefinition]:
    """Return assets with what a `paimon_asset` carries, where the IO manager stores them.

    That is the name and the address of the table, its kinds, its database as group, the declared
    columns with their descriptions, and the pool `paimon/<database>.<table>`, of a definition with
    several tables `paimon/<its name>`. So they can be given to checks, to the compaction job and to
    its sensor, and none of these writes while another does. What a definition says itself stays;
    ops inside a graph keep their pools. What is a table asset already, is annotated to
    return None, or is no asset is returned as it is.

    Args:
        assets: What `dg.Definitions` takes as assets.
        io_manager: The one that stores them: it knows the warehouse, and the database of keys of
            one part.
        io_manager_key: Its key among the resources.
        resource_key: That of its catalog, which checks and jobs take.

    Raises:
        InvalidInputError: An asset's metadata has a key of ours that is none, or no table's name.

    >>> [sales] = as_table_assets([sales], io_manager=io)  # doctest: +SKIP
    ... dg.Definitions([sales, build_row_count_check(sales, 3)], resources={"io_manager": io, ...})
    """
    return [
        _described(asset, _Storing(io_manager, io_manager_key, resource_key))
        if isinstance(asset, dg.AssetsDefinition)
        else asset
        for asset in assets
    ]


@dataclass(frozen=True)
class _Storing:
    """Who stores the assets."""

    io_manager: PaimonIOManager
    io_manager_key: str
    resource_key: str


def _described(asset: dg.AssetsDefinition, storing: _Storing) -> dg.AssetsDefinition:
    if not asset.is_executable:
        return asset
    stored = {
        spec.key: storing.io_manager.identifier_of(spec)
        for spec in asset.specs
        if asset.get_io_manager_key_for_asset_key(spec.key) == storing.io_manager_key
        and spec.metadata.get(STORAGE_KIND_KEY) != STORAGE_KIND
        and not _stores_nothing(asset, spec.key)
    }
    if not stored:
        return asset
    described = asset.map_asset_specs(
        lambda spec: (
            _described_spec(spec, stored[spec.key], storing) if spec.key in stored else spec
        )
    )
    op = described.node_def
    if not isinstance(op, dg.OpDefinition) or op.pool is not None:
        return described
    [*tables] = stored.values()
    pool = pool_of(tables[0]) if len(tables) == 1 else f"paimon/{op.name}"
    attributes = {**described.get_attributes_dict(), "node_def": _with_pool(op, pool)}
    return dg.AssetsDefinition.dagster_internal_init(**attributes)


def _stores_nothing(asset: dg.AssetsDefinition, key: dg.AssetKey) -> bool:
    """Whether the function says that it returns no rows."""
    output = asset.node_def.output_def_named(asset.get_output_name_for_asset_key(key))
    return output.dagster_type.is_nothing


def _described_spec(spec: dg.AssetSpec, identifier: Identifier, storing: _Storing) -> dg.AssetSpec:
    check_keys(spec.metadata, OUTPUT_KEYS, f"asset '{spec.key.to_user_string()}'")
    io_manager = storing.io_manager
    metadata: Metadata = {TABLE_NAME: str(identifier), STORAGE_KIND_KEY: STORAGE_KIND}
    if storing.resource_key != DEFAULT_RESOURCE_KEY:
        metadata[RESOURCE_KEY] = storing.resource_key
    schema = declared_schema(spec.metadata)
    if schema is not None:
        metadata |= declared_columns(schema)
    warehouse = io_manager.known_warehouse()
    if warehouse is not None:
        metadata[URI] = uri_of(warehouse, identifier)
    executor = spec.metadata.get(EXECUTOR, io_manager.paimon.executor)
    described: dg.AssetSpec = spec.replace_attributes(
        metadata={**metadata, **spec.metadata},
        kinds={*spec.kinds, *kinds_of(executor)},
        tags={STORAGE_KIND_KEY: STORAGE_KIND, **_plain_tags(spec)},
        description=spec.description or (schema.comment if schema is not None else None),
        group_name=_group_of(spec, identifier),
    )
    return described


def _group_of(spec: dg.AssetSpec, identifier: Identifier) -> str:
    """Return the group; of an asset that names none, that of its database."""
    if spec.group_name in (None, _NO_GROUP):
        return PaimonTranslator().get_group_name(identifier)
    return spec.group_name


def _plain_tags(spec: dg.AssetSpec) -> dict[str, str]:
    """Return the tags but for those that are kinds."""
    return {key: value for key, value in spec.tags.items() if not key.startswith("dagster/kind/")}


def _with_pool(op: dg.OpDefinition, pool: str) -> dg.OpDefinition:
    """Return the op in a pool; Dagster has no way to change one."""
    inputs: dict[str, Any] = {item.name: dg.In.from_definition(item) for item in op.input_defs}
    outputs: dict[str, Any] = {item.name: dg.Out.from_definition(item) for item in op.output_defs}
    return dg.OpDefinition(
        compute_fn=op.compute_fn,
        name=op.name,
        ins=inputs,
        outs=outputs,
        description=op.description,
        config_schema=op.config_schema,
        required_resource_keys=set(op.required_resource_keys),
        tags=op.tags,
        retry_policy=op.retry_policy,
        pool=pool,
    )
