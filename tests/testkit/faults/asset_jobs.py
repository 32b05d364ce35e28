"""Jobs of one table, run by processes of their own that may be killed; a server forks them.

test ─▶ run process ─▶ step process     each step of a run has one: Dagster's multiprocess executor
            ✝              ✝           a file names the process that dies, and the step
"""

import os
import signal
import warnings
from enum import StrEnum
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
from dagster._core.execution.plan.state import KnownExecutionState
from dagster._core.execution.retries import RetryMode
from dagster._core.executor.multiprocess import MultiprocessExecutor

from paimon_assets import EmbeddedExecutor, Schema, SegmentSource, assets
from paimon_assets.assets.jobs.compaction import StrategyChoice
from tests.testkit import foreign
from tests.testkit.faults.killing_file_io import Countdown
from tests.testkit.tables import new_table, write

NAME = "d.numbers"
SCHEMA = Schema.of({"n": "BIGINT"})
KEYED = Schema.of({"n": "BIGINT"}, primary_keys=["n"], options={"bucket": "1"})
BEFORE = ([1], [2])
"""Rows of the snapshots before a run."""
NEW = [3, 4]
_KEY = NAME.split(".")


class Kind(StrEnum):
    FUNCTION = "function"
    IO_MANAGER = "IO manager"
    OVERWRITE = "IO manager, overwrite"
    AUDIT = "audit"
    INGESTION = "ingestion"
    SEGMENTS = "segment asset"
    SEGMENT_JOB = "segment job"
    COMPACTION = "compaction"


class Fate(StrEnum):
    """The processes that die at the given step, and those that continue."""

    STEP = "step, re-executed from failure"
    POLICY = "step, retried by its policy"
    RUN = "run, and its step goes on later"
    BOTH = "run and step, retried automatically"


def numbers(values: list[int]) -> pa.Table:
    return pa.table({"n": pa.array(values, pa.int64())})


def expected_rows(kind: Kind) -> list[int]:
    """Return the rows of the table after one run."""
    before = [number for write in BEFORE for number in write]
    match kind:
        case Kind.COMPACTION:
            return before
        case Kind.OVERWRITE:
            return NEW
        case _:
            return [*before, *NEW]


def prepare(home: Path, kind: Kind) -> None:
    """Make the table, and the folder of files that a run may take in."""
    schema = KEYED if kind is Kind.COMPACTION else SCHEMA
    table = new_table(home / "warehouse", schema, name=NAME)
    for values in BEFORE:
        write(table, numbers(values), executor=EmbeddedExecutor(threads=1))
    foreign.write(home / "landing" / "1.parquet", numbers(NEW))


def rebuild(home: str, kind: str, fate: str) -> dg.JobDefinition:
    """Return a job, in a process of a run or of a step."""
    paimon = assets.PaimonCatalogResource(warehouse=f"{home}/warehouse", executor="embedded")
    policy = dg.RetryPolicy(max_retries=1) if Fate(fate) is Fate.POLICY else None
    made = _make_asset(Path(home), Kind(kind), paimon)
    if isinstance(made, dg.JobDefinition):
        job: Any = made.graph.to_job(name="job", op_retry_policy=policy)
    else:
        job = dg.define_asset_job("job", selection="*", op_retry_policy=policy)
    definitions = dg.Definitions(
        assets=[] if isinstance(made, dg.JobDefinition) else [made],
        resources={"paimon": paimon, "io_manager": assets.PaimonIOManager(paimon=paimon)},
        jobs=[job],
        executor=_forking,
    )
    return definitions.resolve_job_def("job")


@dg.executor(name="forking", requirements=dg.multiple_process_executor_requirements())
def _forking(_: object) -> dg.Executor:
    """Dagster's multiprocess executor; processes of steps are forked, which its config forbids."""
    return MultiprocessExecutor(RetryMode.ENABLED, max_concurrent=1, start_method="fork")


