"""CompactionBuilder: plan ─▶ tasks ─▶ messages ─▶ one snapshot of kind COMPACT.

    ┌─▶ plan (manifests) ─▶ tasks on the executor ─▶ messages ─▶ commit
    │                                                              │ other commits were in the way
    └── their buckets only, with fitting files kept ◀── deleted ◀──┘

Nothing is visible before the commit. A compaction that is killed leaves orphan files, no more.

Postponed rows get their bucket first, in a snapshot before it:

    bucket-postpone ─▶ a task for each partition replays its files in order ─▶ level 0 of buckets

One task reads all of a partition, for rows of one key must be replayed in the order they came.
Source: `org.apache.paimon.flink.postpone.PostponeBucketCompactSplitSource`.
"""

import datetime as dt
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import compress
from operator import not_
from typing import ClassVar

from msgspec import Struct, field
from msgspec.structs import replace

from paimon_assets.engine.contract import commit_message
from paimon_assets.engine.contract.context import ReadContext
from paimon_assets.engine.contract.executor import (
    ClusteringExecutor,
    ClusterOrder,
    Curve,
    TaskBatch,
    TaskRunner,
)
from paimon_assets.engine.contract.wire import dump, dump_split, load
from paimon_assets.engine.contract.write_tasks import COMPACT_TASK, POSTPONE_TASK, PostponeContext
from paimon_assets.engine.control import compact as planning
from paimon_assets.engine.control.clock import Clock, SystemClock
from paimon_assets.engine.control.commit.abort import deleted_on_definite_failure, discard
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.managers.commit_history import NewUser
from paimon_assets.engine.control.write_planning import rewriting_schema, write_context
from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.errors import CommitConflictError, InvalidInputError
from paimon_assets.engine.spec.metadata.data_file import FileOrigin
from paimon_assets.engine.spec.metadata.snapshot import CommitKind, Snapshot
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.predicate.predicate import Predicate, all_of, bind
from paimon_assets.engine.spec.schema.schema import ROW_KIND
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.spec.words import counted
from paimon_assets.engine.table.read.plan import as_predicate
from paimon_assets.engine.table.write.write_builder import CommitBuilder


def cluster_unit(
    store: FileStore,
    read: ReadContext,
    unit: planning.PlannedUnit,
    order: ClusterOrder,
    executor: TaskRunner,
) -> commit_message.CommitMessage:
    """Write the rows of a unit in order; its files are gone once the message is committed."""
    if not isinstance(executor, ClusteringExecutor):
        text = (
            f"Table '{store.label}' cannot be sorted by {type(executor).__name__}: it has no "
            "`cluster`; use the embedded executor or Spark's."
        )
        raise InvalidInputError(text, kind="cluster-order", table=store.label)
    split = unit.task.split
    schema = rewriting_schema(store.schema, {opt.ROWKIND_FIELD.key: ""})
    written = executor.cluster(read, [split], write_context(store, schema), order)
    after = (file for message in written.messages for file in message.data_increment.new_files)
    return commit_message.CommitMessage(
        partition=split.partition,
        bucket=split.bucket,
        total_buckets=split.total_buckets,
        compact_increment=commit_message.CompactIncrement(
            compact_before=split.data_files,
            compact_after=tuple(file._replace(file_source=FileOrigin.COMPACT) for file in after),
            deleted_index_files=unit.task.index_files,
        ),
    )


logger = logging.getLogger(__name__)

MOST_BUCKETS = 1 << 20
"""Above any number of a bucket; a larger number in a text is a slip."""
_MOST_PLANS = 5
"""How often buckets are planned again after concurrent changes."""
_WAITING_SUFFIX = "-waiting"
"""Ends the commit user of postponed rows, whose snapshot is one of its own."""
_LOST_RACES = "commit-retries"
"""Kind of the conflict that planning again does not mend."""


class CompactionProgress(Value):
    """The progress of a compaction."""

    tasks_done: int
    tasks: int
    bytes_done: int
    """The bytes of the files that are compacted."""
    total_bytes: int
    rows_done: int
    """Physical rows of the files to compact."""
    total_rows: int
    seconds: float
    """Since it began."""

    @property
    def seconds_left(self) -> float | None:
        """Estimate of the seconds left, by the bytes done so far; None before the first task."""
        if not self.bytes_done:
            return None
        return self.seconds * (self.total_bytes - self.bytes_done) / self.bytes_done


