"""The Spark of this deployment, from the environment: local[*] out of the box."""

import os
import shlex

import dagster as dg

from paimon_assets.assets.resource import PaimonSparkResource
from paimon_assets.engine.errors import InvalidInputError

DRIVER_MEMORY = "4g"


def spark_resource() -> PaimonSparkResource:
    """The session settings.

    `SPARK_MASTER` names a cluster (`spark://host:7077`, `yarn`, `k8s://…`, `sc://…`),
    `SPARK_DRIVER_MEMORY` the heap of the driver, `SPARK_SETTINGS` all else; see `parse_settings`.
    """
    return PaimonSparkResource(
        master=os.environ.get("SPARK_MASTER", "local[*]"),
        driver_memory=os.environ.get("SPARK_DRIVER_MEMORY", DRIVER_MEMORY),
        extra=parse_settings(os.environ.get("SPARK_SETTINGS", "")),
    )


def parse_settings(text: str) -> dict[str, str]:
    """Return Spark settings written as words of a shell: `spark.executor.memory=4g …`.

    A value `$NAME` stays the name of an environment variable, which the UI shows in place of it:
    give secrets so.

    Raises:
        InvalidInputError: A word is no `key=value` of Spark's; names the word's key.

    >>> parse_settings("spark.executor.cores=2 'spark.app.name=two words'")
    {'spark.executor.cores': '2', 'spark.app.name': 'two words'}
    """
    settings: dict[str, str] = {}
    for word in shlex.split(text):
        key, is_setting, value = word.partition("=")
        if not is_setting or not key.startswith("spark."):
            raise InvalidInputError(
                f"SPARK_SETTINGS has the word '{key}', which is no setting: write "
                "spark.executor.memory=4g, several with blanks between them, in quotes what holds "
                "blanks.",
                kind="spark-settings",
            )
        settings[key] = dg.EnvVar(value[1:]) if value.startswith("$") else value
    return settings
