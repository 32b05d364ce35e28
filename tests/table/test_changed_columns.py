"""Tables whose column types were changed: reads with and without filters on these columns."""

import datetime as dt
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from paimon_assets import InvalidInputError, Schema, UnsupportedFeatureError
from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_type
from paimon_assets.engine.spec.paths import TablePaths
from paimon_assets.engine.spec.predicate.predicate import CompareOp, Comparison, In, IsNull, equal
from paimon_assets.engine.spec.types.type_text import parse_type
from tests.testkit.retyped_keys import retype

CHANGES = [
    ("TINYINT", "BIGINT", [1, -128, None, 127], [1000, 127, None]),
    ("INT", "SMALLINT", [65537, 2, None, -1], [1, 2, 32767]),
    ("INT", "STRING", [10, 9, None, -3], ["10", "9", "x"]),
    ("BIGINT", "DOUBLE", [10, 2**53 + 1, None], [10.0, 0.5]),
    ("DOUBLE", "INT", [1.9, -1.9, None, 1e12], [1, -1, 2**31 - 1]),
    ("STRING", "INT", ["10", "9", None, "+7"], [10, 9, 7]),
    ("STRING", "DATE", ["2024-02-29", "1970-1-2", None], [dt.date(1970, 1, 2)]),
    ("STRING", "BOOLEAN", ["yes", "F", None], [True, False]),
    ("INT", "BOOLEAN", [0, 5, None], [True, False]),
    ("DECIMAL(9, 4)", "DECIMAL(4, 2)", [Decimal("1.2349"), Decimal("123.0000"), None],
     [Decimal("1.23")]),
    ("TIMESTAMP(6)", "DATE", [dt.datetime(1969, 12, 31, 23), dt.datetime(2024, 1, 2, 3)],
     [dt.date(1970, 1, 1), dt.date(2024, 1, 2)]),
    ("STRING", "VARCHAR(2)", ["abc", "abd", None], ["ab", "x"]),
    ("DATE", "STRING", [dt.date(2024, 1, 2), None], ["2024-01-02", "a"]),
]  # fmt: skip
"""(type before, type after, values written before, values written after)."""


def rows(old, values, start=0):
    arrow_type = to_arrow_type(parse_type(old))
    ids = pa.array(range(start, start + len(values)), pa.int32())
    return pa.table({"id": ids, "c": pa.array(values, arrow_type)})


def evolved_table(catalog, change, **declared):
    before, after, old_values, new_values = change
    table = catalog.create_table("db.t", Schema.of({"id": "INT", "c": before}, **declared))
    table.new_write_builder().write(rows(before, old_values))
    retype(table, "c", after)
    table = catalog.get_table("db.t")
    table.new_write_builder().write(rows(after, new_values, start=100))
    return table


def predicates(values):
    present = [value for value in dict.fromkeys(values) if value is not None]
    yield from (IsNull("c"), IsNull("c", negated=True), In("c", tuple(present[:2])))
    for value in present:
        yield from (Comparison("c", op, value) for op in CompareOp)


COMPARED = {
    CompareOp.EQ: pc.equal, CompareOp.NE: pc.not_equal, CompareOp.LT: pc.less,
    CompareOp.LE: pc.less_equal, CompareOp.GT: pc.greater, CompareOp.GE: pc.greater_equal,
}  # fmt: skip


def passing(rows_read, predicate):
    """Filter rows after the cast, independently of the engine."""
    column = rows_read["c"]
    match predicate:
        case IsNull(negated=negated):
            return rows_read.filter(pc.is_valid(column) if negated else pc.is_null(column))
        case In(literals=literals):
            return rows_read.filter(pc.is_in(column, pa.array(literals, column.type)))
        case _:
            literal = pa.scalar(predicate.literal, column.type)
            return rows_read.filter(COMPARED[predicate.op](column, literal))


@pytest.mark.parametrize("keys", [{}, {"primary_keys": ["id"], "options": {"bucket": "1"}}],
                         ids=["append", "keyed"])  # fmt: skip
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: f"{change[0]}->{change[1]}")
def test_filter_on_changed_column_uses_new_values(new_catalog, change, keys):
    table = evolved_table(new_catalog, change, **keys)
    everything = table.to_arrow().sort_by("id")
    assert everything.num_rows == len(change[2]) + len(change[3])
    for predicate in predicates(everything["c"].to_pylist()):
        found = table.to_arrow(where=predicate).sort_by("id")
        assert found.equals(passing(everything, predicate)), predicate


def test_filter_on_changed_bucket_key_reads_old_buckets(new_catalog):
    options = {"bucket": "7", "bucket-key": "c"}
    change = ("INT", "BIGINT", [-3, -2, -1, 5], [-3, 5])
    table = evolved_table(new_catalog, change, options=options)
    for value, count in ((-3, 2), (-2, 1), (-1, 1), (5, 2)):
        assert table.to_arrow(where=equal("c", value))["c"].to_pylist() == [value] * count


def test_key_whose_older_type_is_only_in_its_file_is_refused_by_name(new_catalog):
    """The plan did not know that the file is in the order of another type."""
    schema = Schema.of({"c": "INT", "v": "INT"}, primary_keys=["c"], options={"bucket": "1"})
    table = new_catalog.create_table("db.t", schema)
    for value in (10, 9):
        one_row = pa.table({"c": pa.array([value], pa.int32()), "v": pa.array([1], pa.int32())})
        table.new_write_builder().write(one_row)
    retype(table, "c", "BIGINT NOT NULL")
    Path(TablePaths(table=table.path).schema(0)).unlink()
    with pytest.raises(UnsupportedFeatureError, match=r"'c'.*BIGINT.*order of INT NOT NULL"):
        new_catalog.get_table("db.t").to_arrow()


def test_value_that_cannot_be_cast_fails_read_by_name(new_catalog):
    table = evolved_table(new_catalog, ("STRING", "INT", ["1", "no number"], [2]))
    with pytest.raises(InvalidInputError) as caught:
        table.to_arrow()
    assert caught.value.kind == "cast"
    for part in ("'c'", "db.t", "'no number'", ".parquet"):
        assert part in caught.value.message


def test_cast_dialect_of_table_applies(new_catalog):
    change = ("DOUBLE", "STRING", [1e7, 1.0], [])
    table = evolved_table(new_catalog, change, options={"cast.dialect": "cpp"})
    assert table.to_arrow()["c"].to_pylist() == ["10000000", "1"]
