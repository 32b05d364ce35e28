"""The buffer of rows to write, of all buckets together, and the writers of one bucket.

Batches are buffered without a copy, each row with its route, a small number for its (partition,
bucket). Rows are gathered once, when their route is flushed. Writers are those of tables without
primary key, with one, and of postponed rows.

With a primary key:

    rows in order of arrival
      → _SEQUENCE_NUMBER (counter, or padded sequence field, above the bucket's stored numbers)
      → sort by key, then sequence fields, then number
      → merge function of the table: one row of each key, even if it retracts
      → one sorted run of files, each key once
    with changelog-producer = input, also every row, sorted but not merged, in changelog files

Source: `org.apache.paimon.utils.RecordWriter`, `org.apache.paimon.append.AppendOnlyWriter`,
`org.apache.paimon.mergetree.MergeTreeWriter`, `org.apache.paimon.postpone.PostponeBucketWriter`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct, field
from msgspec.structs import replace

from paimon_assets.engine.codec.arrow.numpy_columns import Longs, from_numpy, to_numpy
from paimon_assets.engine.contract.context import NumberedFile
from paimon_assets.engine.data.format.formats import open_reader
from paimon_assets.engine.data.key_order import KeyOrder, order_within_groups, sort_keys
from paimon_assets.engine.data.sequence import HighestStored, UnitCounter, WrapCounter, pad
from paimon_assets.engine.data.write.rolling_file import RollingFile
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.merge.sequence_padding import PaddingConfig
from paimon_assets.engine.spec.options.all_options import (
    SEQUENCE_FIELD,
    SEQUENCE_SORT_ORDER,
    SortOrder,
)
from paimon_assets.engine.spec.predicate.predicate import And, CompareOp, Comparison
from paimon_assets.engine.spec.schema.schema import SEQUENCE_NUMBER
from paimon_assets.engine.spec.values import Value

if TYPE_CHECKING:
    from paimon_assets.engine.data.merge.records import Kinds, MergeFunction


Rows = npt.NDArray[np.int64]
Routes = npt.NDArray[np.int32]
_CHUNK_ROWS = 32_768
"""Rows of a chunk, at least, unless chunks are joined."""
_MAX_OFFSET = 2**31 - 1
"""Bytes of values that 32-bit offsets can address."""


class RoutedRows(Value):
    """Rows of the table with route, kind and sequence number."""

    rows: pa.Table
    """In the table's columns."""
    routes: Routes | None
    """Row → route; None if all rows have route 0."""
    kinds: Kinds | None
    """Row → `_VALUE_KIND`; None if every row is +I."""
    sequence: Longs | None
    """Row → sequence field as a number; None unless the table pads it."""


class RouteRows(Value):
    """The rows of one route within some routed rows, in order of arrival."""

    route: int
    source: RoutedRows
    positions: Rows | None
    """Row numbers in `source`; None is every row."""
    total_bytes: int
    """Their share of the bytes of `source`."""

    @property
    def row_count(self) -> int:
        return self.source.rows.num_rows if self.positions is None else len(self.positions)

    def column(self, name: str) -> Any:
        column: Any = self.source.rows.column(name)
        return column if self.positions is None else column.take(from_numpy(self.positions))

    def kinds(self) -> Kinds:
        kinds = self.source.kinds
        if kinds is None:
            return np.zeros(self.row_count, dtype=np.int8)
        return kinds if self.positions is None else kinds[self.positions]

    def sequence(self) -> Longs:
        """Gather the sequence field's numbers of these rows; only where the table pads it."""
        numbers = self.source.sequence
        if numbers is None:
            raise ValueError("the rows were buffered without their sequence field")
        return numbers if self.positions is None else numbers[self.positions]

    def slices(self, step: int) -> Iterator[pa.Table]:
        """Yield the rows in order of arrival, `step` at a time; views where nothing moves."""
        for start in range(0, self.row_count, step):
            if self.positions is None:
                yield self.source.rows.slice(start, step)
            else:
                yield _gather(self.source.rows, self.positions[start : start + step])

    def in_order(self, order: Rows, step: int) -> Iterator[tuple[Rows, pa.Table]]:
        """Gather some of these rows in another order, `step` at a time."""
        rows = _with_few_chunks(self.source.rows)
        for start in range(0, len(order), step):
            part = order[start : start + step]
            yield part, _gather(rows, part if self.positions is None else self.positions[part])


