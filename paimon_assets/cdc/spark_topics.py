"""Ranges of offsets → DataFrame; each range is read by one task.

    rows of records    range ─▶ rows (lazily)                              the write reads them
    change logs        range ─▶ rows, kept by Spark, and a report          reports, then the write

Records pass no JVM; rows that are kept pass it as bytes. Where Spark loses some, a task reads their
range again: its report must be the same, though the topic may be compacted meanwhile.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from paimon_assets.cdc.kafka.fetching import fetch
from paimon_assets.cdc.kafka.messages import Extra, rows
from paimon_assets.cdc.kafka.topics import Client, OffsetRange
from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema
from paimon_assets.engine.contract.wire import dump
from paimon_assets.engine.errors import StorageError
from paimon_assets.engine.spec.types.data_types import DataField
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.spec.words import shorten
from paimon_assets.spark.dataframes.sources import ROWS_PER_FILE_BITS, number_rows, spark_schema_of
from paimon_assets.spark.failure import encoded_errors, typed_errors
from paimon_assets.spark.job_names import named_jobs
from paimon_assets.spark.packing import columns, ddl, pack, pieces, unpack
from paimon_assets.spark.preflight import check_workers
from paimon_assets.spark.python_rows import PythonRows, remembering
from paimon_assets.spark.shuffle import partition_slots
from paimon_assets.spark.types import holds_exactly, spark_arrow_schema
from paimon_assets.spark.worker import ROWS_PER_TASK_BITS, one_row

_TASK_SCHEMA = columns(
    slot=pa.int32(),
    first=pa.int64(),
    topic=pa.string(),
    partition=pa.int32(),
    start=pa.int64(),
    end=pa.int64(),
)


def topics_to_dataframe(
    session: SparkSession,
    client: Client,
    ranges: Sequence[OffsetRange],
    schema: pa.Schema,
    metadata: Mapping[str, str],
    extra: Extra = "error",
) -> DataFrame:
    """Read ranges of offsets into a DataFrame whose rows remember their order.

    Args:
        session: The session; its workers have `confluent-kafka`.
        client: The cluster.
        ranges: At least one.
        schema: Columns of the rows.
        metadata: As of `messages.rows`.
        extra: As of `messages.rows`.
    """
    spark_schema = spark_schema_of(schema)
    read = partial(_read_ranges, client, schema, metadata, extra, spark_arrow_schema(spark_schema))
    made = PythonRows(tasks=_tasks(session, ranges), read=read)
    return remembering(made.frame(spark_schema), made)


def _tasks(session: SparkSession, ranges: Sequence[OffsetRange]) -> DataFrame:
    """Return the ranges, each in a Spark partition of its own, with where its rows begin."""
    count = len(ranges)
    table = pa.table(
        [
            np.asarray(partition_slots(count), dtype=np.int32),
            np.arange(count, dtype=np.int64) << ROWS_PER_FILE_BITS,
            *([getattr(each, name) for each in ranges] for name in _TASK_SCHEMA.names[2:]),
        ],
        schema=_TASK_SCHEMA,
    )
    return session.createDataFrame(table).repartition(count, "slot")


def _ranges_in(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[OffsetRange, int]]:
    """Yield the ranges of a task, with where their rows begin."""
    for batch in batches:
        for task in batch.drop_columns(["slot"]).to_pylist():  # one
            first = task.pop("first")
            yield OffsetRange(**task), first


def _read_ranges(
    client: Client,
    schema: pa.Schema,
    metadata: Mapping[str, str],
    extra: Extra,
    spark_schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of ranges with their positions."""
    with encoded_errors():
        for span, first in _ranges_in(batches):
            [fetched] = fetch(client, [span], has_headers=True)
            found = rows(fetched, schema, metadata, extra)
            yield from number_rows(found, first, spark_schema, span.name)


