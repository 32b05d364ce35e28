"""Rows that fit the table pass unchanged in value; everything else is refused by name."""

import datetime as dt
import random
import time
from decimal import Decimal

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_assets import InvalidInputError, Schema
from paimon_assets.assets.files.source_files import FileSource, checked_schema
from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_type
from paimon_assets.engine.data.write.input_check import InputCheck, is_lossless_family
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.types.type_text import parse_type
from tests.testkit.errors import refused
from tests.testkit.tables import new_catalog_in, new_table, table_schema, write

EPOCH, MILLI = dt.datetime(1970, 1, 1), dt.timedelta(milliseconds=1)


def conform(columns, batch, **declared):
    return InputCheck(table="db.t", schema=table_schema(columns, **declared)).conform(batch)


def one(column_type, values):
    batch = pa.RecordBatch.from_arrays([values], names=["c"])
    return conform({"c": column_type}, batch).column("c")


def test_columns_are_matched_by_name_in_any_order():
    batch = pa.RecordBatch.from_pydict({"b": ["x"], "a": pa.array([1], pa.int32())})
    assert conform({"a": "INT", "b": "STRING"}, batch).to_pydict() == {"a": [1], "b": ["x"]}


@pytest.mark.parametrize("is_landing", [True, False])
def test_checks_of_columns_cost_linear_time(tmp_path, is_landing):
    costs, path = [], str(tmp_path / "a.parquet")
    source = FileSource(folder=str(tmp_path), format="parquet")
    for count in (300, 3000):
        columns = {f"c{number}": "INT" for number in range(count)}
        batch = pa.record_batch({name: pa.array([1], pa.int32()) for name in columns})
        schema = Schema.of(columns)
        pq.write_table(pa.table(batch), path)
        runs = []
        for _ in range(3):
            start = time.process_time()
            if is_landing:
                checked_schema(LocalFileIO(), [path], source, schema)
            else:
                conform(columns, batch)
            runs.append(time.process_time() - start)
        costs.append(min(runs))
    assert costs[1] < 35 * costs[0]


def test_rows_of_exact_types_are_passed_on_without_copy():
    values = pa.array([1, 2], pa.int32())
    assert one("INT", values).buffers()[1].address == values.buffers()[1].address


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a"], "lack columns of the table.*: b"),
        (["a", "b", "c"], "does not have.*: c"),
        (["a", "b", "b"], "occur twice; drop or rename them: b"),
        (["rowkind", "a", "b"], r"drop it after the rows of kind -U and -D, or .*'rowkind.field'"),
        (["A", "b"], r"lack columns of the table.*: a\. .*does not have.*: A"),
    ],
)
def test_missing_extra_and_repeated_columns_are_named(names, message):
    batch = pa.RecordBatch.from_arrays([pa.array([1], pa.int32())] * len(names), names=names)
    with pytest.raises(InvalidInputError, match=message):
        conform({"a": "INT", "b": "INT"}, batch)


@pytest.mark.parametrize(
    ("column_type", "given_values", "stored"),
    [
        ("BIGINT", pa.array([1], pa.int8()), [1]),
        ("TINYINT", pa.array([127], pa.int64()), [127]),
        ("BIGINT", pa.array([2**63 - 1], pa.uint64()), [2**63 - 1]),
        ("DOUBLE", pa.array([1.5], pa.float32()), [1.5]),
        ("STRING", pa.array(["x"], pa.large_string()), ["x"]),
        ("STRING", pa.array(["x"], pa.string_view()), ["x"]),
        ("STRING", pa.array(["x", "x"]).dictionary_encode(), ["x", "x"]),
        ("BYTES", pa.array([b"x"], pa.binary(1)), [b"x"]),
        ("INT", pa.nulls(2), [None, None]),
        ("DATE", pa.array([dt.date(2024, 1, 2)], pa.date64()), [dt.date(2024, 1, 2)]),
        ("TIMESTAMP(3)", pa.array([1000], pa.timestamp("us")), [EPOCH + MILLI]),
        ("TIMESTAMP(6)", pa.array([5], pa.timestamp("s")), [EPOCH + dt.timedelta(seconds=5)]),
        ("DECIMAL(10, 2)", pa.array([Decimal("1.50")], pa.decimal128(5, 2)), [Decimal("1.50")]),
        ("DECIMAL(4, 1)", pa.array([Decimal("1.50")], pa.decimal128(5, 2)), [Decimal("1.5")]),
        ("ARRAY<BIGINT>", pa.array([[1]], pa.large_list(pa.int32())), [[1]]),
        (
            "MAP<STRING, BIGINT>",
            pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int32())),
            [[("a", 1)], None],
        ),
        (
            "ROW<x BIGINT>",
            pa.array([{"x": 1}, None], pa.struct([("x", pa.int16())])),
            [{"x": 1}, None],
        ),
    ],
)  # fmt: skip
def test_lossless_conversions_are_made(column_type, given_values, stored):
    column = one(column_type, given_values)
    assert column.type == to_arrow_type(parse_type(column_type))
    assert column.to_pylist() == stored


