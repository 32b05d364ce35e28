"""Runs of the asset of a change log in processes of their own, which may be killed."""

import os

from paimon_assets.assets import FileSource, PaimonCatalogResource
from paimon_assets.cdc import ChangeLog, build_change_log_asset
from paimon_assets.engine.spec.schema.schema import Schema
from tests.testkit.faults.killing_file_io import Countdown
from tests.testkit.faults.materializing import succeeds
from tests.testkit.faults.writers import SURVIVED

TABLE = "d.orders"
SCHEMA = Schema.of(
    {"id": "BIGINT", "state": "STRING", "note": "STRING"},
    primary_keys=["id"],
    options={"bucket": "2"},
)


def follow(home: str) -> bool:
    """Apply landed files; True if the run succeeded."""
    asset = build_change_log_asset(
        TABLE,
        SCHEMA,
        source=FileSource(folder=f"{home}/landing", format="debezium-json"),
        log=ChangeLog(dead_letters="d.letters", on_truncate="empty"),
        schema_policy="add",
    )
    paimon = PaimonCatalogResource(warehouse=f"{home}/lake", executor="embedded")
    return succeeds(asset, home, paimon=paimon)


def follow_until_killed(home: str, steps: int) -> None:
    """Apply landed files; die at the n-th operation on a file of the warehouse."""
    Countdown(steps).watch(f"{home}/lake")
    if follow(home):
        os._exit(SURVIVED)
