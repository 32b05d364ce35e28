"""The functions that run in Spark tasks: wire bytes → `engine.data.worker` → wire bytes.

`mapInArrow` runs them with their first arguments bound; they take and give Arrow batches.

    route_rows       rows → (task, partition, bucket, position, packed rows), buckets hashed once
    assign_routed    those of assigners of dynamic buckets → the same for writers
    place_routed     those of assigners of keys that may change partition → the same for writers
    write_routed     those, sorted → one writer after another → answers
    write_unrouted   rows of a table without buckets → answers
    run_tasks        tasks of any kind → their results
    run_slots        numbers → the results of the tasks that each has
    read_packed      splits → packed batches
    read_rows        splits → rows
    count_rows       splits → how many rows
    read_split_rows  one split → rows
    unseen           a path of the driver's → why it is not seen here

An answer is one row: `result` or `error`, as bytes of `contract.wire`.
"""

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, groupby
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from paimon_assets.engine.codec.arrow.arrow_types import empty_batch, to_arrow_schema
from paimon_assets.engine.contract.commit_message import WriteResult
from paimon_assets.engine.contract.context import ReadContext, WriteContext
from paimon_assets.engine.contract.wire import dump, dump_error, load, load_split
from paimon_assets.engine.data import worker
from paimon_assets.engine.data.threads import Threads
from paimon_assets.engine.data.write.dynamic_buckets import HashBucketAssigner
from paimon_assets.engine.data.write.input_check import InputCheck, with_kinds, without_ignored
from paimon_assets.engine.data.write.moving_keys import KeyAssigner
from paimon_assets.engine.data.write.row_key_extractor import RowBuckets, has_hashed_buckets
from paimon_assets.engine.data.write.table_write import shuffle_buckets
from paimon_assets.engine.errors import CREDENTIALS_OVER, PaimonError, StorageError
from paimon_assets.engine.fileio.base import FileIOSpec
from paimon_assets.engine.fileio.opening import open_file_io
from paimon_assets.engine.spec.options.all_options import READ_CUT_NANOSECONDS
from paimon_assets.engine.spec.paths import POSTPONE_BUCKET
from paimon_assets.engine.spec.schema.schema import BucketMode
from paimon_assets.engine.spec.values import Value
from paimon_assets.spark import packing
from paimon_assets.spark.failure import WorkerError, encoded_errors
from paimon_assets.spark.python_rows import ArrowMap
from paimon_assets.spark.shuffle import task_of
from paimon_assets.spark.types import to_spark_batch

ROUTED_SCHEMA = packing.columns(
    task=pa.int32(), partition=pa.binary(), bucket=pa.int32(), position=pa.int64(), rows=pa.binary()
)
PACKED_SCHEMA = packing.columns(position=pa.int64(), rows=pa.binary())
ANSWER_SCHEMA = packing.columns(result=pa.binary(), error=pa.binary())
COUNT_SCHEMA = packing.columns(rows=pa.int64())
TASK_SCHEMA = packing.columns(number=pa.int32(), payload=pa.binary())
TASK_ANSWER_SCHEMA = packing.columns(number=pa.int32(), result=pa.binary(), error=pa.binary())
_POSITION_FIELD = pa.field(packing.POSITION_COLUMN, pa.int64(), nullable=False)

Routed = tuple[tuple[bytes, int], int, bytes]
"""(partition, bucket), position, packed rows."""

ROWS_PER_TASK_BITS = 33
"""As in `monotonically_increasing_id`: position = partition or chunk « 33 | row."""

_CHUNK_BYTES = 32 * 1024 * 1024
"""Rows routed at a time: enough for few and long pieces, little beside a writer's buffer."""


class RowSource(Value):
    """The way the rows of one write reach their tasks."""

    schema: pa.Schema
    """The schema of the rows, with the position column if they have one."""
    is_packed: bool
    """Rows come as `PACKED_SCHEMA`, else as columns of a DataFrame."""
    read: ArrowMap | None = None
    """Makes the rows, in the tasks, from the batches that come (`python_rows`)."""

    @property
    def has_positions(self) -> bool:
        """Whether rows say themselves where they stood in the input."""
        return packing.POSITION_COLUMN in self.schema.names

    @property
    def table_schema(self) -> pa.Schema:
        """The schema of the rows as the table sees them."""
        return pa.schema([field for field in self.schema if field.name != packing.POSITION_COLUMN])


class Routing(Value):
    """The distribution of rows to tasks."""

    context: bytes
    source: RowSource
    buckets: int
    """Buckets of a partition; of dynamic ones, as many as are filled side by side."""
    slots: tuple[int, ...]
    """Task → the number Spark sends there (`shuffle.partition_slots`)."""


