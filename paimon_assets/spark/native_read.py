"""Which files Spark's own Parquet reader may read, and how.

A column that stays in the JVM is read several times faster by Spark than through Python, and Spark
skips what a query does not need. That pays only where a data file is already what the read returns:

    Parquet, no deletion vector, nothing to merge, no retractions
    every column under its name, id and type of now (no rename, cast, default)
    types that both readers read alike
    storage that Spark reaches as this engine does: local paths and HDFS

All else is read by the engine; the two are united. Partition columns come from the metadata, as the
engine takes them, so files that do not store them serve too. Set `spark.paimon_assets.nativeRead`
to false in the session to read everything by the engine.
"""

import logging
from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn

from paimon_assets.engine.codec.arrow_values import to_scalar
from paimon_assets.engine.codec.binary_row import deserialize_row
from paimon_assets.engine.contract.context import ReadContext
from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.fileio.opening import scheme_of
from paimon_assets.engine.spec.data_file import DataFileMeta
from paimon_assets.engine.spec.predicate import fields_of
from paimon_assets.engine.spec.row_ranges import group_by_row_range
from paimon_assets.engine.spec.types import (
    CHARACTER_ROOTS,
    INTEGER_ROOTS,
    TIMESTAMP_ROOTS,
    ArrayType,
    DataField,
    DataType,
    MapType,
    RowType,
    TypeRoot,
    nested_fields,
)
from paimon_assets.spark.filters import quoted, to_column
from paimon_assets.spark.types import to_spark_schema, to_spark_type

logger = logging.getLogger(__name__)

NATIVE_READ = "spark.paimon_assets.nativeRead"
"""Session setting: `false` turns Spark's own reader off."""

_MAX_PARTITIONS = 16
"""Partitions read so: each is a scan of its own, and planning one takes tens of milliseconds."""
_GLOB_CHARACTERS = frozenset("{}[]*?\\")
_HIDDEN = ("_", ".")
_SCHEMES = frozenset({"file", "hdfs", "viewfs"})
_MICROS = 6
_READ_OPTIONS: Mapping[str, str] = {
    "mergeSchema": "false",
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}
_LITERAL_ROOTS = INTEGER_ROOTS | CHARACTER_ROOTS | {TypeRoot.BOOLEAN, TypeRoot.DATE}
_SAME_ROOTS = (
    _LITERAL_ROOTS
    | TIMESTAMP_ROOTS
    | {TypeRoot.DECIMAL, TypeRoot.FLOAT, TypeRoot.DOUBLE, TypeRoot.BINARY, TypeRoot.VARBINARY}
)


def read_natively(
    session: SparkSession, context: ReadContext, splits: Sequence[DataSplit]
) -> tuple[DataFrame | None, list[DataSplit]]:
    """Return what Spark's own reader reads, and the splits that are left to the engine.

    Rows come in no order. What Spark cannot open is left to the engine, which says why.
    """
    left = list(splits)
    if str(session.conf.get(NATIVE_READ, "true")).lower() != "true" or not columns_fit(context):
        return None, left
    passes = _passing(context)
    plain = [split for split in left if is_plain(context, split)]
    scans: dict[bytes, list[DataSplit]] = {}
    for split in plain:
        scans.setdefault(split.partition, []).append(split)
    if passes is None or not 0 < len(scans) <= _MAX_PARTITIONS:
        return None, left
    try:
        scanned = reduce(
            DataFrame.union,
            (_scan(session, context, members, passes) for members in scans.values()),
        )
        # Spark Connect looks for the files only when it is asked something.
        logger.debug("Spark reads %d splits of %s as %s", len(plain), context.table, scanned.schema)
    except AnalysisException as error:
        logger.debug("Spark cannot read files of %s: %s", context.table, error)
        return None, left
    taken = set(map(id, plain))
    return scanned, [split for split in left if id(split) not in taken]


def _passing(context: ReadContext) -> Column | None:
    """Return the predicate as Spark evaluates it, None if it cannot."""
    if context.predicate is None:
        return fn.lit(col=True)
    return to_column(context.predicate, context.schema)


def _scan(
    session: SparkSession, context: ReadContext, splits: Sequence[DataSplit], passes: Column
) -> DataFrame:
    """Scan the files of splits of one partition."""
    needed = _needed(context)
    stored = [field for field in needed if field.name not in context.schema.partition_keys]
    paths = [_uri(split.path_of(file)) for split in splits for file in split.data_files]
    frame = session.read.schema(to_spark_schema(stored)).options(**_READ_OPTIONS).parquet(*paths)
    constants = _constants(context, splits[0].partition, {field.name for field in needed})
    if constants:
        frame = frame.withColumns(constants)
    return frame.filter(passes).select(*(quoted(name) for name in context.columns))