def _gather(rows: pa.Table, positions: Rows) -> pa.Table:
    """Take rows from each chunk by itself: Arrow joins all chunks of a column for every take."""
    chunks, order = rows.to_batches(), positions
    if len(chunks) > 1:
        ends = np.cumsum([chunk.num_rows for chunk in chunks])
        narrow = np.min_scalar_type(len(chunks))  # 16 bits are sorted by radix
        numbers = np.searchsorted(ends, positions, side="right").astype(narrow)
        by_chunk = np.argsort(numbers, kind="stable")
        parts = np.split(positions[by_chunk], np.cumsum(np.bincount(numbers))[:-1])
        starts = ends - [chunk.num_rows for chunk in chunks]
        chunks = [
            chunk.take(from_numpy(part - start))
            for chunk, part, start in zip(chunks, parts, starts, strict=False)
            if len(part)
        ]
        rows = pa.Table.from_batches(chunks, rows.schema)
        order = np.empty_like(by_chunk)
        order[by_chunk] = np.arange(len(order))
    indices = from_numpy(order)
    columns: list[Any] = [column.take(indices) for column in rows.columns]
    return pa.Table.from_arrays(columns, schema=rows.schema)


class RowBuffer(Struct):
    """Collects routed rows, and flushes the routes with most rows."""

    total_bytes: int = 0
    row_count: int = 0
    _parts: list[RoutedRows] = field(default_factory=list)

    def add(self, part: RoutedRows) -> None:
        if part.rows.num_rows:
            self._parts.append(part)
            self.row_count += part.rows.num_rows
            self.total_bytes += part.rows.nbytes

    def take(self, at_once: int | None = None) -> list[RouteRows]:
        """Remove and return the rows by route.

        With `at_once`, of the routes with most rows: at least half of the rows, and up to
        `at_once` routes of about the same size.
        """
        if not self._parts:
            return []
        whole = _concatenate(self._parts)
        row_bytes = self.total_bytes / self.row_count
        self._parts, self.total_bytes, self.row_count = [], 0, 0
        if whole.routes is None:
            total = round(row_bytes * whole.rows.num_rows)
            return [RouteRows(route=0, source=whole, positions=None, total_bytes=total)]
        # Rows of a route are one stretch of `order`, in order of arrival; a route is taken as a
        # whole.
        counts = np.bincount(whole.routes)
        routes = np.flatnonzero(counts)
        if at_once is not None:
            by_size = np.argsort(-counts, kind="stable")
            half = int(np.searchsorted(np.cumsum(counts[by_size]), counts.sum() / 2)) + 1
            even = int(np.count_nonzero(counts * 2 >= counts.max()))
            routes = by_size[: max(half, min(even, at_once))]
            stays = np.ones(len(counts), dtype=np.bool_)
            stays[routes] = False
            if stays[counts > 0].any():
                mask = stays[whole.routes]
                self.add(
                    RoutedRows(
                        rows=whole.rows.filter(from_numpy(mask)),
                        routes=whole.routes[mask],
                        kinds=None if whole.kinds is None else whole.kinds[mask],
                        sequence=None if whole.sequence is None else whole.sequence[mask],
                    )
                )
        # numpy sorts 16-bit numbers by radix: ten times faster than wider ones.
        is_narrow = len(counts) <= np.iinfo(np.uint16).max
        order = np.argsort(
            whole.routes.astype(np.uint16) if is_narrow else whole.routes, kind="stable"
        )
        whole = replace(whole, rows=_with_few_chunks(whole.rows), routes=None)
        ends = np.cumsum(counts)
        return [
            RouteRows(
                route=route,
                source=whole,
                positions=order[ends[route] - counts[route] : ends[route]],
                total_bytes=round(row_bytes * counts[route]),
            )
            for route in routes.tolist()
        ]


def _with_few_chunks(rows: pa.Table) -> pa.Table:
    """Join chunks, column by column, if they are small: each gather takes from all of them."""
    for position, column in enumerate(rows.columns):
        # A longer column stays in chunks.
        if column.num_chunks * _CHUNK_ROWS > len(column) and column.nbytes < _MAX_OFFSET:
            rows = rows.set_column(position, rows.field(position), column.combine_chunks())
    return rows


