"""Which run wrote a snapshot.

The commit user makes a retried step find its own commit; the properties lead from a snapshot back
to its run.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import dagster as dg

from paimon_assets.assets.partitions import label_of

RUN_ID = "dagster.run-id"
JOB = "dagster.job"
STEP_KEY = "dagster.step-key"
ASSET_KEY = "dagster.asset-key"
PARTITION = "dagster.partition"
CODE_VERSION = "dagster.code-version"


@dataclass(frozen=True, kw_only=True)
class StepIdentity:
    """One output of one step of one run; every retry of the step has the same."""

    run_id: str
    job: str
    step_key: str
    asset_key: str
    """Empty for what is no asset."""
    partition: str
    """The partition key, first...last of several, empty without partitions."""

    @property
    def commit_user(self) -> str:
        """The commit user: one per run, step and partition, the same for every retry."""
        return f"dagster:{self.run_id}:{self.step_key}:{self.partition}"

    @property
    def batch_name(self) -> str:
        """The name of its batches while they are judged: one per run, step and partition."""
        what = f"{self.step_key}:{self.partition}".encode()
        return f"{self.run_id[:8]}_{hashlib.sha256(what).hexdigest()[:8]}"

    def properties(self, code_version: str | None) -> Mapping[str, str]:
        """Return what a snapshot says of its run; parts that do not exist are left out."""
        properties = {
            RUN_ID: self.run_id,
            JOB: self.job,
            STEP_KEY: self.step_key,
            ASSET_KEY: self.asset_key,
            PARTITION: self.partition,
            CODE_VERSION: code_version or "",
        }
        return {key: value for key, value in properties.items() if value}


def step_identity(context: dg.AssetExecutionContext) -> StepIdentity:
    """Return the identity of an asset's step."""
    return StepIdentity(
        run_id=context.run.run_id,
        job=context.run.job_name,
        step_key=step_key_of(context),
        asset_key=context.asset_key.to_user_string(),
        partition=label_of(partition_keys_of(context)),
    )


def output_identity(context: dg.OutputContext) -> StepIdentity:
    """Return the identity of what an IO manager is handed."""
    parts = (context.step_key, context.name, context.mapping_key)
    return StepIdentity(
        run_id=context.run_id,
        job=context.job_name,
        step_key=".".join(part for part in parts if part),
        asset_key=context.asset_key.to_user_string() if context.has_asset_key else "",
        partition=label_of(output_partition_keys(context)),
    )


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


def commit_user_of(context: dg.AssetExecutionContext) -> str:
    """Return the commit user of an asset's step; see `StepIdentity`."""
    return step_identity(context).commit_user


def snapshot_properties(
    context: dg.AssetExecutionContext, code_version: str | None
) -> Mapping[str, str]:
    """Return what a snapshot says of its run; parts that do not exist are left out."""
    return step_identity(context).properties(code_version)


def is_of_this_step(properties: Mapping[str, str], context: dg.AssetExecutionContext) -> bool:
    """Whether a snapshot was made by an earlier try of this very step."""
    mine = snapshot_properties(context, None)
    return all(properties.get(key) == mine.get(key) for key in (RUN_ID, STEP_KEY, PARTITION))
