"""Which snapshots are read to know that a commit did not happen."""

import copy
import itertools

import pytest
from msgspec.structs import replace

from paimon_assets import FormatError, InvalidInputError, NotFoundError, StorageError, add_column
from paimon_assets.engine.codec.json.metadata_json import snapshot_to_json
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.maintenance.references import existing_snapshots
from paimon_assets.engine.control.managers.commit_history import CommitHistory, NewUser, RecentUser
from paimon_assets.engine.control.managers.snapshot_manager import SnapshotManager
from paimon_assets.engine.fileio.base import FileStatus
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.metadata.snapshot import (
    BATCH_COMMIT_IDENTIFIER,
    BUILT_ON_PROPERTY,
    CommitKind,
    Snapshot,
)
from paimon_assets.engine.spec.paths import TablePaths
from tests.testkit.builders import snapshot
from tests.testkit.errors import refused
from tests.testkit.faulty_fileio import FaultyFileIO
from tests.testkit.metadata_tables import commit, message, new_store, plain_file


class _Table:
    """A directory of snapshots and hints."""

    def __init__(self, tmp_path) -> None:
        self.file_io = FaultyFileIO(LocalFileIO())
        self.paths = TablePaths(table=str(tmp_path))
        self.manager = SnapshotManager(self.file_io, self.paths)

    def add(self, *ids: int, **changes) -> None:
        for number in ids:
            made = snapshot(
                id=number,
                **{
                    "delta_manifest_list": f"manifest-list-{number}-{len(self.file_io.calls)}",
                    "time_millis": number * 1000,
                    "commit_user": f"user-{number}",
                    **changes,
                },
            )
            LocalFileIO().replace(self.paths.snapshot(number), snapshot_to_json(made))

    def hint(self, name: str, text: bytes) -> None:
        LocalFileIO().replace(f"{self.paths.snapshot_directory}/{name}", text)


@pytest.fixture
def table(tmp_path):
    return _Table(tmp_path)


def test_table_without_snapshots_has_no_latest_and_no_earliest(table):
    assert table.manager.latest() is None
    assert table.manager.latest_id() is None
    assert table.manager.earliest_id() is None
    assert table.manager.at_timestamp(1) is None
    assert table.manager.find_commit("user", BATCH_COMMIT_IDENTIFIER) is None


def test_correct_hints_avoid_listings(table):
    table.add(3, 4, 5)
    table.hint("LATEST", b"5")
    table.hint("EARLIEST", b"3")
    assert table.manager.latest_id() == 5
    assert table.manager.earliest_id() == 3
    assert table.file_io.count("list_directory") == 0
    assert len(table.file_io.calls) <= 5


@pytest.mark.parametrize(
    "hint", [b"3", b"4", b"99", b"1", b"0", b"-5", b"", b"junk", b"5\n", b"\xff\xfe", None]
)
def test_invalid_hint_never_hides_latest(table, hint):
    table.add(3, 4, 5)
    if hint is not None:
        table.hint("LATEST", hint)
    assert table.manager.latest_id() == 5


def test_old_hint_costs_one_listing(table):
    table.add(*range(1, 40))
    table.hint("LATEST", b"2")
    assert table.manager.latest_id() == 39
    assert table.file_io.count("list_directory") == 1


def test_late_hint_is_not_walked_to_snapshot_that_was_seen(table):
    table.add(*range(1, 6))
    assert table.manager.latest_id() == 5
    table.hint("LATEST", b"2")
    before = len(table.file_io.calls)
    assert table.manager.latest_id() == 5
    assert len(table.file_io.calls) - before == 3  # the hint, snapshot 5, and none behind it


@pytest.mark.parametrize("hint", [b"1", b"9", b"", b"junk", None])
def test_wrong_earliest_hint_is_ignored(table, hint):
    table.add(3, 4, 5)
    if hint is not None:
        table.hint("EARLIEST", hint)
    assert table.manager.earliest_id() == 3


