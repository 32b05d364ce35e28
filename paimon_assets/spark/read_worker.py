"""The functions that run in the Spark tasks of a read.

read_packed      splits → packed batches
read_rows        splits → rows
read_files       pieces of plain files → rows
count_rows       splits → how many rows
read_split_rows  one split → rows
"""

from collections.abc import Iterable, Iterator
from itertools import chain

import pyarrow as pa

from paimon_assets.engine.contract.context import ReadContext
from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.contract.wire import load, load_split
from paimon_assets.engine.data import worker
from paimon_assets.engine.fileio.opening import open_file_io
from paimon_assets.engine.spec.options.scan_options import READ_CUT_NANOSECONDS
from paimon_assets.spark.failure import encoded_errors
from paimon_assets.spark.native.plain_files import PlainFiles
from paimon_assets.spark.packing import columns, pack, pieces
from paimon_assets.spark.python_rows import ArrowMap
from paimon_assets.spark.types import to_spark_batch
from paimon_assets.spark.worker import ANSWER_SCHEMA, one_row, task_threads, with_errors

COUNT_SCHEMA = columns(rows=pa.int64())


def read_packed(context_bytes: bytes) -> ArrowMap:
    """Read splits into packed batches of the plan's own Arrow types; errors come as answers.

    Behind the batches of each split comes an empty answer.
    """

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for split in _read(batches, context_bytes):
            for batch in split:
                for piece in pieces(batch):
                    yield one_row(ANSWER_SCHEMA, pack(piece), None)
            yield one_row(ANSWER_SCHEMA, None, None)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return with_errors(batches, lambda: read(batches))

    return run


def read_rows(context_bytes: bytes, schema: pa.Schema) -> ArrowMap:
    """Read splits into rows of the Arrow schema `schema`, a DataFrame's or the plan's own."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with encoded_errors():
            yield from chain.from_iterable(_read(batches, context_bytes, schema))

    return run


def read_files(files: PlainFiles) -> ArrowMap:
    """Read the pieces of tasks, given by their numbers, into rows of a DataFrame."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with encoded_errors():
            file_io, _ = open_file_io(files.file_io), task_threads()
            for batch in batches:
                for task in map(int, batch["id"].to_numpy()):
                    yield from files.batches(task, file_io)

    return run


def count_rows(context_bytes: bytes) -> ArrowMap:
    """Read splits, and give one row with the number of their rows."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with encoded_errors():
            rows = sum(b.num_rows for split in _read(batches, context_bytes) for b in split)
            yield one_row(COUNT_SCHEMA, rows)

    return run


def _read(
    batches: Iterable[pa.RecordBatch], context_bytes: bytes, schema: pa.Schema | None = None
) -> Iterator[Iterator[pa.RecordBatch]]:
    """Yield the batches of one split after the other, in the types of `schema` if there is one."""
    context = load(ReadContext, context_bytes)
    file_io, threads = open_file_io(context.file_io), task_threads()
    for batch in batches:
        for split_bytes in batch["split"]:
            split = load_split(split_bytes.as_py())
            rows = worker.read_split(context, split, file_io, threads)
            yield rows if schema is None else _for_spark(rows, context, split, schema)


def _for_spark(
    rows: Iterable[pa.RecordBatch], context: ReadContext, split: DataSplit, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    cuts = context.schema.typed_options.get(READ_CUT_NANOSECONDS)
    files = split.data_files
    path = split.path_of(files[0]) if len(files) == 1 else split.bucket_path
    return (to_spark_batch(batch, schema, path=path, cuts=cuts) for batch in rows)


def read_split_rows(
    context_bytes: bytes, split_bytes: bytes, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Read one split into batches of the Arrow schema `schema`, as `read_rows` does."""
    with encoded_errors():
        context = load(ReadContext, context_bytes)
        file_io, split = open_file_io(context.file_io), load_split(split_bytes)
        rows = worker.read_split(context, split, file_io, task_threads())
        yield from _for_spark(rows, context, split, schema)
