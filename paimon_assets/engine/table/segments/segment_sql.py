"""Segments in SQL, as CarbonData spells them.

    ALTER TABLE db.t ADD SEGMENT OPTIONS('path'='...', 'format'='csv', 'sep'=';')
    SHOW SEGMENTS FOR TABLE db.t LIMIT 5
    DELETE FROM TABLE db.t WHERE SEGMENT.ID IN (1, 2)
    DELETE FROM TABLE db.t WHERE SEGMENT.STARTTIME BEFORE '2024-01-01 00:00:00'

Words and option keys may have any letter case. Times are UTC.
"""

import datetime as dt
import re
from dataclasses import dataclass, field
from typing import NoReturn

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.segments.segment import OWN_OPTIONS
from paimon_assets.engine.table.segments.segment_import import SegmentSource

_TOKEN = re.compile(
    r"""\s*(?:(?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.)*")|`(?P<quoted>[^`]+)`"""
    r"|(?P<word>\w+)|(?P<mark>[(),=.;]))",
    re.DOTALL,
)
_FORMS = (
    "ALTER TABLE db.t ADD SEGMENT OPTIONS('path'='...', ...), SHOW SEGMENTS FOR TABLE db.t, "
    "DELETE FROM TABLE db.t WHERE SEGMENT.ID IN (...) or SEGMENT.STARTTIME BEFORE '...'"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AddSegment:
    """ADD SEGMENT of a table."""

    table: str
    source: SegmentSource


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowSegments:
    """SHOW SEGMENTS of a table."""

    table: str
    limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteSegments:
    """DELETE of segments by id, or by the time they were added."""

    table: str
    ids: tuple[int, ...] = ()
    before_ms: int | None = None


SegmentStatement = AddSegment | ShowSegments | DeleteSegments


def parse_statement(text: str) -> SegmentStatement:
    """Parse one statement on segments; a semicolon may end it.

    Raises:
        InvalidInputError: Kind `statement`: it is none of those above; says where it differs.

    >>> parse_statement("show segments for table db.t limit 3")
    ShowSegments(table='db.t', limit=3)
    """
    tokens = _Tokens(text=text)
    if tokens.takes("ALTER", "TABLE"):
        found: SegmentStatement = _add(tokens)
    elif tokens.takes("SHOW", "SEGMENTS"):
        found = _show(tokens)
    elif tokens.takes("DELETE", "FROM", "TABLE"):
        found = _delete(tokens)
    else:
        tokens.refuse("ALTER, SHOW or DELETE")
    tokens.takes(";")
    if not tokens.at_end:
        tokens.refuse("the end")
    return found


@dataclass(slots=True, kw_only=True)
class _Tokens:
    """A statement, and how far it was understood."""

    text: str
    _tokens: list[tuple[str, str]] = field(init=False)
    _next: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self._tokens, end = [], 0
        for found in _TOKEN.finditer(self.text):
            if found.start() != end:
                break
            end = found.end()
            self._tokens.append((str(found.lastgroup), str(found.group(str(found.lastgroup)))))
        if self.text[end:].strip():
            self._tokens.append(("unknown", self.text[end:].strip()[:20]))

    @property
    def at_end(self) -> bool:
        return self._next == len(self._tokens)

    def takes(self, *words: str) -> bool:
        """Go behind these words, if they come now."""
        coming = self._tokens[self._next : self._next + len(words)]
        same = [kind in ("word", "mark") and text.upper() for kind, text in coming] == list(words)
        self._next += len(words) if same else 0
        return same

    def wants(self, *words: str) -> None:
        """Go behind these words."""
        if not self.takes(*words):
            self.refuse(" ".join(words))

    def one(self, expected: str, *kinds: str) -> str:
        """Go behind one token of some kind, and return its text."""
        if self.at_end or self._tokens[self._next][0] not in kinds:
            self.refuse(expected)
        kind, text = self._tokens[self._next]
        self._next += 1
        return _unquoted(text) if kind == "text" else text

    def number(self, expected: str) -> int:
        """Go behind a number."""
        text = self.one(expected, "word", "text")
        if not text.isdecimal():
            self._next -= 1
            self.refuse(expected)
        return int(text)

    def refuse(self, expected: str) -> NoReturn:
        """Raise what says where the statement differs."""
        found = "the end" if self.at_end else f"'{self._tokens[self._next][1]}'"
        raise InvalidInputError(
            f"Expected {expected}, found {found} in: {self.text.strip()[:200]}. Statements are "
            f"{_FORMS}.",
            kind="statement",
        )


def _unquoted(text: str) -> str:
    """Return a quoted text; backslashes stay but before quotes and each other."""
    quote, inner = text[0], text[1:-1]
    return re.sub(r"\\([\\'\"])", r"\1", inner.replace(quote * 2, f"\\{quote}"))


def _table(tokens: _Tokens) -> str:
    name = tokens.one("a table", "word", "quoted")
    while tokens.takes("."):
        name += "." + tokens.one("a table", "word", "quoted")
    return name


def _add(tokens: _Tokens) -> AddSegment:
    table = _table(tokens)
    tokens.wants("ADD", "SEGMENT")
    tokens.wants("OPTIONS", "(")
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
    source = SegmentSource(
        path=options.pop("path", None),
        format=options.pop("format", "parquet"),
        partition=options.pop("partition", None),
        options=options,
    )
    return AddSegment(table=table, source=source)


def _show(tokens: _Tokens) -> ShowSegments:
    if not tokens.takes("ON"):
        tokens.wants("FOR", "TABLE")
    table = _table(tokens)
    limit = tokens.number("a number") if tokens.takes("LIMIT") else None
    return ShowSegments(table=table, limit=limit)


def _delete(tokens: _Tokens) -> DeleteSegments:
    table = _table(tokens)
    tokens.wants("WHERE", "SEGMENT", ".")
    if tokens.takes("STARTTIME", "BEFORE"):
        text = tokens.one("a time", "text")
        try:
            moment = dt.datetime.fromisoformat(text)
        except ValueError:
            tokens.refuse(f"a time such as '2024-01-31 12:00:00' instead of '{text}'")
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=dt.UTC)
        return DeleteSegments(table=table, before_ms=int(moment.timestamp() * 1000))
    tokens.wants("ID", "IN", "(")
    ids = [tokens.number("an id")]
    while tokens.takes(","):
        ids.append(tokens.number("an id"))
    tokens.wants(")")
    return DeleteSegments(table=table, ids=tuple(ids))
