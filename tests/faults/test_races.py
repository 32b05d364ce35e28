"""Two commands at once: one runs whole before each storage call of the other, call by call."""

import itertools
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import pytest

from paimon_assets import EmbeddedExecutor, Identifier, Schema, Table, add_column
from paimon_assets.engine import errors
from paimon_assets.engine.control.catalog.filesystem_catalog import FilesystemCatalog
from paimon_assets.engine.control.commit.file_store_commit import FileStoreCommit
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.maintenance.expire_snapshots import expire_snapshots
from paimon_assets.engine.control.maintenance.tag_files import delete_tag
from paimon_assets.engine.control.managers.schema_manager import SchemaManager
from paimon_assets.engine.control.rollback import rollback_to_snapshot, rollback_to_tag
from paimon_assets.engine.control.scan.file_store_scan import FileStoreScan
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.metadata.snapshot import CommitKind
from paimon_assets.engine.spec.paths import TablePaths
from tests.testkit import metadata_tables as kit
from tests.testkit.faults.whole_tables import NEWEST, check_whole
from tests.testkit.faulty_fileio import FaultyFileIO

LATER = kit.FixedClock(now=4_000_000_000_000)

Command = Callable[[FileStore], object]


@dataclass(frozen=True)
class Outcome:
    """The outcomes of two commands."""

    call: int
    """Before which call of the one the other ran."""
    store: FileStore
    one: errors.PaimonError | None
    other: errors.PaimonError | None

    @property
    def both(self) -> bool:
        return self.one is None and self.other is None


def add(store, *names, **more):
    """Commit data files that exist, one byte each."""
    for name in names:
        LocalFileIO().write_bytes(f"{store.table_path}/bucket-0/{name}", b"x")
    return kit.commit(store, kit.message(*map(kit.plain_file, names)), **more)


def drop(store, *names):
    deleted = [kit.plain_file(name) for name in names]
    return kit.commit(store, kit.message(deleted=deleted), kind=CommitKind.OVERWRITE)


def try_command(command, store):
    try:
        command(store)
    except errors.CommitUnknownError:
        raise
    except errors.PaimonError as error:
        return error
    return None


def interleave(tmp_path, scene, one, other):
    """Yield the outcomes of two commands, for each call of the one that the other ran before."""
    scene(kit.new_store(tmp_path / "scene"))
    for call in itertools.count():
        shutil.copytree(tmp_path / "scene", tmp_path / str(call))
        store = FileStore.open(LocalFileIO(), str(tmp_path / str(call) / "table"))
        other_errors: list[errors.PaimonError | None] = []

        def before(number, method, path, store=store, call=call, other_errors=other_errors):
            if number == call:
                other_errors.append(
                    try_command(other, FileStore.open(LocalFileIO(), store.table_path))
                )

        calls = FaultyFileIO(LocalFileIO(), before=before)
        mine = FileStore(file_io=calls, table_path=store.table_path, schema=store.schema)
        error = try_command(one, mine)
        if not other_errors:
            return
        yield Outcome(call=call, store=store, one=error, other=other_errors[0])


def expire(store):
    expire_snapshots(store, retention=NEWEST, clock=LATER)


def five(store):
    """Five snapshots: a, b, then a goes, c, d."""
    add(store, "a")
    add(store, "b")
    drop(store, "a")
    add(store, "c")
    add(store, "d")


def writes(*names):
    def write(store):
        for name in names:
            LocalFileIO().write_bytes(f"{store.table_path}/bucket-0/{name}", b"x")
        files = [kit.plain_file(name) for name in names]
        FileStoreCommit(store, clock=kit.FixedClock()).commit(
            [kit.message(*files)], commit_user=names[0], commit_identifier=1
        )

    return write


@pytest.mark.parametrize("target", [1, 4])
@pytest.mark.parametrize("rollback_first", [False, True])
def test_rollback_during_expiration_keeps_its_target(tmp_path, target, rollback_first):
    def rollback(store):
        rollback_to_snapshot(store, target)

    pair = (rollback, expire) if rollback_first else (expire, rollback)
    seen = set()
    for done in interleave(tmp_path, five, *pair):
        rolled_back = (done.one if rollback_first else done.other) is None
        seen.add(rolled_back)
        check_whole(done.store)
        assert kit.newest(done.store).id == (target if rolled_back else 5), done
        assert (done.other if rollback_first else done.one) is None
        assert add(done.store, "e").id == kit.newest(done.store).id
        check_whole(done.store)
    assert True in seen


