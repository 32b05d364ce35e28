"""Index files, changelogs and statistics of snapshots; conflicts of commits."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from paimon_assets import CommitConflictError, InvalidInputError, Schema, StorageError
from paimon_assets.engine.codec.rows.binary_row import serialize_row
from paimon_assets.engine.contract.commit_message import (
    CommitMessage,
    CompactIncrement,
    DataIncrement,
)
from paimon_assets.engine.control.commit import checks
from paimon_assets.engine.control.commit.abort import abort, delete_changelogs
from paimon_assets.engine.control.commit.changes import changes_of
from paimon_assets.engine.control.commit.column_conflicts import _Ranges
from paimon_assets.engine.control.commit.file_store_commit import FileStoreCommit
from paimon_assets.engine.control.commit.partition_filter import (
    PartitionFilter,
    bound_spec,
    upgrade,
)
from paimon_assets.engine.control.commit.request import RetryPolicy
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.metadata.data_file import EMPTY_ROW, DataFileMeta
from paimon_assets.engine.spec.metadata.manifest import (
    DELETION_VECTORS_INDEX,
    HASH_INDEX,
    DeletionVectorMeta,
    FileKind,
    IndexFileMeta,
    IndexManifestEntry,
    ManifestEntry,
)
from paimon_assets.engine.spec.metadata.snapshot import (
    ColumnStatistics,
    CommitKind,
    Snapshot,
    Statistics,
)
from paimon_assets.engine.spec.options.all_options import Options
from paimon_assets.engine.spec.predicate.predicate import equal
from paimon_assets.engine.spec.types.data_types import bigint, string
from tests.testkit.builders import data_file, entry
from tests.testkit.errors import refused
from tests.testkit.faulty_fileio import FaultyFileIO
from tests.testkit.metadata_tables import (
    KEYED,
    FixedClock,
    commit,
    keyed_file,
    live_names,
    manifest_files,
    message,
    new_store,
    newest,
    plain_file,
    referenced_manifests,
    vectors_of,
    with_index,
)


def _index_names(store: FileStore) -> list[str]:
    name = newest(store).index_manifest
    return [] if name is None else [e.file.file_name for e in store.manifests.read_index(name)]


def _vectors(name: str, *data_files: str) -> IndexFileMeta:
    metas = (DeletionVectorMeta(data_file_name=each, offset=1, length=22) for each in data_files)
    return vectors_of(*metas, file_name=name).file


def _hash(name: str) -> IndexFileMeta:
    return IndexFileMeta(index_type=HASH_INDEX, file_name=name, file_size=8, row_count=2)


def _append_message(**increment) -> CommitMessage:
    return CommitMessage(
        partition=EMPTY_ROW, bucket=0, total_buckets=None, data_increment=DataIncrement(**increment)
    )


def _compact_message(**increment) -> CommitMessage:
    return CommitMessage(
        partition=EMPTY_ROW, bucket=0, total_buckets=2,
        compact_increment=CompactIncrement(**increment),
    )  # fmt: skip


def _all_referenced(store: FileStore) -> set[str]:
    names = referenced_manifests(store)
    for snapshot_id in store.snapshots.list_ids():
        made = store.snapshots.snapshot(snapshot_id)
        names |= {made.index_manifest} if made.index_manifest else set()
        if made.changelog_manifest_list:
            names.add(made.changelog_manifest_list)
            metas = store.manifests.read_list(made.changelog_manifest_list)
            names |= {meta.file_name for meta in metas}
    return names


def test_hash_indexes_are_added_by_append_and_replace_named_ones(keyed):
    commit(keyed, _append_message(new_files=(keyed_file(0, 9),), new_index_files=(_hash("h0"),)))
    made = commit(
        keyed, _append_message(new_index_files=(_hash("h1"),), deleted_index_files=(_hash("h0"),))
    )
    assert (made.commit_kind, made.delta_record_count) == (CommitKind.APPEND, 0)
    assert _index_names(keyed) == ["h1"]
    with refused(CommitConflictError, kind="index-gone"):
        commit(
            keyed,
            _append_message(new_index_files=(_hash("h2"),), deleted_index_files=(_hash("h0"),)),
        )
    assert manifest_files(keyed) == _all_referenced(keyed)


def test_index_manifest_that_does_not_change_keeps_its_name(keyed):
    first = commit(keyed, _append_message(new_index_files=(_hash("h0"),)))
    assert commit(keyed, message(keyed_file(0, 9))).index_manifest == first.index_manifest
    emptied = commit(
        keyed, _append_message(deleted_index_files=(_hash("h0"),)), kind=CommitKind.OVERWRITE
    )
    assert emptied.index_manifest is None


@pytest.mark.way_out("commit-kind")
def test_rows_deleted_by_vectors_are_overwrite(store):
    commit(store, message(plain_file("a")))
    vectors = _append_message(new_index_files=(_vectors("v", "a"),))
    with refused(InvalidInputError, "deletion vectors", kind="commit-kind"):
        commit(store, vectors)
    made = commit(store, vectors, kind=CommitKind.OVERWRITE)
    assert (made.commit_kind, made.total_record_count) == (CommitKind.OVERWRITE, 10)
    assert _index_names(store) == ["v"]
    gone = _append_message(new_index_files=(_vectors("w", "b"),))
    with refused(CommitConflictError, kind="vector-without-file"):
        commit(store, gone, kind=CommitKind.OVERWRITE)


def test_deletes_during_compaction_survive(store):
    old, new = plain_file("old"), plain_file("new")
    commit(store, message(old))
    commit(
        store, _append_message(new_index_files=(_vectors("v", "old"),)), kind=CommitKind.OVERWRITE
    )
    blind = _compact_message(compact_before=(old,), compact_after=(new,))
    with refused(CommitConflictError, kind="vector-left"):
        commit(store, blind, kind=CommitKind.COMPACT)
    seeing = replace(blind.compact_increment, deleted_index_files=(_vectors("v", "old"),))
    commit(store, replace(blind, compact_increment=seeing), kind=CommitKind.COMPACT)
    assert (live_names(store), _index_names(store)) == (["new"], [])


def test_compaction_commits_files_changelog_and_index_at_once(keyed, tmp_path):
    level_0 = keyed_file(0, 9, file_name="new")
    commit(keyed, message(level_0, total_buckets=2))
    made = commit(
        keyed,
        _compact_message(
            compact_before=(level_0,),
            compact_after=(keyed_file(0, 9, level=5, file_name="top"),),
            changelog_files=(keyed_file(0, 9, file_name="changes", row_count=7),),
            new_index_files=(_vectors("v", "top"),),
        ),
        kind=CommitKind.COMPACT,
    )
    assert (made.id, live_names(keyed), _index_names(keyed)) == (2, ["top"], ["v"])
    assert _changelog(keyed, made) == [("changes", 7)]
    assert (made.changelog_record_count, made.total_record_count) == (7, 10)
    list_path = tmp_path / "table" / "manifest" / str(made.changelog_manifest_list)
    assert list_path.stat().st_size == made.changelog_manifest_list_size
    assert manifest_files(keyed) == _all_referenced(keyed)


def _changelog(store: FileStore, snapshot: Snapshot) -> list[tuple[str, int]]:
    assert snapshot.changelog_manifest_list is not None
    return [
        (entry.file.file_name, entry.file.row_count)
        for meta in store.manifests.read_list(snapshot.changelog_manifest_list)
        for entry in store.manifests.read(meta)
    ]


def test_append_commits_its_changelog_once(store):
    made = commit(
        store,
        _append_message(
            new_files=(plain_file("a"),), changelog_files=(plain_file("c", row_count=12),)
        ),
    )
    assert (_changelog(store, made), live_names(store)) == ([("c", 12)], ["a"])
    after = commit(store, message(plain_file("b")))
    assert (after.changelog_manifest_list, after.changelog_record_count) == (None, None)


def test_lost_race_keeps_changelog_and_leaves_no_files(tmp_path):
    table = new_store(tmp_path, KEYED)
    commit(table, _append_message(new_index_files=(_hash("h0"),)))
    rivals = [2]

    def rival(_number: int, method: str, _path: str) -> None:
        if method == "publish" and rivals[0]:
            rivals[0] -= 1
            commit(FileStore.open(LocalFileIO(), table.table_path), message(keyed_file(0, 9)))

    store = FileStore.open(FaultyFileIO(LocalFileIO(), before=rival), table.table_path)
    changes = _append_message(
        changelog_files=(keyed_file(0, 1, file_name="c"),),
        new_index_files=(_hash("h1"),),
        deleted_index_files=(_hash("h0"),),
    )
    made = commit(store, changes)
    assert (made.id, _changelog(table, made), _index_names(table)) == (4, [("c", 10)], ["h1"])
    assert manifest_files(table) == _all_referenced(table)


def test_append_during_compaction_is_no_conflict(keyed):
    level_0 = keyed_file(0, 9, file_name="old")
    commit(keyed, message(level_0, total_buckets=2))
    planned = _compact_message(
        compact_before=(level_0,), compact_after=(keyed_file(0, 9, level=5, file_name="top"),)
    )
    commit(keyed, message(keyed_file(0, 9, file_name="meanwhile"), total_buckets=2))
    commit(keyed, planned, kind=CommitKind.COMPACT)
    assert live_names(keyed) == ["meanwhile", "top"]


@pytest.mark.parametrize(("taken", "kind"), [("same", "file-gone"), ("other", "key-range")])
def test_two_compactions_of_bucket_are_conflict(keyed, taken, kind):
    files = {name: keyed_file(0, 9, file_name=name) for name in ("same", "other")}
    commit(keyed, message(*files.values(), total_buckets=2))
    for name, winner in (("same", "first"), (taken, "second")):
        planned = _compact_message(
            compact_before=(files[name],),
            compact_after=(keyed_file(0, 9, level=5, file_name=winner),),
        )
        if winner == "first":
            commit(keyed, planned, kind=CommitKind.COMPACT)
            continue
        with refused(CommitConflictError, kind=kind):
            commit(keyed, planned, kind=CommitKind.COMPACT)
    assert live_names(keyed) == ["other", "first"]
    assert manifest_files(keyed) == _all_referenced(keyed)


@pytest.mark.parametrize("kind", [CommitKind.APPEND, CommitKind.COMPACT])
def test_two_increments_are_two_snapshots(tmp_path, kind):
    both = replace(
        _append_message(changelog_files=(plain_file("a"),)),
        compact_increment=CompactIncrement(new_index_files=(_hash("h"),)),
    )
    with refused(InvalidInputError, "would drop", kind="commit-kind"):
        commit(new_store(tmp_path), both, kind=kind)


def test_abort_deletes_changelog_and_index_files(store, tmp_path):
    paths = [tmp_path / "table" / "index" / name for name in ("h", "v", "kept")]
    paths += [tmp_path / "table" / "bucket-0" / name for name in ("c", "d")]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        path.touch()
    outside = replace(_hash("kept"), external_path=str(paths[2]))
    given = [
        _append_message(new_index_files=(_hash("h"), outside), changelog_files=(plain_file("c"),)),
        _compact_message(new_index_files=(_vectors("v"),), changelog_files=(plain_file("d"),)),
    ]
    assert delete_changelogs(store, given) == 2
    assert [path.exists() for path in paths] == [True, True, True, False, False]
    assert abort(store, given) == 4
    assert [path.exists() for path in paths] == [False, False, True, False, False]


def _statistics(schema_id: int = 0) -> Statistics:
    column = ColumnStatistics(column_id=0, distinct_count=3, minimum="1", maximum="9")
    return Statistics(
        snapshot_id=1, schema_id=schema_id, merged_record_count=10, columns={"a": column}
    )


def _analyze(store: FileStore, statistics: Statistics, identifier: int = 1) -> Snapshot:
    return FileStoreCommit(store, clock=FixedClock()).commit_statistics(
        statistics, commit_user="me", commit_identifier=identifier
    )


def test_statistics_are_named_and_inherited(store, tmp_path):
    commit(store, message(plain_file("a")))
    made = _analyze(store, _statistics())
    assert (made.commit_kind, made.delta_record_count) == (CommitKind.ANALYZE, 0)
    assert (made.total_record_count, live_names(store)) == (10, ["a"])
    written = tmp_path / "table" / "statistics" / str(made.statistics)
    assert json.loads(written.read_bytes()) == {
        "snapshotId": 1,
        "schemaId": 0,
        "mergedRecordCount": 10,
        "colStats": {"a": {"colId": 0, "distinctCount": 3, "min": "1", "max": "9"}},
    }
    assert commit(store, message(plain_file("b"))).statistics == made.statistics
    assert _analyze(store, _statistics()) == made
    assert list(written.parent.iterdir()) == [written]


def test_statistics_of_another_schema_are_conflict(store, tmp_path):
    with refused(CommitConflictError, kind="schema-changed"):
        _analyze(store, _statistics(schema_id=1))
    assert list((tmp_path / "table" / "statistics").iterdir()) == []
    assert manifest_files(store) == set()


def test_statistics_whose_storage_fails_leave_nothing(tmp_path):
    table = new_store(tmp_path)
    store = FileStore.open(FaultyFileIO(LocalFileIO(), fail_on="snapshot-1"), table.table_path)
    with pytest.raises(StorageError):
        _analyze(store, _statistics())
    assert list((tmp_path / "table" / "statistics").iterdir()) == []


DAILY = Schema.of({"dt": "STRING", "hh": "BIGINT", "a": "BIGINT"}, partition_keys=["dt", "hh"])
KEYED_DAILY = Schema.of(
    {"dt": "STRING", "hh": "BIGINT", "a": "BIGINT"},
    partition_keys=["dt", "hh"],
    primary_keys=["dt", "hh", "a"],
    options={"bucket": "2"},
)


def _part(day: str | None, hour: int | None = 0) -> bytes:
    return serialize_row([day, hour], [string(), bigint()])


def _overwrite(store: FileStore, *messages: CommitMessage, user: str = "me", **scope) -> Snapshot:
    return FileStoreCommit(store, clock=FixedClock()).overwrite(
        messages, commit_user=user, commit_identifier=1, **scope
    )


def _fill_store(tmp_path, schema: Schema = DAILY) -> FileStore:
    store = new_store(tmp_path, schema)
    for day, hour in (("x", 0), ("x", 1), ("y", 0), (None, 0), (None, None)):
        name = f"{day}-{hour}"
        file = keyed_file(0, 9, file_name=name) if schema is KEYED_DAILY else plain_file(name)
        total = 2 if schema is KEYED_DAILY else None
        commit(store, message(file, partition=_part(day, hour), total_buckets=total))
    return store


@pytest.fixture
def filled_store(tmp_path):
    return _fill_store(tmp_path)


def test_whole_table_is_replaced(filled_store):
    made = _overwrite(filled_store, message(plain_file("new", row_count=3), partition=_part("z")))
    assert live_names(filled_store) == ["new"]
    assert made.commit_kind is CommitKind.OVERWRITE
    assert (made.delta_record_count, made.total_record_count) == (3 - 50, 3)
    delta = filled_store.manifests.read_list(made.delta_manifest_list)
    kinds = [entry.kind for meta in delta for entry in filled_store.manifests.read(meta)]
    assert kinds == [FileKind.DELETE] * 5 + [FileKind.ADD]
    assert manifest_files(filled_store) == referenced_manifests(filled_store)


@pytest.mark.parametrize(
    ("spec", "left"),
    [
        ({"dt": "x"}, ["y-0", "None-0", "None-None"]),
        ({"dt": "x", "hh": 1}, ["x-0", "y-0", "None-0", "None-None"]),
        ({"hh": "0"}, ["x-1", "None-None"]),
        ({"dt": None}, ["x-0", "x-1", "y-0"]),
        ({"dt": "__DEFAULT_PARTITION__", "hh": None}, ["x-0", "x-1", "y-0", "None-0"]),
        ({"dt": "nowhere"}, ["x-0", "x-1", "y-0", "None-0", "None-None"]),
        ({}, []),
    ],
)
def test_partition_spec_may_be_partial(filled_store, spec, left):
    made = _overwrite(filled_store, predicate=bound_spec(filled_store.schema, spec, table="t"))
    assert live_names(filled_store) == left
    assert made.total_record_count == 10 * len(left)


def test_listed_partitions_alone_are_replaced(filled_store):
    _overwrite(filled_store, partitions=frozenset({_part("x", 1), _part(None)}))
    assert live_names(filled_store) == ["x-0", "y-0", "None-None"]
    _overwrite(filled_store, partitions=frozenset(), user="nothing")
    assert live_names(filled_store) == ["x-0", "y-0", "None-None"]


@pytest.mark.parametrize(
    ("spec", "kind", "named"),
    [({"a": 1}, "partition-spec", "'a'"), ({"hh": "noon"}, "literal", "'hh'")],
)
def test_meaningless_spec_is_refused(tmp_path, spec, kind, named):
    store = new_store(tmp_path, DAILY)
    with refused(InvalidInputError, named, kind=kind):
        bound_spec(store.schema, spec, table="t")


def test_invalid_choice_of_partitions_is_refused(tmp_path):
    store = new_store(tmp_path, DAILY)
    with pytest.raises(InvalidInputError, match="not by 'a'"):
        PartitionFilter.where(store, equal("a", 1))
    with pytest.raises(InvalidInputError, match="not both"):
        _overwrite(store, partitions=frozenset(), predicate=equal("dt", "x"))


def test_files_of_other_partitions_are_refused(filled_store):
    stray = message(plain_file("new"), partition=_part("y"))
    with refused(InvalidInputError, "dt=y/hh=0", kind="overwrite-partition"):
        _overwrite(filled_store, stray, predicate=equal("dt", "x"))
    deleting = message(deleted=[plain_file("x-0")], partition=_part("x"))
    with pytest.raises(InvalidInputError, match="plans its deletions"):
        _overwrite(filled_store, deleting)
    assert len(live_names(filled_store)) == 5


def test_overwrite_removes_index_files_of_partitions(filled_store):
    with_index(
        filled_store,
        vectors_of(partition=_part("x"), file_name="vx"),
        vectors_of(partition=_part("y"), file_name="vy"),
    )
    made = _overwrite(filled_store, partitions=frozenset({_part("x")}))
    assert made.index_manifest is not None
    assert [e.file.file_name for e in filled_store.manifests.read_index(made.index_manifest)] == [
        "vy"
    ]
    assert _overwrite(filled_store, user="all").index_manifest is None


def test_partition_gets_another_bucket_count(tmp_path):
    store = _fill_store(tmp_path, KEYED_DAILY)
    new = message(keyed_file(0, 4), partition=_part("x"), total_buckets=8)
    with pytest.raises(CommitConflictError):
        commit(store, new)
    _overwrite(store, new, partitions=frozenset({_part("x")}))
    commit(store, message(keyed_file(0, 4), partition=_part("x"), total_buckets=8))
    with pytest.raises(CommitConflictError):
        commit(store, message(keyed_file(0, 4), partition=_part("x"), total_buckets=2))
    commit(store, message(keyed_file(0, 4), partition=_part("y"), total_buckets=2))
    mixed = [
        message(keyed_file(0, 4), partition=_part("x"), total_buckets=count) for count in (2, 4)
    ]
    with pytest.raises(CommitConflictError):
        _overwrite(store, *mixed, user="mixed")


def test_disjoint_files_are_placed_on_highest_level(keyed):
    disjoint = message(keyed_file(5, 9), keyed_file(0, 4), bucket=0, total_buckets=2)
    overlapping = message(keyed_file(0, 5), keyed_file(5, 9), bucket=1, total_buckets=2)
    made = _overwrite(keyed, disjoint, overlapping)
    (meta,) = keyed.manifests.read_list(made.delta_manifest_list)
    levels = [(entry.bucket, entry.file.level) for entry in keyed.manifests.read(meta)]
    assert levels == [(0, 5), (0, 5), (1, 0), (1, 0)]
    old = FileStore.open(LocalFileIO(), keyed.table_path, options={"overwrite-upgrade": "false"})
    made = _overwrite(old, message(keyed_file(0, 4), total_buckets=2), user="old")
    (meta,) = keyed.manifests.read_list(made.delta_manifest_list)
    assert [e.file.level for e in keyed.manifests.read(meta) if e.kind is FileKind.ADD] == [0]


def test_concurrent_commits_are_replaced_too(tmp_path):
    table = _fill_store(tmp_path)
    rivals = ["x", "y"]

    def rival(_number: int, method: str, _path: str) -> None:
        if method == "publish" and rivals:
            day = rivals.pop()
            other = FileStore.open(LocalFileIO(), table.table_path)
            commit(other, message(plain_file(f"late-{day}"), partition=_part(day, 1)))

    store = FileStore.open(FaultyFileIO(LocalFileIO(), before=rival), table.table_path)
    new = message(plain_file("new"), partition=_part("x"))
    made = _overwrite(store, new, predicate=equal("dt", "x"))
    assert made.id == 8
    assert live_names(table) == ["y-0", "None-0", "None-None", "late-y", "new"]
    assert made.total_record_count == 50
    assert manifest_files(table) == referenced_manifests(table)


def test_repeated_overwrite_commits_once(filled_store):
    first = _overwrite(filled_store, message(plain_file("new"), partition=_part("x")))
    commit(filled_store, message(plain_file("later"), partition=_part("x")))
    assert _overwrite(filled_store, message(plain_file("again"), partition=_part("x"))) == first
    assert live_names(filled_store) == ["new", "later"]


def test_overwrite_keeps_foreign_files_in_storage(store, tmp_path):
    foreign = tmp_path / "elsewhere.parquet"
    foreign.touch()
    commit(store, message(plain_file("f", external_path=str(foreign)), plain_file("own")))
    _overwrite(store)
    assert live_names(store) == []
    assert foreign.exists()


def test_first_commit_may_be_overwrite(store):
    changelog = DataIncrement(
        new_files=(plain_file("a"),), changelog_files=(plain_file("dropped"),)
    )
    made = _overwrite(
        store, CommitMessage(partition=message().partition, bucket=0, total_buckets=None,
        data_increment=changelog),
    )  # fmt: skip
    assert (made.id, made.changelog_manifest_list, live_names(store)) == (1, None, ["a"])
    assert newest(store) == made


def test_only_manifests_of_partitions_are_read(tmp_path):
    table = _fill_store(tmp_path)
    store = FileStore.open(FaultyFileIO(LocalFileIO()), table.table_path)
    latest = newest(store)
    scope = PartitionFilter.of(store, frozenset({_part("x", 1)}))
    metas = store.manifests.manifests_of(latest)
    assert [scope.may_hold(meta) for meta in metas] == [False, True, False, False, False]
    assert [entry.file.file_name for entry in scope.live_files(latest)] == ["x-1"]


def _add(name: str, **file) -> ManifestEntry:
    return entry(file=data_file(file_name=name, **file))


def _delete(name: str, **file) -> ManifestEntry:
    return entry(kind=FileKind.DELETE, file=data_file(file_name=name, **file))


def _range(file: DataFileMeta) -> tuple[bytes, bytes]:
    return file.min_key, file.max_key


def _kind_of_conflict(base, delta, key_range=None) -> str | None:
    try:
        checks.check_conflicts(base, delta, key_range)
    except CommitConflictError as error:
        return error.kind
    return None


def test_partition_keeps_its_bucket_count():
    checks.check_bucket_counts({b"p": 4}, [entry(partition=b"p", total_buckets=4)])
    checks.check_bucket_counts({b"p": 4}, [entry(partition=b"q", total_buckets=8)])
    checks.check_bucket_counts({b"p": 4}, [entry(partition=b"p", total_buckets=-1)])
    with refused(CommitConflictError, "written for 8 buckets", kind="bucket-count"):
        checks.check_bucket_counts({b"p": 4}, [entry(partition=b"p", total_buckets=8)])


def test_commit_has_one_bucket_count_per_partition():
    with pytest.raises(CommitConflictError):
        checks.check_bucket_counts({}, [entry(total_buckets=4), entry(total_buckets=8)])


def test_deleted_files_must_be_live():
    assert _kind_of_conflict([_add("a")], [_delete("a")]) is None
    assert _kind_of_conflict([_add("b")], [_delete("a")]) == "file-gone"
    assert _kind_of_conflict([_add("a", level=1)], [_delete("a", level=0)]) == "file-gone"


def test_added_files_must_not_be_live():
    assert _kind_of_conflict([_add("a")], [_add("b")]) is None
    assert _kind_of_conflict([_add("a")], [_add("a")]) == "file-added-twice"


def test_commit_is_consistent_in_itself():
    checks.check_delta([_add("a"), _delete("b"), _delete("a", level=1)])
    for delta in ([_delete("a"), _add("a")], [_add("a")] * 2, [_delete("a")] * 2):
        with refused(InvalidInputError, "'a'", kind="delta-inconsistent"):
            checks.check_delta(delta)


def test_moving_file_to_another_level_is_no_conflict():
    delta = [_delete("a", level=0), _add("a", level=5)]
    assert _kind_of_conflict([_add("a", level=0)], delta) is None


def _on_level(name: str, low: bytes, high: bytes, level: int = 5) -> ManifestEntry:
    return _add(name, level=level, min_key=low, max_key=high)


def test_postponed_files_stay_on_level_0():
    waiting = (entry(bucket=-2, file=data_file(level=0)),)
    assert upgrade(waiting, _range, Options({})) is waiting


def test_ranges_overlap_only_with_common_row_ids():
    ranges = _Ranges.of([data_file(first_row_id=0), data_file(first_row_id=20)])
    touched = [ranges.overlap(start, start + 5) for start in (0, 5, 10, 15, 16, 25, 30)]
    assert touched == [True, True, False, False, True, True, False]


def test_files_of_one_level_share_no_key():
    live = [_on_level("a", b"a", b"f")]
    assert _kind_of_conflict(live, [_on_level("b", b"g", b"z")], _range) is None
    assert _kind_of_conflict(live, [_on_level("b", b"f", b"z")], _range) == "key-range"
    assert _kind_of_conflict(live, [_on_level("b", b"b", b"c")], _range) == "key-range"
    assert _kind_of_conflict(live, [_on_level("b", b"b", b"c", level=4)], _range) is None
    assert _kind_of_conflict([], [_on_level("b", b"b", b"c", level=0)], _range) is None
    level_0 = [_on_level("a", b"a", b"f", level=0)]
    assert _kind_of_conflict(level_0, [_on_level("b", b"b", b"c", level=0)], _range) is None


def test_replaced_file_is_no_conflict():
    live = [_on_level("a", b"a", b"f")]
    gone = _delete("a", level=5, min_key=b"a", max_key=b"f")
    assert _kind_of_conflict(live, [gone, _on_level("b", b"b", b"z")], _range) is None


def test_append_tables_have_no_key_ranges():
    live = [_on_level("a", b"a", b"f")]
    assert _kind_of_conflict(live, [_on_level("b", b"b", b"z")], None) is None


FILE = data_file()
_CHANGES = {
    "new": CommitMessage(
        partition=b"p", bucket=1, total_buckets=4, data_increment=DataIncrement(new_files=(FILE,))
    ),
    "deleted": CommitMessage(
        partition=b"p",
        bucket=1,
        total_buckets=None,
        data_increment=DataIncrement(deleted_files=(FILE,)),
    ),
    "compact": CommitMessage(
        partition=b"p",
        bucket=1,
        total_buckets=4,
        compact_increment=CompactIncrement(
            compact_before=(FILE,), compact_after=(data_file(file_name="x"),)
        ),
    ),
}


@pytest.mark.parametrize(
    ("change", "kind", "kinds"),
    [
        ("new", CommitKind.APPEND, [FileKind.ADD]),
        ("new", CommitKind.OVERWRITE, [FileKind.ADD]),
        ("deleted", CommitKind.OVERWRITE, [FileKind.DELETE]),
        ("compact", CommitKind.COMPACT, [FileKind.DELETE, FileKind.ADD]),
    ],
)
def test_snapshot_kind_limits_its_changes(change, kind, kinds):
    entries = changes_of([_CHANGES[change]], kind, default_buckets=7).entries
    assert [one.kind for one in entries] == kinds
    assert {(one.partition, one.bucket) for one in entries} == {(b"p", 1)}
    assert {one.total_buckets for one in entries} == {7 if change == "deleted" else 4}


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ("deleted", CommitKind.APPEND),
        ("compact", CommitKind.APPEND),
        ("compact", CommitKind.OVERWRITE),
        ("new", CommitKind.COMPACT),
    ],
)
def test_changes_ignored_by_snapshot_kind_are_refused(change, kind):
    with pytest.raises(InvalidInputError, match="would drop"):
        changes_of([_CHANGES[change]], kind, default_buckets=7)


def test_statistics_commit_takes_no_messages():
    with pytest.raises(InvalidInputError, match="statistics"):
        changes_of([_CHANGES["new"]], CommitKind.ANALYZE, default_buckets=1)


@given(st.integers(1, 200), st.floats(0, 1, exclude_max=True))
def test_waits_double_up_to_ceiling_and_are_positive(lost, fraction):
    policy = RetryPolicy(max_retries=10, min_wait_ms=10, max_wait_ms=10_000)
    wait = policy.wait_ms(lost, lambda: fraction)
    ceiling = min(10_000, 10 * 2 ** (lost - 1))
    assert ceiling / 2 <= wait <= ceiling


def test_retries_end_by_number_or_time():
    policy = RetryPolicy(max_retries=2, min_wait_ms=1, max_wait_ms=1, timeout_ms=500)
    assert [policy.is_over(lost, 499) for lost in (1, 2, 3)] == [False, False, True]
    assert policy.is_over(1, 500)


def test_policy_is_read_from_table_options():
    options = {"commit.max-retries": "3", "commit.min-retry-wait": "2 s", "commit.timeout": "1 min"}
    assert RetryPolicy.of(Options(options)) == RetryPolicy(
        max_retries=3, min_wait_ms=2000, max_wait_ms=10_000, timeout_ms=60_000
    )


ADD, DELETE = FileKind.ADD, FileKind.DELETE


def _index(
    name: str,
    *data_files: str,
    kind: FileKind = ADD,
    index_type: str = DELETION_VECTORS_INDEX,
    bucket: int = 0,
) -> IndexManifestEntry:
    vectors = tuple(
        DeletionVectorMeta(data_file_name=data_file, offset=1, length=22)
        for data_file in data_files
    )
    meta = IndexFileMeta(
        index_type=index_type,
        file_name=name,
        file_size=10,
        row_count=len(vectors),
        deletion_vectors=vectors if index_type == DELETION_VECTORS_INDEX else None,
    )
    return IndexManifestEntry(kind=kind, partition=b"p", bucket=bucket, file=meta)


def _hash_index(name: str, *, kind: FileKind = ADD, bucket: int = 0) -> IndexManifestEntry:
    return _index(name, kind=kind, index_type=HASH_INDEX, bucket=bucket)


def _names(live, changes, *, has_buckets=True) -> list[str]:
    return [each.file.file_name for each in checks.apply(live, changes, has_buckets=has_buckets)]


def _conflict(live, changes, *, has_buckets=True) -> str:
    with pytest.raises(CommitConflictError, match="Plan again") as caught:
        checks.apply(live, changes, has_buckets=has_buckets)
    assert caught.value.details["file"] == changes[-1].file.file_name
    return caught.value.kind


def test_named_manifests_are_replaced_and_new_ones_appended():
    live = [
        _hash_index("h0"),
        _hash_index("h1", bucket=1),
        _index("v0", "a"),
        _index("g", index_type="btree"),
    ]
    changes = [_hash_index("h0", kind=DELETE), _hash_index("h0b"), _index("v1", "c", bucket=1)]
    assert _names(live, changes) == ["h1", "v0", "g", "h0b", "v1"]
    assert _names(live, [_index("v0", "a", kind=DELETE)]) == ["h0", "h1", "g"]


@pytest.mark.parametrize("one", [_hash_index, lambda name, **more: _index(name, "a", **more)])
def test_bucket_has_one_file_of_kind(one):
    assert _names([one("old")], [one("old", kind=DELETE), one("new")]) == ["new"]
    assert _names([one("old")], [one("new", bucket=1)]) == ["old", "new"]
    assert _conflict([one("old")], [one("new")]) == "index-changed"
    assert _conflict([], [one("new"), one("newer")]) == "index-changed"
    assert _conflict([one("other")], [one("new"), one("old", kind=DELETE)]) == "index-gone"


def test_without_buckets_data_file_has_one_vector():
    live = [_index("v0", "a", "b"), _index("v1", "c")]
    assert _names(live, [_index("v2", "d")], has_buckets=False) == ["v0", "v1", "v2"]
    replaced = [_index("v1", "c", kind=DELETE), _index("v2", "c", "d")]
    assert _names(live, replaced, has_buckets=False) == ["v0", "v2"]
    assert _conflict(live, [_index("v2", "b")], has_buckets=False) == "index-changed"


def test_file_name_is_live_once():
    assert _conflict([_index("g", index_type="btree")], [_index("g", index_type="btree")]) == (
        "index-changed"
    )


def _file(name: str, kind: FileKind = ADD, level: int = 0) -> ManifestEntry:
    return entry(kind=kind, partition=b"p", file=data_file(file_name=name, level=level))


def _vector_conflict(before, after, base, delta) -> str | None:
    try:
        checks.check_vectors(before, after, base, delta)
    except CommitConflictError as error:
        return error.kind
    return None


def test_new_vector_needs_its_data_file():
    after = [_index("v", "a")]
    assert _vector_conflict([], after, [_file("a")], []) is None
    assert _vector_conflict([], after, [], [_file("a")]) is None
    assert _vector_conflict([], after, [_file("b")], []) == "vector-without-file"
    # Leftovers of other engines are no conflict of this commit.
    assert _vector_conflict(after, [_index("v2", "a")], [], []) is None


def test_removed_file_removes_its_vector():
    before = [_index("v", "a", "b")]
    gone = [_file("a", DELETE)]
    assert _vector_conflict(before, [_index("v2", "b")], [_file("a"), _file("b")], gone) is None
    assert _vector_conflict(before, before, [_file("a"), _file("b")], gone) == "vector-left"


def test_file_that_changes_its_level_keeps_its_vector():
    moved = [_file("a", DELETE), _file("a", level=5)]
    before = [_index("v", "a")]
    assert _vector_conflict(before, before, [_file("a")], moved) is None
