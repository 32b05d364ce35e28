import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from paimon_assets.engine import errors
from paimon_assets.engine.codec.json.metadata_json import schema_to_json, snapshot_to_json
from paimon_assets.engine.contract.commit_message import CommitMessage, CompactIncrement
from paimon_assets.engine.control.commit import file_store_commit
from paimon_assets.engine.control.commit.abort import abort
from paimon_assets.engine.control.commit.file_store_commit import FileStoreCommit
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.metadata.snapshot import (
    BATCH_COMMIT_IDENTIFIER,
    SCHEMA_PROPERTY,
    CommitKind,
)
from paimon_assets.engine.spec.schema.schema import Schema, first_table_schema
from tests.testkit.builders import snapshot
from tests.testkit.errors import refused
from tests.testkit.faulty_fileio import Fault, FaultyFileIO
from tests.testkit.metadata_tables import (
    APPEND,
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
)


@pytest.fixture
def table(store):
    return store


def _commit_as(store: FileStore, user: str, *messages: CommitMessage, clock=None, **more):
    return FileStoreCommit(store, clock=clock or FixedClock()).commit(
        messages, commit_user=user, commit_identifier=BATCH_COMMIT_IDENTIFIER, **more
    )


def test_first_commit_makes_snapshot_1_with_empty_base(store, tmp_path):
    made = _commit_as(store, "me", message(plain_file("a", row_count=10)), properties={"k": "v"})
    assert store.snapshots.latest() == made
    assert (made.id, made.schema_id, made.version, made.next_row_id) == (1, 0, 3, 0)
    assert (made.total_record_count, made.delta_record_count) == (10, 10)
    assert (made.commit_user, made.commit_identifier) == ("me", BATCH_COMMIT_IDENTIFIER)
    assert made.commit_kind is CommitKind.APPEND
    assert made.time_millis == FixedClock().now
    assert made.properties == {SCHEMA_PROPERTY: "0-1", "k": "v"}
    assert store.manifests.read_list(made.base_manifest_list) == ()
    for name, size in (
        (made.base_manifest_list, made.base_manifest_list_size),
        (made.delta_manifest_list, made.delta_manifest_list_size),
    ):
        assert (tmp_path / "table" / "manifest" / name).stat().st_size == size
    assert (tmp_path / "table" / "snapshot" / "LATEST").read_bytes() == b"1"


def test_commit_builds_on_previous_one(store):
    for number in range(1, 6):
        made = commit(store, message(plain_file(str(number), row_count=number)))
        assert made.id == number
        assert made.total_record_count == sum(range(1, number + 1))
        assert made.delta_record_count == number
        delta = store.manifests.read_list(made.delta_manifest_list)
        assert [meta.num_added_files for meta in delta] == [1]
    assert live_names(store) == ["1", "2", "3", "4", "5"]


def test_only_files_of_snapshots_are_left_behind(store):
    for _ in range(70):  # merges manifests twice
        commit(store, message(plain_file()))
    assert manifest_files(store) == referenced_manifests(store)
    assert len(store.manifests.manifests_of(newest(store))) <= 31
    assert len(live_names(store)) == 70


def test_commit_without_messages_makes_empty_snapshot(tmp_path):
    made = commit(new_store(tmp_path))
    assert (made.id, made.delta_record_count) == (1, 0)


def test_watermark_never_decreases(store):
    given = (None, 5, None, 3, 9)
    assert [commit(store, watermark=mark).watermark for mark in given] == [None, 5, 5, 5, 9]


def test_properties_of_other_engines_are_inherited(store):
    commit(store)
    text = json.loads(snapshot_to_json(store.snapshots.snapshot(1)))
    text |= {"indexManifest": "index-manifest-1", "statistics": "stat-1", "nextRowId": 7}
    LocalFileIO().replace(store.paths.snapshot(1), json.dumps(text).encode())
    made = commit(store)
    assert (made.index_manifest, made.statistics, made.next_row_id) == (
        "index-manifest-1", "stat-1", 7,
    )  # fmt: skip


def _alter(store: FileStore) -> None:
    newer = first_table_schema(Schema.of({"a": "BIGINT"}), time_millis=2)
    data = schema_to_json(newer).replace(b'"id":0', b'"id":1', 1)
    LocalFileIO().write_bytes(store.paths.schema(1), data)