def test_other_files_are_not_snapshots(table):
    table.add(1)
    for name in (".snapshot-2.x.tmp", "snapshot-x", "snapshot-", "other-7"):
        table.hint(name, b"")
    assert table.manager.list_ids() == [1]


def test_missing_snapshot_names_available_range(table):
    table.add(3, 4)
    with refused(NotFoundError, r"Snapshot 2 .*snapshots 3 to 4", kind="snapshot-not-found"):
        table.manager.snapshot(2)


def test_damaged_snapshot_is_format_error_that_names_file(table):
    table.hint("snapshot-1", b"{")
    with pytest.raises(FormatError, match="snapshot-1"):
        table.manager.latest()


def test_time_finds_newest_snapshot_before_it(table):
    table.add(*range(3, 30))
    table.hint("LATEST", b"29")
    for number in range(3, 30):
        for millis in (number * 1000, number * 1000 + 999):
            found = table.manager.at_timestamp(millis)
            assert found is not None
            assert found.id == number
    assert table.manager.at_timestamp(2999) is None
    assert table.manager.at_timestamp(10**15) == table.manager.snapshot(29)


def test_time_is_found_across_clock_steps(table):
    times = [100, 200, 50, 300, 250, 400, 120, 500]
    for number, millis in enumerate(times, start=1):
        table.add(number, time_millis=millis)
    for millis in range(0, 600, 10):
        before = [number for number, time in enumerate(times, start=1) if time <= millis]
        found = table.manager.at_timestamp(millis)
        assert (found.id if found else None) == max(before, default=None)


@pytest.mark.parametrize("name", ["snapshot-007", "snapshot-٣", "snapshot-²", "snapshot--1"])
def test_numeric_looking_name_is_no_snapshot(table, name):
    table.add(1, 2)
    table.hint(name, b"{}")
    assert table.manager.list_ids() == [1, 2]
    assert table.manager.latest_id() == 2


def test_storage_that_lists_missing_files_ends_in_error(table):
    class Ghosts(LocalFileIO):
        def list_directory(self, path):
            ghost = FileStatus(path=f"{path}/snapshot-9", size=1, is_directory=False, modified_ms=1)
            return [*super().list_directory(path), ghost]

    table.add(1)
    with pytest.raises(StorageError, match="lists snapshot 9"):
        SnapshotManager(Ghosts(), table.paths).latest()


@pytest.mark.parametrize("error", [StorageError("denied"), PermissionError("denied")])
@pytest.mark.parametrize("name", ["LATEST", "EARLIEST"])
def test_hint_that_cannot_be_read_falls_back_to_listing(table, name, error):
    class Denied(LocalFileIO):
        def read_bytes(self, path):
            if path.endswith(name):
                raise error
            return super().read_bytes(path)

    table.add(3, 4)
    table.hint(name, b"4")
    manager = SnapshotManager(Denied(), table.paths)
    assert (manager.earliest_id(), manager.latest_id()) == (3, 4)


def test_huge_hint_is_ignored(table):
    table.add(3, 4)
    table.hint("LATEST", b"4" * 5000)
    assert table.manager.latest_id() == 4


def test_commits_of_user_read_each_snapshot_once(table):
    table.add(*range(1, 21), commit_user="other")
    table.add(7, commit_user="me", commit_identifier=1)
    table.add(9, commit_user="me", commit_identifier=2, commit_kind=CommitKind.COMPACT)
    assert table.manager.find_commit("me", 2).id == 9
    assert table.manager.find_commit("me", 1).id == 7
    assert table.manager.find_commit("me", 2, [CommitKind.APPEND]) is None
    assert table.manager.find_commit("me", 3) is None
    before = table.file_io.count("read_bytes")
    table.add(21, commit_user="me", commit_identifier=3)
    assert table.manager.find_commit("me", 3).id == 21
    assert table.file_io.count("read_bytes") - before <= 5


