"""Files that Spark's own Parquet and ORC readers read: ORC in 0.68 s, by our tasks in 1.14.

Its rows stay in the JVM, and Spark skips what a query does not need. That serves where a data file
is already what the read returns:

    Parquet or ORC, no deletion vector, nothing to merge, no retractions
    every column in its type of now; under another name, or not at all, if the file is older
    types that both readers read alike; of ORC no dates, timestamps, CHAR and nested ones, and no
        file that may hold an instant: Spark's reader does not parse the name of its type
    external Parquet files as far as their footers say so (`with_plain_times`)
    storage that Spark reaches as this engine does: local paths, HDFS

All else is read by the engine; the two are united. Partition columns come from the metadata. The
session's `spark.paimon_assets.nativeRead` = false turns this off.

    one scan  =  files of one format that name their columns alike
               + of one partition, or of any partitions below one folder

Planning a scan takes tens of milliseconds, and Spark lists many files by a job of one task each: a
hundred partitions of a thousand files must be neither. Spark turns folders `column=value` into
columns itself; where that gives exactly the values of the metadata, everything below one folder is
one scan. Other partitions are a scan each, with their values as constants.
"""

import datetime as dt
import json
import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, reduce
from typing import Any, Self, assert_never

import pyarrow.types as pat
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_type
from paimon_assets.engine.codec.arrow.arrow_values import UNIT_NANOS, to_scalar
from paimon_assets.engine.codec.rows.binary_row import deserialize_row
from paimon_assets.engine.contract.context import ReadContext
from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.errors import InvalidInputError, PaimonError
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.fileio.opening import open_file_io, scheme_of
from paimon_assets.engine.spec.metadata.data_file import EMPTY_ROW, DataFileMeta, group_by_row_range
from paimon_assets.engine.spec.partition import unescape
from paimon_assets.engine.spec.predicate import predicate as pred
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types.data_types import (
    CHARACTER_ROOTS,
    INTEGER_ROOTS,
    TIMESTAMP_ROOTS,
    ArrayType,
    DataField,
    DataType,
    MapType,
    RowType,
    TypeRoot,
)
from paimon_assets.spark.job_names import is_connect
from paimon_assets.spark.parquet_footers import FOOTERS_AT_ONCE, footer_of, has_julian_dates
from paimon_assets.spark.session_cache import SessionCache
from paimon_assets.spark.types import (
    MICROS,
    compares_as_spark,
    quoted,
    to_spark_schema,
    to_spark_type,
)

logger = logging.getLogger(__name__)

NATIVE_READ = "spark.paimon_assets.nativeRead"
"""Session setting: `false` turns Spark's own reader off."""
MAX_SCANS = 16
"""Scans of one read; what is beyond them is left to the engine."""

_GLOB_CHARACTERS = frozenset("{}[]*?\\")
_SCHEMES = frozenset({"file", "hdfs", "viewfs"})
_MILLIS = 3
_LITERAL_ROOTS = INTEGER_ROOTS | CHARACTER_ROOTS | {TypeRoot.BOOLEAN, TypeRoot.DATE}
"""Types whose values Spark has as literals, and reads from the names of folders, as they are."""
_SAME_ROOTS = (
    _LITERAL_ROOTS
    | TIMESTAMP_ROOTS
    | {TypeRoot.DECIMAL, TypeRoot.FLOAT, TypeRoot.DOUBLE, TypeRoot.BINARY, TypeRoot.VARBINARY}
)
_ORC_ROOTS = _SAME_ROOTS - TIMESTAMP_ROOTS - {TypeRoot.DATE, TypeRoot.CHAR}
"""Writers differ in calendars and zones, and pad CHAR."""
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
_relations = SessionCache(16)
"""Relations of files. Spark asks the storage for every file, and its class path for every format,
each time it makes one: 19 milliseconds of a lookup, and 8 with the relation of an earlier read."""


