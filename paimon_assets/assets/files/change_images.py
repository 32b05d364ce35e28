"""The changes that one run reads, as images of a table's rows, ordered by their log.

    ChangeBatch, ChangeBatch, … ─▶ one table of images ─▶ columns that the table lacks ─▶ fold

A position is a text: the number of the log among those that the table has seen, then the log's own
numbers. Records without a position count in the order of files and lines.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_assets.engine.codec.arrow.numpy_columns import from_numpy
from paimon_assets.engine.data.cdc.change_batch import (
    LOG,
    ORIGIN_SCHEMA,
    POSITION_COLUMNS,
    ChangeBatch,
    EventKind,
)
from paimon_assets.engine.data.change_fold import Flags, Images, LogState, position_texts
from paimon_assets.engine.data.merge.records import Kinds
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.evolution.schema_change import (
    AddColumn,
    SchemaChange,
    UpdateColumnType,
)
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types.data_types import SHORT_TEXTS, DataField, RowKind
from paimon_assets.engine.spec.words import shorten
from paimon_assets.engine.table.schema_merging import is_wider

OP, POSITION = "_op", "_position"
"""Columns that a table fed by a log has beside its own: the row kind, and the position."""
BY_FILES = "order of files"
"""Name of a log whose records have no position."""
MISSING = "_missing"
"""Column of a history: names of the columns whose value did not arrive, joined by commas."""
_SOURCE = ("database", "schema", "table")
METADATA_TYPES: Mapping[str, str] = {
    **dict.fromkeys(_SOURCE, "STRING"),
    LOG: "STRING",
    "op_time": "TIMESTAMP(3) WITH LOCAL TIME ZONE",
    "file": "STRING",
    "line": "BIGINT",
}
"""What a record says of itself → its type; other names are texts of the format."""


@dataclass(frozen=True, kw_only=True)
class LogHead:
    """How far a table has applied its log; kept in the ledger."""

    logs: tuple[str, ...] = ()
    """Names of the logs, the oldest first; one without a name is empty."""
    state: LogState = field(default_factory=LogState)
    truncated: str = ""
    """Position of the last truncate that emptied the table."""

    @classmethod
    def of(cls, members: Mapping[str, Any]) -> "LogHead":
        """Parse what a ledger has."""
        state = LogState(**{key: str(text) for key, text in members.get("state", {}).items()})
        logs = tuple(map(str, members.get("logs", ())))
        return cls(logs=logs, state=state, truncated=str(members.get("truncated", "")))

    def members(self) -> Mapping[str, Any]:
        """Return what the ledger keeps."""
        state = {name: getattr(self.state, name) for name in ("high", "filled", "deleted")}
        return {"logs": [*self.logs], "state": state, "truncated": self.truncated}

    def with_log(self, table: str, name: str, *, accepted: bool) -> "LogHead":
        """Return the head that knows a log, too.

        Raises:
            InvalidInputError: Kind `cdc-log`: the table is fed by another one, and that the new one
                follows it was not `accepted`.
        """
        if name in self.logs or (self.logs and not name):
            return self
        if self.logs == ("",):  # whose name was not known
            return replace(self, logs=(name,))
        if self.logs and not accepted:
            raise InvalidInputError(
                f"Table '{table}' has applied the log '{self.logs[-1]}', and the files are of the "
                f"log '{name}': their positions cannot be compared. If the new log goes on where "
                "the old one ended, such as after a failover, run with new_log=true once; else "
                "load the table again with reload=true.",
                kind="cdc-log",
                details={"table": table, "log": name},
            )
        return replace(self, logs=(*self.logs, name))


@dataclass(frozen=True, kw_only=True)
class ReadChanges:
    """The changes of one source table that a run has read, in the order of files and lines."""

    batches: Sequence[ChangeBatch]
    omitted: frozenset[str] = frozenset()
    """Columns that are not taken."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """Column of the table → what of the record it holds."""
    expected: Mapping[str, Any] = field(default_factory=dict)
    """Column → Arrow type, of those whose values are missing where a record has no such member: all
    that are not inserted whole."""

    def __len__(self) -> int:
        return len(self.kinds)

    @property
    def name(self) -> str:
        """The source table's."""
        return self.batches[0].name

    @cached_property
    def rows(self) -> pa.Table:
        """The columns taken, and those of metadata.

        Raises:
            InvalidInputError: Kind `cdc-types`: a column has types that no type holds both of.
        """
        tables = [self._columns(batch) for batch in self.batches]
        names = {name for table in tables for name in table.column_names}
        lacking = {name: self.expected[name] for name in self.missing if name not in names}
        tables.append(pa.schema(lacking).empty_table())
        try:
            return pa.concat_tables(tables, promote_options="permissive")
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise InvalidInputError(
                f"The records of '{self.name}' hold a column in types that do not go together: "
                f"{error}. Ingest the files before the change of type in a run of their own.",
                kind="cdc-types",
                details={"table": self.name},
            ) from error

    def _columns(self, batch: ChangeBatch) -> pa.Table:
        rows = batch.rows.drop_columns([n for n in batch.rows.column_names if n in self.omitted])
        for column, what in self.metadata.items():
            rows = rows.append_column(column, _metadata(batch, what))
        return rows

    @cached_property
    def kinds(self) -> Kinds:
        """The row kind of each image."""
        return np.concatenate([batch.kinds for batch in self.batches]).astype(np.int8)

    @cached_property
    def missing(self) -> dict[str, Flags]:
        """Column → images whose value did not arrive."""
        names = {*self.expected}.union(*(batch.missing for batch in self.batches)) - self.omitted
        found = {
            name: np.concatenate([self._missing(batch, name) for batch in self.batches])
            for name in sorted(names)
        }
        return {name: flags for name, flags in found.items() if flags.any()}

    def _missing(self, batch: ChangeBatch, name: str) -> Flags:
        if name in batch.missing:
            return batch.missing[name]
        if name not in self.expected or name in batch.rows.column_names:
            return np.zeros(len(batch), dtype=np.bool_)
        return ~_inserted_whole(batch)

    @cached_property
    def origin(self) -> pa.Table:
        """Where the images come from."""
        return pa.concat_tables([batch.origin for batch in self.batches])

    def schema_changes(self, schema: TableSchema, *, widens: bool) -> list[SchemaChange]:
        """Return the changes by which a table gets the columns and types of the records.

        Columns in other types that are no wider stay; the writer checks every value.
        """
        fixed = {*schema.primary_keys, *schema.partition_keys, *schema.bucket_keys}
        known = {name: column.type for name, column in schema.by_name.items()}
        changes: list[SchemaChange] = []
        for column in self._fields():
            if column.name in self.omitted:
                continue
            have, wanted = known.get(column.name), replace(column.type, nullable=True)
            if have is None:
                changes.append(AddColumn(field_names=(column.name,), data_type=wanted))
            elif widens and column.name not in fixed and is_wider(have, wanted):
                changes.append(
                    UpdateColumnType(
                        field_names=(column.name,), new_data_type=wanted, keep_nullability=True
                    )
                )
            else:
                continue
            known[column.name] = wanted
        return changes

    def _fields(self) -> list[DataField]:
        """Return the columns of the records and of DDL events, in the order of the log."""
        columns: list[DataField] = []
        for batch in self.batches:
            for event in batch.events:
                columns += event.fields or ()
            columns += batch.fields
        return columns

    def truncates(self) -> "list[tuple[int, Mapping[str, Any]]]":
        """Return the truncates: (images before it, its origin)."""
        events = self._events({EventKind.TRUNCATE})
        return [(row, origin) for row, origin, _ in events]

    def refuse_lost_tables(self, table: str) -> None:
        """Refuse events after which the source table is another one, or none.

        Raises:
            InvalidInputError: Kind `cdc-event`.
        """
        for _, origin, statement in self._events({EventKind.DROP, EventKind.RENAME}):
            raise InvalidInputError(
                f"The source '{self.name}' of table '{table}' was dropped or renamed: "
                f"'{origin['file']}', line {origin['line']}"
                f"{f', {shorten([statement])}' if statement else ''}. Nothing was committed. Let "
                "the asset read the new name in a folder of its own, or say on_drop='ignore'.",
                kind="cdc-event",
                details={"table": table, "file": str(origin["file"])},
            )

    def _events(self, kinds: set[EventKind]) -> list[tuple[int, Mapping[str, Any], str | None]]:
        events: list[tuple[int, Mapping[str, Any], str | None]] = []
        start = 0
        for batch in self.batches:
            events += (
                (start + event.before_row, event.origin, event.statement)
                for event in batch.events
                if event.kind in kinds
            )
            start += len(batch)
        return events


