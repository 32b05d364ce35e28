"""A number that expired is free again, and a slow writer publishes it: no commit is lost."""

import shutil
from itertools import count
from random import Random
from uuid import uuid4

import pytest
from msgspec.structs import replace

from paimon_assets import Schema, Table
from paimon_assets.engine import errors
from paimon_assets.engine.codec.json.metadata_json import snapshot_to_json
from paimon_assets.engine.control.commit.look_back import looked_back
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.maintenance.expire_snapshots import (
    Retention,
    expire_changelogs,
    expire_snapshots,
)
from paimon_assets.engine.control.maintenance.references import metadata_paths, retained_changelog
from paimon_assets.engine.control.managers import snapshot_manager
from paimon_assets.engine.control.managers.commit_history import NewUser
from paimon_assets.engine.control.rollback import rollback_to_snapshot, rollback_to_tag
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.server.external_snapshot import publish_external
from tests.faults.fuzz import forget_manifests
from tests.testkit import metadata_tables as kit
from tests.testkit.effort import often
from tests.testkit.faulty_fileio import FaultyFileIO
from tests.testkit.tables import new_table, read, write

LATER = kit.FixedClock(now=4_000_000_000_000)


def keep(most):
    return Retention(min_count=most, max_count=most, time_ms=0, limit=100)


def expire(store, most):
    expire_snapshots(store, retention=keep(most), clock=LATER)


def open_store(store, before=None):
    """Open a table as another process does, which has seen no snapshot of it."""
    snapshot_manager._NEWEST_SEEN.clear()
    file_io = store.file_io if before is None else FaultyFileIO(store.file_io, before=before)
    mine = FileStore(file_io=file_io, table_path=store.table_path, schema=store.schema)
    return mine.with_schema(store.schema)


def at_publish(beside):
    """Return a function that acts once, just before a snapshot is published."""
    done = []

    def before(_number, method, path):
        if not done and method == "publish" and "/snapshot/" in path:
            done.append(path)
            beside()

    return before


@pytest.mark.parametrize("kept", [1, 2, 6])
@pytest.mark.parametrize("commits", [0, 1, 3], ids=["no snapshot", "one", "three"])
@pytest.mark.parametrize("kind", ["append", "key"])
def test_writer_of_expired_number_plans_again(kind, commits, kept, tmp_path):
    declared = {"append": {}, "key": {"primary_keys": "id", "options": {"bucket": "1"}}}[kind]
    table = new_table(tmp_path, {"id": "BIGINT"}, **declared)
    for number in range(commits):
        write(table, (number,))

    def other_commits():
        for number in range(10, 17):
            write(table, (number,))
        expire(table._store, kept)

    outcome = write(Table(open_store(table._store, at_publish(other_commits))), (100,))
    rows = [(number,) for number in (*range(commits), *range(10, 17), 100)]
    assert outcome.id == commits + 8
    assert read(table) == read(Table(open_store(table._store))) == rows
    assert table.snapshot(outcome.id).id == table.latest_snapshot().id == outcome.id
    write(table, (200,))
    assert read(table) == [*rows, (200,)]
    assert len(table.snapshots()) == kept + 2


def test_late_publish_of_dead_writer_hides_no_commit(tmp_path):
    for kept in (1, 2, 3):
        for hint in (None, 2, 3):  # another writer was slow between its commit and its hint
            store = kit.new_store(tmp_path / f"{kept}-{hint}")
            names = [f"{number}" for number in range(8)]
            for name in names[:2]:
                kit.commit(store, kit.message(kit.plain_file(name)))

            def other_commits(store=store, kept=kept, names=names):
                for name in names[2:]:
                    kit.commit(open_store(store), kit.message(kit.plain_file(name)))
                expire(store, kept)

            dies(store, other_commits)
            assert 3 in store.snapshots.list_ids()
            if hint is not None:
                LocalFileIO().write_hint(f"{store.paths.snapshot_directory}/LATEST", b"%d" % hint)
            for name in ("x", "y"):
                kit.commit(open_store(store), kit.message(kit.plain_file(name)))
            assert kit.live_names(open_store(store)) == [*names, "x", "y"]
            expire(open_store(store), 2)
            assert store.snapshots.list_ids() == [9, 10]