def read_natively(
    session: SparkSession, context: ReadContext, splits: Sequence[DataSplit]
) -> tuple[DataFrame | None, list[DataSplit]]:
    """Return the rows that Spark's own reader reads, and the splits left to the engine.

    Rows come in no order. What Spark cannot open is left to the engine, which says why.
    """
    left = list(splits)
    is_on = str(session.conf.get(NATIVE_READ, "true")).lower() == "true"
    if not is_on or not columns_fit(context):
        return None, left
    condition = None
    if context.predicate is not None:
        condition = to_condition(context.predicate, context.schema)
        if condition is None:
            return None, left
    schemas = PlainSchemas.of(context)
    plain = [split for split in left if is_plain(context, split, schemas)]
    plain = with_plain_times(context, plain)
    scans = plan_scans(context, plain)
    if not scans:
        return None, left
    paths = {scan: [s.path_of(f) for s, f in files] for scan, files in scans.items()}
    # Others may replace what lies elsewhere.
    is_own = all(file.external_path is None for split in plain for file in split.data_files)
    try:
        scanned = reduce(
            DataFrame.union,
            (
                _scan_frame(session, context, scan, paths[scan], condition, keep=is_own)
                for scan in scans
            ),
        )
        if is_connect(session):  # it looks for the files only when it is asked something
            logger.debug("columns: %s", scanned.schema)
    except AnalysisException as error:
        logger.debug("Spark cannot read files of %s: %s", context.table, error)
        return None, left
    logger.debug("Spark reads files of %s by %d scans", context.table, len(scans))
    native = {id(split) for files in scans.values() for split, _ in files}
    return scanned, [split for split in left if id(split) not in native]


# Which files.


def columns_fit(context: ReadContext) -> bool:
    """Whether both readers give the read's columns the same values."""
    schema = context.schema
    asked = {*context.columns, *pred.fields_of(context.predicate)}
    if not context.columns or not asked <= schema.by_name.keys():
        return False
    needed = _needed_fields(context)
    return (
        _distinguishes_names(schema)
        # Spark's reader is given at least one column of the files.
        and bool(_stored_fields(context))
        and all(_reads_alike(leaf) for field in needed for leaf in _leaves(field.type))
        and all(f.type.root in _LITERAL_ROOTS for f in needed if f.name in schema.partition_keys)
    )


def _leaves(data_type: DataType) -> Iterator[DataType]:
    """Yield the types of the values inside a type; itself, if it is not nested."""
    match data_type:
        case ArrayType(element=element):
            yield from _leaves(element)
        case MapType(key=key, value=value):
            yield from _leaves(key)
            yield from _leaves(value)
        case RowType(fields=fields):
            for field in fields:
                yield from _leaves(field.type)
        case _:
            yield data_type


def _reads_alike(leaf: DataType) -> bool:
    # Of instants of milliseconds Spark cuts the literal of a filter to the file's unit, and skips
    # rows by it: `t < 00:00:00.0005` loses 00:00:00.
    precision = getattr(leaf, "precision", None) or 0
    is_instant_of_millis = leaf.root is TypeRoot.TIMESTAMP_LTZ and precision <= _MILLIS
    return leaf.root in _SAME_ROOTS and not is_instant_of_millis and not _is_fine(leaf)


def _is_fine(leaf: DataType) -> bool:
    """Whether values have more digits than Spark's timestamps."""
    precision = getattr(leaf, "precision", None) or 0
    return leaf.root in TIMESTAMP_ROOTS and precision > MICROS


def _needed_fields(context: ReadContext) -> tuple[DataField, ...]:
    """Return the columns a read returns or filters by, in the order of the read first."""
    filtered = sorted(pred.fields_of(context.predicate) - set(context.columns))
    return context.schema.columns((*context.columns, *filtered))


def _stored_fields(context: ReadContext) -> tuple[DataField, ...]:
    """Return those of the needed columns that are read from files, not from the metadata."""
    keys = context.schema.partition_keys
    return tuple(field for field in _needed_fields(context) if field.name not in keys)


def _names_in(context: ReadContext, schema: TableSchema) -> tuple[str | None, ...]:
    """Return the names that files of a schema give to `_stored_fields`."""
    sources = (schema.by_id.get(field.id) for field in _stored_fields(context))
    return tuple(None if source is None else source.name for source in sources)


