"""The catalog of this deployment, from the environment: `.demo/warehouse` out of the box."""

import os
from pathlib import Path

import dagster as dg

from paimon_assets.assets.resource import PaimonCatalogResource
from resources.spark import spark_resource

DEFAULT_WAREHOUSE = str(Path(__file__).resolve().parents[1] / ".demo" / "warehouse")

STORAGE_OPTIONS = {
    "s3.endpoint": "PAIMON_S3_ENDPOINT",
    "s3.region": "PAIMON_S3_REGION",
    "s3.access-key": "PAIMON_S3_ACCESS_KEY",
    "s3.secret-key": "PAIMON_S3_SECRET_KEY",
    "s3.session-token": "PAIMON_S3_SESSION_TOKEN",
    "s3.path-style-access": "PAIMON_S3_PATH_STYLE_ACCESS",
}
"""Option of the object store → environment variable it comes from, where that is set.

They stay `EnvVar`: the UI and the Launchpad show the variable's name, never the secret.
"""


def paimon_resource(executor: str | None = None) -> PaimonCatalogResource:
    """The catalog and what executes reads and writes of its tables.

    `PAIMON_WAREHOUSE` is the root (`/data/warehouse`, `s3://bucket/warehouse`). Where `PAIMON_URI`
    names a REST catalog, it is the name that gives it, if it has several; `PAIMON_TOKEN` says who
    asks. `PAIMON_EXECUTOR` is `spark` or `embedded`, unless `executor` says it.
    """
    is_served = "PAIMON_URI" in os.environ
    return PaimonCatalogResource(
        warehouse=_from_environment("PAIMON_WAREHOUSE", "" if is_served else DEFAULT_WAREHOUSE),
        metastore="rest" if is_served else "",
        uri=_from_environment("PAIMON_URI", ""),
        token=_from_environment("PAIMON_TOKEN", ""),
        options={
            option: dg.EnvVar(variable)
            for option, variable in STORAGE_OPTIONS.items()
            if variable in os.environ
        },
        executor=executor or os.environ.get("PAIMON_EXECUTOR", "spark"),
        spark=spark_resource(),
    )


def warehouse_when_loaded() -> str | None:
    """The root of the warehouse as it is known when definitions load; None if a server knows it."""
    if "PAIMON_URI" in os.environ:
        return None
    return os.environ.get("PAIMON_WAREHOUSE", DEFAULT_WAREHOUSE)


def _from_environment(variable: str, default: str) -> str:
    return dg.EnvVar(variable) if variable in os.environ else default
