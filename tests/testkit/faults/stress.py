"""Many processes change one table at once; what they acknowledged is replayed and compared.

    python -m tests.testkit.faults.stress [--seconds 60] [--workers 8]
        [--table append|vectors|key|all]

One process compacts. Each of the others writes rows into some partitions, overwrites partitions
with everybody's rows in them, deletes some of its own rows, or compacts. In the order of the
snapshots, the acknowledged commits must give exactly the rows that are read; every snapshot must be
somebody's; what failed must have failed with a typed error; and no file may be left that no
snapshot names.
"""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from multiprocessing.managers import ListProxy
from pathlib import Path
from typing import Any

from rich.console import Console

from paimon_assets import EmbeddedExecutor, PaimonError, Schema, Table, open_table
from paimon_assets.engine.spec.predicate.predicate import And, equal
from tests.testkit.faults.writers import fork_server
from tests.testkit.tables import arrow, new_table, read

PARTITIONS = ("a", "b", "c")
_COLUMNS = {"part": "STRING", "worker": "INT", "number": "INT"}
_EAGER = {"compaction.min.file-num": "3", "num-sorted-run.compaction-trigger": "3"}
SCHEMAS = {
    "append": Schema.of(_COLUMNS, partition_keys=["part"], options=_EAGER),
    "vectors": Schema.of(
        _COLUMNS, partition_keys=["part"], options={**_EAGER, "deletion-vectors.enabled": "true"}
    ),
    "key": Schema.of(
        {"part": "STRING", "worker": "INT", "slot": "INT", "number": "INT"},
        partition_keys=["part"],
        primary_keys=["part", "worker", "slot"],
        options={**_EAGER, "bucket": "2"},
    ),
}
_SLOTS = 4
"""Keys of a worker in a partition. Keys are a worker's own: who comes last is then told by ids."""
_WEIGHTS = {"write": 5, "overwrite": 2, "delete": 2, "compact": 1}
"""What processes do, and how often; the first one does nothing but compact."""

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    snapshot_id: int
    kind: str
    """`write`, `overwrite`, `delete` or `compact`."""
    rows: tuple[Row, ...] = ()
    """Those that were written, or the first columns of those that were deleted."""


@dataclass(slots=True, kw_only=True)
class Outcome:
    deeds: list[Deed] = field(default_factory=list)
    nothing_done: int = 0
    """Compactions and deletes that found nothing to do."""
    errors: Counter[str] = field(default_factory=Counter)
    """Kind of a typed error → how often."""
    untyped: list[str] = field(default_factory=list)
    seconds: float = 0.0


def run(table_path: str, *, workers: int, seconds: float, tries: int = sys.maxsize) -> Outcome:
    """Let processes write until the time is over, or each has tried so many commits."""
    context = fork_server()
    outcome = Outcome()
    began = time.monotonic()
    with context.Manager() as manager:
        logs: list[ListProxy[Any]] = [manager.list() for _ in range(workers)]
        ends_at = time.time() + seconds
        processes = [
            context.Process(target=_work, args=(_Worker(table_path, worker), ends_at, tries, log))
            for worker, log in enumerate(logs)
        ]
        for process in processes:
            process.start()
        for process in processes:
            process.join(seconds + 120)
        for process, log in zip(processes, logs, strict=True):
            if process.exitcode != 0:
                outcome.untyped.append(f"a worker ended with {process.exitcode}")
            for found in log:
                _take(outcome, found)
    outcome.seconds = time.monotonic() - began
    return outcome


def _take(outcome: Outcome, found: "Deed | tuple[str, str]") -> None:
    if isinstance(found, Deed):
        outcome.deeds.append(found)
    elif found[0] == "nothing":
        outcome.nothing_done += 1
    elif found[0] == "typed":
        outcome.errors[found[1]] += 1
    else:
        outcome.untyped.append(found[1])


@dataclass(frozen=True, slots=True)
class _Worker:
    """One process; number 0 compacts."""

    table_path: str
    number: int

    def perform(self, commit: int, chance: random.Random) -> Deed | None:
        """Do something; return what was done, None if there was nothing to do."""
        table = open_table(self.table_path)
        kind = chance.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
        if kind == "compact" or self.number == 0:
            return self._compact(table, commit)
        rows = _rows(table, chance, self.number, commit)
        if kind == "delete":
            return self._delete(table, commit, rows[0])
        writer = table.new_write_builder().with_commit_user(self._user)
        writer = writer.with_commit_identifier(commit)
        if kind == "overwrite":
            writer = writer.with_dynamic_overwrite()
        snapshot = writer.write(arrow(table.schema, *rows), EmbeddedExecutor(1)).snapshot
        assert snapshot is not None
        return Deed(snapshot_id=snapshot.id, kind=kind, rows=tuple(rows))

    @property
    def _user(self) -> str:
        return f"worker-{self.number}"

    def _compact(self, table: Table, commit: int) -> Deed | None:
        builder = table.new_compaction_builder().with_commit_user(self._user)
        builder = builder.with_commit_identifier(commit)
        done = builder.with_strategy("minor" if commit % 2 else "full").run(EmbeddedExecutor(1))
        if done.snapshot is None:
            return None
        return Deed(snapshot_id=done.snapshot.id, kind="compact")

    def _delete(self, table: Table, commit: int, row: Row) -> Deed | None:
        names, values = table.schema.field_names[:2], row[:2]
        builder = table.new_row_change_builder().with_commit_user(self._user)
        predicate = And(tuple(map(equal, names, values)))
        done = builder.with_commit_identifier(commit).delete(predicate, EmbeddedExecutor(1))
        if done.snapshot is None:
            return None
        return Deed(snapshot_id=done.snapshot.id, kind="delete", rows=(values,))


