"""The asset of a table that files feed: what ingestion and segments have in common."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import dagster as dg

from paimon_assets.assets.resource import PaimonCatalogResource
from paimon_assets.assets.tables.table_asset import (
    AssetOptions,
    TableTarget,
    define_asset,
    with_signature,
)
from paimon_assets.engine.errors import InvalidInputError

TakeIn = Callable[
    [dg.AssetExecutionContext, PaimonCatalogResource, Any, TableTarget], dg.MaterializeResult[Any]
]
"""What a run does, with the catalog and the run's config, instead of calling a function."""


def define_intake(
    target: TableTarget,
    options: AssetOptions,
    take_in: TakeIn,
    config: type[dg.Config],
    *,
    description: str,
    refused: Mapping[str, str],
) -> dg.AssetsDefinition:
    """Define the asset of a table that files feed.

    `description` is that of an asset without another one; `refused` are options of `dg.asset` that
    such an asset cannot have → why.
    """
    for name, why in refused.items():
        if name in options:
            raise InvalidInputError(
                f"The asset of table {target.identifier} cannot have {name}: {why}.",
                kind="asset-options",
            )

    def compute(context: dg.AssetExecutionContext, **inputs: Any) -> dg.MaterializeResult[Any]:
        return take_in(context, inputs[target.resource_key], inputs["config"], target)

    compute.__name__ = target.identifier.table
    compute.__doc__ = description
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        inspect.Parameter("config", keyword, annotation=config),
        inspect.Parameter(target.resource_key, keyword, annotation=PaimonCatalogResource),
    ]
    return define_asset(with_signature(compute, parameters), target, options)
