"""Bugs put into our code on purpose: the simulation finds each of them, so it can fail."""

from contextlib import suppress

import pytest

from paimon_assets.engine.codec.json.metadata_json import tag_to_json
from paimon_assets.engine.control.commit import checks, look_back
from paimon_assets.engine.control.commit.commit_files import CommitFiles
from paimon_assets.engine.control.maintenance import expire_snapshots, orphan_files, references
from paimon_assets.engine.control.managers import branch_manager
from paimon_assets.engine.control.managers.schema_manager import SchemaManager
from paimon_assets.engine.control.managers.snapshot_manager import SnapshotManager
from paimon_assets.engine.control.managers.tag_manager import TagManager
from paimon_assets.engine.errors import PaimonError, StorageError
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.fileio.object_store import ObjectFileIO
from paimon_assets.engine.fileio.object_uploads import Upload
from paimon_assets.engine.table.write.write_builder import WriteBuilder
from paimon_assets.erasure.run import _Erasure
from paimon_assets.iceberg.publish import Publisher
from paimon_assets.iceberg.state import HINT_NAME
from tests.simulation.interleavings import explore
from tests.simulation.runs import Schedule, draw
from tests.simulation.world import Kind

MOST_RUNS = 300
"""A bug that none of so many runs finds is not found."""
NOTHING = staticmethod(lambda *_, **__: None)


def _publish(self, path, data):
    self.replace(path, data)
    return True


def _is_failure(self, path, mark, error):
    raise StorageError(f"'{path}' was not created.")


def _tag(self, name, snapshot, **_):
    self._file_io.publish(self._paths.tag(name), tag_to_json(self._new(name, snapshot, None)))
    return self.get(name)


def _files_first(store, steps, survivor, **more):
    for step in steps:
        expire_snapshots.delete_files(store, [*step.data_paths, *step.metadata_paths])
    return DELETE(store, steps, survivor, **more)


def _close(self):
    with suppress(Exception):
        CLOSE(self)
    self.closed = True


def _point_to(self, version):
    self.file_io.replace(f"{self.directory}/{HINT_NAME}", str(version).encode())
    return False


CLOSE = Upload.close
DELETE = expire_snapshots._delete_snapshots
APPENDS = (("append",), ("append",))
EXPIRE_AND_TAG = (("expire",), ("tag",))
EVERY = {
    "publish without a condition": (LocalFileIO, "publish", _publish, APPENDS),
    "a lost try deletes what the next one names": (
        CommitFiles, "of_changes", lambda _: set(), APPENDS,
    ),
    "changes of the same files are no conflict": (
        checks, "check_conflicts", NOTHING, (("compact",), ("compact",)),
    ),
    "an expiration forgets the branches": (
        references, "other_branches", lambda _: [], (("expire",), ("append",)),
    ),
    "an expiration does not look for new tags": (
        references.Watch, "has_more", lambda _: False, EXPIRE_AND_TAG,
    ),
    "a tag does not look for its snapshot again": (TagManager, "create", _tag, EXPIRE_AND_TAG),
    "a promotion takes a commit's number": (
        branch_manager, "publish_once", lambda file_io, *file: file_io.replace(*file) or True,
        (("promote",), ("append",)),
    ),
    "files go before their snapshot": (
        expire_snapshots, "_delete_snapshots", _files_first, (("expire",), ("append",)),
    ),
}  # fmt: skip
"""Found among all interleavings of two operations."""
DRAWN = {
    "the base is not looked at again": (
        look_back, "looked_back", lambda *_: True,
        (("rollback",), ("append", "append"), ("append",)), Kind.DISK,
    ),
    "a commit beside a branch that becomes main is not looked at again": (
        look_back, "looked_back", lambda *_: True,
        (("forward",), ("append", "append"), ("append",)), Kind.DISK,
    ),
    "a rollback beside an expiration does not look for its target": (
        SnapshotManager, "is_same", lambda *_: True,
        (("rollback",), ("expire", "append")), Kind.DISK,
    ),
    "the hint is trusted": (
        SnapshotManager, "_walked_forward", lambda _, hint: hint, (("append",) * 2,) * 3, Kind.DISK,
    ),
    "a step that is tried again looks for no commit": (
        SnapshotManager, "find_commit_up_to", NOTHING, (("append",) * 3,) * 3, Kind.HDFS,
    ),
    "no answer is taken for a failure": (
        ObjectFileIO, "_looked_up", _is_failure, (("append",) * 8,) * 3, Kind.S3,
    ),
    "the ledger is no part of the commit": (
        WriteBuilder, "with_properties", lambda self, _: self, (("ingest", "ingest"),) * 2, Kind.S3,
    ),
    "an upload whose last part failed is taken for done": (
        Upload, "close", _close, (("append",) * 3,) * 4, Kind.S3,
    ),
    "a late writer does not look for its base": (
        look_back, "_continues", lambda *_: True,
        (("append",), ("append", "append", "expire", "append")), Kind.S3,
    ),
    "a cleaning forgets the branches": (
        references, "other_branches", lambda _: [], (("clean",), ("append",)), Kind.HDFS,
    ),
    "a cleaning takes all files for the table's": (
        orphan_files, "_foreign", lambda *_: {}, (("clean",), ("append",)), Kind.S3,
    ),
    "an erasure gives commits no other base": (
        _Erasure, "_renew_newest", lambda *_: False, (("erase",), ("append",) * 3), Kind.S3,
    ),
    "a table that was made again is taken for the one before": (
        SchemaManager, "is_same", lambda *_: True, (("drop",), ("append",) * 3), Kind.S3,
    ),
    "a slow follower leads Iceberg's readers back": (
        Publisher, "point_to", _point_to, (("append", "append"),) * 3, Kind.HDFS,
    ),
}  # fmt: skip
"""Found where storages fail, or processes die."""


@pytest.mark.parametrize("name", EVERY)
def test_planted_bug_is_found_among_all_interleavings(name, monkeypatch):
    owner, attribute, bug, scripts = EVERY[name]
    monkeypatch.setattr(owner, attribute, bug)
    with pytest.raises((AssertionError, PaimonError)):
        explore(Schedule(scripts=scripts), MOST_RUNS)


@pytest.mark.parametrize("name", DRAWN)
def test_planted_bug_is_found_by_chance(name, monkeypatch):
    owner, attribute, bug, scripts, kind = DRAWN[name]
    monkeypatch.setattr(owner, attribute, bug)
    with pytest.raises((AssertionError, PaimonError)):
        _draw_many(Schedule(kind=kind, scripts=scripts, iceberg=owner is Publisher))


def _draw_many(schedule):
    for seed in range(MOST_RUNS):
        draw(seed, schedule)
