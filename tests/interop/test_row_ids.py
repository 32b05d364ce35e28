"""Row ids and files of some columns, written here and read by pypaimon, and the other way round."""

import pyarrow as pa
import pytest

from paimon_assets import Schema
from paimon_assets.engine.spec.evolution.schema_change import add_column
from tests.interop.steps import OurSide
from tests.testkit.oracle import Oracle
from tests.testkit.tables import compact, read, write

pytestmark = pytest.mark.interop

TRACKED = {"row-tracking.enabled": "true"}
EVOLVING = {**TRACKED, "data-evolution.enabled": "true"}
NAMES = ["k", "v", "_ROW_ID", "_SEQUENCE_NUMBER"]
COLUMNS = {"k": "INT", "v": "STRING"}


def of_peer(oracle, table, names=NAMES):
    rows = oracle.read(table, columns=names)
    return sorted(tuple(row[name] for name in names) for row in rows.to_pylist())


@pytest.mark.parametrize("options", [TRACKED, EVOLVING], ids=["tracked", "evolving"])
def test_both_append_and_row_ids_continue(options, pypaimon: Oracle, ours: OurSide):
    name = f"python_ids.appended_{len(options)}"
    table = ours.create(name, Schema.of(COLUMNS, options=options))
    write(table, (1, "a"), (2, "b"))
    pypaimon.write(name, pa.table({"k": pa.array([3, 4], pa.int32()), "v": ["c", "d"]}))
    write(table, (5, "e"))
    expected = [
        (1, "a", 0, 1), (2, "b", 1, 1), (3, "c", 2, 2), (4, "d", 3, 2), (5, "e", 4, 3),
    ]  # fmt: skip
    assert sorted(read(table, NAMES)) == expected
    assert of_peer(pypaimon, name) == expected


VECTORS = {**TRACKED, "deletion-vectors.enabled": "true"}


@pytest.mark.parametrize("options", [TRACKED, VECTORS], ids=["rewritten", "marked"])
def test_pypaimon_reads_changed_rows(options, pypaimon: Oracle, ours: OurSide):
    """It knows no ids that a file stores."""
    name, names = f"python_ids.changed_{len(options)}", NAMES[:2]
    table = ours.create(name, Schema.of(COLUMNS, options=options))
    write(table, *[(n, "a") for n in range(5)])
    write(table, (5, "b"))
    table.new_row_change_builder().update({"v": "x"}, "k = 1")
    table.delete("k = 2")
    assert of_peer(pypaimon, name, names) == sorted(read(table, names))
    compact(table)
    assert [row[2] for row in sorted(read(table, NAMES))] == [0, 1, 3, 4, 5]
    assert of_peer(pypaimon, name, names) == sorted(read(table, names))


def test_both_delete_rows_of_evolving_tables(pypaimon: Oracle, ours: OurSide):
    name = "python_ids.deleted"
    options = {**EVOLVING, "deletion-vectors.enabled": "true"}
    table = ours.create(name, Schema.of({**COLUMNS, "n": "INT"}, options=options))
    names = ["k", "v", "n", "_ROW_ID"]
    change = table.new_row_change_builder()

    def same(ids):
        found = sorted(read(table, names))
        assert of_peer(pypaimon, name, names) == found
        assert of_peer(pypaimon, name, ["n"]) == sorted(read(table, ["n"]))
        assert [row[3] for row in found] == ids
        return found

    def of_ids(*numbers, **more):
        return pa.table({"_ROW_ID": pa.array(numbers, pa.int64()), **more})

    write(table, *[(k, "a", k) for k in range(5)])
    write(table, *[(k, "b", k) for k in range(5, 8)])
    table.delete("k IN (1, 6)")
    same([0, 2, 3, 4, 5, 7])
    pypaimon.write(name, of_ids(2, 7), "delete_ids")
    same([0, 3, 4, 5])
    change.update({"v": "x"}, "k IN (3, 5)")
    pypaimon.write(name, of_ids(0, 4, n=pa.array([10, 14], pa.int32())), "update_columns")
    assert same([0, 3, 4, 5])[0] == (0, "a", 10, 0)
    table.delete("v = 'x' AND k = 3")
    pypaimon.write(name, of_ids(4), "delete_ids")
    same([0, 5])
    write(table, *[(k, "c", k) for k in range(8, 12)])
    table.delete("_ROW_ID = 9")
    compact(table)
    before = same([0, 5, 8, 10, 11])
    pypaimon.write(name, of_ids(8, 5), "delete_ids")
    change.update({"n": 1}, None)
    pypaimon.write(name, of_ids(11, n=pa.array([7], pa.int32())), "update_columns")
    assert same([0, 10, 11]) == [(*before[0][:2], 1, 0), (10, "c", 1, 10), (11, "c", 7, 11)]
    table.delete("k >= 10")
    same([0])