@pytest.mark.parametrize(
    ("column_type", "given_values", "example"),
    [
        ("TINYINT", pa.array([1, 128, 2], pa.int64()), "128, row 1"),
        ("INT", pa.array([-1, 2**40], pa.int64()), f"{2**40}, row 1"),
        ("BIGINT", pa.array([2**63], pa.uint64()), str(2**63)),
        ("TIMESTAMP(3)", pa.array([1000, 1001], pa.timestamp("us")), "row 1"),
        ("DECIMAL(4, 1)", pa.array([Decimal("1.55")], pa.decimal128(5, 2)), "1.55"),
        ("DECIMAL(3, 0)", pa.array([Decimal(1234)], pa.decimal128(5, 0)), "1234"),
    ],
)
def test_lossy_value_is_refused_and_shown(column_type, given_values, example):
    with refused(InvalidInputError, "column 'c'", kind="input-value") as raised:
        one(column_type, given_values)
    assert example in str(raised.value)


@pytest.mark.parametrize(
    ("column_type", "given_values"),
    [
        ("INT", pa.array(["1"])),
        ("STRING", pa.array([1])),
        ("INT", pa.array([1.0])),
        ("FLOAT", pa.array([1.0], pa.float64())),
        ("BOOLEAN", pa.array([1])),
        ("TIMESTAMP(6)", pa.array([1], pa.timestamp("us", tz="UTC"))),
        ("TIMESTAMP(6) WITH LOCAL TIME ZONE", pa.array([1], pa.timestamp("us"))),
        ("DATE", pa.array([1], pa.timestamp("us"))),
        ("ARRAY<INT>", pa.array([["x"]])),
        ("ROW<x INT>", pa.array([{"y": 1}])),
    ],
)
def test_type_mismatch_names_both_types_with_example(column_type, given_values):
    with refused(InvalidInputError, kind="input-type") as raised:
        one(column_type, given_values)
    assert str(given_values.type) in str(raised.value)
    assert repr(given_values[0].as_py())[:20] in str(raised.value)


def test_zoned_instant_is_local_time_zone_timestamp():
    instant = pa.array([0], pa.timestamp("us", tz="Asia/Tokyo"))
    column = one("TIMESTAMP(6) WITH LOCAL TIME ZONE", instant)
    assert column.cast(pa.int64()).to_pylist() == [0]


def test_forbidden_nulls_are_counted_across_batches():
    schema = table_schema({"k": "INT", "v": "INT"}, primary_keys=["k"], options={"bucket": "1"})
    check = InputCheck(table="db.t", schema=schema)
    fine = pa.RecordBatch.from_pydict({"k": pa.array([1, 2], pa.int32()), "v": pa.nulls(2)})
    check.conform(fine)
    bad = pa.RecordBatch.from_pydict({"k": pa.array([None, 1, None], pa.int32()), "v": pa.nulls(3)})
    with pytest.raises(InvalidInputError, match=r"'k'.*null in 2 of 3 rows \(rows 2, 4\)"):
        check.conform(bad)
    with pytest.raises(InvalidInputError, match=r"in 1 of 2 rows \(row 2\)\. Fill the nulls\."):
        check.conform(bad.slice(0, 2))


@pytest.mark.parametrize(
    ("column_type", "given_values", "place"),
    [
        ("ARRAY<INT NOT NULL>", pa.array([[1], [None]], pa.list_(pa.int32())), "an element"),
        (
            "MAP<STRING, INT NOT NULL>",
            pa.array([[("a", None)]], pa.map_(pa.string(), pa.int32())),
            "a value",
        ),
        (
            "ROW<x INT NOT NULL>",
            pa.StructArray.from_arrays(
                [pa.array([1, None], pa.int32())],
                fields=[pa.field("x", pa.int32(), nullable=False)],
            ),
            "field 'x'",
        ),
    ],
)  # fmt: skip
def test_nulls_inside_nested_values_are_found(column_type, given_values, place):
    with pytest.raises(InvalidInputError, match=place):
        one(column_type, given_values)


