"""Random histories of tables whose rows have ids, beside a model in plain Python."""

from random import Random

import pyarrow as pa
import pytest

from paimon_assets.engine.control.maintenance.expire_snapshots import Retention, expire_snapshots
from paimon_assets.engine.spec.evolution.schema_change import add_column
from paimon_assets.engine.table.read.where import parse_expression
from tests.testkit.effort import often
from tests.testkit.tables import EXECUTOR, arrow, compact, new_table, read, write

TRACKED = {"row-tracking.enabled": "true"}
KINDS = {
    "tracked": TRACKED,
    "marked": {**TRACKED, "deletion-vectors.enabled": "true"},
    "evolving": {**TRACKED, "data-evolution.enabled": "true"},
    "both": {**TRACKED, "data-evolution.enabled": "true", "deletion-vectors.enabled": "true"},
}
COLUMNS = {"p": "STRING", "k": "INT", "n": "INT"}


class History:
    """A table and the model of its rows: row id → [p, k, n, score]."""

    def __init__(self, place, kind, seed):
        self.chance, self.kind = Random(f"{kind}/{seed}"), kind  # noqa: S311
        partitions = {"partition_keys": ["p"]} if self.chance.random() < 0.5 else {}
        small = {"compaction.min.file-num": "2", "target-file-size": "1 mb"}
        options = {**KINDS[kind], **small}
        made = new_table(place, COLUMNS, name=f"db.t{seed}", options=options, **partitions)
        self.table = made.alter([add_column("score", "INT")])
        self.rows, self.next_id, self.next_key = {}, 0, 0

    def step(self):
        steps = [self.append, self.append, self.update, self.merge, self.compact, self.expire]
        steps += [self.write_column, self.by_ids] if self.kind in ("evolving", "both") else []
        steps += [] if self.kind == "evolving" else [self.delete]
        self.chance.choice(steps)()
        self.check()

    def append(self):
        rows = []
        for _ in range(self.chance.randint(1, 6)):
            rows.append((self.chance.choice("ab"), self.next_key, self.chance.randint(0, 9), None))
            self.next_key += 1
        write(self.table, *rows)
        self._add_rows(rows)

    def _add_rows(self, rows):
        """Add new rows to the model with the next ids; their order is read back."""
        ids = {k: i for k, i in read(self.table, ["k", "_ROW_ID"]) if k in {r[1] for r in rows}}
        assert sorted(ids.values()) == list(range(self.next_id, self.next_id + len(rows)))
        self.rows |= {ids[row[1]]: list(row) for row in rows}
        self.next_id += len(rows)

    def update(self):
        bound = self.chance.randint(0, 9)
        new = {"n": parse_expression("n + 1")} | ({"score": 7} if bound % 2 else {})
        self.table.new_row_change_builder().update(new, f"n <= {bound}", EXECUTOR)
        for row in self.rows.values():
            if row[2] <= bound:
                row[2:] = [row[2] + 1, 7 if bound % 2 else row[3]]

    def merge(self):
        keys = [self.chance.randrange(self.next_key + 2) for _ in range(4)]
        source = arrow({"k": "INT", "n": "INT"}, *[(k, 50) for k in set(keys)])
        change = self.table.new_row_change_builder()
        change.merge(source, on=["k"], inserts=False, executor=EXECUTOR)
        for row in self.rows.values():
            row[2] = 50 if row[1] in keys else row[2]

    def by_ids(self):
        ids = [i for i in self.rows if self.chance.random() < 0.2]
        source = arrow({"_ROW_ID": "BIGINT", "score": "INT"}, *[(i, i) for i in ids])
        self.table.new_row_change_builder().merge(source, on=["_ROW_ID"], inserts=False)
        for number in ids:
            self.rows[number][3] = number

    def write_column(self):
        builder = self.table.new_column_write_builder(["score"], reads=["n"])
        builder.write(lambda rows: pa.table({"score": rows["n"]}))
        assert builder.rows_behind().behind == 0
        values = dict(read(self.table, ["_ROW_ID", "score"]))
        for number, row in self.rows.items():
            # A range that was not behind keeps values written by hand.
            assert values[number] in (row[2], row[3])
            row[3] = values[number]

    def delete(self):
        key = self.chance.randrange(self.next_key + 1)
        self.table.delete(f"k BETWEEN {key} AND {key + 2}")
        self.rows = {i: row for i, row in self.rows.items() if not key <= row[1] <= key + 2}

    def compact(self):
        compact(self.table, self.chance.choice(["full", "minor"]))

    def expire(self):
        keep = Retention(min_count=1, max_count=2, time_ms=0, limit=100)
        expire_snapshots(self.table._store, retention=keep)

    def check(self):
        found = read(self.table, ["_ROW_ID", "p", "k", "n", "score"])
        assert sorted(found) == sorted((i, *row) for i, row in self.rows.items())
        latest = self.table.latest_snapshot()
        assert latest is None or latest.next_row_id == self.next_id
        some = self.chance.randrange(self.next_id + 1)
        expected = sorted((row[1],) for i, row in self.rows.items() if i >= some)
        assert sorted(read(self.table, ["k"], f"_ROW_ID >= {some}")) == expected


@pytest.mark.hunt
@pytest.mark.parametrize("kind", KINDS)
def test_rows_and_ids_equal_model(tmp_path, kind):
    for seed in range(often(4)):
        history = History(tmp_path, kind, seed)
        for _ in range(12):
            history.step()
