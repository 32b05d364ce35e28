"""Random histories of one table with Iceberg metadata: each step is one command, or a crash.

A step is drawn by its number alone, so a history can be repeated with fewer steps.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from paimon_assets import (
    EmbeddedExecutor,
    PaimonError,
    Schema,
    SegmentSource,
    Table,
    TableCatalog,
    add_column,
    drop_column,
    move_column,
    rename_column,
    set_option,
    update_column_nullability,
    update_column_type,
)
from paimon_assets.engine.control.maintenance.orphan_files import clean_orphan_files
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.table.upkeep.maintenance import Maintenance, MaintenanceTask
from paimon_assets.iceberg.state import newest_metadata
from tests.testkit.metadata_tables import FixedClock
from tests.testkit.oracle import Oracle
from tests.testkit.tables import arrow

COLUMNS = {"id": "BIGINT NOT NULL", "p": "INT NOT NULL", "n": "INT", "v": "STRING"}
NESTED = {"r": "ROW<a INT, b ARRAY<ROW<c STRING>>>", "m": "MAP<STRING, INT>"}
LATER = FixedClock(now=4_000_000_000_000)
VECTORS = {"deletion-vectors.enabled": "true", "metadata.iceberg.format-version": "3"}
KEYED: dict[str, Any] = {"primary_keys": ["id", "p"]}
KINDS: Mapping[str, dict[str, Any]] = {
    "append": {},
    "append-partitions": {"partition_keys": ["p"]},
    "append-buckets": {"options": {"bucket": "2", "bucket-key": "id"}},
    "fixed": {**KEYED, "options": {"bucket": "2"}},
    "fixed-partitions": {**KEYED, "partition_keys": ["p"], "options": {"bucket": "1"}},
    "dynamic": {**KEYED, "partition_keys": ["p"], "options": {"bucket": "-1"}},
    "postponed": {**KEYED, "options": {"bucket": "-2"}},
    "cross": {"primary_keys": ["id"], "partition_keys": ["p"], "options": {"bucket": "-1"}},
    "partial-update": {**KEYED, "options": {"bucket": "1", "merge-engine": "partial-update"}},
    "vectors": {"options": VECTORS},
    "row-tracking": {"options": {"row-tracking.enabled": "true"}},
    "keyed-vectors": {**KEYED, "options": {**VECTORS, "bucket": "2"}},
    "first-row": {**KEYED, "options": {"bucket": "1", "merge-engine": "first-row"}},
}
MORE_KINDS: Mapping[str, dict[str, Any]] = {
    **KINDS,
    "aggregation": {**KEYED, "options": {"bucket": "2", "merge-engine": "aggregation"}},
    "postponed-partitions": {**KEYED, "partition_keys": ["p"], "options": {"bucket": "-2"}},
    "vectors-partitions": {"partition_keys": ["p"], "options": VECTORS},
    "dynamic-vectors": {
        **KEYED, "partition_keys": ["p"], "options": {**VECTORS, "bucket": "-1"},
    },
}  # fmt: skip


def located(table: Table) -> str:
    found = newest_metadata(table._store)
    assert found is not None
    return found.location


def in_order(rows: pa.Table) -> list[dict[str, Any]]:
    return sorted(rows.to_pylist(), key=repr)


def seen_alike(table: Table, iceberg: Oracle, expected: pa.Table | None = None) -> None:
    """Compare the rows of pyiceberg and duckdb with ours, or with some."""
    ours = table.to_arrow() if expected is None else expected
    path = located(table)
    for reader in ("", "duckdb:"):
        rows = iceberg.read(f"{reader}{path}")
        assert rows.column_names == [*table.schema.field_names], reader or "pyiceberg"
        assert in_order(rows.cast(ours.schema)) == in_order(ours), reader or "pyiceberg"


class History:
    """A table and the steps it took; the same seed takes the same steps."""

    def __init__(
        self, catalog: TableCatalog, kind: str, seed: int, options: Mapping[str, str],
        *, nested: bool = False,
    ) -> None:  # fmt: skip
        declared = dict(MORE_KINDS[kind])
        own = {
            "metadata.iceberg.storage": "table-location",
            "metadata.iceberg.compaction.max.file-num": "6",
            **options,
            **declared.pop("options", {}),
        }
        self.seed, self.random = seed, random.Random(seed)  # noqa: S311 - no secret
        self.catalog, self.kind, self.steps = catalog, kind, list[str]()
        name = f"db.t{seed}"
        columns = {**COLUMNS, **(NESTED if nested else {})}
        self.table = catalog.create_table(name, Schema.of(columns, options=own, **declared))
        self._number = 0

    @property
    def folder(self) -> Path:
        return self._path / "metadata"

    @property
    def _path(self) -> Path:
        return Path(self.table._store.table_path.removeprefix("file://"))

    def run(self, numbers: Iterable[int]) -> Iterator[str]:
        """Take steps; yield the report of each."""
        choices = dict(self._choices())
        for number in numbers:
            self.random = random.Random(f"{self.seed}/{number}")  # noqa: S311
            name = self.random.choice(list(choices))
            try:
                choices[name]()
            except PaimonError as error:
                name = f"{name}: {error.kind}"
            self.steps.append(f"{number} {name}")
            self.table = self.catalog.get_table(self.table.name)
            yield name

    def _choices(self) -> Iterator[tuple[str, Callable[[], object]]]:
        yield from ((f"write-{n}", self._write) for n in range(5))
        yield "overwrite", lambda: self.table.overwrite(self._rows())
        yield "overwrite-all", lambda: self.table.overwrite(self._rows(), {})
        yield "delete", self._delete
        yield "truncate", lambda: self.table.truncate() if self._any(0, 3) == 0 else None
        yield "compact", self._compact
        yield from ((f"full-{n}", lambda: self.table.compact(full=True)) for n in range(3))
        yield "add", lambda: self.table.alter([add_column(self._name(), "INT")])
        yield "drop", lambda: self.table.alter([drop_column(self._own())])
        yield "rename", lambda: self.table.alter([rename_column(self._own(), self._name())])
        yield "widen", lambda: self.table.alter([update_column_type(self._own(), "BIGINT")])
        yield "tag", lambda: self.table.tags.create(f"t{self._any(0, 3)}")
        yield "untag", lambda: self.table.tags.delete(f"t{self._any(0, 3)}")
        yield "expire", self._expire
        yield "rollback", self._roll_back
        yield "orphans", lambda: clean_orphan_files(self.table._store, dry_run=False, clock=LATER)
        yield "crash", self._crash
        yield "manifests", lambda: self._run(MaintenanceTask.COMPACT_MANIFESTS)
        yield "repair", lambda: self._run(MaintenanceTask.ICEBERG)
        yield "off", self._off
        yield "update", self._update
        yield "merge", self._merge
        yield "empty", lambda: self.table.drop_partitions([{"p": str(self._any(0, 2))}])
        yield "move", lambda: self.table.alter([move_column(self._own(), first=True)])
        yield "nulls", lambda: self.table.alter([update_column_nullability("p", nullable=True)])
        yield "rename-table", self._move
        yield "rescale", lambda: self.table.rescale(EmbeddedExecutor(), buckets=self._any(1, 3))
        yield "branch", self._branch
        yield "segment", self._segment

    def _any(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def _name(self) -> str:
        self._number += 1
        return f"c{self._number % 4}"

    def _own(self) -> str:
        own = [name for name in self.table.schema.field_names if name not in ("id", "p")]
        return self.random.choice(own or ["v"])

    def _rows(self, schema: TableSchema | None = None) -> Any:
        schema = schema or self.table.schema

        def value(name: str, text: str) -> object:
            if name == "id":
                return self._any(0, 30)
            if name == "p":
                return self._any(0, 2)
            if self._any(0, 4) == 0:
                return None
            if text.startswith("MAP"):
                return [(f"k{n}", self._any(0, 9)) for n in range(self._any(0, 3))]
            if text.startswith("ROW"):
                return {"a": self._any(0, 9), "b": [None, {"c": "x"}][: self._any(0, 2)]}
            return self._any(0, 99) if "INT" in text else f"v{self._any(0, 99)}"

        fields = [(field.name, str(field.type)) for field in schema.fields]
        rows = [tuple(value(name, text) for name, text in fields) for _ in range(self._any(1, 12))]
        return arrow(schema, *rows)

    def _write(self) -> None:
        self.table.new_write_builder().write(self._rows())

    def _delete(self) -> None:
        low = self._any(0, 30)
        self.table.delete(f"id > {low} and id < {low + self._any(2, 9)}")

    def _update(self) -> None:
        name, low = self._own(), self._any(0, 30)
        types = {field.name: str(field.type) for field in self.table.schema.fields}
        value = str(self._any(100, 199)) if types[name] in ("INT", "BIGINT") else "'u'"
        self.catalog.execute(f"UPDATE {self.table.name} SET {name} = {value} WHERE id > {low}")

    def _merge(self) -> None:
        rows = self._rows()
        places = {number: n for n, number in enumerate(rows["id"].to_pylist())}
        self.table.upsert(rows.take(list(places.values())), on=["id"])

    def _move(self) -> None:
        name = f"{self.table.name}x"
        self.catalog.rename_table(self.table.name, name)
        self.table = self.catalog.get_table(name)

    def _branch(self) -> None:
        """Write on a branch; sometimes it becomes main, which the next commit tells."""
        newest, branches = self.table.latest_snapshot(), self.table.branches
        if newest is None:
            return
        branches.create("b", snapshot_id=newest.id)
        try:
            branch = self.table.at_branch("b")
            branch.new_write_builder().write(self._rows(branch.schema))
            if self._any(0, 1):
                branches.fast_forward("b")
        finally:
            branches.delete("b")
        self.table = self.catalog.get_table(self.table.name)  # newer schemas may be gone
        self._write()

    def _segment(self) -> None:
        """Add a foreign file, where the table takes it: Iceberg's readers do not see it."""
        folder = self._path.parents[2] / "others" / str(self.seed)
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(self._rows(), folder / f"{self._any(0, 10**9)}.parquet")
        self.table.segments().add(SegmentSource(path=str(folder)))

    def _compact(self) -> None:
        self.table.compact()

    def _run(self, task: MaintenanceTask, **more: Any) -> None:
        Maintenance(store=self.table._store, **more).run(task)

    def _expire(self) -> None:
        newest = self.table.latest_snapshot()
        if newest is not None:
            self._run(MaintenanceTask.EXPIRE_SNAPSHOTS, expire_before=newest.id - self._any(0, 3))

    def _roll_back(self) -> None:
        snapshots = self.table.snapshots()
        if snapshots:
            self.table.rollback_to(self.random.choice(snapshots[-4:]).id)

    def _crash(self) -> None:
        """Lose the newest documents, as if their commits had died before; sometimes the hint."""
        documents = sorted(
            self.folder.glob("v*.json"), key=lambda path: int(path.name[1:].split(".")[0])
        )
        for path in documents[-self._any(1, 3) :]:
            path.unlink()
        if self._any(0, 1):
            self.folder.joinpath("version-hint.text").unlink(missing_ok=True)
        self._write()

    def _off(self) -> None:
        key = "metadata.iceberg.storage"
        self.table = self.table.alter([set_option(key, "disabled")])
        self._write()
        self.table.alter([set_option(key, "table-location")])
        self._write()
