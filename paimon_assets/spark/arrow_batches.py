"""The size of the batches in which Spark hands rows to Python."""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession
from pyspark.sql.types import AtomicType, BinaryType, StructType, VariantType

_BATCH_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
_BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
MOST_BATCH_BYTES = str(64 * 1024 * 1024)
_UNLIMITED = str(2**31 - 1)
_ROWS_UNMEASURED = 4096


@contextmanager
def sized_batches(session: SparkSession, rows: StructType) -> Iterator[None]:
    """Let Spark hand rows to Python in batches of a number of rows, for the jobs of a context.

    Under its limit of bytes, Spark adds up the buffers of all columns after each row: a third of
    the work of handing over rows of eight columns. The limit stays for rows that may be large, and
    where a setting of the session has another.
    """
    before = session.conf.get(_BATCH_BYTES, None)
    if may_be_large(rows):
        if before == _UNLIMITED:  # by another thread's job
            session.conf.set(_BATCH_BYTES, MOST_BATCH_BYTES)
        yield
        return
    if before not in (None, MOST_BATCH_BYTES):
        yield
        return
    count = session.conf.get(_BATCH_ROWS, None)
    session.conf.set(_BATCH_BYTES, _UNLIMITED)
    if not 0 < int(count or 0) < _ROWS_UNMEASURED:
        session.conf.set(_BATCH_ROWS, str(_ROWS_UNMEASURED))
    try:
        yield
    finally:
        for key, value in ((_BATCH_BYTES, before), (_BATCH_ROWS, count)):
            if value is None:
                session.conf.unset(key)
            else:
                session.conf.set(key, value)


def may_be_large(rows: StructType) -> bool:
    """Whether a row may hold much: bytes, a variant, a list, a map or a struct."""
    return any(
        not isinstance(field.dataType, AtomicType)
        or isinstance(field.dataType, BinaryType | VariantType)
        for field in rows.fields
    )
