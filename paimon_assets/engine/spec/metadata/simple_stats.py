"""SimpleStats: smallest value, largest value and null count of some columns.

Source: `org.apache.paimon.stats.SimpleStats`.
"""

from typing import NamedTuple

EMPTY_ROW = bytes(12)
"""Serialized BinaryRow without fields: arity 0, then eight zero bytes."""


class SimpleStats(NamedTuple):
    """Statistics as they lie on disk; decode with `codec.rows.binary_row` when asked."""

    min_values: bytes
    """Serialized BinaryRow; a null minimum is unknown unless all values are null."""
    max_values: bytes
    null_counts: tuple[int | None, ...]
    """One count a column; None is unknown."""


EMPTY_STATS = SimpleStats(min_values=EMPTY_ROW, max_values=EMPTY_ROW, null_counts=())
