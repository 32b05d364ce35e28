"""Random histories of one table with Iceberg metadata: each step is one command, or a crash."""

import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from paimon_assets import (
    PaimonError,
    Schema,
    TableCatalog,
    add_column,
    drop_column,
    rename_column,
    set_option,
    update_column_type,
)
from paimon_assets.engine.control.maintenance.orphan_files import clean_orphan_files
from paimon_assets.engine.table.upkeep.maintenance import Maintenance, MaintenanceTask
from tests.testkit.metadata_tables import FixedClock
from tests.testkit.tables import arrow

COLUMNS = {"id": "BIGINT NOT NULL", "p": "INT NOT NULL", "n": "INT", "v": "STRING"}
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


class History:
    """A table and the steps it took; the same seed takes the same steps."""

    def __init__(
        self, catalog: TableCatalog, kind: str, seed: int, options: Mapping[str, str]
    ) -> None:
        declared = dict(KINDS[kind])
        own = {
            "metadata.iceberg.storage": "table-location",
            "metadata.iceberg.compaction.max.file-num": "6",
            **options,
            **declared.pop("options", {}),
        }
        self.random = random.Random(seed)  # noqa: S311 - no secret
        self.catalog, self.kind, self.steps = catalog, kind, list[str]()
        name = f"db.t{seed}"
        self.table = catalog.create_table(name, Schema.of(COLUMNS, options=own, **declared))
        self._number = 0

    @property
    def folder(self) -> Path:
        return Path(self.table._store.table_path) / "metadata"

    def run(self, count: int) -> Iterator[str]:
        """Take steps; yield what was done after each."""
        choices = dict(self._choices())
        for _ in range(count):
            name = self.random.choice(list(choices))
            try:
                choices[name]()
            except PaimonError as error:
                name = f"{name}: {error.kind}"
            self.steps.append(name)
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

    def _any(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def _name(self) -> str:
        self._number += 1
        return f"c{self._number % 4}"

    def _own(self) -> str:
        own = [name for name in self.table.schema.field_names if name not in ("id", "p")]
        return self.random.choice(own or ["v"])

    def _rows(self) -> Any:
        def value(name: str, text: str) -> object:
            if name == "id":
                return self._any(0, 30)
            if name == "p":
                return self._any(0, 2)
            if self._any(0, 4) == 0:
                return None
            return self._any(0, 99) if "INT" in text else f"v{self._any(0, 99)}"

        fields = [(field.name, str(field.type)) for field in self.table.schema.fields]
        rows = [tuple(value(name, text) for name, text in fields) for _ in range(self._any(1, 12))]
        return arrow(self.table.schema, *rows)

    def _write(self) -> None:
        self.table.new_write_builder().write(self._rows())

    def _delete(self) -> None:
        low = self._any(0, 30)
        self.table.delete(f"id > {low} and id < {low + self._any(2, 9)}")

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
