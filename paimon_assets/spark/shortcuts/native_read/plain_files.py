"""Which files Spark's own readers read as this engine does: the file holds the rows of the read.

Parquet or ORC, no deletion vector, nothing to merge, no retractions; or Parquet whose rows that
    count are known (`is_covered`)
every column in its type of now; under another name, or not at all, if the file is older
types that both readers read alike; of ORC no dates, timestamps, CHAR and nested ones, and no
    file that may hold an instant: Spark's reader does not parse the name of its type
external files as far as their footers allow it (`with_plain_footers`)
storage that Spark reaches as this engine does: local paths, HDFS
"""

import json
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, Self

import pyarrow.types as pat

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_type
from paimon_assets.engine.codec.arrow.arrow_values import UNIT_NANOS
from paimon_assets.engine.codec.orc_footer import CHAR, read_orc_footer
from paimon_assets.engine.codec.parquet_footer import has_wrong_bounds
from paimon_assets.engine.contract.context import ReadContext
from paimon_assets.engine.contract.split import DataSplit, Splits
from paimon_assets.engine.data.format.base import open_data_file
from paimon_assets.engine.errors import PaimonError
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.fileio.opening import open_file_io, scheme_of
from paimon_assets.engine.spec.merge.engine_traits import EngineTraits
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta, group_by_row_range
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
from paimon_assets.engine.spec.values import Value
from paimon_assets.spark.plans import FOOTERS_AT_ONCE, footer_of, has_julian_dates
from paimon_assets.spark.types import MICROS

_ROW_INDEX = "_tmp_metadata_row_index"
"""Spark's Parquet reader fills a column of this name with the numbers of rows in their file."""
_PLAIN_NAME = re.compile(r"[\w.-]+", re.ASCII)
"""Names that Spark gives as they are."""
_GLOB_CHARACTERS = frozenset("{}[]*?\\")
_SCHEMES = frozenset({"file", "hdfs", "viewfs"})
_MILLIS = 3
LITERAL_ROOTS = INTEGER_ROOTS | CHARACTER_ROOTS | {TypeRoot.BOOLEAN, TypeRoot.DATE}
"""Types whose values Spark has as literals, and reads from the names of folders, as they are."""
_SAME_ROOTS = (
    LITERAL_ROOTS
    | TIMESTAMP_ROOTS
    | {TypeRoot.DECIMAL, TypeRoot.FLOAT, TypeRoot.DOUBLE, TypeRoot.BINARY, TypeRoot.VARBINARY}
)
_ORC_ROOTS = _SAME_ROOTS - TIMESTAMP_ROOTS - {TypeRoot.DATE, TypeRoot.CHAR}
"""Writers differ in calendars and zones, and pad CHAR."""


def columns_fit(context: ReadContext) -> bool:
    """Whether both readers give the read's columns the same values."""
    schema = context.schema
    asked = {*context.columns, *pred.fields_of(context.predicate)}
    if not context.columns or not asked <= schema.by_name.keys():
        return False
    needed = needed_fields(context)
    return (
        _distinguishes_names(schema)
        and _ROW_INDEX not in schema.by_name
        # Spark's reader is given at least one column of the files.
        and bool(stored_fields(context))
        and all(_reads_alike(leaf) for field in needed for leaf in leaf_types(field.type))
        and all(f.type.root in LITERAL_ROOTS for f in needed if f.name in schema.partition_keys)
    )


def leaf_types(data_type: DataType) -> Iterator[DataType]:
    """Yield the types of the values inside a type; itself, if it is not nested."""
    match data_type:
        case ArrayType(element=element):
            yield from leaf_types(element)
        case MapType(key=key, value=value):
            yield from leaf_types(key)
            yield from leaf_types(value)
        case RowType(fields=fields):
            for field in fields:
                yield from leaf_types(field.type)
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


def needed_fields(context: ReadContext) -> tuple[DataField, ...]:
    """Return the columns a read returns or filters by, in the order of the read first."""
    filtered = sorted(pred.fields_of(context.predicate) - set(context.columns))
    return context.schema.columns((*context.columns, *filtered))


def stored_fields(context: ReadContext) -> tuple[DataField, ...]:
    """Return those of the needed columns that are read from files, not from the metadata."""
    keys = context.schema.partition_keys
    return tuple(field for field in needed_fields(context) if field.name not in keys)


def names_in(context: ReadContext, schema: TableSchema) -> tuple[str | None, ...]:
    """Return the names that files of a schema give to `stored_fields`."""
    sources = (schema.by_id.get(field.id) for field in stored_fields(context))
    return tuple(None if source is None else source.name for source in sources)


def _distinguishes_names(schema: TableSchema) -> bool:
    """Whether no two names differ in letter case only: by default Spark takes them for one."""
    return len({field.name.lower() for field in schema.fields}) == len(schema.fields)