def _work(worker: _Worker, ends_at: float, tries: int, log: "list[Any]") -> None:
    chance = random.Random(worker.number)  # noqa: S311 - nothing secret
    number = 0
    while number < tries and time.time() < ends_at:
        number += 1
        try:
            log.append(worker.perform(number, chance) or ("nothing", ""))
        except PaimonError as error:
            log.append(("typed", f"{type(error).__name__} {error.kind}"))
        except Exception as error:  # noqa: BLE001 - that there is none is what is tested
            log.append(("untyped", repr(error)))


def _rows(table: Table, chance: random.Random, worker: int, number: int) -> list[Row]:
    parts = chance.sample(PARTITIONS, chance.randint(1, 2))
    if not table.schema.has_primary_key:
        return [(part, worker, number) for part in parts]
    slots = chance.sample(range(_SLOTS), 2)
    return [(part, worker, slot, number) for part in parts for slot in slots]


def replayed(deeds: Iterable[Deed], keys: int) -> list[Row]:
    """Return what a table holds after some commits, in the order of their snapshots."""
    rows: list[Row] = []
    for deed in sorted(deeds, key=lambda deed: deed.snapshot_id):
        if deed.kind == "overwrite":
            parts = {row[0] for row in deed.rows}
            rows = [row for row in rows if row[0] not in parts]
        elif deed.kind == "delete":
            [gone] = deed.rows
            rows = [row for row in rows if row[: len(gone)] != gone]
            continue
        elif keys:
            replaced = {row[:keys] for row in deed.rows}
            rows = [row for row in rows if row[:keys] not in replaced]
        rows += deed.rows
    return sorted(rows)


def faults_of(table: Table, outcome: Outcome) -> list[str]:
    """Return what is wrong with a table after `run`; nothing, if all is well."""
    found = list(outcome.untyped)
    if read(table) != replayed(outcome.deeds, len(table.schema.primary_keys)):
        found.append("rows were lost, doubled or brought back")
    ids = sorted(deed.snapshot_id for deed in outcome.deeds)
    if ids != [snapshot.id for snapshot in table.snapshots()]:
        found.append("a commit was acknowledged without a snapshot, or made one unacknowledged")
    # Every snapshot is kept, so each data file is named by the delta that added it.
    orphans = _files_on_disk(table) - _files_named(table)
    if orphans:
        found.append(f"{len(orphans)} files are left that no snapshot names")
    return found


def _files_on_disk(table: Table) -> set[str]:
    root = Path(table.path)
    found = (*root.rglob("data-*"), *root.rglob("manifest/*"), *root.rglob("index/*"))
    return {path.name for path in found}


def _files_named(table: Table) -> set[str]:
    manifests = table._store.manifests
    names: set[str] = set()
    for snapshot in table.snapshots():
        names |= {snapshot.base_manifest_list, snapshot.delta_manifest_list}
        metas = manifests.manifests_of(snapshot)
        names |= {meta.file_name for meta in metas}
        for meta in manifests.read_list(snapshot.delta_manifest_list):
            names |= {entry.file.file_name for entry in manifests.read(meta)}
        if snapshot.index_manifest is not None:
            names.add(snapshot.index_manifest)
            index = manifests.read_index(snapshot.index_manifest)
            names |= {entry.file.file_name for entry in index}
    return names


def main() -> None:
    """Run as a program and print figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--table", choices=[*SCHEMAS, "all"], default="all")
    options = parser.parse_args()
    for name in SCHEMAS if options.table == "all" else [options.table]:
        with tempfile.TemporaryDirectory() as directory:
            table = new_table(directory, SCHEMAS[name], name=f"d.{name}")
            outcome = run(table.path, workers=options.workers, seconds=options.seconds)
            commits = len(outcome.deeds)
            Console().print(
                f"{name}: {options.workers} processes, {outcome.seconds:.0f} s: {commits} commits "
                f"({dict(Counter(deed.kind for deed in outcome.deeds))}), "
                f"{commits / outcome.seconds:.0f} a second; nothing to do: {outcome.nothing_done}; "
                f"given up: {dict(outcome.errors)}; "
                f"faults: {faults_of(table, outcome) or 'none'}"
            )


if __name__ == "__main__":
    main()
