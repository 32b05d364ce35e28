"""Runs of change logs from files."""

from typing import Any

import dagster as dg

from paimon_assets.assets import PaimonCatalogResource
from paimon_assets.cdc import ChangeLogConfig
from tests.testkit.asset_tables import failure_text, metadata_of, run


def run_config(asset: dg.AssetsDefinition, **config: Any) -> dg.RunConfig:
    return dg.RunConfig(ops={asset.op.name: ChangeLogConfig(**config)})


def apply_log(asset: dg.AssetsDefinition, paimon: PaimonCatalogResource, **config: Any) -> Any:
    """Run a change log successfully; return the metadata of its asset."""
    result = run(asset, paimon, run_config=run_config(asset, **config))
    assert result.success, failure_text(result)
    return metadata_of(result, asset.key)


def refusal(asset: dg.AssetsDefinition, paimon: PaimonCatalogResource, **config: Any) -> str:
    """Run a change log that fails; return the text of the failure."""
    result = run(asset, paimon, run_config=run_config(asset, **config))
    assert not result.success
    return failure_text(result)