def route_rows(routing: Routing, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Group rows by (partition, bucket), and address each group to the task that writes it."""
    with encoded_errors():
        context = load(WriteContext, routing.context)
        check = InputCheck(table=context.table, schema=context.schema)
        for chunk in _positioned_chunks(batches, routing.source):
            rows, positions = _split_positions(chunk, routing.source)
            rows = check.conform(rows)
            places = shuffle_buckets(context, rows, routing.buckets)
            yield from _distribute(rows, positions, places, routing)


def _positioned_chunks(
    batches: Iterable[pa.RecordBatch], source: RowSource
) -> Iterator[packing.Packed]:
    """Yield rows in larger chunks, each in the order of its positions."""
    arriving: Iterator[packing.Packed]
    if source.is_packed:
        arriving = packing.join_pieces(
            packing.Packed(position.as_py(), packing.unpack(data.as_py(), source.schema))
            for batch in batches
            for position, data in zip(batch["position"], batch["rows"], strict=True)
        )
    else:
        arriving = _number(batches, source)
    for chunk in arriving:
        if not source.has_positions:
            yield chunk
        elif chunk.batch.num_rows:
            rows, positions = chunk.batch, packing.take_positions(chunk.batch)[1]
            if (np.diff(positions) < 0).any():
                rows = rows.take(np.argsort(positions, kind="stable"))
            yield packing.Packed(int(positions.min()), rows)


def _number(batches: Iterable[pa.RecordBatch], source: RowSource) -> Iterator[packing.Packed]:
    """Count the rows of this task from its place among the DataFrame's partitions."""
    task = TaskContext.get()
    position = (task.partitionId() if task else 0) << ROWS_PER_TASK_BITS
    rows = batches if source.read is None else source.read(batches)
    normal = (to_spark_batch(batch, source.schema) for batch in rows)
    for waiting in packing.chunks(normal, _CHUNK_BYTES):
        chunk = packing.join_batches(waiting)
        yield packing.Packed(position, chunk)
        position += chunk.num_rows


def _distribute(
    rows: pa.RecordBatch, positions: packing.Positions, places: RowBuckets, routing: Routing
) -> Iterator[pa.RecordBatch]:
    """Yield rows by (partition, bucket) for their tasks, one Spark row a piece, in order."""
    partitions, partition_ids, buckets = places
    if not len(buckets):
        return
    if routing.source.has_positions:
        rows = rows.append_column(_POSITION_FIELD, pa.array(positions))
    keys = partition_ids.astype(np.int64) * (int(buckets.max()) + 1) + buckets
    # Two bytes are sorted by radix: linear.
    order = np.argsort(keys.astype(np.uint16) if keys.max() < 2**16 else keys, kind="stable")
    starts = np.flatnonzero(np.diff(keys[order])) + 1
    for indices in np.split(order, starts):
        first = int(indices[0])
        partition, bucket = partitions[int(partition_ids[first])], int(buckets[first])
        group = rows if len(indices) == rows.num_rows else rows.take(indices)
        task = task_of(partition, bucket, buckets=routing.buckets, tasks=len(routing.slots))
        start = 0
        for piece in packing.pieces(group):
            position = int(positions[indices[start]])
            start += piece.num_rows
            values = (routing.slots[task], partition, bucket, position, packing.pack(piece))
            yield one_row(ROUTED_SCHEMA, *values)


def _split_positions(
    chunk: packing.Packed, source: RowSource
) -> tuple[pa.RecordBatch, packing.Positions]:
    if source.has_positions:
        return packing.take_positions(chunk.batch)
    end = chunk.position + chunk.batch.num_rows
    return chunk.batch, np.arange(chunk.position, end, dtype=np.int64)


def assign_routed(routing: Routing, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Give rows their dynamic bucket, and address them to the tasks that write those.

    They come from `route_rows`, whose buckets are assigners here, sorted by (partition, assigner,
    position): one index at a time is in memory.
    """
    with encoded_errors():
        context = load(WriteContext, routing.context)
        file_io = open_file_io(context.file_io)
        schema = _table_schema(context, routing.source)
        for _, group in _groups(batches):
            assigner = HashBucketAssigner(context=context, file_io=file_io)
            packed = (packing.Packed(at, packing.unpack(data, schema)) for _, at, data in group)
            # Rows with positions of their own are in order within a piece only.
            for chunk in packed if routing.source.has_positions else packing.join_pieces(packed):
                rows, positions = _split_positions(chunk, routing.source)
                places = assigner.assign(rows)
                yield from _distribute(rows, positions, places, routing)


def place_routed(
    routing: Routing, source: RowSource, assigners: int, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Assign buckets to rows whose keys may change partition, and route them to its writer.

    They come from `route_rows`, all of a key to one assigner, sorted by (assigner, position).
    """
    with encoded_errors():
        context = load(WriteContext, routing.context)
        file_io = open_file_io(context.file_io)
        schema = _table_schema(context, source)
        for (_, number), group in _groups(batches):
            assigner = KeyAssigner(context=context, assigner=number, assigners=assigners)
            assigner.load(worker.stored_keys(context, file_io, task_threads()))
            position = 0
            for rows in _sort(group, schema, source):
                own = without_ignored(rows, context.schema)
                placed, kinds, places = assigner.assign(*own)
                end = position + placed.num_rows
                positions = np.arange(position, end, dtype=np.int64)
                yield from _distribute(with_kinds(placed, kinds), positions, places, routing)
                position = end


def _sort(
    group: Iterable[Routed], schema: pa.Schema, source: RowSource
) -> Iterator[pa.RecordBatch]:
    """Unpack routed rows, in the order of the input, without positions."""
    packed = (packing.Packed(position, packing.unpack(data, schema)) for _, position, data in group)
    if source.has_positions:
        rows = packing.in_position_order(packed)
    else:
        rows = (piece.batch for piece in packed)
    return map(packing.join_batches, packing.chunks(rows, packing.LARGE_BYTES))


def write_routed(
    context_bytes: bytes, source: RowSource, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Write the rows of `route_rows`, sorted by (partition, bucket, position)."""

    def results() -> Iterator[WriteResult]:
        context = load(WriteContext, context_bytes)
        file_io, threads = open_file_io(context.file_io), task_threads()
        schema = _table_schema(context, source)
        mode = context.schema.bucket_mode
        if mode is BucketMode.KEY_DYNAMIC:
            schema = with_kinds(empty_batch(schema), np.empty(0, dtype=np.int8)).schema
        waits = mode is BucketMode.POSTPONE and not has_hashed_buckets(context.schema)
        for (partition, number), group in _groups(batches):
            bucket = POSTPONE_BUCKET if waits else number
            rows = _sort(group, schema, source)
            yield worker.write_bucket(context, partition, bucket, rows, file_io, threads)

    return _answers(batches, results)


def _table_schema(context: WriteContext, source: RowSource) -> pa.Schema:
    """Return the Arrow schema of routed rows."""
    schema = to_arrow_schema(context.schema.fields)
    return schema.append(_POSITION_FIELD) if source.has_positions else schema


def _groups(
    batches: Iterable[pa.RecordBatch],
) -> Iterator[tuple[tuple[bytes, int], Iterator[Routed]]]:
    """Group routed rows by partition and bucket; a loop over pieces, not over rows."""
    routed = (
        ((partition.as_py(), bucket.as_py()), position.as_py(), rows.as_py())
        for batch in batches
        for partition, bucket, position, rows in zip(
            batch["partition"], batch["bucket"], batch["position"], batch["rows"], strict=True
        )
    )
    return groupby(routed, key=lambda item: item[0])


def write_unrouted(
    context_bytes: bytes, source: RowSource, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Write rows into files of this task's own, for tables where any file may hold any row."""

    def results() -> Iterator[WriteResult]:
        context = load(WriteContext, context_bytes)
        plain = (
            packing.take_positions(chunk.batch)[0] if source.has_positions else chunk.batch
            for chunk in _positioned_chunks(batches, source)
        )
        # A task without rows still hands over a schema to check.
        rows = chain([empty_batch(source.table_schema)], plain)
        yield worker.write_rows(context, rows, open_file_io(context.file_io), task_threads())

    return _answers(batches, results)


def run_tasks(
    name: str, shared: bytes, file_io: FileIOSpec, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Run tasks one after another, each with an answer of its own; an error ends them."""
    with encoded_errors():
        storage, threads = open_file_io(file_io), task_threads()
        failed = False
        for batch in batches:
            for number, payload in zip(batch["number"], batch["payload"], strict=True):
                if failed:  # Spark gives up a Python worker that leaves input unread.
                    continue
                try:
                    result = worker.run_task(name, shared, payload.as_py(), storage, threads)
                except StorageError:  # Spark runs the task again
                    raise
                except PaimonError as error:
                    failed = True
                    yield one_row(TASK_ANSWER_SCHEMA, number.as_py(), None, dump_error(error))
                else:
                    yield one_row(TASK_ANSWER_SCHEMA, number.as_py(), result, None)


def run_slots(
    payloads: Sequence[bytes],
    slots: Sequence[int],
    run: ArrowMap,
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Run the tasks of the slots in a Spark partition; `slots` has the slot of each payload."""

    def tasks_of(slot: int) -> pa.RecordBatch:
        numbers = [number for number, owner in enumerate(slots) if owner == slot]
        own = pa.array([payloads[number] for number in numbers], pa.binary())
        return pa.RecordBatch.from_arrays([pa.array(numbers, pa.int32()), own], schema=TASK_SCHEMA)

    return run(tasks_of(int(slot)) for batch in batches for slot in batch["id"].to_numpy())


def task_threads() -> Threads:
    """Return the threads of this Spark task: one a core it has, which is `spark.task.cpus`.

    Arrow's own threads become as many; this process runs one task at a time.
    """
    task = TaskContext.get()
    cores = (task.cpus() if task else 0) or 1
    pa.set_cpu_count(cores)
    return Threads(cores)


def _answers(
    batches: Iterable[pa.RecordBatch], work: Callable[[], Iterator[WriteResult]]
) -> Iterator[pa.RecordBatch]:
    return with_errors(batches, lambda: (one_row(ANSWER_SCHEMA, dump(r), None) for r in work()))


def with_errors(
    batches: Iterable[pa.RecordBatch], work: Callable[[], Iterator[pa.RecordBatch]]
) -> Iterator[pa.RecordBatch]:
    """Yield the answers of `work`, and its error as the last answer."""
    with encoded_errors():
        try:
            yield from work()
        except StorageError:
            raise
        except PaimonError as error:
            yield one_row(ANSWER_SCHEMA, None, dump_error(error))
            # Spark gives up a Python worker that leaves input unread.
            for _ in batches:
                pass


def one_row(schema: pa.Schema, *values: Any) -> pa.RecordBatch:
    arrays = [pa.array([value], field.type) for value, field in zip(values, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def read_packed(
    context_bytes: bytes, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Read splits into packed batches, behind each an empty answer; errors are answers."""

    def answers() -> Iterator[pa.RecordBatch]:
        for split in _read(batches, context_bytes):
            for batch in split:
                for piece in packing.pieces(batch, packing.LARGE_BYTES):
                    yield one_row(ANSWER_SCHEMA, packing.pack(piece), None)
            yield one_row(ANSWER_SCHEMA, None, None)

    return with_errors(batches, answers)


def read_rows(
    context_bytes: bytes, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Read splits into rows of the Arrow schema `schema`, a DataFrame's or the plan's own."""
    with encoded_errors():
        yield from chain.from_iterable(_read(batches, context_bytes, schema))


def count_rows(context_bytes: bytes, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Read splits, and give one row with the number of their rows."""
    with encoded_errors():
        rows = sum(b.num_rows for split in _read(batches, context_bytes) for b in split)
        yield one_row(COUNT_SCHEMA, rows)


def _read(
    batches: Iterable[pa.RecordBatch], context_bytes: bytes, schema: pa.Schema | None = None
) -> Iterator[Iterator[pa.RecordBatch]]:
    """Yield the batches of one split after the other, in the types of `schema` if there is one."""
    context = load(ReadContext, context_bytes)
    cuts = context.schema.typed_options.get(READ_CUT_NANOSECONDS)
    file_io, threads = open_file_io(context.file_io), task_threads()
    for batch in batches:
        for split_bytes in batch["split"]:
            split = load_split(split_bytes.as_py())
            rows = worker.read_split(context, split, file_io, threads)
            if schema is not None:
                files = split.data_files
                path = split.path_of(files[0]) if len(files) == 1 else split.bucket_path
                cast = partial(to_spark_batch, schema=schema, path=path, cuts=cuts)
                yield map(cast, rows)
            else:
                yield rows


def read_split_rows(
    context_bytes: bytes, split_bytes: bytes, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Read one split into batches of the Arrow schema `schema`, as `read_rows` does."""
    splits = pa.record_batch([pa.array([split_bytes], pa.binary())], ["split"])
    return read_rows(context_bytes, schema, [splits])


def unseen(look: str) -> str | None:
    """Return why this process does not see a path; None if it does."""
    encoded, path = json.loads(look)
    spec = load(FileIOSpec, base64.b64decode(encoded))
    try:
        is_seen = open_file_io(spec).exists(path)
    except PaimonError as error:
        if error.kind in CREDENTIALS_OVER:
            raise WorkerError(error) from error
        return f"{path}: {error.message}"
    return None if is_seen else f"{path} does not exist there"
