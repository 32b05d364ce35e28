"""Ranges of row ids whose rows get new values of some columns, and which of them are behind.

A range is behind if a column lacks values in it, or their inputs are newer: the files' sequence
numbers show it, so nothing else has to be stored. Where one file holds both, as
after a compaction, which also joins ranges, the changes of the snapshots before it say which rows
got values, and which inputs after them. Where such a snapshot expired, the range is behind.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate

from msgspec import Struct, field
from msgspec.structs import replace

from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.control.compact import LiveBucket, live_buckets
from paimon_assets.engine.control.features import check_writable, refuse_ranges
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.scan.file_store_scan import FileStoreScan
from paimon_assets.engine.control.scan.split_generator import pack
from paimon_assets.engine.errors import InvalidInputError, UnsupportedFeatureError
from paimon_assets.engine.spec.metadata import data_file
from paimon_assets.engine.spec.metadata.manifest import FileKind, ManifestEntry
from paimon_assets.engine.spec.metadata.snapshot import CommitKind, Snapshot
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.predicate.predicate import Predicate
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.values import Value

Group = tuple[data_file.DataFileMeta, ...]
Span = tuple[int, int]
"""The first row id, and the one after the last."""


def live_row_count(bucket: LiveBucket, group: Group) -> int:
    """Return the number of rows of a range that are not deleted, by metadata alone."""
    vector = bucket.vectors.get(data_file.anchor_file(group).file_name)
    return data_file.range_row_count(group) - ((vector.cardinality or 0) if vector else 0)


def check_column_files(table: str, schema: TableSchema) -> None:
    """Refuse tables that have no files of some columns alone."""
    check_writable(table, schema)
    if schema.has_primary_key:
        feature = "keyed-columns"
        reason = (
            "it has a primary key. Write records of the key and these columns: a normal asset of"
            f" them, of a table with '{opt.MERGE_ENGINE.key}' = partial-update."
        )
    elif not schema.typed_options.get(opt.DATA_EVOLUTION_ENABLED):
        feature = "column-files"
        reason = (
            f"its files hold all columns. Create it with '{opt.ROW_TRACKING_ENABLED.key}' and"
            f" '{opt.DATA_EVOLUTION_ENABLED.key}' = true."
        )
    else:
        return
    raise UnsupportedFeatureError(
        f"Cannot write single columns of table '{table}': {reason}",
        kind=f"unsupported-{feature}",
        table=table,
        feature=feature,
    )


class ColumnGroups(Value):
    """The ranges of row ids of a snapshot."""

    store: FileStore
    snapshot: Snapshot
    columns: tuple[str, ...]
    reads: tuple[str, ...]
    buckets: tuple[tuple[LiveBucket, tuple[Group, ...]], ...]
    changes: dict[int, "_Changes | None"] = field(default_factory=dict)
    """Snapshot id → its changes; None if it expired."""

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
                    table=store.label,
                    column=name,
                )
        schema.columns(reads)
        buckets = []
        entries = FileStoreScan(store).needed_files(snapshot, predicate)
        for bucket in live_buckets(store, snapshot, entries):
            refuse_ranges(store.label, bucket.files)
            groups = map(tuple, data_file.row_ranges(bucket.files))
            buckets.append((bucket, tuple(g for g in groups if live_row_count(bucket, g))))
        return cls(
            store=store,
            snapshot=snapshot,
            columns=tuple(columns),
            reads=tuple(reads),
            buckets=tuple(buckets),
        )

    def behind(self) -> "ColumnGroups":
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
    def files(self) -> list[data_file.DataFileMeta]:
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
            for field_id in self._written_ids(file):
                newest[field_id] = max(newest.get(field_id, 0), file.max_sequence_number)
        schema = self.store.schema
        written = {column.id: newest.get(column.id) for column in schema.columns(self.columns)}
        read = (newest.get(column.id, 0) for column in schema.columns(self.reads))
        newest_read = max(read, default=0)
        if any(n is None or n < newest_read for n in written.values()):
            return True
        beside = {field_id for field_id, number in written.items() if number == newest_read}
        return bool(beside) and not self._written_after(group, beside, newest_read)

    def _written_ids(self, file: data_file.DataFileMeta) -> set[int]:
        schema = self.store.schemas.schema(file.schema_id)
        names = schema.field_names if file.write_cols is None else file.write_cols
        return {schema.by_name[name].id for name in names if name in schema.by_name}

    def _written_after(self, group: Group, ids: set[int], newest: int) -> bool:
        """Whether all rows of a range got values of columns after the last change of the inputs."""
        columns = {column.id for column in self.store.schema.columns(self.columns)}
        read = {column.id for column in self.store.schema.columns(self.reads)} - columns
        first = group[0].first_row_id or 0
        left = [(first, first + data_file.range_row_count(group))]
        oldest = min(file.min_sequence_number for file in group)
        for number in range(newest, oldest, -1):
            changes = self._changes(number)
            if changes is None:
                return False
            here = changes.within(left)
            if any(made & read for _, made in here):
                return False
            for span, made in here:
                left = _without(left, span) if ids <= made <= columns else left
            if not left:
                return True
        return False

    def _changes(self, number: int) -> "_Changes | None":
        if number not in self.changes:
            snapshot = self.store.snapshots.snapshot_or_none(number)
            entries: list[ManifestEntry] = []
            if snapshot is not None and snapshot.commit_kind is not CommitKind.COMPACT:
                delta = self.store.manifests.delta(snapshot)
                entries = [entry for entry in delta if entry.kind is FileKind.ADD]
            files = [(entry.file, self._written_ids(entry.file)) for entry in entries]
            self.changes[number] = None if snapshot is None else _Changes.of(files)
        return self.changes[number]


class _Changes(Struct, frozen=True):
    """Changes of a snapshot: spans in their order, each with the ids of its columns."""

    spans: Sequence[tuple[Span, set[int]]]
    ends: Sequence[int]
    """The last end so far."""

    @classmethod
    def of(cls, files: Iterable[tuple[data_file.DataFileMeta, set[int]]]) -> "_Changes":
        spans = [
            ((file.first_row_id, file.first_row_id + file.row_count), ids)
            for file, ids in files
            if file.first_row_id is not None
        ]
        spans.sort(key=lambda each: each[0])
        return cls(spans, list(accumulate((span[1] for span, _ in spans), max)))

    def within(self, left: Sequence[Span]) -> list[tuple[Span, set[int]]]:
        """Return those that overlap spans."""
        start = bisect_right(self.ends, left[0][0])
        stop = bisect_left(self.spans, left[-1][1], key=lambda each: each[0][0])
        return [each for each in self.spans[start:stop] if _without(left, each[0]) != left]


def _without(spans: Sequence[Span], gone: Span) -> list[Span]:
    """Return the spans without the rows of another span."""
    parts = [((start, min(end, gone[0])), (max(start, gone[1]), end)) for start, end in spans]
    return [(start, end) for two in parts for start, end in two if start < end]
