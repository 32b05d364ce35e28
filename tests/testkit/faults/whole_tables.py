"""Every command that changes a table, what it does to rows, and what must hold after any two."""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise, permutations
from pathlib import Path
from random import Random
from threading import Condition, Thread

import msgspec
import pyarrow as pa

from paimon_assets import (
    CommitUnknownError,
    Identifier,
    PaimonError,
    SegmentSource,
    Table,
    add_column,
)
from paimon_assets.engine.control.catalog.filesystem_catalog import FilesystemCatalog
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.maintenance.expire_snapshots import Retention, expire_snapshots
from paimon_assets.engine.control.maintenance.orphan_files import DAY_MS, clean_orphan_files
from paimon_assets.engine.control.maintenance.references import metadata_paths
from paimon_assets.engine.control.scan.file_store_scan import FileStoreScan
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.metadata.snapshot import BUILT_ON_PROPERTY
from tests.testkit import foreign
from tests.testkit.faults.writers import OneStorageExecutor
from tests.testkit.faulty_fileio import FaultyFileIO
from tests.testkit.tables import new_table, read, write

Rows = tuple[int, ...]
SCENE: tuple[Rows, ...] = ((1, 2), (1, 2, 3), (2, 3), (2, 3, 4), (2, 3, 4, 5))
"""Rows of the scene's snapshots."""
_PATIENCE_SECONDS = 0.1
NEWEST = Retention(min_count=1, max_count=1, time_ms=0, limit=100)


@dataclass(frozen=True, slots=True)
class State:
    history: tuple[Rows, ...] = SCENE
    is_there: bool = True

    def then(self, change: Callable[[Rows], Rows]) -> "State":
        """Return the state after one more snapshot."""
        return replace(self, history=(*self.history, tuple(sorted(change(self.history[-1])))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    name: str
    perform: Callable[[Table, FilesystemCatalog], object]
    model: Callable[[State], State] = lambda state: state


def rows_of(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int32())})


def _own(table: Table) -> OneStorageExecutor:
    return OneStorageExecutor(table.state.file_io)


def _add_segment(table: Table, _: object) -> object:
    source = SegmentSource(path=str(Path(table.path).parents[2] / "landing"), format="parquet")
    return table.segments().add(source, _own(table))


COMMANDS = [
    Command(
        name="write",
        perform=lambda t, _: write(t, rows_of(100, 101), executor=_own(t)),
        model=lambda s: s.then(lambda r: (*r, 100, 101)),
    ),
    Command(
        name="overwrite",
        perform=lambda t, _: t.overwrite(rows_of(200), executor=_own(t)),
        model=lambda s: s.then(lambda _: (200,)),
    ),
    Command(
        name="delete",
        perform=lambda t, _: t.delete("id = 3", _own(t)),
        model=lambda s: s.then(lambda r: tuple(row for row in r if row != 3)),
    ),
    Command(
        name="compact",
        perform=lambda t, _: t.compact(full=True, executor=_own(t)),
        model=lambda s: s.then(lambda r: r),
    ),
    Command(name="expire", perform=lambda t, _: expire_snapshots(t._store, retention=NEWEST)),
    Command(name="clean", perform=lambda t, _: clean_orphan_files(t._store, dry_run=False)),
    Command(
        name="rollback",
        perform=lambda t, _: t.rollback_to(3),
        model=lambda s: replace(s, history=s.history[:3]),
    ),
    Command(name="tag", perform=lambda t, _: t.tags.create("v", 2)),
    Command(name="delete tag", perform=lambda t, _: t.tags.delete("kept")),
    Command(name="branch", perform=lambda t, _: t.branches.create("b", snapshot_id=2)),
    Command(name="alter", perform=lambda t, _: t.alter([add_column("more", "INT")])),
    Command(
        name="rename",
        perform=lambda _, c: c.rename_table(Identifier("d", "t"), Identifier("d", "u")),
    ),
    Command(
        name="drop",
        perform=lambda _, c: c.drop_table(Identifier("d", "t")),
        model=lambda s: replace(s, is_there=False),
    ),
    Command(name="add segment", perform=_add_segment, model=lambda s: s.then(lambda r: (*r, 900))),
]


