"""Every operation that changes a table, for the tests of deaths and of lost answers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from paimon_assets import EmbeddedExecutor, Schema, SegmentSource, Table, TableCatalog, add_column
from paimon_assets.engine.control.maintenance.expire_partitions import (
    compact_manifests,
    expire_partitions,
)
from paimon_assets.engine.control.maintenance.expire_snapshots import (
    Retention,
    expire_changelogs,
    expire_snapshots,
)
from paimon_assets.engine.control.maintenance.orphan_files import clean_orphan_files
from paimon_assets.engine.table.upkeep.compaction import CompactionBuilder
from paimon_assets.engine.table.write.row_change import RowChangeBuilder
from paimon_assets.engine.table.write.write_builder import drop_partitions, empty
from tests.testkit import foreign, tables
from tests.testkit.faults.writers import COMMIT_USER, LATER, OneStorageExecutor, mortal_table
from tests.testkit.tables import arrow, new_table, write

COLUMNS = {"part": "STRING", "id": "INT", "text": "STRING"}
PARTITIONED = {"partition_keys": ["part"]}
KEYED = {"primary_keys": ["part", "id"], **PARTITIONED}
VECTORS = {"deletion-vectors.enabled": "true"}
COMMITS = 3
"""Commits before the operation."""

Rows = list[tuple[Any, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
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
    numbers = range(commit, commit + 4)
    return arrow(COLUMNS, *(("ab"[n % 2], n, f"{commit}.{n}") for n in numbers))


def prepare(directory: Path, change: Change, catalog: TableCatalog | None = None) -> Table:
    """Create the table of a change, with its commits; in a catalog of directories by default."""
    declared = Schema.of(COLUMNS, options=change.options, **change.keys)
    table = new_table(catalog or directory / "warehouse", declared, name="d.t")
    for commit in range(COMMITS):
        write(table, rows_of(commit))
    change.scene(table)
    # Beside the table, so that copies of it find the same folder.
    data = rows_of(9).select(["id", "text"])
    foreign.write(directory / "landing" / "part=z" / "1.parquet", data)
    return table


def read(table: Table, snapshot_id: int | None = None) -> Rows:
    builder = table.new_read_builder()
    return tables.read(
        builder if snapshot_id is None else builder.at_snapshot(snapshot_id), COLUMNS
    )


def _own(table: Table) -> OneStorageExecutor:
    return OneStorageExecutor(table.state.file_io)


def _changes(table: Table) -> RowChangeBuilder:
    return table.new_row_change_builder().with_commit_user(COMMIT_USER)


def _compaction(table: Table, strategy: str = "minor") -> CompactionBuilder:
    builder = table.new_compaction_builder().with_commit_user(COMMIT_USER)
    return builder.with_strategy(strategy)


def _write(table: Table) -> object:
    """Half of the keys exist."""
    writer = table.new_write_builder().with_commit_user(COMMIT_USER)
    return writer.write(rows_of(4), _own(table))


def _delete(table: Table) -> object:
    return _changes(table).delete("id >= 2 AND id < 5", _own(table))


def _update(table: Table) -> object:
    return _changes(table).update({"text": "new"}, "id = 3", _own(table))


def _merge(table: Table) -> object:
    """Half of the rows match."""
    return _changes(table).merge(rows_of(4), on=["part", "id"], executor=_own(table))


def _overwrite(table: Table) -> object:
    writer = table.new_write_builder().with_commit_user(COMMIT_USER).with_overwrite({"part": "a"})
    return writer.write(rows_of(7).filter(pa.array([False, True, False, True])), _own(table))


def _add_segment(table: Table) -> object:
    folder = str(Path(table.path).parents[2] / "landing")
    source = SegmentSource(path=folder, format="parquet", partition="part:string")
    return table.segments().add(source, _own(table), commit_user=COMMIT_USER)


def _retain(count: int, millis: int = 0) -> Retention:
    return Retention(min_count=count, max_count=count, time_ms=millis, limit=100)


def _tag_the_first(table: Table) -> object:
    """Let a tag alone keep the first snapshot."""
    table.tags.create("first", 1)
    return expire_snapshots(table._store, retention=_retain(2))


def _alter(table: Table) -> object:
    if "more" not in table.schema.by_name:
        table.alter([add_column("more", "INT")])
    return None


def _fast_forward(table: Table) -> object:
    """Let main be a branch of its first snapshot."""
    if table.latest_snapshot().id > 1:  # type: ignore[union-attr]  # it has snapshots
        table.branches.create("side", snapshot_id=1, ignore_if_exists=True)
        table.branches.fast_forward("side")
    return None


CHANGES = [
    Change(name="write, append", perform=_write, options={"manifest.merge-min-count": "2"}),
    Change(name="write, key", perform=_write, keys=KEYED, options={"bucket": "2"}),
    Change(
        name="write, with changelog and index",
        perform=_write,
        keys=KEYED,
        options={"bucket": "-1", "changelog-producer": "input"},
    ),
    Change(name="delete, files written anew", perform=_delete),
    Change(name="delete, vectors", perform=_delete, options=VECTORS),
    Change(name="delete, key", perform=_delete, keys=KEYED, options={"bucket": "1"}),
    Change(name="update, files written anew", perform=_update),
    Change(name="update, key", perform=_update, keys=KEYED, options={"bucket": "1"}),
    Change(name="merge, files written anew", perform=_merge),
    Change(name="merge, key", perform=_merge, keys=KEYED, options={"bucket": "1"}),
    Change(name="overwrite", perform=_overwrite, keys=KEYED, options={"bucket": "1"}),
    Change(name="truncate", perform=lambda t: empty(t._store, commit_user=COMMIT_USER)),
    Change(
        name="drop partition",
        perform=lambda t: drop_partitions(t._store, [{"part": "a"}], commit_user=COMMIT_USER),
        options={"manifest.merge-min-count": "2"},
    ),
    Change(
        name="compact",
        perform=lambda t: _compaction(t, "full").run(_own(t)),
        keys=KEYED,
        options={"bucket": "1", "changelog-producer": "lookup"},
    ),
    Change(name="compact, append", perform=lambda t: _compaction(t, "full").run(_own(t))),
    Change(
        name="compact, vectors",
        perform=lambda t: _compaction(t, "full").run(_own(t)),
        keys=KEYED,
        options={"bucket": "1", "write-only": "true", **VECTORS},
    ),
    Change(
        name="sort",
        perform=lambda t: _compaction(t, "sort").with_order(["text", "id"], "hilbert").run(_own(t)),
    ),
    Change(
        name="place waiting rows",
        perform=lambda t: _compaction(t).run(_own(t)),  # nothing else is due
        user=f"{COMMIT_USER}-waiting",
        keys=KEYED,
        options={"bucket": "-2", "postpone.batch-write-fixed-bucket": "false"},
    ),
    Change(
        name="expire partitions",
        perform=lambda t: expire_partitions(t._store, commit_user=COMMIT_USER, clock=LATER),
        options={
            "partition.expiration-time": "1 d",
            "partition.expiration-strategy": "update-time",
        },
    ),
    Change(
        name="compact manifests",
        perform=lambda t: compact_manifests(t._store, commit_user=COMMIT_USER),
    ),
    Change(name="analyze", perform=lambda t: t.analyze(executor=_own(t), commit_user=COMMIT_USER)),
    Change(
        name="rescale",
        perform=lambda t: t.rescale(_own(t), buckets=2, commit_user=COMMIT_USER),
        keys=KEYED,
        options={"bucket": "1"},
    ),
    Change(name="add segment", perform=_add_segment),
    Change(
        name="expire",
        perform=lambda t: expire_snapshots(t._store, retention=_retain(1, 3_600_000)),
        commits=False,
    ),
    Change(
        name="clean orphans",
        perform=lambda t: clean_orphan_files(t._store, older_than_ms=0, dry_run=False, clock=LATER),
        scene=lambda t: EmbeddedExecutor(1).map_rows(t.new_write_builder().prepare(), rows_of(5)),
        commits=False,
    ),
    Change(
        name="delete tag",
        perform=lambda t: t.tags.get_or_none("first") and t.tags.delete("first"),
        scene=_tag_the_first,
        commits=False,
    ),
    Change(
        name="expire changelogs",
        perform=lambda t: expire_changelogs(t._store, retention=_retain(1)),
        scene=lambda t: expire_snapshots(t._store, retention=_retain(1)),
        keys=KEYED,
        options={"bucket": "1", "changelog-producer": "input", "changelog.num-retained.min": "20"},
        commits=False,
    ),
    Change(name="alter", perform=_alter, commits=False),
    Change(name="roll back", perform=lambda t: t.rollback_to(1), commits=False),
    Change(name="fast forward", perform=_fast_forward, commits=False),
]


def perform_until_killed(table_path: str, name: str, steps: int) -> None:
    change = next(change for change in CHANGES if change.name == name)
    with mortal_table(table_path, steps) as table:
        change.perform(table)
