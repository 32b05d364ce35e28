"""A range of offsets → rows of the table, and a report: one task's part of a run.

    fetch ─▶ changes ─▶ images ─┬─ keys all of whose values arrived ─▶ rows, folded
                                └─ other keys ─▶ their images, in the report
    columns, counts, states, rejected records ─▶ the report

All changes of a key are in one partition, so that a range is folded by itself. The driver has all
reports, and decides about the table's schema and rows that have to be looked up.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from paimon_assets.cdc.fold import change_images
from paimon_assets.cdc.fold.change_fold import Images, LogState, settle, split
from paimon_assets.cdc.fold.log_positions import SeenSchema, arrival_positions, seen_schemas
from paimon_assets.cdc.fold.record_columns import LogRows, as_stored
from paimon_assets.cdc.fold.topic_changes import TopicChanges
from paimon_assets.cdc.fold.type_changes import as_table_has, fitting
from paimon_assets.cdc.kafka.fetching import fetch
from paimon_assets.cdc.kafka.topics import Client, OffsetRange
from paimon_assets.cdc.records.change_batch import ChangeBatch
from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema
from paimon_assets.engine.codec.arrow.numpy_columns import from_numpy, to_numpy
from paimon_assets.engine.contract.wire import dump_error
from paimon_assets.engine.contract.write_tasks import dump_rows
from paimon_assets.engine.data.write.input_check import InputCheck
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types.data_types import RowKind
from paimon_assets.engine.spec.values import Value

_NOTHING = LogState()
_KIND, _GAP = "__kind", "__missing."
"""Columns of images as a file of Arrow's, beside their own."""


class LogNumbers(Value):
    """Counts of the changes that a run applied."""

    kinds: tuple[int, ...] = (0,) * len(RowKind)
    """Images by their row kinds."""
    newest: str = ""
    """The highest position."""
    changed_ms: int | None = None
    """When the source made the newest change."""

    @classmethod
    def of(cls, changes: change_images.ReadChanges, positions: Any) -> "LogNumbers":
        """Count images, whose positions are texts."""
        changed: Any = pc.max(changes.origin["op_time"])
        return cls(
            kinds=tuple(np.bincount(changes.kinds, minlength=len(RowKind)).tolist()),
            newest=pc.max(positions).as_py() or "",
            changed_ms=changed.value,
        )

    @classmethod
    def total(cls, parts: Sequence["LogNumbers"]) -> "LogNumbers":
        """Return the numbers of several parts of a log."""
        times = [each.changed_ms for each in parts if each.changed_ms is not None]
        return cls(
            kinds=tuple(map(sum, zip(*(each.kinds for each in parts), strict=True))),
            newest=max(each.newest for each in parts),
            changed_ms=max(times, default=None),
        )


class RangeReport(Struct, kw_only=True):
    """The report of a task on its range."""

    range: OffsetRange
    """As it was read."""
    sent_ms: tuple[int, int] | None
    """See `Fetched`."""
    names: tuple[str, ...] = ()
    """Source tables that have changes."""
    has_events: bool = False
    """Whether something happened to a whole table; then there are no rows."""
    schemas: tuple[SeenSchema, ...] = ()
    numbers: LogNumbers | None = None
    state: LogState = _NOTHING
    """Of the rows."""
    images: bytes | None = None
    """Those of keys that need a look-up; see `unpacked_images`."""
    rejected: bytes | None = None
    """Records that cannot be read, of `REJECTED_SCHEMA`; see `unpacked`."""
    error: bytes | None = None
    """Why rows do not fit the table as it is."""


