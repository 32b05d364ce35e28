"""Random histories of tables whose rows have ids, with kills, beside a model and pypaimon.

    python -m tools.fuzz.row_ids [--histories 200] [--seed 1] [--steps 12]

After each step the rows, their ids and a drawn filter are those of the model, and pypaimon, which
takes some of the steps, reads the same. A killed step happened as a whole or not at all. Each
finding names its history and its steps; `--only N` does one again.
"""

import argparse
import multiprocessing
import operator
import shutil
import tempfile
import time
import traceback
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
from rich.console import Console

from paimon_assets import EmbeddedExecutor, Table
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.maintenance.expire_snapshots import Retention, expire_snapshots
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.evolution import schema_change as sc
from paimon_assets.engine.table.read.where import parse_expression
from paimon_assets.engine.table.write.row_change import WhenMatched
from tests.interop.environment import ROOT, peer_python
from tests.testkit.faults.killing_file_io import Countdown, KillingFileIO
from tests.testkit.oracle import Oracle
from tests.testkit.tables import arrow, new_table, read

TRACKED = {"row-tracking.enabled": "true"}
MARKED = {"deletion-vectors.enabled": "true"}
EVOLVING = {**TRACKED, "data-evolution.enabled": "true"}
KINDS = {
    "both": {**EVOLVING, **MARKED},
    "evolving": EVOLVING,
    "tracked": TRACKED,
    "marked": {**TRACKED, **MARKED},
}
_MOST_FILE_OPERATIONS = 60
EXECUTOR = EmbeddedExecutor(threads=1)


def act(table: Table, move: str, *arguments: Any) -> None:
    """Do one thing to a table."""
    change = table.new_row_change_builder()
    match move, arguments:
        case "append", (rows,):
            table.new_write_builder().write(arrow(table.schema, *rows), EXECUTOR)
        case "update", (assignments, where):
            new = {name: parse_expression(text) for name, text in assignments.items()}
            change.update(new, where, EXECUTOR)
        case "delete", (where,):
            change.delete(where, EXECUTOR)
        case "merge", (on, names, rows, deletes):
            columns = {n: "BIGINT" if n == "_ROW_ID" else "INT" for n in names}
            matched = WhenMatched.DELETE if deletes else WhenMatched.UPDATE
            source = arrow(columns, *rows)
            change.merge(source, on=[on], when_matched=matched, inserts=False, executor=EXECUTOR)
        case "column", (name,):
            builder = table.new_column_write_builder([name], reads=["n"])
            builder.write(lambda rows: pa.table({name: rows["n"]}), EXECUTOR)
        case "compact", (strategy,):
            table.new_compaction_builder().with_strategy(strategy).run(EXECUTOR)
        case "expire", (count,):
            keep = Retention(min_count=1, max_count=count, time_ms=0, limit=100)
            expire_snapshots(table._store, retention=keep)
        case "roll back", (snapshot_id,):
            table.rollback_to(snapshot_id)
        case "add", (name,):
            table.alter([sc.add_column(name, "INT")])
        case "rename", (old, new):
            table.alter([sc.rename_column(old, new)])
        case "drop", (name,):
            table.alter([sc.drop_column(name)])
        case _:
            raise AssertionError(move)


def act_until_killed(path: str, steps: int, move: str, arguments: tuple[Any, ...]) -> None:
    """Do one thing in a process that is killed after so many file operations."""
    storage = KillingFileIO(LocalFileIO(), Countdown(steps))
    act(Table(FileStore.open(storage, path)), move, *arguments)


