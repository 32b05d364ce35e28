"""The partition and bucket of each row.

    partition columns → distinct values → serialized rows
    bucket key        → bucket number, by the bucket count of the row's own partition

The embedded writer routes rows by them; Spark's shuffle adds them as columns.
Source: `org.apache.paimon.table.sink.FixedBucketRowKeyExtractor`.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_assets.engine.codec.arrow.numpy_columns import Ints, from_numpy, to_numpy
from paimon_assets.engine.codec.rows.binary_row import deserialize_row, serialize_columns
from paimon_assets.engine.contract.context import WriteContext
from paimon_assets.engine.errors import InvalidInputError, UnsupportedFeatureError
from paimon_assets.engine.spec.merge.engine_traits import EngineTraits
from paimon_assets.engine.spec.metadata.data_file import EMPTY_ROW
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.partition import partition_path, partition_spec
from paimon_assets.engine.spec.paths import POSTPONE_BUCKET, TablePaths
from paimon_assets.engine.spec.predicate.prune import exactly, may_match
from paimon_assets.engine.spec.schema.schema import BucketMode, TableSchema


class RowBuckets(NamedTuple):
    partitions: list[bytes]
    """Serialized partitions, each once."""
    partition_ids: Ints
    """Row → index into them."""
    buckets: Ints
    """Row → bucket."""


UNAWARE_BUCKET = 0
_UNAWARE_TOTAL = -1
_MAX_NAME_BYTES = 255
"""Of a file or directory, on common file systems."""


def refuse_unroutable(schema: TableSchema, table: str) -> None:
    """Refuse tables that move a key to another partition, where their options do not allow that."""
    outside = schema.partition_keys_outside_key
    if not outside:
        return
    options, newest_wins = schema.typed_options, EngineTraits.of(schema).newest_wins
    if options.get(opt.SEQUENCE_FIELD):
        option, reason = opt.SEQUENCE_FIELD.key, f"which excludes '{opt.SEQUENCE_FIELD.key}'"
    elif newest_wins and options.get(opt.IGNORE_DELETE):
        option, reason = opt.IGNORE_DELETE.key, f"which excludes '{opt.IGNORE_DELETE.key}' = true"
    elif schema.bucket_mode is BucketMode.KEY_DYNAMIC:
        return
    else:
        option, reason = opt.BUCKET.key, "which needs 'bucket' = -1"
    message = (
        f"Table '{table}' cannot be written: its primary key lacks the partition column "
        f"'{outside[0]}', so that keys may change partition, {reason}. Or add the partition "
        f"columns to the primary key. ('{option}')"
    )
    raise UnsupportedFeatureError(message, kind="bucket-mode", table=table, option=option)


def total_buckets(context: WriteContext, partition: bytes) -> int:
    """Return the bucket count of a partition; -1 or -2 if rows are not hashed into buckets."""
    schema = context.schema
    if not has_hashed_buckets(schema):
        return POSTPONE_BUCKET if schema.bucket_mode is BucketMode.POSTPONE else _UNAWARE_TOTAL
    own = context.buckets_by_partition.get(partition)
    return default_buckets(schema) if own is None else own


def has_hashed_buckets(schema: TableSchema) -> bool:
    """Whether a row's bucket follows from its hash and a bucket count."""
    mode = schema.bucket_mode
    postponed = mode is BucketMode.POSTPONE and schema.typed_options.get(opt.POSTPONE_WRITE_FIXED)
    return postponed or mode is BucketMode.HASH_FIXED


def default_buckets(schema: TableSchema) -> int:
    """Return the bucket count of new partitions, where rows are hashed into buckets."""
    postponed = schema.bucket_mode is BucketMode.POSTPONE
    return schema.typed_options.get(opt.POSTPONE_DEFAULT_BUCKETS if postponed else opt.BUCKET)


def refuse_partition(context: WriteContext, partition: bytes) -> None:
    """Refuse a partition outside those that an overwrite replaces."""
    if context.partitions is None:
        return
    fields = context.schema.partition_fields
    values = deserialize_row(partition, [column.type for column in fields])
    bounds = {column.name: exactly(v) for column, v in zip(fields, values, strict=True)}
    if may_match(context.partitions, bounds.__getitem__):
        return
    null_name = context.schema.typed_options.get(opt.PARTITION_DEFAULT_NAME)
    texts = partition_spec(fields, values, default_name=null_name, legacy=False)
    shown = ", ".join(f"{name} = {text}" for name, text in texts.items())
    raise InvalidInputError(
        f"Cannot write into table '{context.table}': some rows lie in partition ({shown}), which "
        "is not one of those to be overwritten. Leave these rows out, or overwrite dynamically.",
        kind="overwrite-partition",
        table=context.table,
        partition=shown,
    )


