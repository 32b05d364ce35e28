"""DataFileMeta ⇄ BinaryRow: the file rows of DataSplits and commit messages.

The row grew with the releases of Paimon; a shorter one lacks the last fields.
Source: `org.apache.paimon.io.DataFileMetaSerializer` and its predecessors.
"""

from collections.abc import Sequence
from operator import attrgetter

from paimon_assets.engine.codec.rows.binary_row import deserialize_row, row_bytes, row_values
from paimon_assets.engine.errors import FormatError, InvalidInputError, PaimonError
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta, FileOrigin, SimpleStats
from paimon_assets.engine.spec.paths import plain_name, plain_names, straight_path
from paimon_assets.engine.spec.predicate.prune import Bounds
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types.type_text import parse_type

_NANOS_PER_MILLI = 1_000_000
_STATS = "ROW<_MIN_VALUES BYTES, _MAX_VALUES BYTES, _NULL_COUNTS ARRAY<BIGINT>>"
_FIELDS = {
    "file_name": "STRING",
    "file_size": "BIGINT",
    "row_count": "BIGINT",
    "min_key": "BYTES",
    "max_key": "BYTES",
    "key_stats": _STATS,
    "value_stats": _STATS,
    "min_sequence_number": "BIGINT",
    "max_sequence_number": "BIGINT",
    "schema_id": "BIGINT",
    "level": "INT",
    "extra_files": "ARRAY<STRING>",
    "creation_time": "TIMESTAMP(3)",
    "delete_row_count": "BIGINT",
    "embedded_file_index": "BYTES",
    "file_source": "TINYINT",
    "value_stats_cols": "ARRAY<STRING>",
    "external_path": "STRING",
    "first_row_id": "BIGINT",
    "write_cols": "ARRAY<STRING>",
    "column_sequences": "ARRAY<BIGINT>",
}
"""Attribute → its type in the row, in the row's order."""
FILE_ROW_TYPES = tuple(map(parse_type, _FIELDS.values()))
"""Types of the row of Paimon 2.1; that of 1.3 to 2.0 lacks the last field."""
_row_of = attrgetter(*_FIELDS)


def file_to_row(file: DataFileMeta, arity: int = len(FILE_ROW_TYPES)) -> bytes:
    """Encode a file as a row of the first `arity` fields, without arity prefix."""
    created = file.creation_time
    if created is not None:
        file = file._replace(creation_time=created * _NANOS_PER_MILLI)
    values = _row_of(file)
    if any(value is not None for value in values[arity:]):
        message = (
            f"File '{file.file_name}' cannot be described in a row of {arity} fields: its columns "
            "or its path would be lost. Write a newer version of the split."
        )
        raise InvalidInputError(message, kind="split-version", file=file.file_name)
    return row_bytes(values[:arity], FILE_ROW_TYPES[:arity])


def file_from_row(data: bytes, arity: int = len(FILE_ROW_TYPES)) -> DataFileMeta:
    """Decode a file from a row of the first `arity` fields, without arity prefix."""
    values = row_values(data, FILE_ROW_TYPES[:arity])
    file = DataFileMeta(**dict(zip(_FIELDS, values, strict=False)))
    created, source, path = file.creation_time, file.file_source, file.external_path
    try:
        return file._replace(
            file_name=plain_name(file.file_name),
            key_stats=_stats(*file.key_stats),
            value_stats=_stats(*file.value_stats),
            extra_files=plain_names(file.extra_files),
            creation_time=None if created is None else created // _NANOS_PER_MILLI,
            file_source=None if source is None else FileOrigin(source),
            external_path=None if path is None else straight_path(path),
        )
    except (TypeError, ValueError) as error:
        raise FormatError(f"A file row is damaged: {error!r}.", kind="file-row") from error


def _stats(low: bytes, high: bytes, null_counts: tuple[int | None, ...] | None) -> SimpleStats:
    return SimpleStats(min_values=low, max_values=high, null_counts=null_counts or ())


def stats_columns(file: DataFileMeta, written: TableSchema) -> Sequence[str]:
    """Return the columns that a file's value statistics are of; `written` is the file's schema."""
    if file.value_stats_cols is not None:
        return file.value_stats_cols
    return written.field_names if file.write_cols is None else file.write_cols


def value_bounds(schema: TableSchema, file: DataFileMeta) -> dict[str, Bounds]:
    """Return the bounds of a file's columns from its statistics, by the names in the file."""
    names = stats_columns(file, schema)
    fields = [schema.by_name[name] for name in names if name in schema.by_name]
    if len(fields) != len(names):
        return {}
    types = [column.type for column in fields]
    stats = file.value_stats
    try:
        lows = deserialize_row(stats.min_values, types)
        highs = deserialize_row(stats.max_values, types)
    except PaimonError:  # some writers leave statistics out
        return {}
    nulls = (*stats.null_counts, *[None] * len(fields))
    return {
        column.name: Bounds(
            minimum=low, maximum=high, null_count=null_count, row_count=file.row_count
        )
        for column, low, high, null_count in zip(fields, lows, highs, nulls, strict=False)
    }