def prepare(directory: Path) -> None:
    """Make the scene: a table of five snapshots, one tag, a neighbour, and a folder of others.

    All of it is old enough to be an orphan.
    """
    for name in ("t", "neighbour"):
        table = new_table(directory / "warehouse", {"id": "INT"}, name=f"d.{name}")
        executor = OneStorageExecutor(table.state.file_io)
        for ids in ((1, 2), (3,)):
            table.new_write_builder().write(rows_of(*ids), executor)
        table.new_row_change_builder().delete("id = 1", executor)
        for number in (4, 5):
            table.new_write_builder().write(rows_of(number), executor)
        table.tags.create("kept", 1)
    foreign.write(directory / "landing" / "1.parquet", rows_of(900))
    old = time.time() - 2 * DAY_MS / 1000
    for path in directory.rglob("*"):
        os.utime(path, (old, old))


@dataclass
class Turns:
    """Whose storage call is next, of two commands at once: a seed decides."""

    random: Random
    changed: Condition = field(default_factory=Condition)
    at_work: set[int] = field(default_factory=lambda: {0, 1})
    holder: int = 0

    def take(self, who: int) -> None:
        """Wait until it is a command's turn, and say whose is the next.

        Not for ever: the other may wait for a lock of this process that this one holds.
        """
        with self.changed:
            self.changed.wait_for(lambda: self.holder == who, _PATIENCE_SECONDS)
            self.holder = self.random.choice(sorted(self.at_work))
            self.changed.notify_all()

    def leave(self, who: int) -> None:
        with self.changed:
            self.at_work.discard(who)
            self.holder = 1 - who
            self.changed.notify_all()


def opened(directory: Path, file_io: FileIO) -> tuple[Table, FilesystemCatalog]:
    warehouse = str(directory / "warehouse")
    table = Table(FileStore.open(LocalFileIO(), f"{warehouse}/d.db/t"))
    store = msgspec.structs.replace(table._store, file_io=file_io)
    return Table(store), FilesystemCatalog(warehouse, file_io)


def outcome(command: Command, table: Table, catalog: FilesystemCatalog) -> PaimonError | None:
    try:
        command.perform(table, catalog)
    except PaimonError as error:
        return error
    return None


def stepped(directory: Path, one: Command, other: Command, call: int) -> list[PaimonError | None]:
    """Do one command, and the other whole before a call of it; less than two results if none."""
    second = opened(directory, LocalFileIO())
    results: list[PaimonError | None] = []
    # A thread of its own, because the one may hold a lock of this process that the other needs.
    thread = Thread(target=lambda: results.append(outcome(other, *second)))

    def before(number: int, method: str, path: str) -> None:
        if number == call:
            thread.start()
            thread.join(_PATIENCE_SECONDS * 20)

    table, catalog = opened(directory, FaultyFileIO(LocalFileIO(), before=before))
    first = outcome(one, table, catalog)
    if thread.ident is not None:
        thread.join(120)
        assert results, f"{other.name} hangs, or raised what is no error of this engine"
    return [first, *results]


