import errno
import os
from contextlib import contextmanager
from pathlib import Path

import pytest

from paimon_assets.engine import errors
from paimon_assets.engine.fileio.local import LocalFileIO, local_path
from tests.testkit.faults.writers import fork_server

_FORKED = fork_server()


def test_fresh_file_is_never_overwritten(tmp_path):
    path = str(tmp_path / "manifest-1")
    LocalFileIO().write_bytes(path, b"first")
    with pytest.raises(errors.StorageError, match="manifest-1"):
        LocalFileIO().write_bytes(path, b"second")
    assert Path(path).read_bytes() == b"first"


def test_host_in_file_path_is_refused():
    with pytest.raises(errors.InvalidInputError, match="host"):
        local_path("file://server/share")


def test_full_disk_is_storage_error_and_leaves_no_temporary_file(tmp_path, monkeypatch):
    opened = Path.open

    def full(self: Path, mode: str):
        opened(self, mode).close()
        return opened(Path("/dev/full"), "wb")

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(errors.StorageError, match="No space"):
        LocalFileIO().publish(str(tmp_path / "snapshot-1"), b"{}")
    assert list(tmp_path.iterdir()) == []


_REAL_LINK = Path.hardlink_to


def _failing_link(number: int, *, done: bool):
    def link(self: Path, target: Path) -> None:
        if done:
            _REAL_LINK(self, target)
        raise OSError(number, os.strerror(number))

    return link


def test_file_system_without_hard_links_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "hardlink_to", _failing_link(errno.EPERM, done=False))
    with pytest.raises(errors.UnsupportedFeatureError, match=r"hard links.*serve --sole-writer"):
        LocalFileIO().publish(str(tmp_path / "snapshot-1"), b"{}")
    assert list(tmp_path.iterdir()) == []


def test_unclear_answer_is_unknown_unless_link_exists(tmp_path, monkeypatch):
    path = str(tmp_path / "snapshot-1")
    monkeypatch.setattr(Path, "hardlink_to", _failing_link(errno.EIO, done=False))
    with pytest.raises(errors.CommitUnknownError, match="snapshot-1"):
        LocalFileIO().publish(path, b"{}")
    monkeypatch.setattr(Path, "hardlink_to", _failing_link(errno.EIO, done=True))
    assert LocalFileIO().publish(path, b"{}") is True


def test_repeated_link_of_own_file_succeeds(tmp_path, monkeypatch):
    # An NFS client repeats a call whose answer was lost, and gets "exists".
    monkeypatch.setattr(Path, "hardlink_to", _failing_link(errno.EEXIST, done=True))
    assert LocalFileIO().publish(str(tmp_path / "snapshot-1"), b"{}") is True


def test_undeletable_temporary_file_keeps_publish(tmp_path, monkeypatch):
    def stuck(self: Path, *, missing_ok: bool = False) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(Path, "unlink", stuck)
    assert LocalFileIO().publish(str(tmp_path / "snapshot-1"), b"{}") is True


def _publish(path: str, index: int, barrier, answers) -> None:
    barrier.wait()
    answers.put((index, LocalFileIO().publish(path, str(index).encode())))


def test_one_of_several_processes_publishes(tmp_path):
    barrier, answers = _FORKED.Barrier(3), _FORKED.Queue()
    path = str(tmp_path / "deep" / "snapshot-1")
    processes = [
        _FORKED.Process(target=_publish, args=(path, index, barrier, answers)) for index in range(3)
    ]
    for process in processes:
        process.start()
    won = dict(answers.get(timeout=60) for _ in processes)
    for process in processes:
        process.join()
    winners = [index for index, answer in won.items() if answer]
    assert len(winners) == 1
    assert Path(path).read_bytes() == str(winners[0]).encode()


def test_listing_has_newest_of_replaced_files(tmp_path, monkeypatch):
    (tmp_path / "names-1.json").write_bytes(b"{}")
    scanned, real = [], os.scandir

    @contextmanager
    def overtaken(path):
        with real(path) as entries:
            names = list(entries)
        if len(scanned) < 2:  # the listed files are deleted before their status is read
            scanned.append(names)
            (tmp_path / f"names-{len(scanned) + 1}.json").write_bytes(b"{}")
            (tmp_path / f"names-{len(scanned)}.json").unlink()
        yield iter(names)

    monkeypatch.setattr("paimon_assets.engine.fileio.local.os.scandir", overtaken)
    assert [entry.name for entry in LocalFileIO().list_directory(str(tmp_path))] == ["names-3.json"]


def test_rename_keeps_listing_length(tmp_path, monkeypatch):
    (tmp_path / ".snapshot-1.0a.tmp").write_bytes(b"{}")
    scans, real = [], os.scandir

    @contextmanager
    def publish_meanwhile(path):
        with real(path) as entries:
            names = list(entries)
        scans.append(path)
        (tmp_path / ".snapshot-1.0a.tmp").unlink(missing_ok=True)
        yield iter(names)

    monkeypatch.setattr("paimon_assets.engine.fileio.local.os.scandir", publish_meanwhile)
    assert LocalFileIO().list_directory(str(tmp_path)) == []
    assert len(scans) == 1
