"""Another bucket count for partitions that hold rows already: read, hashed again, rewritten.

Files of a partition agree on their bucket count, so all of a partition is replaced in one snapshot.
Rows of concurrent commits would stay in the old buckets: that is a conflict.
Partitions with files whose key columns have another type are rewritten, whatever their count:
their rows come to the order and the buckets of the new type.
Source: `org.apache.paimon.flink.action.RescaleAction`.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from paimon_assets.engine.contract.commit_message import CommitMessage, DataIncrement
from paimon_assets.engine.contract.executor import RewritingExecutor
from paimon_assets.engine.control.commit import partition_filter as partitions
from paimon_assets.engine.control.commit.abort import abort, deleted_on_definite_failure
from paimon_assets.engine.control.commit.checks import CommitChecks
from paimon_assets.engine.control.commit.file_store_commit import FileStoreCommit
from paimon_assets.engine.control.features import check_writable
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.listeners import find_followed
from paimon_assets.engine.control.managers.commit_history import NewUser
from paimon_assets.engine.control.scan.split_generator import skips_level_0
from paimon_assets.engine.control.write_planning import rewriting_schema, write_context
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.metadata import snapshot as snap
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.metadata.manifest import FileKind, ManifestEntry
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.schema.schema import BucketMode
from paimon_assets.engine.table.read.read_builder import ReadBuilder


def rescale(
    store: FileStore,
    executor: RewritingExecutor,
    *,
    buckets: int | None = None,
    partition: partitions.PartitionSpec | None = None,
    commit_user: str | None = None,
) -> snap.Snapshot | None:
    """Give partitions another bucket count, in one snapshot (`Table.rescale`)."""
    if commit_user is not None:
        committed = find_followed(store, commit_user, snap.BATCH_COMMIT_IDENTIFIER)
        if committed is not None:
            return committed
    store = store.current()
    check_writable(store.label, store.schema)
    target = store.schema.typed_options.get(opt.BUCKET) if buckets is None else buckets
    predicate = partitions.bound_spec(store.schema, partition or {}, table=store.label)
    plan = ReadBuilder(store=store, predicate=predicate).plan()
    live = partitions.PartitionFilter.where(store, predicate).live_files(plan.snapshot)
    retyped = store.retyped_schemas(entry.file.schema_id for entry in live)
    is_fixed = store.schema.bucket_mode is BucketMode.HASH_FIXED and target > 0
    is_dynamic = store.schema.bucket_mode is BucketMode.HASH_DYNAMIC and buckets is None
    if not is_fixed and not (is_dynamic and retyped):
        raise _refusal(store, f"it has no fixed bucket count, or {target} is none")
    changed = {
        entry.partition
        for entry in live
        if (is_fixed and entry.total_buckets != target) or entry.file.schema_id in retyped
    }
    gone = [entry for entry in live if entry.partition in changed]
    if not gone:
        return None
    if skips_level_0(store.schema) and any(entry.file.level == 0 for entry in gone):
        merging = (
            f"set '{opt.DELETION_VECTORS_MERGE_ON_READ.key}' to true for this, or overwrite it"
        )
        way_out = merging if retyped else "compact it first"
        raise _refusal(store, f"some of its rows wait for a compaction; {way_out}")
    splits = [split for split in plan.splits if split.partition in changed]
    # Merged rows: each one adds, none is logged, all are seen.
    options = {
        opt.BUCKET.key: str(target),
        opt.CHANGELOG_PRODUCER.key: opt.ChangelogProducer.NONE.value,
        opt.ROWKIND_FIELD.key: "",
        opt.WRITE_ONLY.key: "true",
    }
    write = write_context(store, rewriting_schema(store.schema, options))
    result = executor.rewrite(plan.context, splits, write)
    messages = [*_deletions(store, plan.snapshot, gone), *_on_top(store, result.messages)]
    with deleted_on_definite_failure(lambda: abort(store, result.messages)):
        return FileStoreCommit(store).commit(
            messages,
            commit_user=commit_user or NewUser(),
            commit_identifier=snap.BATCH_COMMIT_IDENTIFIER,
            kind=snap.CommitKind.OVERWRITE,
        )


def _refusal(store: FileStore, reason: str) -> InvalidInputError:
    message = f"The buckets of table '{store.label}' cannot be rescaled: {reason}."
    return InvalidInputError(message, kind="rescale", table=store.label)


def _deletions(
    store: FileStore, snapshot: snap.Snapshot | None, gone: Sequence[ManifestEntry]
) -> list[CommitMessage]:
    """Return messages that delete files and the indexes of their buckets."""
    files: dict[tuple[bytes, int, int], list[DataFileMeta]] = {}
    for entry in gone:
        place = (entry.partition, entry.bucket, entry.total_buckets)
        files.setdefault(place, []).append(entry.file)
    listed = () if snapshot is None else snapshot.index_manifest
    indexes = store.manifests.read_index(listed) if listed else ()
    return [
        CommitMessage(
            partition=partition,
            bucket=bucket,
            total_buckets=total,
            data_increment=DataIncrement(
                deleted_files=tuple(deleted),
                deleted_index_files=tuple(
                    index.file
                    for index in indexes
                    if (index.partition, index.bucket) == (partition, bucket)
                ),
            ),
        )
        for (partition, bucket, total), deleted in files.items()
    ]


def _on_top(store: FileStore, messages: Sequence[CommitMessage]) -> list[CommitMessage]:
    """Give new files the top level where they are one sorted run, which needs no merge."""
    lifted = []
    for message in messages:
        entries = tuple(
            ManifestEntry(
                kind=FileKind.ADD,
                partition=message.partition,
                bucket=message.bucket,
                total_buckets=message.total_buckets or 0,
                file=file,
            )
            for file in message.data_increment.new_files
        )
        top = partitions.upgrade(entries, CommitChecks(store).key_range, store.schema.typed_options)
        increment = replace(message.data_increment, new_files=tuple(entry.file for entry in top))
        lifted.append(replace(message, data_increment=increment))
    return lifted