def test_entries_outside_map_slice_are_ignored():
    maps = pa.array([[("a", None)], [("b", 1)]], pa.map_(pa.string(), pa.int32())).slice(1)
    column = one("MAP<STRING, INT NOT NULL>", maps)
    assert column.to_pylist() == [[("b", 1)]]


@pytest.mark.parametrize(
    ("column_type", "fits", "too_long"),
    [
        ("VARCHAR(3)", "äöü", "äöüß"),
        ("CHAR(3)", "ab", "abcd"),
        ("VARBINARY(3)", b"abc", b"abcd"),
        ("BINARY(3)", b"abc", b"abcd"),
    ],
)
def test_values_longer_than_declared_are_refused(column_type, fits, too_long):
    assert one(column_type, pa.array([fits, None])).to_pylist() == [fits, None]
    with refused(InvalidInputError, "up to 4", kind="input-length") as raised:
        one(column_type, pa.array([fits, too_long]))
    assert repr(too_long) in str(raised.value)


_LONG = 2**63 - 1
_FIRST, _LAST = -62_167_219_200_000_000, 253_402_300_799_999_999
"""0000-01-01 and the last microsecond of 9999."""
_FAR = [_LONG, -_LONG, 9_223_372_036_825_200_000, -9_223_372_036_832_400_000]
"""Infinities, also of Postgres as Debezium writes them."""