def _constants(context: ReadContext, partition: bytes, wanted: set[str]) -> dict[str, Column]:
    """Return the partition columns of one partition."""
    fields = context.schema.partition_fields
    values = deserialize_row(partition, [field.type for field in fields]) if fields else ()
    return {
        field.name: fn.lit(to_scalar(value, field.type).as_py()).cast(
            to_spark_type(field.type, column=field.name)
        )
        for field, value in zip(fields, values, strict=True)
        if field.name in wanted
    }


def _needed(context: ReadContext) -> tuple[DataField, ...]:
    """Return the columns the read returns or filters by, in the order of the read first."""
    filtered = sorted(fields_of(context.predicate) - set(context.columns))
    return context.schema.columns((*context.columns, *filtered))


def columns_fit(context: ReadContext) -> bool:
    """Whether both readers give the read's columns the same values."""
    schema = context.schema
    asked = {*context.columns, *fields_of(context.predicate)}
    if not context.columns or not asked <= schema.by_name.keys():
        return False
    partition_keys = set(schema.partition_keys)
    needed = _needed(context)
    names = {field.name.lower() for field in schema.fields}
    return (
        # By default Spark takes names that differ in case for one.
        len(names) == len(schema.fields)
        # Spark's reader is given at least one column of the files.
        and any(field.name not in partition_keys for field in needed)
        and all(_reads_alike(field.type) for field in needed)
        and all(f.type.root in _LITERAL_ROOTS for f in needed if f.name in partition_keys)
    )


def _reads_alike(data_type: DataType) -> bool:
    match data_type:
        case ArrayType(element=element):
            return _reads_alike(element)
        case MapType(key=key, value=value):
            return _reads_alike(key) and _reads_alike(value)
        case RowType(fields=fields):
            return all(_reads_alike(field.type) for field in fields)
        case _:
            return data_type.root in _SAME_ROOTS and not _is_finer_than_micros(data_type)


def _is_finer_than_micros(data_type: DataType) -> bool:
    precision = getattr(data_type, "precision", None) or 0
    return data_type.root in TIMESTAMP_ROOTS and precision > _MICROS


def is_plain(context: ReadContext, split: DataSplit) -> bool:
    """Whether the files of a split are, as they lie, what the read returns."""
    schema = context.schema
    return (
        not split.is_streaming
        and (split.raw_convertible or not schema.has_primary_key)
        and not any(split.deletion_files or ())
        and all(len(group) == 1 for group in group_by_row_range(split.data_files))
        and all(_is_plain_file(context, split, file) for file in split.data_files)
    )


def _is_plain_file(context: ReadContext, split: DataSplit, file: DataFileMeta) -> bool:
    path = split.path_of(file)
    return (
        file.file_format == "parquet"
        and file.write_cols is None
        and not (context.schema.has_primary_key and file.delete_row_count != 0)
        and scheme_of(path) in _SCHEMES
        and not _GLOB_CHARACTERS & set(path)
        and not file.file_name.startswith(_HIDDEN)
        and _holds_columns(context, file.schema_id)
        and (file.external_path is None or not _reads_times(context))
    )


def _reads_times(context: ReadContext) -> bool:
    """Whether files of others may hold what is read in a type that Spark refuses, as INT96 is."""
    fields = _needed(context)
    types = [*fields, *(inner for field in fields for inner in nested_fields(field.type))]
    return any(field.type.root in TIMESTAMP_ROOTS for field in types)


def _holds_columns(context: ReadContext, schema_id: int) -> bool:
    """Whether files of a schema hold every column as it is read."""
    schema = context.schemas_by_id.get(schema_id)
    if schema is None:
        return False
    for field in _needed(context):
        source = schema.by_id.get(field.id)
        if source is None or (source.name, source.type) != (field.name, field.type):
            return False
    # One such column, and our writer stores all timestamps of the file as INT96.
    return not any(_holds_fine_timestamps(field.type) for field in schema.fields)


def _holds_fine_timestamps(data_type: DataType) -> bool:
    match data_type:
        case ArrayType(element=element):
            return _holds_fine_timestamps(element)
        case MapType(key=key, value=value):
            return _holds_fine_timestamps(key) or _holds_fine_timestamps(value)
        case RowType(fields=fields):
            return any(_holds_fine_timestamps(field.type) for field in fields)
        case _:
            return _is_finer_than_micros(data_type)


def _uri(path: str) -> str:
    """Return a path as Hadoop takes it, whatever Spark's default file system is."""
    return f"file://{path}" if path.startswith("/") else path
