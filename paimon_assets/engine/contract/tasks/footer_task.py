"""The task `segment-footers`: what the footers of some foreign files say, as values and bytes.

One task looks at many files of one format. Of text formats, which have no footer, the rows are
read, checked and counted.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from paimon_assets.engine.contract.wire.wire_frame import (
    header,
    opened,
    read_optional_int,
    schema_of,
    schema_text,
    write_optional_int,
)
from paimon_assets.engine.spec.metadata.simple_stats import EMPTY_STATS, SimpleStats
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.segments.segment_rules import FileColumn

FOOTER_TASK = "segment-footers"


@dataclass(frozen=True, slots=True, kw_only=True)
class FooterContext:
    """The context that all tasks of one import share."""

    format: str
    schema: TableSchema
    """The table's: its columns are looked for in the files, by name."""
    options: Mapping[str, str] = field(default_factory=dict)
    """How files of text formats are written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FooterRequest:
    """The files one task looks at."""

    paths: tuple[str, ...]
    sizes: tuple[int, ...]
    """Bytes of each file, as it was listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFooter:
    """The facts of one footer."""

    rows: int
    columns: tuple[FileColumn, ...]
    """The file's own columns; equal ones of a task are one object."""
    stats_columns: tuple[str, ...] = ()
    """Table columns that `stats` describes, in order."""
    stats: SimpleStats = EMPTY_STATS


def dump_footer_context(context: FooterContext) -> bytes:
    """Encode what tasks share."""
    members = {
        "format": context.format,
        "schema": schema_text(context.schema),
        "options": dict(context.options),
    }
    return header("footer context", members).to_bytes()


def load_footer_context(data: bytes) -> FooterContext:
    """Inverse of `dump_footer_context`."""
    with opened(data, "footer context") as (members, _):
        return FooterContext(
            format=members["format"],
            schema=schema_of(members["schema"]),
            options=members["options"],
        )


def dump_footer_request(request: FooterRequest) -> bytes:
    """Encode the files of one task."""
    members = {"paths": request.paths, "sizes": request.sizes}
    return header("footer request", members).to_bytes()


def load_footer_request(data: bytes) -> FooterRequest:
    """Inverse of `dump_footer_request`."""
    with opened(data, "footer request") as (members, _):
        return FooterRequest(paths=tuple(members["paths"]), sizes=tuple(members["sizes"]))


def dump_footers(footers: list[FileFooter]) -> bytes:
    """Encode the result of one task; columns that files have in common are written once."""
    layouts: dict[tuple[Any, ...], int] = {}
    numbers = [
        layouts.setdefault((footer.columns, footer.stats_columns), len(layouts))
        for footer in footers
    ]
    members = {
        "layouts": [[list(map(_column_json, columns)), stats] for columns, stats in layouts],
        "files": numbers,
    }
    out = header("footers", members)
    for footer in footers:
        out.write_long(footer.rows)
        out.write_bytes(footer.stats.min_values)
        out.write_bytes(footer.stats.max_values)
        out.write_int(len(footer.stats.null_counts))
        for count in footer.stats.null_counts:
            write_optional_int(out, count)
    return out.to_bytes()


def load_footers(data: bytes) -> list[FileFooter]:
    """Inverse of `dump_footers`.

    Raises:
        FormatError: Damaged, or of another version.
    """
    with opened(data, "footers") as (members, source):
        layouts = [
            (tuple(map(_column_of, columns)), tuple(stats)) for columns, stats in members["layouts"]
        ]
        footers = []
        for number in members["files"]:
            columns, stats_columns = layouts[number]
            rows, low, high = source.read_long(), source.read_bytes(), source.read_bytes()
            nulls = tuple(read_optional_int(source) for _ in range(source.read_int()))
            stats = SimpleStats(min_values=low, max_values=high, null_counts=nulls)
            footers.append(
                FileFooter(rows=rows, columns=columns, stats_columns=stats_columns, stats=stats)
            )
    return footers


def _column_json(column: FileColumn) -> list[Any]:
    return [column.name, column.type_text, column.may_be_null]


def _column_of(json: list[Any]) -> FileColumn:
    name, type_text, may_be_null = json
    return FileColumn(name=name, type_text=type_text, may_be_null=may_be_null)