@pytest.mark.parametrize(
    ("left", "continues"),
    [
        ((1, 2, 3, 4, 5), True),
        ((3,), True),
        ((3, 4, 5), True),  # its base expired, and a later one is built on it
        ((3, 5), False),  # a hole is above it
        ((1, 3), False),  # its base was rolled back
        ((4, 5), True),  # it expired, too
    ],
)
def test_published_snapshot_is_withdrawn_if_it_continues_nothing(left, continues, tmp_path):
    store = kit.new_store(tmp_path)
    base, late = [kit.commit(store, kit.message(kit.plain_file(n))) for n in "abcde"][1:3]
    for number in {1, 2, 3, 4, 5}.difference(left):
        store.file_io.delete_file(store.paths.snapshot(number))
    unknown = errors.CommitUnknownError("Look.")
    assert looked_back(open_store(store), late, base, unknown) is continues
    assert (late.id in store.snapshots.list_ids()) is (continues and late.id in left)


@pytest.mark.parametrize("gap", ["hole above successor", "successor names no base"])
def test_published_snapshot_of_unclear_place_stays(gap, tmp_path):
    store = kit.new_store(tmp_path)
    made = [kit.commit(store, kit.message(kit.plain_file(n))) for n in "abcdef"]
    base, late, successor = made[1:4]
    left = (3, 4, 6) if gap == "hole above successor" else (3, 4)
    for number in {1, 2, 3, 4, 5, 6}.difference(left):
        store.file_io.delete_file(store.paths.snapshot(number))
    if gap == "successor names no base":  # another engine's, whose manifests were merged
        other = replace(successor, properties={}, base_manifest_list=base.base_manifest_list)
        store.file_io.replace(store.paths.snapshot(4), snapshot_to_json(other))
    with pytest.raises(errors.CommitUnknownError):
        looked_back(open_store(store), late, base, errors.CommitUnknownError("Look."))
    assert store.snapshots.list_ids() == list(left)


def test_replaced_snapshot_is_same_by_its_uuid(tmp_path):
    store = kit.new_store(tmp_path)
    made = replace(kit.commit(store, kit.message(kit.plain_file("a"))), uuid="u")
    replaced = replace(made, properties={**made.properties, "by": "an erasure"})
    store.file_io.replace(store.paths.snapshot(1), snapshot_to_json(replaced))
    assert publish_external(open_store(store), made, base_uuid=None)
    assert not publish_external(open_store(store), replace(made, uuid="other"), base_uuid=None)


class Death(BaseException):
    """The end of a process."""


def dies(store, beside):
    def before(number, method, path):
        publishing(number, method, path)
        if published:
            raise Death
        if method == "publish" and "/snapshot/" in path:
            published.append(path)

    published, publishing = [], at_publish(beside)
    with pytest.raises(Death):
        kit.commit(open_store(store, before), kit.message(kit.plain_file("lost")))


def test_expired_commit_is_found_in_later_snapshots(tmp_path):
    for other_commits in range(1, 5):
        store = kit.new_store(tmp_path / str(other_commits))
        kit.commit(store, kit.message(kit.plain_file("a")))
        looks = []

        def before(number, method, path, store=store, other_commits=other_commits, looks=looks):
            if looks == ["publish"]:
                looks.append("done")
                for other in range(other_commits):
                    kit.commit(open_store(store), kit.message(kit.plain_file(f"{other}")))
                expire(store, 1)
            if not looks and method == "publish" and "/snapshot/" in path:
                looks.append("publish")

        made = kit.commit(open_store(store, before), kit.message(kit.plain_file("b")))
        assert (made.id, store.snapshots.list_ids()) == (2, [2 + other_commits])
        assert kit.live_names(store)[:2] == ["a", "b"]


