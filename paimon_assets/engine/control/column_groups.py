"""Ranges of row ids whose rows get new values of some columns, and which of them are behind.

A range is behind if a column lacks values in it, or what they are made from is newer: the files say
it by their sequence numbers, so nothing else is to be remembered. Where one file holds both, as
after a compaction, only the snapshot that wrote it last says whether the columns were written then.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.control.compact import LiveBucket, live_buckets
from paimon_assets.engine.control.features import check_column_files, refuse_ranges
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.scan.file_store_scan import FileStoreScan
from paimon_assets.engine.control.scan.split_generator import pack
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.metadata.data_file import (
    DataFileMeta,
    anchor_file,
    range_row_count,
    row_ranges,
)
from paimon_assets.engine.spec.metadata.snapshot import COLUMNS_PROPERTY, Snapshot
from paimon_assets.engine.spec.predicate.predicate import Predicate

Group = tuple[DataFileMeta, ...]


def live_row_count(bucket: LiveBucket, group: Group) -> int:
    """Return the rows of a range that are not deleted, as far as metadata says it."""
    vector = bucket.vectors.get(anchor_file(group).file_name)
    return range_row_count(group) - ((vector.cardinality or 0) if vector else 0)


@dataclass(frozen=True, kw_only=True)
class ColumnGroups:
    """The ranges of row ids of a snapshot."""

    store: FileStore
    snapshot: Snapshot
    columns: tuple[str, ...]
    reads: tuple[str, ...]
    buckets: tuple[tuple[LiveBucket, tuple[Group, ...]], ...]

    @classmethod
    def of(
        cls,
        store: FileStore,
        snapshot: Snapshot,
        predicate: Predicate | None,
        *,
        columns: Sequence[str],
        reads: Sequence[str],
    ) -> "ColumnGroups":
        """Return the ranges of some partitions; raises for a table that has no such files."""
        schema = store.schema
        check_column_files(store.label, schema)
        for name in columns:
            if schema.column(name).name in schema.partition_keys:
                raise InvalidInputError(
                    f"Column '{name}' of table '{store.label}' is a partition key and cannot be"
                    " written alone.",
                    kind="update-column",
                    details={"table": store.label, "column": name},
                )
        schema.columns(reads)
        buckets = []
        entries = FileStoreScan(store).needed_files(snapshot, predicate)
        for bucket in live_buckets(store, snapshot, entries):
            refuse_ranges(store.label, bucket.files)
            groups = map(tuple, row_ranges(bucket.files))
            buckets.append((bucket, tuple(g for g in groups if live_row_count(bucket, g))))
        return cls(
            store=store,
            snapshot=snapshot,
            columns=tuple(columns),
            reads=tuple(reads),
            buckets=tuple(buckets),
        )

    def behind(self) -> "ColumnGroups":
        """Return those that are behind."""
        buckets = [(b, tuple(filter(self._is_behind, groups))) for b, groups in self.buckets]
        return replace(self, buckets=tuple((b, groups) for b, groups in buckets if groups))

    def counts(self) -> Mapping[bytes, tuple[int, int]]:
        """Return partition → its rows that are behind, and all of them."""
        counts: dict[bytes, tuple[int, int]] = {}
        for bucket, groups in self.buckets:
            behind, total = counts.get(bucket.key[0], (0, 0))
            for group in groups:
                rows = live_row_count(bucket, group)
                behind += rows if self._is_behind(group) else 0
                total += rows
            counts[bucket.key[0]] = (behind, total)
        return counts

    @property
    def files(self) -> list[DataFileMeta]:
        """One file of each range."""
        return [group[0] for _, groups in self.buckets for group in groups]

    def splits(self, rows_at_once: int) -> Iterator[DataSplit]:
        """Yield the ranges, some at a time: one at least, else so many rows at most."""
        for bucket, groups in self.buckets:
            for packed in pack(groups, partial(live_row_count, bucket), rows_at_once):
                yield bucket.split([file for group in packed for file in group])

    def _is_behind(self, group: Group) -> bool:
        newest: dict[int, int] = {}
        for file in group:
            schema = self.store.schemas.schema(file.schema_id)
            names = schema.field_names if file.write_cols is None else file.write_cols
            for name in names:
                if name in schema.by_name:
                    field_id, number = schema.by_name[name].id, file.max_sequence_number
                    newest[field_id] = max(newest.get(field_id, 0), number)
        schema = self.store.schema
        written = [newest.get(column.id) for column in schema.columns(self.columns)]
        known = [number for number in written if number is not None]
        if len(known) < len(written):
            return True
        oldest = min(known)
        read = [newest.get(column.id, 0) for column in schema.columns(self.reads)]
        if max(read, default=0) == oldest:
            return not self._wrote(oldest)
        return max(read, default=0) > oldest

    def _wrote(self, snapshot_id: int) -> bool:
        snapshot = self.store.snapshots.snapshot_or_none(snapshot_id)
        written = "" if snapshot is None else snapshot.properties.get(COLUMNS_PROPERTY, "")
        return set(self.columns) <= set(written.split(","))
