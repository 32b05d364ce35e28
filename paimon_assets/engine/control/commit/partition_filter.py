"""PartitionFilter: some partitions of a table, and the changes of an overwrite that empties them.

Source: `org.apache.paimon.partition.PartitionPredicate`,
`org.apache.paimon.operation.commit.OverwriteChangesProvider`.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from itertools import pairwise
from typing import Any, Self

from msgspec.structs import replace

from paimon_assets.engine.control.commit.changes import CommitChanges
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.scan.split_generator import by_bucket
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.metadata.manifest import (
    FileKind,
    IndexManifestEntry,
    ManifestEntry,
    ManifestFileMeta,
)
from paimon_assets.engine.spec.metadata.manifest import live_entries as live_of
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.predicate import predicate as pred
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types.literals import Literal, to_internal
from paimon_assets.engine.spec.values import Value

_MOST_TO_COMPARE = 64
"""Manifests are not chosen by the bounds of more partitions than this."""

KeyRange = Callable[[DataFileMeta], tuple[Any, Any]]
"""File → (smallest, largest key), comparable."""
PartitionSpec = Mapping[str, Literal]
"""Partition column → value; columns that are not named may have any value, None is null."""


def bound_spec(schema: TableSchema, spec: PartitionSpec, *, table: str) -> pred.Predicate | None:
    """Return the predicate of a partition spec; None (every partition) for an empty one."""
    for name in spec:
        if name not in schema.partition_keys:
            keys = ", ".join(schema.partition_keys) or "none"
            message = (
                f"Table '{table}' is not partitioned by column '{name}'; its partition keys: "
                f"{keys}."
            )
            raise InvalidInputError(message, kind="partition-spec", table=table, column=name)
    null_name = schema.typed_options.get(opt.PARTITION_DEFAULT_NAME)
    values = {name: None if value == null_name else value for name, value in spec.items()}
    return pred.all_of(
        pred.equal(name, to_internal(value, schema.column(name).type, name))
        for name, value in values.items()
    )


class PartitionFilter(Value):
    """Some partitions of a table: all, those listed, or those a predicate is true for."""

    store: FileStore
    listed: frozenset[bytes] | None = None
    predicate: pred.Predicate | None = None

    @classmethod
    def of(cls, store: FileStore, partitions: frozenset[bytes]) -> Self:
        """Return a filter of the partitions listed."""
        return cls(store=store, listed=partitions)

    @classmethod
    def where(cls, store: FileStore, predicate: pred.Predicate | None) -> Self:
        """Return a filter by a bound predicate over the partition keys; None takes all."""
        keys = store.schema.partition_keys
        columns = pred.fields_of(predicate) - set(keys)
        if columns:
            raise InvalidInputError(
                f"Table '{store.label}' can choose whole partitions by {', '.join(keys) or 'none'},"
                f" not by '{min(columns)}'.",
                kind="partition-spec",
                table=store.label,
                column=min(columns),
            )
        function = next(pred.functions_of(predicate), None)
        if function is not None:
            raise InvalidInputError(
                f"Table '{store.label}' can choose whole partitions by comparisons, IN, IS NULL and"
                f" LIKE of {', '.join(keys)}, not by {function.function} of '{function.field}'."
                " Compare the column itself; a delete of rows takes functions too.",
                kind="partition-spec",
                table=store.label,
                column=function.field,
            )
        return cls(store=store, predicate=predicate)

    def takes(self, partition: bytes) -> bool:
        """Whether a partition is one of these."""
        if self.listed is not None:
            return partition in self.listed
        return self.store.partitions.may_match(self.predicate, partition)

    def may_hold(self, meta: ManifestFileMeta) -> bool:
        """Whether a manifest may hold entries of these partitions."""
        return self.store.partitions.may_be_in(self._pruning, meta)

    def live_files(
        self, snapshot: Snapshot | None, buckets: frozenset[tuple[bytes, int]] | None = None
    ) -> list[ManifestEntry]:
        """Return their live files, in manifest order; reads manifests whose bounds may match."""
        if snapshot is None:
            return []
        takes = cache(self.takes)

        def keep(_kind: FileKind, partition: bytes, bucket: int, _total_buckets: int) -> bool:
            return (buckets is None or (partition, bucket) in buckets) and takes(partition)

        manifests = self.store.manifests
        metas = [meta for meta in manifests.manifests_of(snapshot) if self.may_hold(meta)]
        return live_of(manifests.read_all(metas, keep))

    @property
    def _pruning(self) -> pred.Predicate | None:
        """Return the filter of manifests; it is weaker than `takes`, None takes all."""
        if not self.store.schema.partition_keys:
            return None
        if self.listed is None:
            return self.predicate
        if not 0 < len(self.listed) <= _MOST_TO_COMPARE:
            return None
        return pred.any_of(_one_partition(self.store, partition) for partition in self.listed)


def _one_partition(store: FileStore, partition: bytes) -> pred.Predicate:
    columns = zip(store.schema.partition_keys, store.partitions.values(partition), strict=True)
    predicate = pred.all_of(pred.equal(name, value) for name, value in columns)
    if predicate is None:  # partition keys were there
        raise AssertionError("a partition without columns")
    return predicate


def overwritten(
    partitions: PartitionFilter,
    base: Iterable[ManifestEntry],
    index: Iterable[IndexManifestEntry],
    new: CommitChanges,
) -> CommitChanges:
    """Return the changes that empty partitions and fill them again, without changelog."""
    gone = [entry._replace(kind=FileKind.DELETE) for entry in base]
    index_gone = [
        replace(entry, kind=FileKind.DELETE) for entry in index if partitions.takes(entry.partition)
    ]
    added = [entry for entry in new.index if entry.kind is FileKind.ADD]
    return CommitChanges(entries=(*gone, *new.entries), index=(*index_gone, *added))


def check_new_files(store: FileStore, partitions: PartitionFilter, new: CommitChanges) -> None:
    """Check that an overwrite adds files to the partitions it empties, and does nothing else."""
    for entry in new.entries:
        if entry.kind is FileKind.DELETE:
            raise InvalidInputError(
                f"File '{entry.file.file_name}' is to be deleted by an overwrite of table "
                f"'{store.label}', which plans its deletions itself.",
                kind="commit-kind",
                table=store.label,
                file=entry.file.file_name,
            )
    files = [(entry.partition, entry.file.file_name) for entry in new.entries]
    files += [(entry.partition, entry.file.file_name) for entry in new.index]
    for partition, name in files:
        if not partitions.takes(partition):
            raise InvalidInputError(
                f"File '{name}' is in partition '{store.partitions.path(partition)}' of table "
                f"'{store.label}', which is not overwritten.",
                kind="overwrite-partition",
                table=store.label,
                file=name,
            )


def upgrade(
    entries: tuple[ManifestEntry, ...], key_range: KeyRange | None, options: opt.Options
) -> tuple[ManifestEntry, ...]:
    """Return new files with those of a bucket on the highest level, if they share no key.

    Nothing else is left in the bucket: so they need no merging, and tables that read no level 0
    show them at once.
    """
    is_fresh = all(entry.file.level == 0 and entry.bucket >= 0 for entry in entries)
    if key_range is None or not is_fresh or not options.get(opt.OVERWRITE_UPGRADE):
        return entries
    from paimon_assets.engine.lsm import num_levels

    top = num_levels(options) - 1
    result: list[ManifestEntry] = []
    for members in by_bucket(entries).values():
        ranges = sorted(key_range(entry.file) for entry in members)
        is_run = all(left[1] < right[0] for left, right in pairwise(ranges))
        level = top if is_run else 0
        result += [each._replace(file=each.file._replace(level=level)) for each in members]
    return tuple(result)
