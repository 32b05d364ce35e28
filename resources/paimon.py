"""The catalog of this deployment, from the environment: `.demo/warehouse` out of the box."""

import os
from pathlib import Path

from paimon_assets.assets.resource import PaimonCatalogResource, PaimonSparkResource

DEFAULT_WAREHOUSE = str(Path(__file__).resolve().parents[1] / ".demo" / "warehouse")
DRIVER_MEMORY = "4g"


def paimon_resource(executor: str | None = None) -> PaimonCatalogResource:
    """The catalog and the executor of reads and writes of its tables: Spark by default.

    The variables are those of `PaimonCatalogResource.from_env`.
    """
    memory = os.environ.get("SPARK_DRIVER_MEMORY", DRIVER_MEMORY)
    fields = {
        "executor": executor or os.environ.get("PAIMON_EXECUTOR", "spark"),
        "spark": PaimonSparkResource.from_env(driver_memory=memory),
    }
    if not os.environ.keys() & {"PAIMON_WAREHOUSE", "PAIMON_URI"}:
        fields["warehouse"] = DEFAULT_WAREHOUSE
    return PaimonCatalogResource.from_env(**fields)


def warehouse_when_loaded() -> str | None:
    """The root of the warehouse as it is known when definitions load; None if a server knows it."""
    if "PAIMON_URI" in os.environ:
        return None
    return os.environ.get("PAIMON_WAREHOUSE", DEFAULT_WAREHOUSE)
