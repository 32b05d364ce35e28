"""DataFileMeta ⇄ BinaryRow: the file rows of DataSplits and commit messages.

The row grew with the releases of Paimon; a shorter one lacks the last fields.
Source: `org.apache.paimon.io.DataFileMetaSerializer` and its predecessors.
"""

from typing import Any

from paimon_assets.engine.codec.rows.binary_row import row_bytes, row_values
from paimon_assets.engine.errors import FormatError
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta, FileOrigin
from paimon_assets.engine.spec.metadata.simple_stats import SimpleStats
from paimon_assets.engine.spec.types.data_types import (
    MAX_LENGTH,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    RowType,
    TypeRoot,
    bigint,
    integer,
    string,
    timestamp,
)

_BYTES = AtomicType(root=TypeRoot.VARBINARY, length=MAX_LENGTH)
_STATS = RowType(
    fields=(
        DataField(id=0, name="_MIN_VALUES", type=_BYTES),
        DataField(id=1, name="_MAX_VALUES", type=_BYTES),
        DataField(id=2, name="_NULL_COUNTS", type=ArrayType(element=bigint())),
    )
)
_TEXTS = ArrayType(element=string())
_NANOS_PER_MILLI = 1_000_000

FILE_ROW_TYPES: tuple[DataType, ...] = (
    string(),  # _FILE_NAME
    bigint(),  # _FILE_SIZE
    bigint(),  # _ROW_COUNT
    _BYTES,  # _MIN_KEY
    _BYTES,  # _MAX_KEY
    _STATS,  # _KEY_STATS
    _STATS,  # _VALUE_STATS
    bigint(),  # _MIN_SEQUENCE_NUMBER
    bigint(),  # _MAX_SEQUENCE_NUMBER
    bigint(),  # _SCHEMA_ID
    integer(),  # _LEVEL
    _TEXTS,  # _EXTRA_FILES
    timestamp(3),  # _CREATION_TIME
    bigint(),  # _DELETE_ROW_COUNT
    _BYTES,  # _EMBEDDED_FILE_INDEX
    integer(TypeRoot.TINYINT),  # _FILE_SOURCE
    _TEXTS,  # _VALUE_STATS_COLS
    string(),  # _EXTERNAL_PATH
    bigint(),  # _FIRST_ROW_ID
    _TEXTS,  # _WRITE_COLS
)
"""Types of the row of Paimon 1.3 to 2.0."""


def file_to_row(file: DataFileMeta) -> bytes:
    """Encode a file as a row of all fields, without arity."""
    created = file.creation_time
    return row_bytes(
        (
            file.file_name,
            file.file_size,
            file.row_count,
            file.min_key,
            file.max_key,
            _stats_values(file.key_stats),
            _stats_values(file.value_stats),
            file.min_sequence_number,
            file.max_sequence_number,
            file.schema_id,
            file.level,
            file.extra_files,
            None if created is None else created * _NANOS_PER_MILLI,
            file.delete_row_count,
            file.embedded_index,
            file.file_source,
            file.value_stats_cols,
            file.external_path,
            file.first_row_id,
            file.write_cols,
        ),
        FILE_ROW_TYPES,
    )


def _stats_values(stats: SimpleStats) -> tuple[bytes, bytes, tuple[int | None, ...]]:
    return stats.min_values, stats.max_values, stats.null_counts


def file_from_row(data: bytes, arity: int = len(FILE_ROW_TYPES)) -> DataFileMeta:
    """Decode a file from a row of the first `arity` fields, without arity prefix.

    Raises:
        FormatError: The bytes are cut or damaged.
    """
    values = row_values(data, FILE_ROW_TYPES[:arity])
    padded = values + (None,) * (len(FILE_ROW_TYPES) - arity)
    try:
        return _file(padded)
    except (TypeError, ValueError) as error:
        raise FormatError(f"A file row is damaged: {error!r}.", kind="file-row") from error


def _file(values: tuple[Any, ...]) -> DataFileMeta:
    (name, size, rows, min_key, max_key, key_stats, value_stats, min_sequence, max_sequence) = (
        values[:9]
    )
    (schema_id, level, extra_files, created, delete_rows, index, source) = values[9:16]
    (stats_cols, external_path, first_row_id, write_cols) = values[16:]
    return DataFileMeta(
        file_name=name,
        file_size=size,
        row_count=rows,
        min_key=min_key,
        max_key=max_key,
        key_stats=_stats(*key_stats),
        value_stats=_stats(*value_stats),
        min_sequence_number=min_sequence,
        max_sequence_number=max_sequence,
        schema_id=schema_id,
        level=level,
        extra_files=extra_files or (),
        creation_time=None if created is None else created // _NANOS_PER_MILLI,
        delete_row_count=delete_rows,
        embedded_index=index,
        file_source=None if source is None else FileOrigin(source),
        value_stats_cols=stats_cols,
        external_path=external_path,
        first_row_id=first_row_id,
        write_cols=write_cols,
    )


def _stats(
    min_values: bytes, max_values: bytes, null_counts: tuple[int | None, ...] | None
) -> SimpleStats:
    return SimpleStats(min_values=min_values, max_values=max_values, null_counts=null_counts or ())
