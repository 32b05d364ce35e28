"""The stored values that a change of schema loses: from statistics, and the files left to read.

    live files of a snapshot, all levels
      → columns whose type, as *this file* holds it, is not the new one; or that become NOT NULL
        → the types alone, then the file's statistics: kept, lost, or undecided
          → undecided files become tasks (`contract.tasks.overflow_task`)

A file is judged by the type it was written with: that is what the next read casts from. A file of
an older type may not become the new one at all, though the step before it did: it is lost, too.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Self

from paimon_assets.engine.codec.rows.data_file_row import value_bounds
from paimon_assets.engine.contract.tasks.overflow_task import (
    OVERFLOW_TASK,
    CastColumn,
    ColumnLosses,
    LostValue,
    OverflowContext,
    OverflowRequest,
)
from paimon_assets.engine.contract.tasks.task_batch import TaskBatch
from paimon_assets.engine.contract.wire import dump
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.scan.file_store_scan import FileStoreScan
from paimon_assets.engine.fileio.base import FileIOSpec
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.metadata.manifest import ManifestEntry
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.options.all_options import CAST_FLOAT_TO_BOOLEAN, READ_BATCH_SIZE
from paimon_assets.engine.spec.predicate.prune import UNKNOWN, Bounds
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types.cast_fit import Loss, loss_within
from paimon_assets.engine.spec.types.cast_rules import same_type, supports_cast
from paimon_assets.engine.spec.types.data_types import DataField

_EXAMPLES = 3
"""The examples of each kind of loss, in each file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLosses:
    """The losses of one column in one file, by its statistics."""

    path: str
    losses: ColumnLosses


@dataclass(slots=True, kw_only=True)
class OverflowPlan:
    """The columns that change, the losses known from statistics, and the tasks for the rest."""

    columns: tuple[DataField, ...] = ()
    """As they will be; others keep all they hold."""
    kept: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """Column → files that keep everything, by types or statistics."""
    kept_rows: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """Column → rows of those files."""
    lost: list[FileLosses] = field(default_factory=list)
    """Files that surely lose something; counts are lower bounds, except of nulls."""
    requests: list[OverflowRequest] = field(default_factory=list)
    """Files to read."""


def overflow_tasks(
    table: str, schema: TableSchema, requests: Sequence[OverflowRequest], file_io: FileIOSpec
) -> TaskBatch:
    """Return the work that looks at values, for any executor."""
    context = OverflowContext(
        table=table,
        options=schema.options,
        batch_rows=schema.typed_options.get(READ_BATCH_SIZE),
        examples=_EXAMPLES,
    )
    return TaskBatch(
        name=OVERFLOW_TASK,
        shared=dump(context),
        payloads=tuple(dump(request) for request in requests),
        weights=tuple(request.file.file_size for request in requests),
        file_io=file_io,
        subject=table,
    )


def plan_overflow(store: FileStore, new: TableSchema, snapshot: Snapshot | None) -> OverflowPlan:
    """Judge the live files of a snapshot by their metadata.

    Cost: metadata of the snapshot, and one schema file for each schema of its files.
    """
    old = store.schemas.schema(new.id - 1)
    plan = OverflowPlan(columns=tuple(_changing(old, new)))
    if snapshot is None or not plan.columns:
        return plan
    forbidding = {c.id for c in plan.columns if _forbids_null(old.by_id[c.id], c)}
    for entry in FileStoreScan(store).live_files(snapshot):
        _judge(_FileView.of(store, entry), new, forbidding, plan)
    return plan


def _changing(old: TableSchema, new: TableSchema) -> Iterable[DataField]:
    """Yield the columns that get another type, or forbid nulls from now on."""
    for column in new.fields:
        before = old.by_id.get(column.id)
        if before is None or column.name in new.partition_keys:
            continue
        if not same_type(before.type, column.type) or _forbids_null(before, column):
            yield column


def _forbids_null(before: DataField, after: DataField) -> bool:
    return before.type.nullable and not after.type.nullable


@dataclass(frozen=True, slots=True, kw_only=True)
class _FileView:
    """One file, as its own schema and its statistics describe it."""

    path: str
    file: DataFileMeta
    schema: TableSchema
    bounds: Mapping[str, Bounds]

    @classmethod
    def of(cls, store: FileStore, entry: ManifestEntry) -> Self:
        """Look at a live file."""
        file = entry.file
        schema = store.schemas.schema(file.schema_id)
        path = store.file_path(entry)
        return cls(path=path, file=file, schema=schema, bounds=value_bounds(schema, file))

    def held(self, column: DataField) -> DataField | None:
        """Return a column as the file has it."""
        held, written = self.schema.by_id.get(column.id), self.file.write_cols
        return None if held is None or (written and held.name not in written) else held


def _judge(
    view: _FileView, new: TableSchema, forbidding: AbstractSet[int], plan: OverflowPlan
) -> None:
    asked = []
    for column in plan.columns:
        forbids = column.id in forbidding
        held = view.held(column)
        losses = _losses(view, held, column, new, forbids=forbids)
        if losses is None and held is not None:
            asked.append(CastColumn(held=held, wanted=column, forbids_null=forbids))
        elif losses is None or not losses.counts:
            plan.kept[column.name] += 1
            plan.kept_rows[column.name] += view.file.row_count
        else:
            plan.lost.append(FileLosses(path=view.path, losses=losses))
    if asked:
        plan.requests.append(OverflowRequest(path=view.path, file=view.file, columns=tuple(asked)))


def _losses(
    view: _FileView, held: DataField | None, column: DataField, new: TableSchema, *, forbids: bool
) -> ColumnLosses | None:
    """Return the definite losses of a file's column, or None if the file must be read."""
    rows = view.file.row_count
    if held is None:
        return _found(column, rows, {Loss.FORBIDDEN: rows if forbids else 0})
    if not supports_cast(
        held.type, column.type, float_to_boolean=new.typed_options.get(CAST_FLOAT_TO_BOOLEAN)
    ):
        example = LostValue(loss=Loss.FAILED, value=f"any {held.type}")
        return _found(column, rows, {Loss.FAILED: rows}, example)
    known = view.bounds.get(held.name, UNKNOWN)
    if forbids and known.null_count is None:
        return None
    nulls = {Loss.FORBIDDEN: known.null_count or 0} if forbids else {}
    if known.all_null:
        return _found(column, rows, nulls)
    loss = loss_within(held.type, column.type, known.minimum, known.maximum)
    if not isinstance(loss, Loss):
        return None if loss is None else _found(column, rows, nulls)
    worst = _worst(held, column, known, loss)
    examples = (LostValue(loss=loss, value=str(value)) for value in worst)
    return _found(column, rows, {**nulls, loss: len(worst)}, *examples)


def _worst(held: DataField, column: DataField, known: Bounds, loss: Loss) -> list[Any]:
    """Return which of the two bounds are lost."""
    ends = {known.minimum, known.maximum}
    return sorted(v for v in ends if loss_within(held.type, column.type, v, v) is loss)


def _found(
    column: DataField, rows: int, counts: Mapping[Loss, int], *examples: LostValue
) -> ColumnLosses:
    return ColumnLosses(
        column=column.name,
        rows=rows,
        counts={loss: count for loss, count in counts.items() if count},
        examples=examples,
    )