def test_snapshot_names_newest_schema_and_old_statistics_lapse(store):
    commit(store)
    text = snapshot_to_json(store.snapshots.snapshot(1)).replace(b"{", b'{"statistics":"s",', 1)
    LocalFileIO().replace(store.paths.snapshot(1), text)
    _alter(store)
    made = commit(store)
    assert (made.schema_id, made.statistics) == (1, None)


def test_commit_does_not_restore_dropped_table(store, tmp_path):
    LocalFileIO().delete_directory(store.table_path)
    with pytest.raises(errors.NotFoundError, match="dropped"):
        commit(store, message(plain_file()))
    assert not (tmp_path / "table" / "snapshot").exists()


def test_unwritable_table_is_refused_first(tmp_path):
    store = new_store(tmp_path).with_options({"manifest.format": "orc"})
    with pytest.raises(errors.UnsupportedFeatureError):
        commit(store, message(plain_file()))
    assert manifest_files(store) == set()


def test_same_user_and_identifier_commit_once(store):
    first = _commit_as(store, "me", message(plain_file("a")))
    _commit_as(store, "other", message(plain_file("b")))
    assert _commit_as(store, "me", message(plain_file("c"))) == first
    assert live_names(store) == ["a", "b"]
    assert manifest_files(store) == referenced_manifests(store)


def test_write_may_commit_append_and_compact(keyed):
    level_0 = keyed_file(0, 9, file_name="new")
    _commit_as(keyed, "me", message(level_0, total_buckets=2))
    compact = CommitMessage(
        partition=message().partition,
        bucket=0,
        total_buckets=2,
        compact_increment=CompactIncrement(
            compact_before=(level_0,), compact_after=(keyed_file(0, 9, level=5, file_name="up"),)
        ),
    )
    made = _commit_as(keyed, "me", compact, kind=CommitKind.COMPACT)
    assert (made.id, made.delta_record_count) == (2, 0)
    assert live_names(keyed) == ["up"]
    with refused(errors.CommitConflictError, kind="file-gone"):
        _commit_as(keyed, "late", compact, kind=CommitKind.COMPACT)
    assert manifest_files(keyed) == referenced_manifests(keyed)


def test_file_named_by_two_messages_is_refused(store):
    file = plain_file("a")
    with pytest.raises(errors.InvalidInputError, match="named twice"):
        commit(store, message(file), message(file))
    assert manifest_files(store) == set()


class _Rival:
    """Commits to the same table whenever the victim is about to publish."""

    def __init__(self, table: FileStore, times: int) -> None:
        self._store = FileStore.open(LocalFileIO(), table.table_path)
        self.times = times

    def __call__(self, _number: int, method: str, _path: str) -> None:
        if method == "publish" and self.times > 0:
            self.times -= 1
            commit(self._store, message(plain_file(f"rival-{self.times}")))


def _against(table: FileStore, rival: _Rival) -> FileStore:
    return FileStore.open(FaultyFileIO(LocalFileIO(), before=rival), table.table_path)


def test_lost_race_is_retried_and_leaves_no_files(table):
    clock = FixedClock()
    made = _commit_as(
        _against(table, _Rival(table, 3)), "me", message(plain_file("mine")), clock=clock
    )
    assert made.id == 4
    assert live_names(table) == ["rival-2", "rival-1", "rival-0", "mine"]
    assert manifest_files(table) == referenced_manifests(table)
    assert len(clock.waits) == 3
    assert clock.waits == sorted(clock.waits)


def test_lost_race_during_manifest_merge_leaves_no_files(table):
    for _ in range(30):
        commit(table, message(plain_file()))
    _commit_as(_against(table, _Rival(table, 2)), "me", message(plain_file("mine")))
    assert manifest_files(table) == referenced_manifests(table)
    assert len(live_names(table)) == 33


def test_retries_are_bounded(tmp_path):
    table = new_store(tmp_path, Schema.of({"a": "INT"}, options={"commit.max-retries": "4"}))
    clock = FixedClock()
    rival = _Rival(table, 100)
    with refused(errors.CommitConflictError, "5 other commits were faster", kind="commit-retries"):
        _commit_as(_against(table, rival), "me", message(plain_file("mine")), clock=clock)
    assert len(clock.waits) == 4
    assert "mine" not in live_names(table)
    assert manifest_files(table) == referenced_manifests(table)


