"""Which run wrote a snapshot.

The commit user makes a retried step find its own commit, also where another run resumes the one
that died; the properties lead from a snapshot back to its run.
"""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass

import dagster as dg

from paimon_assets.assets.partitions import label_of

RUN_ID = "dagster.run-id"
ORIGIN = "dagster.resumed-run-id"
"""The run whose step was finished, where that is another than the one that finished it."""
RUN_URL = "dagster.run_url"
"""Where the run's page is, if `DAGSTER_WEBSERVER_URL` says where the UI is."""
JOB = "dagster.job"
STEP_KEY = "dagster.step-key"
ASSET_KEY = "dagster.asset-key"
PARTITION = "dagster.partition"
CODE_VERSION = "dagster.code-version"

WEBSERVER_URL = "DAGSTER_WEBSERVER_URL"
"""Environment variable: the address of the UI, as people open it."""

_PARENT_RUN = "dagster/parent_run_id"
_RESUMES = "dagster/is_resume_retry"
_RESUMES_ASSETS = "dagster/is_asset_resume_retry"
_RETRY_NUMBER = "dagster/retry_number"


@dataclass(frozen=True, kw_only=True)
class StepIdentity:
    """One output of one step of one run; every retry of the step has the same origin."""

    run_id: str
    origin: str
    """Id of the run that the run resumes, directly or over others; its own if it resumes none."""
    job: str
    step_key: str
    asset_key: str
    """Empty for what is no asset."""
    partition: str
    """The partition key, first...last of several, empty without partitions."""

    @property
    def commit_user(self) -> str:
        """The commit user: one per origin, step and partition, the same for every retry."""
        return f"dagster:{self.origin}:{self.step_key}:{self.partition}"

    @property
    def batch_name(self) -> str:
        """The name of its batches while they are judged: one per run, step and partition."""
        what = f"{self.step_key}:{self.partition}".encode()
        return f"{self.run_id[:8]}_{hashlib.sha256(what).hexdigest()[:8]}"

    def properties(self, code_version: str | None) -> Mapping[str, str]:
        """Return what a snapshot says of its run; parts that do not exist are left out."""
        properties = {
            RUN_ID: self.run_id,
            RUN_URL: run_url(self.run_id),
            ORIGIN: self.origin if self.origin != self.run_id else "",
            JOB: self.job,
            STEP_KEY: self.step_key,
            ASSET_KEY: self.asset_key,
            PARTITION: self.partition,
            CODE_VERSION: code_version or "",
        }
        return {key: value for key, value in properties.items() if value}

    def made(self, properties: Mapping[str, str]) -> bool:
        """Whether the snapshot of these properties was made by a try of this very step."""
        origin = properties.get(ORIGIN, properties.get(RUN_ID))
        found = (origin, properties.get(STEP_KEY), properties.get(PARTITION, ""))
        return found == (self.origin, self.step_key, self.partition)


def run_url(run_id: str) -> str:
    """Return the address of a run's page, empty if nothing says where the UI is.

    >>> os.environ["DAGSTER_WEBSERVER_URL"] = "https://dagster.example/prod/"
    >>> run_url("0b1c")
    'https://dagster.example/prod/runs/0b1c'
    >>> del os.environ["DAGSTER_WEBSERVER_URL"]
    """
    host = os.environ.get(WEBSERVER_URL, "").rstrip("/")
    return f"{host}/runs/{run_id}" if host else ""


def op_properties(run: dg.DagsterRun, step_key: str) -> dict[str, str]:
    """Return what a snapshot says of the run of an op that is no asset's."""
    url = run_url(run.run_id)
    known = {RUN_ID: run.run_id, JOB: run.job_name, STEP_KEY: step_key}
    return {**known, RUN_URL: url} if url else known


def step_identity(context: dg.AssetExecutionContext) -> StepIdentity:
    """Return the identity of an asset's step."""
    step_key = step_key_of(context)
    keys = context.selected_asset_keys
    return StepIdentity(
        run_id=context.run.run_id,
        origin=origin_of(context.instance, context.run, step_key),
        job=context.run.job_name,
        step_key=step_key,
        asset_key=context.asset_key.to_user_string() if len(keys) == 1 else "",
        partition=label_of(partition_keys_of(context)),
    )


def output_identity(context: dg.OutputContext) -> StepIdentity:
    """Return the identity of what an IO manager is handed."""
    parts = (context.step_key, context.name, context.mapping_key)
    step = context.step_context
    return StepIdentity(
        run_id=context.run_id,
        origin=origin_of(step.instance, step.dagster_run, context.step_key),
        job=context.job_name,
        step_key=".".join(part for part in parts if part),
        asset_key=context.asset_key.to_user_string() if context.has_asset_key else "",
        partition=label_of(output_partition_keys(context)),
    )


def origin_of(instance: dg.DagsterInstance, run: dg.DagsterRun, step_key: str) -> str:
    """Return the id of the run that a run resumes in a step, its own if it writes anew.

    A run that goes on from a failure resumes its parent, and so does an automatic retry, whatever
    its strategy. One that executes some steps of its parent again resumes those that did not
    succeed there. One that executes all steps again, because a person said so, writes anew.

    Cost:
        Nothing for a run without a parent; else a look at each ancestor.
    """
    seen = {run.run_id}
    while True:
        parent_id = run.parent_run_id or run.tags.get(_PARENT_RUN)
        if parent_id is None or parent_id in seen or not _resumes(instance, run, step_key):
            return run.run_id
        seen.add(parent_id)
        parent = instance.get_run_by_id(parent_id)
        if parent is None:
            return parent_id
        run = parent


def _resumes(instance: dg.DagsterInstance, run: dg.DagsterRun, step_key: str) -> bool:
    """Whether a step goes on with what the run's parent began."""
    if run.tags.get(_RESUMES) == "true" or _RETRY_NUMBER in run.tags:
        return True
    if run.tags.get(_RESUMES_ASSETS) != "true" and run.step_keys_to_execute is None:
        return False
    parent_id = run.parent_run_id or run.tags[_PARENT_RUN]
    found = instance.get_run_step_stats(parent_id, [step_key])
    return all(item.status is None or item.status.value != "SUCCESS" for item in found)


def partition_keys_of(context: dg.AssetExecutionContext) -> tuple[str, ...]:
    """Return the partition keys the run is about, none for an asset without partitions."""
    if context.has_partition_key:
        return (context.partition_key,)
    return tuple(context.partition_keys) if context.has_partition_key_range else ()


def output_partition_keys(context: dg.OutputContext) -> tuple[str, ...]:
    """Return the partition keys of what an IO manager is handed, none without partitions."""
    return tuple(context.asset_partition_keys) if context.has_asset_partitions else ()


def step_key_of(context: dg.AssetExecutionContext) -> str:
    """Return the step's key inside its run; every retry of the step has the same."""
    return str(context.op_execution_context.node_handle)