class CompactedBucket(Value):
    """The outcome of a compaction in one bucket, or in a partition without buckets."""

    partition: bytes
    bucket: int
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    rows_before: int
    rows_after: int
    """Physical rows that a merge left, without deleted ones."""
    changelog_rows: int = 0
    deletes_kept: int = 0
    """Records that delete among the rows after it: see `sequence.delete-retention`."""

    @staticmethod
    def of(message: commit_message.CommitMessage) -> "CompactedBucket":
        """Count the files and rows of a message."""
        increment = message.compact_increment
        before, after = increment.compact_before, increment.compact_after
        return CompactedBucket(
            partition=message.partition,
            bucket=message.bucket,
            files_before=len(before),
            files_after=len(after),
            bytes_before=sum(file.file_size for file in before),
            bytes_after=sum(file.file_size for file in after),
            rows_before=sum(file.row_count for file in before),
            rows_after=sum(file.row_count for file in after),
            changelog_rows=sum(file.row_count for file in increment.changelog_files),
            deletes_kept=sum(file.delete_row_count or 0 for file in after),
        )


class CompactionOutcome(Value):
    """The outcome of a compaction."""

    snapshot: Snapshot | None
    """None if there was nothing to do."""
    buckets: tuple[CompactedBucket, ...] = ()
    left_out: int = 0
    """Units that were given up: other commits changed their buckets during each compaction."""
    was_already_committed: bool = False
    """This user and identifier had committed before: nothing was done now."""

    @property
    def files_before(self) -> int:
        """Files that went."""
        return sum(bucket.files_before for bucket in self.buckets)

    @property
    def files_after(self) -> int:
        """Files that came."""
        return sum(bucket.files_after for bucket in self.buckets)

    @property
    def bytes_before(self) -> int:
        """Bytes of the files that were replaced."""
        return sum(bucket.bytes_before for bucket in self.buckets)

    @property
    def bytes_after(self) -> int:
        """Bytes of the new files."""
        return sum(bucket.bytes_after for bucket in self.buckets)

    @property
    def rows_before(self) -> int:
        """Physical rows of the files that were replaced."""
        return sum(bucket.rows_before for bucket in self.buckets)

    @property
    def rows_after(self) -> int:
        """Physical rows of the files that came."""
        return sum(bucket.rows_after for bucket in self.buckets)

    @property
    def deletes_kept(self) -> int:
        """Records that delete in the files that came: see `sequence.delete-retention`."""
        return sum(bucket.deletes_kept for bucket in self.buckets)


def kept_text(outcome: CompactionOutcome) -> str:
    """Return how many records that delete a compaction kept, as the end of a sentence."""
    kept = outcome.deletes_kept
    return f"; {counted(kept, 'delete record')} kept for older records" if kept else ""


def bucket_numbers(text: str) -> frozenset[int]:
    """Return the numbers of buckets that a text names.

    >>> sorted(bucket_numbers("0-2, 7"))
    [0, 1, 2, 7]
    """
    numbers: set[int] = set()
    for part in text.split(","):
        first, dash, last = (piece.strip() for piece in part.partition("-"))
        last = last if dash else first
        if not (first.isdecimal() and last.isdecimal() and int(first) <= int(last) < MOST_BUCKETS):
            message = f"'{text}' names no buckets: write numbers and ranges, such as 0-99, 205."
            raise InvalidInputError(message, kind="buckets")
        numbers.update(range(int(first), int(last) + 1))
    return frozenset(numbers)


OnProgress = Callable[[CompactionProgress], None]