def _concatenate(parts: Sequence[RoutedRows]) -> RoutedRows:
    if len(parts) == 1:
        return parts[0]
    kinds = [part.kinds for part in parts]
    routes = [part.routes for part in parts if part.routes is not None]
    sequences = [part.sequence for part in parts if part.sequence is not None]
    all_kinds = None
    if any(each is not None for each in kinds):
        all_kinds = np.concatenate(
            [
                np.zeros(part.rows.num_rows, dtype=np.int8) if each is None else each
                for part, each in zip(parts, kinds, strict=True)
            ]
        )
    return RoutedRows(
        rows=pa.concat_tables([part.rows for part in parts]),
        routes=np.concatenate(routes) if routes else None,
        kinds=all_kinds,
        sequence=np.concatenate(sequences) if sequences else None,
    )


_UNKNOWN_SEQUENCE = -1
_ROWS_LOOKED_UP = 131_072
"""Numbers decoded at a time."""


class BucketWriter(Struct, kw_only=True):
    files: RollingFile
    changelog: RollingFile | None = None
    """Takes every row as it came; None if the table keeps no changelog of its input."""
    rows_written: int = 0
    sequence_wraps: int = 0

    @abstractmethod
    def write(self, part: RouteRows) -> None:
        """Write rows, in order of arrival."""

    def step(self, part: RouteRows) -> int:
        """Return how many of the rows to encode at once."""
        return self.files.factory.rows_at_once(part.row_count, part.total_bytes)

    def abort(self) -> None:
        """Close open files unfinished."""
        self.files.abort()
        if self.changelog is not None:
            self.changelog.abort()


class AppendOnlyWriter(BucketWriter, kw_only=True):
    """Writes rows in order of arrival, within and across its files."""

    next_sequence: int
    """Number of the next row; append files count their rows."""

    def write(self, part: RouteRows) -> None:
        for rows in part.slices(self.step(part)):
            self.files.write_rows(rows, self.next_sequence)
            self.next_sequence += rows.num_rows
            self.rows_written += rows.num_rows


class PostponeBucketWriter(BucketWriter, kw_only=True):
    """Writer of rows that wait for a compaction to give them a bucket: as they come, with kinds.

    Their number is unknown (-1): the compaction replays them, file by file, and numbers them.
    """

    def write(self, part: RouteRows) -> None:
        kinds, start = part.kinds(), 0
        for rows in part.slices(self.step(part)):
            numbers = np.full(rows.num_rows, _UNKNOWN_SEQUENCE, dtype=np.int64)
            self.files.write_records(rows, numbers, kinds[start : start + rows.num_rows])
            start += rows.num_rows
        self.rows_written += start