def test_history_ends_at_first_expired_snapshot(table):
    table.add(50, 51, 52)
    assert table.manager.find_commit("user-50", BATCH_COMMIT_IDENTIFIER).id == 50
    assert table.manager.find_commit("user-49", BATCH_COMMIT_IDENTIFIER) is None
    assert table.file_io.count("read_bytes") < 80


def test_rollback_invalidates_cached_history(table):
    table.add(1, 2, 3, commit_user="me")
    assert table.manager.find_commit("me", BATCH_COMMIT_IDENTIFIER).id == 3
    for number in (2, 3):
        LocalFileIO().delete_file(table.paths.snapshot(number))
    table.file_io.exists("x")  # so that the new list has another name
    table.add(2, 3, commit_user="other")
    assert table.manager.find_commit("me", BATCH_COMMIT_IDENTIFIER).id == 1
    table.add(1, commit_user="other")
    LocalFileIO().delete_file(table.paths.snapshot(3))
    LocalFileIO().delete_file(table.paths.snapshot(2))
    table.file_io.exists("x")
    table.add(2, commit_user="other")
    assert table.manager.find_commit("me", BATCH_COMMIT_IDENTIFIER) is None


def test_recreation_invalidates_cached_history(store, tmp_path):
    commit(store, message(plain_file()), user="me")
    LocalFileIO().delete_directory(store.table_path)
    again = new_store(tmp_path)
    commit(again, message(plain_file()), user="other")
    assert again.snapshots.find_commit("me", 1) is None
    commit(again, message(plain_file()), user="me")
    opened = FileStore.open(LocalFileIO(), store.table_path)
    assert opened.snapshots.find_commit("me", 1) == again.snapshots.snapshot(2)


def test_properties_copied_by_java_keep_history(table):
    """Java's compaction of manifests copies the properties of the snapshot before."""
    table.add(1, delta_manifest_list="one")
    for number in (2, 3, 4):
        table.add(number, delta_manifest_list=f"{number}", properties={BUILT_ON_PROPERTY: "one"})
        assert table.manager.break_at(table.manager.snapshot(number)) is None
    table.add(4, delta_manifest_list="4", properties={BUILT_ON_PROPERTY: "gone"})
    assert table.manager.break_at(table.manager.snapshot(4)) == (3, 4)


class _Overtaken(LocalFileIO):
    """Lists files before and after a call, as pages of a listing do."""

    def __init__(self, *calls):
        self._calls = list(calls)

    def list_directory(self, path):
        first = super().list_directory(path)
        if path.endswith("/snapshot") and self._calls:
            self._calls.pop(0)()
        return [status for status in first if self.exists(status.path)]


def _next_one(table, number):
    def commit_and_expire():
        table.add(number)
        LocalFileIO().delete_file(table.paths.snapshot(number - 1))

    return commit_and_expire


def test_overtaken_listing_shows_no_empty_table(tmp_path):
    """The only snapshot expires after the next one was made; a listing may have neither."""
    table = _Table(tmp_path)
    table.hint("LATEST", b"1")  # its writer died before it wrote a newer one
    table.add(20)
    commits = [_next_one(table, number) for number in (21, 22, 23)]
    assert SnapshotManager(_Overtaken(*commits), table.paths).latest_id() == 23


def test_files_of_branch_are_no_overtaken_listing(store):
    commit(store, message(plain_file("a")))

    def commit_and_expire():
        made = commit(store, message(plain_file("b")))
        LocalFileIO().delete_file(store.paths.snapshot(made.id - 1))

    overtaken = _Overtaken(*[commit_and_expire] * 3)
    late = FileStore(file_io=overtaken, table_path=store.table_path, schema=store.schema)
    assert [found.id for found in existing_snapshots(late)] == [4]


