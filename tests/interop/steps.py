"""Steps on a table, as values: each side does them in its own way, a model on paper.

Write(rows)             upsert or append       Write(rows, replaces={})   overwrite
Empty()                 truncate               Empty(({"day": "a"},))     drop partitions
Compact()               everything; Compact(is_full=False) due files
Sort(columns, curve)    rows in another order          Keep(chore)        maintenance of a table
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from paimon_assets import EmbeddedExecutor, Schema, Table, open_catalog
from paimon_assets.engine.contract.executor import Curve
from paimon_assets.engine.control.maintenance.expire_partitions import compact_manifests
from paimon_assets.engine.control.maintenance.expire_snapshots import Retention, expire_snapshots
from paimon_assets.engine.control.maintenance.orphan_files import clean_orphan_files
from tests.testkit.metadata_tables import FixedClock
from tests.testkit.model import ModelTable, Row
from tests.testkit.oracle import Oracle
from tests.testkit.rows import rows_to_arrow

SCRATCH = "scratch"
"""Database of the tables from which Java takes the rows it writes."""

LATER = FixedClock(now=4_000_000_000_000)
"""All files are old by it."""


@dataclass(frozen=True, slots=True)
class Write:
    rows: tuple[Row, ...]
    replaces: Mapping[str, str] | None = None
    """Partition column → value that they take the place of; empty: the partitions they lie in."""


@dataclass(frozen=True, slots=True)
class Empty:
    partitions: tuple[Mapping[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Compact:
    """Files merged; rows stay as they are."""

    is_full: bool = True


@dataclass(frozen=True, slots=True)
class Change:
    """Rows deleted, or their `text` updated. Java has no interface for it; only we do it."""

    ids: tuple[int, ...]
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Sort:
    """Files of a table without key written again, their rows in order. Java needs Flink for it."""

    columns: tuple[str, ...]
    curve: Curve


class Chore(StrEnum):
    """Maintenance of a table; named as Java's side names it."""

    EXPIRE = "expire"
    """All snapshots but the newest."""
    COMPACT_MANIFESTS = "compact_manifests"
    CLEAN_ORPHANS = "clean_orphans"
    ANALYZE = "analyze"


@dataclass(frozen=True, slots=True)
class Keep:
    """A chore of maintenance; rows stay as they are."""

    chore: Chore


Step = Write | Empty | Compact | Change | Sort | Keep


class Side(Protocol):
    def do(self, table: str, step: Step) -> None:
        """Do a step as one commit."""


@dataclass(frozen=True, slots=True)
class OurSide:
    warehouse: Path
    executor: EmbeddedExecutor = field(default_factory=lambda: EmbeddedExecutor(threads=1))

    def open(self, table: str) -> Table:
        return open_catalog(str(self.warehouse)).get_table(table)

    def create(self, table: str, schema: Schema) -> Table:
        catalog = open_catalog(str(self.warehouse))
        catalog.create_database(table.split(".", maxsplit=1)[0], ignore_if_exists=True)
        return catalog.create_table(table, schema)

    def do(self, table: str, step: Step) -> None:
        opened = self.open(table)
        match step:
            case Write(rows, replaces):
                builder = opened.new_write_builder()
                if replaces is not None:
                    builder = builder.with_overwrite(replaces or None)
                builder.write(rows_to_arrow(rows, opened.schema), self.executor)
            case Empty(()):
                opened.truncate()
            case Empty(partitions):
                opened.drop_partitions(partitions)
            case Compact(is_full):
                strategy = "full" if is_full else "minor"
                opened.new_compaction_builder().with_strategy(strategy).run(self.executor)
            case Sort(columns, curve):
                sort = opened.new_compaction_builder().with_strategy("sort")
                sort.with_order(columns, curve).run(self.executor)
            case Keep(chore):
                self._keep(opened, chore)
            case Change(ids, text):
                where = f"id IN ({', '.join(map(str, ids))})"
                change = opened.new_row_change_builder()
                if text is None:
                    change.delete(where, self.executor)
                else:
                    change.update({"text": text}, where, self.executor)

    def _keep(self, table: Table, chore: Chore) -> None:
        store = table._store
        match chore:
            case Chore.EXPIRE:
                keep = Retention(min_count=1, max_count=1, time_ms=0, limit=100)
                expire_snapshots(store, retention=keep)
            case Chore.COMPACT_MANIFESTS:
                compact_manifests(store, commit_user=str(uuid.uuid4()))
            case Chore.CLEAN_ORPHANS:
                clean_orphan_files(store, older_than_ms=0, dry_run=False, clock=LATER)
            case Chore.ANALYZE:
                table.analyze(executor=self.executor)


@dataclass(frozen=True, slots=True)
class JavaSide:
    java: Oracle
    ours: OurSide

    def do(self, table: str, step: Step) -> None:
        match step:
            case Write(rows, replaces):
                self.java.call(
                    "copy",
                    source=self.scratch(table, rows),
                    target=table,
                    overwrite=replaces,
                    options={"dynamic-partition-overwrite": str(not replaces).lower()},
                )
            case Empty(()):
                self.java.call("change", table=table, action="truncate")
            case Empty(partitions):
                self.java.call(
                    "change", table=table, action="drop_partitions", partitions=list(partitions)
                )
            case Compact(is_full):
                self.java.call("compact", table=table, full=is_full)
            case Keep(chore):
                self.java.call("change", table=table, action=chore, keep=1)
            case Change() | Sort():
                self.ours.do(table, step)

    def scratch(self, table: str, rows: Sequence[Row]) -> str:
        """Write rows where Java can take them from, and return the table's name."""
        fields = self.ours.open(table).schema.fields
        name = f"{SCRATCH}.t{uuid.uuid4().hex}"
        created = self.ours.create(name, Schema(fields=fields))
        builder = created.new_write_builder()
        builder.write(rows_to_arrow(rows, created.schema), self.ours.executor)
        return name


def on_paper(model: ModelTable, step: Step) -> None:
    """Do a step in the model; values of partitions are compared as texts."""
    match step:
        case Write(rows, None):
            model.write(rows)
        case Write(rows, replaces):
            replaced = (lambda row: _is_in(row, replaces)) if replaces else None
            model.overwrite(rows, replaced)
        case Empty(partitions):
            specs = partitions or ({},)
            model.overwrite((), lambda row: any(_is_in(row, spec) for spec in specs))
        case Change(ids, text):
            updated = [{**row, "text": text} for row in model.rows() if row["id"] in ids]
            model.overwrite(updated if text is not None else (), lambda row: row["id"] in ids)
        case Compact() | Sort() | Keep():
            pass


def _is_in(row: Row, spec: Mapping[str, str]) -> bool:
    return all(str(row[name]) == value for name, value in spec.items())
