"""Appends by Spark's own Parquet writer: 13 s of CPU for 5 million computed rows, not 21.

    Spark's rows ─▶ Arrow ─▶ Python task ─▶ files of the table                 any rows
    Spark's rows ─▶ Spark's writer ─▶ a folder of this write ─▶ the table      if files are the same

Rows on their way to a Python task cost as much as all of Spark's writer. So that writes where it
makes just the files that this engine would make:

    table      no primary key or buckets; Parquet files of one of four codecs, without file indexes;
               no default values, no column of row kinds
    columns    all of the table's, flat, of its types or narrower ones, TIMESTAMPs of six digits; of
               partitions those whose statistics are exact
    storage    local files, and a Spark whose tasks run in this machine's one JVM

Its committer takes the files of tasks that succeeded, each once. Then this process looks at every
footer (`adopted_file`) and moves the files under names of ours to their bucket. What a footer does
not vouch for, a null in a NOT NULL column say, lets go of all files; the rows are written as any,
which says what is wrong. `spark.paimon_assets.writeBySpark` = false does so from the beginning.

Rows of several partitions: Spark sorts them, unless a task may hold a file of each open. It groups
them by a hash, since names of folders cannot tell all values; footers show that no group has two.
"""

import logging
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn
from pyspark.sql import types as st

from paimon_assets.engine.contract.commit_message import (
    CommitMessage,
    DataIncrement,
    WriteReport,
    WriteResult,
)
from paimon_assets.engine.contract.context import WriteContext
from paimon_assets.engine.data.write.adopted_file import UNCOUNTED, AdoptedFile, adopt_file
from paimon_assets.engine.data.write.input_check import InputCheck, length_limit
from paimon_assets.engine.data.write.rolling_file import FileFactory, delete_unfinished
from paimon_assets.engine.data.write.row_key_extractor import (
    UNAWARE_BUCKET,
    bucket_path,
    refuse_partition,
    total_buckets,
)
from paimon_assets.engine.data.write.write_support import refuse_unwritable
from paimon_assets.engine.errors import FormatError, PaimonError
from paimon_assets.engine.fileio.local import LocalFileIO, local_path, storage_errors
from paimon_assets.engine.fileio.opening import open_file_io
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.options.all_options import (
    DATA_FILE_PREFIX,
    FILE_BLOCK_SIZE,
    FILE_COMPRESSION,
    FILE_COMPRESSION_PER_LEVEL,
    FILE_COMPRESSION_ZSTD_LEVEL,
    PARQUET_BLOCK_SIZE,
    PARQUET_ENABLE_DICTIONARY,
    PARQUET_PAGE_SIZE,
    ROWKIND_FIELD,
)
from paimon_assets.engine.spec.paths import STAGING_PREFIX
from paimon_assets.engine.spec.schema.schema import BucketMode, TableSchema
from paimon_assets.engine.spec.types.data_types import BINARY_ROOTS, AtomicType, DataField, TypeRoot
from paimon_assets.spark.parquet_footers import FOOTERS_AT_ONCE
from paimon_assets.spark.python_rows import row_bytes
from paimon_assets.spark.types import MICROS, quoted, to_spark_type

logger = logging.getLogger(__name__)

WRITE_BY_SPARK = "spark.paimon_assets.writeBySpark"
"""Session setting: `false` has tasks of ours write all rows."""

_SUCCESS = "_SUCCESS"
"""File by which Spark's committer says that its job is done."""
_REFUSED = "[paimon-assets:refused]"
_CODECS = {"zstd": "zstd", "snappy": "snappy", "gzip": "gzip", "none": "uncompressed"}
_GROUP_ROWS = 131_072
"""Twice as many as our writer has: for Spark a group costs more."""
_DICTIONARY_BYTES = 64 * 1024
_LONG_DIGITS = 18
_MOST_BYTES = 2**31 - 1
_FLAT = frozenset(TypeRoot) - {TypeRoot.TIME, TypeRoot.VARIANT, TypeRoot.BLOB}
_VAGUE = BINARY_ROOTS | {TypeRoot.FLOAT, TypeRoot.DOUBLE}
"""Types of which a footer may not tell that all values are one."""
_ENCRYPTION = "parquet.crypto.factory.class"
_MOST_OPEN = 64