def _inserted_whole(batch: ChangeBatch) -> Flags:
    """Return which rows are inserts, other than those of an update that changed the key."""
    inserts: Flags = batch.kinds == RowKind.INSERT
    lines = batch.origin["line"].to_numpy()
    follows = (batch.kinds[:-1] == RowKind.DELETE) & (np.diff(lines) == 0)
    inserts[1:] &= ~follows
    return inserts


def _metadata(batch: ChangeBatch, what: str) -> Any:
    if what in _SOURCE:
        value = getattr(batch, what)
        return pa.repeat(pa.scalar(value, pa.string()), len(batch))
    if what in ORIGIN_SCHEMA.names:
        return batch.origin[what]
    if what in batch.metadata.column_names:
        return batch.metadata[what]
    return pa.nulls(len(batch), pa.string())


@dataclass(frozen=True, kw_only=True)
class Positions:
    """Positions of images as texts, and those of truncates."""

    head: LogHead
    """Knows the logs of the images."""
    texts: Any
    truncates: tuple[str, ...]


def positions_of(
    changes: ReadChanges, head: LogHead, table: str, *, generation: int, accepted: bool
) -> Positions:
    """Return the positions of images, by the log or by arrival.

    Args:
        changes: The images.
        head: As the table has it.
        table: For messages.
        generation: Of the commit that will hold them.
        accepted: Whether a log that the table does not know follows those it does.

    Raises:
        InvalidInputError: Kind `cdc-log`, as `LogHead.with_log`; or `cdc-position`: only some have
            a position, or several new logs are mixed.
    """
    origin, truncates = changes.origin, changes.truncates()
    numbers = [origin[name].combine_chunks() for name in POSITION_COLUMNS]
    known = numbers[1].is_valid()
    events = [each for _, each in truncates]
    has_positions = bool(pc.any(known).as_py()) or any(
        each.get(POSITION_COLUMNS[1]) is not None for each in events
    )
    if not has_positions:
        head = head.with_log(table, BY_FILES, accepted=accepted)
        epoch = head.logs.index(BY_FILES)
        rows = 2 * np.arange(len(changes), dtype=np.int64) + 1
        starts = 2 * np.array([start for start, _ in truncates], dtype=np.int64)
        return Positions(
            head=head,
            texts=_by_arrival(epoch, generation, rows),
            truncates=tuple(_by_arrival(epoch, generation, starts).to_pylist()),
        )
    if not pc.all(known, min_count=0).as_py():
        row = int(np.flatnonzero(~known.to_numpy(zero_copy_only=False))[0])
        raise InvalidInputError(
            f"A change of '{changes.name}' has no position in its log, others have one: "
            f"'{origin['file'][row]}', line {origin['line'][row]}. Ingest files with and without "
            "positions by assets of their own.",
            kind="cdc-position",
            details={"table": table, "file": str(origin["file"][row])},
        )
    logs: Any = origin[LOG].combine_chunks()
    names = {*pc.unique(logs).to_pylist(), *(each.get(LOG) for each in events)} - {None}
    unknown = sorted(map(str, names - {*head.logs})) or [""]
    if len(unknown) > 1:
        raise InvalidInputError(
            f"Changes of '{changes.name}' come from several logs ({shorten(unknown)}), whose "
            "positions cannot be compared. Ingest the files of one log before those of the next.",
            kind="cdc-position",
            details={"table": table, "log": unknown[0]},
        )
    head = head.with_log(table, unknown[0], accepted=accepted)
    newest = len(head.logs) - 1  # such as a snapshot, whose log has no name
    texts: Any = position_texts(newest, _filled(numbers))
    for epoch, name in enumerate(head.logs[:newest]):
        is_own = pc.fill_null(pc.equal(logs, pa.scalar(name)), pa.scalar(value=False))
        texts = pc.if_else(is_own, position_texts(epoch, _filled(numbers)), texts)
    return Positions(
        head=head,
        texts=texts,
        truncates=tuple(
            position_texts(
                head.logs.index(str(each[LOG])) if each.get(LOG) else newest,
                _filled([pa.array([each.get(name)], pa.int64()) for name in POSITION_COLUMNS]),
            )[0].as_py()
            for each in events
        ),
    )


