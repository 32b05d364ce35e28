"""Which run wrote a snapshot.

The commit user makes a retried step find its own commit, also where another run resumes the one
that died; the properties lead from a snapshot back to its run.
"""

import hashlib
import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any, Generic, TypeVar

import dagster as dg
from dagster_shared.check import CheckError
from msgspec.structs import replace

from paimon_assets.assets.partitions import label_of
from paimon_assets.assets.translator import refuse_shared_tables
from paimon_assets.engine.control.managers.commit_history import RecentUser
from paimon_assets.engine.spec.values import Value

RUN_ID = "dagster.run-id"
ORIGIN = "dagster.resumed-run-id"
"""The run whose step was finished, if another run finished it."""
RUN_URL = "dagster.run_url"
JOB = "dagster.job"
STEP_KEY = "dagster.step-key"
ASSET_KEY = "dagster.asset-key"
PARTITION = "dagster.partition"
CODE_VERSION = "dagster.code-version"

WEBSERVER_URL = "DAGSTER_WEBSERVER_URL"
"""Environment variable: the address of the UI, as people open it."""

T = TypeVar("T")

_CLOCKS_S = 24 * 60 * 60
_PARENT_RUN = "dagster/parent_run_id"
_RESUMES = "dagster/is_resume_retry"
_RESUMES_ASSETS = "dagster/is_asset_resume_retry"
_RETRY_NUMBER = "dagster/retry_number"


class Step(Value, dict=True):
    """One output of one step of one run; every retry of the step has the same commit user."""

    run: dg.DagsterRun
    instance: dg.DagsterInstance
    log: logging.Logger
    key: str
    output_key: str
    """The step key; for the output of an IO manager with the name of the output."""
    asset_key: dg.AssetKey | None
    """None for the output of an op, and for several assets."""
    partition_keys: tuple[str, ...]

    @property
    def run_id(self) -> str:
        return str(self.run.run_id)

    @cached_property
    def origin(self) -> str:
        """Id of the first run of a chain of resumed runs; its own if it resumes none.

        A run from a failure resumes its parent, and so does an automatic retry. One
        that executes some steps of its parent again resumes those that did not succeed there. One
        that executes all steps again, by a person's choice, resumes nothing.
        """
        run, seen = self.run, {self.run.run_id}
        while True:
            parent_id = run.parent_run_id or run.tags.get(_PARENT_RUN)
            if parent_id is None or parent_id in seen or not self._resumes(run, parent_id):
                return str(run.run_id)
            seen.add(parent_id)
            parent = self.instance.get_run_by_id(parent_id)
            if parent is None:
                return str(parent_id)
            run = parent

    def _resumes(self, run: dg.DagsterRun, parent_id: str) -> bool:
        """Whether a run resumes the step as its parent left it."""
        if run.tags.get(_RESUMES) == "true" or _RETRY_NUMBER in run.tags:
            return True
        if run.tags.get(_RESUMES_ASSETS) != "true" and run.step_keys_to_execute is None:
            return False
        stats = self.instance.get_run_step_stats(parent_id, [self.key])
        return all(item.status is None or item.status.value != "SUCCESS" for item in stats)

    @property
    def partition(self) -> str:
        """The partition key, first...last of several, empty without partitions."""
        return label_of(self.partition_keys)

    @cached_property
    def commit_user(self) -> str:
        """The commit user: one per origin, step and partition, the same for every retry.

        Snapshots that are older than the run, by a day for wrong clocks, are not searched for it.
        """
        name = f"dagster:{self.origin}:{self.output_key}:{self.partition}"
        record = self.instance.get_run_record_by_id(self.origin)
        if record is None:
            return name
        return RecentUser(name, int((record.create_timestamp.timestamp() - _CLOCKS_S) * 1000))

    @property
    def batch_name(self) -> str:
        """The name of its batches while they are checked: one per run, step and partition."""
        text = f"{self.output_key}:{self.partition}".encode()
        return f"{self.run_id[:8]}_{hashlib.sha256(text).hexdigest()[:8]}"

    def properties(self, code_version: str | None = None) -> Mapping[str, str]:
        """Return the snapshot properties of the run, without empty ones."""
        properties = {
            RUN_ID: self.run_id,
            RUN_URL: run_url(self.run_id),
            ORIGIN: self.origin if self.origin != self.run_id else "",
            JOB: self.run.job_name,
            STEP_KEY: self.output_key,
            ASSET_KEY: self.asset_key.to_user_string() if self.asset_key else "",
            PARTITION: self.partition,
            CODE_VERSION: code_version or "",
        }
        return {key: value for key, value in properties.items() if value}

    def is_made(self, properties: Mapping[str, str]) -> bool:
        """Whether a try of this step made the snapshot with these properties."""
        origin = properties.get(ORIGIN, properties.get(RUN_ID))
        identity = (origin, properties.get(STEP_KEY), properties.get(PARTITION, ""))
        return identity == (self.origin, self.output_key, self.partition)


