"""Which partition and bucket each row belongs to.

    partition columns → distinct values → serialized rows
    bucket key        → bucket number, by the bucket count of the row's own partition

The embedded writer routes rows by it, and Spark's shuffle adds its answer as columns.
Source: `org.apache.paimon.table.sink.FixedBucketRowKeyExtractor`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_assets.engine.codec.binary_row import deserialize_row, serialize_columns
from paimon_assets.engine.codec.bucket_function import bucket_numbers
from paimon_assets.engine.codec.numpy_columns import from_numpy, to_numpy
from paimon_assets.engine.contract.context import WriteContext
from paimon_assets.engine.errors import UnsupportedFeatureError
from paimon_assets.engine.spec.options import (
    BUCKET,
    BUCKET_FUNCTION,
    DATA_FILE_DIRECTORY,
    PARTITION_DEFAULT_NAME,
    PARTITION_LEGACY_NAME,
)
from paimon_assets.engine.spec.partition import partition_path
from paimon_assets.engine.spec.paths import TablePaths
from paimon_assets.engine.spec.schema import BucketMode, TableSchema
from paimon_assets.engine.spec.stats import EMPTY_ROW

Numbers = npt.NDArray[np.int32]

UNAWARE_BUCKET = 0
UNAWARE_TOTAL = -1

_WAY_OUT = {
    BucketMode.HASH_DYNAMIC: (
        "'bucket' = -1 with a primary key (dynamic buckets) needs an index this engine does not "
        "keep; create the table with a fixed 'bucket', such as 'bucket' = 4"
    ),
    BucketMode.POSTPONE: (
        "'bucket' = -2 (postponed buckets) is not written; create the table with a fixed 'bucket', "
        "such as 'bucket' = 4"
    ),
    BucketMode.KEY_DYNAMIC: (
        "the primary key lacks a partition column, which needs an index over all partitions; add "
        "the partition columns to the primary key and set a fixed 'bucket'"
    ),
}


def refuse_unroutable(schema: TableSchema, table: str) -> None:
    """Refuse tables whose rows find no bucket without an index.

    Raises:
        UnsupportedFeatureError: Names the option and the way out.
    """
    way_out = _WAY_OUT.get(schema.bucket_mode)
    outside = [name for name in schema.partition_keys if name not in schema.primary_keys]
    if schema.has_primary_key and outside:
        way_out = _WAY_OUT[BucketMode.KEY_DYNAMIC]
    if way_out:
        raise UnsupportedFeatureError(
            f"Table '{table}' cannot be written: {way_out}.",
            kind="bucket-mode",
            details={"table": table, "option": BUCKET.key},
        )


def total_buckets(context: WriteContext, partition: bytes) -> int:
    """Return the bucket count of a partition; -1 if rows are not hashed into buckets."""
    if context.schema.bucket_mode is not BucketMode.HASH_FIXED:
        return UNAWARE_TOTAL
    own = context.buckets_by_partition.get(partition)
    return context.schema.typed_options.get(BUCKET) if own is None else own


def bucket_path(context: WriteContext, partition: bytes, bucket: int) -> str:
    """Return the directory of a bucket's data files."""
    schema, options = context.schema, context.schema.typed_options
    fields = schema.partition_fields
    values = deserialize_row(partition, [column.type for column in fields]) if fields else ()
    directory = partition_path(
        fields,
        values,
        default_name=options.get(PARTITION_DEFAULT_NAME),
        legacy=options.get(PARTITION_LEGACY_NAME),
    )
    paths = TablePaths(table=context.table_path, data_directory=options.get(DATA_FILE_DIRECTORY))
    return paths.bucket(directory, bucket)


def assign_buckets(
    context: WriteContext, batch: pa.RecordBatch
) -> tuple[list[bytes], Numbers, Numbers]:
    """Return where each row of a batch belongs.

    Args:
        context: The write; gives keys, bucket counts and bucket function.
        batch: Rows that hold the partition and bucket-key columns, in the table's Arrow types.

    Returns:
        The serialized partitions of the batch, each once; row → index into them (int32); row →
        bucket (int32).

    Raises:
        UnsupportedFeatureError: The table's bucket mode needs an index.
    """
    refuse_unroutable(context.schema, context.table)
    partitions, partition_ids = _partitions(batch, context.schema)
    buckets = _buckets(context, batch, partitions, partition_ids)
    return partitions, partition_ids, buckets


def _partitions(batch: pa.RecordBatch, schema: TableSchema) -> tuple[list[bytes], Numbers]:
    fields = schema.partition_fields
    if not fields or not batch.num_rows:
        return [EMPTY_ROW] if not fields else [], np.zeros(batch.num_rows, dtype=np.int32)
    columns: list[Any] = [batch.column(column.name) for column in fields]
    ids, first_rows = _distinct_rows(columns)
    taken = [column.take(from_numpy(first_rows)) for column in columns]
    return serialize_columns(taken, [column.type for column in fields]), ids


def _distinct_rows(columns: Sequence[Any]) -> tuple[Numbers, npt.NDArray[np.int64]]:
    """Number the distinct rows of some columns.

    Returns:
        Row → number of its distinct value; number → a row that has it.
    """
    ids = np.zeros(len(columns[0]), dtype=np.int64)
    count = 1
    for column in columns:
        encoded = column.dictionary_encode(null_encoding="encode")
        codes = to_numpy(encoded.indices)
        ids = ids * len(encoded.dictionary) + codes
        count *= len(encoded.dictionary)
        if count > len(ids):  # few combinations are taken: number those that are
            _, ids = np.unique(ids, return_inverse=True)
            count = int(ids.max()) + 1
    rows = np.full(count, -1, dtype=np.int64)
    rows[ids[::-1]] = np.arange(len(ids) - 1, -1, -1)  # the first row of each wins
    present = np.flatnonzero(rows >= 0)
    renumbered = np.zeros(count, dtype=np.int32)
    renumbered[present] = np.arange(len(present), dtype=np.int32)
    return renumbered[ids], rows[present]


def _buckets(
    context: WriteContext,
    batch: pa.RecordBatch,
    partitions: Sequence[bytes],
    partition_ids: Numbers,
) -> Numbers:
    schema = context.schema
    if schema.bucket_mode is not BucketMode.HASH_FIXED:
        return np.full(batch.num_rows, UNAWARE_BUCKET, dtype=np.int32)
    columns: list[Any] = [batch.column(name) for name in schema.bucket_keys]
    types = [column.type for column in schema.columns(schema.bucket_keys)]
    function = schema.typed_options.get(BUCKET_FUNCTION)
    totals = np.array([total_buckets(context, row) for row in partitions], dtype=np.int32)
    distinct = np.unique(totals)
    if len(distinct) <= 1:
        total = int(distinct[0]) if len(distinct) else schema.typed_options.get(BUCKET)
        return bucket_numbers(columns, types, total, function)
    buckets = np.empty(batch.num_rows, dtype=np.int32)
    for total in distinct.tolist():
        rows = np.flatnonzero(totals[partition_ids] == total)
        taken = [column.take(from_numpy(rows)) for column in columns]
        buckets[rows] = bucket_numbers(taken, types, total, function)
    return buckets
