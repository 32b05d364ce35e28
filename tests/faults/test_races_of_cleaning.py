"""Deletions beside other commands: names of old files come, go and move while they are planned."""

import itertools
import os
import shutil
import time
from contextlib import suppress
from pathlib import Path

import pytest

from paimon_assets import (
    CommitConflictError,
    InvalidInputError,
    NotFoundError,
    Schema,
    open_catalog,
)
from paimon_assets.engine.control.maintenance.expire_snapshots import (
    expire_changelogs,
    expire_snapshots,
)
from paimon_assets.engine.control.maintenance.orphan_files import DAY_MS, clean_orphan_files
from paimon_assets.engine.control.maintenance.references import other_branches
from paimon_assets.engine.fileio.local import LocalFileIO
from tests.testkit.faults.whole_tables import NEWEST, check_whole, open_both, rows_in, rows_of
from tests.testkit.faults.writers import OneStorageExecutor
from tests.testkit.faulty_fileio import FaultyFileIO
from tests.testkit.metadata_tables import ORPHAN

OLD = time.time() - 2 * DAY_MS / 1000


def interleave(tmp_path, scene, one, other):
    """Do the other whole before each storage call of the one, and yield the table, whole."""
    scene(tmp_path / "scene")
    for path in (tmp_path / "scene").rglob("*"):
        os.utime(path, (OLD, OLD))
    for call in itertools.count():
        directory = tmp_path / str(call)
        shutil.copytree(tmp_path / "scene", directory)
        table = open_both(directory, LocalFileIO())[0]
        came = []

        def before(number, _method, _path, call=call, table=table, came=came):
            if number == call:
                came.append(True)
                other(table)

        one(open_both(directory, FaultyFileIO(LocalFileIO(), before=before))[0])
        if not came:
            assert call > 10
            return
        for store in (table._store, *other_branches(table._store)):
            check_whole(store)
        yield table
        shutil.rmtree(directory)


def create(directory, options=None):
    catalog = open_catalog(str(directory / "warehouse"))
    catalog.create_database("d")
    return catalog.create_table("d.t", Schema.of({"id": "INT"}, options=options or {}))


def write(table, *ids):
    table.new_write_builder().write(rows_of(*ids), OneStorageExecutor(table.state.file_io))


def overwrite(table, *ids):
    writer = table.new_write_builder().with_overwrite()
    writer.write(rows_of(*ids), OneStorageExecutor(table.state.file_io))


def expire(table):
    expire_snapshots(table._store, retention=NEWEST)


def prepare(directory):
    """Main has one snapshot left; files that it lacks are those of a tag, and of a branch."""
    table = create(directory)
    write(table, 1, 2)
    table.tags.create("kept", 1)
    overwrite(table, 7)
    table.branches.create("side", snapshot_id=2)
    write(table.at_branch("side"), 8)
    overwrite(table, 3)
    write(table, 4)
    expire(table)
    (Path(table.path) / "bucket-0" / ORPHAN).write_bytes(b"x")


def write_and_expire(table):
    write(table, 5)
    expire(table)


def forward_and_delete(table):
    table.branches.fast_forward("side")
    table.branches.delete("side")


def branch_off_and_delete_tag(table):
    table.branches.create("more", tag="kept")
    table._store.tags.delete("kept")


def roll_back_and_delete_tag(table):
    table.rollback_to("kept")
    table._store.tags.delete("kept")


def clean(table):
    clean_orphan_files(table._store, dry_run=False)


@pytest.mark.parametrize(
    ("other", "rows"),
    [
        (write_and_expire, (3, 4, 5)),
        (lambda table: table._store.tags.rename("kept", "better"), (3, 4)),
        (lambda table: table.branches.rename("side", "aside"), (3, 4)),
        (forward_and_delete, (7, 8)),
        (branch_off_and_delete_tag, (3, 4)),
        (roll_back_and_delete_tag, (1, 2)),
    ],
    ids=[
        "expired: apache/paimon 7710",
        "tag renamed",
        "branch renamed",
        "forward",
        "branched off",
        "rolled back",
    ],
)
def test_file_named_again_during_cleaning_is_kept(other, rows, tmp_path):
    for table in interleave(tmp_path, prepare, clean, other):
        assert rows_in(table) == rows
        assert not (Path(table.path) / "bucket-0" / ORPHAN).exists()


def side_shares(directory, *, tagged):
    """Main's newest snapshot, or a tag alone, has a file that is to expire from a branch."""
    table = create(directory)
    write(table, 1, 2)
    table.branches.create("side", snapshot_id=1)
    overwrite(table.at_branch("side"), 7)
    write(table, 3)
    if tagged:
        table.tags.create("kept", 2)
        overwrite(table, 4)
    expire(table)


@pytest.mark.parametrize(
    ("tagged", "other"),
    [(False, write_and_expire), (True, lambda table: table._store.tags.rename("kept", "better"))],
    ids=["expired: apache/paimon 7710", "tag renamed"],
)
def test_expiration_keeps_files_shared_with_branch(tagged, other, tmp_path):
    def scene(directory):
        side_shares(directory, tagged=tagged)

    def expire_side(table):
        with suppress(NotFoundError):  # a file of main is gone; nothing was deleted
            expire(table.at_branch("side"))

    for table in interleave(tmp_path, scene, expire_side, other):
        assert rows_in(table.at_branch("side")) == (7,)