def write_natively(frame: DataFrame, context: WriteContext) -> WriteResult | None:
    """Write rows by Spark's writer; None if it is not to write them.

    Raises:
        PySparkException: The rows cannot be computed.
    """
    refuse_unwritable(context.schema, context.table)
    reason = refusal(frame, context)
    if reason is None:
        staging = f"{context.table_path}/{STAGING_PREFIX}{uuid4()}"
        try:
            _write(frame, context.schema, f"file:{local_path(staging)}")
            return _adopt(context, staging)
        except _Unfit as error:
            reason = str(error)
        except AnalysisException as error:
            reason = str(error)
        except PySparkException as error:
            if _REFUSED not in str(error):
                raise
            reason = "a value is too long, or a null"
        finally:
            _delete(context, staging)
    logger.debug("tasks write the rows of %s: %s", context.table, reason)
    return None


class _Unfit(Exception):  # noqa: N818 - no error: the rows are written by tasks
    """Why files of Spark are not taken."""


def refusal(frame: DataFrame, context: WriteContext) -> str | None:
    """Return why Spark's writer does not write rows, None if it does."""
    session, java = frame.sparkSession, getattr(frame, "_jdf", None)
    if java is None:
        return "Connect shows no plan"
    if str(session.conf.get(WRITE_BY_SPARK, "true")).lower() != "true":
        return f"{WRITE_BY_SPARK} says so"
    spark: Any = session.sparkContext
    is_local = type(open_file_io(context.file_io)) is LocalFileIO  # and not one that flushes
    if not is_local or not spark._jsc.sc().isLocal():  # noqa: SLF001
        return "this process may not see what Spark wrote, or has to flush it"
    if java.sparkSession().sessionState().newHadoopConf().get(_ENCRYPTION) is not None:
        return "Spark encrypts files"
    return table_refusal(context) or column_refusal(context.schema, frame.schema)


def table_refusal(context: WriteContext) -> str | None:
    """Return why Spark cannot make the files of a table, None if it can."""
    schema, options = context.schema, context.schema.typed_options
    factory = FileFactory(schema=schema, file_io=LocalFileIO())
    if schema.bucket_mode is not BucketMode.BUCKET_UNAWARE:
        return "the table has buckets"
    if factory.file_format != "parquet" or options.get(FILE_COMPRESSION_PER_LEVEL):
        return "files are not of one format and codec"
    if options.get(FILE_COMPRESSION) not in _CODECS:
        return "Spark lacks the codec"
    if factory.indexes:
        return "files have indexes"
    if options.get(ROWKIND_FIELD):
        return "rows have kinds"
    if any(column.default_value is not None for column in schema.fields):
        return "columns have default values"
    return None


def column_refusal(schema: TableSchema, rows: st.StructType) -> str | None:
    """Return why Spark would not store columns as this engine does, None if it would."""
    names = [column.name for column in schema.fields]
    if sorted(names) != sorted(rows.names) or len({name.lower() for name in names}) < len(names):
        return "the columns are not those of the table"
    for column in schema.fields:
        kind = column.type
        digits = kind.precision if isinstance(kind, AtomicType) else None
        if not isinstance(kind, AtomicType) or kind.root not in _FLAT:
            return f"column '{column.name}' is {kind}"
        if kind.root in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ) and digits != MICROS:
            return f"column '{column.name}' has not {MICROS} digits"
        if column.name in schema.partition_keys and kind.root in _VAGUE:
            return f"partition column '{column.name}' is {kind}"
        if "." in column.name and kind.root is TypeRoot.DECIMAL:
            return f"Spark would take column '{column.name}' for a nested one"
        if not _is_wider(rows[column.name].dataType, to_spark_type(kind, column=column.name)):
            return f"column '{column.name}' is {kind} in the table"
    return None


def _is_wider(kind: st.DataType, target: st.DataType) -> bool:
    """Whether a type has all values of another one, and Spark gives the same ones."""
    if isinstance(kind, st.DecimalType) and isinstance(target, st.DecimalType):
        digits = target.precision - target.scale >= kind.precision - kind.scale
        return digits and target.scale >= kind.scale
    for family in _FAMILIES:
        if type(kind) in family and type(target) in family:
            return family.index(type(kind)) <= family.index(type(target))
    return kind == target