class MergeTreeWriter(BucketWriter, kw_only=True):
    """Writer of one bucket; every `write` makes one sorted run of level 0."""

    function: MergeFunction
    padding: PaddingConfig | None
    """How sequence numbers are made; None is the plain counter."""
    next_sequence: int
    highest_stored: HighestStored
    """Asks the bucket's live files for the numbers that padding continues."""
    _counter: UnitCounter | WrapCounter | None = None
    """Of padding that counts."""

    def __post_init__(self) -> None:
        padding = self.padding
        if padding is not None and padding.counts_units:
            self._counter = UnitCounter(config=padding, highest_stored=self.highest_stored)
        elif padding is not None and padding.has_counter:
            self._counter = WrapCounter(config=padding)

    def write(self, part: RouteRows) -> None:
        """Write rows, in order of arrival, as files that hold every key once.

        Cost:
            A sort of the keys and one gather of every column; memory for a few hundred thousand
            gathered rows beside 32 bytes a row.
        """
        kinds, first, step = part.kinds(), self.next_sequence, self.step(part)
        self.next_sequence += part.row_count
        padded = None if self.padding is None else self._pad(part, kinds, first, self.padding)
        numbers: Callable[[Rows], Longs] = (
            partial(np.add, first) if padded is None else padded.__getitem__
        )
        by_key = self._by_key(part, padded)
        if self.changelog is not None:
            for rows, table in part.in_order(by_key.order, step):
                self.changelog.write_records(table, numbers(rows), kinds[rows])
            self.changelog.roll()
        for rows, table, row_kinds in self._merge(part, by_key, kinds, step):
            self.files.write_records(table, numbers(rows), row_kinds)
            self.rows_written += len(rows)
        self.files.roll()

    def _merge(
        self, part: RouteRows, by_key: KeyOrder, kinds: Kinds, step: int
    ) -> Iterator[tuple[Rows, pa.Table, Kinds]]:
        """Yield merged rows: the numbers of their newest records, the rows, their kinds."""
        from paimon_assets.engine.data.merge.deduplicate import Deduplicate

        if isinstance(self.function, Deduplicate):
            # The newest rows are gathered from the buffer itself, without a copy of its columns.
            from paimon_assets.engine.data.merge.deduplicate import newest_rows

            for rows, table in part.in_order(newest_rows(by_key), step):
                yield rows, table, kinds[rows]
            return
        schema = part.source.rows.schema
        columns: dict[str, Any] = {}
        for name in schema.names:
            column = part.column(name)
            is_chunked = isinstance(column, pa.ChunkedArray)
            columns[name] = column.combine_chunks() if is_chunked else column
        from paimon_assets.engine.data.merge.records import Records

        records = Records(
            by_key=by_key, kinds=kinds, columns=schema.names, column=columns.__getitem__
        )
        from paimon_assets.engine.data.merge.sort_merge import merge_sorted

        for merged, gathered in merge_sorted(records, self.function, rows_at_once=step):
            table = pa.Table.from_arrays(gathered, schema=schema)
            row_kinds = merged.kinds
            if row_kinds is None:
                row_kinds = np.zeros(len(merged.newest), dtype=np.int8)
            yield merged.newest, table, row_kinds

    def _pad(self, part: RouteRows, kinds: Kinds, first: int, padding: PaddingConfig) -> Longs:
        """Return the padded sequence numbers, and count those that wrapped."""
        from paimon_assets.engine.data.merge.records import adds

        values, is_add, wraps = part.sequence(), adds(kinds), 0
        counters = np.arange(first, first + part.row_count, dtype=np.int64)
        if isinstance(self._counter, UnitCounter):
            counters, wraps = self._counter.count(values, is_add)
        elif self._counter is not None:
            wraps = self._counter.count(values, counters, is_add)
        self.sequence_wraps += wraps
        return pad(values, counters, is_add, config=padding)

    def _by_key(self, part: RouteRows, padded: Longs | None) -> KeyOrder:
        """Return the rows in key order, within a key from the oldest to the newest."""
        schema = self.files.factory.schema
        by_key = sort_keys([part.column(name) for name in schema.trimmed_primary_keys])
        if by_key.starts.all():
            return by_key
        then: list[Any] = [part.column(name) for name in schema.typed_options.get(SEQUENCE_FIELD)]
        # Plain counters rise with arrival, which the stable sort keeps already.
        if padded is not None:
            then.append(padded)
            if self._counter is not None:
                # Only a wrapped counter repeats a number: the row before the wrap was meant higher.
                then.append(np.arange(len(padded), 0, -1))
        if not then:
            return by_key
        descending = schema.typed_options.get(SEQUENCE_SORT_ORDER) is SortOrder.DESCENDING
        order = order_within_groups(by_key, then, descending=descending)
        return KeyOrder(order=order, starts=by_key.starts)


def highest_stored(
    files: Iterable[NumberedFile], folder: str, file_io: FileIO, lowest: Longs, highest: Longs
) -> Longs:
    """Return the highest stored number in each of some ranges; see `HighestStored`.

    `files` are the live ones of a bucket, `folder` is its own; ranges are ascending and do not
    overlap. A file may be gone (`NotFoundError`), because its snapshot has expired meanwhile.

    Cost:
        Reads one column of each file with a range that does not hold the file's largest number.
    """
    name = SEQUENCE_NUMBER.name
    # The file is read for the ranges `start` to `end` - 1; the range of its largest number needs no
    # read.
    stored = np.full(len(lowest), np.iinfo(np.int64).min)
    for file in files:
        start = int(np.searchsorted(highest, file.min_sequence_number))
        end = int(np.searchsorted(lowest, file.max_sequence_number, side="right"))
        if start < end and highest[end - 1] >= file.max_sequence_number:
            end -= 1
            stored[end] = max(stored[end], file.max_sequence_number)
        if start >= end:
            continue
        path = file.location if "/" in file.location else f"{folder}/{file.location}"
        bounds = (
            Comparison(name, CompareOp.GE, int(lowest[start])),
            Comparison(name, CompareOp.LE, int(highest[end - 1])),
        )
        with open_reader(
            file_io, path, file_format=file.file_format, file_bytes=file.file_size
        ) as reader:
            for batch in reader.batches([name], predicate=And(bounds), batch_rows=_ROWS_LOOKED_UP):
                numbers: Longs = to_numpy(batch.column(name))
                ranges = np.searchsorted(lowest, numbers, side="right") - 1
                inside = (ranges >= start) & (ranges < end) & (numbers <= highest[ranges])
                np.maximum.at(stored, ranges[inside], numbers[inside])
    return stored
