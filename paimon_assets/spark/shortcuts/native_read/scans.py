"""Few scans for many files of one read, and their rows.

    one scan  =  files of one format that name their columns alike
               + of one partition, or of any partitions below one folder
               + whose rows all count, or of which bits mark the rows

Of overlapping files the bits come from a task that reads their keys (`COVERED_TASK`), once in a
session: three uncompacted writes of a tenth, summed up by Spark in 0.25 s of CPU, merged by our
tasks in 0.40, compacted in 0.15.

Planning a scan takes tens of milliseconds, and Spark lists many files by a job of one task each: a
hundred partitions of a thousand files must be neither. Partition columns come from the metadata.
Spark turns folders `column=value` into columns itself; where that gives exactly the values of the
metadata, everything below one folder is one scan. Other partitions are a scan each, with their
values as constants.
"""

import datetime as dt
import logging
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, reduce
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec.structs import replace
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn

from paimon_assets.engine.codec.arrow.arrow_values import to_scalar
from paimon_assets.engine.codec.rows.binary_row import deserialize_row
from paimon_assets.engine.contract.context import ReadContext
from paimon_assets.engine.contract.executor import TaskBatch, TaskRunner
from paimon_assets.engine.contract.report_tasks import COVERED_TASK, WORD_BITS, row_starts
from paimon_assets.engine.contract.split import DataSplit, Splits
from paimon_assets.engine.contract.wire import dump, dump_split
from paimon_assets.engine.errors import PaimonError
from paimon_assets.engine.spec.metadata.data_file import EMPTY_ROW, DataFileMeta
from paimon_assets.engine.spec.partition import unescape
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types.data_types import DataField
from paimon_assets.engine.spec.values import Value
from paimon_assets.spark.job_names import is_connect
from paimon_assets.spark.python_rows import SessionCache
from paimon_assets.spark.shortcuts.native_read import plain_files
from paimon_assets.spark.shortcuts.native_read.condition import to_condition
from paimon_assets.spark.types import quote, to_spark_schema, to_spark_type

logger = logging.getLogger(__name__)

NATIVE_READ = "spark.paimon_assets.nativeRead"
"""Session setting: `false` turns Spark's own reader off."""
MAX_SCANS = 16
"""Scans of one read; the engine reads further ones."""
_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
_LISTED_BY_A_JOB = "spark.sql.sources.parallelPartitionDiscovery.threshold"
_READ_OPTIONS: Mapping[str, str] = {
    "mergeSchema": "false",
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}
_listing = threading.Lock()
_MOST_FILES = 1_000
"""Of a relation that is kept; the JVM holds about a kilobyte for each."""
_MOST_MASKED_FILES, _MOST_MASKED_ROWS = 64, 32_000_000
"""Of a read: Spark holds a bit for each row."""
_BITS = pa.list_(pa.int64())
_NO_FILE = -(2**31)
"""A place that stays below 0, and within Spark's INT."""
_relations = SessionCache(64)
"""Relations of files. Spark asks the storage for every file, and its class path for every format,
each time it makes one: 19 milliseconds of a lookup, and 8 with the relation of an earlier read."""


def read_natively(
    session: SparkSession, context: ReadContext, splits: Splits, runner: TaskRunner | None = None
) -> tuple[DataFrame | None, list[DataSplit]]:
    """Return the rows that Spark's own reader reads, and the splits left to the engine.

    Rows have no order. The engine reads files that Spark cannot open, and raises the reason.

    Args:
        session: Whose reader it is.
        context: The read.
        splits: Of this table.
        runner: Looks at the keys of overlapping files; without it these are left to the engine.
    """
    left = list(splits)
    if not is_native(session) or not plain_files.columns_fit(context):
        return None, left
    condition = None
    if context.predicate is not None:
        condition = to_condition(context.predicate, context.schema)
        if condition is None:
            return None, left
    schemas = plain_files.PlainSchemas.of(context)
    plain = [split for split in left if plain_files.is_plain(context, split, schemas)]
    plain = plain_files.with_plain_footers(context, plain)
    whole = {id(split) for split in plain}
    masked = [s for s in left if id(s) not in whole and plain_files.is_covered(context, s, schemas)]
    overlapping = [(split, file) for split in masked for file in split.data_files]
    if (
        runner is None
        or len(overlapping) > _MOST_MASKED_FILES
        or sum(file.row_count for _, file in overlapping) > _MOST_MASKED_ROWS
        or len(set(map(_name_hash, overlapping))) < len(overlapping)
    ):
        masked = []
    scans = plan_scans(context, plain, masked)
    if not scans:
        return None, left
    paths = {scan: [s.path_of(f) for s, f in files] for scan, files in scans.items()}
    # Files elsewhere may be replaced by their owners.
    is_own = all(file.external_path is None for split in plain for file in split.data_files)
    try:
        scanned = reduce(
            DataFrame.union,
            (
                _scan_frame(
                    session,
                    context,
                    scan,
                    paths[scan],
                    condition,
                    keep=is_own,
                    mask=_mask(session, context, files, runner) if scan.is_masked else None,
                )
                for scan, files in scans.items()
            ),
        )
        if is_connect(session):  # it looks for the files only when it is asked something
            logger.debug("columns: %s", scanned.schema)
    except (AnalysisException, PaimonError) as error:
        logger.debug("Spark cannot read files of %s: %s", context.table, error)
        return None, left
    logger.debug("Spark reads files of %s by %d scans", context.table, len(scans))
    native = {id(split) for files in scans.values() for split, _ in files}
    return scanned, [split for split in left if id(split) not in native]


