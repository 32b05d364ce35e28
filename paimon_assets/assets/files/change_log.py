"""A table fed by the log of a database: files of change records that land in a folder.

    folder ─▶ new files ─▶ images in log order ─▶ new columns ─▶ fold ─▶ one snapshot + ledger
                                                                  │ ▲
                             keys with values that did not arrive ▼ │ stored rows
                                                                  table

A value that did not arrive keeps the stored one, which is looked up in the snapshot that the commit
goes on top of: if another commit changed rows meanwhile, they are looked up again. The ledger holds
how far the log is applied (`change_images.LogHead`), so files may come late and repeated.
"""

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import Any, Unpack

import dagster as dg
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from paimon_assets.assets.files.change_images import (
    METADATA_TYPES,
    MISSING,
    OP,
    POSITION,
    LogHead,
    Positions,
    ReadChanges,
    images_of,
    key_filter,
    missing_names,
    positions_of,
    rows_of_keys,
    with_log_columns,
)
from paimon_assets.assets.files.ingestion import FILES_HAVE_NOT, IngestConfig, IngestionRun, ingest
from paimon_assets.assets.files.ledger import Ledger
from paimon_assets.assets.files.source_files import FileSource
from paimon_assets.assets.metadata import Metadata, grid
from paimon_assets.assets.resource import ExecutorKind
from paimon_assets.assets.tables.declared_table import SchemaPolicy
from paimon_assets.assets.tables.table_asset import AssetOptions, TableTarget, define_intake
from paimon_assets.assets.translator import identifier_of
from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema
from paimon_assets.engine.codec.row_files import RowFormat, naming
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.data.cdc.change_batch import (
    ORIGIN_SCHEMA,
    REJECTED_SCHEMA,
    AbsentValue,
    CdcOptions,
    ChangeBatch,
    SourceName,
    SourceTable,
)
from paimon_assets.engine.data.cdc.formats import cdc_format, changes_of
from paimon_assets.engine.data.change_fold import Doubt, LogState, Settled, settle
from paimon_assets.engine.data.format.text_streams import open_text_stream
from paimon_assets.engine.errors import (
    CommitConflictError,
    FormatError,
    InvalidInputError,
    PaimonError,
)
from paimon_assets.engine.spec.merge.engine_traits import EngineTraits
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.schema.schema import BucketMode, Schema, first_table_schema
from paimon_assets.engine.spec.segments.text_options import TextOptions
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
DEAD_LETTERS = Schema.of(
    {"file": "STRING", "line": "BIGINT", "reason": "STRING", "record": "STRING"},
    primary_keys=["file", "line"],
    options={"bucket": "1"},
    comment="Records of change logs that could not be read.",
)
"""The table of records that could not be read."""


class OnTruncate(StrEnum):
    """What becomes of the table when the source table is emptied."""

    REFUSE = "refuse"
    """The run fails."""
    EMPTY = "empty"
    """It is emptied, too, in one snapshot with the changes that follow."""


