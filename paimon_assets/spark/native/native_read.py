"""Which files Spark's own Parquet and ORC readers may read, and how.

A column that stays in the JVM is read several times faster by Spark than through Python, and Spark
skips what a query does not need. That pays only where a data file is already what the read returns:

    Parquet or ORC, no deletion vector, nothing to merge, no retractions
    every column in its type of now; under another name, or not at all, if the file is older
    types that both readers read alike; of ORC no dates, timestamps, CHAR and nested ones;
        dates and timestamps in Parquet files of others as their footers say (`external_times`)
    storage that Spark reaches as this engine does: local paths and HDFS

All else is read by the engine; the two are united. Partition columns come from the metadata, as the
engine takes them, so files that do not store them serve too. What one scan of Spark holds is said
in `native_scan`. Set `spark.paimon_assets.nativeRead` to false in the session to read everything by
the engine.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Self

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from paimon_assets.engine.contract.context import ReadContext
from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.fileio.opening import scheme_of
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta, group_by_row_range
from paimon_assets.engine.spec.predicate.predicate import fields_of
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types.data_types import (
    TIMESTAMP_ROOTS,
    ArrayType,
    DataType,
    MapType,
    RowType,
    TypeRoot,
)
from paimon_assets.spark.job_names import is_connect
from paimon_assets.spark.native.external_times import with_plain_times
from paimon_assets.spark.native.filters import to_condition
from paimon_assets.spark.native.native_scan import (
    LITERAL_ROOTS,
    needed_fields,
    plan_scans,
    scan_frame,
    stored_fields,
)

logger = logging.getLogger(__name__)

NATIVE_READ = "spark.paimon_assets.nativeRead"
"""Session setting: `false` turns Spark's own reader off."""

_GLOB_CHARACTERS = frozenset("{}[]*?\\")
_SCHEMES = frozenset({"file", "hdfs", "viewfs"})
_MILLIS, _MICROS = 3, 6
_SAME_ROOTS = (
    LITERAL_ROOTS
    | TIMESTAMP_ROOTS
    | {TypeRoot.DECIMAL, TypeRoot.FLOAT, TypeRoot.DOUBLE, TypeRoot.BINARY, TypeRoot.VARBINARY}
)
_ORC_ROOTS = _SAME_ROOTS - TIMESTAMP_ROOTS - {TypeRoot.DATE, TypeRoot.CHAR}
"""Writers differ in calendars and zones, and pad CHAR."""


def read_natively(
    session: SparkSession, context: ReadContext, splits: Sequence[DataSplit]
) -> tuple[DataFrame | None, list[DataSplit]]:
    """Return the rows that Spark's own reader reads, and the splits left to the engine.

    Rows come in no order. What Spark cannot open is left to the engine, which says why.
    """
    left = list(splits)
    if str(session.conf.get(NATIVE_READ, "true")).lower() != "true" or not columns_fit(context):
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
    if not scans.paths:
        return None, left
    # Others may replace what lies elsewhere.
    is_own = all(file.external_path is None for split in plain for file in split.data_files)
    try:
        scanned = reduce(
            DataFrame.union,
            (
                scan_frame(session, context, scan, paths, condition, keep=is_own)
                for scan, paths in scans.paths.items()
            ),
        )
        if is_connect(session):  # it looks for the files only when it is asked something
            logger.debug("columns: %s", scanned.schema)
    except AnalysisException as error:
        logger.debug("Spark cannot read files of %s: %s", context.table, error)
        return None, left
    logger.debug(
        "Spark reads %d splits of %s by %d scans",
        len(plain) - len(scans.left),
        context.table,
        len(scans.paths),
    )
    taken = set(map(id, plain)) - set(map(id, scans.left))
    return scanned, [split for split in left if id(split) not in taken]


