"""One run that applies a change log to its table.

    folder ─▶ new files ─▶ images in log order ─▶ new columns ─▶ fold ─▶ one snapshot + ledger
                                                  log_schema     change_commit

The ledger holds how far the log is applied (`log_positions.LogHead`), so files may come late and
repeated.
"""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Protocol

from msgspec.structs import replace

from paimon_assets.assets.files.dead_letters import DeadLetters
from paimon_assets.assets.files.ingestion import IngestionRun
from paimon_assets.assets.files.sources import Intake
from paimon_assets.assets.metadata import Metadata
from paimon_assets.cdc.assets.change_commit import ChangeCommit
from paimon_assets.cdc.assets.change_log import ChangeLog, invalid_choice
from paimon_assets.cdc.assets.log_schema import is_text
from paimon_assets.cdc.assets.table_follower import TableFollower
from paimon_assets.cdc.assets.topic_intake import TopicIntake
from paimon_assets.cdc.assets.topic_source import Order
from paimon_assets.cdc.fold.change_images import POSITION, images_of
from paimon_assets.cdc.fold.log_positions import LogHead, Positions, positions_of, seen_schemas
from paimon_assets.cdc.fold.range_rows import (
    LogNumbers,
    RangeReading,
    RangeReport,
    history_rows,
    unpack_rows,
    unpacked_images,
)
from paimon_assets.cdc.fold.record_columns import LogRows, as_stored
from paimon_assets.cdc.fold.type_changes import as_table_has
from paimon_assets.cdc.records.change_batch import CdcOptions, ChangeBatch
from paimon_assets.engine.contract.wire import load, load_error
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.executors import spark_module
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.schema.schema import BucketMode
from paimon_assets.engine.spec.words import counted, shorten
from paimon_assets.engine.table.write.write_builder import WriteOutcome

_HIDDEN = {opt.WRITE_SHOW_VALUES.key: "false"}
_MOST_PASSES = 3
"""How often ranges are read by tasks while the table's schema changes."""


class ChangeIntake(Intake, Protocol):
    """The changes and positions that one run takes from the source of a change log."""

    @property
    def arrival(self) -> str:
        """The name of the order in which records without a position come."""

    def changes(self, options: CdcOptions) -> list[ChangeBatch] | None:
        """Return the records as changes of tables; None as `frame`."""


