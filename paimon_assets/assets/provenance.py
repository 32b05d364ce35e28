"""Which run wrote a snapshot.

The commit user makes a retried step find its own commit; the properties lead from a snapshot back
to its run.
"""

from collections.abc import Mapping

import dagster as dg

RUN_ID = "dagster.run-id"
JOB = "dagster.job"
STEP_KEY = "dagster.step-key"
ASSET_KEY = "dagster.asset-key"
PARTITION = "dagster.partition"
CODE_VERSION = "dagster.code-version"


def step_key_of(context: dg.AssetExecutionContext) -> str:
    """Return the step's key inside its run; every retry of the step has the same."""
    return str(context.op_execution_context.node_handle)


def partition_of(context: dg.AssetExecutionContext) -> str:
    """Return the partition key of the run, empty if there is none."""
    return context.partition_key if context.has_partition_key else ""


def commit_user_of(context: dg.AssetExecutionContext) -> str:
    """Return the commit user: one per run, step and partition, the same for every retry."""
    return f"dagster:{context.run.run_id}:{step_key_of(context)}:{partition_of(context)}"


def snapshot_properties(
    context: dg.AssetExecutionContext, code_version: str | None
) -> Mapping[str, str]:
    """Return what a snapshot says of its run; parts that do not exist are left out."""
    properties = {
        RUN_ID: context.run.run_id,
        JOB: context.run.job_name,
        STEP_KEY: step_key_of(context),
        ASSET_KEY: context.asset_key.to_user_string(),
        PARTITION: partition_of(context),
        CODE_VERSION: code_version or "",
    }
    return {key: value for key, value in properties.items() if value}


def is_of_this_step(properties: Mapping[str, str], context: dg.AssetExecutionContext) -> bool:
    """Whether a snapshot was made by an earlier try of this very step."""
    mine = snapshot_properties(context, None)
    return all(properties.get(key) == mine.get(key) for key in (RUN_ID, STEP_KEY, PARTITION))