def _distinguishes_names(schema: TableSchema) -> bool:
    """Whether no two names differ in letter case only: by default Spark takes them for one."""
    return len({field.name.lower() for field in schema.fields}) == len(schema.fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainSchemas:
    """The schemas whose files Spark reads as this engine does, for one read."""

    ids: frozenset[int]
    formats: frozenset[str]

    @classmethod
    def of(cls, context: ReadContext) -> Self:
        """Look at every schema of a read."""
        ids = frozenset(number for number in context.schemas_by_id if _holds(context, number))
        leaves = [
            leaf
            for schema in context.schemas_by_id.values()
            for field in schema.fields
            for leaf in _leaves(field.type)
        ]
        fits_orc = all(
            field.type.root in _ORC_ROOTS for field in _stored_fields(context)
        ) and not any(leaf.root is TypeRoot.TIMESTAMP_LTZ for leaf in leaves)
        return cls(ids=ids, formats=frozenset({"parquet", "orc"} if fits_orc else {"parquet"}))


def _holds(context: ReadContext, schema_id: int) -> bool:
    """Whether files of a schema hold each column as it is read, or not at all; and at least one."""
    schema = context.schemas_by_id[schema_id]
    fields = _stored_fields(context)
    sources = [schema.by_id.get(field.id) for field in fields]
    return (
        _distinguishes_names(schema)
        and any(sources)
        and all(
            source is None or source.type == field.type
            for field, source in zip(fields, sources, strict=True)
        )
        # One such column, and our writer stores all timestamps of the file as INT96.
        and not any(_is_fine(leaf) for field in schema.fields for leaf in _leaves(field.type))
    )


def is_plain(context: ReadContext, split: DataSplit, schemas: PlainSchemas) -> bool:
    """Whether the files of a split hold exactly the rows of the read."""
    has_key = context.of(split).schema.has_primary_key
    return (
        not split.is_streaming
        and (split.raw_convertible or not has_key)
        and not any(split.deletion_files or ())
        and all(len(group) == 1 for group in group_by_row_range(split.data_files))
        and not (has_key and any(file.delete_row_count != 0 for file in split.data_files))
        and all(_is_plain_file(split.path_of(file), file, schemas) for file in split.data_files)
    )


def _is_plain_file(path: str, file: DataFileMeta, schemas: PlainSchemas) -> bool:
    name = path.rpartition("/")[2]
    # Spark passes over files of such names, even of those it is given.
    is_hidden = name.startswith(("_", ".")) or name.endswith("._COPYING_")
    return (
        file.file_format in schemas.formats
        and file.write_cols is None
        and scheme_of(path) in _SCHEMES
        and not _GLOB_CHARACTERS & set(path)
        and not is_hidden
        and file.schema_id in schemas.ids
    )


# External files: Spark reads their dates and timestamps as this engine does if they are
#
#     TIMESTAMP           INT64 of milliseconds or microseconds, not adjusted to UTC
#     … LOCAL TIME ZONE   INT64 of microseconds, adjusted to UTC
#     DATE, both          not written in the calendar before 1582 (Spark 2, or Spark 3 if set so):
#                         Spark moves old days to today's calendar, the engine does not
#
# Only the footer says so. Left to the engine are also INT96 and nanoseconds, which Spark does not
# read as TIMESTAMP, units finer than the column, which the engine cuts, and timestamps inside of
# other types.

_TIMES = TIMESTAMP_ROOTS | {TypeRoot.DATE}
_UNITS = {
    ("milliseconds", False): UNIT_NANOS["ms"],
    ("microseconds", False): UNIT_NANOS["us"],
    ("microseconds", True): UNIT_NANOS["us"],
}
"""(unit, is it an instant) → nanoseconds of the unit, of timestamps that Spark reads alike."""


def with_plain_times(context: ReadContext, splits: Sequence[DataSplit]) -> list[DataSplit]:
    """Return the splits whose external files hold dates and timestamps in one calendar and unit.

    Cost:
        A footer for each external Parquet file, if the read needs dates or timestamps.
    """
    fields = {f.name: {leaf.root for leaf in _leaves(f.type)} for f in _stored_fields(context)}
    times = {name for name, roots in fields.items() if roots & _TIMES}
    if not times or not any(_is_external(f) for split in splits for f in split.data_files):
        return list(splits)
    top = context.schema.by_name
    if any(
        top[name].type.root not in TIMESTAMP_ROOTS and fields[name] & TIMESTAMP_ROOTS
        for name in times
    ):
        return [split for split in splits if not any(map(_is_external, split.data_files))]
    file_io = open_file_io(context.file_io)

    @cache
    def timestamps_of(schema_id: int) -> Mapping[str, DataType]:
        names = _names_in(context, context.schemas_by_id[schema_id])
        named = zip(_stored_fields(context), names, strict=True)
        return {n: f.type for f, n in named if n is not None and f.type.root in TIMESTAMP_ROOTS}

    def is_plain(split: DataSplit) -> bool:
        return all(
            _has_plain_times(file_io, split.path_of(file), file, timestamps_of(file.schema_id))
            for file in split.data_files
            if _is_external(file)
        )

    with ThreadPoolExecutor(FOOTERS_AT_ONCE, thread_name_prefix="footer") as pool:
        return [
            split for split, fits in zip(splits, pool.map(is_plain, splits), strict=True) if fits
        ]


def _is_external(file: DataFileMeta) -> bool:
    return file.external_path is not None


def _has_plain_times(
    file_io: FileIO, path: str, file: DataFileMeta, timestamps: Mapping[str, DataType]
) -> bool:
    """Whether a file's footer says so; no, if it differs from the manifest."""
    try:
        footer = footer_of(file_io, path, file.file_size)
    except PaimonError:
        return False
    units: dict[str, tuple[int, bool]] = {}
    for leaf in (footer.schema.column(number) for number in range(footer.num_columns)):
        if leaf.physical_type == "INT64" and leaf.logical_type.type == "TIMESTAMP":
            stored = json.loads(leaf.logical_type.to_json())
            kind = (stored["timeUnit"], stored["isAdjustedToUTC"])
            if kind in _UNITS:
                units[leaf.path] = (_UNITS[kind], kind[1])
    return not has_julian_dates(footer) and all(
        _fits(data_type, units.get(name)) for name, data_type in timestamps.items()
    )


def _fits(data_type: DataType, unit: tuple[int, bool] | None) -> bool:
    """Whether a file's timestamps are of the kind of their column, and no finer."""
    arrow_type = to_arrow_type(data_type)
    return (
        unit is not None
        and pat.is_timestamp(arrow_type)
        and unit[0] >= UNIT_NANOS[arrow_type.unit]
        and unit[1] is (data_type.root is TypeRoot.TIMESTAMP_LTZ)
    )


# Scans.


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """A scan: files that Spark reads in one go."""

    file_format: str
    names: tuple[str | None, ...]
    """What the files call the needed columns they store; None where they are older than one."""
    base: str | None = None
    """The folder below which Spark finds the partition columns in the names of folders."""
    partition: bytes = EMPTY_ROW
    """The partition whose values are constants, if Spark does not find them."""


def plan_scans(
    context: ReadContext, splits: Sequence[DataSplit]
) -> dict[Scan, list[tuple[DataSplit, DataFileMeta]]]:
    """Group files into the `MAX_SCANS` fullest scans; a split goes with all files or none."""
    fields = context.schema.partition_fields
    needs_partition = not set(fields).isdisjoint(_needed_fields(context))
    is_readable = all(field.type.root in _LITERAL_ROOTS for field in fields)

    @cache
    def names_of(schema_id: int) -> tuple[str | None, ...]:
        return _names_in(context, context.schemas_by_id[schema_id])

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
) -> DataFrame:
    """Return the rows of one scan that pass (all for None), as the columns of the read.

    What would change nothing is not asked of Spark: each column of a `select` costs a millisecond.
    """
    fields = _stored_fields(context)
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
    names = [field.name for field in fields]
    if scan != Scan(file_format=scan.file_format, names=tuple(names)):
        columns = _columns(context, scan, fields)
        names = list(columns)
        rows = rows.select(*(column.alias(name) for name, column in columns.items()))
    if condition is not None:
        rows = rows.filter(condition)
    return rows if names == [*context.columns] else rows.select(*map(quoted, context.columns))


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
        else fn.col(quoted(name))
        for name, field in zip(scan.names, fields, strict=True)
    }
    if scan.base is not None:
        return columns | {name: fn.col(quoted(name)) for name in context.schema.partition_keys}
    if scan.partition != EMPTY_ROW:
        values = _values(context.schema, scan.partition)
        for field in _needed_fields(context):
            if field.name in values:
                constant = fn.lit(values[field.name])
                columns[field.name] = constant.cast(to_spark_type(field.type, column=field.name))
    return columns


