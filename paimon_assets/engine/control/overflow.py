"""The stored values that a change of schema loses: from statistics, and the files left to read.

    live files of a snapshot, all levels
      → columns whose type, as *this file* holds it, is not the new one; or that become NOT NULL
        → the types alone, then the file's statistics: kept, lost, or undecided
          → undecided files become tasks (`contract.report_tasks`)

A file is judged by the type it was written with, from which the next read casts. A file of an older
type may not become the new one at all, though the step before it did: it is lost, too.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from paimon_assets.engine.codec.rows.data_file_row import value_bounds
from paimon_assets.engine.contract import report_tasks as tasks
from paimon_assets.engine.contract.executor import TaskBatch
from paimon_assets.engine.contract.wire import dump
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.scan import segment_scan as segs
from paimon_assets.engine.fileio.base import FileIOSpec
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.options.all_options import CAST_FLOAT_TO_BOOLEAN, READ_BATCH_SIZE
from paimon_assets.engine.spec.predicate.predicate import Predicate
from paimon_assets.engine.spec.predicate.prune import UNKNOWN, Bounds
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types.cast_fit import Loss, loss_within
from paimon_assets.engine.spec.types.cast_rules import same_type, supports_cast
from paimon_assets.engine.spec.types.data_types import DataField
from paimon_assets.engine.spec.values import Value

_EXAMPLES = 3


class FileLosses(Value):
    """The losses of one column in one file, by its statistics."""

    path: str
    losses: tasks.ColumnLosses


class OverflowPlan(Struct, kw_only=True):
    """The columns that change, the losses known from statistics, and the tasks for the rest."""

    columns: tuple[DataField, ...] = ()
    """As they will be; other columns keep all values."""
    kept: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """Column → files that keep everything, by types or statistics."""
    kept_rows: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """Column → rows of those files."""
    lost: list[FileLosses] = field(default_factory=list)
    """Files with definite losses; counts are lower bounds, except of nulls."""
    requests: list[tasks.OverflowRequest] = field(default_factory=list)


def overflow_tasks(
    table: str, schema: TableSchema, requests: Sequence[tasks.OverflowRequest], file_io: FileIOSpec
) -> TaskBatch:
    """Return the work that looks at values, for any executor."""
    context = tasks.OverflowContext(
        table=table,
        options=schema.options,
        batch_rows=schema.typed_options.get(READ_BATCH_SIZE),
        examples=_EXAMPLES,
    )
    return TaskBatch(
        name=tasks.OVERFLOW_TASK,
        shared=dump(context),
        payloads=tuple(dump(request) for request in requests),
        weights=tuple(request.file.file_size for request in requests),
        file_io=file_io,
        subject=table,
    )


def plan_overflow(
    store: FileStore,
    new: TableSchema,
    snapshot: Snapshot | None,
    predicate: Predicate | None = None,
) -> OverflowPlan:
    """Judge the live files of a snapshot, or those that may hold some rows, by their metadata."""
    old = store.schemas.schema(new.id - 1)
    before = {column.id: column.type for column in old.fields}
    forbidding = {
        column.id
        for column in new.fields
        if column.id in before and before[column.id].nullable and not column.type.nullable
    }
    plan = OverflowPlan(
        columns=tuple(
            column
            for column in new.fields
            if column.id in before
            and column.name not in new.partition_keys
            and (column.id in forbidding or not same_type(before[column.id], column.type))
        )
    )
    if snapshot is None or not plan.columns:
        return plan
    casts_floats = new.typed_options.get(CAST_FLOAT_TO_BOOLEAN)
    texts = segs.text_segments(store, snapshot, predicate)
    text_options = {segment.name_prefix: segs.how_written(store, segment) for segment in texts}
    for entry in segs.readable_files(store, snapshot, predicate):
        file, path, undecided = entry.file, store.file_path(entry), []
        schema = store.schemas.schema(file.schema_id)
        bounds = value_bounds(schema, file)
        for column in plan.columns:
            forbids, held = column.id in forbidding, schema.by_id.get(column.id)
            losses: tasks.ColumnLosses | None
            if held is None or (file.write_cols and held.name not in file.write_cols):
                losses = _column_losses(column, file, {Loss.FORBIDDEN: file.row_count * forbids})
            elif not supports_cast(held.type, column.type, float_to_boolean=casts_floats):
                example = tasks.LostValue(loss=Loss.FAILED, value=f"any {held.type}")
                losses = _column_losses(column, file, {Loss.FAILED: file.row_count}, example)
            else:
                known = bounds.get(held.name, UNKNOWN)
                losses = _losses_within(known, held, column, file, forbids=forbids)
                if losses is None:
                    undecided.append(
                        tasks.CastColumn(held=held, wanted=column, forbids_null=forbids)
                    )
                    continue
            if losses.counts:
                plan.lost.append(FileLosses(path=path, losses=losses))
            else:
                plan.kept[column.name] += 1
                plan.kept_rows[column.name] += file.row_count
        if undecided:
            plan.requests.append(
                tasks.OverflowRequest(
                    path=path,
                    file=file,
                    columns=tuple(undecided),
                    text_options=text_options.get(file.file_name.rpartition("-")[0]),
                )
            )
    return plan


def _losses_within(
    known: Bounds, held: DataField, column: DataField, file: DataFileMeta, *, forbids: bool
) -> tasks.ColumnLosses | None:
    """Return the definite losses of a file's column, or None if the file must be read."""
    if forbids and known.null_count is None:
        return None
    nulls = {Loss.FORBIDDEN: known.null_count or 0} if forbids else {}
    if known.all_null:
        return _column_losses(column, file, nulls)
    loss = loss_within(held.type, column.type, known.minimum, known.maximum)
    if not isinstance(loss, Loss):
        return None if loss is None else _column_losses(column, file, nulls)
    ends = sorted({known.minimum, known.maximum})
    lost = [end for end in ends if loss_within(held.type, column.type, end, end) is loss]
    examples = (tasks.LostValue(loss=loss, value=str(value)) for value in lost)
    return _column_losses(column, file, {**nulls, loss: len(lost)}, *examples)


def _column_losses(
    column: DataField, file: DataFileMeta, counts: Mapping[Loss, int], *examples: tasks.LostValue
) -> tasks.ColumnLosses:
    return tasks.ColumnLosses(
        column=column.name,
        rows=file.row_count,
        counts={loss: count for loss, count in counts.items() if count},
        examples=examples,
    )
