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
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import dagster as dg
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_assets.assets.change_logs.change_images import (
    MISSING,
    OP,
    POSITION,
    ReadChanges,
    images_of,
    missing_names,
    with_log_columns,
)
from paimon_assets.assets.change_logs.change_log import ChangeLog, ChangeLogConfig, invalid_choice
from paimon_assets.assets.change_logs.dead_letters import DeadLetters
from paimon_assets.assets.change_logs.log_positions import LogHead, Positions, positions_of
from paimon_assets.assets.change_logs.log_schema import followed_schema
from paimon_assets.assets.change_logs.record_columns import as_stored
from paimon_assets.assets.change_logs.stored_rows import StoredRows, no_rows
from paimon_assets.assets.files.ingestion import IngestionRun
from paimon_assets.assets.files.topic_source import TopicLogConfig
from paimon_assets.assets.metadata import Metadata
from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema
from paimon_assets.engine.data.cdc.change_batch import ORIGIN_SCHEMA, AbsentValue, ChangeBatch
from paimon_assets.engine.data.change_fold import Doubt, LogState, Settled, settle
from paimon_assets.engine.errors import CommitConflictError, InvalidInputError
from paimon_assets.engine.spec.schema.schema import BucketMode
from paimon_assets.engine.spec.types.data_types import RowKind
from paimon_assets.engine.spec.words import counted, shorten
from paimon_assets.engine.table.write.row_change import READ_CHANGED, unchanged_since
from paimon_assets.engine.table.write.write_builder import WriteBuilder, WriteOutcome

_MOST_TRIES = 5
"""How often rows are looked up when other commits change rows meanwhile."""
_WAYS_OUT = {
    Doubt.NO_ROW: "Load a snapshot of the source first, or all of it again (reload=true); or let "
    "the source send whole rows",
    Doubt.WAS_DELETED: "Let the source send whole rows",
    Doubt.MAY_BE_DELETED: "Take the later files into the same run (max_files), keep deleted rows "
    "(soft_deletes), or load all again (reload=true)",
    Doubt.MAY_BE_NEWER: "Load all again (reload=true), or let the source send whole rows",
}


