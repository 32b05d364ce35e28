"""Rows of any partitions and buckets into data files: the writer side of the data plane.

    batch → check → row kind → ignore → sequence field → route → buffer
    buffer full → largest routes → threads: sort, merge, encode → files → CommitMessages

Memory: rows buffered and rows being encoded together stay below `write-buffer-size`, below half of
it where rows need no key and have one bucket. Batches are kept, not copied, until their bucket is
written; then texts are joined once and 131,072 rows a thread are gathered at a time. If anything
fails, every file of this call is deleted.
Source: `org.apache.paimon.table.sink.TableWriteImpl`, subclasses of `RowKeyExtractor`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from msgspec import Struct, field
from msgspec.structs import replace

from paimon_assets.engine.contract import commit_message
from paimon_assets.engine.contract.context import WriteContext
from paimon_assets.engine.data.sequence import field_to_long
from paimon_assets.engine.data.threads import CALLER_ONLY, Threads, Work
from paimon_assets.engine.data.write import bucket_writer, input_check, row_key_extractor
from paimon_assets.engine.data.write.rolling_file import FileFactory, RollingFile, delete_unfinished
from paimon_assets.engine.data.write.write_support import (
    changelog_schema,
    postpone_schema,
    refuse_unwritable,
)
from paimon_assets.engine.errors import PaimonError
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.merge.sequence_padding import padding_of
from paimon_assets.engine.spec.metadata.data_file import EMPTY_ROW
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.paths import POSTPONE_BUCKET
from paimon_assets.engine.spec.schema.schema import BucketMode

if TYPE_CHECKING:
    from paimon_assets.engine.data.merge.records import Kinds
    from paimon_assets.engine.data.write.dynamic_buckets import HashBucketAssigner, HashIndexWriter
    from paimon_assets.engine.data.write.moving_keys import BucketKeys, KeyAssigner


logger = logging.getLogger(__name__)

_BATCH_ROWS = 131_072
"""Larger batches are cut (without a copy), so that a buffer fills in small steps."""
_SEGMENTS, _PIECES = 2, 8
"""Parts of an append buffer: of a file, so that two are encoded at once, and of a piece of a file,
where all rows have one bucket. Pieces of half a buffer keep both files busy."""
_SMALL_BYTES = 1024 * 1024
_FEW_PARTS = 4
"""So little is written sooner than threads begin, unless each file waits for a far storage."""
_MAX_OPEN_FILES = 64
"""With more buckets than this, append files end with each flush instead of growing on."""


def write_rows(
    context: WriteContext,
    rows: Iterable[pa.RecordBatch],
    file_io: FileIO,
    *,
    target: tuple[bytes, int] | None = None,
    stored_keys: Iterable[BucketKeys] = (),
    with_kinds_column: bool = False,
    stored: bool = False,
    threads: Threads = CALLER_ONLY,
) -> commit_message.WriteResult:
    """Write rows in their order; all belong to the (partition, bucket) `target`, or to any.

    Of `rows` at least one batch is required, even an empty one: its schema is checked. With a
    column of kinds (`with_kinds_column`) no row is ignored. `stored` rows are the table's own.
    """
    if target is not None and context.schema.bucket_mode is BucketMode.KEY_DYNAMIC:
        with_kinds_column = True
    write = _TableWrite(context, file_io, threads, stored=stored)
    router = _Router(context, file_io, target, stored_keys)
    return write.run(rows, router, with_kinds_column=with_kinds_column)


def written_paths(
    context: WriteContext, messages: Iterable[commit_message.CommitMessage]
) -> Iterator[str]:
    """Yield the paths of the files that the messages of a write name as new."""
    from paimon_assets.engine.data.write.dynamic_buckets import index_path

    for message in messages:
        partition, bucket = message.partition, message.bucket
        directory, increment = (
            row_key_extractor.bucket_path(context, partition, bucket),
            message.data_increment,
        )
        for file in (*increment.new_files, *increment.changelog_files):
            yield from (f"{directory}/{name}" for name in (file.file_name, *file.extra_files))
        for index in increment.new_index_files:
            yield index_path(context, partition, bucket, index.file_name)


class _Router:
    """Finds the bucket of every row of one write, by the bucket mode of the table.

    fixed, unaware    hash of the bucket key, or the only bucket
    dynamic           key hash → assigner (hash remainder) → index of the partition → bucket
    cross-partition   index of all keys, built for the write
    with a target     in any mode: the rows are routed already
    """

    def __init__(
        self,
        context: WriteContext,
        file_io: FileIO,
        target: tuple[bytes, int] | None,
        stored_keys: Iterable[BucketKeys],
    ) -> None:
        schema = context.schema
        self._context = context
        self._hashes: HashBucketAssigner | None = None
        self._keys: KeyAssigner | None = None
        self.only_bucket = target
        """The (partition, bucket) of all rows, if there is only one: no row is routed then."""
        self.index: HashIndexWriter | None = None
        """Of dynamic buckets."""
        match schema.bucket_mode:
            case BucketMode.HASH_DYNAMIC:
                from paimon_assets.engine.data.write.dynamic_buckets import HashIndexWriter

                self.index = HashIndexWriter(context=context, file_io=file_io)
                if target is None:
                    from paimon_assets.engine.data.write.dynamic_buckets import HashBucketAssigner

                    self._hashes = HashBucketAssigner(
                        context=context, file_io=file_io, writer=self.index
                    )
            case BucketMode.KEY_DYNAMIC if target is None:
                from paimon_assets.engine.data.write.moving_keys import KeyAssigner

                self._keys = KeyAssigner(context=context)
                self._keys.load(stored_keys)
            case mode if target is None and not schema.partition_keys:
                unaware = mode is BucketMode.BUCKET_UNAWARE
                if unaware or row_key_extractor.total_buckets(context, EMPTY_ROW) == 1:
                    self.only_bucket = EMPTY_ROW, row_key_extractor.UNAWARE_BUCKET
            case _:
                pass

    def route(
        self, rows: pa.RecordBatch, kinds: Kinds | None
    ) -> tuple[pa.RecordBatch, Kinds | None, row_key_extractor.RowBuckets | None]:
        """Return rows, kinds and buckets (None: the only one), in order; at least one row."""
        if self._keys is not None:
            return self._keys.assign(rows, kinds)
        row_buckets = None
        if self._hashes is not None:
            row_buckets = self._hashes.assign(rows)
        elif self.only_bucket is None:
            row_buckets = row_key_extractor.assign_buckets(self._context, rows)
        elif self.index is not None:
            from paimon_assets.engine.data.write.dynamic_buckets import key_hashes

            self.index.add(*self.only_bucket, key_hashes(self._context.schema, rows))
        return rows, kinds, row_buckets


class _Route(Struct, kw_only=True):
    partition: bytes
    bucket: int
    path: str
    next_sequence: int
    writers: list[bucket_writer.BucketWriter] = field(default_factory=list)
    """Their files, one after the other, hold the rows in order of arrival."""
    grows: bool = False
    """Whether the last writer takes further rows."""
    file_bytes: int = 0
    """Bytes of its rows, as far as they decide that."""
    last: Work[None] | None = None
    """The newest work of the last writer; it must end before the next begins."""


class _TableWrite:
    def __init__(
        self, context: WriteContext, file_io: FileIO, threads: Threads, *, stored: bool = False
    ) -> None:
        """Refuse tables and options that cannot be written, before a row is read."""
        schema, options = context.schema, context.schema.typed_options
        refuse_unwritable(schema, context.table)
        self.context, self.file_io, self.threads = context, file_io, threads
        self._padding = padding_of(schema)
        self._check = input_check.InputCheck(table=context.table, schema=schema, stored=stored)
        self._factory = FileFactory(schema=schema, file_io=file_io)
        self._changelog: FileFactory | None = None
        logs_input = options.get(opt.CHANGELOG_PRODUCER) is opt.ChangelogProducer.INPUT
        if schema.has_primary_key and logs_input:
            self._changelog = replace(self._factory, schema=changelog_schema(schema))
        self._buffer = bucket_writer.RowBuffer()
        self._buffer_bytes = max(1, options.get(opt.WRITE_BUFFER_SIZE))
        segments = 1 if schema.has_primary_key else _SEGMENTS
        self._file_bytes = self._flush_bytes = max(1, self._buffer_bytes // segments)
        self._routes: list[_Route] = []
        self._route_ids: dict[tuple[bytes, int], int] = {}
        self._in_flight: deque[tuple[int, list[Work[None]]]] = deque()
        """(bytes, work) of rows that were handed to the threads together."""
        self._rows_in = self._rows_ignored = 0

    def run(
        self, rows: Iterable[pa.RecordBatch], router: _Router, *, with_kinds_column: bool
    ) -> commit_message.WriteResult:
        """Write all rows; an error deletes the written files."""
        complete = False
        if router.only_bucket is not None and not self.context.schema.has_primary_key:
            self._flush_bytes = max(1, self._buffer_bytes // _PIECES)
            self._buffer_bytes = self._file_bytes
        try:
            for large_batch in rows:
                for start in range(0, max(1, large_batch.num_rows), _BATCH_ROWS):
                    batch = large_batch.slice(start, _BATCH_ROWS)
                    checked, kinds = self._check_batch(batch, with_kinds_column=with_kinds_column)
                    if checked.num_rows:
                        self._add(*router.route(checked, kinds), router.only_bucket)
            self._flush(self._buffer.take())
            while self._in_flight:
                self._await_oldest()
            result = self._result(router.index)
            complete = True
        finally:
            for _, works in self._in_flight:
                for work in works:
                    work.stop()
            if not complete:
                for route in self._routes:
                    for writer in route.writers:
                        with suppress(PaimonError, OSError):  # the first error matters
                            writer.abort()
                index_paths = [] if router.index is None else router.index.paths
                paths = [*self._factory.paths, *index_paths]
                delete_unfinished(self.file_io, paths, self.context.table)
        return result

    def _check_batch(
        self, batch: pa.RecordBatch, *, with_kinds_column: bool
    ) -> tuple[pa.RecordBatch, Kinds | None]:
        """Return the rows of a batch that are not ignored, and their kinds."""
        schema = self.context.schema
        kinds: Kinds | None
        if with_kinds_column:
            rows, kinds = input_check.split_kinds(batch)
            rows = self._check.conform(rows)
        else:
            rows, kinds = input_check.without_ignored(self._check.conform(batch), schema)
        self._rows_in += batch.num_rows
        self._rows_ignored += batch.num_rows - rows.num_rows
        input_check.refuse_retracts(kinds, schema)
        return rows, kinds

    def _add(
        self,
        rows: pa.RecordBatch,
        kinds: Kinds | None,
        row_buckets: row_key_extractor.RowBuckets | None,
        only_bucket: tuple[bytes, int] | None,
    ) -> None:
        sequence = routes = None
        if not rows.num_rows:
            return
        if self._padding is not None:
            source = self._padding.field
            keys = rows.select(list(self.context.schema.primary_keys))
            sequence = field_to_long(rows.column(source.name), source, keys)
        if row_buckets is not None:
            routes = self._routes_of(row_buckets)
        elif only_bucket is not None:
            self._route_id(*only_bucket)
        # Wait until these rows stay within the write buffer, or nothing is encoded.
        while self._in_flight:
            encoding = sum(total_bytes for total_bytes, _ in self._in_flight)
            if encoding + self._buffer.total_bytes + rows.nbytes <= self._buffer_bytes:
                break
            self._await_oldest()
        table = pa.Table.from_batches([rows])
        self._buffer.add(
            bucket_writer.RoutedRows(rows=table, routes=routes, kinds=kinds, sequence=sequence)
        )
        if self._buffer.total_bytes >= self._flush_bytes:
            self._flush(self._buffer.take(self.threads.count))

    def _routes_of(self, row_buckets: row_key_extractor.RowBuckets) -> bucket_writer.Routes:
        partitions, partition_ids, buckets = row_buckets
        lowest = min(0, int(buckets.min()))  # rows may be postponed, in bucket -2
        width = int(buckets.max()) - lowest + 1
        codes = partition_ids.astype(np.int64) * width + buckets - lowest
        present = np.flatnonzero(np.bincount(codes))
        route_of = np.zeros(int(present[-1]) + 1, dtype=np.int32)
        for code in present.tolist():  # a step for each bucket of the batch
            route_of[code] = self._route_id(partitions[code // width], code % width + lowest)
        return route_of.take(codes)

    def _route_id(self, partition: bytes, bucket: int) -> int:
        number = self._route_ids.get((partition, bucket))
        if number is not None:
            return number
        row_key_extractor.refuse_partition(self.context, partition)
        state = self.context.states_by_bucket.get((partition, bucket))
        self._routes.append(
            _Route(
                partition=partition,
                bucket=bucket,
                path=row_key_extractor.bucket_path(self.context, partition, bucket),
                next_sequence=0 if state is None else state.max_sequence_number + 1,
            )
        )
        self._route_ids[partition, bucket] = len(self._routes) - 1
        return len(self._routes) - 1

    def _await_oldest(self) -> None:
        for work in self._in_flight[0][1]:
            work.result()
        self._in_flight.popleft()

    def _flush(self, parts: list[bucket_writer.RouteRows]) -> None:
        """Hand rows to the threads, or write them at once if they are few."""
        if not parts:
            return
        total_bytes = sum(part.total_bytes for part in parts)
        logger.debug("flushing %d bytes of %d buckets", total_bytes, len(parts))
        few = _FEW_PARTS if self.file_io.spec.scheme == "file" else 1
        threads = self.threads
        if len(parts) <= few and total_bytes < _SMALL_BYTES:
            threads = CALLER_ONLY
        works = [self._write(self._routes[part.route], part, threads) for part in parts]
        self._in_flight.append((total_bytes, works))

    def _write(self, route: _Route, part: bucket_writer.RouteRows, threads: Threads) -> Work[None]:
        keyed = self.context.schema.has_primary_key
        is_piece = self._flush_bytes < self._file_bytes
        if not route.grows or (part.total_bytes >= self._file_bytes and not (keyed or is_piece)):
            route.writers.append(self._new_writer(route))
            route.last, route.file_bytes = None, 0
        writer, before = route.writers[-1], route.last
        route.file_bytes = part.total_bytes + (route.file_bytes if is_piece else 0)
        fills_a_file = not keyed and route.file_bytes >= self._file_bytes
        route.grows = not fills_a_file
        route.next_sequence += part.row_count
        ends = fills_a_file or len(self._routes) > _MAX_OPEN_FILES

        def write() -> None:
            if before is not None:
                before.result()
            writer.write(part)
            if ends:
                writer.files.roll()

        route.last = threads.submit(write, after=before)
        if threads is CALLER_ONLY:
            route.last.result()
        return route.last

    def _new_writer(self, route: _Route) -> bucket_writer.BucketWriter:
        schema = self.context.schema

        def files(factory: FileFactory) -> RollingFile:
            return RollingFile(factory=factory, bucket_path=route.path)

        if not schema.has_primary_key:
            return bucket_writer.AppendOnlyWriter(
                files=files(self._factory), next_sequence=route.next_sequence
            )
        if route.bucket == POSTPONE_BUCKET:
            return bucket_writer.PostponeBucketWriter(files=files(self._postponed_factory))
        state = self.context.states_by_bucket.get((route.partition, route.bucket))
        live_files = () if state is None else state.files
        from paimon_assets.engine.data.merge.function import merge_function_of

        return bucket_writer.MergeTreeWriter(
            files=files(self._factory),
            changelog=None if self._changelog is None else files(self._changelog),
            function=merge_function_of(schema, self.context.table),
            padding=self._padding,
            next_sequence=route.next_sequence,
            highest_stored=partial(
                bucket_writer.highest_stored, live_files, route.path, self.file_io
            ),
        )

    @cached_property
    def _postponed_factory(self) -> FileFactory:
        return replace(self._factory, schema=postpone_schema(self.context.schema))

    def _result(self, index: HashIndexWriter | None) -> commit_message.WriteResult:
        messages = []
        for route in self._routes:
            files = tuple(meta for writer in route.writers for meta in writer.files.finish())
            if not files:
                continue
            logs = [each.changelog for each in route.writers if each.changelog is not None]
            indexes = ((), ()) if index is None else index.increment(route.partition, route.bucket)
            increment = commit_message.DataIncrement(
                new_files=files,
                changelog_files=tuple(meta for log in logs for meta in log.finish()),
                new_index_files=indexes[0],
                deleted_index_files=indexes[1],
            )
            messages.append(
                commit_message.CommitMessage(
                    partition=route.partition,
                    bucket=route.bucket,
                    total_buckets=row_key_extractor.total_buckets(self.context, route.partition),
                    data_increment=increment,
                    keys_known_at=self.context.keys_known_at,
                )
            )
        writers = [writer for route in self._routes for writer in route.writers]
        wraps = sum(writer.sequence_wraps for writer in writers)
        if wraps:
            logger.warning(
                "table %s: %d rows share a second or millisecond with more rows than the padding "
                "can number; within it, some older rows win over newer ones",
                self.context.table,
                wraps,
            )
        report = commit_message.WriteReport(
            rows_in=self._rows_in,
            rows_ignored=self._rows_ignored,
            rows_written=sum(writer.rows_written for writer in writers),
            sequence_wraps=wraps,
        )
        return commit_message.WriteResult(messages=tuple(messages), report=report)


def shuffle_buckets(
    context: WriteContext, rows: pa.RecordBatch, tasks: int
) -> row_key_extractor.RowBuckets:
    """Return the buckets of rows or, where only a task can know them, the number of its share.

    A share is the assigner of a dynamic bucket, one of `tasks` assigners of keys that may change
    partition (the same in all partitions), or one of `tasks` writers of postponed rows.
    """
    schema = context.schema
    from paimon_assets.engine.data.write.dynamic_buckets import key_hashes
    from paimon_assets.engine.data.write.moving_keys import KeyAssigner

    if schema.bucket_mode is BucketMode.KEY_DYNAMIC:
        numbers = KeyAssigner.assigner_of(key_hashes(schema, rows), tasks)
        return row_key_extractor.RowBuckets(
            [EMPTY_ROW], np.zeros(rows.num_rows, dtype=np.int32), numbers
        )
    is_postponed = schema.bucket_mode is BucketMode.POSTPONE
    if schema.bucket_mode is BucketMode.HASH_DYNAMIC:
        from paimon_assets.engine.data.write.dynamic_buckets import BucketRule

        numbers = BucketRule.of(schema).assigner_of(key_hashes(schema, rows))
    elif not is_postponed or row_key_extractor.has_hashed_buckets(schema):
        return row_key_extractor.assign_buckets(context, rows)
    else:
        numbers = KeyAssigner.assigner_of(key_hashes(schema, rows), tasks)
    return row_key_extractor.RowBuckets(*row_key_extractor.partition_ids(rows, schema), numbers)