def test_unplaceable_publish_deletes_nothing(tmp_path):
    """The number, and every snapshot that was built on it, expired before the look back."""
    store = kit.new_store(
        tmp_path, Schema.of({"a": "BIGINT"}, options={"manifest.merge-min-count": "2"})
    )
    kit.commit(store, kit.message(kit.plain_file("a")))
    looks = []

    def before(_number, method, path):
        if looks == ["publish"]:
            looks.append("done")
            for number in range(5):
                kit.commit(open_store(store), kit.message(kit.plain_file(f"{number}")))
            expire(store, 1)
        if not looks and method == "publish" and "/snapshot/" in path:
            looks.append("publish")

    with pytest.raises(errors.CommitUnknownError):
        kit.commit(open_store(store, before), kit.message(kit.plain_file("b")))
    assert set(kit.live_names(store)) == {"a", "b", *map(str, range(5))}
    assert all(map(LocalFileIO().exists, metadata_paths(store, store.snapshots.latest())))


@pytest.mark.parametrize("merges", [False, True], ids=["", "manifests merged"])
@pytest.mark.parametrize(
    ("stop", "takes_ghost"), [("delete_file", False), ("replace", False), ("replace", True)]
)
def test_slow_expiration_leaves_no_blocking_snapshot(stop, takes_ghost, merges, tmp_path):
    """`EARLIEST` does not go back to the late snapshot of a dead writer; else there is a way out.

    Before the write of the hint it is too late to see that another expiration has overtaken.
    """
    options = {"manifest.merge-min-count": "2"} if merges else {}  # then a ghost lacks manifests
    store = kit.new_store(tmp_path, Schema.of({"a": "BIGINT"}, options=options))
    for number in range(3):
        kit.commit(store, kit.message(kit.plain_file(f"{number}")))
    calls = []

    def before(_number, method, path):
        is_after = calls[-1:] == ["expired"] and "/manifest/" in path
        if method == stop and (is_after or (not calls and path.endswith("/EARLIEST"))):
            calls.append("stopped")
            dies(store, other_commits)
        if method == "delete_file" and "/snapshot/" in path:
            calls.append("expired")

    def other_commits():
        for number in range(3, 8):
            kit.commit(open_store(store), kit.message(kit.plain_file(f"{number}")))
        expire(open_store(store), 1)

    expire(open_store(store, before), 1)
    assert "stopped" in calls
    assert store.snapshots.list_ids() == [4, 8]
    if stop == "replace":
        with pytest.raises(errors.CommitConflictError, match="'fast_forward'") as caught:
            kit.commit(open_store(store), kit.message(kit.plain_file("8")))
        assert caught.value.kind == "snapshot-gap"
        store.branches.create("kept", snapshot_id=8)
        if takes_ghost:  # the other way out that the message names
            assert "'rollback_to(4)' drops snapshot 8" in str(caught.value)
            rollback_to_snapshot(store, 4)
        store.branches.fast_forward("kept")
        assert store.snapshots.list_ids() == [8]
    kit.commit(open_store(store), kit.message(kit.plain_file("8")))
    assert kit.live_names(open_store(store)) == list(map(str, range(9)))
    expire(open_store(store), 1)
    assert store.snapshots.list_ids() == [9]


def at_each_call(tmp_path, schema, beside, operation):
    """Do an operation once for each of its calls, with other commits before that call."""
    for stop in count():
        store = kit.new_store(tmp_path / str(stop), schema)
        for number in range(4):
            kit.commit(store, files_of(store, f"{number}"))

        def before(number, _method, _path, store=store, stop=stop):
            if number == stop:
                beside(open_store(store))

        forget_manifests()
        mine = open_store(store, before)
        yield store, operation(mine)
        if len(mine.file_io.calls) <= stop:
            return


def test_commit_on_expired_base_is_planned_again(tmp_path):
    def beside(store):
        for number in range(3):
            kit.commit(store, files_of(store, f"other-{number}"), user=NewUser())
        expire(store, 1)

    def operation(store):
        return kit.commit(store, files_of(store, "mine"), user=NewUser())

    calls = 0
    for store, made in at_each_call(tmp_path, kit.APPEND, beside, operation):
        rows, calls = kit.live_names(open_store(store)), calls + 1
        assert made.id in (5, 8)
        assert {*map(str, range(4)), "mine"} <= set(rows)
        assert len(rows) == len(set(rows)) == (8 if store.snapshots.latest_id() == 8 else 5)
    assert calls > 15


