"""The Spark of this deployment, from the environment: local[*] out of the box."""

import os

from paimon_assets.assets.resource import PaimonSparkResource

DRIVER_MEMORY = "4g"


def spark_resource() -> PaimonSparkResource:
    """The session settings.

    `SPARK_MASTER` names a cluster (`spark://host:7077`, `yarn`, `k8s://…`), `SPARK_DRIVER_MEMORY`
    the heap of the driver. Everything else Spark knows goes into `extra`.
    """
    return PaimonSparkResource(
        master=os.environ.get("SPARK_MASTER", "local[*]"),
        driver_memory=os.environ.get("SPARK_DRIVER_MEMORY", DRIVER_MEMORY),
    )