def four(store):
    for name in "abcd":
        add(store, name)


class Death(BaseException):
    """The end of a process."""


def dies_after_publishing(store, name, beside):
    """Write; just before the publish other writers act, and just after it the writer dies."""
    published = []

    def before(number, method, path):
        if published:
            raise Death
        if method == "publish" and "/snapshot/" in path:
            published.append(path)
            beside()

    calls = FaultyFileIO(LocalFileIO(), before=before)
    mine = FileStore(file_io=calls, table_path=store.table_path, schema=store.schema)
    with pytest.raises(Death):
        writes(name)(mine)


@pytest.mark.parametrize("way_out", ["rollback_to", "fast_forward"])
@pytest.mark.parametrize("commits", range(3))
def test_leftover_on_undone_snapshot_hides_no_commit(tmp_path, commits, way_out):
    store, other_errors = kit.new_store(tmp_path), [f"other-{number}" for number in range(commits)]
    four(store)

    def beside():
        rollback_to_snapshot(store, 2)
        for name in other_errors:
            add(store, name)

    dies_after_publishing(store, "e", beside)
    assert store.snapshots.list_ids() == [*range(1, 3 + commits), 5]
    kept = ["a", "b", *other_errors]

    def write_on():
        for name in "fgh":
            writes(name)(store)
            kept.append(name)

    with pytest.raises(errors.CommitConflictError) as caught:
        write_on()
    assert caught.value.kind == "snapshot-gap"
    last = int(re.search(r"'rollback_to\((\d)\)' drops snapshot 5", str(caught.value))[1])
    stands = FileStoreScan(store).live_files(store.snapshots.snapshot(last))
    assert {entry.file.file_name for entry in stands} == set(kept)
    before = store.snapshots.list_ids()
    expire(store)
    assert store.snapshots.list_ids() == before
    if way_out == "rollback_to":
        rollback_to_snapshot(store, last)
    else:
        kept = list("abcde")
        store.branches.create("kept", snapshot_id=5)
        store.branches.fast_forward("kept")
    add(store, "z")
    check_whole(store)
    assert set(kit.live_names(store)) == {*kept, "z"}


@pytest.mark.parametrize("main_goes_on", [True, False])
def test_main_continues_as_branch_with_expired_start(tmp_path, main_goes_on):
    store = kit.new_store(tmp_path)
    for name in "ab":
        add(store, name)
    store.branches.create("side", snapshot_id=2)
    side = store.with_options({"branch": "side"})
    for name in "cde":
        add(side, name)
    expire(side)
    for name in "xyz" if main_goes_on else ():
        add(store, name)
    store.branches.fast_forward("side")
    assert kit.live_names(store) == kit.live_names(side)
    add(store, "f")
    check_whole(store)
    assert set(kit.live_names(store)) == set("abcdef")
    expire(store)
    assert len(store.snapshots.list_ids()) == 1


def renamed_path(path):
    return path.replace("/table", "/renamed")


def rename(store):
    LocalFileIO().rename_directory(store.table_path, renamed_path(store.table_path))


def remake(store):
    """Drop the table and make another one in its place."""
    LocalFileIO().delete_directory(store.table_path)
    paths = TablePaths(table=store.table_path)
    schema = Schema.of({"c": "INT"})
    SchemaManager(LocalFileIO(), paths).create(schema, time_millis=2)
    add(FileStore.open(LocalFileIO(), store.table_path), "n")


def expects(write):
    """Return a write that keeps its error even if the outcome is unknown."""

    def run(store):
        with suppress(errors.CommitUnknownError):
            write(store)
            return
        raise OutcomeUnknownError("unknown")

    return run


class OutcomeUnknownError(errors.PaimonError):
    """A `CommitUnknownError`, for `try_command`."""


def test_recreated_table_gets_nothing_of_pending_commit(tmp_path):
    outcomes = set()
    for done in interleave(tmp_path, four, expects(writes("e")), remake):
        assert done.other is None
        again = FileStore.open(LocalFileIO(), done.store.table_path)
        outcomes.add(type(done.one))
        check_whole(again)
        assert kit.live_names(again) == ["n"]
    assert errors.NotFoundError in outcomes