def _values(schema: TableSchema, partition: bytes) -> dict[str, object]:
    """Return partition column → its value as Python has it."""
    fields = schema.partition_fields
    values = deserialize_row(partition, [field.type for field in fields])
    return {
        field.name: to_scalar(value, field.type).as_py()
        for field, value in zip(fields, values, strict=True)
    }


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


# Filters.

_MOST_PARTS = 200
"""Conditions side by side: Spark nests them, and its stack ends before its memory."""
_MICRO_NANOS = 1000
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - a wall clock
_LONG_BITS = 63


def to_condition(predicate: pred.Predicate, schema: TableSchema) -> str | None:
    """Return Spark's SQL that is true for exactly the rows of a bound predicate, None if none is.

    What is not certain to agree for every value has none (`compares_as_spark`). It is one text: a
    column put together in Python asks the JVM a dozen times for each comparison.
    """
    match predicate:
        case pred.And(children=children) | pred.Or(children=children):
            if len(children) > _MOST_PARTS:
                return None
            join = " AND " if isinstance(predicate, pred.And) else " OR "
            return _join([to_condition(child, schema) for child in children], join)
        case _:
            data_type = schema.column(predicate.field).type
            return _leaf(predicate, data_type) if compares_as_spark(data_type) else None


def _join(parts: Sequence[str | None], separator: str) -> str | None:
    known = [part for part in parts if part is not None]
    return f"({separator.join(known)})" if known and len(known) == len(parts) else None