_FAMILIES: tuple[tuple[type[st.DataType], ...], ...] = (
    (st.ByteType, st.ShortType, st.IntegerType, st.LongType),
    (st.FloatType, st.DoubleType),
)


def _write(frame: DataFrame, schema: TableSchema, path: str) -> None:
    """Let Spark write the rows to a folder that does not exist."""
    spark: Any = frame.sparkSession.sparkContext
    folder = "partition"
    while folder in {column.name.lower() for column in schema.fields}:
        folder += "_"
    parts = [fn.col(quoted(name)) for name in schema.partition_keys]
    # The hash of a null is that of the value before it.
    group = fn.xxhash64(*parts, *(part.isNull() for part in parts)).alias(folder)
    rows: Any = frame.select(*map(_column, schema.fields), *([group] if parts else []))
    # What decides how files are written are settings of a session, which are not ours to change.
    session = rows._jdf.sparkSession().cloneSession()  # noqa: SLF001
    open_files, group_bytes = _open_files(spark, schema) if parts else (0, _group_bytes(schema))
    for name, value in {**_SETTINGS, _AT_ONCE: str(open_files)}.items():
        session.conf().set(name, value)
    plan = rows._jdf.queryExecution().analyzed()  # noqa: SLF001
    writer = spark._jvm.org.apache.spark.sql.classic.Dataset.ofRows(session, plan).write()  # noqa: SLF001
    for name, value in _options(schema, group_bytes).items():
        writer.option(name, value)
    if parts:
        names = spark._gateway.new_array(spark._jvm.java.lang.String, 1)  # noqa: SLF001
        names[0] = folder
        writer.partitionBy(names)
    writer.parquet(path)