@pytest.mark.parametrize("other", [rename, remake])
def test_renamed_or_new_table_gets_nothing_of_rollback(tmp_path, other):
    def rollback(store):
        rollback_to_snapshot(store, 2)

    for done in interleave(tmp_path, four, expects(rollback), other):
        assert done.other is None
        if other is rename:
            assert done.store.snapshots.list_ids() == []
            check_whole(FileStore.open(LocalFileIO(), renamed_path(done.store.table_path)))
        else:
            again = FileStore.open(LocalFileIO(), done.store.table_path)
            check_whole(again)
            assert kit.live_names(again) == ["n"]


@pytest.mark.parametrize("other", [rename, remake])
def test_alter_detects_concurrent_rename_or_recreation(tmp_path, other):
    def alter(store):
        store.schemas.commit_changes([add_column("z", "INT")], time_millis=3)

    outcomes = set()
    for done in interleave(tmp_path, four, expects(alter), other):
        assert done.other is None
        outcomes.add(type(done.one))
        if other is rename:
            assert done.store.schemas.list_ids() == []
            found = FileStore.open(LocalFileIO(), renamed_path(done.store.table_path))
            names = [column.name for column in found.schema.fields]
            if done.one is None:
                assert "z" in names
            elif isinstance(done.one, errors.NotFoundError):
                assert "z" not in names
        else:
            found = FileStore.open(LocalFileIO(), done.store.table_path)
            names = [column.name for column in found.schema.fields]
            assert names in (["c"], ["c", "z"])
            assert done.one is not None or names == ["c", "z"] or found.schema.id == 0
    assert errors.NotFoundError in outcomes


def test_restored_tag_keeps_its_files_during_deletion(tmp_path):
    def scene(store):
        five(store)
        store.tags.create("v", store.snapshots.snapshot(1))
        expire(store)

    def delete(store):
        delete_tag(store, "v")

    def rollback(store):
        rollback_to_tag(store, "v")

    seen = set()
    for pair in ((delete, rollback), (rollback, delete)):
        for done in interleave(tmp_path / str(len(seen)), scene, *pair):
            rolled_back = (done.other if pair[0] is delete else done.one) is None
            seen.add((pair[0], rolled_back))
            assert kit.newest(done.store).id == (1 if rolled_back else 5)
            check_whole(done.store)
    assert {rolled_back for _, rolled_back in seen} == {True, False}


def test_commit_during_drop_leaves_no_files(tmp_path):
    def drop_table(store):
        catalog = FilesystemCatalog(store.table_path.removesuffix("/d.db/table"), store.file_io)
        catalog.drop_table(Identifier("d", "table"), cascade=True)  # its data files are made up

    store = kit.new_store(tmp_path / "scene" / "d.db")
    four(store)
    for call in itertools.count():
        shutil.copytree(tmp_path / "scene", tmp_path / str(call))
        path = str(tmp_path / str(call) / "d.db" / "table")
        outcomes: list[errors.PaimonError | None] = []

        def before(number, method, _, call=call, path=path, outcomes=outcomes):
            if number == call:
                opened = FileStore(file_io=LocalFileIO(), table_path=path, schema=store.schema)
                outcomes.append(try_command(expects(writes("e")), opened))

        calls = FaultyFileIO(LocalFileIO(), before=before)
        drop_table(FileStore(file_io=calls, table_path=path, schema=store.schema))
        if not outcomes:
            break
        directory = tmp_path / str(call) / "d.db"
        assert not list(directory.rglob("snapshot-*"))
        assert not list(directory.rglob("schema-*"))
    assert call > 1


def test_renamed_table_is_not_read_as_empty(tmp_path):
    store = kit.new_store(tmp_path)
    four(store)
    table = Table(store)
    rename(store)
    for use in (
        lambda: table.new_read_builder().to_arrow(),
        lambda: table.new_row_change_builder().delete("a = 1"),
        lambda: table.new_compaction_builder().run(EmbeddedExecutor()),
    ):
        with pytest.raises(errors.NotFoundError, match=r"dropped or renamed|schema-0"):
            use()


def test_table_renamed_during_drop_is_not_reported_as_dropped(tmp_path):
    kit.new_store(tmp_path / "d.db")

    def before(number, method, path):
        if method == "rename_directory":
            rename(FileStore.open(LocalFileIO(), str(tmp_path / "d.db" / "table")))

    catalog = FilesystemCatalog(str(tmp_path), FaultyFileIO(LocalFileIO(), before=before))
    with pytest.raises(errors.NotFoundError):
        catalog.drop_table(Identifier("d", "table"), cascade=True)  # its data files are made up
    assert catalog.list_tables("d") == ["renamed"]