@dataclass(frozen=True, kw_only=True)
class ChangeLog:
    """The way the records of a log become rows of a table."""

    source_table: str = ""
    """The table of the source, as `orders`, `shop.orders` or `shop.public.orders`; records of
    others are left out. By default the folder has the records of one table only."""
    records: CdcOptions = field(default_factory=CdcOptions)
    """The way records are written: modes of the connector, mappings of types."""
    omitted: Sequence[str] = ()
    """Columns of the source that are not stored."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """Column of the table → what it tells of the last change: `database`, `schema`, `table`,
    `op_time`, `log`, `file`, `line`, or what the format has beside that."""
    history: bool = False
    """Whether the table is the log itself: an append table of all images, with `_op`, `_position`
    and, of values that did not arrive, the names of their columns in `_missing`."""
    soft_deletes: str = ""
    """A BOOLEAN column of the table that is true for deleted rows, which stay."""
    on_truncate: str = OnTruncate.REFUSE
    """What becomes of the table when the source is emptied: `refuse`, `empty`."""
    on_drop: str = "refuse"
    """Whether a dropped or renamed source table fails the run: `refuse`, `ignore`."""
    dead_letters: str | None = None
    """A table (`database.table`) for records that cannot be read, with the reason; made if it is
    not there. By default the first such record fails the run."""

    def __post_init__(self) -> None:
        """Check the choices.

        Raises:
            InvalidInputError: Kind `cdc-option`.
        """
        choices = (
            ("on_truncate", self.on_truncate, tuple(OnTruncate)),
            ("on_drop", self.on_drop, ("refuse", "ignore")),
        )
        for name, value, allowed in choices:
            if value not in allowed:
                raise _invalid(f"{name} is '{value}'; expected one of {', '.join(allowed)}.")
        if self.history and (self.soft_deletes or self.on_truncate == OnTruncate.EMPTY):
            raise _invalid("A history keeps every change: it has no soft_deletes, and no truncate.")
        if self.dead_letters is not None:
            identifier_of(self.dead_letters)

    def table_schema(self, schema: Schema) -> Schema:
        """Return a declared schema with the columns and options of the log.

        Raises:
            InvalidInputError: Kind `cdc-option`: the schema does not go with a log.
        """
        options = schema.options
        extra = {name: METADATA_TYPES.get(what, "STRING") for name, what in self.metadata.items()}
        if self.history:
            if schema.primary_keys:
                raise _invalid("A history is an append table: declare no primary_keys.")
            extra |= {MISSING: "STRING"}
            own: dict[str, str] = {}
        else:
            if not schema.primary_keys:
                raise _invalid("A table fed by a log needs primary_keys, or history=True.")
            own = {opt.ROWKIND_FIELD.key: OP, opt.SEQUENCE_FIELD.key: POSITION}
            for key in (*own, opt.SEQUENCE_AUTO_PADDING.key, opt.IGNORE_DELETE.key):
                if key in options:
                    raise _invalid(f"'{key}' is decided by the log; leave it out.")
            if self.soft_deletes:
                extra |= {self.soft_deletes: "BOOLEAN"}
        columns: dict[str, Any] = {each.name: each.type for each in schema.fields}
        for name in (OP, POSITION):
            if name in columns:
                raise _invalid(f"Column '{name}' is added by the log; do not declare it.")
        columns |= {name: columns.get(name, text) for name, text in extra.items()}
        full = Schema.of(
            {**columns, OP: "STRING", POSITION: "STRING"},
            partition_keys=schema.partition_keys,
            primary_keys=schema.primary_keys,
            options={**own, **options},
            comment=schema.comment,
            comments={e.name: e.description for e in schema.fields if e.description},
        )
        traits = EngineTraits.of(first_table_schema(full, time_millis=0))
        if not traits.newest_wins:
            raise _invalid(
                f"'{opt.MERGE_ENGINE.key}' is '{traits.engine}', which does not keep a null that "
                "arrived apart from a value that did not; leave it out."
            )
        return full

    def takes(self, name: SourceName) -> bool:
        """Whether the records of a source table are taken."""
        wanted = self.source_table.split(".")
        parts = [part for part in name if part]
        return not self.source_table or parts[-len(wanted) :] == wanted


def _invalid(message: str) -> InvalidInputError:
    return InvalidInputError(message, kind="cdc-option")


class ChangeLogConfig(IngestConfig):
    """The config of a run that applies a change log."""

    max_bytes: int = Field(
        default=1 << 30,
        description="Most bytes of files that one run takes in, in name order, but one file at "
        "least: the changes of a run are held in memory. 0 takes all new ones.",
    )
    reload: bool = Field(
        default=False,
        description="Replace the table by what the files of the folder say, from the first on. "
        "Other tables and their runs are not touched.",
    )
    new_log: bool = Field(
        default=False,
        description="Whether files of another server or log are taken, as changes after all that "
        "the table holds: after a failover.",
    )


def build_change_log_asset(
    table: str | Identifier,
    schema: Schema,
    *,
    source: FileSource,
    log: ChangeLog | None = None,
    executor: ExecutorKind | None = None,
    warehouse: str | None = None,
    **options: Unpack[AssetOptions],
) -> dg.AssetsDefinition:
    """Make a table the asset of a change log, whose files land in a folder.

    Each run applies the files that the table does not hold yet, in the order of the log, as one
    snapshot; `ChangeLogConfig` bounds it. The table gets the columns `_op` and `_position`.

    Args:
        table: `database.table`.
        schema: The declared table, with the primary key of the source table. Columns that are not
            declared are added by `schema_policy` `add`, and types made wider by `widen`.
        source: The folder; its format is one of `debezium-json`, `canal-json`, `maxwell-json`, ….
        log: Choices; those of `ChangeLog()` by default.
        executor: `spark` or `embedded`, which reads stored rows and writes; the resource's choice
            by default. Files are read by the process of the run.
        warehouse: Root of the warehouse, to show the table's address before the first run.
        **options: As for `build_file_ingestion_asset`.

    Raises:
        InvalidInputError: The format is none of a change log, or schema and options do not go with
            one (kind `cdc-option`).
    """
    log = log or ChangeLog()
    if not source.is_change_log:
        raise _invalid(
            f"Files of format '{source.format}' are no change log; build_file_ingestion_asset "
            "takes them."
        )
    if options.get("schema_policy") == SchemaPolicy.SYNC:
        raise _invalid(
            f"Table {table}: the schema policy 'sync' would drop columns that a log does not "
            "name; use 'error', 'add' or 'widen'."
        )
    target = TableTarget.of(
        table, log.table_schema(schema), options, executor=executor, warehouse=warehouse
    )
    return define_intake(
        target,
        options,
        partial(ingest, source=source, make_run=partial(ChangeLogRun, log=log)),
        ChangeLogConfig,
        description=f"Changes of {source.format} files that land in a folder, exactly once each.",
        refused=FILES_HAVE_NOT,
    )


@dataclass(kw_only=True)
class ChangeLogRun(IngestionRun):
    """One run of the asset of a change log."""

    log: ChangeLog
    config: ChangeLogConfig = field(init=False)
    changes: ReadChanges | None = field(init=False, default=None)
    settled: Settled | None = field(init=False, default=None)
    positions: Positions | None = field(init=False, default=None)
    rejected: list[pa.Table] = field(init=False, default_factory=list)

    def choose_files(self, config: IngestConfig) -> None:
        """Choose the new files that the run ingests; of a reload all count as new."""
        assert isinstance(config, ChangeLogConfig)  # noqa: S101
        self.config = config
        if config.reload:
            ledger = Ledger(source=self.ledger.source, generation=self.ledger.generation)
            self.forget(ledger)
        super().choose_files(config)
        total = np.cumsum([file.size for file in self.files])
        if config.max_bytes > 0 and len(self.files) > 1:
            count = max(1, int(np.searchsorted(total, config.max_bytes, side="right")))
            self.files_left += len(self.files) - count
            self.files = self.files[:count]

    def write_once(self, bad: dict[str, PaimonError]) -> WriteOutcome | None:
        """Apply the files' changes; see `IngestionRun.write_once`."""
        self.check_table()
        self.rejected.clear()
        batches = self._read(bad)
        if bad:
            return None
        self._write_dead_letters()
        if not batches:
            described = _described(None, empties=self.config.reload)
            return self.commit(self._no_rows(), self.ledger.log, described)
        changes = ReadChanges(
            batches=batches, omitted=frozenset(self.log.omitted), metadata=self.log.metadata
        )
        self.changes = changes
        if self.log.on_drop == "refuse":
            changes.refuse_lost_tables(self.table.name)
        self.positions = positions_of(
            changes,
            LogHead.of(self.ledger.log),
            self.table.name,
            generation=self.ledger.generation + 1,
            accepted=self.config.new_log,
        )
        self._evolve(changes)
        changes = self.changes = replace(changes, expected=self._expected(changes))
        if self.log.history:
            return self._append(changes, self.positions)
        for _ in range(_MOST_TRIES - 1):
            try:
                return self._apply(changes, self.positions)
            except CommitConflictError as conflict:
                if conflict.kind != READ_CHANGED:
                    raise
                self.step.log.info("Stored rows are looked up again: %s", conflict.message)
        return self._apply(changes, self.positions)

    def check_table(self) -> None:
        """Refuse a table whose stored rows cannot be looked up."""
        if self.table.schema.bucket_mode is BucketMode.POSTPONE and not self.log.history:
            raise _invalid(
                f"Table '{self.table.name}' has postponed buckets, whose rows no read sees before "
                "a compaction: stored values could not be kept. Set 'bucket' to a number or to -1."
            )

    def _no_rows(self) -> pa.Table:
        return to_arrow_schema(self.table.schema.fields).empty_table()

    def _read(self, bad: dict[str, PaimonError]) -> list[ChangeBatch]:
        """Return the batches of all files, those without changes left out."""
        schema = self.table.schema
        known = SourceTable(
            keys=tuple(schema.primary_keys),
            columns={each.name: each.type for each in schema.fields},
        )
        options = replace(
            self.log.records,
            table_of=lambda name: known if self.log.takes(name) else None,
            on_rejected=self.rejected.append if self.log.dead_letters else None,
        )
        kind = cdc_format(self.source.format)
        batches: list[ChangeBatch] = []
        for path in self.paths:
            try:
                with naming(path, RowFormat.JSON):
                    stream = open_text_stream(self.landing.file_io, path, TextOptions())
                    with stream:
                        batches += changes_of(stream, path, kind, options)
            except (FormatError, InvalidInputError) as error:
                if not self.has_quarantine:
                    raise
                bad[path] = error
        used = [batch for batch in batches if len(batch) or batch.events]
        names = sorted({batch.name for batch in used})
        if len(names) > 1:
            raise _invalid(
                f"'{self.landing.folder}' has changes of several tables ({shorten(names)}); say "
                f"which one feeds table '{self.table.name}': ChangeLog(source_table=…)."
            )
        return used

    def _evolve(self, changes: ReadChanges) -> None:
        policy = self.target.schema_policy
        if policy is SchemaPolicy.ERROR:
            return
        widens = policy is SchemaPolicy.WIDEN
        planned = changes.schema_changes(self.table.schema, widens=widens)
        if planned:
            names = [name for change in planned for name in getattr(change, "field_names", ())]
            self.step.log.info("%s gets columns of its log: %s.", self.table.name, shorten(names))
            executor = self.paimon.new_executor(self.target.executor)
            self.table.alter_checked(planned, executor=executor)
            self.table.refresh()

    def _expected(self, changes: ReadChanges) -> Mapping[str, pa.DataType]:
        """Return the columns of the table that records should have."""
        if self.log.records.absent is AbsentValue.NULL:
            return {}
        own = {OP, POSITION, MISSING, self.log.soft_deletes, *changes.metadata, *changes.omitted}
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
        stored = _StoredRows(run=self)
        state = LogState() if empties else head.state
        if truncate:
            images = images.after(POSITION, truncate)
        look_up = stored.nothing if empties else stored
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
        if self.log.on_truncate == OnTruncate.REFUSE:
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

    def _write_dead_letters(self) -> None:
        """Keep records that could not be read; a file and line has one, however often it is read.

        They are written before the changes: a run that fails between is repeated.
        """
        if not self.rejected or self.log.dead_letters is None:
            return
        catalog, name = self.paimon.catalog(), identifier_of(self.log.dead_letters)
        catalog.create_database(name.database, ignore_if_exists=True)
        letters = catalog.create_table(name, DEAD_LETTERS, ignore_if_exists=True)
        rows = pa.concat_tables(self.rejected).cast(REJECTED_SCHEMA)
        letters.new_write_builder().write(rows)

    def metadata(self) -> Metadata:
        """Return the numbers of files, and how far the log is applied."""
        metadata = super().metadata()
        metadata["paimon/dead_letters"] = sum(map(len, self.rejected))
        if self.rejected:
            shown = pa.concat_tables(self.rejected).slice(0, 20)
            columns = ["file", "line", "reason"]
            metadata["paimon/dead_letters_shown"] = grid(shown.select(columns).to_pylist())
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
            metadata["paimon/lag_seconds"] = round(lag.total_seconds(), 3)
            metadata["paimon/newest_change"] = dg.TimestampMetadataValue(time.timestamp())
        if self.settled is not None:
            metadata["paimon/keys_looked_up"] = self.settled.looked_up
            metadata["paimon/keys_newer_already"] = self.settled.stale
        return metadata