@dataclass(kw_only=True)
class ChangeLogRun(IngestionRun):
    """One run of the asset of a change log."""

    log: ChangeLog
    config: ChangeLogConfig | TopicLogConfig = field(init=False)
    changes: ReadChanges | None = field(init=False, default=None)
    settled: Settled | None = field(init=False, default=None)
    positions: Positions | None = field(init=False, default=None)
    dead_letters: DeadLetters = field(init=False)

    def __post_init__(self) -> None:
        """Begin without dead letters."""
        self.dead_letters = DeadLetters(table=self.log.dead_letters)

    def choose(self, config: ChangeLogConfig | TopicLogConfig) -> None:
        """Choose the new files that the run ingests; of a reload all count as new."""
        self.config = config
        self.intake.choose(config, again=config.reload)

    def write_once(self) -> WriteOutcome | None:
        """Apply the changes; see `IngestionRun.write_once`."""
        self.check_table()
        self.dead_letters.tables.clear()
        batches = self._read()
        if batches is None:
            return None
        ledger = self.intake.ledger
        self.dead_letters.write(self.paimon.catalog())  # before: a run that fails is repeated
        if not batches:
            described = _described(None, empties=self.config.reload)
            return self.commit(self._no_rows(), ledger.log, described)
        changes = ReadChanges(batches=batches, metadata=frozenset(self.log.metadata))
        self.changes = changes
        if self.log.on_drop == "refuse":
            changes.refuse_lost_tables(self.table.name)
        changes.refuse_without(self.table.schema.primary_keys)
        self.positions = positions_of(
            changes,
            LogHead.of(ledger.log),
            self.table.name,
            generation=ledger.generation + 1,
            arrival=self.intake.arrival,
            accepted=self.config.new_log,
        )
        changes = self._evolve(changes, self.positions)
        changes = self.changes = replace(changes, expected=self._expected(changes))
        positions = self.positions
        if self.log.history:
            return self._append(changes, positions)
        for _ in range(_MOST_TRIES - 1):
            try:
                return self._apply(changes, positions)
            except CommitConflictError as conflict:
                if conflict.kind != READ_CHANGED:
                    raise
                self.step.log.info("Stored rows are looked up again: %s", conflict.message)
        return self._apply(changes, positions)

    def check_table(self) -> None:
        """Refuse a table whose stored rows cannot be looked up."""
        if self.table.schema.bucket_mode is BucketMode.POSTPONE and not self.log.history:
            raise invalid_choice(
                f"Table '{self.table.name}' has postponed buckets, whose rows no read sees before "
                "a compaction: stored values could not be kept. Set 'bucket' to a number or to -1."
            )

    def _no_rows(self) -> pa.Table:
        return to_arrow_schema(self.table.schema.fields).empty_table()

    def _read(self) -> list[ChangeBatch] | None:
        """Return the batches with changes; None if something was left out."""
        schema = self.table.schema
        known = self.log.known_of(schema)
        options = replace(
            self.log.records,
            table_of=lambda name: known if self.log.takes(name) else None,
            on_rejected=self.dead_letters.tables.append if self.log.dead_letters else None,
        )
        batches = self.intake.changes(options)
        if batches is None:
            return None
        used = [batch for batch in batches if len(batch) or batch.events]
        names = sorted({batch.name for batch in used})
        if len(names) > 1:
            raise invalid_choice(
                f"'{self.intake.place}' has changes of several tables ({shorten(names)}); say "
                f"which one feeds table '{self.table.name}': ChangeLog(source_table=…)."
            )
        return [as_stored(batch, self.log, schema.primary_keys) for batch in used]

    def _evolve(self, changes: ReadChanges, positions: Positions) -> ReadChanges:
        """Bring the table to the source's schema; return the changes that go with it."""
        followed = followed_schema(
            changes, positions, self.table.schema, self.log, self.target.schema_policy
        )
        head = replace(positions.head, columns=followed.columns, source=changes.name)
        self.positions = replace(positions, head=head)
        if followed.changes:
            names = [name for each in followed.changes for name in getattr(each, "field_names", ())]
            self.step.log.info("%s follows its source: %s.", self.table.name, shorten(names))
            executor = self.paimon.new_executor(self.target.executor)
            self.table.alter_checked(followed.changes, executor=executor)
            self.table.refresh()
        return replace(changes, gone=followed.gone)

    def _expected(self, changes: ReadChanges) -> Mapping[str, pa.DataType]:
        """Return the columns of the table that records should have."""
        if self.log.records.absent is AbsentValue.NULL:
            return {}
        own = {OP, POSITION, MISSING, self.log.soft_deletes, *changes.metadata, *changes.gone}
        own |= {*self.log.omitted}
        schema = to_arrow_schema(self.table.schema.fields)
        keys = self.table.schema.primary_keys
        return {each.name: each.type for each in schema if each.name not in own | {*keys}}

    def _append(self, changes: ReadChanges, positions: Positions) -> WriteOutcome:
        self._truncate(positions)  # is refused: a history has nothing that could be emptied
        rows = with_log_columns(changes.rows, changes.kinds, positions.texts)
        rows = rows.append_column(MISSING, missing_names(changes))
        high = pc.max(positions.texts).as_py() or ""
        state = replace(positions.head.state, high=max(positions.head.state.high, high))
        head = replace(positions.head, state=state)
        described = _described(None, empties=self.config.reload)
        return self.commit(rows.sort_by(POSITION), head.members(), described)

    def _apply(self, changes: ReadChanges, positions: Positions) -> WriteOutcome:
        """Fold the changes with stored rows, and commit them on what was looked up."""
        head, keys = positions.head, self.table.schema.primary_keys
        images = images_of(changes, positions.texts, keys, soft_deletes=self.log.soft_deletes)
        truncate = self._truncate(positions)
        empties = bool(truncate) or self.config.reload
        executor = self.paimon.new_executor(self.target.executor)
        stored = StoredRows(table=self.table, executor=executor)
        state = LogState() if empties else head.state
        if truncate:
            images = images.after(POSITION, truncate)
        look_up = no_rows if empties else stored
        marks = self.log.soft_deletes
        settled = settle(images, keys, POSITION, state, look_up, marks=marks)
        self._refuse_doubts(settled)
        self.settled = settled
        rows = settled.rows if settled.rows.num_rows else self._no_rows()
        if empties and settled.rows.num_rows:
            rows = rows.filter(pa.array(settled.kinds != RowKind.DELETE))
        high = max(head.state.high, settled.state.high, truncate)
        applied = replace(settled.state, high=high, deleted=max(settled.state.deleted, truncate))
        head = replace(head, state=applied, truncated=max(head.truncated, truncate))
        return self.commit(rows, head.members(), _described(stored, empties=empties))

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
        if max(due) < head.state.high and not self.config.reload:
            raise InvalidInputError(
                f"A file with a truncate of table '{self.table.name}' comes late: the table has "
                f"changes up to {head.state.high}, after its position {max(due)}. Nothing was "
                "committed. Load the table again (reload=true).",
                kind="cdc-late",
                details={"table": self.table.name},
            )
        return max(due)

    def _refuse_doubts(self, settled: Settled) -> None:
        for doubt, rows in settled.doubts.items():
            first = ""
            if self.paimon.show_values:
                values = rows.slice(0, 1).to_pylist()[0]
                first = f", first {', '.join(f'{key} = {text}' for key, text in values.items())}"
            raise InvalidInputError(
                f"Table '{self.table.name}': the row of {counted(rows.num_rows, 'key')} cannot be "
                f"known{first}: {doubt}. Nothing was committed. {_WAYS_OUT[doubt]} (Postgres: "
                "REPLICA IDENTITY FULL; MySQL: binlog_row_image=FULL).",
                kind="cdc-unknown-row",
                details={"table": self.table.name, "keys": rows.num_rows},
            )

    def metadata(self) -> Metadata:
        """Return the numbers of files, and how far the log is applied."""
        metadata = {**super().metadata(), **self.dead_letters.metadata()}
        changes, positions = self.changes, self.positions
        if changes is None or positions is None:
            return metadata
        counts = np.bincount(changes.kinds, minlength=len(RowKind))
        metadata |= {
            "paimon/log": positions.head.logs[-1],
            "paimon/changes_in": len(changes) - int(counts[RowKind.UPDATE_BEFORE]),
            "paimon/inserts": int(counts[RowKind.INSERT]),
            "paimon/updates": int(counts[RowKind.UPDATE_AFTER]),
            "paimon/deletes": int(counts[RowKind.DELETE]),
        }
        newest = pc.max(positions.texts).as_py()
        if newest is not None:
            metadata["paimon/log_position"] = newest
        time = pc.max(changes.origin[ORIGIN_SCHEMA.get_field_index("op_time")]).as_py()
        if time is not None:
            lag = dt.datetime.now(dt.UTC) - time
            metadata.setdefault("paimon/lag_seconds", round(lag.total_seconds(), 3))
            metadata["paimon/newest_change"] = dg.TimestampMetadataValue(time.timestamp())
        if self.settled is not None:
            metadata["paimon/keys_looked_up"] = self.settled.looked_up
            metadata["paimon/keys_newer_already"] = self.settled.stale
        return metadata


def _described(
    stored: StoredRows | None, *, empties: bool
) -> Callable[[WriteBuilder], WriteBuilder]:
    """Return what a write is besides rows and ledger."""

    def describe(writer: WriteBuilder) -> WriteBuilder:
        if empties:
            writer = writer.with_overwrite({})
        if stored is not None and stored.is_used:
            writer = writer.with_condition(unchanged_since(writer.store, stored.snapshot))
        return writer

    return describe