def interleaved(
    directory: Path, pair: tuple[Command, Command], seed: int
) -> list[PaimonError | None]:
    """Do two commands at once, call by call as a seed says."""
    turns = Turns(Random(seed))  # noqa: S311  # the same again for the same seed
    results: list[PaimonError | None] = [None, None]
    crashes: list[BaseException] = []

    def run(who: int) -> None:
        try:
            results[who] = outcome(pair[who], *both[who])
        except BaseException as error:  # noqa: BLE001  # raised below
            crashes.append(error)
        finally:
            turns.leave(who)

    def taking(who: int) -> FileIO:
        return FaultyFileIO(LocalFileIO(), before=lambda *_: turns.take(who))

    both = [opened(directory, taking(who)) for who in (0, 1)]
    threads = [Thread(target=run, args=(who,)) for who in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive(), f"{pair[0].name} and {pair[1].name} hang, seed {seed}"
    for crash in crashes:
        raise crash
    return results


def possible(pair: tuple[Command, Command], results: list[PaimonError | None]) -> Iterator[State]:
    """Yield what may be: the commands that succeeded, in any order; unknown ones, or not."""
    done = [command for command, error in zip(pair, results, strict=True) if error is None]
    unknown = [
        command
        for command, error in zip(pair, results, strict=True)
        if isinstance(error, CommitUnknownError)
    ]
    for extra in ([], unknown):
        for order in permutations([*done, *extra]):
            state = State()
            for command in order:
                if state.is_there:
                    state = command.model(state)
            yield state
            if any(command.name == "rollback" for command in unknown):
                yield from (State(SCENE[:length]) for length in (3, 4, 5))


def check(
    directory: Path, pair: tuple[Command, Command], results: list[PaimonError | None]
) -> None:
    """Raise if a row is lost or doubled, a file is missing, or something outside was touched."""
    warehouse = directory / "warehouse" / "d.db"
    states = list(possible(pair, results))
    there = [name for name in ("t", "u") if list(warehouse.glob(f"{name}/schema/schema-*"))]
    for gone in {"t", "u"} - set(there):
        left = [*warehouse.glob(f"{gone}/snapshot/snapshot-*"), *warehouse.glob(f"{gone}/tag/*")]
        assert not left, f"left where no table is: {left}"
    if not there:
        assert any(not state.is_there for state in states), "the table is gone"
    else:
        assert len(there) == 1, there
        assert any(state.is_there for state in states), "the table is there"
        table = Table(FileStore.open(LocalFileIO(), str(warehouse / there[0])))
        rows = rows_in(table)
        expected = {state.history[-1] for state in states if state.is_there}
        assert rows in expected, f"rows {rows}, expected one of {expected}"
        check_whole(table._store)
        for name in table.branches.list():
            check_whole(table.at_branch(name)._store)
        # And life goes on.
        rows_after = rows_of(300)
        for column in table.schema.fields[1:]:
            rows_after = rows_after.append_column(column.name, pa.nulls(1, pa.int32()))
        table.new_write_builder().write(rows_after, OneStorageExecutor(table.state.file_io))
        expire_snapshots(table._store, retention=NEWEST)
        check_whole(table._store)
        assert rows_in(table) == tuple(sorted((*rows, 300)))


def rows_in(table: Table) -> Rows:
    return tuple(number for (number,) in read(table, ["id"]))


def check_whole(store: FileStore) -> None:
    """Raise if a snapshot is not built on the one before, or one or a tag lacks a file."""
    ids = store.snapshots.list_ids()
    assert ids == list(range(ids[0], ids[0] + len(ids))), ids
    snapshots = [store.snapshots.snapshot(number) for number in ids]
    for below, above in pairwise(snapshots):
        assert above.properties[BUILT_ON_PROPERTY] == below.delta_manifest_list, above.id
    for snapshot in [*snapshots, *(tag.snapshot for tag in store.tags.list())]:
        paths = set(metadata_paths(store, snapshot))
        for entry in FileStoreScan(store).live_files(snapshot):
            bucket = store.partitions.bucket_path(store.paths, entry.partition, entry.bucket)
            paths.add(entry.file.external_path or f"{bucket}/{entry.file.file_name}")
        missing = [path for path in paths if not LocalFileIO().exists(path)]
        assert not missing, f"snapshot {snapshot.id} lacks {missing}"


def outside(directory: Path) -> dict[str, tuple[int, bytes]]:
    """Return what lies beside the table: path → (mtime, bytes)."""
    roots = (directory / "landing", directory / "warehouse" / "d.db" / "neighbour")
    return {
        str(path.relative_to(directory)): (path.stat().st_mtime_ns, path.read_bytes())
        for root in roots
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def copy_of(scene: Path, target: Path) -> dict[str, tuple[int, bytes]]:
    """Copy the scene, and return what lies beside its table."""
    shutil.copytree(scene, target)
    return outside(target)