Read = Callable[[OffsetRange, int], tuple[Sequence[pa.RecordBatch], Any]]
"""Takes a range and where its rows begin; returns rows, and a report (a value of `wire`)."""
_KEPT_SCHEMA = columns(position=pa.int64(), rows=pa.binary(), report=pa.binary())
_HASHED_SCHEMA = columns(position=pa.int64(), rows=pa.binary(), report=pa.string())
"""With SHA-256 of the report."""


class ReadRanges(Value):
    """Ranges that tasks have read: Spark keeps the rows."""

    kept: DataFrame
    topics: str
    schema: pa.Schema
    reports: Sequence[bytes]
    """Wire forms."""

    def frame(self, more: Sequence[pa.RecordBatch] = ()) -> DataFrame:
        """Return the rows, and more of this process with other keys, for a write by Spark."""
        spark_schema = spark_schema_of(self.schema)
        packed = self.kept.selectExpr("position", "rows", "sha2(report, 256) AS report")
        if more:
            found = [pack(each) for batch in more for each in pieces(batch)]
            first = len(self.reports) << ROWS_PER_FILE_BITS
            positions = [first + (n << ROWS_PER_TASK_BITS) for n in range(len(found))]
            none = pa.nulls(len(found), pa.string())
            held = pa.table([positions, found, none], schema=_HASHED_SCHEMA)
            packed = packed.union(self.kept.sparkSession.createDataFrame(held))
        arrow = spark_arrow_schema(spark_schema)
        expected = frozenset(sha256(each).hexdigest() for each in self.reports)
        read = partial(_unpack_rows, self.schema, arrow, self.topics, expected)
        made = PythonRows(tasks=packed, read=read)
        return remembering(made.frame(spark_schema), made)


@contextmanager
def read_ranges(
    session: SparkSession, ranges: Sequence[OffsetRange], read: Read, fields: Sequence[DataField]
) -> Iterator[ReadRanges | None]:
    """Read ranges by tasks, and keep the rows as long as the context lasts.

    Args:
        session: The session; its workers have `confluent-kafka`.
        ranges: At least one.
        read: Reads a range.
        fields: Of the rows. None is given where Spark's types do not hold all of their values.

    Raises:
        PaimonError: As `read`.
    """
    if not holds_exactly(fields):
        yield None
        return
    check_workers(session)
    tasks = _tasks(session, ranges)
    kept = tasks.mapInArrow(partial(_read_reported, read), ddl(_KEPT_SCHEMA)).persist()
    try:
        topics = shorten(sorted({each.topic for each in ranges}))
        with typed_errors(), named_jobs(session, f"read {topics}"):
            found = kept.where("report IS NOT NULL").select("report").collect()
        reports = [bytes(each.report) for each in found]
        schema = to_arrow_schema(fields)
        yield ReadRanges(kept=kept, topics=topics, schema=schema, reports=reports)
    finally:
        kept.unpersist()


def _read_reported(read: Read, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of each range in pieces, then the report of the range."""
    with encoded_errors():
        for span, first in _ranges_in(batches):
            found, report = read(span, first)
            position = first
            for piece in (piece for each in found for piece in pieces(each)):
                yield one_row(_KEPT_SCHEMA, position, pack(piece), None)
                position += piece.num_rows
            yield one_row(_KEPT_SCHEMA, None, None, dump(report))


def _unpack_rows(
    schema: pa.Schema,
    spark_schema: pa.Schema,
    topics: str,
    expected: frozenset[str],
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Yield rows with their positions, if the report behind them is one of the expected."""
    with encoded_errors():
        for batch in batches:
            for position, data, report in zip(*batch.columns, strict=True):
                if data.is_valid:
                    found = unpack(data.as_py(), schema)
                    yield from number_rows([found], position.as_py(), spark_schema)
                elif report.as_py() not in expected:
                    raise StorageError(
                        f"Spark lost rows of {topics} and read a range again, but its records "
                        "have changed: the topic was compacted. Nothing was committed; try again.",
                        kind="kafka",
                    )
