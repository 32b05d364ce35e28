import datetime as dt
import itertools
import json
import os
from contextlib import suppress

import pytest

from paimon_assets.engine import errors
from paimon_assets.engine.codec.json.metadata_json import snapshot_to_json, tag_from_json
from paimon_assets.engine.control.clock import SystemClock
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.maintenance.expire_snapshots import Retention, expire_snapshots
from paimon_assets.engine.control.maintenance.tag_files import expire_tags
from paimon_assets.engine.control.managers.tag_manager import ConsumerManager, TagManager
from paimon_assets.engine.control.rollback import rollback_to_snapshot, rollback_to_tag
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.evolution.schema_change import AddColumn
from paimon_assets.engine.spec.paths import TablePaths
from paimon_assets.engine.spec.types.data_types import bigint
from tests.testkit import metadata_tables as kit
from tests.testkit.errors import refused
from tests.testkit.faulty_fileio import Fault, FaultyFileIO


@pytest.fixture
def store_of_three(tmp_path):
    made = kit.new_store(tmp_path)
    for _ in range(3):
        kit.commit(made, kit.message(kit.plain_file()))
    return made


@pytest.fixture
def tags(store_of_three):
    return TagManager(store_of_three.file_io, store_of_three.paths, clock=kit.FixedClock())


def test_tag_is_json_of_its_snapshot(store_of_three, tags):
    tags.create("v1", store_of_three.snapshots.snapshot(1))
    snapshot = LocalFileIO().read_bytes(store_of_three.paths.snapshot(1))
    assert LocalFileIO().read_bytes(store_of_three.paths.tag("v1")) == snapshot
    assert tags.get("v1").snapshot == store_of_three.snapshots.snapshot(1)


def test_expiring_tag_has_creation_time(store_of_three, tags):
    kept = dt.timedelta(days=1, hours=12, milliseconds=5)
    made = tags.create("v2", store_of_three.snapshots.snapshot(2), time_retained=kept)
    members = json.loads(LocalFileIO().read_bytes(store_of_three.paths.tag("v2")))
    at = dt.datetime.fromtimestamp(1_700_000_000, dt.UTC).astimezone()
    assert members["tagCreateTime"] == [at.year, at.month, at.day, at.hour, at.minute, at.second, 0]
    assert members["tagTimeRetained"] == 129600.005
    assert tags.get("v2") == made
    assert made.time_retained == kept


def test_java_leaves_out_seconds_that_are_zero(store_of_three):
    data = LocalFileIO().read_bytes(store_of_three.paths.snapshot(1))[:-1]
    text = data + b',"tagCreateTime":[2024,1,31,12,5],"tagTimeRetained":129600.005000000}'
    tag = tag_from_json("t", text, "tag-t")
    assert tag.create_time == dt.datetime(2024, 1, 31, 12, 5)
    assert tag.time_retained == dt.timedelta(hours=36, milliseconds=5)
    for damage in (b'"tagCreateTime":[2024]', b'"tagTimeRetained":"x"', b'"tagCreateTime":"?"'):
        with pytest.raises(errors.FormatError, match="tag-t: the tag's times are damaged"):
            tag_from_json("t", data + b"," + damage + b"}", "tag-t")


def test_tag_name_is_unique_unless_replaced(store_of_three, tags):
    first, second = store_of_three.snapshots.snapshot(1), store_of_three.snapshots.snapshot(2)
    tags.create("v", first)
    with pytest.raises(errors.AlreadyExistsError, match="tag 'v' already"):
        tags.create("v", second)
    assert tags.create("v", second, ignore_if_exists=True).snapshot == first
    assert tags.replace("v", second).snapshot == second
    with pytest.raises(errors.NotFoundError, match="no tag 'w'"):
        tags.replace("w", second)


def test_second_tag_of_killed_replacement_expires(store_of_three, tags):
    tags.create("v", store_of_three.snapshots.snapshot(1))

    def die(_, method, path):
        if died or (method == "replace" and path == store_of_three.paths.tag("v")):
            died.append(method)
            raise KeyboardInterrupt

    died = []
    dying = TagManager(FaultyFileIO(LocalFileIO(), before=die), store_of_three.paths)
    with pytest.raises(KeyboardInterrupt):
        dying.replace("v", store_of_three.snapshots.snapshot(2))
    assert [tag.snapshot.id for tag in tags.list()] == [1, 2]
    later = kit.FixedClock(SystemClock().now_millis() + 3 * 86_400_000)
    assert [each.tag.snapshot.id for each in expire_tags(store_of_three, clock=later)] == [2]
    assert [tag.name for tag in tags.list()] == ["v"]


