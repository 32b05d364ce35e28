"""Small reads by the driver: a lookup in half the CPU of tasks, a range of keys in 0.30 s for 0.38.

A lookup is planned here anyway, and often a few row groups of it are left. They are read
here while Spark would still start tasks, and Spark gets the rows: without a Python worker, and for
`collect` without a job. It is decided by bytes of files: all of them, or those of the row groups
that may match the filter, as their footers say. Rows that take more memory than `_HELD_BYTES` are
left to tasks after all.

A range of keys is a few megabytes more often than a few rows: these Spark gets as an RDD.
"""

import logging
import threading

import pyarrow as pa
import pyarrow.types as pat
from pyspark.sql import DataFrame, SparkSession

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema
from paimon_assets.engine.contract.context import ReadContext
from paimon_assets.engine.contract.split import Splits
from paimon_assets.engine.data.worker import bytes_to_decode
from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.errors import InvalidInputError, PaimonError
from paimon_assets.engine.fileio.opening import open_file_io, scheme_of
from paimon_assets.engine.spec.options.all_options import READ_CUT_NANOSECONDS, parse_memory
from paimon_assets.engine.spec.predicate import predicate as pred
from paimon_assets.spark.job_names import is_connect
from paimon_assets.spark.python_rows import is_large_to_spark, row_bytes
from paimon_assets.spark.types import spark_arrow_schema, to_spark_batch, to_spark_schema

logger = logging.getLogger(__name__)

READ_HERE = "spark.paimon_assets.readHere"
"""Session setting: up to how many bytes of files this process reads for a DataFrame; 0 is none."""
_DEFAULT = "48 mb"
_MOST_FILES = 16
"""Of more, footers are not asked."""
_HELD_BYTES = 1024 * 1024
"""Spark computes with rows it holds in a plan slower than with those of tasks."""
_SENT_BYTES = 4 * 1024 * 1024
"""Rows of an RDD, which go to the tasks that compute with them."""
_HELD_IN_PLAN = "spark.sql.execution.arrow.localRelationThreshold"
_sending = threading.Lock()


def read_on_driver(session: SparkSession, context: ReadContext, splits: Splits) -> DataFrame | None:
    """Return the rows of splits as a DataFrame that holds them; None if they are not few.

    An error is none here: it leaves the read to tasks, whose error it becomes.

    Cost:
        At most the decoding of `readHere` bytes, and of a filtered read the footers of 16 files.
    """
    schema = to_spark_schema(context.fields)
    if not all(map(_is_flat, to_arrow_schema(context.fields).types)):
        return None
    if context.predicate is None:
        rows = sum(split.row_count for split in splits)
        if rows * row_bytes(context.fields) > _HELD_BYTES:
            return None
    elif not any(map(_is_lookup, pred.conjuncts(context.predicate))):
        return None
    if not is_driver_read(session, context, splits):
        return None
    table = _rows(context, splits, _HELD_BYTES)
    return None if table is None else session.createDataFrame(table, schema)


def read_keys_on_driver(
    session: SparkSession, context: ReadContext, splits: Splits
) -> DataFrame | None:
    """Return the rows of a range of keys as a DataFrame over an RDD; None if they are not few.

    For splits that Python tasks would read: Spark's own reads need no Python worker. Local
    files only, of which footers cost little, and not over Connect, which has no RDDs. Spark takes
    the DataFrame for large, as it does that of tasks.

    Cost:
        As `read_on_driver`. Rows that are not few are decoded up to `_SENT_BYTES` for nothing.
    """
    schema, keys = to_spark_schema(context.fields), context.schema.trimmed_primary_keys
    if (
        pred.only_on(context.predicate, keys) is None
        or is_connect(session)
        or any(
            scheme_of(split.path_of(file)) != "file"
            for split in splits
            for file in split.data_files
        )
        or not all(map(_is_flat, to_arrow_schema(context.fields).types))
        or not is_large_to_spark(session, context, splits)
        or not is_driver_read(session, context, splits)
    ):
        return None
    table = _rows(context, splits, _SENT_BYTES)
    if table is None:
        return None
    with _sending:
        before = session.conf.get(_HELD_IN_PLAN)
        session.conf.set(_HELD_IN_PLAN, "0")
        try:
            return session.createDataFrame(table, schema)
        finally:
            session.conf.set(_HELD_IN_PLAN, str(before))


def _rows(context: ReadContext, splits: Splits, most_bytes: int) -> pa.Table | None:
    """Read splits; None if their rows take more bytes, or on an error."""
    batches, held = [], 0
    try:
        for batch in EmbeddedExecutor().map_splits(context, splits):
            batches.append(batch)
            held += batch.nbytes
            if held > most_bytes:
                return None
        schema = spark_arrow_schema(to_spark_schema(context.fields))
        cuts = context.schema.typed_options.get(READ_CUT_NANOSECONDS)
        few = [to_spark_batch(batch, schema, cuts=cuts) for batch in batches]
    except PaimonError as error:
        logger.debug("tasks read %s, whose error may be: %s", context.table, error)
        return None
    return pa.Table.from_batches(few, schema)


def _is_lookup(part: pred.Predicate) -> bool:
    """Whether a filter looks for single values, which few rows have, and not for a range."""
    if isinstance(part, pred.Comparison):
        return part.op is pred.CompareOp.EQ
    return isinstance(part, pred.In) and not part.negated


def _is_flat(arrow_type: pa.DataType) -> bool:
    return not pat.is_nested(arrow_type) and not pat.is_time(arrow_type)


def is_driver_read(session: SparkSession, context: ReadContext, splits: Splits) -> bool:
    """Whether so few bytes of files are decoded, as footers say, that this process does it."""
    text = str(session.conf.get(READ_HERE, _DEFAULT))
    try:
        limit = parse_memory(text)
    except ValueError as error:
        message = (
            f"'{READ_HERE}' of the session is '{text}', which is no size such as '16 mb'; 0 leaves"
            " all reads to tasks."
        )
        raise InvalidInputError(message, kind="option", option=READ_HERE) from error
    if sum(split.file_bytes for split in splits) <= limit:
        return limit > 0
    if context.predicate is None or sum(len(split.data_files) for split in splits) > _MOST_FILES:
        return False
    left = limit
    try:
        file_io = open_file_io(context.file_io)
        for split in splits:
            left -= bytes_to_decode(context, split, file_io)
            if left < 0:
                return False
    except PaimonError as error:
        logger.debug("tasks read %s, whose error may be: %s", context.table, error)
        return False
    return limit > 0
