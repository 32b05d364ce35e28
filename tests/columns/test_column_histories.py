"""Random histories of a table with a computed column, against a model.

Other writers change rows between runs and while a run's function is called. After each step the
table has the model's rows, and rows whose column does not fit its input are behind.
"""

import random

import pyarrow as pa
import pyarrow.compute as pc

from paimon_assets.engine.spec.evolution.schema_change import add_column
from paimon_assets.engine.spec.types.type_text import parse_type
from tests.testkit.effort import often
from tests.testkit.evolving import EVOLVING
from tests.testkit.tables import EXECUTOR, compact, new_table, read, write


class History:
    """A table and the model of its rows: key → (day, n)."""

    def __init__(self, table, rows, seed):
        self.table, self.rows, self.random, self.clock = table, dict(rows), random.Random(seed), 1  # noqa: S311

    def put(self):
        """Write new rows, or new inputs of rows."""
        self.clock += 1
        for k in self.random.sample(range(20), 3):
            n = self.random.choice([None, *range(50)])
            day = self.rows[k][0] if k in self.rows else self.random.choice("ab")
            if k in self.rows:
                self.table.new_row_change_builder().update({"n": n}, f"k = {k}", EXECUTOR)
            else:
                write(self.table, (day, k, n, None))
            self.rows[k] = (day, n)

    def remove(self):
        """Remove the rows of a day."""
        self.clock += 1
        self.table.drop_partitions([{"day": "a"}])
        self.rows = {k: row for k, row in self.rows.items() if row[0] != "a"}

    def compact(self):
        compact(self.table, self.random.choice(["full", "minor"]))

    def compute(self, beside):
        """Write the column; `beside` is called between its read and its commit."""
        left = [beside] if beside else []

        def function(rows):
            while left:
                left.pop()()
            return pa.table({"score": pc.multiply(rows["n"].cast("int64"), 2)})

        return self.builder().write(function, EXECUTOR)

    def builder(self):
        return self.table.new_column_write_builder(["score"], reads=["n"])

    def check(self, *, current):
        self.table = self.table.refresh()
        stored = {k: (day, n, s) for k, day, n, s in read(self.table, ["k", "day", "n", "score"])}
        assert {k: row[:2] for k, row in stored.items()} == self.rows
        wrong = [k for k, (_, n, s) in stored.items() if s != (None if n is None else 2 * n)]
        rows = self.builder().rows_behind()
        assert rows.total == len(self.rows)
        assert rows.behind >= len(wrong)
        if current:
            assert (wrong, rows.behind) == ([], 0)


def test_random_histories(tmp_path):
    for seed in range(often(2)):
        follow(tmp_path / str(seed), seed)


def follow(tmp_path, seed):
    rows = {k: ("a" if k < 5 else "b", k) for k in range(10)}
    columns = {"day": "STRING", "k": "INT", "n": "INT"}
    made = [(day, k, n) for k, (day, n) in rows.items()]
    table = new_table(tmp_path, columns, *made, partition_keys=["day"], options=EVOLVING)
    table = table.alter([add_column("score", parse_type("BIGINT"))])
    history = History(table, rows, seed)
    for _ in range(6):
        step = history.random.choice([history.put, history.put, history.remove, history.compact])
        beside = history.random.choice([None, history.put, history.remove, history.compact])
        step()
        history.check(current=False)
        history.compute(beside)
        history.check(current=beside in (None, history.compact))
    history.compute(None)
    history.check(current=True)
