"""The asset of a table that files feed: what ingestion and segments have in common."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True, kw_only=True)
class Intake:
    """The way an asset takes in files instead of a function's result."""

    take_in: Callable[
        [dg.AssetExecutionContext, PaimonCatalogResource, Any, TableTarget],
        dg.MaterializeResult[Any],
    ]
    """What a run does, with the catalog and the run's config."""
    config: type[dg.Config]
    description: str
    """The description of an asset without another one."""
    refused: Mapping[str, str]
    """Options of `dg.asset` such an asset cannot have → why."""


def define_intake(
    target: TableTarget, intake: Intake, options: AssetOptions
) -> dg.AssetsDefinition:
    """Define the asset of a table that files feed.

    Raises:
        InvalidInputError: Kind `asset-options`; an option that such an asset cannot have.
    """
    for refused, why in intake.refused.items():
        if refused in options:
            raise InvalidInputError(
                f"The asset of table {target.identifier} cannot have {refused}: {why}.",
                kind="asset-options",
            )

    def take_in(context: dg.AssetExecutionContext, **inputs: Any) -> dg.MaterializeResult[Any]:
        return intake.take_in(context, inputs[target.resource_key], inputs["config"], target)

    take_in.__name__ = target.identifier.table
    take_in.__doc__ = intake.description
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        inspect.Parameter("config", keyword, annotation=intake.config),
        inspect.Parameter(target.resource_key, keyword, annotation=PaimonCatalogResource),
    ]
    return define_asset(with_signature(take_in, parameters), target, options)