def test_tags_are_listed_renamed_and_deleted(store_of_three, tags):
    for number in (1, 2):
        tags.create(f"v{number}", store_of_three.snapshots.snapshot(number))
    tags.rename("v1", "first")
    assert [tag.name for tag in tags.list()] == ["first", "v2"]
    with pytest.raises(errors.AlreadyExistsError):
        tags.rename("first", "v2")
    with pytest.raises(errors.NotFoundError):
        tags.rename("v1", "other")
    assert tags.delete("first").snapshot.id == 1

    with pytest.raises(errors.NotFoundError):
        tags.delete("first")
    assert [tag.name for tag in tags.list()] == ["v2"]


def test_foreign_tag_is_listed(store_of_three, tags):
    tags.create("v1", store_of_three.snapshots.snapshot(1))
    untagged = tags.list()[0].snapshot
    for name in ("a$b", " blank", "zwei\n"):
        LocalFileIO().write_bytes(store_of_three.paths.tag(name), snapshot_to_json(untagged))
    assert {tag.name for tag in tags.list()} == {"a$b", " blank", "zwei\n", "v1"}
    assert tags.get("a$b").snapshot == untagged
    LocalFileIO().make_directory(store_of_three.paths.of_branch("b$c").schema_directory)
    LocalFileIO().write_bytes(
        store_of_three.paths.of_branch("b$c").schema(0),
        LocalFileIO().read_bytes(store_of_three.paths.schema(0)),
    )
    expire_snapshots(
        store_of_three, retention=Retention(min_count=1, max_count=1, time_ms=0, limit=9)
    )
    assert store_of_three.snapshots.list_ids() == [3]
    assert set(rollback_to_snapshot(store_of_three, 3).tags) == set()
    tags.delete("a$b")
    assert "a$b" not in {tag.name for tag in tags.list()}
    with pytest.raises(errors.InvalidInputError, match="no name of a tag"):
        tags.get("../x")


@pytest.mark.parametrize("name", ["", " x", "a/b", "a\\b", "a$b", "a\nb"])
def test_name_is_one_part_of_path(store_of_three, tags, name):
    with pytest.raises(errors.InvalidInputError, match="no name of a tag"):
        tags.create(name, store_of_three.snapshots.snapshot(1))


ADD_C = AddColumn(field_names=("c",), data_type=bigint())


@pytest.fixture
def tagged_store(tmp_path):
    made = kit.new_store(tmp_path)
    for name in ("one", "two"):
        kit.commit(made, kit.message(kit.plain_file(name)))
    made.tags.create("v1", made.snapshots.snapshot(1))
    return made


def on_branch(tagged_store, name):
    return FileStore.open(tagged_store.file_io, tagged_store.table_path).with_options(
        {"branch": name}
    )


def reopen(tagged_store):
    return FileStore.open(tagged_store.file_io, tagged_store.table_path)


def test_empty_branch_has_all_schemas_and_no_snapshot(tagged_store):
    tagged_store.schemas.commit_changes([ADD_C], time_millis=2)
    tagged_store.branches.create("b")
    branch = on_branch(tagged_store, "b")
    assert branch.schema.field_names == ("a", "b", "c")
    assert branch.snapshots.latest() is None
    assert list(tagged_store.branches.list()) == ["b"]


def test_branch_starts_at_tag_or_snapshot(tagged_store):
    tagged_store.schemas.commit_changes([ADD_C], time_millis=2)
    tagged_store.branches.create("t", tag="v1")
    tagged_store.branches.create("s", snapshot_id=2)
    assert kit.live_names(on_branch(tagged_store, "t")) == ["one"]
    assert on_branch(tagged_store, "t").schema.field_names == ("a", "b")
    assert [tag.name for tag in on_branch(tagged_store, "t").tags.list()] == ["v1"]
    assert kit.live_names(on_branch(tagged_store, "s")) == ["one", "two"]


def test_branch_and_main_are_written_separately(tagged_store):
    tagged_store.branches.create("b", tag="v1")
    branch = on_branch(tagged_store, "b")
    assert kit.commit(branch, kit.message(kit.plain_file("three"))).id == 2
    assert kit.live_names(branch) == ["one", "three"]
    assert kit.live_names(tagged_store) == ["one", "two"]
    assert branch.label == f"{tagged_store.label}$branch_b"


