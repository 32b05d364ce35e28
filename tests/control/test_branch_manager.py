import itertools
from contextlib import suppress

import pytest

from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NotFoundError,
    PaimonError,
)
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.evolution.schema_change import AddColumn
from paimon_assets.engine.spec.types.data_types import bigint
from tests.testkit.faulty_fileio import Fault, FaultyFileIO
from tests.testkit.metadata_tables import commit, live_names, message, new_store, newest, plain_file


@pytest.fixture
def store(tmp_path):
    made = new_store(tmp_path)
    for name in ("one", "two"):
        commit(made, message(plain_file(name)))
    made.tags.create("v1", made.snapshots.snapshot(1))
    return made


def on_branch(store, name):
    return FileStore.open(store.file_io, store.table_path).with_options({"branch": name})


def reopened(store):
    return FileStore.open(store.file_io, store.table_path)


def test_an_empty_branch_has_all_schemas_and_no_snapshot(store):
    store.schemas.commit_changes([AddColumn(field_names=("c",), data_type=bigint())], time_millis=2)
    store.branches.create("b")
    branch = on_branch(store, "b")
    assert branch.schema.field_names == ("a", "b", "c")
    assert branch.snapshots.latest() is None
    assert list(store.branches.list()) == ["b"]


def test_a_branch_begins_with_a_tag_or_a_snapshot(store):
    store.schemas.commit_changes([AddColumn(field_names=("c",), data_type=bigint())], time_millis=2)
    store.branches.create("t", tag="v1")
    store.branches.create("s", snapshot_id=2)
    assert live_names(on_branch(store, "t")) == ["one"]
    assert on_branch(store, "t").schema.field_names == ("a", "b")
    assert [tag.name for tag in on_branch(store, "t").tags.list()] == ["v1"]
    assert live_names(on_branch(store, "s")) == ["one", "two"]


def test_a_branch_is_written_beside_main(store):
    store.branches.create("b", tag="v1")
    branch = on_branch(store, "b")
    made = commit(branch, message(plain_file("three")))
    assert made.id == 2
    assert live_names(branch) == ["one", "three"]
    assert live_names(store) == ["one", "two"]
    assert branch.label == f"{store.label}$branch_b"


def test_main_becomes_the_branch(store):
    store.tags.create("v2", store.snapshots.snapshot(2))
    store.schemas.commit_changes(
        [AddColumn(field_names=("main_only",), data_type=bigint())], time_millis=2
    )
    store.branches.create("b", tag="v1")
    branch = on_branch(store, "b")
    branch.schemas.commit_changes(
        [AddColumn(field_names=("theirs",), data_type=bigint())], time_millis=3
    )
    commit(on_branch(store, "b"), message(plain_file("three")))
    assert store.branches.fast_forward("b").id == 2
    assert live_names(reopened(store)) == ["one", "three"]
    assert [tag.name for tag in store.tags.list()] == ["v1"]
    assert reopened(store).schema.field_names == ("a", "b", "theirs")
    assert LocalFileIO().read_bytes(f"{store.paths.snapshot_directory}/LATEST") == b"2"
    assert store.branches.fast_forward("b").id == 2


def test_a_branch_that_shares_nothing_replaces_main(store):
    store.branches.create("b")
    commit(on_branch(store, "b"), message(plain_file("other")))
    assert store.branches.fast_forward("b").id == 1
    assert live_names(reopened(store)) == ["other"]


@pytest.mark.parametrize("fault", [Fault.FAIL, Fault.LOSE_ANSWER])
def test_a_crash_leaves_main_readable_and_the_next_call_finishes(tmp_path, fault):
    states = [["one"], ["one", "two"], ["one", "two", "three"], ["one", "new"]]
    for call in itertools.count():
        store = new_store(tmp_path / str(call))
        for name in ("one", "two", "three"):
            commit(store, message(plain_file(name)))
        store.tags.create("v1", store.snapshots.snapshot(1))
        store.branches.create("b", tag="v1")
        commit(on_branch(store, "b"), message(plain_file("new")))
        calls = FaultyFileIO(LocalFileIO(), faults={call: fault})
        with suppress(PaimonError):
            FileStore.open(calls, store.table_path).branches.fast_forward("b")
        assert live_names(reopened(store)) in states
        reopened(store).branches.fast_forward("b")
        assert live_names(reopened(store)) == ["one", "new"]
        if not calls.fired:
            break


def test_names_and_sources_are_checked(store):
    store.branches.create("b")
    store.branches.create("b", ignore_if_exists=True)
    with pytest.raises(AlreadyExistsError, match="branch 'b' already"):
        store.branches.create("b")
    for name in ("main", "12", "", "a/b", "x$y"):
        with pytest.raises(InvalidInputError):
            store.branches.create(name)
    with pytest.raises(InvalidInputError, match="not with both"):
        store.branches.create("c", tag="v1", snapshot_id=1)
    with pytest.raises(NotFoundError, match="no tag 'v9'"):
        store.branches.create("c", tag="v9")
    with pytest.raises(NotFoundError, match="Snapshot 9 "):
        store.branches.create("c", snapshot_id=9)
    with pytest.raises(NotFoundError, match="no branch 'c'"):
        store.branches.fast_forward("c")
    with pytest.raises(InvalidInputError, match="no snapshot yet"):
        store.branches.fast_forward("b")
    with pytest.raises(InvalidInputError, match="'main' is not a branch"):
        store.branches.delete("main")
    assert list(store.branches.list()) == ["b"]


def test_a_deleted_branch_is_gone_and_main_stays(store):
    store.branches.create("b", tag="v1")
    store.branches.delete("b")
    assert store.branches.list() == {}
    with pytest.raises(NotFoundError, match="no branch 'b'"):
        on_branch(store, "b")
    assert newest(store).id == 2