@dataclass(kw_only=True)
class ChangeLogRun:
    """Reads the new changes of a log, and applies them: the `Ingestion` of its asset."""

    run: IngestionRun[ChangeIntake]
    log: ChangeLog
    rows_of_log: LogRows = field(init=False)
    dead_letters: DeadLetters = field(init=False)
    follower: TableFollower = field(init=False)
    commit: ChangeCommit = field(init=False)

    def __post_init__(self) -> None:
        self.rows_of_log = self.log.rows()
        self.follower = TableFollower(run=self.run, log=self.log)
        self.dead_letters = DeadLetters(table=self.log.dead_letters)
        self.commit = ChangeCommit(run=self.run, log=self.log, dead_letters=self.dead_letters)

    def choose(self) -> None:
        intake, config = self.run.intake, self.run.config
        if config.set_aside and self.log.dead_letters is None:
            raise invalid_choice("set_aside needs a table: ChangeLog(dead_letters='db.table').")
        known = LogHead.of(intake.ledger.log)
        intake.choose(config, again=config.reload)
        if config.reload:  # files do not tell the order of logs
            head = LogHead(logs=known.logs)
            if len(known.logs) > 1:
                head = replace(head, ends=known.ends, began=known.began, by_lsn=known.by_lsn)
            intake.ledger = replace(intake.ledger, log=head.members())

    def write_once(self) -> WriteOutcome | None:
        self.check_table()
        self.dead_letters.tables.clear()
        intake = self.run.intake
        if isinstance(intake, TopicIntake) and intake.has_tasks(self.run.target.executor):
            is_by_offset = intake.source.order == Order.OFFSET and not intake.has_moved_keys
            is_alone = not is_by_offset or self.run.config.set_aside
            outcome = None if is_alone else self._write_ranges(intake)
            if outcome is not None:
                return outcome
            self.run.step.log.info("The process of the run reads the records, all by itself.")
        return self._write_read()

    def _write_ranges(self, intake: TopicIntake) -> WriteOutcome | None:
        """Apply the rows that Spark's tasks have folded; None where only this process can do it.

        Where the table's schema has to change, the tasks read again.
        """
        ledger, table, config, commit = intake.ledger, self.run.table, self.run.config, self.commit
        accepted = config.new_log or config.reload
        keeps = self.log.dead_letters is not None
        head = LogHead.of(ledger.log).with_log(
            table.name, intake.arrival, accepted=accepted, is_last=True
        )
        most = intake.max_bytes and max(1, intake.max_bytes // len(intake.ranges))
        epoch, gone = len(head.logs) - 1, frozenset[str]()
        for _ in range(_MOST_PASSES):
            shown = table if self.run.paimon.show_values else table.copy(_HIDDEN)
            reading = RangeReading(
                client=intake.source.client(), topics=intake.source.changes(),
                log=self.rows_of_log, table=table.name, epoch=epoch,
                schema=replace(shown.schema),  # a copy: the encodings of Connect depend on it
                generation=ledger.generation + 1, gone=gone, max_bytes=most, keeps_rejected=keeps,
                empties=config.reload, plain=self.follower.plain,
                columns=frozenset(head.columns), dropped=head.dropped,
            )  # fmt: skip
            with self.topic_ranges(intake, reading.read) as ranges:
                reports = [load(RangeReport, each) for each in ranges.reports] if ranges else []
                if not reports or any(each.has_events for each in reports):
                    return None
                names = (name for each in reports for name in each.names if name)
                source = self._one_source(names)  # tombstones alone have none
                schema = table.schema
                seen = [each.schemas for each in reports]
                is_changed, followed = self.follower.follow(seen, head, source)
                if is_changed or table.schema.id != schema.id or followed.gone != gone:
                    gone = followed.gone
                    continue
                for each in reports:
                    if each.error is not None:
                        raise load_error(each.error)
                self.dead_letters.tables += unpack_rows(each.rejected for each in reports)
                self.dead_letters.write(self.run.paimon.catalog())
                intake.accept((each.range, each.sent_ms) for each in reports)
                count = counted(len(reports), "task")
                self.run.step.log.info("%s of Spark read the records.", count)
                if not any(each.names for each in reports):  # rows by key have an empty one
                    return commit.write_nothing()
                numbers = [each.numbers for each in reports if each.numbers]
                commit.numbers = LogNumbers.total(numbers)
                head = followed.head(head, source)
                if self.log.history:
                    return commit.append(ranges.frame(), head)
                parts = (each.images for each in reports)
                images = unpacked_images(parts, table.schema, source)
                states = [each.state for each in reports]
                return commit.apply(images, head, ranges=ranges, states=states)
        return None

    def topic_ranges(self, intake: TopicIntake, read: Any) -> AbstractContextManager[Any]:
        """Return a context in which Spark's tasks have read the ranges."""
        on_spark = spark_module("paimon_assets.cdc.spark_topics")
        session = self.run.paimon.spark.session()
        ranges: AbstractContextManager[Any] = on_spark.read_ranges(
            session, intake.ranges, read, self.run.table.schema.fields
        )
        return ranges

    def _write_read(self) -> WriteOutcome | None:
        """Apply the changes that this process reads."""
        self.dead_letters.tables.clear()
        batches = self._read()
        if batches is None:
            return None
        ledger, config = self.run.intake.ledger, self.run.config
        self.dead_letters.write(self.run.paimon.catalog())  # before: a run that fails is repeated
        if not batches:
            return self.commit.write_nothing()
        log, schema = self.rows_of_log, self.run.table.schema
        changes = log.changes(batches, schema)
        if self.log.on_drop == "refuse":
            changes.refuse_lost_tables(self.run.table.name)
        positions = positions_of(
            changes, LogHead.of(ledger.log), self.run.table.name, generation=ledger.generation + 1,
            arrival=self.run.intake.arrival, accepted=config.new_log, reload=config.reload,
        )  # fmt: skip
        self.commit.numbers = LogNumbers.of(changes, positions.texts)
        self.commit.origin = changes.origin.append_column(POSITION, positions.texts)
        parts = self._parts(batches, positions.texts)
        seen = [tuple(seen_schemas(*part)) for part in parts]
        is_changed, followed = self.follower.follow(seen, positions.head, changes.name)
        if is_changed:  # read again, with the new columns
            return self._write_read()
        head = followed.head(positions.head, changes.name)
        repeats = head.repeats_deletes or any(each.repeats_deletes for each in batches)
        head = replace(head, repeats_deletes=repeats)
        schema, dropped = self.run.table.schema, positions.head.dropped
        batches = [
            batch
            for part, schemas in zip(parts, seen, strict=True)
            for batch in as_table_has(*part, schemas, schema, dropped, followed.plain)
        ]
        changes = log.changes(batches, schema, followed.gone, frozenset(head.columns))
        truncate = self._truncate(positions)  # is refused by a history, which cannot be emptied
        if self.log.history:
            rows = history_rows(changes, positions.texts, self.run.table.name)
            return self.commit.append(rows.sort_by(POSITION), head)
        marks = self.log.soft_deletes
        images = images_of(changes, positions.texts, schema.primary_keys, soft_deletes=marks)
        if emptied := max(truncate, head.truncated):  # older changes are void, however late
            images = images.after(POSITION, emptied)
        return self.commit.apply(images, head, truncate=truncate)

    def check_table(self) -> None:
        """Refuse a table whose stored rows cannot be looked up."""
        table = self.run.table
        if table.schema.bucket_mode is BucketMode.POSTPONE and not self.log.history:
            raise invalid_choice(
                f"Table '{table.name}' has postponed buckets, whose rows no read sees before "
                "a compaction: stored values could not be kept. Set 'bucket' to a number or to -1."
            )

    def _read(self) -> list[ChangeBatch] | None:
        """Return the batches with changes; None if something was left out."""
        schema, intake, follower = self.run.table.schema, self.run.intake, self.follower
        keep = self.dead_letters.tables.append if self.log.dead_letters else None
        head = LogHead.of(intake.ledger.log)
        types = head.types
        follower.plain |= {name for name, kind in types.items() if not is_text(kind)}
        # neither declared nor in the ledger: records have added it, in a run that was refused then
        declared = {each.name for each in self.run.target.schema.fields}
        follower.plain |= {*schema.by_name} - declared - types.keys()
        batches = intake.changes(self.rows_of_log.options(schema, keep, follower.plain))
        if batches is None:
            return None
        used = [batch for batch in batches if len(batch) or batch.events]
        if head.repeats_deletes or any(batch.repeats_deletes for batch in used):
            used = [batch for batch in used if batch.repeats_deletes or not batch.is_bare]
        elif not head.logs and not self.log.history and all(batch.is_bare for batch in used):
            used = []  # there is no row yet, and they name no log
        self._one_source(batch.name for batch in used)
        return [as_stored(batch, self.rows_of_log, schema.primary_keys) for batch in used]

    def _one_source(self, names: Iterable[str]) -> str:
        """Return the source table of the changes, empty if there is none."""
        found = sorted({*names})
        if len(found) > 1:
            raise invalid_choice(
                f"'{self.run.intake.place}' has changes of several tables ({shorten(found)}); say "
                f"which one feeds table '{self.run.table.name}': ChangeLog(source_table=…)."
            )
        return found[0] if found else ""

    def _parts(
        self, batches: Sequence[ChangeBatch], positions: Any
    ) -> list[tuple[list[ChangeBatch], Any]]:
        """Return the batches of each partition of topics in the order of offsets, or all.

        Of changes in different partitions it is not known which is the newer one.
        """
        intake, start = self.run.intake, 0
        by_tasks = isinstance(intake, TopicIntake) and intake.source.order == Order.OFFSET
        parts = []
        for _, group in groupby(batches, lambda each: each.place if by_tasks else ""):
            part = [*group]
            count = sum(map(len, part))
            parts.append((part, positions[start : start + count]))
            start += count
        return parts

    def _truncate(self, positions: Positions) -> str:
        """Return the position of the last truncate that the table has not applied, if any."""
        head = positions.head
        due = [text for text in positions.truncates if text > head.truncated]
        if not due:
            return ""
        if self.log.on_truncate == "refuse":
            message = (
                f"The source of table '{self.run.table.name}' was emptied, at position {max(due)}. "
                "Nothing was committed. Say ChangeLog(on_truncate='empty') to empty the table, "
                "too."
            )
            raise InvalidInputError(message, kind="cdc-truncate", table=self.run.table.name)
        return max(due)

    def metadata(self) -> Metadata:
        source = {**self.run.intake.metadata(), **self.dead_letters.metadata()}
        return {**source, **self.commit.metadata(), **source}  # its lag counts before the log's