def changelogs_outlive(directory):
    """The file of a changelog that is to expire is live in a tag alone."""
    table = create(directory, {"changelog.num-retained.min": "20"})
    write(table, 1, 2)
    table.tags.create("kept", 1)
    overwrite(table, 3)
    write(table, 4)
    expire(table)
    assert len(table._store.changelogs.list_ids()) == 2


@pytest.mark.parametrize(
    "other",
    [lambda table: table._store.tags.rename("kept", "better"), roll_back_and_delete_tag],
    ids=["tag renamed", "rolled back"],
)
def test_changelog_expiration_keeps_files_of_tag(other, tmp_path):
    def expire_logs(table):
        with suppress(NotFoundError):  # the snapshot it went by is undone; nothing was deleted
            expire_changelogs(table._store, retention=NEWEST)

    for table in interleave(tmp_path, changelogs_outlive, expire_logs, other):
        assert table._store.changelogs.list_ids() != [1, 2]


def three_snapshots(directory):
    """A tag of an expired snapshot, its changelog, too; a branch; and three snapshots of main."""
    table = create(directory, {"changelog.num-retained.min": "20"})
    write(table, 1, 2)
    table.tags.create("kept", 1)
    overwrite(table, 7)
    table.branches.create("side", snapshot_id=2)
    write(table.at_branch("side"), 8)
    overwrite(table, 3)
    expire(table)
    expire_changelogs(table._store, retention=NEWEST)
    write(table, 4)
    overwrite(table, 5)


def test_expiration_does_not_undo_rollback_to_tag(tmp_path):
    """It puts a snapshot back that a rollback went to, and no other one."""
    for table in interleave(
        tmp_path, three_snapshots, expire, lambda table: table.rollback_to("kept")
    ):
        assert rows_in(table) == (1, 2)


@pytest.mark.parametrize("target", [4, "kept"])
def test_later_of_two_rollbacks_wins(target, tmp_path):
    def roll_back(table):
        with suppress(NotFoundError):  # the other one undid it, or deleted the tag
            table.rollback_to(target)

    for table in interleave(tmp_path, three_snapshots, roll_back, roll_back_and_delete_tag):
        assert rows_in(table) == (1, 2)


def test_concurrent_fast_forward_or_rollback_is_complete(tmp_path):
    for table in interleave(
        tmp_path,
        three_snapshots,
        lambda table: table.branches.fast_forward("side"),
        lambda table: table.rollback_to("kept"),
    ):
        assert rows_in(table) in ((1, 2), (7, 8))


@pytest.mark.parametrize(
    "other",
    [
        lambda table: table.branches.rename("side", "aside"),
        lambda table: table.branches.delete("side"),
        lambda table: expire(table.at_branch("side")),
    ],
    ids=["renamed", "deleted", "expired"],
)
def test_main_stays_or_becomes_concurrently_moved_branch(other, tmp_path):
    def forward(table):
        with suppress(NotFoundError, InvalidInputError):  # there is none, or it has no snapshot
            table.branches.fast_forward("side")

    seen = set()
    for table in interleave(tmp_path, three_snapshots, forward, other):
        seen.add(rows_in(table))
    assert seen == {(5,), (7, 8)}


def test_fast_forward_during_expiration_is_complete(tmp_path):
    for table in interleave(
        tmp_path,
        three_snapshots,
        lambda table: expire(table.at_branch("side")),
        lambda table: table.branches.fast_forward("side"),
    ):
        assert rows_in(table) == (7, 8)


def test_fast_forwarded_main_is_consistent_with_its_tags(tmp_path):
    """The branch's first snapshot has expired; a tag of it is older than main's later commits."""
    table = create(tmp_path)
    write(table, 1, 2)
    table.tags.create("kept", 1)
    overwrite(table, 7)
    table.branches.create("side", snapshot_id=2)
    side = table.at_branch("side")
    write(side, 8)
    side.tags.create("tagged", 3)
    overwrite(side, 9)
    expire(side)
    overwrite(table, 3)
    table.tags.create("undone", 3)
    table.branches.fast_forward("side")
    table.branches.delete("side")
    write(table, 10)
    expire(table)
    check_whole(table._store)
    assert rows_in(table) == (9, 10)
    assert [tag.name for tag in table.tags.list()] == ["kept", "tagged"]


@pytest.mark.way_out("orphan-files")
def test_clean_among_new_tags_is_tried_again(tmp_path):
    prepare(tmp_path)
    os.utime(orphan := next(tmp_path.rglob(ORPHAN)), (OLD, OLD))

    def tag(number, method, path):
        if (method, Path(path).name) == ("list_directory", "tag"):
            open_both(tmp_path, LocalFileIO())[0].tags.create(f"t{number}")

    with pytest.raises(CommitConflictError, match="Try again when less is going on"):
        clean(open_both(tmp_path, FaultyFileIO(LocalFileIO(), before=tag))[0])
    assert orphan.exists()
    clean(open_both(tmp_path, LocalFileIO())[0])
    assert not orphan.exists()
