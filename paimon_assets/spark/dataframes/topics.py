"""Ranges of offsets → DataFrame; each range is read by one task, and its bytes pass no JVM."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from paimon_assets.engine.data.kafka.fetching import fetch
from paimon_assets.engine.data.kafka.messages import rows
from paimon_assets.engine.data.kafka.topics import Client, OffsetRange, Settings
from paimon_assets.spark.dataframes.sources import ROWS_PER_FILE_BITS, spark_schema_of
from paimon_assets.spark.failure import encoded_errors
from paimon_assets.spark.packing import POSITION_COLUMN, columns
from paimon_assets.spark.python_rows import PythonRows, remembering
from paimon_assets.spark.shuffle import partition_slots
from paimon_assets.spark.types import spark_arrow_schema, to_spark_batch

_TASK_SCHEMA = columns(
    slot=pa.int32(),
    first=pa.int64(),
    topic=pa.string(),
    partition=pa.int32(),
    start=pa.int64(),
    end=pa.int64(),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    settings: Settings
    seconds: float
    schema: pa.Schema
    metadata: Mapping[str, str]
    spark_schema: pa.Schema
    """Of the DataFrame, position column included."""


def topics_to_dataframe(
    session: SparkSession,
    client: Client,
    ranges: Sequence[OffsetRange],
    schema: pa.Schema,
    metadata: Mapping[str, str],
) -> DataFrame:
    """Read ranges of offsets into a DataFrame whose rows remember their order.

    Args:
        session: The session; its workers have `confluent-kafka`.
        client: The cluster.
        ranges: At least one.
        schema: Columns of the rows.
        metadata: As of `messages.rows`.
    """
    spark_schema = spark_schema_of(schema)
    reading = _Reading(
        settings=client.settings,
        seconds=client.seconds,
        schema=schema,
        metadata=metadata,
        spark_schema=spark_arrow_schema(spark_schema),
    )
    count = len(ranges)
    table = pa.table(
        [
            np.asarray(partition_slots(count), dtype=np.int32),
            np.arange(count, dtype=np.int64) << ROWS_PER_FILE_BITS,
            *([getattr(each, name) for each in ranges] for name in _TASK_SCHEMA.names[2:]),
        ],
        schema=_TASK_SCHEMA,
    )
    tasks = session.createDataFrame(table).repartition(count, "slot")
    made = PythonRows(tasks=tasks, read=partial(_read_ranges, reading))
    return remembering(made.frame(spark_schema), made)


def _read_ranges(reading: _Reading, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of ranges with their positions."""
    client = Client(reading.settings, seconds=reading.seconds)
    with encoded_errors():
        for batch in batches:
            for task in batch.drop_columns(["slot"]).to_pylist():  # one
                position = task.pop("first")
                [fetched] = fetch(client, [OffsetRange(**task)], has_headers=True)
                for found in rows(fetched, reading.schema, dict(reading.metadata)):
                    positions = np.arange(position, position + found.num_rows, dtype=np.int64)
                    position += found.num_rows
                    located = found.append_column(POSITION_COLUMN, pa.array(positions))
                    yield to_spark_batch(located, reading.spark_schema, path=fetched.range.name)