def test_fast_forward_replaces_main(tagged_store):
    tagged_store.tags.create("v2", tagged_store.snapshots.snapshot(2))
    tagged_store.schemas.commit_changes(
        [AddColumn(field_names=("main_only",), data_type=bigint())], time_millis=2
    )
    tagged_store.branches.create("b", tag="v1")
    branch = on_branch(tagged_store, "b")
    branch.schemas.commit_changes(
        [AddColumn(field_names=("theirs",), data_type=bigint())], time_millis=3
    )
    kit.commit(on_branch(tagged_store, "b"), kit.message(kit.plain_file("three")))
    assert tagged_store.branches.fast_forward("b").id == 2
    assert kit.live_names(reopen(tagged_store)) == ["one", "three"]
    assert [tag.name for tag in tagged_store.tags.list()] == ["v1"]
    assert reopen(tagged_store).schema.field_names == ("a", "b", "theirs")
    assert LocalFileIO().read_bytes(f"{tagged_store.paths.snapshot_directory}/LATEST") == b"2"
    assert tagged_store.branches.fast_forward("b").id == 2


def test_unrelated_branch_replaces_main(tagged_store):
    tagged_store.branches.create("b")
    kit.commit(on_branch(tagged_store, "b"), kit.message(kit.plain_file("other")))
    assert tagged_store.branches.fast_forward("b").id == 1
    assert kit.live_names(reopen(tagged_store)) == ["other"]


@pytest.mark.parametrize("fault", [Fault.FAIL, Fault.LOSE_ANSWER])
def test_crashed_fast_forward_is_finished_by_next(tmp_path, fault):
    states = [["one"], ["one", "two"], ["one", "two", "three"], ["one", "new"]]
    for call in itertools.count():
        tagged = kit.new_store(tmp_path / str(call))
        for name in ("one", "two", "three"):
            kit.commit(tagged, kit.message(kit.plain_file(name)))
        tagged.tags.create("v1", tagged.snapshots.snapshot(1))
        tagged.branches.create("b", tag="v1")
        kit.commit(on_branch(tagged, "b"), kit.message(kit.plain_file("new")))
        calls = FaultyFileIO(LocalFileIO(), faults={call: fault})
        with suppress(errors.PaimonError):
            FileStore.open(calls, tagged.table_path).branches.fast_forward("b")
        assert kit.live_names(reopen(tagged)) in states
        reopen(tagged).branches.fast_forward("b")
        assert kit.live_names(reopen(tagged)) == ["one", "new"]
        if not calls.fired:
            break


@pytest.mark.way_out("branch-overtaken")
def test_promotion_between_rollbacks_is_tried_again(tagged_store):
    tagged_store.branches.create("b", tag="v1")
    kit.commit(on_branch(tagged_store, "b"), kit.message(kit.plain_file("three")))
    copy = tagged_store.paths.snapshot(2)

    def undo(_, method, path):
        if (method, path) == ("read_bytes", copy) and kit.live_names(tagged_store)[1:] == ["three"]:
            rollback_to_snapshot(reopen(tagged_store), 1)

    busy = FileStore.open(FaultyFileIO(LocalFileIO(), before=undo), tagged_store.table_path)
    with refused(errors.CommitConflictError, "; try again", kind="branch-overtaken"):
        busy.branches.fast_forward("b")
    tagged_store.branches.fast_forward("b")
    assert kit.live_names(reopen(tagged_store)) == ["one", "three"]


def _ahead(directory):
    """Return a table and its branch, which has two commits more."""
    main = kit.new_store(directory)
    kit.commit(main, kit.message(kit.plain_file("one")))
    main.tags.create("v1", main.snapshots.snapshot(1))
    main.branches.create("b", tag="v1")
    side = on_branch(main, "b")
    for name in ("two", "three"):
        kit.commit(side, kit.message(kit.plain_file(name)))
    return main


