"""A change of schema, planned before it is made: its differences, the stored values it loses.

    changes ─▶ the next schema, or a refusal ─▶ diff
                     └─▶ columns that are cast ─▶ statistics ─▶ files to read ─▶ report
                                                                                  │
                        one new schema ◀── nothing is lost, or loss is allowed ◀──┘

The check covers the newest snapshot: of a primary-key table all rows of all files, also those
that a newer row hides, because a read casts them too. Older snapshots and tags are not checked.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from msgspec import Struct, field

from paimon_assets.engine import errors
from paimon_assets.engine.codec.arrow.arrow_types import from_arrow_type
from paimon_assets.engine.codec.rest.structure import changes_of
from paimon_assets.engine.contract import report_tasks
from paimon_assets.engine.contract.executor import Executor, TaskBatch
from paimon_assets.engine.contract.wire import load
from paimon_assets.engine.control.catalog.catalog import refuse_unreadable
from paimon_assets.engine.control.clock import SystemClock
from paimon_assets.engine.control.features import check_readable
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.listeners import follow_change
from paimon_assets.engine.control.overflow import overflow_tasks, plan_overflow
from paimon_assets.engine.control.segments import check_own_folders
from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.evolution.schema_change import OnOverflow, SchemaChange
from paimon_assets.engine.spec.evolution.schema_diff import SchemaDifference, schema_diff
from paimon_assets.engine.spec.evolution.schema_evolution import apply_changes
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.predicate.predicate import Predicate, bind
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types.cast_fit import Loss, keeps_all
from paimon_assets.engine.spec.types.cast_rules import same_type, supports_cast
from paimon_assets.engine.spec.types.data_types import AtomicType, DataField, DataType
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.spec.words import counted

_EXAMPLES = 5
"""The examples of each kind of loss of one column."""
_MOST_TRIES = 10
_WORDS = {
    Loss.OVERFLOW: "out of range",
    Loss.TRUNCATED: "truncated",
    Loss.NULLED: "made null",
    Loss.FAILED: "unreadable",
    Loss.FORBIDDEN: "null",
}

ExecutorChoice = Executor[Any] | Callable[[], Executor[Any]] | None
"""Reads the files that statistics do not decide; a function is called only if there are any."""


class LostExample(Value):
    """A stored value that would be lost, and where it is."""

    path: str
    lost: report_tasks.LostValue


class ColumnReport(Struct, kw_only=True):
    """The effect of a change on one column's stored values."""

    column: str
    field_id: int
    before: str
    after: str
    cast: str
    """`implicit`, `explicit`, or `none` where only nulls become forbidden."""
    files_kept: int = 0
    """Files that keep everything, by types and statistics alone."""
    files_lost: int = 0
    """Files that definitely lose something, by types and statistics alone; their counts are lower
    bounds."""
    files_read: int = 0
    """Files whose values were looked at."""
    rows: int = 0
    """Rows of all files."""
    counts: dict[Loss, int] = field(default_factory=dict)
    unjudged: int = 0
    """Rows not looked at, after too many that cannot be cast."""
    examples: list[LostExample] = field(default_factory=list)

    @property
    def lost(self) -> int:
        """How many values are known to be lost."""
        return sum(self.counts.values())

    @property
    def is_exact(self) -> bool:
        """Whether no more are lost than counted."""
        return not self.files_lost and not self.unjudged

    def add(self, path: str, losses: report_tasks.ColumnLosses) -> None:
        """Add the losses of one file."""
        self.rows += losses.rows
        self.unjudged += losses.unjudged
        for loss, count in losses.counts.items():
            self.counts[loss] = self.counts.get(loss, 0) + count
        for example in losses.examples:
            shown = sum(1 for known in self.examples if known.lost.loss is example.loss)
            if shown < _EXAMPLES:
                self.examples.append(LostExample(path=path, lost=example))

    def __str__(self) -> str:
        text = f"column '{self.column}' {self.before} → {self.after}: "
        of = f"of {counted(self.rows, 'value')}"
        if not self.lost:
            return f"{text}no loss, {of}"
        kinds = ", ".join(f"{count:,} {_WORDS[loss]}" for loss, count in self.counts.items())
        return f"{text}{'' if self.is_exact else 'at least '}{kinds}, {of}"