class History:
    """A table, and the rows it should have: row id → column's number → value."""

    def __init__(self, place: Path, peer: Oracle, seed: int) -> None:
        self.chance, self.peer, self.name = Random(seed), peer, f"db.t{seed}"  # noqa: S311
        self.kind = list(KINDS)[seed % len(KINDS) if seed % 3 else 0]
        self.evolves = "evolution" in str(KINDS[self.kind])
        self.marks = "vectors" in str(KINDS[self.kind])
        partitions = {"partition_keys": ["p"]} if self.chance.random() < 0.5 else {}
        small = {"compaction.min.file-num": "2", "target-file-size": "1 mb"}
        options = {**KINDS[self.kind], **small}
        columns = {"p": "STRING", "k": "INT", "n": "INT"}
        self.table = new_table(place, columns, name=self.name, options=options, **partitions)
        self.numbers = {"p": 0, "k": 1, "n": 2}
        self.rows: dict[int, dict[int, Any]] = {}
        self.next_id = self.next_key = 0
        self.next_column = 3
        self.states: dict[int, tuple[dict[int, dict[int, Any]], int]] = {}
        self.log: list[str] = []
        self.kills = 0

    @property
    def path(self) -> str:
        return self.table._store.table_path

    def step(self) -> None:
        moves = ["append", "append", "append", "update", "update", "merge", "compact", "expire"]
        moves += ["add", "rename", "drop", "roll_back", "by_ids"]
        moves += ["delete", "delete"] if self.marks or not self.evolves else []
        moves += ["column", "peer_columns"] if self.evolves else []
        moves += ["peer_append"] if self.evolves else []
        moves += ["peer_delete"] if self.marks and self.evolves else []
        getattr(self, self.chance.choice(moves))()
        self.check()

    def do(self, move: str, *arguments: Any, after: Any = None) -> bool:
        """Do one thing, perhaps in a process that dies; `after` gives the rows then."""
        self.log.append(f"{move}{arguments}")
        happened = True
        if self.chance.random() < 0.4:
            steps = self.chance.randrange(_MOST_FILE_OPERATIONS)
            process = _SERVER.Process(
                target=act_until_killed, args=(self.path, steps, move, arguments)
            )
            process.start()
            process.join(300)
            assert process.exitcode is not None, "the process hangs"
            self.table = Table(FileStore.open(LocalFileIO(), self.path))
            if process.exitcode:
                assert process.exitcode < 0, f"the process failed: {process.exitcode}"
                self.kills += 1
                self.log[-1] += f" killed at {steps}"
                happened = self._is_changed(move)
        else:
            act(self.table, move, *arguments)
            self.table = Table(FileStore.open(LocalFileIO(), self.path))
        if happened and after is not None:
            self.rows = after()
        return happened

    def _is_changed(self, move: str) -> bool:
        """Whether a killed step happened, by the rows of the table."""
        if move in ("add", "rename", "drop"):
            return set(self.table.schema.field_names) != set(self.numbers)
        ids = sorted(row[0] for row in read(self.table, ["_ROW_ID"]))
        return ids != sorted(self.rows) or self._read() != self._expected_rows()

    def _read(self) -> list[tuple[Any, ...]]:
        return sorted(read(self.table, ["_ROW_ID", *self.numbers]), key=operator.itemgetter(0))

    def _expected_rows(self) -> list[tuple[Any, ...]]:
        return [
            (number, *(row.get(each) for each in self.numbers.values()))
            for number, row in sorted(self.rows.items())
        ]

    def _extra(self) -> str | None:
        extras = [name for name in self.numbers if name not in ("p", "k", "n")]
        return self.chance.choice(extras) if extras else None

    def _change_rows(self, passes: Any, new: Any) -> Any:
        """Return a function that gives the rows with new values of those that pass."""
        return lambda: {
            i: {**row, **new(i, row)} if passes(i, row) else row for i, row in self.rows.items()
        }

    def _new_rows(self) -> list[dict[str, Any]]:
        rows = []
        for _ in range(self.chance.randint(1, 6)):
            row = {"p": self.chance.choice("ab"), "k": self.next_key}
            row["n"] = self.chance.randint(0, 9)
            rows.append(row)
            self.next_key += 1
        return rows

    def _add_rows(self, rows: list[dict[str, Any]]) -> None:
        keys = {row["k"]: row for row in rows}
        ids = {k: i for k, i in read(self.table, ["k", "_ROW_ID"]) if k in keys}
        assert sorted(ids.values()) == list(range(self.next_id, self.next_id + len(rows)))
        for k, number in ids.items():
            self.rows[number] = {self.numbers[name]: value for name, value in keys[k].items()}
        self.next_id += len(rows)

    def append(self) -> None:
        rows = self._new_rows()
        if self.do("append", rows):
            self._add_rows(rows)

    def update(self) -> None:
        bound, extra = self.chance.randint(0, 9), self._extra()
        text, new = {"n": "n + 1"}, {}
        if extra is not None and bound % 2:
            text[extra] = "7"
            new = {self.numbers[extra]: 7}
        passes = lambda _, row: row[2] is not None and row[2] <= bound  # noqa: E731
        after = self._change_rows(passes, lambda _, row: {**new, 2: row[2] + 1})
        self.do("update", text, f"n <= {bound}", after=after)

    def merge(self) -> None:
        keys = {self.chance.randrange(self.next_key + 2) for _ in range(4)}
        deletes = self.chance.random() < 0.4 and (self.marks or not self.evolves)
        rows = [(k,) if deletes else (k, 50) for k in keys]
        after = self._change_rows(lambda _, row: row[1] in keys, lambda *_: {2: 50})
        if deletes:
            after = lambda: {i: r for i, r in self.rows.items() if r[1] not in keys}  # noqa: E731
        self.do("merge", "k", ["k"] if deletes else ["k", "n"], rows, deletes, after=after)

    def by_ids(self) -> None:
        ids = {i for i in self.rows if self.chance.random() < 0.3} | {self.next_id + 1}
        name = self._extra() or "n"
        after = self._change_rows(lambda i, _: i in ids, lambda i, _: {self.numbers[name]: i})
        rows = [(i, i) for i in ids]
        self.do("merge", "_ROW_ID", ["_ROW_ID", name], rows, False, after=after)

    def delete(self) -> None:
        low = self.chance.randrange(self.next_key + 1)
        where, passes = self.chance.choice(
            [
                (f"k BETWEEN {low} AND {low + 2}", lambda _, row: low <= row[1] <= low + 2),
                (f"_ROW_ID IN ({low}, {low + 3})", lambda i, _: i in (low, low + 3)),
                (f"n = {low % 10} OR _ROW_ID = {low}", lambda i, r: r[2] == low % 10 or i == low),
                ("p = 'a'", lambda _, row: row[0] == "a"),
            ]
        )
        after = lambda: {i: r for i, r in self.rows.items() if not passes(i, r)}  # noqa: E731
        self.do("delete", where, after=after)

    def column(self) -> None:
        name = self._extra()
        if name is None:
            return
        before, number = dict(self.rows), self.numbers[name]
        self.do("column", name)
        values = dict(read(self.table, ["_ROW_ID", name]))
        assert values.keys() == before.keys()
        for i, row in before.items():
            # A range that was not behind keeps the values that were written by hand.
            assert values[i] in (row[2], row.get(number))
            self.rows[i] = {**row, number: values[i]}

    def compact(self) -> None:
        self.do("compact", self.chance.choice(["full", "minor"]))

    def expire(self) -> None:
        self.do("expire", self.chance.randint(1, 4))

    def roll_back(self) -> None:
        there = [each.id for each in self.table.snapshots() if each.id in self.states]
        if not there:
            return
        target = self.chance.choice(there)
        rows, next_id = self.states[target]
        if self.do("roll back", target, after=lambda: dict(rows)):
            latest = self.table.latest_snapshot()
            if latest is not None and latest.id == target:
                self.next_id = next_id
            elif latest is not None:  # killed on the way: some of the later ones are left
                self.rows, self.next_id = self.states[latest.id]
        self.states = {i: state for i, state in self.states.items() if i <= self._latest_id()}

    def add(self) -> None:
        name = f"c{self.next_column}"
        if self.do("add", name):
            self.numbers[name] = self.next_column
        self.next_column += 1

    def rename(self) -> None:
        old = self._extra()
        if old is not None and self.do("rename", old, new := f"r{self.next_column}"):
            self.numbers = {new if n == old else n: i for n, i in self.numbers.items()}
            self.next_column += 1

    def drop(self) -> None:
        name = self._extra()
        if name is not None and self.do("drop", name):
            del self.numbers[name]

    def peer_append(self) -> None:
        rows = self._new_rows()
        self.log.append(f"pypaimon appends {rows}")
        self.peer.write(self.name, arrow(self.table.schema, *rows))
        self._add_rows(rows)

    def peer_columns(self) -> None:
        ids = [i for i in self.rows if self.chance.random() < 0.3]
        name = self._extra() or "n"
        self.log.append(f"pypaimon updates {name} of {ids}")
        if ids:
            values = pa.array(ids, pa.int32())
            rows = pa.table({"_ROW_ID": pa.array(ids, pa.int64()), name: values})
            self.peer.write(self.name, rows, "update_columns")
            for i in ids:
                self.rows[i] = {**self.rows[i], self.numbers[name]: i}

    def peer_delete(self) -> None:
        ids = [i for i in self.rows if self.chance.random() < 0.2]
        self.log.append(f"pypaimon deletes {ids}")
        if ids:
            self.peer.write(
                self.name, pa.table({"_ROW_ID": pa.array(ids, pa.int64())}), "delete_ids"
            )
            self.rows = {i: row for i, row in self.rows.items() if i not in ids}

    def _latest_id(self) -> int:
        latest = self.table.latest_snapshot()
        return 0 if latest is None else latest.id

    def check(self) -> None:
        """Compare with the model, by a filter, too, and with pypaimon."""
        expected = self._expected_rows()
        assert self._read() == expected
        latest = self.table.latest_snapshot()
        assert latest is None or latest.next_row_id == self.next_id
        if latest is not None:
            self.states[latest.id] = dict(self.rows), self.next_id
        self._check_filter()
        if latest is None:
            return
        # pypaimon looks up the columns of a file of some by their names of now.
        names = [n for n in self.numbers if not self.evolves or not n.startswith("r")]
        rows = self.peer.read(self.name, columns=[*names, *(["_ROW_ID"] if self.evolves else [])])
        found = sorted((tuple(row.values()) for row in rows.to_pylist()), key=repr)
        wanted = [
            (*(row.get(self.numbers[n]) for n in names), *([i] if self.evolves else []))
            for i, row in self.rows.items()
        ]
        assert found == sorted(wanted, key=repr), f"pypaimon reads {found}, we {wanted}"

    def _check_filter(self) -> None:
        some, name = self.chance.randrange(self.next_id + 1), self._extra() or "n"
        number = self.numbers[name]

        def is_null(row: dict[int, Any]) -> bool:
            return row.get(number) is None

        def below(row: dict[int, Any], most: int) -> bool:
            return not is_null(row) and row[number] < most

        where, passes = self.chance.choice(
            [
                (f"_ROW_ID >= {some}", lambda i, _: i >= some),
                (f"NOT (_ROW_ID = {some}) AND n < 5", lambda i, r: i != some and r[2] < 5),
                (f"{name} < 6", lambda _, r: below(r, 6)),
                (f"{name} IS NULL OR _ROW_ID < {some}", lambda i, r: is_null(r) or i < some),
                (f"_ROW_ID BETWEEN {some} AND {some + 3} AND p = 'a'",
                 lambda i, r: some <= i <= some + 3 and r[0] == "a"),
            ]
        )  # fmt: skip
        wanted = sorted(row[1] for i, row in self.rows.items() if passes(i, row))
        assert sorted(row[0] for row in read(self.table, ["k"], where)) == wanted, where
        assert self.table.count(where) == len(wanted), f"count {where}"