class PlainSchemas(Value):
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
            for leaf in leaf_types(field.type)
        ]
        fits_orc = all(
            field.type.root in _ORC_ROOTS for field in stored_fields(context)
        ) and not any(leaf.root is TypeRoot.TIMESTAMP_LTZ for leaf in leaves)
        return cls(ids=ids, formats=frozenset({"parquet", "orc"} if fits_orc else {"parquet"}))


def _holds(context: ReadContext, schema_id: int) -> bool:
    """Whether files of a schema hold each column as it is read, or not at all; and at least one."""
    schema = context.schemas_by_id[schema_id]
    fields = stored_fields(context)
    sources = [schema.by_id.get(field.id) for field in fields]
    return (
        _distinguishes_names(schema)
        and any(sources)
        and all(
            source is None or source.type == field.type
            for field, source in zip(fields, sources, strict=True)
        )
        # One such column, and our writer stores all timestamps of the file as INT96.
        and not any(_is_fine(leaf) for field in schema.fields for leaf in leaf_types(field.type))
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


def is_covered(context: ReadContext, split: DataSplit, schemas: PlainSchemas) -> bool:
    """Whether the rows of a split are rows of its files, which the `covered` task finds."""
    return (
        context.schema.has_primary_key
        and EngineTraits.of(context.schema).newest_wins
        and not (split.is_streaming or split.is_difference or split.is_fallback)
        and all(
            file.file_format == "parquet"
            and file.external_path is None
            and _PLAIN_NAME.fullmatch(file.file_name) is not None
            and _is_plain_file(split.path_of(file), file, schemas)
            for file in split.data_files
        )
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
# Only the footer shows it. Left to the engine are also INT96 and nanoseconds, which Spark does not
# read as TIMESTAMP, units finer than the column, which the engine cuts, and timestamps inside of
# other types.

_TIMES = TIMESTAMP_ROOTS | {TypeRoot.DATE}
_BYTES = CHARACTER_ROOTS | {TypeRoot.BINARY, TypeRoot.VARBINARY, TypeRoot.DECIMAL}
_UNITS = {
    ("milliseconds", False): UNIT_NANOS["ms"],
    ("microseconds", False): UNIT_NANOS["us"],
    ("microseconds", True): UNIT_NANOS["us"],
}
"""(unit, is it an instant) → nanoseconds of the unit, of timestamps that Spark reads alike."""


def with_plain_footers(context: ReadContext, splits: Splits) -> list[DataSplit]:
    """Return the splits whose external files have times, and bounds of bytes, that Spark reads.

    Cost:
        A footer for each external file, if the read needs times, texts, bytes or decimals.
    """
    fields = {f.name: {leaf.root for leaf in leaf_types(f.type)} for f in stored_fields(context)}
    times = {name for name, roots in fields.items() if roots & _TIMES}
    is_needed = times or any(roots & _BYTES for roots in fields.values())
    if not is_needed or not any(_is_external(f) for split in splits for f in split.data_files):
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
        names = names_in(context, context.schemas_by_id[schema_id])
        named = zip(stored_fields(context), names, strict=True)
        return {n: f.type for f, n in named if n is not None and f.type.root in TIMESTAMP_ROOTS}

    def is_plain(split: DataSplit) -> bool:
        return all(
            _has_plain_footer(file_io, split.path_of(file), file, timestamps_of(file.schema_id))
            if file.file_format == "parquet"
            else _has_no_char(file_io, split.path_of(file), file)
            for file in split.data_files
            if _is_external(file)
        )

    with ThreadPoolExecutor(FOOTERS_AT_ONCE, thread_name_prefix="footer") as pool:
        return [
            split for split, fits in zip(splits, pool.map(is_plain, splits), strict=True) if fits
        ]


def _is_external(file: DataFileMeta) -> bool:
    return file.external_path is not None


def _has_plain_footer(
    file_io: FileIO, path: str, file: DataFileMeta, timestamps: Mapping[str, DataType]
) -> bool:
    """Whether a file's footer shows it; no, if it differs from the manifest."""
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
    return not (
        has_julian_dates(footer)
        or not footer.created_by
        or has_wrong_bounds(footer.created_by, of_decimals=True)
    ) and all(_fits(data_type, units.get(name)) for name, data_type in timestamps.items())


def _has_no_char(file_io: FileIO, path: str, file: DataFileMeta) -> bool:
    """Whether an ORC file has no CHAR, whose padded bounds Spark compares with texts."""
    try:
        with open_data_file(file_io, path, file.file_size) as opened:
            source: Any = opened  # the stubs lack an argument
            size = source.size()
            footer = read_orc_footer(lambda at, count: source.read_at(count, at), size, path)
    except PaimonError:
        return False
    return all(each.kind != CHAR for each in footer.types)


def _fits(data_type: DataType, unit: tuple[int, bool] | None) -> bool:
    """Whether a file's timestamps are of the kind of their column, and no finer."""
    arrow_type = to_arrow_type(data_type)
    return (
        unit is not None
        and pat.is_timestamp(arrow_type)
        and unit[0] >= UNIT_NANOS[arrow_type.unit]
        and unit[1] is (data_type.root is TypeRoot.TIMESTAMP_LTZ)
    )
