"""Runs whose step is killed right after its commit, and then re-executed from failure."""

import os
import signal
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest

from paimon_assets import Schema, open_catalog
from paimon_assets.assets import PaimonCatalogResource, PaimonIOManager, paimon_asset, paimon_output
from paimon_assets.engine.fileio.local import LocalFileIO

SCHEMA = Schema.of({"n": "BIGINT"})
TABLES = ("by_function", "by_io_manager")
FORKED = {"forkserver": {"preload_modules": ["tests.testkit.faults.dagster_homes"]}}
"""Dagster starts the process of a step from one that has imported its modules."""

pytestmark = pytest.mark.filterwarnings(
    # Dagster 1.13 calls its own deprecated attribute when it sets up nested resources.
    "ignore:InitResourceContext.dagster_run:DeprecationWarning"
)


def die_after_first_commit(table: str) -> None:
    """Kill this process when it has committed snapshot 1 of a table."""
    publish = LocalFileIO.publish

    def dying(self: LocalFileIO, path: str, data: bytes) -> bool:
        published = publish(self, path, data)
        if published and path.endswith(f"{table}/snapshot/snapshot-1"):
            os.kill(os.getpid(), signal.SIGKILL)
        return published

    LocalFileIO.publish = dying  # type: ignore[method-assign]


def numbers(table: str) -> pa.Table:
    die_after_first_commit(table)
    return pa.table({"n": pa.array([1, 2], pa.int64())})


def appending(home: str) -> dg.JobDefinition:
    """A job of two assets that append, each in a process of its own."""

    @paimon_asset("d.by_function", SCHEMA)
    def by_function() -> pa.Table:
        return numbers("by_function")

    @dg.asset(key=["d", "by_io_manager"], metadata=paimon_output(schema=SCHEMA, mode="append"))
    def by_io_manager() -> pa.Table:
        return numbers("by_io_manager")

    paimon = PaimonCatalogResource(warehouse=f"{home}/w", executor="embedded")
    definitions = dg.Definitions(
        assets=[by_function, by_io_manager],
        resources={"paimon": paimon, "io_manager": PaimonIOManager(paimon=paimon)},
        jobs=[dg.define_asset_job("appending", selection="*")],
        executor=dg.multiprocess_executor.configured({"max_concurrent": 2, "start_method": FORKED}),
    )
    return definitions.resolve_job_def("appending")


def test_reexecution_after_kill_writes_rows_once(tmp_path: Path) -> None:
    own = {"home": str(tmp_path)}
    job = dg.build_reconstructable_job(__name__, "appending", reconstructable_kwargs=own)
    home = tmp_path / "dagster"
    home.mkdir()
    with dg.DagsterInstance.local_temp(str(home)) as instance:
        died = dg.execute_job(job, instance)
        failed = {event.step_key for event in died.all_events if event.is_step_failure}
        assert failed == {f"d__{name}" for name in TABLES}
        options = dg.ReexecutionOptions.from_failure(died.run_id, instance)
        assert dg.execute_job(job, instance, reexecution_options=options).success
    for name in TABLES:
        table = open_catalog(str(tmp_path / "w")).get_table(f"d.{name}")
        assert table.new_read_builder().to_arrow().sort_by("n")["n"].to_pylist() == [1, 2]
        assert [snapshot.id for snapshot in table.snapshots()] == [1]