_MOST_STEPS = 100


class StepMemory(Generic[T]):
    """Values that the inputs of a step leave for its outputs, handled in the same process."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, str], list[T]] = {}

    def add(self, run_id: str, step_key: str, value: T) -> None:
        self._values.setdefault((run_id, step_key), []).append(value)
        while len(self._values) > _MOST_STEPS:  # failed steps never take theirs
            del self._values[next(iter(self._values))]

    def take(self, run_id: str, step_key: str) -> list[T]:
        """Return the values of a step and remove them: a retry adds its own."""
        return self._values.pop((run_id, step_key), [])


def run_url(run_id: str) -> str:
    """Return the address of a run's page, empty if the UI's address is unknown.

    >>> os.environ["DAGSTER_WEBSERVER_URL"] = "https://dagster.example/prod/"
    >>> run_url("0b1c")
    'https://dagster.example/prod/runs/0b1c'
    >>> del os.environ["DAGSTER_WEBSERVER_URL"]
    """
    host = os.environ.get(WEBSERVER_URL, "").rstrip("/")
    return f"{host}/runs/{run_id}" if host else ""


def op_properties(run: dg.DagsterRun, step_key: str) -> dict[str, str]:
    url = run_url(run.run_id)
    known = {RUN_ID: run.run_id, JOB: run.job_name, STEP_KEY: step_key}
    return {**known, RUN_URL: url} if url else known


def step_of_asset(context: dg.AssetExecutionContext) -> Step:
    """Return the step of an asset; refuses a table that another asset here writes."""
    refuse_second_writer(context.op_execution_context)
    return replace(
        step_of_op(context.op_execution_context),
        asset_key=context.asset_key if len(context.selected_asset_keys) == 1 else None,
        partition_keys=partition_keys_of(context),
    )


def refuse_second_writer(context: Any) -> None:
    """Refuse a table that two assets of the code location write, or of the job without one."""
    graph = context.job_def.asset_layer.asset_graph
    with suppress(CheckError):  # a run by `dg.materialize` has no code location
        graph = context.repository_def.asset_graph
    refuse_shared_tables(graph.assets_defs)


def partition_keys_of(context: dg.AssetExecutionContext | dg.OpExecutionContext) -> tuple[str, ...]:
    if context.has_partition_key:
        return (context.partition_key,)
    return tuple(context.partition_keys) if context.has_partition_key_range else ()


def step_of_output(context: dg.OutputContext) -> Step:
    """Return the step of a value that an IO manager stores."""
    parts = (context.step_key, context.name, context.mapping_key)
    execution = context.step_context
    has_partitions = context.has_asset_partitions
    return Step(
        run=execution.dagster_run,
        instance=execution.instance,
        log=context.log,
        key=context.step_key,
        output_key=".".join(part for part in parts if part),
        asset_key=context.asset_key if context.has_asset_key else None,
        partition_keys=tuple(context.asset_partition_keys) if has_partitions else (),
    )


def step_of_op(context: dg.OpExecutionContext) -> Step:
    """Return the step of an op that is no asset's."""
    key = str(context.node_handle)
    return Step(
        run=context.run,
        instance=context.instance,
        log=context.log,
        key=key,
        output_key=key,
        asset_key=None,
        partition_keys=(),
    )
