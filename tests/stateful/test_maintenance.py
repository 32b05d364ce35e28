"""Maintenance deletes no file that a reader needs, after any history of a table.

Histories are drawn from seeds, each of some kind of table. No model has the expected rows. The
rows of a snapshot, tag or branch are noted when they are first read, under the name of its delta
list, which is unique: later reads must give the same rows.
"""

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_assets.engine.contract.executor import Curve
from paimon_assets.engine.control.commit.file_store_commit import FileStoreCommit
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.maintenance import expire_snapshots as expiry
from paimon_assets.engine.control.maintenance import references as ref
from paimon_assets.engine.control.maintenance.expire_partitions import compact_manifests
from paimon_assets.engine.control.maintenance.orphan_files import clean_orphan_files
from paimon_assets.engine.control.maintenance.tag_files import delete_tag
from paimon_assets.engine.control.scan.file_store_scan import FileStoreScan
from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.errors import UnsupportedFeatureError
from paimon_assets.engine.spec.metadata.manifest import ManifestEntry
from paimon_assets.engine.spec.metadata.snapshot import Snapshot, Statistics
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.table.api import open_catalog
from paimon_assets.engine.table.read.read_builder import ReadBuilder
from paimon_assets.engine.table.segments.segment_import import SegmentSource
from paimon_assets.engine.table.table import Table
from tests.testkit.effort import is_hunt
from tests.testkit.foreign import states, write
from tests.testkit.metadata_tables import FixedClock, foreign_files

_EXECUTOR = EmbeddedExecutor(threads=1)
_LATER = FixedClock(now=4_000_000_000_000)
_COLUMNS = {"part": "INT", "id": "INT", "v": "INT"}
_KINDS: dict[str, dict[str, str]] = {
    "append": {"bucket": "-1"},
    "append, with vectors": {"bucket": "-1", "deletion-vectors.enabled": "true"},
    "key": {"bucket": "1"},
    "key, with changelog": {"bucket": "1", "changelog-producer": "input"},
    "key, changelog of compactions": {"bucket": "1", "changelog-producer": "lookup"},
    "key, with vectors": {"bucket": "1", "deletion-vectors.enabled": "true", "write-only": "true"},
    "key, changelogs live longer": {
        "bucket": "1",
        "changelog-producer": "input",
        "changelog.num-retained.min": "20",
    },
    "key, deltas live longer": {"bucket": "1", "changelog.num-retained.min": "20"},
    "key, with indexes": {"bucket": "-1", "dynamic-bucket.target-row-num": "2"},
    "key, rows that wait": {"bucket": "-2", "postpone.batch-write-fixed-bucket": "false"},
}
_STEPS = 30 if is_hunt() else 20
_LINEAR_SEEDS = range(len(_KINDS))
_OTHER_SEEDS = range(2 * len(_KINDS))


class Keeper:
    """Remembers the rows of every snapshot."""

    def __init__(self) -> None:
        self._shown: dict[str, list[Any]] = {}

    def check(self, table: Table) -> None:
        """Read all there is, of all branches, and compare."""
        self.note(table, again=True)
        assert foreign_files(table._store) == []
        for store in (table._store, *ref.other_branches(table._store)):
            for snapshot in ref.existing_snapshots(store):
                check_files(store, snapshot)
            for changelog in ref.existing_changelogs(store):
                _check_changelog(store, changelog)

    def note(self, table: Table, *, again: bool = False) -> None:
        """Read states that were not read before; all of them with `again`."""
        for store in (table._store, *ref.other_branches(table._store)):
            reader = Table(store).new_read_builder()
            for snapshot in ref.existing_snapshots(store):
                if again or snapshot.delta_manifest_list not in self._shown:
                    self._compare(snapshot, reader.at_snapshot(snapshot.id))
            for tag in store.tags.list():
                if again or tag.snapshot.delta_manifest_list not in self._shown:
                    self._compare(tag.snapshot, reader.at_tag(tag.name))

    def _compare(self, snapshot: Snapshot, reader: ReadBuilder) -> None:
        shown = sorted(map(str, reader.to_arrow(_EXECUTOR).to_pylist()))
        assert self._shown.setdefault(snapshot.delta_manifest_list, shown) == shown


