"""Everything that changes a table: what the tests of deaths and of lost answers do to it."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from paimon_assets import EmbeddedExecutor, Schema, SegmentSource, Table, TableCatalog, add_column
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.maintenance.compact_manifests import compact_manifests
from paimon_assets.engine.control.maintenance.expire_partitions import expire_partitions
from paimon_assets.engine.control.maintenance.expire_snapshots import (
    expire_changelogs,
    expire_snapshots,
)
from paimon_assets.engine.control.maintenance.expiry_plan import Retention
from paimon_assets.engine.control.maintenance.orphan_files import clean_orphan_files
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.table.write.write_builder import drop_partitions, empty
from tests.testkit import foreign
from tests.testkit.faults.killing_file_io import Countdown, KillingFileIO, plain_directory
from tests.testkit.faults.maintainers import LATER
from tests.testkit.faults.writers import COMMIT_USER, SURVIVED, OneStorageExecutor
from tests.testkit.tables import new_table, write

COLUMNS = {"part": "STRING", "id": "INT", "text": "STRING"}
PARTITIONED = {"partition_keys": ["part"]}
KEYED = {"primary_keys": ["part", "id"], **PARTITIONED}
VECTORS = {"deletion-vectors.enabled": "true"}
COMMITS = 3
"""Commits before the deed."""

Rows = list[tuple[Any, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """Something that changes a table, under the name of one user."""

    name: str
    perform: Callable[[Table], object]
    """Does it, or finds that it is done."""
    keys: Mapping[str, Any] = field(default_factory=lambda: PARTITIONED)
    options: Mapping[str, str] = field(default_factory=dict)
    commits: bool = True
    """Whether it makes a snapshot."""
    user: str = COMMIT_USER
    """Whose snapshot it is."""
    scene: Callable[[Table], object] = lambda table: None
    """Done before, beside the commits."""


def rows_of(commit: int) -> pa.Table:
    ids = range(commit, commit + 4)
    return pa.table(
        {
            "part": ["ab"[number % 2] for number in ids],
            "id": pa.array(ids, pa.int32()),
            "text": [f"{commit}.{number}" for number in ids],
        }
    )


def prepare(directory: Path, deed: Deed, catalog: TableCatalog | None = None) -> Table:
    """Create the table of a deed, with its commits; in a catalog of directories by default."""
    declared = Schema.of(COLUMNS, options=deed.options, **deed.keys)
    table = new_table(catalog or directory / "warehouse", declared, name="d.t")
    for commit in range(COMMITS):
        write(table, rows_of(commit))
    deed.scene(table)
    # Beside the table, so that copies of it find the same folder.
    data = rows_of(9).select(["id", "text"])
    foreign.write(directory / "landing" / "part=z" / "1.parquet", data)
    return table


def read(table: Table, snapshot_id: int | None = None) -> Rows:
    builder = table.new_read_builder()
    if snapshot_id is not None:
        builder = builder.at_snapshot(snapshot_id)
    rows = builder.to_arrow(EmbeddedExecutor(threads=1)).to_pylist()
    return sorted(tuple(row[name] for name in COLUMNS) for row in rows)


def _delete(table: Table) -> object:
    builder = table.new_row_change_builder().with_commit_user(COMMIT_USER)
    return builder.delete("id >= 2 AND id < 5", OneStorageExecutor(table.state.file_io))


def _update(table: Table) -> object:
    builder = table.new_row_change_builder().with_commit_user(COMMIT_USER)
    return builder.update({"text": "new"}, "id = 3", OneStorageExecutor(table.state.file_io))


def _merge(table: Table) -> object:
    """Half of the rows match."""
    builder = table.new_row_change_builder().with_commit_user(COMMIT_USER)
    return builder.merge(
        rows_of(4), on=["part", "id"], executor=OneStorageExecutor(table.state.file_io)
    )


def _overwrite(table: Table) -> object:
    writer = table.new_write_builder().with_commit_user(COMMIT_USER).with_overwrite({"part": "a"})
    rows = rows_of(7).filter(pa.array([False, True, False, True]))
    return writer.write(rows, OneStorageExecutor(table.state.file_io))


def _compact(table: Table) -> object:
    builder = table.new_compaction_builder().with_commit_user(COMMIT_USER).with_strategy("full")
    return builder.run(OneStorageExecutor(table.state.file_io))


def _sort(table: Table) -> object:
    builder = table.new_compaction_builder().with_commit_user(COMMIT_USER).with_strategy("sort")
    return builder.with_order(["text", "id"], "hilbert").run(
        OneStorageExecutor(table.state.file_io)
    )


def _place(table: Table) -> object:
    """Give rows that wait their buckets, in one commit; nothing else is due."""
    builder = table.new_compaction_builder().with_commit_user(COMMIT_USER)
    return builder.run(OneStorageExecutor(table.state.file_io))


def _expire_partitions(table: Table) -> object:
    return expire_partitions(table._store, commit_user=COMMIT_USER, clock=LATER)


def _compact_manifests(table: Table) -> object:
    return compact_manifests(table._store, commit_user=COMMIT_USER)


def _analyze(table: Table) -> object:
    return table.analyze(executor=OneStorageExecutor(table.state.file_io), commit_user=COMMIT_USER)


def _rescale(table: Table) -> object:
    executor = OneStorageExecutor(table.state.file_io)
    return table.rescale(executor, buckets=2, commit_user=COMMIT_USER)


def _add_segment(table: Table) -> object:
    source = SegmentSource(
        path=str(Path(table.path).parents[2] / "landing"), format="parquet", partition="part:string"
    )
    executor = OneStorageExecutor(table.state.file_io)
    return table.segments().add(source, executor, commit_user=COMMIT_USER)


def _expire(table: Table) -> object:
    retention = Retention(min_count=1, max_count=1, time_ms=3_600_000, limit=100)
    return expire_snapshots(table._store, retention=retention)


def _abandon(table: Table) -> object:
    """Write files that nobody commits."""
    return EmbeddedExecutor(threads=1).map_rows(table.new_write_builder().prepare(), rows_of(5))


def _clean_orphans(table: Table) -> object:
    return clean_orphan_files(table._store, older_than_ms=0, dry_run=False, clock=LATER)


def _tag_the_first(table: Table) -> object:
    """Let a tag alone keep the first snapshot."""
    table.tags.create("first", 1)
    retention = Retention(min_count=2, max_count=2, time_ms=0, limit=100)
    return expire_snapshots(table._store, retention=retention)


def _delete_tag(table: Table) -> object:
    return None if table.tags.get_or_none("first") is None else table.tags.delete("first")


def _leave_changelogs(table: Table) -> object:
    retention = Retention(min_count=1, max_count=1, time_ms=0, limit=100)
    return expire_snapshots(table._store, retention=retention)


def _expire_changelogs(table: Table) -> object:
    retention = Retention(min_count=1, max_count=1, time_ms=0, limit=100)
    return expire_changelogs(table._store, retention=retention)


def _alter(table: Table) -> object:
    if "more" not in table.schema.by_name:
        table.alter([add_column("more", "INT")])
    return None


def _roll_back(table: Table) -> object:
    return table.rollback_to(1)


def _fast_forward(table: Table) -> object:
    """Let main be a branch of its first snapshot."""
    if table.latest_snapshot().id > 1:  # type: ignore[union-attr]  # it has snapshots
        table.branches.create("side", snapshot_id=1, ignore_if_exists=True)
        table.branches.fast_forward("side")
    return None


DEEDS = [
    Deed(name="delete, files written anew", perform=_delete),
    Deed(name="delete, vectors", perform=_delete, options=VECTORS),
    Deed(name="delete, key", perform=_delete, keys=KEYED, options={"bucket": "1"}),
    Deed(name="update, files written anew", perform=_update),
    Deed(name="update, key", perform=_update, keys=KEYED, options={"bucket": "1"}),
    Deed(name="merge, files written anew", perform=_merge),
    Deed(name="merge, key", perform=_merge, keys=KEYED, options={"bucket": "1"}),
    Deed(name="overwrite", perform=_overwrite, keys=KEYED, options={"bucket": "1"}),
    Deed(name="truncate", perform=lambda t: empty(t._store, commit_user=COMMIT_USER)),
    Deed(
        name="drop partition",
        perform=lambda t: drop_partitions(t._store, [{"part": "a"}], commit_user=COMMIT_USER),
        options={"manifest.merge-min-count": "2"},
    ),
    Deed(
        name="compact",
        perform=_compact,
        keys=KEYED,
        options={"bucket": "1", "changelog-producer": "lookup"},
    ),
    Deed(name="sort", perform=_sort),
    Deed(
        name="place waiting rows",
        perform=_place,
        user=f"{COMMIT_USER}-waiting",
        keys=KEYED,
        options={"bucket": "-2", "postpone.batch-write-fixed-bucket": "false"},
    ),
    Deed(
        name="expire partitions",
        perform=_expire_partitions,
        options={
            "partition.expiration-time": "1 d",
            "partition.expiration-strategy": "update-time",
        },
    ),
    Deed(name="compact manifests", perform=_compact_manifests),
    Deed(name="analyze", perform=_analyze),
    Deed(name="rescale", perform=_rescale, keys=KEYED, options={"bucket": "1"}),
    Deed(name="add segment", perform=_add_segment),
    Deed(name="expire", perform=_expire, commits=False),
    Deed(name="clean orphans", perform=_clean_orphans, scene=_abandon, commits=False),
    Deed(name="delete tag", perform=_delete_tag, scene=_tag_the_first, commits=False),
    Deed(
        name="expire changelogs",
        perform=_expire_changelogs,
        scene=_leave_changelogs,
        keys=KEYED,
        options={"bucket": "1", "changelog-producer": "input", "changelog.num-retained.min": "20"},
        commits=False,
    ),
    Deed(name="alter", perform=_alter, commits=False),
    Deed(name="roll back", perform=_roll_back, commits=False),
    Deed(name="fast forward", perform=_fast_forward, commits=False),
]


def perform_until_killed(table_path: str, name: str, steps: int) -> None:
    """Do a deed, and be killed after `steps` moments; return if there were fewer."""
    deed = next(deed for deed in DEEDS if deed.name == name)
    countdown = Countdown(steps)
    table = Table(FileStore.open(KillingFileIO(LocalFileIO(), countdown), table_path))
    countdown.watch(plain_directory(table_path))
    deed.perform(table)
    if countdown.is_over:
        sys.exit(SURVIVED)
