"""A unit of a plan that sorts: rows through the executor, and the message that replaces files."""

from paimon_assets.engine.contract.clustering import ClusterOrder
from paimon_assets.engine.contract.commit_message import CommitMessage, CompactIncrement
from paimon_assets.engine.contract.context import ReadContext, WriteContext
from paimon_assets.engine.contract.executor import ClusteringExecutor
from paimon_assets.engine.contract.tasks.task_batch import TaskRunner
from paimon_assets.engine.control.compact.unit import PlannedUnit
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.write.write_planning import rewriting_schema
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.metadata.data_file import FileOrigin
from paimon_assets.engine.spec.options.all_options import ROWKIND_FIELD


def cluster_unit(
    store: FileStore,
    read: ReadContext,
    unit: PlannedUnit,
    order: ClusterOrder,
    executor: TaskRunner,
) -> CommitMessage:
    """Write the rows of a unit in order; its files are gone once the message is committed.

    Raises:
        InvalidInputError: Kind `cluster-order`; the executor runs tasks only.
    """
    if not isinstance(executor, ClusteringExecutor):
        raise InvalidInputError(
            f"Table '{store.label}' cannot be sorted by {type(executor).__name__}: it has no "
            "`cluster`; use the embedded executor or Spark's.",
            kind="cluster-order",
            details={"table": store.label},
        )
    split = unit.task.split
    write = WriteContext(
        table=store.label,
        table_path=store.table_path,
        schema=rewriting_schema(store.schema, {ROWKIND_FIELD.key: ""}),
        file_io=store.file_io.spec,
    )
    written = executor.cluster(read, [split], write, order)
    after = (file for message in written.messages for file in message.data_increment.new_files)
    return CommitMessage(
        partition=split.partition,
        bucket=split.bucket,
        total_buckets=split.total_buckets,
        compact_increment=CompactIncrement(
            compact_before=split.data_files,
            compact_after=tuple(file._replace(file_source=FileOrigin.COMPACT) for file in after),
            deleted_index_files=unit.task.index_files,
        ),
    )
