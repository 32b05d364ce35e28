"""A table's segments and loads as rows: as SHOW SEGMENTS prints them, and typed."""

import datetime as dt
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from paimon_assets.engine.spec.options.catalog_options import shown_options
from paimon_assets.engine.spec.segments.segment import (
    Load,
    Segment,
    SegmentStatus,
    duration_text,
    size_text,
)

_NOT_APPLICABLE = "NA"

_COLUMNS = (
    "ID, Status, Load Start Time, Load Time Taken, Partition, Data Size, Index Size, File Format,"
    " Path, Options"
)
SHOW_SEGMENTS = pa.schema({name: pa.string() for name in _COLUMNS.split(", ")})


def show_segments(
    segments: Sequence[Segment | Load], *, limit: int | None = None, history: bool = False
) -> pa.Table:
    """Return the words of SHOW SEGMENTS, newest id first: its columns, then path and options.

    Args:
        segments: The segments of one table, by id; loads of its own among them.
        limit: Only the largest ids.
        history: Add the columns of SHOW HISTORY SEGMENTS.
    """
    newest = sorted(segments, key=lambda segment: -segment.id)[:limit]
    schema, rows = SHOW_SEGMENTS, [_shown_row(segment) for segment in newest]
    if history:
        for name in ("Visibility", "Merged To"):
            schema = schema.append(pa.field(name, pa.string()))
    return pa.Table.from_pylist(rows, schema=schema)


def _shown_row(segment: Segment | Load) -> dict[str, Any]:
    """Return the words of SHOW HISTORY SEGMENTS on one segment."""
    taken, merged = _taken_ms(segment), _merged_to(segment)
    start = dt.datetime.fromtimestamp(segment.load_start_ms / 1000, dt.UTC)
    partition = f"{{{segment.partition_text}}}{_more_text(segment)}"
    return {
        "ID": str(segment.id),
        "Status": segment.status.value,
        "Load Start Time": f"{start:%Y-%m-%d %H:%M:%S}.{segment.load_start_ms % 1000:03d} UTC",
        "Load Time Taken": _NOT_APPLICABLE if taken is None else duration_text(taken),
        "Partition": partition if segment.partition_text else _NOT_APPLICABLE,
        "Data Size": size_text(segment.data_size),
        "Index Size": _NOT_APPLICABLE,
        "File Format": segment.format,
        "Path": segment.path if isinstance(segment, Segment) else _NOT_APPLICABLE,
        "Options": _options_text(segment) or _NOT_APPLICABLE,
        "Visibility": str(segment.status is SegmentStatus.SUCCESS).lower(),
        "Merged To": _NOT_APPLICABLE if merged is None else str(merged),
    }


def segment_rows(segments: Sequence[Segment | Load]) -> Iterator[dict[str, Any]]:
    """Yield the rows of the system table `segments`; `readers` says which engines see theirs."""
    for segment in segments:
        yield {
            "segment_id": segment.id,
            "status": segment.status.value,
            "load_start_time": segment.load_start_ms,
            "load_end_time": segment.load_end_ms,
            "time_taken_ms": _taken_ms(segment),
            "partition": segment.partition_text + _more_text(segment),
            "format": segment.format,
            "path": segment.path if isinstance(segment, Segment) else None,
            "folder": segment.folder if isinstance(segment, Segment) else None,
            "file_count": len(segment.files),
            "row_count": segment.row_count,
            "data_size": segment.data_size,
            "readers": segment.readers,
            "schema_id": segment.schema_id,
            "snapshot_id": None if segment.added is None else segment.added.snapshot_id,
            "merged_to_id": _merged_to(segment),
            "options": _options_text(segment) or None,
        }


def _merged_to(segment: Segment | Load) -> int | None:
    is_compacted = segment.status is SegmentStatus.COMPACTED
    return segment.compacted_into if isinstance(segment, Load) and is_compacted else None


def _more_text(segment: Segment | Load) -> str:
    return ", ..." if isinstance(segment, Load) and segment.partition_count > 1 else ""


def _taken_ms(segment: Segment | Load) -> int | None:
    return None if segment.load_end_ms is None else segment.load_end_ms - segment.load_start_ms


def _options_text(segment: Segment | Load) -> str:
    """Return the file options of a command, without values that may be secret."""
    options = segment.reader_options if isinstance(segment, Segment) else {}
    return ", ".join(f"{key}={value}" for key, value in shown_options(options).items())