def columns_fit(context: ReadContext) -> bool:
    """Whether both readers give the read's columns the same values."""
    schema = context.schema
    asked = {*context.columns, *fields_of(context.predicate)}
    if not context.columns or not asked <= schema.by_name.keys():
        return False
    partition_keys = set(schema.partition_keys)
    needed = needed_fields(context)
    return (
        _distinguishes_names(schema)
        # Spark's reader is given at least one column of the files.
        and bool(stored_fields(context))
        and all(_reads_alike(field.type) for field in needed)
        and all(f.type.root in LITERAL_ROOTS for f in needed if f.name in partition_keys)
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
            return (
                data_type.root in _SAME_ROOTS
                and not _is_finer_than_micros(data_type)
                and not _is_instant_of_millis(data_type)
            )


def _is_instant_of_millis(data_type: DataType) -> bool:
    """Whether files hold milliseconds, by which Spark skips rows that a finer filter takes.

    It cuts the literal of a filter to the file's unit: `t < 00:00:00.0005` loses 00:00:00.
    """
    precision = getattr(data_type, "precision", None) or 0
    return data_type.root is TypeRoot.TIMESTAMP_LTZ and precision <= _MILLIS


def _is_finer_than_micros(data_type: DataType) -> bool:
    precision = getattr(data_type, "precision", None) or 0
    return data_type.root in TIMESTAMP_ROOTS and precision > _MICROS


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainSchemas:
    """The schemas whose files Spark reads as this engine does, for one read."""

    ids: frozenset[int]
    formats: frozenset[str]

    @classmethod
    def of(cls, context: ReadContext) -> Self:
        """Look at every schema of a read."""
        ids = frozenset(number for number in context.schemas_by_id if _holds(context, number))
        fits_orc = all(field.type.root in _ORC_ROOTS for field in stored_fields(context))
        return cls(ids=ids, formats=frozenset({"parquet", "orc"} if fits_orc else {"parquet"}))


def is_plain(context: ReadContext, split: DataSplit, schemas: PlainSchemas) -> bool:
    """Whether the files of a split hold exactly the rows of the read."""
    context = context.of(split)
    schema = context.schema
    return (
        not split.is_streaming
        and (split.raw_convertible or not schema.has_primary_key)
        and not any(split.deletion_files or ())
        and all(len(group) == 1 for group in group_by_row_range(split.data_files))
        and all(_is_plain_file(context, split, file, schemas) for file in split.data_files)
    )


def _is_plain_file(
    context: ReadContext, split: DataSplit, file: DataFileMeta, schemas: PlainSchemas
) -> bool:
    path = split.path_of(file)
    return (
        file.file_format in schemas.formats
        and file.write_cols is None
        and not (context.schema.has_primary_key and file.delete_row_count != 0)
        and scheme_of(path) in _SCHEMES
        and not _GLOB_CHARACTERS & set(path)
        and not _is_hidden(path.rpartition("/")[2])
        and file.schema_id in schemas.ids
    )


def _is_hidden(name: str) -> bool:
    """Whether Spark passes over files of a name, even of those it is given."""
    return name.startswith(("_", ".")) or name.endswith("._COPYING_")


def _holds(context: ReadContext, schema_id: int) -> bool:
    """Whether files of a schema hold each column as it is read, or not at all; and at least one."""
    schema = context.schemas_by_id[schema_id]
    if not _distinguishes_names(schema):
        return False
    fields = stored_fields(context)
    sources = [schema.by_id.get(field.id) for field in fields]
    if not any(sources):
        return False
    for field, source in zip(fields, sources, strict=True):
        if source is not None and source.type != field.type:
            return False
    # One such column, and our writer stores all timestamps of the file as INT96.
    return not any(_holds_fine_timestamps(field.type) for field in schema.fields)


def _distinguishes_names(schema: TableSchema) -> bool:
    """Whether no two names differ in letter case only: by default Spark takes them for one."""
    return len({field.name.lower() for field in schema.fields}) == len(schema.fields)


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
