"""The task `analyze`: statistics of one split's columns, in a form that adds up.

Distinct values are counted by the smallest hashes: as long as a column has fewer than `MOST_HASHES`
of them the number is exact, beyond that an estimate within about 2 % (one standard deviation).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from paimon_assets.engine.spec.types.literals import Internal

ANALYZE_TASK = "analyze"
MOST_HASHES = 4096
_HASHES = 2.0**64

Bound = tuple[Internal, str]
"""(internal value, the same as Java casts it to a text)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnSummary:
    """The summary of one column of some rows."""

    nulls: int = 0
    minimum: Bound | None = None
    maximum: Bound | None = None
    total_bytes: int = 0
    """The bytes of all values that are not null."""
    longest_bytes: int = 0
    hashes: tuple[int, ...] | None = ()
    """The smallest hashes, ascending; None for types whose values are not distinguished."""

    @property
    def distinct_count(self) -> int | None:
        """Distinct values without null, exact or estimated; None is unknown."""
        if self.hashes is None or len(self.hashes) < MOST_HASHES:
            return None if self.hashes is None else len(self.hashes)
        return round((MOST_HASHES - 1) / (self.hashes[-1] / _HASHES))


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSummary:
    """The summary of some rows."""

    rows: int
    columns: tuple[ColumnSummary, ...]

    def average_bytes(self, column: ColumnSummary) -> int | None:
        """Return the average length of values, rounded up; None without any."""
        known = self.rows - column.nulls
        return -(-column.total_bytes // known) if known else None


def join(parts: Iterable[RowSummary], width: int) -> RowSummary:
    """Add up the statistics of several splits."""
    listed = list(parts)
    return RowSummary(
        rows=sum(part.rows for part in listed),
        columns=tuple(_join([part.columns[n] for part in listed]) for n in range(width)),
    )


def _join(parts: list[ColumnSummary]) -> ColumnSummary:
    def first(bound: Bound) -> Any:
        return bound[0]

    return ColumnSummary(
        nulls=sum(part.nulls for part in parts),
        minimum=min((p.minimum for p in parts if p.minimum is not None), key=first, default=None),
        maximum=max((p.maximum for p in parts if p.maximum is not None), key=first, default=None),
        total_bytes=sum(part.total_bytes for part in parts),
        longest_bytes=max((part.longest_bytes for part in parts), default=0),
        hashes=_smallest(parts),
    )


def _smallest(parts: list[ColumnSummary]) -> tuple[int, ...] | None:
    found = set[int]()
    for part in parts:
        if part.hashes is None:
            return None
        found.update(part.hashes)
    return tuple(sorted(found)[:MOST_HASHES])