def _open_files(spark: Any, schema: TableSchema) -> tuple[int, int]:
    """Return how many files a task may hold open, and the bytes of a row group of each.

    All tasks may hold a quarter of the memory. 0 files are one, of sorted rows.
    """
    memory: int = spark._jvm.java.lang.Runtime.getRuntime().maxMemory()  # noqa: SLF001
    share, group_bytes = memory // 4 // max(1, spark.defaultParallelism), _group_bytes(schema)
    files = share // min(group_bytes, _GROUP_ROWS * row_bytes(schema.fields))
    files = min(files, _MOST_OPEN)
    return (files, min(group_bytes, share // files)) if files > 1 else (0, group_bytes)


def _group_bytes(schema: TableSchema) -> int:
    options = schema.typed_options
    return options.get(FILE_BLOCK_SIZE) or options.get(PARQUET_BLOCK_SIZE)


_SQL = "org.apache.spark.sql"
_AT_ONCE = "spark.sql.maxConcurrentOutputFileWriters"
_SETTINGS: Mapping[str, str] = {
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.fieldId.write.enabled": "true",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.output.committer.class": "org.apache.parquet.hadoop.ParquetOutputCommitter",
    "spark.sql.parquet.writeLegacyFormat": "false",
    "spark.sql.sources.commitProtocolClass": (
        f"{_SQL}.execution.datasources.SQLHadoopMapReduceCommitProtocol"
    ),
}


def _options(schema: TableSchema, group_bytes: int) -> dict[str, str]:
    options = schema.typed_options
    # Java 1.4 finds nothing by the dictionary of a long decimal.
    long_decimals = {
        f"{PARQUET_ENABLE_DICTIONARY.key}#{column.name}": "false"
        for column in schema.fields
        if isinstance(column.type, AtomicType)
        and column.type.root is TypeRoot.DECIMAL
        and (column.type.precision or 0) > _LONG_DIGITS
    }
    target = FileFactory(schema=schema, file_io=LocalFileIO()).target_bytes
    return {
        "compression": _CODECS[options.get(FILE_COMPRESSION)],
        "maxRecordsPerFile": str(max(1, target // row_bytes(schema.fields))),
        "mapreduce.fileoutputcommitter.algorithm.version": "1",
        "mapreduce.fileoutputcommitter.marksuccessfuljobs": "true",
        "parquet.block.row.count.limit": str(_GROUP_ROWS),
        "parquet.block.size": str(group_bytes),
        # Most values are new in a row group: to note them until it ends takes a third of the time.
        "parquet.dictionary.page.size": str(_DICTIONARY_BYTES),
        "parquet.compression.codec.zstd.level": str(options.get(FILE_COMPRESSION_ZSTD_LEVEL)),
        "parquet.enable.dictionary": str(options.get(PARQUET_ENABLE_DICTIONARY)).lower(),
        # By the statistics of a text its partition is known.
        "parquet.statistics.truncate.length": str(_MOST_BYTES),
        "parquet.page.size": str(options.get(PARQUET_PAGE_SIZE)),
        **long_decimals,
    }


def _column(field: DataField) -> Column:
    """Return a column as it is stored; a value that a footer may not show as wrong ends the job."""
    column, limit = fn.col(quoted(field.name)), length_limit(field.type)
    column = column.cast(to_spark_type(field.type, column=field.name))
    if limit is not None:
        fits = column.isNull() | (fn.length(column) <= limit)
        column = fn.when(fits, column).otherwise(fn.raise_error(fn.lit(_REFUSED)))
    if not field.type.nullable and field.type.root in UNCOUNTED:
        column = fn.coalesce(column, fn.raise_error(fn.lit(_REFUSED)))
    return column.alias(field.name, metadata={"parquet.field.id": field.id})


def _adopt(context: WriteContext, staging: str) -> WriteResult:
    """Move the files of a folder into their buckets; none if one of them does not fit.

    Raises:
        _Unfit: By its statistics a file may break a rule of the table.
        InvalidInputError: A partition may not be written.
    """
    file_io = open_file_io(context.file_io)
    check = InputCheck(table=context.table, schema=context.schema)
    folder = Path(local_path(staging))
    if not (folder / _SUCCESS).exists():
        raise _Unfit(f"Spark has not said in '{folder}' that all is written")

    def adopted(path: Path) -> AdoptedFile:
        try:
            file = adopt_file(check, file_io, str(path), path.stat().st_size)
        except FormatError as error:
            raise _Unfit(str(error)) from error
        if file is None:
            raise _Unfit(f"'{path}' may hold what the table refuses")
        return file

    # What an attempt left that failed is hidden by the name of its folder.
    paths = sorted([*folder.glob("*.parquet"), *folder.glob("partition*/*.parquet")])
    with ThreadPoolExecutor(FOOTERS_AT_ONCE, thread_name_prefix="footer") as pool:
        found = [*zip(paths, pool.map(adopted, paths), strict=True)]
    written = [(path, file) for path, file in found if file.meta.row_count]
    partitions = dict.fromkeys(file.partition for _, file in written)
    buckets = {each: _bucket(context, each) for each in partitions}
    prefix = f"{context.schema.typed_options.get(DATA_FILE_PREFIX)}{uuid4()}"
    goals, messages = list[str](), dict[bytes, list[DataFileMeta]]()
    try:
        for number, (path, file) in enumerate(written):
            goal = buckets[file.partition] / f"{prefix}-{number}.parquet"
            with storage_errors(str(goal)):
                goal.parent.mkdir(parents=True, exist_ok=True)
                goals.append(str(goal))
                path.rename(goal)
            meta = file.meta._replace(file_name=goal.name)
            messages.setdefault(file.partition, []).append(meta)
    except BaseException:
        delete_unfinished(file_io, goals, context.table)
        raise
    rows = sum(file.meta.row_count for _, file in written)
    report = WriteReport(rows_in=rows, rows_written=rows)
    return WriteResult(
        messages=tuple(_message(context, *entry) for entry in messages.items()), report=report
    )


def _bucket(context: WriteContext, partition: bytes) -> Path:
    """Return the folder of a partition's files."""
    refuse_partition(context, partition)
    return Path(local_path(bucket_path(context, partition, UNAWARE_BUCKET)))


def _message(context: WriteContext, partition: bytes, files: list[DataFileMeta]) -> CommitMessage:
    return CommitMessage(
        partition=partition,
        bucket=UNAWARE_BUCKET,
        total_buckets=total_buckets(context, partition),
        data_increment=DataIncrement(new_files=tuple(files)),
        keys_known_at=context.keys_known_at,
    )


def _delete(context: WriteContext, staging: str) -> None:
    try:
        open_file_io(context.file_io).delete_directory(staging)
    except PaimonError as error:  # what is left is an orphan
        logger.warning("could not delete %s of table %s: %s", staging, context.table, error)