def _make_asset(home: Path, kind: Kind, paimon: assets.PaimonCatalogResource) -> Any:
    def rows() -> pa.Table:
        return numbers(NEW)

    def judge(batch: assets.Batch) -> assets.Verdict:
        found: list[Any] = batch.read.to_arrow(batch.executor)["n"].to_pylist()
        return assets.Verdict(passed=sorted(found) == NEW, description=f"{found}")

    landing = str(home / "landing")
    match kind:
        case Kind.FUNCTION:
            return assets.paimon_asset(NAME, SCHEMA)(rows)
        case Kind.IO_MANAGER | Kind.OVERWRITE:
            mode = "append" if kind is Kind.IO_MANAGER else "overwrite"
            return dg.asset(key=_KEY, metadata=assets.paimon_output(schema=SCHEMA, mode=mode))(rows)
        case Kind.AUDIT:
            audits = [assets.BatchCheck(name="all_there", evaluate=judge)]
            metadata = assets.paimon_output(schema=SCHEMA, mode="append")
            return assets.audited_asset(before_commit=audits, key=_KEY, metadata=metadata)(rows)
        case Kind.INGESTION:
            return assets.build_file_ingestion_asset(
                NAME, SCHEMA, source=assets.FileSource(folder=landing)
            )
        case Kind.SEGMENTS:
            return assets.build_segment_asset(NAME, SCHEMA, source=SegmentSource(path=landing))
        case Kind.SEGMENT_JOB:
            return assets.build_segment_import_job()
        case Kind.COMPACTION:
            return assets.build_compaction_job([NAME])


def _config(home: Path, kind: Kind) -> dict[str, Any]:
    ops: dict[str, Any] = {}
    if kind is Kind.SEGMENT_JOB:
        ops = {"import_segment": assets.SegmentImportConfig(table=NAME, path=str(home / "landing"))}
    if kind is Kind.COMPACTION:
        ops = {"compact": assets.CompactionConfig(strategy=StrategyChoice.full)}
    return dict(dg.RunConfig(ops=ops).to_config_dict())


class _Doom(Countdown):
    """The end of one process of a test: the first that gets so far."""

    def __init__(self, home: Path, steps: int, fate: Fate, runner: int) -> None:
        super().__init__(steps)
        self._home, self._fate, self._runner = home, fate, runner

    def _reaches_end(self) -> bool:
        if not super()._reaches_end():
            return False
        try:
            (self._home / "steps").rename(self._home / "taken")
        except FileNotFoundError:
            return False
        (self._home / "taken").write_text(str(os.getpid()))
        if self._fate in (Fate.RUN, Fate.BOTH):
            os.kill(self._runner, signal.SIGKILL)
        if self._fate is not Fate.RUN:
            return True
        os.kill(os.getpid(), signal.SIGSTOP)  # until the test lets it go on
        return False


def _await(home: Path, fate: Fate, runner: int) -> None:
    """Let this process of a step meet its fate, if there still is one."""
    try:
        steps = int((home / "steps").read_text())
    except FileNotFoundError:
        return
    _Doom(home, steps, fate, runner).watch(str(home / "warehouse"))


def run(home: str, kind: str, fate: str) -> None:
    """Execute the job; if there was a run before, as a re-execution of it. Exits with 0 or 1."""
    warnings.simplefilter("ignore")
    runner = os.getpid()
    os.register_at_fork(after_in_child=lambda: _await(Path(home), Fate(fate), runner))
    own = {"home": home, "kind": kind, "fate": fate}
    job = dg.build_reconstructable_job(__name__, "rebuild", reconstructable_kwargs=own)
    with instance_of(Path(home)) as instance:
        runs = instance.get_runs(limit=1)
        again: dict[str, Any] = {"run_config": _config(Path(home), Kind(kind))}
        if runs and Fate(fate) is Fate.BOTH:
            again["reexecution_options"] = dg.ReexecutionOptions(parent_run_id=runs[0].run_id)
            again["tags"] = {"dagster/retry_number": "1"}
        elif runs:
            if not KnownExecutionState.build_resume_retry_reexecution(instance, runs[0])[0]:
                os._exit(0)  # every step had ended; Dagster has nothing to execute
            options = dg.ReexecutionOptions.from_failure(runs[0].run_id, instance)
            again["reexecution_options"] = options
        os._exit(0 if dg.execute_job(job, instance, **again).success else 1)


def instance_of(home: Path) -> dg.DagsterInstance:
    """Open the instance of a test's runs."""
    (home / "dagster").mkdir(exist_ok=True)
    return dg.DagsterInstance.local_temp(str(home / "dagster"))