def test_interleaved_writers_lose_nothing(tmp_path):
    left = new_store(tmp_path)
    right = FileStore.open(LocalFileIO(), left.table_path)
    for number in range(20):
        commit(left, message(plain_file(f"left-{number}")))
        commit(right, message(plain_file(f"right-{number}")))
    assert len(live_names(left)) == 40
    assert newest(left).total_record_count == 400


class _Liar(LocalFileIO):
    """Publishes, and answers that the name is taken, as an SDK that repeats a put by itself."""

    def publish(self, path: str, data: bytes) -> bool:
        super().publish(path, data)
        return False


def test_existing_snapshot_of_own_commit_is_success(table):
    store = FileStore.open(_Liar(), table.table_path)
    assert _commit_as(store, "me", message(plain_file("mine"))).id == 1
    assert live_names(table) == ["mine"]
    assert manifest_files(table) == referenced_manifests(table)


def test_lost_answer_is_looked_up(table):
    file_io = FaultyFileIO(LocalFileIO(), lose_answer_of="snapshot-1")
    made = _commit_as(FileStore.open(file_io, table.table_path), "me", message(plain_file("a")))
    assert file_io.fired
    assert made.id == 1
    assert live_names(table) == ["a"]


class _Silent(LocalFileIO):
    """Loses the request or, if `also_looks`, everything after it."""

    def __init__(self, *, done: bool, also_looks: bool) -> None:
        self._done, self._also_looks = done, also_looks
        self.is_dark = False

    def publish(self, path: str, data: bytes) -> bool:
        if self._done:
            super().publish(path, data)
        self.is_dark = self._also_looks
        raise errors.CommitUnknownError("timeout")

    def read_bytes(self, path: str) -> bytes:
        if self.is_dark:
            raise errors.StorageError("timeout")
        return super().read_bytes(path)

    def delete_file(self, path: str) -> None:
        raise AssertionError(f"an unknown outcome deletes nothing: {path}")


@pytest.mark.parametrize(("done", "also_looks"), [(False, False), (False, True), (True, True)])
def test_unknown_outcome_deletes_nothing_until_rerun(table, done, also_looks):
    dark = FileStore.open(_Silent(done=done, also_looks=also_looks), table.table_path)
    with pytest.raises(errors.CommitUnknownError, match="Nothing was deleted") as caught:
        _commit_as(dark, "me", message(plain_file("mine")))
    assert caught.value.details["commit_user"] == "me"
    assert len(manifest_files(table)) == 3
    assert _commit_as(table, "me", message(plain_file("mine"))).id == 1
    assert live_names(table) == ["mine"]


@pytest.mark.parametrize("done", [False, True])
def test_publish_without_answer_is_retried(table, done):
    class _Stuttering(LocalFileIO):
        """Loses two answers in a row, and refuses reads in between."""

        lost = 0
        is_dark = False

        def publish(self, path: str, data: bytes) -> bool:
            self.is_dark = self.lost < 2
            if not self.is_dark:
                return super().publish(path, data)
            self.lost += 1
            if done:
                super().publish(path, data)
            raise errors.CommitUnknownError("timeout")

        def read_bytes(self, path: str) -> bytes:
            if self.is_dark:
                raise errors.StorageError("timeout")
            return super().read_bytes(path)

    file_io = _Stuttering()
    made = _commit_as(FileStore.open(file_io, table.table_path), "me", message(plain_file("a")))
    assert (file_io.lost, made.id) == (2, 1)
    assert live_names(table) == ["a"]
    assert manifest_files(table) == referenced_manifests(table)


def test_unknown_outcome_of_taken_name_is_lost_race(table):
    class _Late(LocalFileIO):
        def publish(self, path: str, data: bytes) -> bool:
            if path.endswith("snapshot-1"):
                commit(table, message(plain_file("rival")))
                raise errors.CommitUnknownError("timeout")
            return super().publish(path, data)

    made = _commit_as(FileStore.open(_Late(), table.table_path), "me", message(plain_file("mine")))
    assert made.id == 2
    assert live_names(table) == ["rival", "mine"]
    assert manifest_files(table) == referenced_manifests(table)


def test_failed_hint_keeps_commit(table):
    commit(table)
    file_io = FaultyFileIO(
        LocalFileIO(), before=lambda _n, method, _p: _fail_if(method == "write_hint")
    )
    made = _commit_as(FileStore.open(file_io, table.table_path), "me", message(plain_file("a")))
    assert made.id == 2
    assert table.snapshots.latest() == made


def _fail_if(condition: bool) -> None:
    if condition:
        raise errors.StorageError("injected")