def is_native(session: SparkSession) -> bool:
    """Whether a session leaves files to Spark's own readers."""
    return str(session.conf.get(NATIVE_READ, "true")).lower() == "true"


class Scan(Value):
    """A scan: files that Spark reads in one go."""

    file_format: str
    names: tuple[str | None, ...]
    """Names of the needed columns in the files; None where they are older than the column."""
    base: str | None = None
    """The folder below which Spark finds the partition columns in the names of folders."""
    partition: bytes = EMPTY_ROW
    """The partition whose values are constants, if Spark does not find them."""
    is_masked: bool = False
    """Whether bits mark the rows that count."""


def plan_scans(
    context: ReadContext, plain: Splits, masked: Splits = ()
) -> dict[Scan, list[tuple[DataSplit, DataFileMeta]]]:
    """Group files into the `MAX_SCANS` fullest scans; a split has all its files there or none."""
    splits, bare = [*plain, *masked], {id(split) for split in plain}
    fields = context.schema.partition_fields
    needs_partition = not set(fields).isdisjoint(plain_files.needed_fields(context))
    is_readable = all(field.type.root in plain_files.LITERAL_ROOTS for field in fields)

    @cache
    def names_of(schema_id: int) -> tuple[str | None, ...]:
        return plain_files.names_in(context, context.schemas_by_id[schema_id])

    @cache
    def base(partition: bytes, folder: str) -> str | None:
        if not (needs_partition and is_readable):
            return None
        texts = _folder_texts(context.schema, partition)
        return None if texts is None else base_of(folder, texts)

    def scan_of(split: DataSplit, file: DataFileMeta) -> Scan:
        below = base(split.partition, split.path_of(file).rpartition("/")[0])
        return Scan(
            file_format=file.file_format,
            names=names_of(file.schema_id),
            base=below,
            partition=split.partition if needs_partition and below is None else EMPTY_ROW,
            is_masked=id(split) not in bare,
        )

    scans_of = [[scan_of(split, file) for file in split.data_files] for split in splits]
    sizes = Counter(scan for scans in scans_of for scan in scans)
    chosen = {scan for scan, _ in sizes.most_common(MAX_SCANS)}
    planned: dict[Scan, list[tuple[DataSplit, DataFileMeta]]] = {}
    for split, scans in zip(splits, scans_of, strict=True):
        if chosen.issuperset(scans):
            for scan, file in zip(scans, split.data_files, strict=True):
                planned.setdefault(scan, []).append((split, file))
    return planned


def _folder_texts(schema: TableSchema, partition: bytes) -> dict[str, str] | None:
    """Return partition column → the text that Spark reads as its value; None if there is none."""
    texts = {}
    for name, value in _values(schema, partition).items():
        if value is None:
            text = _HIVE_NULL
        elif value in ("", _HIVE_NULL):
            return None
        else:
            text = str(value).lower() if isinstance(value, bool) else str(value)
        texts[name] = text
    return texts


