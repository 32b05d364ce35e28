"""Statistics of all rows of a table at one snapshot; an ANALYZE snapshot names them.

Source: `org.apache.paimon.stats.Statistics`, `ColStats`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnStatistics:
    """Statistics of one column; None is unknown."""

    column_id: int
    distinct_count: int | None = None
    minimum: str | None = None
    """The smallest value, as Java casts it to a text."""
    maximum: str | None = None
    null_count: int | None = None
    average_length: int | None = None
    """Bytes."""
    maximum_length: int | None = None
    """Bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """Statistics of a table; None is unknown."""

    snapshot_id: int
    """The snapshot whose rows were looked at."""
    schema_id: int
    """The schema whose columns these are."""
    merged_record_count: int | None = None
    """Rows after merging."""
    merged_record_size: int | None = None
    """Their bytes."""
    columns: Mapping[str, ColumnStatistics] = field(default_factory=dict)
