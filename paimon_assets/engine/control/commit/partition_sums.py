"""The file sums of a commit by partition, for catalogs that keep sums.

Source: `org.apache.paimon.manifest.PartitionEntry`.
"""

from collections.abc import Iterable

from paimon_assets.engine.control.manifests.partition_values import PartitionValues
from paimon_assets.engine.spec.metadata.manifest import FileKind, ManifestEntry
from paimon_assets.engine.spec.metadata.partition_statistics import PartitionStatistics
from paimon_assets.engine.spec.metadata.wall_clock import instant_ms


def partition_statistics(
    partitions: PartitionValues, entries: Iterable[ManifestEntry]
) -> list[PartitionStatistics]:
    """Return the sums of a commit's data files, by partition.

    Cost:
        O(n) for n entries.
    """
    by_partition: dict[bytes, list[ManifestEntry]] = {}
    for entry in entries:
        by_partition.setdefault(entry.partition, []).append(entry)
    return [_sums(partitions, partition, found) for partition, found in by_partition.items()]


def _sums(
    partitions: PartitionValues, partition: bytes, entries: list[ManifestEntry]
) -> PartitionStatistics:
    signs = [1 if entry.kind is FileKind.ADD else -1 for entry in entries]
    files = [entry.file for entry in entries]
    created = [file.creation_time for file in files if file.creation_time is not None]
    return PartitionStatistics(
        spec=partitions.path_spec(partition),
        record_count=sum(n * file.row_count for n, file in zip(signs, files, strict=True)),
        file_size_in_bytes=sum(n * file.file_size for n, file in zip(signs, files, strict=True)),
        file_count=sum(signs),
        last_file_creation_time=max(map(instant_ms, created), default=0),
        total_buckets=entries[-1].total_buckets,
    )
