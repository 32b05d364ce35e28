import os
import signal
import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from paimon_assets.engine.control.commit.file_store_commit import FileStoreCommit
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.errors import (
    CommitConflictError,
    CommitUnknownError,
    InvalidInputError,
    StorageError,
    UnsupportedFeatureError,
)
from paimon_assets.engine.fileio.atomic import NO_ATOMIC_PUBLISH
from paimon_assets.engine.fileio.catalog_lock import JdbcLock
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.fileio.locked import LockedFileIO
from paimon_assets.engine.fileio.opening import file_io_for
from tests.testkit.faults.writers import fork_server
from tests.testkit.metadata_tables import live_names, message, new_store, plain_file

_FORKED = fork_server()
_WRITERS, _COMMITS = 2, 15

_OF_JAVA = """
CREATE TABLE paimon_distributed_locks(
    lock_id VARCHAR(255) NOT NULL, acquired_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL,
    expire_time_seconds BIGINT DEFAULT 0 NOT NULL, PRIMARY KEY (lock_id))"""
"""As Java's catalogs made it before locks had owners."""


class _PlainFileIO(LocalFileIO):
    """A storage without an atomic create."""

    def publish(self, path: str, data: bytes) -> bool:
        raise UnsupportedFeatureError("Cannot.", kind=NO_ATOMIC_PUBLISH)


