"""The commit of the changes of one run: folded with stored rows, as one snapshot with the ledger.

    images ─▶ fold ─▶ one snapshot + ledger
               │ ▲
             keys with values that did not arrive ─▶ stored rows of the table

A value that did not arrive keeps the stored one, which is looked up in the parent snapshot of the
commit: if another commit changed rows meanwhile, they are looked up again.
"""

import datetime as dt
import json
from collections.abc import Sequence
from typing import Any

import dagster as dg
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field
from msgspec.structs import replace

from paimon_assets.assets.files.dead_letters import DeadLetters
from paimon_assets.assets.files.ingestion import IngestionRun
from paimon_assets.assets.metadata import Metadata
from paimon_assets.cdc.assets.change_log import ChangeLog
from paimon_assets.cdc.assets.stored_rows import READS_ALL, StoredRows, no_rows
from paimon_assets.cdc.fold.change_fold import Doubt, Images, LogState, Settled, settle
from paimon_assets.cdc.fold.change_images import POSITION
from paimon_assets.cdc.fold.log_positions import LogHead
from paimon_assets.cdc.fold.range_rows import LogNumbers, conform
from paimon_assets.cdc.fold.type_changes import fitting
from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema
from paimon_assets.engine.data.format.text_lines import REJECTED_SCHEMA
from paimon_assets.engine.errors import CommitConflictError, InvalidInputError
from paimon_assets.engine.spec.types.data_types import RowKind
from paimon_assets.engine.spec.words import counted
from paimon_assets.engine.table.frames.frames import Frame
from paimon_assets.engine.table.write.row_change import READ_CHANGED, unchanged_since
from paimon_assets.engine.table.write.write_builder import WriteBuilder, WriteOutcome

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


class ChangeCommit(Struct, kw_only=True):
    """Commits the changes of one run, and knows their numbers."""

    run: IngestionRun[Any]
    log: ChangeLog
    dead_letters: DeadLetters
    numbers: LogNumbers = field(default_factory=LogNumbers)
    origin: pa.Table = field(default_factory=REJECTED_SCHEMA.empty_table)
    """Of the changes that this process has read, with their positions."""
    head: LogHead | None = None
    """Of a run with changes."""
    settled: Settled | None = None

    def _no_rows(self) -> pa.Table:
        return to_arrow_schema(self.run.table.schema.fields).empty_table()

    def _writer(self, *, empties: bool) -> WriteBuilder:
        writer = self.run.table.new_write_builder()
        return writer.with_overwrite({}) if empties else writer

    def write_nothing(self) -> WriteOutcome:
        writer = self._writer(empties=self.run.config.reload)
        return self.run.commit(self._no_rows(), self.run.intake.ledger.log, writer)

    def append(self, rows: Frame, head: LogHead) -> WriteOutcome:
        self.head = head
        state = replace(head.state, high=max(head.state.high, self.numbers.newest))
        log = replace(head, state=state).members()
        return self.run.commit(rows, log, self._writer(empties=self.run.config.reload))

    def apply(self, images: Images, head: LogHead, **more: Any) -> WriteOutcome:
        """Apply images, and once more if another commit changed the rows that were looked up."""
        self.head = head
        for _ in range(_MOST_TRIES - 1):
            try:
                return self._apply_once(images, head, **more)
            except CommitConflictError as conflict:
                if conflict.kind != READ_CHANGED:
                    raise
                self.run.step.log.info("Stored rows are looked up again: %s", conflict.message)
        return self._apply_once(images, head, **more)

    def _apply_once(
        self,
        images: Images,
        head: LogHead,
        *,
        truncate: str = "",
        ranges: Any = None,
        states: Sequence[LogState] = (),
    ) -> WriteOutcome:
        """Fold changes with stored rows, and commit them on the snapshot of the lookup.

        Args:
            images: The changes.
            head: Of the log, before them.
            truncate: Position of a truncate before them.
            ranges: Rows that tasks have folded, of other keys.
            states: States of those rows in the log.
        """
        is_late = bool(truncate) and truncate < head.state.high and not self.run.config.reload
        empties = self.run.config.reload or (bool(truncate) and not is_late)
        keys, executor = self.run.table.schema.primary_keys, self.run.executor()
        stored = StoredRows(table=self.run.table, executor=executor, after=truncate)
        state = LogState() if empties else head.state
        look_up = no_rows if empties else stored
        marks = self.log.soft_deletes
        settled = settle(images, keys, POSITION, state, look_up, marks=marks)
        while settled.doubts and self.run.config.set_aside:
            images = self._set_aside(images, settled)
            settled = settle(images, keys, POSITION, state, look_up, marks=marks)
        self._refuse_doubts(settled)
        if is_late:  # rows of after it stay; if the run ends here, the next one does this again
            old = f"{POSITION} <= '{truncate}' OR {POSITION} IS NULL"
            self.run.table.copy(READS_ALL).delete(old, executor)
        settled = replace(settled, rows=fitting(settled.rows, self.run.table.name))
        self.settled = settled
        rows: Frame = settled.rows if settled.rows.num_rows else self._no_rows()
        if empties and settled.rows.num_rows:
            rows = rows.filter(pa.array(settled.kinds != RowKind.DELETE))
        if ranges is not None:
            rows = ranges.frame(conform(rows, self.run.table.name, self.run.table.schema))
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
        return self.run.commit(rows, head.members(), writer)

    def _set_aside(self, images: Images, settled: Settled) -> Images:
        """Return the images of keys with known rows; the rest become dead letters."""
        keys = [*self.run.table.schema.primary_keys]
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
        self.dead_letters.write(self.run.paimon.catalog())
        return images.take(stays)

    def _refuse_doubts(self, settled: Settled) -> None:
        table = self.run.table.name
        for doubt, rows in settled.doubts.items():
            first = ""
            if self.run.paimon.show_values:
                values = rows.slice(0, 1).to_pylist()[0]
                first = f", first {', '.join(f'{key} = {text}' for key, text in values.items())}"
            raise InvalidInputError(
                f"Table '{table}': the row of {counted(rows.num_rows, 'key')} cannot be "
                f"known{first}: {doubt}. Nothing was committed. {_WAYS_OUT[doubt]} (Postgres: "
                "REPLICA IDENTITY FULL; MySQL: binlog_row_image=FULL). To continue at once: "
                "set_aside=true puts these changes into a table (dead_letters) and applies the "
                "remaining ones.",
                kind="cdc-unknown-row",
                table=table,
                keys=rows.num_rows,
            )

    def metadata(self) -> Metadata:
        """Return the numbers of changes, and how far the log is applied."""
        if self.head is None:
            return {}
        numbers = self.numbers
        metadata: Metadata = {
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
            metadata["paimon/lag_seconds"] = round(lag.total_seconds(), 3)
            metadata["paimon/newest_change"] = dg.TimestampMetadataValue(time.timestamp())
        if self.settled is not None:
            metadata["paimon/keys_looked_up"] = self.settled.looked_up
            metadata["paimon/keys_newer_already"] = self.settled.stale
        return metadata
