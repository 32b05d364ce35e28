"""Rows of any partitions and buckets into data files: the writer side of the data plane.

    batch → check → row kind → ignore → sequence field → route → buffer
    buffer full → largest routes → threads: sort, merge, encode → files → CommitMessages

Memory: rows buffered and rows being encoded together stay below `write-buffer-size`. Batches are
kept, not copied, until their bucket is written; then texts are joined once and 131,072 rows a
thread are gathered at a time. If anything fails, every file of this call is deleted.
Source: `org.apache.paimon.table.sink.TableWriteImpl`.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np
import pyarrow as pa

from paimon_assets.engine.codec.arrow.numpy_columns import from_numpy
from paimon_assets.engine.contract.commit_message import (
    CommitMessage,
    DataIncrement,
    WriteReport,
    WriteResult,
)
from paimon_assets.engine.contract.context import WriteContext
from paimon_assets.engine.data.key_value import key_value_fields
from paimon_assets.engine.data.merge.function import merge_function_of
from paimon_assets.engine.data.merge.records import Kinds
from paimon_assets.engine.data.sequence import field_to_long
from paimon_assets.engine.data.threads import CALLER_ONLY, Threads, Work
from paimon_assets.engine.data.write.bucket_writer import AppendOnlyWriter, BucketWriter
from paimon_assets.engine.data.write.buckets.key_assigner import BucketKeys
from paimon_assets.engine.data.write.buckets.routing import Routed, Router, router_of
from paimon_assets.engine.data.write.buckets.row_key_extractor import (
    RowBuckets,
    bucket_path,
    refuse_partition,
    total_buckets,
)
from paimon_assets.engine.data.write.file_kinds import changelog_schema, logs_input, postpone_schema
from paimon_assets.engine.data.write.files.rolling_file import FileFactory, RollingFile
from paimon_assets.engine.data.write.input_check import InputCheck
from paimon_assets.engine.data.write.merge_tree_writer import (
    MergeTreeWriter,
    PostponeBucketWriter,
    highest_stored,
)
from paimon_assets.engine.data.write.row_buffer import RoutedRows, RouteRows, Routes, RowBuffer
from paimon_assets.engine.data.write.row_kinds import (
    kept_rows,
    refuse_retracts,
    row_kinds,
    split_kinds,
)
from paimon_assets.engine.data.write.unfinished import delete_unfinished
from paimon_assets.engine.data.write.write_support import refuse_unwritable
from paimon_assets.engine.errors import PaimonError
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.merge.sequence_padding import PaddingConfig, padding_of
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.options.all_options import WRITE_BUFFER_SIZE
from paimon_assets.engine.spec.paths import POSTPONE_BUCKET
from paimon_assets.engine.spec.schema.schema import BucketMode

logger = logging.getLogger(__name__)

_BATCH_ROWS = 131_072
"""Larger batches are cut (without a copy), so that a buffer fills in small steps."""
_SEGMENTS = 2
"""An append buffer is handed over at this part of its size, so that two are encoded at once."""
_SMALL_BYTES = 1024 * 1024
_FEW_PARTS = 4
"""So little is written sooner than threads begin, unless each file waits for a far storage."""
_MAX_OPEN_FILES = 64
"""With more buckets than this, append files end with each flush instead of growing on."""

Run = Callable[[Callable[[], None]], Work[None]]


def write_rows(
    context: WriteContext,
    rows: Iterable[pa.RecordBatch],
    file_io: FileIO,
    known: Iterable[BucketKeys] = (),
    *,
    with_kinds_column: bool = False,
    threads: Threads = CALLER_ONLY,
) -> WriteResult:
    """Write rows of any partitions and buckets, in the order given."""
    write = _TableWrite(
        context=context,
        file_io=file_io,
        threads=threads,
        known=known,
        with_kinds_column=with_kinds_column,
    )
    return write.run(rows)


def write_bucket(
    context: WriteContext,
    target: tuple[bytes, int],
    rows: Iterable[pa.RecordBatch],
    file_io: FileIO,
    *,
    with_kinds_column: bool = False,
    threads: Threads = CALLER_ONLY,
) -> WriteResult:
    """Write rows that all belong to one bucket, in the order given; else like `write_rows`."""
    write = _TableWrite(
        context=context,
        file_io=file_io,
        threads=threads,
        target=target,
        with_kinds_column=with_kinds_column or context.schema.bucket_mode is BucketMode.KEY_DYNAMIC,
    )
    return write.run(rows)


@dataclass(slots=True, kw_only=True)
class _Route:
    """One bucket being written."""

    partition: bytes
    bucket: int
    path: str
    next_sequence: int
    writers: list[BucketWriter] = field(default_factory=list)
    """Their files, one after the other, hold the rows in order of arrival."""
    grows: bool = False
    """Whether the last writer takes further rows."""
    last: Work[None] | None = None
    """The newest work of the last writer; it must end before the next begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Flush:
    """Rows handed to the threads together."""

    total_bytes: int
    work: tuple[Work[None], ...]