@dataclass(kw_only=True)
class _StoredRows:
    """Rows of the table by key, as of one snapshot."""

    run: ChangeLogRun
    snapshot: Snapshot | None = None
    is_used: bool = False

    def __call__(self, keys: pa.Table, columns: Sequence[str]) -> pa.Table:
        """Return rows of these keys; see `change_fold.LookUp`."""
        run, names = self.run, self.run.table.schema.field_names
        wanted = [name for name in columns if name in names]
        read = (
            run.table.new_read_builder()
            .with_options({opt.DELETION_VECTORS_MERGE_ON_READ.key: "true"})  # level 0, too
            .with_columns([*keys.column_names, POSITION, *wanted])
            .with_filter(key_filter(keys))
        )
        plan = read.plan()
        self.snapshot, self.is_used = plan.snapshot, True
        executor = run.paimon.new_executor(run.target.executor)
        with read.read(plan, executor) as batches:
            return rows_of_keys(batches, keys)

    @staticmethod
    def nothing(keys: pa.Table, _: Sequence[str]) -> pa.Table:
        """Return no row: the table is emptied."""
        return keys.slice(0, 0).append_column(POSITION, pa.array([], pa.string()))


def _described(
    stored: _StoredRows | None, *, empties: bool
) -> Callable[[WriteBuilder], WriteBuilder]:
    """Return what a write is besides rows and ledger."""

    def describe(writer: WriteBuilder) -> WriteBuilder:
        if empties:
            writer = writer.with_overwrite({})
        if stored is not None and stored.is_used:
            writer = writer.with_condition(unchanged_since(writer.store, stored.snapshot))
        return writer

    return describe
