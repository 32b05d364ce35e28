"""Deletes and updates of rows: which tables take them, and the files in which rows may change.

    delete    where the newest record wins, or the engine's option makes a -D remove its row
    update    where the engine takes updates, and no sequence group decides which values count

    primary key     splits of a bucket, read merged; records are written beside them
    without         files; those whose index file of deletion vectors is the same go together,
                    because it is replaced as a whole. A file all of whose rows go, by its
                    statistics, is not opened

Planned from manifests alone.
Source: `org.apache.paimon.flink.sink.SupportsRowLevelOperationFlinkTableSink`.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NoReturn, assert_never

from paimon_assets.engine.contract.commit_message import CommitMessage, DataIncrement
from paimon_assets.engine.contract.context import ReadContext
from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.contract.write_tasks import RowChangeTask
from paimon_assets.engine.control import features
from paimon_assets.engine.control.compact import BucketKey, LiveBucket, live_buckets
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.scan import split_generator
from paimon_assets.engine.control.scan.file_pruning import FilePruning
from paimon_assets.engine.control.scan.file_store_scan import FileStoreScan
from paimon_assets.engine.control.scan.segment_scan import check_unchanged
from paimon_assets.engine.control.scan.table_scan import scan_table
from paimon_assets.engine.control.segments import check_row_changes, may_have_segments
from paimon_assets.engine.errors import InvalidInputError, UnsupportedFeatureError
from paimon_assets.engine.spec.merge.merge_rules import merge_rules_of
from paimon_assets.engine.spec.merge.sequence_padding import padding_of
from paimon_assets.engine.spec.metadata import data_file
from paimon_assets.engine.spec.metadata.manifest import IndexFileMeta, ManifestEntry
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.paths import POSTPONE_BUCKET
from paimon_assets.engine.spec.predicate import predicate as pred
from paimon_assets.engine.spec.schema.schema import BucketMode, TableSchema, with_tracking
from paimon_assets.engine.spec.types.cast_rules import FLOAT_ROOTS
from paimon_assets.engine.spec.values import Value


def check_deletable(store: FileStore) -> None:
    """Refuse tables in which a record of kind -D does not remove its row."""
    features.check_deletable_rows(store.label, store.schema)
    if not store.schema.has_primary_key:
        return
    rules = merge_rules_of(store.schema)
    if rules.ignore_delete:
        _refuse(
            store, "delete", f"'{opt.IGNORE_DELETE.key}' = true drops deletes. Open the table with"
            f" '{opt.IGNORE_DELETE.key}' = false to delete rows of it"
        )  # fmt: skip
    traits = rules.traits
    if not traits.newest_wins and not rules.remove_on_delete:
        option = traits.delete_option
        out = "drop whole partitions" if option is None else f"set '{option.key}' to true"
        _refuse(
            store, "delete", f"'{opt.MERGE_ENGINE.key}' = {traits.engine} does not remove a row"
            f" when it is deleted; {out}"
        )  # fmt: skip
    fields = store.schema.typed_options.get(opt.SEQUENCE_FIELD)
    if fields and not traits.newest_wins:
        # The -D has the values of the visible row, which a retraction's need not have reached.
        _refuse(
            store, "delete", f"'{opt.SEQUENCE_FIELD.key}' may bring a stored retraction after the"
            f" delete; write records of kind -D with a later '{fields[0]}'"
        )  # fmt: skip
    _check_padding(store, "delete")


def check_updatable(store: FileStore, columns: Iterable[str]) -> None:
    """Refuse tables and columns in which a new record does not replace its row."""
    schema = store.schema
    options = schema.typed_options
    for names, role in (
        (schema.primary_keys, "part of the primary key"),
        (schema.partition_keys, "a partition key"),
        (options.get(opt.BUCKET_KEY), "part of the bucket key"),
        (options.get(opt.SEQUENCE_FIELD), "a sequence field"),
        ((options.get(opt.ROWKIND_FIELD),), "the row kind"),
    ):
        refused = sorted(set(columns) & set(names))
        if refused:
            raise InvalidInputError(
                f"Column '{refused[0]}' of table '{store.label}' is {role} and cannot be updated;"
                " delete the rows and write them again.",
                kind="update-column",
                table=store.label,
                column=refused[0],
            )
    if not schema.has_primary_key:
        return
    rules = merge_rules_of(schema)
    if not rules.traits.takes_updates:
        _refuse(
            store, "update", f"'{opt.MERGE_ENGINE.key}' = {rules.traits.engine} does not replace a"
            " row by a newer one; write records for it to merge"
        )  # fmt: skip
    if rules.groups or rules.aggregations:
        _refuse(
            store, "update", "its sequence groups decide which values are taken; write records"
            " with the sequence fields"
        )  # fmt: skip
    _check_padding(store, "update")


def _check_padding(store: FileStore, verb: str) -> None:
    """The padded number of a record with the same time need not be larger than the stored one."""
    if padding_of(store.schema) is not None:
        _refuse(
            store, verb, f"'{opt.SEQUENCE_AUTO_PADDING.key}' lets arrival decide within a time"
            " which record wins; write a record with a later time"
        )  # fmt: skip


def check_settled(store: FileStore, snapshot: Snapshot) -> None:
    """Refuse a change while rows wait for a compaction: they would come back, or be lost."""
    postponed = store.schema.bucket_mode is BucketMode.POSTPONE
    hidden = split_generator.skips_level_0(store.schema)
    if not postponed and not hidden:
        return
    for entry in FileStoreScan(store).live_files(snapshot):
        if entry.bucket == POSTPONE_BUCKET or (hidden and entry.file.level == 0):
            raise UnsupportedFeatureError(
                f"Rows of table '{store.label}' cannot be changed: file '{entry.file.file_name}'"
                " waits for a compaction, which no read sees yet. Compact the table first.",
                kind="rows-wait",
                table=store.label,
                file=entry.file.file_name,
            )


def _refuse(store: FileStore, verb: str, reason: str) -> NoReturn:
    message = f"Cannot {verb} rows of table '{store.label}': {reason}."
    raise UnsupportedFeatureError(message, kind=f"row-{verb}", table=store.label)


def complement(predicate: pred.Predicate, schema: TableSchema) -> pred.Predicate | None:
    """Return a bound predicate that is true wherever `predicate` is not.

    None if there is no such predicate: of a prefix, a pattern or a function, of a comparison with
    null, and of comparisons of floating point, because NaN is in no statistics.
    """
    match predicate:
        case pred.And(children=children):
            parts = _all(children, schema)
            return None if parts is None else pred.any_of(parts)
        case pred.Or(children=children):
            parts = _all(children, schema)
            return None if parts is None else pred.all_of(parts)
        case pred.IsNull(field=name, negated=negated):
            return pred.IsNull(name, negated=not negated)
        case pred.StartsWith() | pred.Like() | pred.Applied():
            return None
        case pred.Comparison(field=name, op=op, literal=literal):
            if literal is None or schema.column(name).type.root in FLOAT_ROOTS:
                return None
            return pred.Or((pred.Comparison(name, op.negation, literal), pred.IsNull(name)))
        case pred.In(field=name, literals=literals, negated=negated):
            if None in literals or schema.column(name).type.root in FLOAT_ROOTS:
                return None
            return pred.Or((pred.In(name, literals, negated=not negated), pred.IsNull(name)))
        case _:
            assert_never(predicate)


def _all(children: Iterable[pred.Predicate], schema: TableSchema) -> list[pred.Predicate] | None:
    parts = [complement(child, schema) for child in children]
    known = [part for part in parts if part is not None]
    return known if len(known) == len(parts) else None


_TASKS = 16
"""So many tasks write the files of a small table again; of a large one, more of the usual size."""


class RowChangePlan(Value):
    """The plan of a row change; nothing is written yet."""

    snapshot: Snapshot
    context: ReadContext
    tasks: tuple[RowChangeTask, ...] = ()
    dropped: tuple[CommitMessage, ...] = ()
    """Delete files all of whose rows match; no task looks at them."""

    @property
    def rows_dropped(self) -> int:
        return sum(
            file.row_count
            for message in self.dropped
            for file in message.data_increment.deleted_files
        )


def plan_row_change(
    store: FileStore,
    snapshot: Snapshot,
    predicate: pred.Predicate | None,
    *,
    deletes: bool,
    marks: bool = False,
) -> RowChangePlan:
    """Plan a change of the rows for which a predicate is true; with a source, of some of them.

    With `deletes` all of them are deleted; with `marks` some rows may be.
    """
    features.check_writable(store.label, store.schema)
    if store.schema.has_primary_key:
        return _plan_keyed(store, snapshot, predicate)
    evolves = store.schema.typed_options.get(opt.DATA_EVOLUTION_ENABLED)
    if not evolves:
        check_segments(store, snapshot, "delete" if deletes else "update")
    entries = FileStoreScan(store).needed_files(snapshot, predicate)
    if not evolves:
        check_unchanged(store, entries)
    whole = set[str]()  # files whose statistics prove the predicate true for every row
    rest = (
        complement(predicate, with_tracking(store.schema))
        if deletes and predicate is not None and not evolves
        else None
    )
    if rest is not None:
        pruning = FilePruning(store.schema, rest, store.schemas.schema)
        whole = {entry.file.file_name for entry in entries}
        whole -= {entry.file.file_name for entry in pruning.needed_entries(entries)}
    tasks, dropped = list[RowChangeTask](), list[CommitMessage]()
    for bucket in live_buckets(store, snapshot, entries):
        names = whole - bucket.vectors.keys()  # of a file with deleted rows the vector must go, too
        gone = [file for file in bucket.files if file.file_name in names]
        left = [file for file in bucket.files if file.file_name not in names]
        tasks += _tasks(store, bucket, left, marks=marks or not evolves)
        if gone:
            dropped.append(bucket.message(DataIncrement(deleted_files=tuple(gone))))
    return RowChangePlan(
        snapshot=snapshot,
        context=store.rewrite_context((entry.file.schema_id for entry in entries), predicate),
        tasks=tuple(tasks),
        dropped=tuple(dropped),
    )


def check_segments(store: FileStore, snapshot: Snapshot, operation: str) -> None:
    """Refuse a change of rows while a live segment has another format than the table."""
    if may_have_segments(store):
        check_row_changes(store, FileStoreScan(store).live_files(snapshot), operation)


def _plan_keyed(
    store: FileStore, snapshot: Snapshot, predicate: pred.Predicate | None
) -> RowChangePlan:
    check_settled(store, snapshot)
    # Rows of a fallback branch are none of this table's.
    own = store.with_options({opt.SCAN_FALLBACK_BRANCH.key: ""})
    splits: dict[BucketKey, list[DataSplit]] = {}
    for split in scan_table(own, snapshot, predicate).splits:
        splits.setdefault((split.partition, split.bucket), []).append(split)
    files = (file for group in splits.values() for split in group for file in split.data_files)
    return RowChangePlan(
        snapshot=snapshot,
        context=store.rewrite_context((file.schema_id for file in files), predicate),
        tasks=tuple(RowChangeTask(splits=tuple(group)) for group in splits.values()),
    )


def _tasks(
    store: FileStore, bucket: LiveBucket, files: Sequence[data_file.DataFileMeta], *, marks: bool
) -> Iterator[RowChangeTask]:
    """Yield tasks of files, or of whole ranges of row ids, as many to one as a read has.

    If rows may be deleted, those whose deletion vectors lie in one index file go together.
    """
    options = store.schema.typed_options
    evolves = options.get(opt.DATA_EVOLUTION_ENABLED)
    if evolves:
        features.refuse_ranges(store.label, files)
    groups = data_file.row_ranges(files) if evolves else [[file] for file in files]

    def task(
        parts: Iterable[Sequence[data_file.DataFileMeta]], indexes: Sequence[IndexFileMeta] = ()
    ) -> RowChangeTask:
        return RowChangeTask(
            splits=(bucket.split([file for part in parts for file in part]),),
            index_files=tuple(indexes),
            index_directory=bucket.index_directory,
        )

    if groups and store.schema.bucket_mode is not BucketMode.BUCKET_UNAWARE:
        # A bucket has one index file; the order of its files is that of its rows.
        ordered = sorted(groups, key=lambda group: group[0].min_sequence_number)
        yield task(ordered, bucket.index_files)
        return
    left = {data_file.anchor_file(group).file_name: group for group in groups}
    for index in bucket.index_files if marks else ():
        names = [vector.data_file_name for vector in index.deletion_vectors or ()]
        marked = [left.pop(name) for name in names if name in left]
        if marked:
            yield task(marked, [index])
    open_bytes = options.get(opt.SPLIT_OPEN_FILE_COST)
    target_bytes = options.get(opt.SPLIT_TARGET_SIZE)

    def weight(group: Sequence[data_file.DataFileMeta]) -> int:
        return sum(max(file.file_size, open_bytes) for file in group)

    if not evolves and not options.get(opt.DELETION_VECTORS_ENABLED):
        # Of vectors every task would write an index file.
        total = sum(map(weight, left.values()))
        target_bytes = min(target_bytes, max(open_bytes, total // _TASKS))
    yield from map(task, split_generator.pack(left.values(), weight, target_bytes))


def dropped_rows(
    store: FileStore, snapshot: Snapshot, deleted: Sequence[ManifestEntry]
) -> int | None:
    """Return the live rows of files before a snapshot deleted them; None if it is unknown."""
    before = store.snapshots.snapshot_or_none(snapshot.id - 1)
    if store.schema.has_primary_key or before is None:
        return None
    vectors = split_generator.deletion_files(
        store, before, {(entry.partition, entry.bucket) for entry in deleted}
    )
    rows = 0
    for key, entries in split_generator.by_bucket(deleted).items():
        for group in data_file.row_ranges(entry.file for entry in entries):
            vector = vectors.get((*key, data_file.anchor_file(group).file_name))
            if vector is not None and vector.cardinality is None:
                return None
            rows += data_file.range_row_count(group) - ((vector.cardinality or 0) if vector else 0)
    return rows
