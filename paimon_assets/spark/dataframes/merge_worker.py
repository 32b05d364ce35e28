"""The functions that run in the Spark tasks of a merge, with their first arguments bound.

    pack_source    source rows → their size and number, and the rows packed
    with_keys      packed source rows → the rows, with the keys they are joined by
    source_bounds  their columns `on` → bounds for a predicate
    task_keys      row-change tasks → the keys of the rows in their files
    change_tasks   row-change tasks, each with its source rows → answers

Columns of source rows are named by their places: Spark compares names without case.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby, pairwise

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema
from paimon_assets.engine.codec.arrow.numpy_columns import from_numpy, to_numpy
from paimon_assets.engine.contract.merge_on import MergeOn
from paimon_assets.engine.contract.wire import dump, load
from paimon_assets.engine.contract.write_tasks import RowChange, RowChangeTask, dump_rows
from paimon_assets.engine.data.row_change import match_keys, run_change
from paimon_assets.engine.data.row_update import one_batch
from paimon_assets.engine.data.write.row_key_extractor import distinct_rows
from paimon_assets.engine.fileio.opening import open_file_io
from paimon_assets.engine.spec.values import Value
from paimon_assets.spark import packing
from paimon_assets.spark.failure import encoded_errors
from paimon_assets.spark.python_rows import ArrowMap
from paimon_assets.spark.types import to_spark_batch
from paimon_assets.spark.worker import ANSWER_SCHEMA, one_row, task_threads, with_errors

TASKS_SCHEMA = packing.columns(slot=pa.int32(), number=pa.int32(), payload=pa.binary())
SOURCE_SCHEMA = packing.columns(size=pa.int64(), count=pa.int64(), rows=pa.binary())
BOUNDS_SCHEMA = packing.columns(bounds=pa.binary())


class SourceRows(Value):
    """The rows of a merge on their way to tasks."""

    schema: pa.Schema
    """The schema of the source, as `spark_arrow_schema` gives it."""
    on: MergeOn

    @property
    def key_names(self) -> list[str]:
        return [f"key{place}" for place in range(len(self.on.columns))]

    @property
    def column_names(self) -> list[str]:
        return [f"column{place}" for place in range(len(self.schema))]

    @property
    def on_names(self) -> list[str]:
        return [self.column_names[self.schema.get_field_index(name)] for name in self.on.names]

    @property
    def keyed_schema(self) -> pa.Schema:
        keys = zip(self.key_names, self.on.key_types(), strict=True)
        columns = zip(self.column_names, self.schema, strict=True)
        fields = [column.with_name(name) for name, column in columns]
        return pa.schema([*(pa.field(name, kind) for name, kind in keys), *fields])

    @property
    def bounds_schema(self) -> pa.Schema:
        types = to_arrow_schema(self.on.columns).types
        return pa.schema(list(zip(self.on.names, types, strict=True)))

    def with_own_names(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return source rows under their own names, `on` in the table's types."""
        plain = to_spark_batch(batch.select(self.column_names), self.schema)
        return self.on.convert(plain)


def pack_source(
    schema: pa.Schema, read: ArrowMap | None, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Pack source rows, as `SOURCE_SCHEMA`; of those that come, or that `read` makes of these."""
    arriving = batches if read is None else read(batches)
    rows = (to_spark_batch(batch, schema) for batch in arriving)
    for waiting in packing.chunks(rows, packing.LARGE_BYTES):
        for piece in packing.pieces(packing.join_batches(waiting)):
            yield one_row(SOURCE_SCHEMA, piece.nbytes, piece.num_rows, packing.pack(piece))


def with_keys(source: SourceRows, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    with encoded_errors():
        pieces = (
            packing.unpack(packed.as_py(), source.schema)
            for batch in batches
            for packed in batch["rows"]
        )
        for waiting in packing.chunks(pieces, packing.LARGE_BYTES):
            rows = packing.join_batches(waiting)
            keys = source.on.keys(source.on.convert(rows))
            columns = [*keys, *rows.columns]
            yield pa.RecordBatch.from_arrays(columns, schema=source.keyed_schema)


def source_bounds(
    source: SourceRows, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Give one row for the columns `on` of a Spark partition."""
    on = source.on
    fields = [source.schema.field(name) for name in on.names]
    with encoded_errors():
        bounds = source.bounds_schema.empty_table()
        for batch in batches:
            rows = on.convert(to_spark_batch(batch, pa.schema(fields)))
            bounds = on.bounds(pa.concat_tables([bounds, pa.Table.from_batches([rows])]))
        whole = packing.join_batches(bounds.to_batches()) if bounds.num_rows else None
        yield one_row(BOUNDS_SCHEMA, None if whole is None else packing.pack(whole))


def task_keys(
    change_bytes: bytes, source: SourceRows, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Read the keys of the rows in the files of tasks."""
    names = ["slot", "number", *source.key_names]
    with encoded_errors():
        change = load(RowChange, change_bytes)
        file_io, threads = open_file_io(change.read.file_io), task_threads()
        for batch in batches:
            for slot, number, payload in zip(*batch.columns, strict=True):
                task = load(RowChangeTask, payload.as_py())
                for keys in match_keys(change, task, source.on, file_io, threads):
                    places = (pa.repeat(place, len(keys[0])) for place in (slot, number))
                    yield pa.RecordBatch.from_arrays([*places, *keys], names=names)


def change_tasks(
    change_bytes: bytes, source: SourceRows, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Run tasks on the source rows that came with them; a task without any is left out.

    They come sorted by task, the task's payload before its source rows. Those of one task are in
    memory at a time.
    """

    def answers() -> Iterator[pa.RecordBatch]:
        change = replace(load(RowChange, change_bytes), on=source.on.names)
        file_io, threads = open_file_io(change.read.file_io), task_threads()
        for _, group in groupby(_by_task(batches), key=lambda item: item[0]):
            table = pa.Table.from_batches([rows for _, rows in group])
            if table.num_rows < 2:
                continue
            task = load(RowChangeTask, table["payload"][0].as_py())
            rows = source.with_own_names(one_batch(table.slice(1)))
            # Each came as often as it was found.
            rows = rows.take(from_numpy(distinct_rows(source.on.keys(rows))[1]))
            own = replace(change, source=dump_rows(pa.Table.from_batches([rows])))
            result = run_change(own, task, file_io, threads)
            yield one_row(ANSWER_SCHEMA, dump(replace(result, source_rows=b"")), None)

    return with_errors(batches, answers)


def _by_task(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    for batch in batches:
        numbers = to_numpy(batch.column("number"))
        starts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
        for start, end in pairwise(starts):
            if end > start:
                yield int(numbers[start]), batch.slice(start, end - start)
