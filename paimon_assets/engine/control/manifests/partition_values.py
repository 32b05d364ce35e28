"""PartitionValues: partition bytes → values, directories and statistics of one table.

Partitions recur in every entry, so each is decoded once.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from paimon_assets.engine.codec.rows.binary_row import deserialize_row, serialize_row
from paimon_assets.engine.spec.metadata.manifest import ManifestFileMeta
from paimon_assets.engine.spec.metadata.simple_stats import EMPTY_STATS, SimpleStats
from paimon_assets.engine.spec.options.all_options import (
    PARTITION_DEFAULT_NAME,
    PARTITION_LEGACY_NAME,
)
from paimon_assets.engine.spec.partition import partition_path, partition_spec
from paimon_assets.engine.spec.paths import TablePaths
from paimon_assets.engine.spec.predicate.predicate import Predicate
from paimon_assets.engine.spec.predicate.prune import Bounds, exactly, may_match
from paimon_assets.engine.spec.schema.schema import TableSchema


class PartitionValues:
    """Partitions of one table, given as serialized BinaryRows."""

    def __init__(self, schema: TableSchema) -> None:
        self.fields = schema.partition_fields
        self._types = [field.type for field in self.fields]
        self._default_name = schema.typed_options.get(PARTITION_DEFAULT_NAME)
        self._legacy = schema.typed_options.get(PARTITION_LEGACY_NAME)
        self._values: dict[bytes, tuple[Any, ...]] = {}
        self._paths: dict[bytes, str] = {}

    def values(self, partition: bytes) -> tuple[Any, ...]:
        """Return the internal values, in the order of the partition keys."""
        found = self._values.get(partition)
        if found is None:
            found = deserialize_row(partition, self._types) if self._types else ()
            self._values[partition] = found
        return found

    def path(self, partition: bytes) -> str:
        """Return `name=value/name=value`, empty if the table has no partitions."""
        found = self._paths.get(partition)
        if found is None:
            found = partition_path(
                self.fields,
                self.values(partition),
                default_name=self._default_name,
                legacy=self._legacy,
            )
            self._paths[partition] = found
        return found

    def spec(self, partition: bytes) -> Mapping[str, str]:
        """Return column → text, for people: dates as dates, whatever directories are called."""
        values = self.values(partition)
        return partition_spec(self.fields, values, default_name=self._default_name, legacy=False)

    def path_spec(self, partition: bytes) -> Mapping[str, str]:
        """Return column → text as in the partition's path, but not escaped."""
        texts = partition_spec(
            self.fields,
            self.values(partition),
            default_name=self._default_name,
            legacy=self._legacy,
        )
        return {key: text if text.strip() else self._default_name for key, text in texts.items()}

    def bucket_path(self, paths: TablePaths, partition: bytes, bucket: int) -> str:
        """Return the directory of a bucket."""
        return paths.bucket(self.path(partition), bucket)

    def may_match(self, predicate: Predicate | None, partition: bytes) -> bool:
        """Whether a partition passes a bound predicate over its columns."""
        return predicate is None or may_match(predicate, self.exact(partition).__getitem__)

    def exact(self, partition: bytes) -> dict[str, Bounds]:
        """Return column → its one value in a partition, as bounds."""
        values = zip(self.fields, self.values(partition), strict=True)
        return {field.name: exactly(value) for field, value in values}

    def may_be_in(self, predicate: Predicate | None, meta: ManifestFileMeta) -> bool:
        """Whether a manifest may name partitions that pass a bound predicate over their columns."""
        if predicate is None:
            return True
        count = meta.num_added_files + meta.num_deleted_files
        return may_match(predicate, self.bounds(meta.partition_stats, count).__getitem__)

    def stats(self, partitions: Iterable[bytes]) -> SimpleStats:
        """Summarise partitions for a manifest list; with NaN, bounds are unknown."""
        if not self._types:
            return EMPTY_STATS
        columns = list(zip(*(self.values(partition) for partition in partitions), strict=True))
        lows, highs, nulls = [], [], []
        for column in columns:
            known = [value for value in column if value is not None]
            ordered = not any(isinstance(value, float) and math.isnan(value) for value in known)
            lows.append(min(known) if known and ordered else None)
            highs.append(max(known) if known and ordered else None)
            nulls.append(len(column) - len(known))
        return SimpleStats(
            min_values=serialize_row(lows, self._types),
            max_values=serialize_row(highs, self._types),
            null_counts=tuple(nulls),
        )

    def bounds(self, stats: SimpleStats, entry_count: int) -> dict[str, Bounds]:
        """Return column → bounds of a manifest's partitions."""
        if not self._types:
            return {}
        lows = deserialize_row(stats.min_values, self._types)
        highs = deserialize_row(stats.max_values, self._types)
        nulls = stats.null_counts or (None,) * len(self._types)
        return {
            field.name: Bounds(minimum=low, maximum=high, null_count=null, row_count=entry_count)
            for field, low, high, null in zip(self.fields, lows, highs, nulls, strict=True)
        }
