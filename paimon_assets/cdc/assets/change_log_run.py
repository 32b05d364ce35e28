"""One run that applies a change log to its table.

    folder ─▶ new files ─▶ images in log order ─▶ new columns ─▶ fold ─▶ one snapshot + ledger
                                                                  │ ▲
                             keys with values that did not arrive ▼ │ stored rows
                                                                  table

A value that did not arrive keeps the stored one, which is looked up in the snapshot that the commit
goes on top of: if another commit changed rows meanwhile, they are looked up again. The ledger holds
how far the log is applied (`log_positions.LogHead`), so files may come late and repeated.
"""

import datetime as dt
import json
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Protocol

import dagster as dg
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from paimon_assets.assets.files.ingestion import IngestionRun
from paimon_assets.assets.files.sources import Intake
from paimon_assets.assets.metadata import Metadata
from paimon_assets.cdc.assets.change_log import ChangeLog, ChangeLogConfig, invalid_choice
from paimon_assets.cdc.assets.dead_letters import DeadLetters
from paimon_assets.cdc.assets.log_schema import FollowedSchema, followed_schema, is_text
from paimon_assets.cdc.assets.stored_rows import READS_ALL, StoredRows, no_rows
from paimon_assets.cdc.assets.topic_intake import TopicIntake
from paimon_assets.cdc.assets.topic_source import Order, TopicLogConfig
from paimon_assets.cdc.fold.change_fold import Doubt, Images, LogState, Settled, settle
from paimon_assets.cdc.fold.change_images import POSITION, images_of
from paimon_assets.cdc.fold.log_positions import (
    LogHead,
    Positions,
    SeenSchema,
    positions_of,
    seen_schemas,
)
from paimon_assets.cdc.fold.range_rows import (
    LogNumbers,
    RangeReading,
    RangeReport,
    conformed,
    history_rows,
    unpacked,
    unpacked_images,
)
from paimon_assets.cdc.fold.record_columns import LogRows, as_stored
from paimon_assets.cdc.fold.type_changes import (
    as_table_has,
    cast_along,
    fitting,
    holds_any,
    is_nested,
)
from paimon_assets.cdc.records.change_batch import REJECTED_SCHEMA, CdcOptions, ChangeBatch
from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema
from paimon_assets.engine.contract.wire import load, load_error
from paimon_assets.engine.errors import CommitConflictError, InvalidInputError
from paimon_assets.engine.executors import spark_module
from paimon_assets.engine.spec.evolution.schema_change import (
    AddColumn,
    DropColumn,
    RenameColumn,
    SchemaChange,
    UpdateColumnType,
)
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.schema.schema import BucketMode
from paimon_assets.engine.spec.types.cast_rules import supports_cast
from paimon_assets.engine.spec.types.data_types import DataType, RowKind
from paimon_assets.engine.spec.words import counted, shorten
from paimon_assets.engine.table.frames.frames import Frame
from paimon_assets.engine.table.write.row_change import READ_CHANGED, unchanged_since
from paimon_assets.engine.table.write.write_builder import WriteBuilder, WriteOutcome

_HIDDEN = {opt.WRITE_SHOW_VALUES.key: "false"}
_MOST_PASSES = 3
"""How often ranges are read by tasks while the table's schema changes."""
_MOST_TRIES = 5
"""How often rows are looked up when other commits change rows meanwhile."""
_WAYS_OUT = {
    Doubt.NO_ROW: "Load a snapshot of the source first, or all of it again (reload=true); or let "
    "the source send whole rows",
    Doubt.WAS_DELETED: "Let the source send whole rows; a later one of the key in the same run "
    "settles it",
    Doubt.MAY_BE_DELETED: "Take the later files into the same run (max_files), keep deleted rows "
    "(soft_deletes), load all again (reload=true), or let the source send the row once more",
    Doubt.MAY_BE_NEWER: "Load all again (reload=true), or let the source send whole rows; a later "
    "one of the key in the same run settles it",
}


class ChangeIntake(Intake, Protocol):
    """What one run takes from the source of a change log."""

    @property
    def arrival(self) -> str:
        """The name of the order in which records without a position come."""

    def changes(self, options: CdcOptions) -> list[ChangeBatch] | None:
        """Return the records as changes of tables; None as `frame`."""