def check_files(store: FileStore, snapshot: Snapshot) -> None:
    """Files that no read opens are there, too."""
    assert all(map(store.file_io.exists, ref.metadata_paths(store, snapshot)))
    for entry in ref.changelog_entries(store, snapshot):
        assert all(map(store.file_io.exists, ref.data_file_paths(store, entry)))


def _check_changelog(store: FileStore, changelog: Snapshot) -> None:
    """Tags and changelogs can be read after their snapshot expired."""
    entries = list(ref.retained_changelog(store, changelog))
    if changelog.changelog_manifest_list is not None:
        assert sum(entry.file.row_count for entry in entries) == changelog.changelog_record_count
    for entry in entries:
        assert all(map(store.file_io.exists, ref.data_file_paths(store, entry)))


def needed_exactly(store: FileStore) -> set[str]:
    """Return the data files that a branch needs, none that is only named."""
    entries = [
        entry for s in ref.existing_snapshots(store) for entry in ref.changelog_entries(store, s)
    ]
    entries += [e for s in ref.existing_changelogs(store) for e in ref.retained_changelog(store, s)]
    snapshots = ref.existing_snapshots(store) + [tag.snapshot for tag in store.tags.list()]
    for snapshot in snapshots:
        entries += FileStoreScan(store).live_files(snapshot)
    return {path for entry in entries for path in ref.data_file_paths(store, entry)}


def named_files(store: FileStore) -> set[str]:
    """Return the data files that some manifest of a snapshot or tag names, be it as deleted."""
    entries: list[ManifestEntry] = []
    for snapshot in ref.existing_snapshots(store) + [tag.snapshot for tag in store.tags.list()]:
        entries += store.manifests.read_all(store.manifests.manifests_of(snapshot))
    return {path for entry in entries for path in ref.data_file_paths(store, entry)}


def stored_files(store: FileStore) -> set[str]:
    """Return the data files that lie in a table's buckets."""
    return {str(path) for path in Path(store.table_path).rglob("bucket-*/*")}