def _filled(numbers: Sequence[Any]) -> list[Any]:
    return [part.fill_null(0) for part in numbers]


def _by_arrival(epoch: int, generation: int, rows: Any) -> Any:
    count = pa.repeat(pa.scalar(generation, pa.int64()), len(rows))
    return position_texts(epoch, [count, pa.array(rows, pa.int64())])


def images_of(
    changes: ReadChanges, positions: Any, keys: Sequence[str], *, soft_deletes: str
) -> Images:
    """Return images to fold: without -U, with kind and position; deletes may be marks.

    Args:
        changes: What was read.
        positions: Texts.
        keys: Columns of the table's key.
        soft_deletes: Column that marks deleted rows, which stay; empty: they go.
    """
    kinds, rows = changes.kinds.copy(), changes.rows
    missing = dict(changes.missing)
    if soft_deletes:
        is_delete = kinds == RowKind.DELETE
        rows = rows.append_column(soft_deletes, from_numpy(is_delete))
        kinds[is_delete] = RowKind.UPDATE_AFTER
        others = [name for name in rows.column_names if name not in {*keys, *changes.metadata}]
        for name in others:
            flags = missing.get(name, np.zeros(len(kinds), dtype=bool))
            if name != soft_deletes and (is_delete | flags).any():
                missing[name] = flags | is_delete
    rows = with_log_columns(rows, kinds, positions)
    is_image = kinds != RowKind.UPDATE_BEFORE
    if not is_image.all():
        rows, kinds = rows.filter(from_numpy(is_image)), kinds[is_image]
        missing = {name: flags[is_image] for name, flags in missing.items()}
    return Images(rows=rows, kinds=kinds, missing=missing, stored=np.zeros(len(kinds), dtype=bool))