@dataclass(kw_only=True)
class ChangeLogRun(IngestionRun):
    """One run of the asset of a change log."""

    log: ChangeLog
    intake: ChangeIntake
    config: ChangeLogConfig | TopicLogConfig = field(init=False)
    rows_of_log: LogRows = field(init=False)
    head: LogHead | None = field(init=False, default=None)
    """Of a run with changes."""
    numbers: LogNumbers = field(init=False, default_factory=LogNumbers)
    settled: Settled | None = field(init=False, default=None)
    dead_letters: DeadLetters = field(init=False)
    origin: pa.Table = field(init=False)
    """Of the changes that this process has read, with their positions."""
    plain: frozenset[str] = frozenset()
    """See `FollowedSchema.plain`; so for `renewed`, of which the run has changed the table."""
    renewed: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        """Begin without dead letters."""
        self.dead_letters = DeadLetters(table=self.log.dead_letters)
        self.rows_of_log = self.log.rows()

    def choose(self, config: ChangeLogConfig | TopicLogConfig) -> None:
        """Choose the new files that the run ingests; of a reload all count as new."""
        if config.set_aside and self.log.dead_letters is None:
            raise invalid_choice("set_aside needs a table: ChangeLog(dead_letters='db.table').")
        self.config = config
        known = LogHead.of(self.intake.ledger.log)
        self.intake.choose(config, again=config.reload)
        if config.reload:  # files do not tell the order of logs
            head = LogHead(logs=known.logs)
            if len(known.logs) > 1:
                head = replace(head, ends=known.ends, began=known.began, by_lsn=known.by_lsn)
            self.intake.ledger = replace(self.intake.ledger, log=head.members())

    def write_once(self) -> WriteOutcome | None:
        """Apply the changes; see `IngestionRun.write_once`."""
        self.check_table()
        self.dead_letters.tables.clear()
        intake = self.intake
        if isinstance(intake, TopicIntake) and intake.has_tasks(self.target.executor):
            is_by_offset = intake.source.order == Order.OFFSET and not intake.has_moved_keys
            is_alone = not is_by_offset or self.config.set_aside
            outcome = None if is_alone else self._write_ranges(intake)
            if outcome is not None:
                return outcome
            self.step.log.info("The process of the run reads the records, all by itself.")
        return self._write_read()

    def _write_ranges(self, intake: TopicIntake) -> WriteOutcome | None:
        """Apply what Spark's tasks have read and folded; None where only this process can do it.

        Where the table's schema has to change, the tasks read again.
        """
        ledger, table = intake.ledger, self.table
        accepted = self.config.new_log or self.config.reload
        keeps = self.log.dead_letters is not None
        head = LogHead.of(ledger.log).with_log(
            table.name, intake.arrival, accepted=accepted, is_last=True
        )
        most = intake.max_bytes and max(1, intake.max_bytes // len(intake.ranges))
        epoch, gone = len(head.logs) - 1, frozenset[str]()
        for _ in range(_MOST_PASSES):
            shown = table if self.paimon.show_values else table.copy(_HIDDEN)
            reading = RangeReading(
                client=intake.source.client(), topics=intake.source.changes(),
                log=self.rows_of_log, table=table.name, epoch=epoch,
                schema=replace(shown.schema),  # Connect knows what it has read by all bytes of it
                generation=ledger.generation + 1, gone=gone, max_bytes=most, keeps_rejected=keeps,
                empties=self.config.reload, plain=self.plain, columns=frozenset(head.columns),
                dropped=head.dropped,
            )  # fmt: skip
            with self.topic_ranges(intake, reading.read) as ranges:
                reports = [load(RangeReport, each) for each in ranges.reports] if ranges else []
                if not reports or any(each.has_events for each in reports):
                    return None
                source = self._one_source(name for each in reports for name in each.names)
                schema = table.schema
                is_changed, followed = self._follow([r.schemas for r in reports], head, source)
                if is_changed or table.schema.id != schema.id or followed.gone != gone:
                    gone = followed.gone
                    continue
                for each in reports:
                    if each.error is not None:
                        raise load_error(each.error)
                self.dead_letters.tables += unpacked(each.rejected for each in reports)
                self.dead_letters.write(self.paimon.catalog())
                intake.accept((each.range, each.sent_ms) for each in reports)
                count = counted(len(reports), "task")
                self.step.log.info("%s of Spark read the records.", count)
                if not any(each.names for each in reports):  # rows by key have an empty one
                    return self._commit_nothing()
                self.numbers = LogNumbers.total([each.numbers for each in reports if each.numbers])
                head = followed.head(head, source)
                if self.log.history:
                    return self._append(ranges.frame(), head)
                parts = (each.images for each in reports)
                images = unpacked_images(parts, table.schema, source)
                states = [each.state for each in reports]
                return self._apply_anew(images, head, ranges=ranges, states=states)
        return None

    def topic_ranges(self, intake: TopicIntake, read: Any) -> AbstractContextManager[Any]:
        """Return a context in which Spark's tasks have read the ranges."""
        on_spark, session = (
            spark_module("paimon_assets.cdc.spark_topics"),
            self.paimon.spark.session(),
        )
        ranges: AbstractContextManager[Any] = on_spark.read_ranges(
            session, intake.ranges, read, self.table.schema.fields
        )
        return ranges

    def _write_read(self) -> WriteOutcome | None:
        """Apply what this process reads."""
        self.dead_letters.tables.clear()
        batches = self._read()
        if batches is None:
            return None
        ledger = self.intake.ledger
        self.dead_letters.write(self.paimon.catalog())  # before: a run that fails is repeated
        if not batches:
            return self._commit_nothing()
        log, schema = self.rows_of_log, self.table.schema
        changes = log.changes(batches, schema)
        if self.log.on_drop == "refuse":
            changes.refuse_lost_tables(self.table.name)
        changes.refuse_without(schema.primary_keys)
        positions = positions_of(
            changes,
            LogHead.of(ledger.log),
            self.table.name,
            generation=ledger.generation + 1,
            arrival=self.intake.arrival,
            accepted=self.config.new_log,
            reload=self.config.reload,
        )
        self.numbers = LogNumbers.of(changes, positions.texts)
        self.origin = changes.origin.append_column(POSITION, positions.texts)
        parts = self._parts(batches, positions.texts)
        seen = [tuple(seen_schemas(*part)) for part in parts]
        is_changed, followed = self._follow(seen, positions.head, changes.name)
        if is_changed:  # columns are read as what they are now
            return self._write_read()
        head = followed.head(positions.head, changes.name)
        schema, dropped = self.table.schema, positions.head.dropped
        batches = [
            batch
            for part, schemas in zip(parts, seen, strict=True)
            for batch in as_table_has(*part, schemas, schema, dropped, followed.plain)
        ]
        changes = log.changes(batches, schema, followed.gone, frozenset(head.columns))
        truncate = self._truncate(positions)  # is refused by a history, which cannot be emptied
        if self.log.history:
            rows = history_rows(changes, positions.texts, self.table.name)
            return self._append(rows.sort_by(POSITION), head)
        marks = self.log.soft_deletes
        images = images_of(changes, positions.texts, schema.primary_keys, soft_deletes=marks)
        if emptied := max(truncate, head.truncated):  # what is older is dead, however late it comes
            images = images.after(POSITION, emptied)
        return self._apply_anew(images, head, truncate=truncate)

    def check_table(self) -> None:
        """Refuse a table whose stored rows cannot be looked up."""
        if self.table.schema.bucket_mode is BucketMode.POSTPONE and not self.log.history:
            raise invalid_choice(
                f"Table '{self.table.name}' has postponed buckets, whose rows no read sees before "
                "a compaction: stored values could not be kept. Set 'bucket' to a number or to -1."
            )

    def _no_rows(self) -> pa.Table:
        return to_arrow_schema(self.table.schema.fields).empty_table()

    def _writer(self, *, empties: bool) -> WriteBuilder:
        writer = self.table.new_write_builder()
        return writer.with_overwrite({}) if empties else writer

    def _commit_nothing(self) -> WriteOutcome:
        writer = self._writer(empties=self.config.reload)
        return self.commit(self._no_rows(), self.intake.ledger.log, writer)

    def _read(self) -> list[ChangeBatch] | None:
        """Return the batches with changes; None if something was left out."""
        schema = self.table.schema
        keep = self.dead_letters.tables.append if self.log.dead_letters else None
        types = LogHead.of(self.intake.ledger.log).types
        self.plain |= {name for name, kind in types.items() if not is_text(kind)}
        # neither declared nor in the ledger: records have added it, in a run that was refused then
        declared = {each.name for each in self.target.schema.fields}
        self.plain |= {*schema.by_name} - declared - types.keys()
        batches = self.intake.changes(self.rows_of_log.options(schema, keep, self.plain))
        if batches is None:
            return None
        used = [batch for batch in batches if len(batch) or batch.events]
        self._one_source(batch.name for batch in used)
        return [as_stored(batch, self.rows_of_log, schema.primary_keys) for batch in used]

    def _one_source(self, names: Iterable[str]) -> str:
        """Return the source table of the changes, empty if there is none."""
        found = sorted({*names})
        if len(found) > 1:
            raise invalid_choice(
                f"'{self.intake.place}' has changes of several tables ({shorten(found)}); say "
                f"which one feeds table '{self.table.name}': ChangeLog(source_table=…)."
            )
        return found[0] if found else ""

    def _parts(
        self, batches: Sequence[ChangeBatch], positions: Any
    ) -> list[tuple[list[ChangeBatch], Any]]:
        """Return the batches of each partition of topics in the order of offsets, or all.

        Of changes in different partitions it is not known which is the newer one.
        """
        intake, start = self.intake, 0
        is_apart = isinstance(intake, TopicIntake) and intake.source.order == Order.OFFSET
        parts = []
        for _, group in groupby(batches, lambda each: each.place if is_apart else ""):
            part = [*group]
            count = sum(map(len, part))
            parts.append((part, positions[start : start + count]))
            start += count
        return parts

    def _follow(
        self, seen: Sequence[Sequence[SeenSchema]], head: LogHead, source: str
    ) -> tuple[bool, FollowedSchema]:
        """Bring the table to the source's schema; return whether records are to be read again."""
        followed = followed_schema(
            seen, head, source, self.table.schema, self.log, self.target.schema_policy
        )
        changes = followed.changes_after(self.renewed)
        is_other = any(isinstance(each, UpdateColumnType) for each in changes)
        texts = {name for part in seen for each in part for name in each.texts}
        is_other |= bool(followed.plain & texts - self.plain)
        is_added = any(isinstance(each, AddColumn) for each in changes)  # and not known to all
        is_other |= is_added and not all(each.has_types for part in seen for each in part)
        self.plain |= followed.plain
        if changes:
            names = [name for each in changes for name in getattr(each, "field_names", ())]
            self.step.log.info("%s follows its source: %s.", self.table.name, shorten(names))
            self._alter(changes)
            self.renewed |= followed.renewed
        return is_other, followed

    def _alter(self, changes: Sequence[SchemaChange]) -> None:
        """Change the schema, unless reads of stored files would then give other rows."""
        table = self.table
        rewritten = [each for each in changes if self._is_rewritten(each, changes)]
        changes = [each for each in changes if each not in rewritten]
        for each in changes:
            column = table.schema.by_name.get(getattr(each, "field_names", ("",))[0])
            if not isinstance(each, UpdateColumnType) or column is None or self.config.reload:
                continue
            texts = [
                old.id for old in table.schemas()
                if (was := old.by_id.get(column.id)) and is_text(str(was.type))
            ]  # fmt: skip
            if not texts or is_text(str(column.type)) or not is_text(str(each.new_data_type)):
                continue
            files = table.system_table("files").to_arrow()
            if pc.any(pc.is_in(files["schema_id"], pa.array(texts, pa.int64()))).as_py():
                raise InvalidInputError(
                    f"Column '{column.name}' of table '{table.name}' is {column.type}, and a text "
                    "again in the source. Files hold the texts of before, which would be seen "
                    "again. Nothing was committed. Write the rows anew (INSERT OVERWRITE the table "
                    "by all of its rows), or load it again (reload=true).",
                    kind="cdc-schema",
                    details={"table": table.name, "column": column.name},
                )
        if changes:
            executor = self.paimon.new_executor(self.target.executor)
            try:
                table.alter_checked(changes, executor=executor)
            except InvalidInputError as error:
                if error.kind != "schema-overflow":
                    raise
                raise InvalidInputError(
                    f"{error.message} Say ChangeLog(on_narrowed='keep') to keep a type that holds "
                    "the values that are stored and those to come.",
                    kind=error.kind,
                    details=error.details,
                ) from error
            table.refresh()
        for each in rewritten:
            if isinstance(each, UpdateColumnType):
                self._rewrite(each.field_names[0], each.new_data_type)

    def _is_rewritten(self, change: SchemaChange, changes: Sequence[SchemaChange]) -> bool:
        """Whether stored values of a column are written again, as no reader casts them.

        Raises:
            InvalidInputError: Kind `cdc-schema`: the new type does not hold them.
        """
        if not isinstance(change, UpdateColumnType):
            return False
        (name,), wanted = change.field_names, change.new_data_type
        renamed = {each.new_name: each.field_names[0] for each in changes
                   if isinstance(each, RenameColumn)}  # fmt: skip
        column = self.table.schema.by_name.get(renamed.get(name, name))
        if column is None:  # the run adds it, too
            return False
        known = column.type
        if not (is_nested(known) or is_nested(wanted)) and supports_cast(known, wanted):
            return False
        if holds_any(wanted):
            return True
        raise InvalidInputError(
            f"Column '{name}' of table '{self.table.name}' is {known}, and {wanted} in the source. "
            "Nothing was committed. Say ChangeLog(on_narrowed='keep') to make it a STRING, which "
            "has nested values as JSON, or BYTES if it has some.",
            kind="cdc-schema",
            details={"table": self.table.name, "column": name},
        )

    def _rewrite(self, name: str, wanted: DataType) -> None:
        """Give a column a type that no reader casts its values to: all rows are written again.

        The column stays as it is up to the last step; a run that ends before it begins again.
        """
        table, other = self.table, f"{name}__{wanted}"
        if other not in table.schema.by_name:
            table.alter([AddColumn(field_names=(other,), data_type=wanted)])
            table.refresh()
        read = table.new_read_builder().with_options(READS_ALL)
        plan, known = read.plan(), table.schema.by_name[name].type
        if plan.snapshot is not None:
            with read.read(plan, self.paimon.new_executor(self.target.executor)) as batches:
                schema = batches.schema
                place = schema.get_field_index(other)
                rows = pa.RecordBatchReader.from_batches(schema, (
                    each.set_column(place, other, cast_along(each[name], [known, wanted])[0])
                    for each in batches
                ))  # fmt: skip
                writer = self._writer(empties=True)
                condition = unchanged_since(writer.store, plan.snapshot)
                writer.with_condition(condition).write(rows)
        own = DropColumn(field_names=(name,))
        table.alter([own, RenameColumn(field_names=(other,), new_name=name)])
        table.refresh()

    def _append(self, rows: Frame, head: LogHead) -> WriteOutcome:
        self.head = head
        state = replace(head.state, high=max(head.state.high, self.numbers.newest))
        log = replace(head, state=state).members()
        return self.commit(rows, log, self._writer(empties=self.config.reload))

    def _apply_anew(self, images: Images, head: LogHead, **more: Any) -> WriteOutcome:
        """Apply images, and once more if others changed meanwhile what was looked up."""
        self.head = head
        for _ in range(_MOST_TRIES - 1):
            try:
                return self._apply(images, head, **more)
            except CommitConflictError as conflict:
                if conflict.kind != READ_CHANGED:
                    raise
                self.step.log.info("Stored rows are looked up again: %s", conflict.message)
        return self._apply(images, head, **more)

    def _apply(
        self,
        images: Images,
        head: LogHead,
        *,
        truncate: str = "",
        ranges: Any = None,
        states: Sequence[LogState] = (),
    ) -> WriteOutcome:
        """Fold changes with stored rows, and commit them on what was looked up.

        Args:
            images: The changes.
            head: Of the log, before them.
            truncate: Position of a truncate before them.
            ranges: Rows that tasks have folded, of other keys.
            states: What those rows are in the log.
        """
        is_late = bool(truncate) and truncate < head.state.high and not self.config.reload
        empties = self.config.reload or (bool(truncate) and not is_late)
        keys, executor = (
            self.table.schema.primary_keys,
            self.paimon.new_executor(self.target.executor),
        )
        stored = StoredRows(table=self.table, executor=executor, after=truncate)
        state = LogState() if empties else head.state
        look_up = no_rows if empties else stored
        marks = self.log.soft_deletes
        settled = settle(images, keys, POSITION, state, look_up, marks=marks)
        while settled.doubts and self.config.set_aside:
            images = self._set_aside(images, settled)
            settled = settle(images, keys, POSITION, state, look_up, marks=marks)
        self._refuse_doubts(settled)
        if is_late:  # rows of after it stay; if the run ends here, the next one does this again
            old = f"{POSITION} <= '{truncate}' OR {POSITION} IS NULL"
            self.table.copy(READS_ALL).delete(old, executor)
        settled = replace(settled, rows=fitting(settled.rows, self.table.name))
        self.settled = settled
        rows: Frame = settled.rows if settled.rows.num_rows else self._no_rows()
        if empties and settled.rows.num_rows:
            rows = rows.filter(pa.array(settled.kinds != RowKind.DELETE))
        if ranges is not None:
            rows = ranges.frame(conformed(rows, self.table.name, self.table.schema))
        states = [settled.state, *states]
        applied = LogState(
            high=max(head.state.high, truncate, *(each.high for each in states)),
            filled=max(each.filled for each in states),
            deleted=max(truncate, *(each.deleted for each in states)),
            deletes=settled.state.deletes,
            forgotten=max(settled.state.forgotten, *(each.deleted for each in states[1:]), ""),
        )
        head = replace(head, state=applied, truncated=max(head.truncated, truncate))
        writer = self._writer(empties=empties)
        if stored.is_used:
            writer = writer.with_condition(unchanged_since(writer.store, stored.snapshot))
        return self.commit(rows, head.members(), writer)

    def _truncate(self, positions: Positions) -> str:
        """Return the position of the last truncate that the table has not applied, if any."""
        head = positions.head
        due = [text for text in positions.truncates if text > head.truncated]
        if not due:
            return ""
        if self.log.on_truncate == "refuse":
            raise InvalidInputError(
                f"The source of table '{self.table.name}' was emptied, at position {max(due)}. "
                "Nothing was committed. Say ChangeLog(on_truncate='empty') to empty the table, "
                "too.",
                kind="cdc-truncate",
                details={"table": self.table.name},
            )
        return max(due)

    def _set_aside(self, images: Images, settled: Settled) -> Images:
        """Return the images of keys whose rows are known; the others become dead letters."""
        keys = [*self.table.schema.primary_keys]
        numbered = images.rows.select(keys)
        numbered = numbered.append_column("__row", pa.array(np.arange(len(numbered))))
        stays = np.ones(len(numbered), dtype=np.bool_)
        for doubt, rows in settled.doubts.items():
            own = numbered.join(rows.select(keys), keys=keys, join_type="left semi")["__row"]
            stays[own.to_numpy()] = False
            unknown = images.rows.take(own)
            at = pc.index_in(unknown[POSITION], value_set=self.origin[POSITION])
            origin = self.origin.take(at)
            records: Any = [json.dumps(row, default=str) for row in unknown.to_pylist()]
            reasons: Any = pa.repeat(pa.scalar(f"its row cannot be known: {doubt}"), len(own))
            columns: Any = [origin["file"], origin["line"], reasons, pa.array(records, pa.string())]
            letters = pa.Table.from_arrays(columns, schema=REJECTED_SCHEMA)
            self.dead_letters.tables.append(letters)
        self.dead_letters.write(self.paimon.catalog())
        return images.take(stays)

    def _refuse_doubts(self, settled: Settled) -> None:
        for doubt, rows in settled.doubts.items():
            first = ""
            if self.paimon.show_values:
                values = rows.slice(0, 1).to_pylist()[0]
                first = f", first {', '.join(f'{key} = {text}' for key, text in values.items())}"
            raise InvalidInputError(
                f"Table '{self.table.name}': the row of {counted(rows.num_rows, 'key')} cannot be "
                f"known{first}: {doubt}. Nothing was committed. {_WAYS_OUT[doubt]} (Postgres: "
                "REPLICA IDENTITY FULL; MySQL: binlog_row_image=FULL). To go on at once: "
                "set_aside=true puts these changes into a table (dead_letters) and applies the "
                "others.",
                kind="cdc-unknown-row",
                details={"table": self.table.name, "keys": rows.num_rows},
            )

    def metadata(self) -> Metadata:
        """Return the numbers of files, and how far the log is applied."""
        metadata = {**super().metadata(), **self.dead_letters.metadata()}
        if self.head is None:
            return metadata
        numbers = self.numbers
        metadata |= {
            "paimon/log": self.head.logs[-1],
            "paimon/changes_in": sum(numbers.kinds) - numbers.kinds[RowKind.UPDATE_BEFORE],
            "paimon/inserts": numbers.kinds[RowKind.INSERT],
            "paimon/updates": numbers.kinds[RowKind.UPDATE_AFTER],
            "paimon/deletes": numbers.kinds[RowKind.DELETE],
        }
        if numbers.newest:
            metadata["paimon/log_position"] = numbers.newest
        if numbers.changed_ms is not None:
            time = dt.datetime.fromtimestamp(numbers.changed_ms / 1000, dt.UTC)
            lag = dt.datetime.now(dt.UTC) - time
            metadata.setdefault("paimon/lag_seconds", round(lag.total_seconds(), 3))
            metadata["paimon/newest_change"] = dg.TimestampMetadataValue(time.timestamp())
        if self.settled is not None:
            metadata["paimon/keys_looked_up"] = self.settled.looked_up
            metadata["paimon/keys_newer_already"] = self.settled.stale
        return metadata