_SERVER = multiprocessing.get_context("forkserver")


def main() -> int:
    """Go through histories; return 1 if one differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--histories", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--only", type=int)
    asked = parser.parse_args()
    _SERVER.set_forkserver_preload(["tools.fuzz.row_ids"])
    console, findings, steps, kills = Console(), 0, 0, 0
    home = Path(tempfile.mkdtemp(prefix="row-ids-"))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, home, ignore_errors=True)
        serve = ["-m", "tests.interop.peers.serve", "pypaimon", str(home / "warehouse")]
        command = [str(peer_python()), *serve]
        (home / "exchange").mkdir()
        peer = stack.enter_context(
            Oracle(command, exchange=home / "exchange", working_directory=ROOT)
        )
        seeds = range(asked.seed, asked.seed + asked.histories)
        for seed in [asked.only] if asked.only is not None else seeds:
            began = time.monotonic()
            history = History(home / "warehouse", peer, seed)
            try:
                for _ in range(asked.steps):
                    history.step()
                    steps += 1
                outcome = "alike"
            except Exception:  # noqa: BLE001 - a finding
                findings += 1
                outcome = f"FINDING\n{traceback.format_exc()}\n" + "\n".join(history.log)
            kills += history.kills
            seconds = time.monotonic() - began
            console.print(
                f"history {seed} {history.kind}: {outcome} ({seconds:.1f} s;"
                f" {steps} steps, {kills} kills, {findings} findings)",
                markup=False,
            )
            shutil.rmtree(history.path, ignore_errors=True)
    return 1 if findings else 0


if __name__ == "__main__":
    raise SystemExit(main())
