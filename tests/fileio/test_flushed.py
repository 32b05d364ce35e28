"""`file.fsync`: data is flushed before its snapshot is published, and that before a commit ends."""

import os
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_assets.engine.errors import CommitUnknownError
from paimon_assets.engine.fileio.flushed import FlushedFileIO
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.fileio.opening import file_io_for, open_file_io
from paimon_assets.engine.spec.schema.schema import Schema
from tests.testkit.tables import new_catalog_in, new_table

FSYNC = {"file.fsync": "true"}


@pytest.fixture
def calls(monkeypatch):
    """Every flush and every new name, in order: (event, path)."""
    listed: list[tuple[str, str]] = []
    fsync, link = os.fsync, Path.hardlink_to

    def recorded_fsync(handle):
        listed.append(("flush", str(Path(f"/proc/self/fd/{handle}").readlink())))
        fsync(handle)

    def recorded_link(self, target):
        link(self, target)
        listed.append(("name", str(self)))

    monkeypatch.setattr(os, "fsync", recorded_fsync)
    monkeypatch.setattr(Path, "hardlink_to", recorded_link)
    return listed


def lost_by_power_failure(calls, root):
    """Names a disk may not have if the power fails now: files and directories never flushed."""
    flushed = {path for event, path in calls if event == "flush"}
    for path in list(flushed):  # a published file is flushed under a hidden name first
        folder, _, name = path.rpartition("/")
        if name.startswith(".") and name.endswith(".tmp"):
            flushed.add(f"{folder}/{name[1:].rsplit('.', 2)[0]}")
    named = {str(path) for path in Path(root).rglob("*") if not path.name.startswith(".")}
    hints = {path for path in named if Path(path).name in ("LATEST", "EARLIEST")}
    return {path for path in named - hints if Path(path).is_file() and path not in flushed} | {
        path for path in named - hints if str(Path(path).parent) not in flushed
    }


@pytest.mark.parametrize(
    "schema",
    [
        Schema.of({"id": "BIGINT", "day": "STRING"}, partition_keys=["day"]),
        Schema.of({"id": "BIGINT", "day": "STRING"}, primary_keys=["id"], options={"bucket": "2"}),
        Schema.of({"id": "BIGINT", "day": "STRING"}, options={"file.format": "orc"}),
        Schema.of({"id": "BIGINT", "day": "STRING"}, options={"file.format": "avro"}),
    ],
    ids=["partitioned", "keyed", "orc", "avro"],
)
def test_commit_flushes_its_files_first(tmp_path, calls, schema):
    catalog = new_catalog_in(tmp_path / "w", options=FSYNC)
    table = new_table(catalog, schema, pa.table({"id": [1, 2], "day": ["a", "b"]}))
    snapshot = str(tmp_path / "w/db.db/t/snapshot/snapshot-1")
    at = calls.index(("name", snapshot))
    assert lost_by_power_failure(calls[:at], tmp_path / "w/db.db") == set()
    assert ("flush", str(Path(snapshot).parent)) in calls[at:]
    assert table.to_arrow().num_rows == 2


def test_without_option_nothing_is_flushed(tmp_path, calls):
    catalog = new_catalog_in(tmp_path / "w")
    catalog.create_table("db.t", Schema.of({"id": "BIGINT"})).append(pa.table({"id": [1]}))
    assert [call for call in calls if call[0] == "flush"] == []


def test_workers_open_same_storage(tmp_path):
    assert isinstance(open_file_io(file_io_for(str(tmp_path), FSYNC).spec), FlushedFileIO)
    assert type(file_io_for(str(tmp_path), {"file.format": "orc"})) is LocalFileIO


def test_flush_that_fails_after_publish_is_unknown_outcome(tmp_path, monkeypatch):
    path, link = tmp_path / "snapshot-1", Path.hardlink_to
    real = os.fsync

    def link_then_break(self, target):
        link(self, target)
        monkeypatch.setattr(os, "fsync", fail)

    def fail(handle):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Path, "hardlink_to", link_then_break)
    with pytest.raises(CommitUnknownError, match="does not say that it keeps it"):
        FlushedFileIO().publish(str(path), b"{}")
    monkeypatch.setattr(os, "fsync", real)
    assert path.read_bytes() == b"{}"