def base_of(folder: str, texts: Mapping[str, str]) -> str | None:
    """Return the folder above the folders of a partition, None if these say something else.

    >>> base_of("/t/dt=1/n=a%2Fb/bucket-0", {"dt": "1", "n": "a/b"})
    '/t'
    >>> base_of("/t/dt=01", {"dt": "1"})
    """
    above, _, last = folder.rpartition("/")
    parts = (folder if "=" in last else above).split("/")
    named = [part.partition("=") for part in parts[-len(texts) :]]
    if [(name, unescape(text)) for name, _, text in named] != list(texts.items()):
        return None
    return "/".join(parts[: -len(texts)])


def _scan_frame(
    session: SparkSession,
    context: ReadContext,
    scan: Scan,
    paths: Sequence[str],
    condition: str | None,
    *,
    keep: bool,
    mask: Column | None,
) -> DataFrame:
    """Return the rows of one scan that pass (all for None), as the columns of the read.

    A `select` that would change nothing is left out: each of its columns costs a millisecond.
    """
    fields = plain_files.stored_fields(context)
    schema = [
        DataField(id=field.id, name=name, type=field.type)
        for name, field in zip(scan.names, fields, strict=True)
        if name is not None
    ]
    if scan.base is not None:
        schema += context.schema.partition_fields

    def load() -> DataFrame:
        reader = session.read.options(**_READ_OPTIONS).format(scan.file_format)
        if scan.base is not None:
            reader = reader.option("basePath", _uri(scan.base))
        with _files_on_driver(session, paths):
            return reader.schema(to_spark_schema(schema)).load(list(map(_uri, paths)))

    if keep and len(paths) <= _MOST_FILES:
        key = (scan.file_format, scan.base, tuple(schema), tuple(paths))
        rows = cached_relation(session, key, load)
    else:
        rows = load()
    if mask is not None:
        rows = rows.where(mask)
    names = [field.name for field in fields]
    if replace(scan, is_masked=False) != Scan(file_format=scan.file_format, names=tuple(names)):
        columns = _columns(context, scan, fields)
        names = list(columns)
        rows = rows.select(*(column.alias(name) for name, column in columns.items()))
    if condition is not None:
        rows = rows.filter(condition)
    return rows if names == [*context.columns] else rows.select(*map(quote, context.columns))


def _mask(
    session: SparkSession,
    context: ReadContext,
    files: Sequence[tuple[DataSplit, DataFileMeta]],
    runner: TaskRunner | None,
) -> Column:
    """Return the condition that is true for the rows of files that count."""
    words = _bits_of(context, files, runner)
    file_key, keys = "_metadata.file_size", [file.file_size for _, file in files]
    if len(set(keys)) < len(keys):
        file_key = "crc32(CAST(_metadata.file_name AS BINARY))"
        keys = list(map(_name_hash, files))
    places, modulus = _distinct_remainders(keys)
    # The places of the files' first words, and the words: each row looks up one of either.
    starts = np.full(modulus, _NO_FILE)
    first_rows = np.array(row_starts([file for _, file in files])[:-1])
    starts[places] = modulus + first_rows // WORD_BITS
    rows = pa.table({"bits": pa.array([np.concatenate([starts, *words])], _BITS)})
    held = session.createDataFrame(rows)._jdf.queryExecution().analyzed()  # noqa: SLF001
    sql: Any = session._jvm.org.apache.spark.sql  # type: ignore[union-attr]  # noqa: SLF001 - PySpark has no constant of arrays
    columns, expressions = sql.classic.ExpressionUtils, sql.catalyst.expressions
    # PySpark's own type allows nulls, which Spark's code then checks for at each lookup.
    words_type = sql.types.DataTypes.createArrayType(sql.types.DataTypes.LongType, False)  # noqa: FBT003
    # Spark prints it by its hash, not by its values.
    bits = expressions.Literal(held.data().head().getArray(0), words_type)

    def word(place: Column) -> Column:
        """Return a number of the array; a place outside of it is an error in all SQL modes."""
        index = columns.expression(place._jc)  # noqa: SLF001
        return Column(columns.column(expressions.GetArrayItem(bits, index, True)))  # noqa: FBT003

    row = fn.expr("_metadata.row_index")
    start = word(fn.expr(f"{file_key} % {modulus}"))
    of_row = word(start + fn.shiftright(row, WORD_BITS.bit_length() - 1))
    # Java shifts by the last six bits of a number.
    bit = fn.call_function("shiftright", of_row, row.cast("int"))
    return bit.bitwiseAND(1) == 0