def test_no_commit_beside_promotion_is_undone(tmp_path):
    """Beside each storage call of it: the commit is built on the branch, or that is refused."""
    ends = set()
    for number in itertools.count():
        main = _ahead(tmp_path / str(number))

        def commit(call, *_, main=main, number=number):
            if call == number:
                kit.commit(reopen(main), kit.message(kit.plain_file("late")))

        calls = FaultyFileIO(LocalFileIO(), before=commit)
        branches = FileStore.open(calls, main.table_path).branches
        started = len(calls.calls)
        try:
            branches.fast_forward("b", keeps_main=True)
            end = "promoted"
            assert {"one", "two", "three"} <= set(kit.live_names(reopen(main)))
        except errors.CommitConflictError:
            end = "refused"
        if len(calls.calls) <= number:
            break
        assert "late" in kit.live_names(reopen(main))
        ids = reopen(main).snapshots.list_ids()
        assert ids == [*range(1, ids[-1] + 1)]
        ends |= {end} if started <= number else set()
    assert ends == {"promoted", "refused"}


@pytest.mark.parametrize("fault", [Fault.FAIL, Fault.LOSE_ANSWER])
def test_killed_promotion_is_finished_by_next(tmp_path, fault):
    for call in itertools.count():
        main = _ahead(tmp_path / str(call))
        calls = FaultyFileIO(LocalFileIO(), faults={call: fault})
        with suppress(errors.PaimonError):
            FileStore.open(calls, main.table_path).branches.fast_forward("b", keeps_main=True)
        assert reopen(main).branches.fast_forward("b", keeps_main=True).id == 3
        assert kit.live_names(reopen(main)) == ["one", "two", "three"]
        if not calls.fired:
            break


@pytest.mark.way_out("branch-behind")
def test_branch_whose_first_snapshots_expired_is_not_promoted(tmp_path):
    main = _ahead(tmp_path)
    retention = Retention(min_count=1, max_count=1, time_ms=0, limit=10)
    expire_snapshots(on_branch(main, "b"), retention=retention)
    message = "snapshot 1, and the branch's next ones"
    with refused(errors.CommitConflictError, message, kind="branch-behind"):
        main.branches.fast_forward("b", keeps_main=True)
    assert kit.live_names(reopen(main)) == ["one"]
    main.branches.delete("b")
    main.branches.create("b", tag="v1")
    kit.commit(on_branch(main, "b"), kit.message(kit.plain_file("two")))
    main.branches.fast_forward("b", keeps_main=True)
    assert kit.live_names(reopen(main)) == ["one", "two"]


def test_names_and_sources_are_checked(tagged_store):
    tagged_store.branches.create("b")
    tagged_store.branches.create("b", ignore_if_exists=True)
    with pytest.raises(errors.AlreadyExistsError, match="branch 'b' already"):
        tagged_store.branches.create("b")
    for name in ("main", "12", "", "a/b", "x$y"):
        with pytest.raises(errors.InvalidInputError):
            tagged_store.branches.create(name)
    with pytest.raises(errors.InvalidInputError, match="not with both"):
        tagged_store.branches.create("c", tag="v1", snapshot_id=1)
    with pytest.raises(errors.NotFoundError, match="no tag 'v9'"):
        tagged_store.branches.create("c", tag="v9")
    with pytest.raises(errors.NotFoundError, match="Snapshot 9 "):
        tagged_store.branches.create("c", snapshot_id=9)
    with pytest.raises(errors.NotFoundError, match="no branch 'c'"):
        tagged_store.branches.fast_forward("c")
    with pytest.raises(errors.InvalidInputError, match="no snapshot yet"):
        tagged_store.branches.fast_forward("b")
    with pytest.raises(errors.InvalidInputError, match="'main' is not a branch"):
        tagged_store.branches.delete("main")
    assert list(tagged_store.branches.list()) == ["b"]


def test_deleted_branch_is_gone_and_main_stays(tagged_store):
    tagged_store.branches.create("b", tag="v1")
    tagged_store.branches.delete("b")
    assert tagged_store.branches.list() == {}
    with pytest.raises(errors.NotFoundError, match="no branch 'b'"):
        on_branch(tagged_store, "b")
    assert kit.newest(tagged_store).id == 2


@pytest.fixture
def paths(tmp_path):
    return TablePaths(table=str(tmp_path))


@pytest.fixture
def consumers(paths):
    return ConsumerManager(LocalFileIO(), paths, clock=kit.FixedClock())


def test_consumer_file_equals_javas(consumers, paths):
    assert consumers.next_snapshot("etl") is None
    consumers.advance("etl", 4)
    assert LocalFileIO().read_bytes(paths.consumer("etl")) == b'{"nextSnapshot":4}'
    assert consumers.next_snapshot("etl") == 4