def _leaf(predicate: pred.Leaf, data_type: DataType) -> str | None:
    column = quoted(predicate.field)
    match predicate:
        case pred.IsNull(negated=negated):
            return f"{column} IS NOT NULL" if negated else f"{column} IS NULL"
        case pred.StartsWith(prefix=prefix):
            return f"startswith({column}, {_string(prefix)})"
        case pred.Like(pattern=pattern, negated=negated):
            return f"{column} {'NOT ' if negated else ''}LIKE {_string(pattern)}"
        case pred.Comparison(op=op, literal=literal):
            value = _literal(literal, data_type)
            return None if value is None else f"{column} {op.value} {value}"
        case pred.In(literals=literals, negated=negated):
            values = _join([_literal(literal, data_type) for literal in literals], ", ")
            return None if values is None else f"{column} {'NOT IN' if negated else 'IN'} {values}"
        case pred.Applied():
            return None
        case _:
            assert_never(predicate)


def _literal(value: Any, data_type: DataType) -> str | None:
    """Return a bound literal; None for null, and for values beyond Spark's type."""
    root = data_type.root
    if value is None:
        return None
    if root in INTEGER_ROOTS:
        return str(value) if -(2**_LONG_BITS) <= value < 2**_LONG_BITS else None
    try:
        if root in TIMESTAMP_ROOTS:
            micros, rest = divmod(value, _MICRO_NANOS)
            instant = (_EPOCH + dt.timedelta(microseconds=micros)).isoformat(sep=" ")
            is_local = root is TypeRoot.TIMESTAMP
            text = f"timestamp_ntz'{instant}'" if is_local else f"timestamp_ltz'{instant}Z'"
            return None if rest else text
        plain = to_scalar(value, data_type).as_py()
    except (InvalidInputError, ValueError, OverflowError):
        return None
    match plain:
        case dt.date():
            return f"date'{plain.isoformat()}'"
        case Decimal():
            return f"{plain:f}BD"
        case str():
            return _string(plain)
        case _:
            return str(plain)


def _string(text: str) -> str:
    """Return a text as its bytes: how quotes and backslashes are read is a setting of Spark."""
    return f"CAST(X'{text.encode().hex()}' AS STRING)"