class History:
    """One table of some kind, and all that may happen to it while its history is a line."""

    is_linear = True
    """Whether files can only become superfluous by expiring."""

    def __init__(self, home: Path, seed: int) -> None:
        self._home = home
        self._rng = random.Random(seed)  # noqa: S311  # no secret depends on it
        self._number = 0
        kinds = sorted(_KINDS)
        kind = kinds[seed % len(kinds)]
        keyed = kind.startswith("key")
        partition_keys = ["part"] if self._rng.random() < 0.4 else []
        schema = Schema.of(
            _COLUMNS,
            partition_keys=partition_keys,
            primary_keys=[*partition_keys, "id"] if keyed else [],
            options={"compaction.min.file-num": "2", "snapshot.num-retained.min": "1"}
            | _KINDS[kind],
        )
        catalog = open_catalog(str(home / "warehouse"))
        catalog.create_database("d")
        self._table = catalog.create_table("d.t", schema)
        self._keeper = Keeper()
        data = pa.table(dict.fromkeys(_COLUMNS, pa.array([9], pa.int32())))
        write(home / "foreign" / "part=9" / "0.parquet", data.drop_columns(partition_keys))
        self._foreign = states(home / "foreign")
        self._events = [self.write] * 6 + [self.compact] * 2 + [self.tag, self.expire] * 2
        self._events += [self.overwrite, self.analyze, self.delete_a_tag]
        self._events += [self.expire_changelogs, self.look_for_orphans, self.compact_manifests]
        self._events += [self.delete_rows]
        if not keyed:
            self._events += [self.sort, self.add_a_segment, self.delete_segments]
        self.told: list[str] = []
        """The steps, for a failure."""

    @property
    def _store(self) -> FileStore:
        return self._table._store

    def run(self) -> None:
        """Let it happen."""
        self.write()
        for _ in range(_STEPS):
            event = self._rng.choice(self._events)
            self.told.append(event.__name__)
            event()
            assert states(self._home / "foreign") == self._foreign
            if self.is_linear:
                assert stored_files(self._store) == needed_exactly(self._store)

    def write(self) -> None:
        self._write(self._table)

    def _write(self, table: Table) -> None:
        rows = self._rows(self._rng.randint(1, 3))
        table.new_write_builder().write(rows, _EXECUTOR)

    def _rows(self, count: int) -> pa.Table:
        self._number += 1
        part = self._rng.randint(0, 1)
        columns = {
            "part": [part] * count,
            "id": [self._rng.randint(0, 5) for _ in range(count)],
            "v": [self._number] * count,
        }
        return pa.table({name: pa.array(column, pa.int32()) for name, column in columns.items()})

    def overwrite(self) -> None:
        rows = self._rows(self._rng.randint(1, 2))
        self._table.new_write_builder().with_dynamic_overwrite().write(rows, _EXECUTOR)

    def delete_rows(self) -> None:
        builder = self._table.new_row_change_builder()
        try:
            builder.delete(f"id = {self._rng.randint(0, 5)}", _EXECUTOR)
        except UnsupportedFeatureError as error:
            if error.kind != "rows-wait":
                raise

    def compact(self) -> None:
        strategy = self._rng.choice(["minor", "full"])
        self._table.new_compaction_builder().with_strategy(strategy).run(_EXECUTOR)

    def sort(self) -> None:
        sorting = self._table.new_compaction_builder().with_strategy("sort")
        sorting.with_order(["v", "id"], self._rng.choice(list(Curve))).run(_EXECUTOR)

    def compact_manifests(self) -> None:
        self._number += 1
        compact_manifests(self._store, commit_user=f"manifests-{self._number}")

    def analyze(self) -> None:
        self._number += 1
        newest = self._table.refresh().schema.id
        FileStoreCommit(self._store).commit_statistics(
            Statistics(snapshot_id=1, schema_id=newest, columns={}),
            commit_user=f"analyze-{self._number}",
            commit_identifier=1,
        )

    def add_a_segment(self) -> None:
        partition = "part:int" if self._table.schema.partition_keys else None
        path = str(self._home / "foreign")
        source = SegmentSource(path=path, format="parquet", partition=partition, only_new=True)
        self._table.segments().add(source, _EXECUTOR)

    def delete_segments(self) -> None:
        live = self._table.segments().live()
        if live:
            self._table.segments().delete([segment.id for segment in live])

    def tag(self) -> None:
        self._number += 1
        self._table.tags.create(f"tag{self._number}", self._some_snapshot())

    def delete_a_tag(self) -> None:
        names = [tag.name for tag in self._table.tags.list() if tag.name.startswith("tag")]
        if names:
            name = self._rng.choice(names)
            self._maintain(lambda: delete_tag(self._store, name))

    def expire(self) -> None:
        keep = self._retention()
        self._maintain(lambda: expiry.expire_snapshots(self._store, retention=keep))

    def expire_changelogs(self) -> None:
        keep = self._retention()
        self._maintain(lambda: expiry.expire_changelogs(self._store, retention=keep))

    def _retention(self) -> expiry.Retention:
        kept, limit = self._rng.randint(1, 4), self._rng.randint(2, 9)
        return expiry.Retention(min_count=1, max_count=kept, time_ms=10**15, limit=limit)

    def look_for_orphans(self) -> None:
        before = stored_files(self._store)
        self._maintain(lambda: clean_orphan_files(self._store, older_than_ms=0))
        assert stored_files(self._store) == before
        self._maintain(self._clean)
        found = clean_orphan_files(self._store, older_than_ms=0, clock=_LATER)
        assert found.files == ()

    def _clean(self) -> None:
        cleaned = clean_orphan_files(self._store, older_than_ms=0, dry_run=False, clock=_LATER)
        assert cleaned.files == () or not self.is_linear

    def _maintain(self, action: Callable[[], object]) -> None:
        self._keeper.note(self._table)
        action()
        self._keeper.check(self._table)

    def _some_snapshot(self) -> int:
        return self._rng.choice([each.id for each in self._table.snapshots()])


