"""Parquet files that hold exactly what a scan of Spark returns, by their footers.

    the columns of the scan, by the very names     flat, each stored as the one type below
    dates and timestamps                           in today's calendar

    BOOLEAN, FLOAT, DOUBLE      their namesakes        STRING    BYTE_ARRAY, String
    TINYINT, SMALLINT           INT32, Int             BINARY    BYTE_ARRAY
    INT, BIGINT                 INT32, INT64, or Int   DATE      INT32, Date
    DECIMAL                     Decimal of the same digits and scale
    TIMESTAMP, TIMESTAMP_NTZ    INT64, microseconds, adjusted to UTC or not

All else is Spark's to read: INT96, milliseconds and nanoseconds, unsigned numbers, nested columns,
columns that a file does not have or calls otherwise.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pat

from paimon_assets.engine.data.format.base import FileToRead
from paimon_assets.engine.data.format.named_errors import named_errors, open_data_file
from paimon_assets.engine.data.format.parquet import ParquetPiece
from paimon_assets.engine.errors import FormatError
from paimon_assets.engine.fileio.base import FileIO, FileIOSpec

FOOTERS_AT_ONCE = 16
_BATCH_ROWS = 65_536
_SPARK_VERSION, _FIRST_OF_TODAY = b"org.apache.spark.version", b"3.0.0"
_OLD_CALENDAR = frozenset({b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96"})
_PHYSICAL = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "INT32",
    pa.int16(): "INT32",
    pa.int32(): "INT32",
    pa.int64(): "INT64",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "BYTE_ARRAY",
    pa.binary(): "BYTE_ARRAY",
    pa.date32(): "INT32",
    pa.timestamp("us"): "INT64",
    pa.timestamp("us", tz="UTC"): "INT64",
}
_PLAIN = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
"""Types that Arrow writers note where values are stored as the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A range of a file's bytes, which one task reads."""

    path: str
    start: int
    length: int
    file_bytes: int
    """The size of the whole file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainFiles:
    """Parquet files that tasks read in place of Spark."""

    names: tuple[str, ...]
    """What the files call the columns."""
    schema: pa.Schema
    """The columns of the DataFrame, in their order, in the Arrow types of the files."""
    is_plain_unsaid: bool
    """Whether Spark takes days for those of today's calendar where a file does not say."""
    file_io: FileIOSpec
    tasks: tuple[tuple[Piece, ...], ...]
    """The pieces of each task, in the order of their rows."""

    def mismatch(self, footer: pq.FileMetaData) -> str | None:
        """Return why a file does not hold what Spark would return, None if it does."""
        columns = footer.schema.to_arrow_schema()
        if len({name.lower() for name in columns.names}) != len(columns.names):
            return "has columns of one name"
        leaves = [footer.schema.column(number) for number in range(footer.num_columns)]
        by_path = {leaf.path: leaf for leaf in leaves}
        if len(by_path) != len(leaves):
            return "has columns of one name"
        for name, wanted in zip(self.names, self.schema.types, strict=True):
            if name not in by_path or name not in columns.names:
                return f"has no column '{name}'"
            have = columns.field(name).type
            if _PLAIN.get(have, have) != wanted or not _holds(by_path[name], wanted):
                return f"has another type in column '{name}'"
        if not any(pat.is_date(kind) or pat.is_timestamp(kind) for kind in self.schema.types):
            return None
        if has_julian_dates(footer) or not (self.is_plain_unsaid or _is_of_spark(footer)):
            return "may have days of the old calendar"
        return None

    def batches(self, task: int, file_io: FileIO) -> Iterator[pa.RecordBatch]:
        """Read the pieces of a task."""
        for piece in self.tasks[task]:
            file = FileToRead(file_io=file_io, path=piece.path)
            with ParquetPiece(file, piece.start, piece.start + piece.length) as reader:
                if (
                    reader.file_bytes != piece.file_bytes
                    or self.mismatch(reader.footer) is not None
                ):
                    raise FormatError(
                        f"File '{piece.path}' was replaced while its rows were being written;"
                        " nothing was committed. Make the DataFrame anew and write it again.",
                        kind="file-changed",
                        details={"path": piece.path},
                    )
                for batch in reader.batches(self.names, predicate=None, batch_rows=_BATCH_ROWS):
                    columns = map(pa.Array.cast, batch.columns, self.schema.types)
                    yield pa.RecordBatch.from_arrays(list(columns), schema=self.schema)


def _holds(leaf: Any, wanted: pa.DataType) -> bool:
    """Whether a leaf is a plain column of the one Parquet type that both readers read alike."""
    if leaf.max_repetition_level > 0 or leaf.max_definition_level > 1:
        return False
    said = json.loads(leaf.logical_type.to_json())
    kind = said["Type"]
    if pat.is_decimal(wanted):
        digits = (said.get("precision"), said.get("scale"))
        return bool(kind == "Decimal" and digits == (wanted.precision, wanted.scale))
    if leaf.physical_type != _PHYSICAL.get(wanted):
        return False
    if pat.is_timestamp(wanted):
        is_instant = wanted.tz is not None
        return (kind, said.get("timeUnit"), said.get("isAdjustedToUTC")) == (
            "Timestamp",
            "microseconds",
            is_instant,
        )
    if pat.is_integer(wanted) and kind == "Int":
        return bool(said["bitWidth"] == wanted.bit_width and said["isSigned"])
    if pat.is_string(wanted) or pat.is_date(wanted):
        return bool(kind == ("String" if pat.is_string(wanted) else "Date"))
    return bool(kind == "None" and not (pat.is_int8(wanted) or pat.is_int16(wanted)))


def footer_of(file_io: FileIO, path: str, file_bytes: int) -> pq.FileMetaData:
    """Read the footer of a file of a known size."""
    with (
        open_data_file(file_io, path, file_bytes, has_footer=True) as source,
        named_errors(path, "Parquet"),
    ):
        return pq.read_metadata(source)


def has_julian_dates(footer: pq.FileMetaData) -> bool:
    """Whether Spark says that it wrote a file in the calendar before 1582."""
    notes = footer.metadata or {}
    is_old = notes.get(_SPARK_VERSION, _FIRST_OF_TODAY) < _FIRST_OF_TODAY
    return is_old or not _OLD_CALENDAR.isdisjoint(notes)


def _is_of_spark(footer: pq.FileMetaData) -> bool:
    """Whether a file's writer is Spark and known; else Spark's settings decide the calendar."""
    return _SPARK_VERSION in (footer.metadata or {})
