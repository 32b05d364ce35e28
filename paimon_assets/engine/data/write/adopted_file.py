"""Parquet files that another engine wrote of rows for a table: their metadata as its data files.

A file is adopted if it holds just what this engine's writer would store: columns, types and field
ids, and by its statistics no null and no time that a check of the rows would refuse, and rows of
one partition. The length of texts is not in statistics, and of long ones not even whether there are
nulls: whoever has rows written looks at both.
"""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pat

from paimon_assets.engine.codec.rows.binary_row import serialize_row
from paimon_assets.engine.data.format.base import FileToRead
from paimon_assets.engine.data.format.parquet import ParquetPiece
from paimon_assets.engine.data.write.input_check import InputCheck
from paimon_assets.engine.data.write.rolling_file import StatsCollector, file_schema, stats_modes
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.metadata.data_file import (
    EMPTY_ROW,
    DataFileMeta,
    FileOrigin,
    wall_clock_ms,
)
from paimon_assets.engine.spec.options.all_options import STATS_DENSE_STORE
from paimon_assets.engine.spec.predicate.prune import Bounds
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types.data_types import BINARY_ROOTS, CHARACTER_ROOTS

UNCOUNTED = CHARACTER_ROOTS | BINARY_ROOTS
"""Types of values that are too long for statistics, with or without nulls."""


class AdoptedFile(NamedTuple):
    partition: bytes
    meta: DataFileMeta


def adopt_file(
    check: InputCheck, file_io: FileIO, path: str, file_bytes: int
) -> AdoptedFile | None:
    """Return a file's partition and metadata; None if it may break a rule of the table.

    Raises:
        StorageError, FormatError: The file cannot be read.

    Cost:
        The footer.
    """
    schema = check.schema
    with ParquetPiece(FileToRead(file_io=file_io, path=path), 0, file_bytes) as reader:
        if not _is_as_written(reader.schema, schema):
            return None
        footer, bounds = reader.footer, []
        for number, column in enumerate(schema.fields):
            is_float = pat.is_floating(reader.schema.field(number).type)
            known = _float_bounds(footer, number) if is_float else reader.column_bounds(column.name)
            if known.null_count is None and column.type.root in UNCOUNTED:
                known = replace(known, null_count=None if column.type.nullable else 0)
            bounds.append(known)
        if not all(map(check.admits, schema.fields, bounds)):
            return None
    partition = _partition(schema, bounds)
    if partition is None and footer.num_rows:
        return None
    options, row_count = schema.typed_options, footer.num_rows
    collector = StatsCollector(schema.fields, stats_modes(schema.fields, options))
    collector.add_bounds(bounds)
    value_stats, columns = collector.finish_dense(dense=options.get(STATS_DENSE_STORE))
    meta = DataFileMeta(
        file_name=path.rpartition("/")[2],
        file_size=file_bytes,
        row_count=row_count,
        value_stats=value_stats,
        value_stats_cols=columns,
        min_sequence_number=0,
        max_sequence_number=row_count - 1,
        schema_id=schema.id,
        creation_time=wall_clock_ms(time.time_ns() // 1_000_000),
        delete_row_count=0,
        file_source=FileOrigin.APPEND,
    )
    return AdoptedFile(partition or EMPTY_ROW, meta)


def _partition(schema: TableSchema, bounds: Sequence[Bounds]) -> bytes | None:
    """Return the one partition of rows by the bounds of their columns; None if unknown."""
    values = dict[str, Any]()
    for column, known in zip(schema.fields, bounds, strict=True):
        if column.name not in schema.partition_keys:
            continue
        is_one = known.null_count == 0 and known.minimum == known.maximum
        if not known.all_null and (known.minimum is None or not is_one):
            return None
        values[column.name] = known.minimum
    fields = schema.partition_fields
    return serialize_row([values[each.name] for each in fields], [each.type for each in fields])


def _is_as_written(stored: pa.Schema, schema: TableSchema) -> bool:
    """Whether columns are those of a file of this engine, but for which of them may be null."""

    def facts(columns: pa.Schema) -> Iterator[tuple[Any, ...]]:
        return ((each.name, each.type, (each.metadata or {}).items()) for each in columns)

    return [*facts(stored)] == [*facts(file_schema(schema.fields))]


def _float_bounds(footer: pq.FileMetaData, leaf: int) -> Bounds:
    """Join the statistics of a column of floating point; without bounds if it may hold NaN.

    That is above all numbers for Parquet's writer in Java, hence it would be the maximum.
    """
    nulls, numbers, is_known = 0, list[float](), True
    for group in map(footer.row_group, range(footer.num_row_groups)):
        statistics: Any = group.column(leaf).statistics
        if statistics is None or not statistics.has_null_count:
            return Bounds(row_count=footer.num_rows)
        nulls += statistics.null_count
        if statistics.null_count < group.num_rows:
            is_known &= statistics.has_min_max
            numbers += (statistics.min, statistics.max) if statistics.has_min_max else ()
    is_known &= bool(numbers) and not any(map(math.isnan, numbers))
    return Bounds(
        minimum=min(numbers) if is_known else None,
        maximum=max(numbers) if is_known else None,
        null_count=nulls,
        row_count=footer.num_rows,
    )