@dataclass(kw_only=True)
class _TableWrite:
    """One call of `write_rows` or `write_bucket`."""

    context: WriteContext
    file_io: FileIO
    threads: Threads
    target: tuple[bytes, int] | None = None
    known: Iterable[BucketKeys] = ()
    with_kinds_column: bool = False
    """Rows come `with_kinds`; then none is ignored."""
    _router: Router = field(init=False)
    _factory: FileFactory = field(init=False)
    _changelog: FileFactory | None = field(init=False, default=None)
    _check: InputCheck = field(init=False)
    _padding: PaddingConfig | None = field(init=False)
    _buffer: RowBuffer = field(init=False, default_factory=RowBuffer)
    _routes: list[_Route] = field(init=False, default_factory=list)
    _route_ids: dict[tuple[bytes, int], int] = field(init=False, default_factory=dict)
    _in_flight: deque[_Flush] = field(init=False, default_factory=deque)
    _rows_in: int = field(init=False, default=0)
    _rows_ignored: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        """Refuse tables and options that cannot be written, before a row is read."""
        schema, table = self.context.schema, self.context.table
        refuse_unwritable(schema, table)
        self._padding = padding_of(schema)
        self._check = InputCheck(table=table, schema=schema)
        columns = key_value_fields(schema) if schema.has_primary_key else schema.fields
        self._factory = FileFactory(schema=schema, file_io=self.file_io, columns=columns)
        if schema.has_primary_key and logs_input(schema):
            self._changelog = replace(self._factory, schema=changelog_schema(schema))
        self._buffer_bytes = max(1, schema.typed_options.get(WRITE_BUFFER_SIZE))
        segments = 1 if schema.has_primary_key else _SEGMENTS
        self._flush_bytes = max(1, self._buffer_bytes // segments)
        self._router = router_of(self.context, self.file_io, self.target, self.known)

    def run(self, rows: Iterable[pa.RecordBatch]) -> WriteResult:
        """Write all rows; an error deletes the written files."""
        complete = False
        try:
            for given in rows:
                for batch in _cut(given):
                    self._accept(batch)
            self._flush(self._buffer.take_all())
            while self._in_flight:
                self._await_oldest()
            result = self._result()
            complete = True
        finally:
            for flush in self._in_flight:
                for work in flush.work:
                    work.stop()
            if not complete:
                self._delete_files()
        return result

    def _accept(self, batch: pa.RecordBatch) -> None:
        """Check and filter one batch, and send it on."""
        schema = self.context.schema
        kinds: Kinds | None
        if self.with_kinds_column:
            rows, kinds = split_kinds(batch)
            rows, kept = self._check.conform(rows), None
        else:
            rows = self._check.conform(batch)
            kinds = row_kinds(rows, schema)
            kept = kept_rows(kinds, schema)
        self._rows_in += rows.num_rows
        if kept is not None and kinds is not None:
            self._rows_ignored += int(len(kept) - kept.sum())
            rows, kinds = rows.filter(from_numpy(kept)), kinds[kept]
        refuse_retracts(kinds, schema)
        if rows.num_rows:
            for routed in self._router.route(rows, kinds):
                self._add(routed)

    def _add(self, routed: Routed) -> None:
        """Buffer rows whose bucket is known."""
        rows, sequence = routed.rows, None
        if self._padding is not None:
            source = self._padding.field
            keys = rows.select(list(self.context.schema.primary_keys))
            sequence = field_to_long(rows.column(source.name), source, keys)
        routes = self._routes_of(routed.row_buckets)
        self._make_room(rows.nbytes)
        table = pa.Table.from_batches([rows])
        self._buffer.add(
            RoutedRows(rows=table, routes=routes, kinds=routed.kinds, sequence=sequence)
        )
        if self._buffer.total_bytes >= self._flush_bytes:
            self._flush(self._buffer.take_largest(self.threads.count))

    def _routes_of(self, places: RowBuckets | None) -> Routes | None:
        if places is None:
            if self._router.only_bucket is not None:
                self._route_id(*self._router.only_bucket)
            return None
        lowest = min(0, int(places.buckets.min()))  # rows may wait in bucket -2
        width = int(places.buckets.max()) - lowest + 1
        codes = places.partition_ids.astype(np.int64) * width + places.buckets - lowest
        present = np.flatnonzero(np.bincount(codes))
        route_of = np.zeros(int(present[-1]) + 1, dtype=np.int32)
        for code in present.tolist():  # a step for each bucket of the batch
            partition = places.partitions[code // width]
            route_of[code] = self._route_id(partition, code % width + lowest)
        return route_of.take(codes)

    def _route_id(self, partition: bytes, bucket: int) -> int:
        found = self._route_ids.get((partition, bucket))
        if found is not None:
            return found
        refuse_partition(self.context, partition)
        state = self.context.states_by_bucket.get((partition, bucket))
        self._routes.append(
            _Route(
                partition=partition,
                bucket=bucket,
                path=bucket_path(self.context, partition, bucket),
                next_sequence=0 if state is None else state.max_sequence_number + 1,
            )
        )
        self._route_ids[partition, bucket] = len(self._routes) - 1
        return len(self._routes) - 1

    def _make_room(self, wanted_bytes: int) -> None:
        """Wait until `wanted_bytes` more stay within the write buffer, or nothing is encoded."""
        while self._in_flight:
            encoding = sum(flush.total_bytes for flush in self._in_flight)
            if encoding + self._buffer.total_bytes + wanted_bytes <= self._buffer_bytes:
                return
            self._await_oldest()

    def _await_oldest(self) -> None:
        for work in self._in_flight[0].work:
            work.result()
        self._in_flight.popleft()

    def _flush(self, parts: list[RouteRows]) -> None:
        """Hand rows to the threads."""
        if not parts:
            return
        total_bytes = sum(part.total_bytes for part in parts)
        logger.debug("flushing %d bytes of %d buckets", total_bytes, len(parts))
        few = _FEW_PARTS if self.file_io.spec.scheme == "file" else 1
        here = len(parts) <= few and total_bytes < _SMALL_BYTES
        run = _done if here else self.threads.submit
        work = tuple(self._write(self._routes[part.route], part, run) for part in parts)
        self._in_flight.append(_Flush(total_bytes=total_bytes, work=work))

    def _write(self, route: _Route, part: RouteRows, run: Run) -> Work[None]:
        keyed = self.context.schema.has_primary_key
        stands_alone = not keyed and part.total_bytes >= self._flush_bytes
        if stands_alone or not route.grows:
            route.writers.append(self._new_writer(route))
            route.last = None
        writer, before = route.writers[-1], route.last
        route.grows = not stands_alone
        route.next_sequence += part.row_count
        ends = stands_alone or len(self._routes) > _MAX_OPEN_FILES

        def write() -> None:
            if before is not None:
                before.result()
            writer.write(part)
            if ends:
                writer.files.roll()

        route.last = run(write)
        return route.last

    def _new_writer(self, route: _Route) -> BucketWriter:
        schema = self.context.schema
        if not schema.has_primary_key:
            files = RollingFile(factory=self._factory, bucket_path=route.path)
            return AppendOnlyWriter(files=files, next_sequence=route.next_sequence)
        if route.bucket == POSTPONE_BUCKET:
            files = self._sorted_files(self._postponed, route)
            return PostponeBucketWriter(schema=schema, files=files)
        state = self.context.states_by_bucket.get((route.partition, route.bucket))
        return MergeTreeWriter(
            schema=schema,
            files=self._sorted_files(self._factory, route),
            changelog=None
            if self._changelog is None
            else self._sorted_files(self._changelog, route),
            function=merge_function_of(schema, self.context.table),
            padding=self._padding,
            next_sequence=route.next_sequence,
            highest_stored=partial(
                highest_stored, () if state is None else state.files, route.path, self.file_io
            ),
        )

    @cached_property
    def _postponed(self) -> FileFactory:
        """How files of rows without a bucket are made."""
        return replace(self._factory, schema=postpone_schema(self.context.schema))

    def _sorted_files(self, factory: FileFactory, route: _Route) -> RollingFile:
        keys = factory.columns[: len(self.context.schema.key_fields)]
        names = tuple(column.name for column in keys)
        return RollingFile(factory=factory, bucket_path=route.path, key_columns=names)

    def _result(self) -> WriteResult:
        messages = []
        for route in self._routes:
            files = tuple(meta for writer in route.writers for meta in writer.finish())
            if files:
                messages.append(self._message(route, files))
        writers = [writer for route in self._routes for writer in route.writers]
        wraps = sum(each.sequence_wraps for each in writers if isinstance(each, MergeTreeWriter))
        if wraps:
            logger.warning(
                "table %s: %d rows share a second or millisecond with more rows than the padding "
                "can number; within it, some older rows win over newer ones",
                self.context.table,
                wraps,
            )
        report = WriteReport(
            rows_in=self._rows_in,
            rows_ignored=self._rows_ignored,
            rows_written=sum(writer.rows_written for writer in writers),
            sequence_wraps=wraps,
        )
        return WriteResult(messages=tuple(messages), report=report)

    def _message(self, route: _Route, files: tuple[DataFileMeta, ...]) -> CommitMessage:
        logs = tuple(meta for writer in route.writers for meta in writer.finish_changelog())
        new, replaced = self._router.index_files(route.partition, route.bucket)
        return CommitMessage(
            partition=route.partition,
            bucket=route.bucket,
            total_buckets=total_buckets(self.context, route.partition),
            data_increment=DataIncrement(
                new_files=files,
                changelog_files=logs,
                new_index_files=new,
                deleted_index_files=replaced,
            ),
            keys_known_at=self.context.keys_known_at,
        )

    def _delete_files(self) -> None:
        """Delete every file of this call; no commit names them yet."""
        for route in self._routes:
            for writer in route.writers:
                with suppress(PaimonError, OSError):  # the first error matters
                    writer.abort()
        paths = (*self._factory.paths, *self._router.paths)
        delete_unfinished(self.file_io, paths, self.context.table)


def _done(call: Callable[[], None]) -> Work[None]:
    """Work in this thread; its error is raised here."""
    work = Work(call)
    work.result()
    return work


def _cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Cut a large batch into smaller ones; an empty batch stays, its schema is checked."""
    for start in range(0, max(1, batch.num_rows), _BATCH_ROWS):
        yield batch.slice(start, _BATCH_ROWS)