class CompactionBuilder(CommitBuilder):
    """A compaction being described; every `with_` returns a new builder.

    >>> table.new_compaction_builder().with_strategy("full").run()  # doctest: +SKIP
    """

    commit_kinds: ClassVar[tuple[CommitKind, ...]] = (CommitKind.COMPACT,)

    strategy: planning.CompactStrategy = planning.CompactStrategy.MINOR
    order: ClusterOrder | None = None
    predicate: Predicate | None = None
    idle: dt.timedelta | None = None
    buckets: frozenset[int] | None = None
    parallelism: int | None = None
    clock: Clock = field(default_factory=SystemClock)

    def with_strategy(self, strategy: planning.CompactStrategy | str) -> "CompactionBuilder":
        """Compact due files (`minor`, the default), everything (`full`), or `sort` it.

        Raises:
            ValueError: There is no such strategy.
        """
        return replace(self, strategy=planning.CompactStrategy(strategy))

    def with_order(self, columns: Sequence[str], curve: Curve | str) -> "CompactionBuilder":
        """Set the order of the strategy `sort`: columns, and the curve through them.

        Raises:
            ValueError: There is no such curve.
        """
        return replace(self, order=ClusterOrder(columns=tuple(columns), curve=Curve(curve)))

    def with_filter(self, predicate: Predicate | str | None) -> "CompactionBuilder":
        """Compact only partitions for which a predicate over partition columns is true.

        Several filters are joined by AND.

        Raises:
            InvalidInputError: Neither a predicate nor a text that is a filter.
        """
        parsed = None if predicate is None else as_predicate(predicate)
        return replace(self, predicate=all_of([self.predicate, parsed]))

    def with_partition_idle_time(self, idle: dt.timedelta | None) -> "CompactionBuilder":
        """Compact only partitions whose newest file is older than this."""
        return replace(self, idle=idle)

    def with_buckets(self, buckets: str | Iterable[int] | None) -> "CompactionBuilder":
        """Compact only buckets of these numbers, such as `0-99, 205`; None compacts all.

        A table of many buckets is compacted in several runs this way. Postponed rows, which have
        no bucket yet, wait for a run without it.

        Raises:
            InvalidInputError: The text names no buckets (kind `buckets`).
        """
        if isinstance(buckets, str):
            buckets = bucket_numbers(buckets)
        return replace(self, buckets=None if buckets is None else frozenset(buckets))

    def with_parallelism(self, parallelism: int | None) -> "CompactionBuilder":
        """Limit the tasks that run at a time; None leaves it to the executor."""
        return replace(self, parallelism=parallelism)

    def plan(self) -> planning.CompactionPlan:
        """Return the units that are due, from metadata alone; nothing is written.

        Raises:
            InvalidInputError: The filter looks at other columns than the partition's.
            UnsupportedFeatureError: The table is not one this engine compacts.
            InvalidInputError: The strategy `sort` does not fit the table or the order
                (`cluster-order`).
        """
        return planning.plan_compaction(self.store.current(), self.scope(), self.clock)

    def run(
        self, executor: TaskRunner | None = None, *, on_progress: OnProgress | None = None
    ) -> CompactionOutcome:
        """Compact, and commit it as one snapshot, once.

        Args:
            executor: Compacts; this process by default.
            on_progress: Called after each task.

        Raises:
            CommitConflictError: Other commits were faster too often; nothing was committed.
            CommitUnknownError: The storage's answer was lost; look before trying again under the
                same user and identifier, which finds the commit if it happened.
            InvalidInputError: As `plan`; or the executor cannot sort (kind `cluster-order`).
            UnsupportedFeatureError: As `plan`.
            NotFoundError: The table was dropped or renamed meanwhile.
        """
        committed = self.find_committed()
        if committed is not None:
            return CompactionOutcome(snapshot=committed, was_already_committed=True)
        user = self.commit_user or NewUser()
        with self.store.ahead():
            named = replace(self, store=self.store.current(), commit_user=user)
            plan = planning.plan_compaction(named.store, named.scope(), self.clock)
        return _Run(builder=named, executor=executor or EmbeddedExecutor()).run(plan, on_progress)

    def scope(self) -> planning.CompactScope:
        """Return the scope, bound to the table's schema; refuses a filter that does not fit it."""
        schema = self.store.schema
        return planning.CompactScope(
            strategy=self.strategy,
            order=self.order,
            predicate=None if self.predicate is None else bind(self.predicate, schema),
            idle_ms=None if self.idle is None else int(self.idle.total_seconds() * 1000),
            bucket_numbers=self.buckets,
        )