@dataclass(slots=True)
class _Time:
    """A clock that goes on by waiting alone."""

    now: float = 0.0
    waits: list[float] = field(default_factory=list)

    def clock(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds


def _options(tmp_path: Path, **more: str) -> dict[str, str]:
    uri = f"jdbc:sqlite:{tmp_path}/locks.db"
    return {"lock.enabled": "true", "lock.type": "jdbc", "uri": uri, **more}


def _lock(tmp_path: Path, time: _Time | None = None, timeout_ms: int = 10_000) -> JdbcLock:
    time = time or _Time()
    return JdbcLock(
        database=f"{tmp_path}/locks.db",
        catalog_key="jdbc",
        acquire_timeout_ms=timeout_ms,
        check_max_sleep_ms=1_000,
        clock=time.clock,
        wait=time.wait,
    )


def _rows(tmp_path: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(tmp_path / "locks.db")) as database:
        return list(database.execute("SELECT lock_id FROM paimon_distributed_locks"))


def _age(tmp_path: Path, seconds: int) -> None:
    with closing(sqlite3.connect(tmp_path / "locks.db", isolation_level=None)) as database:
        database.execute(
            "UPDATE paimon_distributed_locks SET acquired_at = datetime('now', ?)",
            (f"-{seconds} seconds",),
        )


def _commit_often(table: str, options: dict[str, str], writer: int, barrier) -> None:
    store = FileStore.open(LockedFileIO(_PlainFileIO(), options), table)
    barrier.wait()
    for number in range(_COMMITS):
        FileStoreCommit(store).commit(
            [message(plain_file(f"data-{writer}-{number}"))],
            commit_user=f"writer-{writer}",
            commit_identifier=number,
        )


def _hold_until_killed(tmp_path: Path, held) -> None:
    with _lock(tmp_path).hold("d.t"):
        held.set()
        signal.pause()


def test_processes_on_a_storage_without_an_atomic_create_lose_no_commit(tmp_path):
    table, barrier = new_store(tmp_path), _FORKED.Barrier(_WRITERS)
    arguments = (table.table_path, _options(tmp_path, **{"lock-check-max-sleep": "5 ms"}))
    writers = [
        _FORKED.Process(target=_commit_often, args=(*arguments, writer, barrier))
        for writer in range(_WRITERS)
    ]
    for process in writers:
        process.start()
    for process in writers:
        process.join()
    assert [process.exitcode for process in writers] == [0] * _WRITERS
    names = {f"data-{writer}-{n}" for writer in range(_WRITERS) for n in range(_COMMITS)}
    assert sorted(live_names(table)) == sorted(names)
    assert table.snapshots.list_ids() == list(range(1, 1 + len(names)))
    assert _rows(tmp_path) == []


def test_a_lock_whose_holder_was_killed_is_taken_over_when_it_has_expired(tmp_path):
    held = _FORKED.Event()
    holder = _FORKED.Process(target=_hold_until_killed, args=(tmp_path, held))
    holder.start()
    assert held.wait(60)
    os.kill(holder.pid, signal.SIGKILL)
    holder.join()
    time = _Time()
    with pytest.raises(CommitConflictError) as caught, _lock(tmp_path, time).hold("d.t"):
        pass
    assert caught.value.kind == "lock-timeout"
    assert time.waits[:5] == [0.1, 0.2, 0.4, 0.8, 1.0]
    assert time.now >= 10
    with _lock(tmp_path).hold("d.other"):
        assert len(_rows(tmp_path)) == 2
    _age(tmp_path, seconds=12)
    with _lock(tmp_path).hold("d.t"):
        assert _rows(tmp_path) == [("jdbc.d.t",)]
    assert _rows(tmp_path) == []


def test_a_holder_slower_than_its_lock_does_not_say_that_it_won(tmp_path):
    time = _Time()
    slow = _lock(tmp_path, time).hold("t")
    slow.__enter__()
    time.now += 10
    _age(tmp_path, seconds=12)
    with _lock(tmp_path).hold("t"):
        with pytest.raises(CommitUnknownError, match="taken it over"):
            slow.__exit__(None, None, None)
        assert len(_rows(tmp_path)) == 1
    assert _rows(tmp_path) == []


def test_the_row_of_a_java_writer_keeps_us_out_and_its_table_is_taken_as_it_is(tmp_path):
    with closing(sqlite3.connect(tmp_path / "locks.db", isolation_level=None)) as database:
        database.execute(_OF_JAVA)
        database.execute(
            "INSERT INTO paimon_distributed_locks (lock_id, expire_time_seconds) VALUES (?, ?)",
            ("jdbc.d.t", 480),
        )
    with pytest.raises(CommitConflictError), _lock(tmp_path).hold("d.t"):
        pass
    with _lock(tmp_path).hold("d.u"):
        assert ("jdbc.d.u",) in _rows(tmp_path)
    assert _rows(tmp_path) == [("jdbc.d.t",)]


def test_a_failure_under_the_lock_releases_it_and_is_raised(tmp_path):
    with pytest.raises(StorageError, match="full"), _lock(tmp_path).hold("d.t"):
        raise StorageError("full")
    assert _rows(tmp_path) == []


def test_a_database_that_cannot_be_opened_is_a_storage_error(tmp_path):
    options = _options(tmp_path, uri=f"jdbc:sqlite:{tmp_path}/nowhere/locks.db")
    with pytest.raises(StorageError, match="nowhere") as caught:
        file_io_for(str(tmp_path), options).publish(f"{tmp_path}/snapshot/snapshot-1", b"{}")
    assert caught.value.kind == "lock"


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        ({"lock.type": "hive"}, "lock-type"),
        ({"lock.type": ""}, "lock-type"),
        ({"uri": ""}, "lock-uri"),
        ({"uri": "jdbc:sqlite:relative.db"}, "lock-uri"),
        ({"uri": "jdbc:sqlite::memory:"}, "lock-uri"),
        ({"uri": "jdbc:mysql://host/db"}, "lock-uri"),
    ],
)
def test_another_lock_is_refused_by_name_before_anything_is_published(tmp_path, wrong, kind):
    file_io = file_io_for(str(tmp_path), _options(tmp_path, **wrong))
    with pytest.raises((InvalidInputError, UnsupportedFeatureError)) as caught:
        file_io.publish(f"{tmp_path}/snapshot-1", b"{}")
    assert caught.value.kind == kind
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("uri", ["jdbc:sqlite:{}", "sqlite://{}", "sqlite:///{}"])
def test_both_spellings_of_a_database_are_one_file(tmp_path, uri):
    options = _options(tmp_path, uri=uri.format(f"{tmp_path}/locks.db"))
    file_io = LockedFileIO(_PlainFileIO(), options)
    assert file_io.publish(f"{tmp_path}/t/snapshot/snapshot-1", b"first") is True
    assert file_io.publish(f"{tmp_path}/t/snapshot/snapshot-1", b"second") is False
    assert file_io.read_bytes(f"{tmp_path}/t/snapshot/snapshot-1") == b"first"
    assert (tmp_path / "locks.db").exists()


def test_without_a_lock_the_storage_that_needs_one_says_how_to_get_it(tmp_path, monkeypatch):
    def no_links(self: Path, target: Path) -> None:
        raise OSError(1, os.strerror(1))

    monkeypatch.setattr(Path, "hardlink_to", no_links)
    with pytest.raises(UnsupportedFeatureError, match=r"lock\.enabled") as caught:
        LocalFileIO().publish(str(tmp_path / "snapshot-1"), b"{}")
    assert caught.value.kind == NO_ATOMIC_PUBLISH
    assert file_io_for(str(tmp_path), _options(tmp_path)).publish(f"{tmp_path}/s/snapshot-1", b"{}")
