"""PartitionStatistics: the changes of one commit in a partition, as catalogs sum them up.

Source: `org.apache.paimon.partition.PartitionStatistics`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


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