def _name_hash(file: tuple[DataSplit, DataFileMeta]) -> int:
    return zlib.crc32(file[1].file_name.encode())


def _distinct_remainders(keys: Sequence[int]) -> tuple[list[int], int]:
    """Return the remainders of distinct numbers by the smallest divisor for which they differ."""
    divisor = len(keys)
    while len({key % divisor for key in keys}) < len(keys):
        divisor += 1
    return [key % divisor for key in keys], divisor


def _bits_of(
    context: ReadContext, files: Sequence[tuple[DataSplit, DataFileMeta]], runner: TaskRunner | None
) -> list[Any]:
    """Return the bits of the rows of each file, in words of 64: 1 does not count."""
    splits = list({id(split): split for split, _ in files}.values())
    batch = TaskBatch(
        name=COVERED_TASK,
        shared=dump(context),
        payloads=tuple(map(dump_split, splits)),
        weights=tuple(split.file_bytes for split in splits),
        file_io=context.file_io,
        subject=f"{context.table}, overlapping files",
    )
    words: dict[str, Any] = {}
    for number, answer in () if runner is None else runner.map_tasks(batch):
        split = splits[number]
        ends = [start // WORD_BITS for start in row_starts(split.data_files)[1:-1]]
        parts = np.split(np.frombuffer(answer, "<i8"), ends)
        words |= zip(map(split.path_of, split.data_files), parts, strict=True)
    return [words[split.path_of(file)] for split, file in files]


def cached_relation(session: SparkSession, key: object, load: Callable[[], DataFrame]) -> DataFrame:
    """Return the rows of files, with a cached relation; `load` makes it the first time.

    Each DataFrame has columns of its own, so that two of them can be joined. Sessions of Connect
    keep nothing, nor does one in which files are not a plain relation.
    """
    if is_connect(session):
        return load()
    java: Any = session._jsparkSession  # noqa: SLF001 - PySpark has no call for it
    relation = _relations.get(session, key)
    if relation is not None:
        return DataFrame(java.baseRelationToDataFrame(relation), session)
    loaded = load()
    plan = loaded._jdf.queryExecution().analyzed()  # noqa: SLF001
    if plan.getClass().getSimpleName() == "LogicalRelation":
        _relations.keep(session, key, plan.relation())
    return loaded


def _columns(context: ReadContext, scan: Scan, fields: Sequence[DataField]) -> dict[str, Column]:
    """Return name → value of the needed columns, of which files store some."""
    columns = {
        field.name: fn.lit(None).cast(to_spark_type(field.type, column=field.name))
        if name is None
        else fn.col(quote(name))
        for name, field in zip(scan.names, fields, strict=True)
    }
    if scan.base is not None:
        return columns | {name: fn.col(quote(name)) for name in context.schema.partition_keys}
    if scan.partition != EMPTY_ROW:
        values = _values(context.schema, scan.partition)
        for field in plain_files.needed_fields(context):
            if field.name in values:
                constant = fn.lit(values[field.name])
                columns[field.name] = constant.cast(to_spark_type(field.type, column=field.name))
    return columns


def _values(schema: TableSchema, partition: bytes) -> dict[str, object]:
    fields = schema.partition_fields
    values = deserialize_row(partition, [field.type for field in fields])
    plain = [to_scalar(v, field.type).as_py() for field, v in zip(fields, values, strict=True)]
    # PySpark makes a literal of a date by a text without the zeros of a year before 1000.
    texts = [value.isoformat() if isinstance(value, dt.date) else value for value in plain]
    return {field.name: value for field, value in zip(fields, texts, strict=True)}


@contextmanager
def _files_on_driver(session: SparkSession, paths: Sequence[str]) -> Iterator[None]:
    """Let this process ask for the sizes of local files: Spark would run a task for each."""
    if any("://" in path and not path.startswith("file:") for path in paths):
        yield
        return
    with _listing:
        before = str(session.conf.get(_LISTED_BY_A_JOB))
        is_above = len(paths) > int(before)
        if is_above:
            session.conf.set(_LISTED_BY_A_JOB, str(len(paths) + 1))
        try:
            yield
        finally:
            if is_above:
                session.conf.set(_LISTED_BY_A_JOB, before)


def _uri(path: str) -> str:
    """Return a path as Hadoop takes it, whatever Spark's default file system is."""
    return f"file://{path}" if path.startswith("/") else path