@pytest.mark.parametrize("schema", [kit.APPEND, kit.KEYED], ids=["append", "key"])
def test_overtaken_expiration_ends_without_error(schema, tmp_path):
    def beside(store):
        kit.commit(store, files_of(store, "other"), user=NewUser())
        expire(store, 1)

    calls = 0
    for store, _ in at_each_call(tmp_path, schema, beside, lambda store: expire(store, 2)):
        calls += 1
        assert set(kit.live_names(open_store(store))) >= set(map(str, range(4)))
        expire(open_store(store), 1)
        [last] = store.snapshots.all()
        assert all(map(LocalFileIO().exists, metadata_paths(store, last)))
        assert store.snapshots.earliest_id() == last.id
    assert calls > 30


def test_slow_expiration_restores_no_changelog(tmp_path):
    """Other writers commit and expire at any of its calls, some after a rollback."""
    longer = {"changelog.num-retained.min": "50", "changelog.num-retained.max": "50"}
    schema = Schema.of({"a": "BIGINT"}, options=longer)
    slow, gone = 0, 0
    for seed in range(often(60)):
        random, path = Random(seed), tmp_path / str(seed)  # noqa: S311
        store = kit.new_store(path, schema)

        def other_commits(store, random=random):
            for _ in range(random.randint(1, 5)):
                kit.commit(store, files_of(store, f"{uuid4()}"), user=NewUser())
            for _ in range(random.randint(1, 3)):
                expire(store, random.randint(1, 2))
                if random.random() < 0.8:
                    expire_changelogs(store, retention=keep(random.randint(1, 3)), clock=LATER)

        other_commits(store)
        if random.random() < 0.3:  # numbers are used twice: a hint to changelogs would be too high
            store.tags.create("kept", store.snapshots.latest())
            other_commits(store)
            rollback_to_tag(store, "kept")
        for number in range(3):
            kit.commit(store, files_of(store, f"{number}"), user=NewUser())
        stop, calls = random.choice([None, random.randrange(60)]), []

        def before(
            number, method, path, stop=stop, calls=calls, store=store, other_commits=other_commits
        ):
            publishes = method == "publish" and "/changelog/" in path
            if not calls and (publishes if stop is None else number == stop):
                calls.append(number)
                other_commits(open_store(store))

        expire(open_store(store, before), 1)
        slow += len(calls)
        ids, oldest = store.changelogs.list_ids(), store.snapshots.earliest_id()
        try:
            # None has come back below a hole, and none was lost.
            assert ids == list(range(ids[0], oldest))
            for number in ids:
                changelog = store.changelogs.changelog_or_none(number)
                assert list(retained_changelog(store, changelog))
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
        gone += ids[0] > 1
    assert (slow > often(20), gone > often(20)) == (True, True)


@pytest.mark.parametrize("commits", [0, 2])
def test_catalog_refuses_snapshot_of_late_publish(commits, tmp_path):
    store = kit.new_store(tmp_path)
    for number in range(commits):
        kit.commit(store, kit.message(kit.plain_file(f"{number}")))
    shutil.copytree(store.table_path, tmp_path / "client")
    client = FileStore.open(LocalFileIO(), str(tmp_path / "client"))
    snapshot = kit.commit(client, kit.message(kit.plain_file("late")))
    shutil.copytree(
        tmp_path / "client" / "manifest", tmp_path / "table" / "manifest", dirs_exist_ok=True
    )
    base_uuid = store.snapshots.latest().uuid if commits else None

    def other_commits():
        for number in range(5):
            kit.commit(open_store(store), kit.message(kit.plain_file(f"other-{number}")))
        expire(store, 2)

    server = open_store(store, at_publish(other_commits))
    assert not publish_external(server, snapshot, base_uuid=base_uuid)
    assert store.snapshots.list_ids() == [commits + 4, commits + 5]
    assert len(kit.live_names(store)) == commits + 5


def files_of(store, name):
    if store.schema.has_primary_key:
        return kit.message(kit.keyed_file(0, 9, file_name=name), total_buckets=2)
    return kit.message(kit.plain_file(name))
