"""Rows of a table with postponed buckets that wait: who they are, and how they get their bucket.

    bucket-postpone ─▶ a task for each partition replays its files in order ─▶ level 0 of buckets

One task reads all of a partition, for rows of one key must be replayed in the order they came.
Source: `org.apache.paimon.flink.postpone.PostponeBucketCompactSplitSource`.
"""

from dataclasses import replace

from paimon_assets.engine.contract.context import WriteContext
from paimon_assets.engine.contract.tasks.postpone_task import POSTPONE_TASK, PostponeContext
from paimon_assets.engine.contract.tasks.task_batch import TaskBatch
from paimon_assets.engine.contract.wire.wire import dump_split
from paimon_assets.engine.contract.wire.wire_values import dump
from paimon_assets.engine.control.compact.plan import CompactionPlan
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.write.write_planning import rewriting_schema, writer_state
from paimon_assets.engine.spec.options.write_options import (
    POSTPONE_DEFAULT_BUCKETS,
    POSTPONE_WRITE_FIXED,
)
from paimon_assets.engine.spec.schema.special_fields import ROW_KIND


def waiting_tasks(store: FileStore, plan: CompactionPlan, parallelism: int | None) -> TaskBatch:
    """Return the tasks that give the waiting rows of a plan their buckets."""
    splits = [unit.task.split for unit in plan.waiting]
    read = replace(plan.context, columns=(ROW_KIND.name, *store.schema.field_names))
    context = PostponeContext(read=read, write=_write_context(store, plan))
    return TaskBatch(
        name=POSTPONE_TASK,
        shared=dump(context),
        payloads=tuple(map(dump_split, splits)),
        weights=tuple(split.file_bytes for split in splits),
        parallelism=parallelism,
        file_io=store.file_io.spec,
        subject=plan.subject,
    )


def _write_context(store: FileStore, plan: CompactionPlan) -> WriteContext:
    """Return how rows are written that get their bucket at once."""
    schema = rewriting_schema(store.schema, {POSTPONE_WRITE_FIXED.key: "true"})
    state = writer_state(store, plan.snapshot)
    return WriteContext(
        table=store.label,
        table_path=store.table_path,
        schema=schema,
        bucket_states=state.bucket_states,
        partition_buckets=state.differing_from(schema.typed_options.get(POSTPONE_DEFAULT_BUCKETS)),
        file_io=store.file_io.spec,
    )