@pytest.mark.parametrize(
    ("column_type", "arrow_type", "fit", "bad"),
    [
        ("DATE", pa.date32(), [-719_528, 2_932_896], [-719_529, 2_932_897, 2**31 - 1, 1 - 2**31]),
        ("TIME", pa.time32("ms"), [0, 86_399_999], [-1, 86_400_000]),
        ("TIME", pa.time64("us"), [0, 86_399_999_000], [-1_000, 86_400_000_000]),
        ("TIMESTAMP(3)", pa.timestamp("ms"), [_FIRST // 1000, _LAST // 1000], _FAR),
        ("TIMESTAMP(6)", pa.timestamp("us"), [_FIRST, _LAST], [*_FAR, _FIRST - 1, _LAST + 1]),
        ("TIMESTAMP(9)", pa.timestamp("ns"), [_LONG, -_LONG], []),
        ("TIMESTAMP_LTZ(6)", pa.timestamp("us", "UTC"), [_FIRST, _LAST], _FAR),
    ],
)
def test_invalid_times_are_refused(column_type, arrow_type, fit, bad):
    integers = pa.int64() if arrow_type.bit_width == 64 else pa.int32()
    good = pa.array([*fit, None], integers).view(arrow_type)
    assert one(column_type, good).null_count == 1
    assert one(column_type, good.slice(2)).null_count == 1
    for number in bad:
        wrong = pa.array([fit[0], None, number], integers).view(arrow_type)
        with pytest.raises(InvalidInputError, match=r"column 'c' is .*row 2") as raised:
            one(column_type, wrong)
        assert (raised.value.kind, raised.value.details["row"]) == ("input-range", 2)
        nested = pa.array([[], [fit[0], number]], pa.list_(integers)).cast(pa.list_(integers))
        lists = pa.ListArray.from_arrays(nested.offsets, nested.values.view(arrow_type))
        with pytest.raises(InvalidInputError, match=r"in an element that are .*row 1"):
            one(f"ARRAY<{column_type}>", lists)


COLUMNS = {"i": "INT", "x": "STRING", "d": "DATE"}


@pytest.mark.parametrize(
    "schema",
    [
        Schema.of(COLUMNS),
        Schema.of(COLUMNS, options={"deletion-vectors.enabled": "true"}),
        Schema.of(COLUMNS, primary_keys=["i"], options={"bucket": "1"}),
    ],
)
def test_rows_with_foreign_times_can_be_changed_and_compacted(tmp_path, schema):
    catalog = new_catalog_in(tmp_path)
    table = new_table(catalog, schema)
    far = pa.array([6_585_322, 2**31 - 1, 5], pa.int32()).view(pa.date32())
    rows = pa.table({"i": pa.array([1, 2, 3], pa.int32()), "x": ["a", "b", "c"], "d": far})
    with pytest.raises(InvalidInputError, match="years 0 to 9999"):
        write(table, rows)
    write(table.copy({"write.check-times": "false"}), rows)
    catalog.execute("UPDATE db.t SET x = 'z' WHERE i = 1")
    catalog.execute("DELETE FROM db.t WHERE i = 2")
    catalog.execute("CALL sys.compact(table => 'db.t')")
    read = catalog.get_table("db.t").new_read_builder().to_arrow().sort_by("i")
    assert read["x"].to_pylist() == ["z", "c"]
    assert read["d"].cast(pa.int32()).to_pylist() == [6_585_322, 5]


@pytest.mark.parametrize("is_partition", [False, True])
@pytest.mark.parametrize(
    ("column_type", "arrow_type"),
    [
        ("DATE", pa.date32()),
        ("TIMESTAMP(3)", pa.timestamp("ms")),
        ("TIMESTAMP(6)", pa.timestamp("us")),
        ("TIMESTAMP(6) WITH LOCAL TIME ZONE", pa.timestamp("us", "UTC")),
    ],
)
def test_stored_times_of_any_year_are_shown(tmp_path, column_type, arrow_type, is_partition):
    catalog = new_catalog_in(tmp_path)
    table = new_table(
        catalog, {"i": "INT", "d": column_type}, partition_keys=["d"] if is_partition else []
    )
    bits = arrow_type.bit_width
    integers = pa.int32() if bits == 32 else pa.int64()
    edges = [-(2 ** (bits - 1)), 2 ** (bits - 1) - 1, 0, *(_FAR if bits == 64 else ())]
    draw = random.Random(7)  # noqa: S311
    drawn = [draw.randrange(-(2 ** (bits - 1)), 2 ** (bits - 1)) for _ in range(20)]
    numbers = sorted({*edges, *drawn})
    rows = pa.table({
        "i": pa.array(range(len(numbers)), pa.int32()),
        "d": pa.array(numbers, integers).view(arrow_type),
    })  # fmt: skip
    write(table.copy({"write.check-times": "false"}), rows)
    for kind in ("files", "partitions", "manifests", "buckets", "file_key_ranges"):
        assert catalog.get_system_table(f"db.t${kind}").to_arrow().to_pylist()
    assert len(catalog.health("db.*")) == 1
    read = catalog.get_table("db.t").to_arrow().sort_by("i")
    assert read["d"].combine_chunks().view(integers).to_pylist() == numbers


@pytest.mark.parametrize(
    "value", ["'infinity'::TIMESTAMPTZ", "TIMESTAMP '0044-03-15 (BC) 00:00:00'"]
)
def test_time_outside_python_is_named(value):
    rows = duckdb.sql(f"SELECT {value} AS c").to_arrow_table().to_batches()[0]
    with pytest.raises(InvalidInputError, match=r"for example '(32103-01-10|-0043-03-15)"):
        conform({"c": "TIMESTAMP(9)"}, rows)


INTEGER_TYPES = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint32()]


@given(st.lists(st.integers(-(2**31), 2**31 - 1)), st.sampled_from(["TINYINT", "SMALLINT", "INT"]))
def test_integers_are_stored_exactly_or_refused(numbers, column_type):
    bits = {"TINYINT": 8, "SMALLINT": 16, "INT": 32}[column_type]
    fit = all(-(2 ** (bits - 1)) <= number < 2 ** (bits - 1) for number in numbers)
    values = pa.array(numbers, pa.int64())
    if fit:
        assert one(column_type, values).to_pylist() == numbers
    else:
        with pytest.raises(InvalidInputError):
            one(column_type, values)


@pytest.mark.parametrize("source", INTEGER_TYPES)
def test_integers_are_one_family(source):
    assert is_lossless_family(source, pa.int32())
    assert not is_lossless_family(source, pa.float64())


@pytest.mark.parametrize(
    ("column_type", "values", "place", "row"),
    [
        ("ARRAY<VARCHAR(2)>", [["ab"], None, ["a", "abc"]], "an element", 2),
        (
            "ARRAY<ARRAY<VARCHAR(2)>>",
            [[["ab"]], [], [None, ["abc"]]],
            "an element of an element",
            2,
        ),
        ("MAP<VARCHAR(2), INT>", [[("ab", 1)], [("a", 1), ("abc", 2)]], "a key", 1),
        ("MAP<INT, VARBINARY(2)>", [None, [(1, b"ab")], [(1, b"abc")]], "a value", 2),
        ("MULTISET<CHAR(2)>", [[("ab", 1)], [], [("abc", 1)]], "an element", 2),
        ("ROW<a INT, b BINARY(2)>", [None, {"a": 1, "b": b"ab"}, {"b": b"abc"}], "field 'b'", 2),
        ("ROW<a ARRAY<VARCHAR(2)>>", [{"a": ["ab"]}, {"a": ["abc"]}], "an element of field 'a'", 1),
    ],
)
def test_lengths_are_enforced_inside_nested_values(column_type, values, place, row):
    given = pa.array(values, to_arrow_type(parse_type(column_type)))
    assert one(column_type, given.slice(0, row)).to_pylist() == values[:row]
    with pytest.raises(InvalidInputError, match=f"up to 3 .*in {place},.*row {row}") as raised:
        one(column_type, given)
    assert (raised.value.kind, raised.value.details["row"]) == ("input-length", row)
    with pytest.raises(InvalidInputError) as sliced:
        one(column_type, given.slice(1))
    assert sliced.value.details["row"] == row - 1


def test_integers_become_decimals_that_hold_them():
    numbers = pa.array([7, None, -999], pa.int64())
    assert one("DECIMAL(5, 2)", numbers).to_pylist() == [Decimal(7), None, Decimal(-999)]
    assert one("DECIMAL(38, 38)", pa.array([0])).to_pylist() == [Decimal(0)]
    most = pa.array([2**64 - 1], pa.uint64())
    assert one("DECIMAL(20, 0)", most).to_pylist() == [Decimal(2**64 - 1)]
    with pytest.raises(InvalidInputError, match="example 1000, row 1"):
        one("DECIMAL(5, 2)", pa.array([7, 1000]))


def test_null_row_may_have_null_required_fields():
    values = [{"a": 1}, None, {"a": 3}]
    column = one("ROW<a INT NOT NULL>", pa.array(values, pa.struct([("a", pa.int64())])))
    assert column.to_pylist() == values
    with pytest.raises(InvalidInputError):
        one("ROW<a INT NOT NULL>", pa.array([{"a": None}], pa.struct([("a", pa.int64())])))


def test_struct_with_repeated_field_is_refused():
    twice = pa.StructArray.from_arrays([pa.array([1]), pa.array(["x"])], ["a", "a"])
    with refused(InvalidInputError, kind="input-type"):
        one("ROW<a INT>", twice)


def test_values_are_shortened_or_hidden():
    batch = pa.RecordBatch.from_pydict({"c": ["ok", "secret" * 200_000]})
    with pytest.raises(InvalidInputError, match="'secretsecret") as raised:
        conform({"c": "VARCHAR(3)"}, batch)
    assert len(str(raised.value)) < 300
    for data_type, values in (("VARCHAR(3)", ["ok", "secret"]), ("TINYINT", [1, 4711])):
        batch = pa.RecordBatch.from_pydict({"c": values})
        with pytest.raises(InvalidInputError, match="row 1") as raised:
            conform({"c": data_type}, batch, options={"write.show-values": "false"})
        shown = f"{raised.value}{raised.value.__cause__}"
        assert "secret" not in shown
        assert "4711" not in shown


@given(st.lists(st.sampled_from([b"", b"ab", "ü€".encode()]), max_size=5), st.data())
def test_texts_that_are_not_utf8_are_refused_by_row(texts, data):
    bad = data.draw(st.sampled_from([b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80"]))
    place = data.draw(st.integers(0, len(texts)))
    column_type = data.draw(
        st.sampled_from(["STRING", "CHAR(9)", "ARRAY<STRING>", "ROW<x STRING>"])
    )
    plain = pa.array([*texts[:place], b"a" + bad, *texts[place:]], pa.binary())
    text = pa.Array.from_buffers(pa.string(), len(plain), plain.buffers())
    nested = {
        "ARRAY<STRING>": pa.ListArray.from_arrays(list(range(len(text) + 1)), text),
        "ROW<x STRING>": pa.StructArray.from_arrays([text], ["x"]),
    }
    with refused(InvalidInputError, rf"not valid UTF-8, row {place}\.", kind="input-value"):
        one(column_type, nested.get(column_type, text))
    one("BYTES", plain)


@pytest.mark.parametrize("bounds", [(0, 3, 1, 4), (0, 9, 2, 4)])
def test_texts_whose_bounds_do_not_ascend_are_refused(bounds):
    places = pa.py_buffer(np.array(bounds, np.int32))
    text = pa.Array.from_buffers(pa.string(), 3, [None, places, pa.py_buffer(b"abcd")])
    with refused(InvalidInputError, kind="input-value"):
        one("STRING", text)


@pytest.mark.parametrize("column_type", ["DECIMAL(9, 2)", "ARRAY<DECIMAL(9, 2)>"])
def test_decimals_of_more_digits_than_their_type_are_refused_by_row(column_type):
    exact = pa.array([10**9 - 1, None, 10**9]).cast(pa.decimal128(19, 0))
    column = pa.Array.from_buffers(pa.decimal128(9, 2), len(exact), exact.buffers())
    if column_type.startswith("ARRAY"):
        column = pa.ListArray.from_arrays([0, 1, 2, 3], column)
    with refused(InvalidInputError, r"a decimal of more digits, row 2\.", kind="input-value"):
        one(column_type, column)
    one(column_type, column[:2])