class SchemaChangePlan(Value):
    """A change of schema that was judged, but not made."""

    base: TableSchema
    """The schema it was judged on."""
    new: TableSchema
    """The schema that would follow."""
    changes: tuple[SchemaChange, ...]
    snapshot_id: int
    """The snapshot whose files were judged; 0 if nothing was committed yet."""
    columns: tuple[ColumnReport, ...] = ()
    """Columns whose stored values are cast, or must not be null any more."""

    @property
    def differences(self) -> tuple[SchemaDifference, ...]:
        """The differences between the schemas; empty if nothing changes."""
        return schema_diff(self.base, self.new)

    @property
    def loses(self) -> bool:
        """Whether some stored value would be lost."""
        return any(column.lost for column in self.columns)


def evolve(store: FileStore, changes: Sequence[SchemaChange]) -> TableSchema:
    """Return the schema that changes would make; writes nothing."""
    check_own_folders(store, changes)
    new = store.schemas.evolve(changes, time_millis=SystemClock().now_millis())
    try:
        check_readable(store.label, store.schemas.schema(new.id - 1))
    except errors.UnsupportedFeatureError:
        return new  # another engine made it so, and may need the change
    catalog = store.environment and store.environment.catalog
    refuse_unreadable(store.label, new, catalog, verb="altered")
    return new


def plan_schema_changes(
    store: FileStore,
    changes: Sequence[SchemaChange | Mapping[str, Any]],
    *,
    where: Predicate | None = None,
    executor: ExecutorChoice = None,
) -> SchemaChangePlan:
    """Return the effect of changes, in the order to apply them; writes nothing.

    With `where`, the effect on files that may hold rows that pass.

    Cost:
        Metadata of the newest snapshot; of the undecided files the columns that are cast.
    """
    made = changes_of(changes)
    new = evolve(store, made)
    base = store.schemas.schema(new.id - 1)
    snapshot = store.snapshots.latest()
    predicate = None if where is None else bind(where, base)
    known = plan_overflow(store.with_schema(base), new, snapshot, predicate)
    reports: dict[str, ColumnReport] = {}
    for column in known.columns:
        report = reports[column.name] = _report_of(column, base.by_id[column.id].type)
        report.files_kept, report.rows = known.kept[column.name], known.kept_rows[column.name]
    for loss in known.lost:
        reports[loss.losses.column].files_lost += 1
        reports[loss.losses.column].add(loss.path, loss.losses)
    tasks = overflow_tasks(store.label, new, known.requests, store.file_io.spec)
    _read_losses(reports, known.requests, tasks, executor)
    return SchemaChangePlan(
        base=base,
        new=new,
        changes=tuple(made),
        snapshot_id=0 if snapshot is None else snapshot.id,
        columns=tuple(reports.values()),
    )


def _read_losses(
    reports: Mapping[str, ColumnReport],
    requests: Sequence[report_tasks.OverflowRequest],
    tasks: TaskBatch,
    executor: ExecutorChoice,
) -> None:
    """Read files on the executor, and add their losses to the reports, by column."""
    if not requests:
        return
    if executor is None:
        executor = EmbeddedExecutor()
    elif callable(executor):
        executor = executor()
    for number, result in executor.map_tasks(tasks):
        for losses in load(report_tasks.OverflowResult, result).columns:
            reports[losses.column].files_read += 1
            reports[losses.column].add(requests[number].path, losses)


def _report_of(column: DataField, before: DataType) -> ColumnReport:
    cast = "implicit" if supports_cast(before, column.type, explicit=False) else "explicit"
    return ColumnReport(
        column=column.name,
        field_id=column.id,
        before=str(before),
        after=str(column.type),
        cast="none" if same_type(before, column.type) else cast,
    )


def change_schema(
    store: FileStore,
    changes: Sequence[SchemaChange | Mapping[str, Any]],
    *,
    on_overflow: OnOverflow = OnOverflow.REFUSE,
    executor: ExecutorChoice = None,
    judged: Callable[[SchemaChangePlan], None] | None = None,
) -> SchemaChangePlan:
    """Judge changes and make them: one schema, or none (`Table.alter_checked`).

    Concurrent commits between the check and the publish are checked again. A writer that was opened
    before the change and commits after it is refused, if the new type would change its values.
    """
    for _ in range(_MOST_TRIES):
        plan = plan_schema_changes(store, changes, executor=executor)
        if judged is not None:
            judged(plan)
        if on_overflow is OnOverflow.REFUSE:
            refuse_losses(store.label, plan)
        newest = store.snapshots.latest()
        if plan.columns and newest is not None and newest.id != plan.snapshot_id:
            continue
        try:
            time_millis = plan.new.time_millis
            store.schemas.commit_changes(plan.changes, time_millis=time_millis, base=plan.base)
            follow_change(store.with_schema(plan.new))
        except errors.CommitConflictError:
            continue
        return plan
    message = (
        f"Table '{store.label}' was written or changed by other writers {_MOST_TRIES} times while "
        "the change was checked; run it when fewer writers are at work."
    )
    raise errors.CommitConflictError(message, kind="schema-conflict", table=store.label)