class _Run(Struct, kw_only=True):
    """One call of `run`."""

    builder: CompactionBuilder
    executor: TaskRunner
    messages: list[commit_message.CommitMessage] = field(default_factory=list)
    """Not committed yet, but for those of the last commit."""
    placed: list[commit_message.CommitMessage] = field(default_factory=list)
    """Committed before: rows that waited for a bucket."""
    placed_at: Snapshot | None = None
    may_be_committed: bool = False
    """Whether a snapshot may name the files of `messages`; an interrupt does not say."""
    left_out: int = 0

    def run(
        self, plan: planning.CompactionPlan, on_progress: OnProgress | None
    ) -> CompactionOutcome:
        try:
            snapshot = self._until_committed(plan, on_progress)
        except BaseException:
            if not self.may_be_committed:
                self._discard(self.messages)
            raise
        return CompactionOutcome(
            snapshot=snapshot or self.placed_at,
            buckets=tuple(map(CompactedBucket.of, (*self.placed, *self.messages))),
            left_out=self.left_out,
        )

    def _until_committed(
        self, plan: planning.CompactionPlan, on_progress: OnProgress | None
    ) -> Snapshot | None:
        plan, number = self._with_postponed_placed(plan), 1
        while True:
            self._execute(plan, on_progress)
            try:
                return self._commit()
            except CommitConflictError as conflict:
                if conflict.kind == _LOST_RACES or number == _MOST_PLANS:
                    raise
                number += 1
                plan = self._planned_again(conflict, is_last=number == _MOST_PLANS)

    def _with_postponed_placed(self, plan: planning.CompactionPlan) -> planning.CompactionPlan:
        """Give postponed rows their buckets, as a snapshot of its own, and plan on that one."""
        if not plan.waiting:
            return plan
        builder, store = self.builder, self.builder.store
        splits = [unit.task.split for unit in plan.waiting]
        schema = rewriting_schema(store.schema, {opt.POSTPONE_WRITE_FIXED.key: "true"})
        default = opt.POSTPONE_DEFAULT_BUCKETS
        write = write_context(store, schema, plan.snapshot, buckets=default)
        read = replace(plan.context, columns=(ROW_KIND.name, *store.schema.field_names))
        batch = TaskBatch(
            name=POSTPONE_TASK,
            shared=dump(PostponeContext(read=read, write=write)),
            payloads=tuple(map(dump_split, splits)),
            weights=tuple(split.file_bytes for split in splits),
            parallelism=builder.parallelism,
            file_io=store.file_io.spec,
            subject=plan.subject,
        )
        for _, answer in self.executor.map_tasks(batch):
            self.messages += load(commit_message.WriteResult, answer).messages
        self.placed_at = self._commit(user=f"{builder.commit_user}{_WAITING_SUFFIX}")
        self.placed, self.messages, self.may_be_committed = self.messages, [], False
        return builder.plan()

    def _execute(self, plan: planning.CompactionPlan, on_progress: OnProgress | None) -> None:
        """Run the units of a plan; `messages` has the finished ones even if some fail."""
        started, units = time.monotonic(), plan.units
        done, bytes_done, rows_done = 0, 0, 0
        for number, messages in self._results(plan):
            self.messages += messages
            done, bytes_done = done + 1, bytes_done + units[number].task.input_bytes
            rows_done += units[number].row_count
            if on_progress is not None:
                on_progress(
                    CompactionProgress(
                        tasks_done=done,
                        tasks=len(units),
                        bytes_done=bytes_done,
                        total_bytes=sum(unit.task.input_bytes for unit in units),
                        rows_done=rows_done,
                        total_rows=sum(unit.row_count for unit in units),
                        seconds=time.monotonic() - started,
                    )
                )

    def _results(
        self, plan: planning.CompactionPlan
    ) -> Iterator[tuple[int, Sequence[commit_message.CommitMessage]]]:
        """Yield the number of a unit that is done, and its messages."""
        builder, order = self.builder, self.builder.order
        if builder.strategy is planning.CompactStrategy.SORT and order is not None:
            for number, unit in enumerate(plan.units):
                message = cluster_unit(builder.store, plan.context, unit, order, self.executor)
                yield number, [message]
            return
        batch = TaskBatch(
            name=COMPACT_TASK,
            shared=dump(plan.context),
            payloads=tuple(dump(unit.task) for unit in plan.units),
            weights=tuple(unit.task.input_bytes for unit in plan.units),
            parallelism=builder.parallelism,
            file_io=plan.context.file_io,
            subject=plan.subject,
        )
        for number, answer in self.executor.map_tasks(batch):
            yield number, load(commit_message.WriteResult, answer).messages

    def _commit(self, user: str | None = None) -> Snapshot | None:
        if not self.messages:
            return None
        self.may_be_committed = True
        builder = replace(self.builder, commit_user=user or self.builder.commit_user)
        with deleted_on_definite_failure(self._stay_uncommitted):
            return builder.commit_as(CommitKind.COMPACT, self.messages)

    def _stay_uncommitted(self) -> None:
        self.may_be_committed = False

    def _planned_again(
        self, conflict: CommitConflictError, *, is_last: bool
    ) -> planning.CompactionPlan:
        """Discard the messages whose files another commit removed, and plan their buckets again."""
        builder = self.builder
        conflicting = planning.affected_messages(builder.store, self.messages)
        gone = list(compress(self.messages, conflicting))
        self.messages = list(compress(self.messages, map(not_, conflicting)))
        self._discard(gone)
        logger.warning(
            "table %s: other commits changed %d buckets while they were compacted: %s",
            builder.store.label,
            len(gone),
            conflict.message,
        )
        buckets = frozenset((message.partition, message.bucket) for message in gone)
        if is_last:
            self.left_out = len(gone)
            buckets = frozenset()
        done = (file for m in self.messages for file in m.compact_increment.compact_before)
        scope = replace(
            builder.scope(),
            buckets=buckets,
            compacted_files=frozenset(file.file_name for file in done),
        )
        return planning.plan_compaction(builder.store, scope, builder.clock)

    def _discard(self, messages: Sequence[commit_message.CommitMessage]) -> None:
        discard(self.builder.store, messages, "a compaction")
