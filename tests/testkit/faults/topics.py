"""Runs that read a topic, in processes of their own, which may be killed."""

import os
import warnings
from pathlib import Path

import dagster as dg

from paimon_assets.assets import (
    KafkaSource,
    PaimonCatalogResource,
    TopicLogConfig,
    build_change_log_asset,
)
from paimon_assets.engine.spec.schema.schema import Schema
from tests.testkit.faults.killing_file_io import Countdown
from tests.testkit.faults.writers import SURVIVED

ORDERS = Schema.of(
    {"id": "BIGINT", "state": "STRING"}, primary_keys=["id"], options={"bucket": "1"}
)


def follow(warehouse: str, address: str, topic: str, most: int = 0) -> bool:
    """Apply what a topic has; True if the run succeeded."""
    source = KafkaSource(bootstrap=address, topic=topic, timeout_seconds=20)
    asset = build_change_log_asset("shop.orders", ORDERS, source=source)
    paimon = PaimonCatalogResource(warehouse=warehouse, executor="embedded")
    home = Path(f"{warehouse}-dagster-{os.getpid()}")
    home.mkdir(exist_ok=True)
    config = dg.RunConfig(ops={"shop__orders": TopicLogConfig(max_records=most)})
    with warnings.catch_warnings(), dg.DagsterInstance.ephemeral(tempdir=str(home)) as instance:
        warnings.simplefilter("ignore")
        return dg.materialize(
            [asset],
            resources={"paimon": paimon},
            instance=instance,
            run_config=config,
            raise_on_error=False,
        ).success


def follow_until_killed(warehouse: str, address: str, topic: str, most: int, steps: int) -> None:
    """Apply what a topic has; die at the n-th thing done to a file of the warehouse."""
    Countdown(steps).watch(warehouse)
    if follow(warehouse, address, topic, most):
        os._exit(SURVIVED)
