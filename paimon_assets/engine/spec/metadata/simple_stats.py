"""Statistics: of a file's columns, of a table's rows, and what a commit changes in a partition.

Source: `org.apache.paimon.stats.SimpleStats`, `Statistics`, `ColStats`,
`org.apache.paimon.partition.PartitionStatistics`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
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


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatistics:
    """Differences that a commit makes; they are negative where files go."""

    spec: Mapping[str, str] = field(default_factory=dict)
    """Partition key → value as in the partition's path; empty if the table has no partitions."""
    record_count: int
    """Physical rows."""
    file_size_in_bytes: int
    file_count: int
    last_file_creation_time: int
    """Epoch milliseconds of the youngest file; 0 if none says."""
    total_buckets: int
    """Buckets of the partition; -1 without a fixed number, -2 of waiting rows."""


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