def with_log_columns(rows: pa.Table, kinds: Kinds, positions: Any) -> pa.Table:
    """Add the columns of the row kind and of the position.

    Raises:
        InvalidInputError: Kind `cdc-column`: the records have such a column.
    """
    for name in (OP, POSITION):
        if name in rows.column_names:
            raise InvalidInputError(
                f"The records have a column '{name}', which the table needs for the log. Leave it "
                "out (omitted).",
                kind="cdc-column",
                details={"column": name},
            )
    texts = pa.array([SHORT_TEXTS[kind] for kind in RowKind])
    return rows.append_column(OP, texts.take(from_numpy(kinds))).append_column(POSITION, positions)


def missing_names(changes: ReadChanges) -> Any:
    """Return, of each image, the names of the columns whose value did not arrive, or null."""
    joined: Any = pa.repeat(pa.scalar(""), len(changes))
    for name, flags in changes.missing.items():
        part = pc.if_else(from_numpy(flags), f"{name},", "")
        joined = pc.binary_join_element_wise(joined, part, "")
    is_none = pc.equal(joined, pa.scalar(""))
    return pc.if_else(is_none, pa.scalar(None, pa.string()), pc.utf8_rtrim(joined, ","))


_MOST_LISTED = 1000
"""So many keys are listed in a filter; of more, their range."""
_FILTERED = (
    pa.types.is_integer,
    pa.types.is_string,
    pa.types.is_date,
    pa.types.is_decimal,
    pa.types.is_timestamp,
)
"""Types of keys that a filter compares; rows are compared whole afterwards."""


def key_filter(keys: pa.Table) -> Any:
    """Return a filter of pyarrow that rows with these keys pass; None if there is none."""
    parts = []
    for name in keys.column_names:
        values: Any = keys[name].unique()
        if not any(is_filtered(values.type) for is_filtered in _FILTERED):
            continue
        if len(values) <= _MOST_LISTED:
            parts.append(pc.field(name).isin(values))
            continue
        ends: Any = pc.min_max(values)
        parts.append((pc.field(name) >= ends["min"]) & (pc.field(name) <= ends["max"]))
    result = None
    for part in parts:
        result = part if result is None else result & part
    return result


def rows_of_keys(batches: pa.RecordBatchReader, keys: pa.Table) -> pa.Table:
    """Return the rows that have one of these keys; one batch and the result are in memory."""
    names, found = keys.column_names, []
    wanted = pa.Table.from_arrays(
        [keys[name].cast(batches.schema.field(name).type) for name in names], names=names
    )
    for batch in batches:
        numbered = pa.Table.from_batches([batch]).select(names)
        numbered = numbered.append_column("__row", pa.array(np.arange(batch.num_rows)))
        rows = numbered.join(wanted, keys=names, join_type="left semi")["__row"]
        if len(rows):
            found.append(batch.take(rows.combine_chunks()))
    return pa.Table.from_batches(found, batches.schema)