def test_advance_never_moves_consumer_back(consumers):
    assert consumers.advance("etl", 4) == 4
    assert consumers.advance("etl", 4) == 4
    assert consumers.advance("etl", 2) == 4
    consumers.reset("etl", 2)
    assert consumers.next_snapshot("etl") == 2
    with pytest.raises(errors.InvalidInputError, match="snapshot 0"):
        consumers.reset("etl", 0)


def test_slowest_consumer_holds_snapshots(consumers):
    assert consumers.min_next_snapshot() is None
    consumers.advance("a", 7)
    consumers.advance("b", 3)
    assert consumers.list() == {"a": 7, "b": 3}
    assert consumers.min_next_snapshot() == 3
    consumers.delete("b")
    consumers.delete("b")
    assert consumers.min_next_snapshot() == 7


def test_idle_consumers_expire(consumers, paths):
    now = kit.FixedClock().now_millis() / 1000
    for name, age in (("old", 3600), ("new", 10)):
        consumers.advance(name, 1)
        os.utime(paths.consumer(name), (now - age, now - age))
    assert consumers.expire(60_000) == ("old",)
    assert consumers.list() == {"new": 1}


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b"{}", b'{"nextSnapshot":"4"}', b'{"nextSnapshot":true}', b"[" * 100_000],
    ids=range(6),
)
def test_damaged_file_is_named(consumers, paths, data):
    LocalFileIO().write_bytes(paths.consumer("etl"), data)
    with pytest.raises(errors.FormatError, match="consumer-etl: not a consumer's file"):
        consumers.next_snapshot("etl")


@pytest.fixture
def history(tmp_path):
    made = kit.new_store(tmp_path)
    for name in "abcd":
        kit.commit(made, kit.message(kit.plain_file(name)))
    for number in (1, 3):
        made.tags.create(f"v{number}", made.snapshots.snapshot(number))
    return made


def hint(history, name):
    return LocalFileIO().read_bytes(f"{history.paths.snapshot_directory}/{name}")


def test_later_snapshots_are_undone(history):
    LocalFileIO().write_bytes(history.paths.changelog(4), b"{}")
    done = rollback_to_snapshot(history, 2)
    assert (done.snapshots, done.tags, done.changelogs) == ((4, 3), ("v3",), (4,))
    assert history.snapshots.list_ids() == [1, 2]
    assert kit.live_names(history) == ["a", "b"]
    assert hint(history, "LATEST") == b"2"
    assert [tag.name for tag in history.tags.list()] == ["v1"]
    assert kit.commit(history, kit.message(kit.plain_file("e"))).id == 3
    assert kit.live_names(history) == ["a", "b", "e"]


def test_rollback_to_newest_changes_nothing(history):
    done = rollback_to_snapshot(history, 4)
    assert (done.snapshots, done.tags) == ((), ())
    assert kit.newest(history).id == 4


def test_rollback_to_tag_restores_expired_snapshot(history):
    for number in (1, 2):
        LocalFileIO().delete_file(history.paths.snapshot(number))
    LocalFileIO().replace(f"{history.paths.snapshot_directory}/EARLIEST", b"3")
    assert rollback_to_tag(history, "v1").snapshots == (4, 3)
    assert history.snapshots.list_ids() == [1]
    assert (hint(history, "EARLIEST"), hint(history, "LATEST")) == (b"1", b"1")
    assert kit.live_names(history) == ["a"]


def test_missing_target_changes_nothing(history):
    with pytest.raises(errors.NotFoundError, match="Snapshot 9 "):
        rollback_to_snapshot(history, 9)
    with pytest.raises(errors.NotFoundError, match="no tag 'v9'"):
        rollback_to_tag(history, "v9")
    assert kit.newest(history).id == 4


@pytest.mark.parametrize("fault", [Fault.FAIL, Fault.LOSE_ANSWER])
def test_crashed_rollback_is_finished_by_next(tmp_path, fault):
    for call in itertools.count():
        history = kit.new_store(tmp_path / str(call))
        for name in "abcd":
            kit.commit(history, kit.message(kit.plain_file(name)))
        calls = FaultyFileIO(LocalFileIO(), faults={call: fault})
        with suppress(errors.PaimonError):
            rollback_to_snapshot(FileStore.open(calls, history.table_path), 1)
        assert "".join(kit.live_names(history)) in ("a", "ab", "abc", "abcd")
        rollback_to_snapshot(history, 1)
        assert kit.live_names(history) == ["a"]
        if not calls.fired:
            break