def test_no_commit_follows_highest_number(store):
    commit(store, message(plain_file("a")))
    highest = 2**63 - 1
    first = LocalFileIO().read_bytes(store.paths.snapshot(1))
    last = first.replace(b'"id":1,', b'"id":%d,' % highest)
    LocalFileIO().delete_file(store.paths.snapshot(1))
    LocalFileIO().publish(store.paths.snapshot(highest), last)
    LocalFileIO().replace(f"{store.paths.snapshot_directory}/LATEST", b"%d" % highest)
    LocalFileIO().publish(f"{store.paths.snapshot_directory}/snapshot-{highest + 1}", last)
    for _ in range(2):
        assert store.snapshots.latest_id() == highest
        with refused(InvalidInputError, kind="number-highest"):
            commit(store, message(plain_file("b")))
        LocalFileIO().delete_file(f"{store.paths.snapshot_directory}/LATEST")
    assert store.snapshots.list_ids() == [highest]


def test_no_schema_follows_highest_number(store):
    path, highest = store.paths.schema(0), 2**63 - 1
    data = LocalFileIO().read_bytes(path).replace(b'"id":0,', b'"id":%d,' % highest, 1)
    data = data.replace(b'"version":3,"id":0', b'"version":3,"id":%d' % highest)
    LocalFileIO().publish(store.paths.schema(highest), data)
    with refused(InvalidInputError, kind="number-highest"):
        store.schemas.commit_changes([add_column("x", "INT")], time_millis=0)


def test_new_user_reads_only_later_snapshots(table):
    table.add(*range(1, 40))
    user = NewUser()
    assert table.manager.find_commit(user, 7) is None
    assert len([path for call, path in table.file_io.calls if call == "read_bytes"]) <= 2
    table.add(40, commit_user=str(user), commit_identifier=7)
    table.add(41)
    before = len(table.file_io.calls)
    assert table.manager.find_commit(user, 7).id == 40
    assert table.manager.find_commit(user, 8) is None
    assert len(table.file_io.calls) - before < 20


def test_new_user_is_found_above_leftovers_of_rollback(table):
    table.add(*range(1, 10))
    user = NewUser()
    assert table.manager.find_commit(user, 7) is None
    table.manager.delete_after(3)
    table.add(4, commit_user=str(user), commit_identifier=7)
    table.add(*range(5, 12))
    assert table.manager.find_commit(user, 7).id == 4


def test_new_user_of_empty_table_is_found(table):
    user = NewUser()
    assert table.manager.find_commit(user, 7) is None
    table.add(1, commit_user=str(user), commit_identifier=7)
    table.add(2)
    assert table.manager.find_commit(user, 7).id == 1
    assert copy.copy(user) == user
    assert type(copy.copy(user)) is str


KINDS = frozenset(CommitKind)
_NUMBERS = itertools.count()


def by_user(number: int, user: str = "other") -> Snapshot:
    return snapshot(
        id=number,
        delta_manifest_list=f"delta-{number}",
        commit_user=user,
        commit_identifier=1,
        time_millis=number * 1000,
    )


@pytest.fixture
def history():
    snapshots = {number: by_user(number) for number in range(1, 1001)}
    snapshots[500] = replace(snapshots[500], commit_user="old")
    snapshots[990] = replace(snapshots[990], commit_user="run")
    read = []

    def read_one(number):
        read.append(number)
        return snapshots.get(number)

    return CommitHistory(("memory", str(next(_NUMBERS))), read_one), snapshots, read


def test_recent_user_needs_no_older_snapshots(history):
    commits, snapshots, read = history
    user = RecentUser("run", since_ms=980_000)
    assert commits.find(snapshots[1000], user, 1, KINDS) == snapshots[990]
    assert commits.find(snapshots[1000], RecentUser("x", since_ms=980_000), 1, KINDS) is None
    assert min(read) > 980 - 32


def test_older_user_is_found_after_recent_one(history):
    commits, snapshots, _ = history
    assert commits.find(snapshots[1000], RecentUser("run", 980_000), 1, KINDS) == snapshots[990]
    assert commits.find(snapshots[1000], "old", 1, KINDS) == snapshots[500]
    assert commits.find(snapshots[1000], RecentUser("old", 400_000), 1, KINDS) == snapshots[500]
