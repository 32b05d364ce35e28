"""Spark's plans as Python sees them: classes, sequences, ids of columns; footers of its files."""

from collections.abc import Iterator
from typing import Any

import pyarrow.parquet as pq

from paimon_assets.engine.data.format.base import named_errors, open_data_file
from paimon_assets.engine.fileio.base import FileIO

FOOTERS_AT_ONCE = 16
SPARK_VERSION = b"org.apache.spark.version"
_FIRST_OF_TODAY = b"3.0.0"
_OLD_CALENDAR = frozenset({b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96"})


def attribute_id(attribute: Any) -> int:
    """Return the id that a column keeps in all plans above."""
    return int(attribute.exprId().id())


def class_of(thing: Any) -> str:
    return str(thing.getClass().getName())


def items(sequence: Any) -> Iterator[Any]:
    return (sequence.apply(number) for number in range(sequence.size()))


def footer_of(file_io: FileIO, path: str, file_bytes: int) -> pq.FileMetaData:
    """Read a Parquet footer; raises if the file has another size than in the manifest."""
    with open_data_file(file_io, path, file_bytes) as source, named_errors(path, "Parquet"):
        return pq.read_metadata(source)


def has_julian_dates(footer: pq.FileMetaData) -> bool:
    """Whether a file has Spark's mark of the calendar before 1582."""
    notes = footer.metadata or {}
    is_old = notes.get(SPARK_VERSION, _FIRST_OF_TODAY) < _FIRST_OF_TODAY
    return is_old or not _OLD_CALENDAR.isdisjoint(notes)