class TangledHistory(History):
    """With branches that have tags and consumers too, ways back, and writes that were given up."""

    is_linear = False

    def __init__(self, home: Path, seed: int) -> None:
        super().__init__(home, seed)
        self._events += [self.branch, self.write_to_a_branch, self.expire_a_branch] * 2
        self._events += [self.abandon, self.roll_back, self.roll_back_to_a_tag]
        self._events += [self.fast_forward, self.delete_a_branch, self.consume]
        self._events += [self.look_for_orphans, self.tag_a_branch, self.delete_a_branchs_tag]

    def abandon(self) -> None:
        builder = self._table.new_write_builder()
        assert _EXECUTOR.map_rows(builder.prepare(), self._rows(1)).messages  # not committed

    def roll_back(self) -> None:
        self._table.rollback_to(self._some_snapshot())

    def roll_back_to_a_tag(self) -> None:
        names = [tag.name for tag in self._table.tags.list()]
        if names:
            self._table.rollback_to(self._rng.choice(names))

    def branch(self) -> None:
        self._number += 1
        names = [tag.name for tag in self._table.tags.list()]
        if names and self._rng.random() < 0.5:
            self._table.branches.create(f"b{self._number}", tag=self._rng.choice(names))
        else:
            self._table.branches.create(f"b{self._number}", snapshot_id=self._some_snapshot())

    def write_to_a_branch(self) -> None:
        for branch in self._some_branch():
            for _ in range(self._rng.randint(1, 3)):
                self._write(branch)
            if self._rng.random() < 0.5:
                branch.new_compaction_builder().with_strategy("full").run(_EXECUTOR)

    def expire_a_branch(self) -> None:
        keep = self._retention()
        for branch in self._some_branch():
            self._maintain(partial(expiry.expire_snapshots, branch._store, retention=keep))

    def fast_forward(self) -> None:
        for branch in self._some_branch():
            self._table.branches.fast_forward(branch._store.paths.branch)

    def delete_a_branch(self) -> None:
        for branch in self._some_branch():
            self._table.branches.delete(branch._store.paths.branch)

    def _some_branch(self) -> list[Table]:
        """Return a branch, or nothing if there is none."""
        names = sorted(self._table.branches.list())
        return [self._table.at_branch(self._rng.choice(names))] if names else []

    def tag_a_branch(self) -> None:
        self._number += 1
        for branch in self._some_branch():
            number = self._rng.choice([each.id for each in branch.snapshots()])
            branch.tags.create(f"tag{self._number}", number)

    def delete_a_branchs_tag(self) -> None:
        for branch in self._some_branch():
            for tag in branch.tags.list()[:1]:
                self._maintain(partial(delete_tag, branch._store, tag.name))

    def consume(self) -> None:
        for table in (self._table, *self._some_branch()):
            if self._rng.random() < 0.5:
                table.consumers.delete("reader")
            else:
                number = self._rng.choice([each.id for each in table.snapshots()])
                table.consumers.reset("reader", number)

    def _maintain(self, action: Callable[[], object]) -> None:
        """Snapshots that a consumer of any branch reads next stay."""
        tables = [self._table, *map(self._table.at_branch, self._table.branches.list())]
        waiting = [(table, table.consumers.next_snapshot("reader")) for table in tables]
        held = [
            (table, wanted)
            for table, wanted in waiting
            if wanted in [snapshot.id for snapshot in table.snapshots()]
        ]
        super()._maintain(action)
        for table, wanted in held:
            assert wanted in [snapshot.id for snapshot in table.snapshots()]


@pytest.mark.hunt
@pytest.mark.parametrize("seed", _LINEAR_SEEDS)
def test_expiration_leaves_no_files(tmp_path, seed):
    _run(History(tmp_path, seed))


@pytest.mark.hunt
@pytest.mark.parametrize("seed", _OTHER_SEEDS)
def test_no_operation_loses_readable_rows(tmp_path, seed):
    _run(TangledHistory(tmp_path, seed))


def _run(history: History) -> None:
    try:
        history.run()
    except BaseException as error:
        error.add_note(f"after {', '.join(history.told)}")
        raise