def bucket_path(context: WriteContext, partition: bytes, bucket: int) -> str:
    schema, options = context.schema, context.schema.typed_options
    fields = schema.partition_fields
    values = deserialize_row(partition, [column.type for column in fields]) if fields else ()
    directory = partition_path(
        fields,
        values,
        default_name=options.get(opt.PARTITION_DEFAULT_NAME),
        legacy=options.get(opt.PARTITION_LEGACY_NAME),
    )
    for field, name in zip(fields, directory.split("/"), strict=False):
        length = len(name.encode())
        if length > _MAX_NAME_BYTES:
            raise InvalidInputError(
                f"Cannot write into table '{context.table}': a value of partition column "
                f"'{field.name}' cannot be a directory, whose name would have {length} bytes and "
                f"may have {_MAX_NAME_BYTES}: '{name[:40]}…'. Shorten the value, or partition by "
                "another column.",
                kind="partition-value",
                table=context.table,
                column=field.name,
                bytes=length,
            )
    paths = TablePaths(
        table=context.table_path, data_directory=options.get(opt.DATA_FILE_DIRECTORY)
    )
    return paths.bucket(directory, bucket)


def assign_buckets(context: WriteContext, batch: pa.RecordBatch) -> RowBuckets:
    refuse_unroutable(context.schema, context.table)
    schema = context.schema
    partitions, ids = partition_ids(batch, schema)
    if not has_hashed_buckets(schema):
        postponed = schema.bucket_mode is BucketMode.POSTPONE
        only = POSTPONE_BUCKET if postponed else UNAWARE_BUCKET
        return RowBuckets(partitions, ids, np.full(batch.num_rows, only, dtype=np.int32))
    columns: list[Any] = [batch.column(name) for name in schema.bucket_keys]
    types = [column.type for column in schema.columns(schema.bucket_keys)]
    function = schema.typed_options.get(opt.BUCKET_FUNCTION)
    counts = [total_buckets(context, row) for row in partitions]
    distinct = sorted(set(counts)) or [default_buckets(schema)]
    from paimon_assets.engine.codec.hashing.bucket_function import bucket_numbers

    if len(distinct) == 1:
        return RowBuckets(partitions, ids, bucket_numbers(columns, types, distinct[0], function))
    buckets, totals = np.empty(batch.num_rows, dtype=np.int32), np.array(counts)
    for total in distinct:
        rows = np.flatnonzero(totals[ids] == total)
        keys = [column.take(from_numpy(rows)) for column in columns]
        buckets[rows] = bucket_numbers(keys, types, total, function)
    return RowBuckets(partitions, ids, buckets)


def partition_ids(batch: pa.RecordBatch, schema: TableSchema) -> tuple[list[bytes], Ints]:
    """Return the serialized partitions of a batch, each once, and row → index into them."""
    fields = schema.partition_fields
    if not fields or not batch.num_rows:
        return [EMPTY_ROW] if not fields else [], np.zeros(batch.num_rows, dtype=np.int32)
    columns: list[Any] = [batch.column(column.name) for column in fields]
    ids, first_rows = distinct_rows(columns)
    values = [column.take(from_numpy(first_rows)) for column in columns]
    return serialize_columns(values, [column.type for column in fields]), ids


def distinct_rows(columns: Sequence[Any]) -> tuple[Ints, npt.NDArray[np.int64]]:
    """Return row → number of its distinct row, and the first row of each number."""
    # Two rows have the same number, below `count`, if they agree in all columns so far.
    ids = np.zeros(len(columns[0]), dtype=np.int64)
    count = 1
    for column in columns:
        encoded = column.dictionary_encode(null_encoding="encode")
        codes = to_numpy(encoded.indices)
        ids = ids * len(encoded.dictionary) + codes
        count *= len(encoded.dictionary)
        if count > len(ids):  # few combinations occur: number those that do
            _, ids = np.unique(ids, return_inverse=True)
            count = int(ids.max()) + 1
    rows = np.full(count, -1, dtype=np.int64)
    rows[ids[::-1]] = np.arange(len(ids) - 1, -1, -1)  # the first row of each wins
    present = np.flatnonzero(rows >= 0)
    renumbered = np.zeros(count, dtype=np.int32)
    renumbered[present] = np.arange(len(present), dtype=np.int32)
    return renumbered[ids], rows[present]
