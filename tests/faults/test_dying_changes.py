"""A process that changes a table may die at any call; a rerun completes the change.

Twice: a death before every single write or delete, as an exception that nothing catches, after
which the storage does nothing any more; and a real `kill -9` at some starts, inside calls too.
"""

import itertools
import shutil

import pytest

from paimon_assets import Table, open_table
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.fileio.local import LocalFileIO
from tests.stateful.test_maintenance import check_files
from tests.testkit import foreign
from tests.testkit.effort import is_hunt
from tests.testkit.faults.table_changes import CHANGES, COMMITS, perform_until_killed, prepare, read
from tests.testkit.faults.writers import DEATHS, exit_code
from tests.testkit.faulty_fileio import WRITES, FaultyFileIO

STRIDE, MOST_DEATHS = (89, None) if is_hunt() else (197, 2)
"""Calls between two deaths of real processes, and deaths; each change dies at its own calls."""

KILLED = {"write, append", "compact", "expire"}
"""Changes of which a real process dies in the suite, too."""


class Death(BaseException):
    """The end of a process."""


class Mortality:
    """Lets a storage do so many writes and deletes, and nothing after them."""

    def __init__(self, writes: int) -> None:
        self._left = writes
        self.is_over = False

    def __call__(self, _number: int, method: str, _path: str) -> None:
        if method in WRITES and not self.is_over:
            self._left -= 1
            self.is_over = self._left < 0
        if self.is_over:
            raise Death


class Scene:
    """A table before a change, and its rows before and after."""

    def __init__(self, change, directory):
        self.change = change
        self._directory = directory
        self._template = directory / "template"
        self.before = read(prepare(self._template, change))
        done = open_table(self.path(self.copy("done")))
        change.perform(done)
        done = open_table(done.path)
        self.after = read(done)
        self._ids = [snapshot.id for snapshot in done.snapshots()]
        self._schemas = len(done.schemas())

    def copy(self, name):
        target = self._directory / str(name)
        shutil.copytree(self._template, target)
        return target

    @staticmethod
    def path(copy):
        return str(copy / "warehouse" / "d.db" / "t")

    def look_and_rerun(self, copy, landing):
        """Check the table after a death and after a rerun; return whether the death came later."""
        left = open_table(self.path(copy))
        committed = _look(left, self.change, self.before, self.after)
        self.change.perform(left)
        again = open_table(left.path)
        assert read(again) == self.after
        assert [snapshot.id for snapshot in again.snapshots()] == self._ids
        assert len(again.schemas()) == self._schemas
        for snapshot in again.snapshots():
            check_files(again._store, snapshot)
        assert foreign.states(copy / "landing") == landing
        shutil.rmtree(copy)
        return committed


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.name)
def test_death_before_write_leaves_one_of_two_states(change, tmp_path):
    scene = Scene(change, tmp_path)
    seen = set()
    for writes in itertools.count():
        copy = scene.copy(writes)
        landing = foreign.states(copy / "landing")
        mortality = Mortality(writes)
        file_io = FaultyFileIO(LocalFileIO(), before=mortality)
        try:
            change.perform(Table(FileStore.open(file_io, scene.path(copy))))
        except Death:
            seen.add(scene.look_and_rerun(copy, landing))
        if not mortality.is_over:
            break
    assert seen == ({False, True} if change.commits else {None})


@pytest.mark.hunt
@pytest.mark.parametrize(
    "change",
    [
        pytest.param(change, marks=() if change.name in KILLED else pytest.mark.hunt_only)
        for change in CHANGES
    ],
    ids=[change.name for change in CHANGES],
)
def test_killed_change_leaves_one_of_two_states(change, tmp_path):
    scene = Scene(change, tmp_path)
    deaths = 0
    starts = itertools.count(CHANGES.index(change), STRIDE)
    for steps in itertools.islice(starts, MOST_DEATHS):
        copy = scene.copy(steps)
        landing = foreign.states(copy / "landing")
        code = exit_code(perform_until_killed, scene.path(copy), change.name, steps)
        if code == 0:
            break
        assert code in DEATHS
        deaths += 1
        scene.look_and_rerun(copy, landing)
    assert deaths


def _look(left, change, before, after):
    """Check the table after a death; return whether the change was committed."""
    snapshots = left.snapshots()
    for snapshot in snapshots:
        read(left, snapshot.id)
    if not change.commits:
        assert read(left) in (before, after, *(read(left, s.id) for s in snapshots))
        return None
    assert [snapshot.id for snapshot in snapshots][:COMMITS] == list(range(1, COMMITS + 1))
    assert read(left, COMMITS) == before
    committed = len(snapshots) > COMMITS
    assert read(left) == (after if committed else before)
    return committed
