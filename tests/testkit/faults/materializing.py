"""Materializations in processes of their own, which may be killed; a server forks them."""

import os
import warnings
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa

from paimon_assets import Schema, assets
from tests.testkit.faults.killing_file_io import Countdown
from tests.testkit.faults.writers import BARRIER_SECONDS, SURVIVED

TABLE = "d.numbers"
SCHEMA = Schema.of({"n": "BIGINT"})


def materialize(warehouse: str, mode: str, numbers: list[int], wait: Barrier | None = None) -> bool:
    """Write numbers through the IO manager, after a check; True if the run succeeded."""

    def all_there(batch: assets.Batch) -> assets.Verdict:
        if wait is not None:
            wait.wait(BARRIER_SECONDS)
        rows = batch.read.to_arrow(batch.executor).num_rows
        return assets.Verdict(passed=rows == len(numbers), description=f"{rows} rows")

    @assets.audited_asset(
        before_commit=[assets.BatchCheck(name="all_there", evaluate=all_there)],
        key=TABLE.split("."),
        metadata=assets.paimon_output(schema=SCHEMA, mode=mode),
    )
    def table() -> pa.Table:
        return pa.table({"n": pa.array(numbers, pa.int64())})

    paimon = assets.PaimonCatalogResource(warehouse=warehouse, executor="embedded")
    return succeeds(table, warehouse, io_manager=assets.PaimonIOManager(paimon=paimon))


def succeeds(
    asset: dg.AssetsDefinition, home: str, config: dg.RunConfig | None = None, **resources: Any
) -> bool:
    """Run an asset; its instance writes beside a folder."""
    folder = Path(f"{home}-dagster-{os.getpid()}")
    folder.mkdir(exist_ok=True)
    with warnings.catch_warnings(), dg.DagsterInstance.ephemeral(tempdir=str(folder)) as instance:
        warnings.simplefilter("ignore")
        return dg.materialize(
            [asset], resources=resources, instance=instance, run_config=config, raise_on_error=False
        ).success


def materialize_until_killed(warehouse: str, mode: str, numbers: list[int], steps: int) -> None:
    """Materialize; die at the n-th thing done to a file of the warehouse."""
    Countdown(steps).watch(warehouse)
    if materialize(warehouse, mode, numbers):
        os._exit(SURVIVED)


def materialize_beside(warehouse: str, mode: str, numbers: list[int], wait: Barrier) -> None:
    """Materialize, committing when the other processes are about to."""
    os._exit(0 if materialize(warehouse, mode, numbers, wait) else 1)