def test_table_of_pypaimon_gets_row_ids(pypaimon: Oracle, ours: OurSide):
    name = "python_ids.enabled"
    pypaimon.call("create", table=name, columns={**COLUMNS, "n": "INT"}, primary_keys=[],
                  partition_keys=[], options={})  # fmt: skip
    rows = [(k, "a", k) for k in range(20)]
    columns = {"k": pa.int32(), "v": pa.string(), "n": pa.int32()}
    first = pa.table(
        [
            pa.array(values, kind)
            for values, kind in zip(zip(*rows, strict=True), columns.values(), strict=True)
        ],
        names=list(columns),
    )
    pypaimon.write(name, first)
    table = ours.open(name)
    write(table, (20, "b", 20), (21, "b", 21))
    table = table.enable_row_ids(data_evolution=True)
    names = ["k", "v", "n", "_ROW_ID"]

    def same():
        found = sorted(read(table, names))
        assert of_peer(pypaimon, name, names) == found
        assert [row[3] for row in found] == list(range(len(found)))
        return found

    assert same() == [(*row, row[0]) for row in [*rows, (20, "b", 20), (21, "b", 21)]]
    table.new_row_change_builder().update({"v": "x"}, "k < 3")
    ids = pa.array([2, 21], pa.int64())
    pypaimon.write(
        name, pa.table({"_ROW_ID": ids, "n": pa.array([50, 51], pa.int32())}), "update_columns"
    )
    pypaimon.write(name, first.slice(0, 1))
    found = sorted(read(table, names), key=lambda row: row[3])
    assert (found[2], found[21], found[22]) == ((2, "x", 50, 2), (21, "b", 51, 21), (0, "a", 0, 22))
    assert of_peer(pypaimon, name, names) == sorted(found)


def test_both_write_columns_of_same_rows(pypaimon: Oracle, ours: OurSide):
    name = "python_ids.columns"
    table = ours.create(name, Schema.of({**COLUMNS, "n": "INT"}, options=EVOLVING))
    names = ["k", "v", "n", "_ROW_ID"]
    write(table, *[(k, "a", k) for k in range(5)])
    write(table, *[(k, "b", k) for k in range(5, 8)])

    def same():
        found = sorted(read(table, names))
        assert of_peer(pypaimon, name, names) == found
        return found

    change = table.new_row_change_builder()
    change.update({"v": "x"}, "k = 2")
    assert same()[2] == (2, "x", 2, 2)
    ids, values = pa.array([1, 6], pa.int64()), pa.array([11, 66], pa.int32())
    rows = pa.table({"_ROW_ID": ids, "n": values})
    pypaimon.write(name, rows, "update_columns")
    assert [row[2] for row in same()] == [0, 11, 2, 3, 4, 5, 66, 7]
    change.merge(pa.table({"k": pa.array([1, 9], pa.int32()), "n": [100, 99], "v": ["m", "new"]}),
                 on=["k"])  # fmt: skip
    assert same()[-1] == (9, "new", 99, 8)
    table.alter([add_column("score", "DOUBLE")])
    table = ours.open(name)
    names.append("score")
    rows = pa.table({"_ROW_ID": pa.array([0, 7, 8], pa.int64()), "score": [0.5, 1.5, 2.5]})
    pypaimon.write(name, rows, "update_columns")
    assert [row[4] for row in same()] == [0.5, *[None] * 6, 1.5, 2.5]
    table.new_row_change_builder().update({"score": 3.5}, "score IS NULL")
    assert {row[4] for row in same()} == {0.5, 1.5, 2.5, 3.5}
    before = same()
    compact(table)
    assert same() == before
    pypaimon.write(name, rows, "update_columns")
    assert same()[1:7] == before[1:7]