class RangeReading(Value):
    """Reads ranges for one run."""

    client: Client
    topics: TopicChanges
    log: LogRows
    table: str
    schema: TableSchema
    epoch: int
    """Number of the order of arrival among the table's logs."""
    generation: int
    """Of the commit that will hold the rows."""
    gone: frozenset[str]
    """Columns that the source has no more."""
    columns: frozenset[str]
    """Columns that it has, as far as the ledger knows."""
    dropped: Mapping[str, str]
    """See `LogHead.dropped`."""
    plain: frozenset[str]
    """See `SourceTable.plain`."""
    max_bytes: int
    """Of a range; see `fetch`."""
    keeps_rejected: bool
    empties: bool
    """Whether the table is emptied before the rows."""

    def read(self, span: OffsetRange, first: int) -> tuple[Sequence[pa.RecordBatch], RangeReport]:
        """Return the rows of a range, whose positions count from `first`, and its report.

        Raises:
            PaimonError: As `fetch` and `TopicChanges.of`.
        """
        [fetched] = fetch(self.client, [span], max_bytes=self.max_bytes, has_headers=True)
        rejected: list[pa.Table] = []
        on_rejected = rejected.append if self.keeps_rejected else None
        options = self.log.options(self.schema, on_rejected, self.plain)
        used = [each for each in self.topics.of(fetched, options) if len(each) or each.events]
        report = RangeReport(
            range=fetched.range,
            sent_ms=fetched.sent_ms,
            names=tuple(sorted({each.name for each in used})),
            has_events=any(each.events for each in used),
            rejected=_pack_rows(pa.concat_tables(rejected)) if rejected else None,
        )
        if not used or report.has_events or len(report.names) > 1:
            return (), report
        try:
            return self._rows(used, first, report), report
        except InvalidInputError as error:  # perhaps the schema changes first
            report.error = dump_error(error)
            return (), report

    def _rows(
        self, batches: Sequence[ChangeBatch], first: int, report: RangeReport
    ) -> list[pa.RecordBatch]:
        """Return rows, and fill the report with their counts and states."""
        keys, marks = self.schema.primary_keys, self.log.soft_deletes
        stored = [as_stored(each, self.log, keys) for each in batches]
        changes = self.log.changes(stored, self.schema, self.gone)
        positions = arrival_positions(changes.origin, self.epoch, self.generation, first)
        seen = report.schemas = tuple(seen_schemas(stored, positions))
        stored = as_table_has(stored, positions, seen, self.schema, self.dropped, self.plain)
        changes = self.log.changes(stored, self.schema, self.gone, self.columns)
        report.numbers = LogNumbers.of(changes, positions)
        if self.log.history:
            report.state = LogState(high=report.numbers.newest)
            rows = history_rows(changes, positions, self.table)
            return conform(rows, self.table, self.schema)
        images = change_images.images_of(changes, positions, keys, soft_deletes=marks)
        own, incomplete = split(images, keys, change_images.POSITION, marks)
        settled = settle(own, keys, change_images.POSITION, LogState(), _no_look_up, marks=marks)
        report.state = settled.state
        report.images = packed_images(incomplete) if len(incomplete.kinds) else None
        rows = fitting(settled.rows, self.table)
        if self.empties:
            rows = rows.filter(from_numpy(settled.kinds != RowKind.DELETE))
        return conform(rows, self.table, self.schema)


def conform(rows: pa.Table, table: str, schema: TableSchema) -> list[pa.RecordBatch]:
    """Return rows in the types of a table; raises as `InputCheck.conform`."""
    check = InputCheck(table=table, schema=schema)
    return [check.conform(batch) for batch in rows.to_batches() if batch.num_rows]


def history_rows(changes: change_images.ReadChanges, positions: Any, table: str) -> pa.Table:
    """Return all images, with the metadata columns of a history; raises as `fitting`."""
    rows = change_images.with_log_columns(fitting(changes.rows, table), changes.kinds, positions)
    return rows.append_column(change_images.MISSING, change_images.missing_names(changes))


def _no_look_up(keys: pa.Table, _: Sequence[str]) -> pa.Table:
    raise AssertionError(f"rows of {len(keys)} keys would have to be looked up")


def packed_images(images: Images) -> bytes:
    """Encode images; none of them is stored."""
    rows = images.rows.append_column(_KIND, from_numpy(images.kinds))
    for name, flags in images.missing.items():
        rows = rows.append_column(f"{_GAP}{name}", from_numpy(flags))
    return _pack_rows(rows)


def unpack_rows(parts: Iterable[bytes | None]) -> list[pa.Table]:
    """Return the tables that reports hold; None is none."""
    return [pa.ipc.open_stream(part).read_all() for part in parts if part is not None]


def unpacked_images(parts: Iterable[bytes | None], schema: TableSchema, source: str) -> Images:
    """Return the images that `packed_images` has encoded; raises as `joined`."""
    nothing = to_arrow_schema(schema.fields).append(pa.field(_KIND, pa.int8())).empty_table()
    rows = change_images.join_images(unpack_rows(parts) or [nothing], source)
    kinds = to_numpy(rows[_KIND].combine_chunks()).astype(np.int8)
    missing: Mapping[str, Any] = {
        name.removeprefix(_GAP): to_numpy(rows[name].combine_chunks().fill_null(False))  # noqa: FBT003
        for name in rows.column_names
        if name.startswith(_GAP)
    }
    own = [name for name in rows.column_names if name != _KIND and not name.startswith(_GAP)]
    none = np.zeros(len(kinds), dtype=np.bool_)
    return Images(rows=rows.select(own), kinds=kinds, missing=missing, stored=none, in_commits=none)


def _pack_rows(rows: pa.Table) -> bytes:
    return dump_rows(rows, compression="lz4")