@pytest.mark.parametrize("fault", list(Fault))
@pytest.mark.parametrize("commits_before", [0, 1, 30], ids=["first", "second", "merging"])
def test_any_failed_call_keeps_previous_snapshot(tmp_path, fault, commits_before):
    for call in range(200):
        table = new_store(tmp_path / f"{fault}-{call}")
        for _ in range(commits_before):
            commit(table, message(plain_file()))
        before = live_names(table)
        file_io = FaultyFileIO(LocalFileIO(), faults={call: fault})
        try:
            store = FileStore.open(file_io, table.table_path)
            _commit_as(store, "me", message(plain_file("mine")))
        except (errors.StorageError, errors.CommitUnknownError):
            assert live_names(table) in (before, [*before, "mine"])
        else:
            assert live_names(table) == [*before, "mine"]
        made = _commit_as(table, "me", message(plain_file("mine")))
        assert live_names(table) == [*before, "mine"]
        assert made.total_record_count == 10 * (commits_before + 1)
        if not file_io.fired:
            assert call > 8
            return
    raise AssertionError("the commit never ended")


def test_failure_leaves_no_manifest_behind(tmp_path):
    for call in range(200):
        table = new_store(tmp_path / str(call))
        commit(table, message(plain_file()))
        store = FileStore.open(LocalFileIO(), table.table_path)
        file_io = FaultyFileIO(LocalFileIO(), faults={call: Fault.TEAR})
        try:
            _commit_as(
                FileStore(file_io=file_io, table_path=store.table_path, schema=store.schema),
                "me",
                message(plain_file("mine")),
            )
        except (errors.StorageError, errors.CommitUnknownError):  # of the look back
            assert manifest_files(table) == referenced_manifests(table)
        if not file_io.fired:
            return
    raise AssertionError("the commit never ended")


def test_foreign_snapshot_is_extended(store):
    commit(store, message(plain_file("a")))
    first = store.snapshots.snapshot(1)
    foreign = snapshot(
        id=1,
        base_manifest_list=first.base_manifest_list,
        delta_manifest_list=first.delta_manifest_list,
        version=1,
    )
    LocalFileIO().replace(store.paths.snapshot(1), snapshot_to_json(foreign))
    made = commit(store, message(plain_file("b")))
    assert (made.version, made.next_row_id, made.total_record_count) == (3, 0, 20)
    assert live_names(store) == ["a", "b"]


def test_abort_deletes_files_of_messages_only(tmp_path):
    store = new_store(tmp_path, APPEND)
    bucket = tmp_path / "table" / "bucket-0"
    bucket.mkdir(parents=True)
    elsewhere = tmp_path / "elsewhere"
    for path in (bucket / "mine", bucket / "mine.index", bucket / "other", bucket / "moved"):
        path.write_bytes(b"")
    elsewhere.write_bytes(b"")
    (bucket / "external").write_bytes(b"")
    compact = CommitMessage(
        partition=message().partition,
        bucket=0,
        total_buckets=-1,
        compact_increment=CompactIncrement(
            compact_before=(plain_file("moved"),),
            compact_after=(plain_file("moved", level=5), plain_file("was never written")),
        ),
    )
    written = message(
        plain_file("mine", extra_files=("mine.index",)),
        plain_file("external", external_path=f"file:{elsewhere}"),
    )
    assert abort(store, [written, compact]) == 3
    assert {path.name for path in bucket.iterdir()} == {"other", "moved", "external"}
    assert elsewhere.exists()


def test_endless_turn_of_thread_blocks_no_commit(store, monkeypatch):
    monkeypatch.setattr(file_store_commit, "_LONGEST_TURN_SECONDS", 0.01)
    with ThreadPoolExecutor(1) as thread, file_store_commit._turn(store):
        commit(store, message(plain_file("a")))  # inside of its own thread's turn
        thread.submit(commit, store, message(plain_file("b"))).result()
    assert live_names(store) == ["a", "b"]


def test_threads_commit_each_once(store):
    opened = [FileStore.open(store.file_io, store.table_path) for _ in range(6)]
    with ThreadPoolExecutor(6) as pool:
        for number in range(5):
            names = [f"{number}-{each}" for each in range(6)]
            list(pool.map(commit, opened, map(message, map(plain_file, names))))
    assert newest(store).id == 30
    assert sorted(live_names(store)) == sorted(f"{a}-{b}" for a in range(5) for b in range(6))