def change_made_since(
    store: FileStore, changes: Sequence[SchemaChange], since_millis: int
) -> TableSchema | None:
    """Return the schema that these changes made of its predecessor, if there is one.

    A retry after a failure finds out by it whether the change was made. Schemas published
    before `since_millis` are not looked at.
    """
    for number in reversed(store.schemas.list_ids()[1:]):
        schema = store.schemas.schema(number)
        if schema.time_millis < since_millis:
            return None
        try:
            expected = apply_changes(
                store.schemas.schema(number - 1),
                changes,
                has_snapshots=False,
                time_millis=schema.time_millis,
            )
        except errors.PaimonError:
            continue
        if expected == schema:
            return schema
    return None


def refuse_losses(table: str, plan: SchemaChangePlan, *, show_values: bool = True) -> None:
    """Refuse a plan that loses stored values; `show_values` puts one of them into the message."""
    lossy = [column for column in plan.columns if column.lost]
    if not lossy:
        return
    shown = ""
    for example in [item for column in lossy for item in column.examples][:show_values]:
        lost, file = example.lost, example.path.rpartition("/")[2]
        becomes = "" if lost.becomes is None else f" (to {lost.becomes})"
        value = "a null" if lost.value is None else f"'{lost.value}'"
        shown = f" For example {value} in '{file}' {lost.loss.value}{becomes}."
    raise errors.InvalidInputError(
        f"Table '{table}' stays at schema {plan.base.id}: {'; '.join(map(str, lossy))}.{shown} "
        "Choose a type that holds the values, mend them, or allow the loss (on_overflow: allow; on "
        "the command line --allow-loss).",
        kind="schema-overflow",
        table=table,
        column=lossy[0].column,
        before=lossy[0].before,
        after=lossy[0].after,
        lost=lossy[0].lost,
    )


class PendingFiles(Value):
    """Parquet or ORC files whose rows will be written."""

    file_io: FileIO
    paths: Sequence[str]
    sizes: Sequence[int]
    """Bytes of each."""
    schema: pa.Schema
    """The schema of all files."""


def judge_pending_files(
    table: str, schema: TableSchema, waiting: PendingFiles, *, executor: ExecutorChoice = None
) -> tuple[ColumnReport, ...]:
    """Return the losses of each column that the files hold in another type.

    Cost:
        The columns of other types, once; none where the table's type keeps all values.
    """
    reports: dict[str, ColumnReport] = {}
    asked: list[report_tasks.CastColumn] = []
    for wanted in schema.fields:
        if wanted.name not in waiting.schema.names:
            continue
        file_type = from_arrow_type(waiting.schema.field(wanted.name).type)
        if same_type(file_type, wanted.type):
            continue
        held = DataField(id=wanted.id, name=wanted.name, type=file_type)
        report = reports[wanted.name] = _report_of(wanted, held.type)
        if not isinstance(held.type, AtomicType) or not supports_cast(held.type, wanted.type):
            report.files_lost = len(waiting.paths)
            lost = report_tasks.LostValue(loss=Loss.FAILED, value=f"any {held.type}")
            losses = report_tasks.ColumnLosses(
                column=wanted.name, rows=0, counts={Loss.FAILED: 1}, examples=(lost,)
            )
            report.add(waiting.paths[0], losses)
        elif keeps_all(held.type, wanted.type):
            report.files_kept = len(waiting.paths)
        else:
            asked.append(report_tasks.CastColumn(held=held, wanted=wanted))
    requests = [
        report_tasks.OverflowRequest(
            path=path,
            file=DataFileMeta(
                file_name=path.rpartition("/")[2], file_size=size, row_count=0, schema_id=0
            ),
            columns=tuple(asked),
        )
        for path, size in zip(waiting.paths, waiting.sizes, strict=True)
        if asked
    ]
    tasks = overflow_tasks(table, schema, requests, waiting.file_io.spec)
    _read_losses(reports, requests, tasks, executor)
    return tuple(reports.values())
