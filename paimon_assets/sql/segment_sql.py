"""Segments in SQL, as CarbonData spells them.

    ALTER TABLE db.t ADD SEGMENT OPTIONS('path'='...', 'format'='csv', 'sep'=';')
    SHOW [HISTORY] SEGMENTS FOR TABLE db.t LIMIT 5
    SHOW SEGMENTS FOR TABLE db.t AS SELECT id, dataSize FROM t_segments WHERE status = 'Success'
    DELETE FROM TABLE db.t WHERE SEGMENT.ID IN (1, 2)
    DELETE FROM TABLE db.t WHERE SEGMENT.STARTTIME BEFORE '2024-01-01 00:00:00'
    CLEAN FILES FOR TABLE db.t OPTIONS('force'='true', 'dryrun'='true')

Words and option keys may have any letter case. Times are UTC.
"""

import datetime as dt

from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.spec.segments.segment import OWN_OPTIONS
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.table.segments.segment_import import SegmentSource
from paimon_assets.sql.words import Words


class AddSegment(Value):
    table: Identifier
    source: SegmentSource


class ShowSegments(Value):
    table: Identifier
    limit: int | None = None
    history: bool = False
    """Whether to show if rows are visible, and the load that took them in."""
    query: str | None = None
    """Reads the segments as a table `<table>_segments`."""


class DeleteSegments(Value):
    """DELETE of segments by id, or by the time they were added."""

    table: Identifier
    ids: tuple[int, ...] = ()
    before_ms: int | None = None


class CleanFiles(Value):
    """CLEAN FILES of a table: forget the segments that are over; deletes no file."""

    table: Identifier
    force: bool = False
    dry_run: bool = False


SegmentStatement = AddSegment | ShowSegments | DeleteSegments | CleanFiles


def add_segment(tokens: Words, table: Identifier) -> AddSegment:
    tokens.wants("OPTIONS", "(")
    options = _options(tokens)
    source = SegmentSource(
        path=options.pop("path", None),
        format=options.pop("format", "parquet"),
        partition=options.pop("partition", None),
        options=options,
    )
    return AddSegment(table=table, source=source)


def _options(tokens: Words) -> dict[str, str]:
    options: dict[str, str] = {}
    while not options or tokens.takes(","):
        key = tokens.one("an option", "text", "word")
        while tokens.takes("."):
            key += "." + tokens.one("an option", "word")
        tokens.wants("=")
        own = key.lower() if key.lower() in OWN_OPTIONS else key
        if own.lower() in {name.lower() for name in options}:
            tokens.refuse(f"option '{key}' once")
        options[own] = tokens.one("a value", "text", "word")
    tokens.wants(")")
    return options


def clean_files(tokens: Words, table: Identifier) -> CleanFiles:
    options = _options(tokens) if tokens.takes("OPTIONS", "(") else {}
    flags = {"force": False, "dryrun": False}
    for key, value in options.items():
        if key.lower() not in flags:
            tokens.refuse(f"'force' or 'dryrun' instead of '{key}'")
        if value.lower() not in ("true", "false"):
            tokens.refuse(f"true or false instead of '{value}'")
        flags[key.lower()] = value.lower() == "true"
    return CleanFiles(table=table, force=flags["force"], dry_run=flags["dryrun"])


def show_segments(tokens: Words, table: Identifier, *, history: bool) -> ShowSegments:
    limit = tokens.number("a number") if tokens.takes("LIMIT") else None
    query = tokens.rest("a query") if tokens.takes("AS") else None
    return ShowSegments(table=table, limit=limit, history=history, query=query)


def delete_segments(tokens: Words, table: Identifier) -> DeleteSegments:
    tokens.wants("WHERE", "SEGMENT", ".")
    if tokens.takes("STARTTIME", "BEFORE"):
        text = tokens.one("a time", "text")
        try:
            time = dt.datetime.fromisoformat(text)
        except ValueError:
            tokens.refuse(f"a time such as '2024-01-31 12:00:00' instead of '{text}'")
        if time.tzinfo is None:
            time = time.replace(tzinfo=dt.UTC)
        return DeleteSegments(table=table, before_ms=int(time.timestamp() * 1000))
    tokens.wants("ID", "IN", "(")
    ids = tokens.several(lambda: tokens.number("an id"))
    tokens.wants(")")
    return DeleteSegments(table=table, ids=tuple(ids))
