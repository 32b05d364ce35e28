import datetime as dt
import random
import sys
from decimal import Decimal

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_assets import InvalidInputError, update_column_type
from paimon_assets.engine.spec.predicate.predicate import (
    And,
    CompareOp,
    Comparison,
    In,
    IsNull,
    Or,
    StartsWith,
    any_of,
    bind,
    bind_assignments,
    fields_of,
)
from paimon_assets.engine.table.read.where import parse_expression, parse_where
from tests.testkit.tables import new_table, table_schema, write


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = 1", Comparison("a", CompareOp.EQ, 1)),
        ("2.5 <= a", Comparison("a", CompareOp.GE, Decimal("2.5"))),
        ("a <> -1", Comparison("a", CompareOp.NE, -1)),
        ("d >= DATE '2024-01-01'", Comparison("d", CompareOp.GE, "2024-01-01")),
        ("a in (1, 2)", In("a", (1, 2))),
        ("a not in ('x')", In("a", ("x",), negated=True)),
        ("a is not null", IsNull("a", negated=True)),
        ("name like 'ab%'", StartsWith("name", "ab")),
        ('"Select" = true', Comparison("Select", CompareOp.EQ, literal=True)),
        ("active", Comparison("active", CompareOp.EQ, literal=True)),
        ("(a) = (-(1))", Comparison("a", CompareOp.EQ, -1)),
        (f"a = -{'9' * 27}.12", Comparison("a", CompareOp.EQ, Decimal(f"-{'9' * 27}.12"))),
        (
            "a = TIMESTAMP '2024-01-01 00:00:00'",
            Comparison("a", CompareOp.EQ, "2024-01-01 00:00:00"),
        ),
        (
            "not (a = 1 and b > 2)",
            Or((Comparison("a", CompareOp.NE, 1), Comparison("b", CompareOp.LE, 2))),
        ),
        (
            "a between 1 and 2",
            And((Comparison("a", CompareOp.GE, 1), Comparison("a", CompareOp.LE, 2))),
        ),
    ],
)
def test_filter_has_sql_semantics(text, expected):
    assert parse_where(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "a =", "a + 1 = 2", "f(a) = 1", "a = b", "select 1", "t.a = 1",
     "a like 'x%' escape '!'", "a ilike 'x%'", "a like any ('x%')",
     "a between symmetric 2 and 1", "a = cast(1.5 as int)", "a = 1; a = 2", "a like 3",
     "d > current_date - 7", "d > current_date - interval 1 month", "d > current_time"],
)  # fmt: skip
def test_invalid_filter_is_refused(text):
    with pytest.raises(InvalidInputError, match="filter"):
        parse_where(text)


def test_like_is_for_texts():
    schema = table_schema({"a": "INT"})
    with pytest.raises(InvalidInputError, match="'a' is INT"):
        bind(parse_where("a like '1%'"), schema)


@pytest.mark.parametrize("literal", ["0.00000000005", "1e30", f"0.{'1' * 38}", f"-{'9' * 28}.5"])
def test_decimals_of_different_scale_compare(new_catalog, literal):
    table = new_table(new_catalog, {"d": "DECIMAL(38, 10)"})
    low, high = Decimal("-1E-10"), Decimal(f"{'9' * 28}.5")
    table.append(pa.table({"d": pa.array([low, high, None], pa.decimal128(38, 10))}))
    for op in ("<", ">", "<>", "="):
        expected = [v for v in (low, high) if CompareOp(op).compare(v, Decimal(literal))]
        assert table.to_arrow(where=f"d {op} {literal}")["d"].to_pylist() == expected


_NUMBERS = st.sampled_from(
    ["-1.5", "0.5", "1.0", "2.25", "2.995", "-0.001", "3.00", "1e-30", "127.5", "-7",
     "9007199254740993.5", "99999999999", "-4e18", "1e30"]
)  # fmt: skip
_COLUMN = st.sampled_from("pisbdw")
_LEAVES = st.one_of(
    st.builds("{} {} {}".format, _COLUMN, st.sampled_from(list(CompareOp)), _NUMBERS),
    st.builds(
        "{} {} ({})".format,
        _COLUMN,
        st.sampled_from(["IN", "NOT IN"]),
        st.lists(_NUMBERS, min_size=1, max_size=3).map(", ".join),
    ),
    st.builds("{} BETWEEN {} AND {}".format, _COLUMN, _NUMBERS, _NUMBERS),
    st.builds("NOT (abs(i) {} {} OR d > 1.001)".format, st.sampled_from(["=", "<"]), _NUMBERS),
)


@pytest.fixture(scope="module", params=["parquet", "orc", "avro"])
def table_of_numbers(request, tmp_path_factory):
    """A table whose files are pruned by partition, statistics and an index; of a widened column."""
    whole = {"p": "INT", "i": "INT", "s": "SMALLINT", "b": "BIGINT"}
    table = new_table(
        tmp_path_factory.mktemp("warehouse"),
        {**whole, "d": "DECIMAL(5, 2)", "w": "DECIMAL(38, 10)"},
        partition_keys=["p"],
        options={"file.format": request.param, "file-index.bitmap.columns": "s"},
    )
    rng = random.Random(5)  # noqa: S311
    for _ in range(3):
        rows = [
            (
                rng.choice([None, 0, 1, 2]),
                *rng.choices([None, -7, -2, -1, 0, 1, 2, 3, 127], k=2),
                rng.choice([None, 2**53 + 1, -4 * 10**18, 1, 2]),
                *map(rng.choice, ([None, *map(Decimal, each)] for each in _DECIMALS)),
            )
            for _ in range(12)
        ]
        write(table, *rows)
        table = table.alter([update_column_type("s", "INT")])
    return table, table.to_arrow()


_DECIMALS = (
    ["-1.50", "0.01", "2.99", "3", "-0.01", "127.5"],
    ["2.25", "-1e-10", "1e-10", "9007199254740993.5", "-7", "1e27"],
)


@given(where=_LEAVES)
def test_whole_numbers_compare_with_fractions_as_in_duckdb(table_of_numbers, where):
    table, rows = table_of_numbers
    with duckdb.connect() as peer:
        peer.register("rows", rows)
        expected = peer.sql(f"SELECT count(*) FROM rows WHERE {where}").fetchall()[0][0]
    assert table.to_arrow(where=where).num_rows == table.count(where) == expected, where
    assert table.new_read_builder().to_duckdb().filter(where).count("*").fetchall() == [(expected,)]


def test_number_of_many_digits_is_no_long_work():
    schema = table_schema({"i": "INT"})
    for text, expected in (("i < 1e9999999", CompareOp.LE), ("i > -1e9999999", CompareOp.GT)):
        assert bind(parse_where(text), schema).op is expected
    with pytest.raises(InvalidInputError, match="is INT"):
        bind_assignments({"i": Decimal("1e9999999")}, schema)


def test_partition_of_fraction_is_refused(new_catalog):
    table = new_table(new_catalog, {"p": "INT", "v": "INT"}, (1, 2), partition_keys=["p"])
    with pytest.raises(InvalidInputError, match=r"'p' is INT; 1\.5 is not"):
        table.new_write_builder().with_overwrite({"p": 1.5})


@pytest.mark.parametrize("number", [float("inf"), Decimal("NaN"), Decimal("sNaN")])
def test_decimals_compare_with_numbers_only(number):
    schema = table_schema({"d": "DECIMAL(5, 2)", "i": "INT"})
    for name in "di":
        with pytest.raises(InvalidInputError, match=f"'{name}' is"):
            bind(Comparison(name, CompareOp.LT, number), schema)


def test_time_is_not_cut_to_milliseconds():
    schema = table_schema({"t": "TIME(3)"})
    with pytest.raises(InvalidInputError, match=r"'00:00:00\.0005' is not a value of that type"):
        bind(parse_where("t < '00:00:00.0005'"), schema)
    bind(parse_where("t < '00:00:00.005'"), schema)


@pytest.mark.parametrize("text", ["f = 0.1", "f <= 0.1", "f >= 0.1", "f in (0.1)"])
def test_float_column_equals_written_literal(new_catalog, text):
    table = new_table(new_catalog, {"f": "FLOAT"}, pa.table({"f": pa.array([0.1], pa.float32())}))
    assert table.to_arrow(where=text).num_rows == 1


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("`order` = 1", "order"),
        ("`a b` = 1", "a b"),
        ("`a``b` = 1", "a`b"),
        ('"Select" = 1', "Select"),
        *((f"{word} = 1", word) for word in ("order", "group", "date", "user", "left", "index")),
    ],
)
def test_columns_named_as_sql_words_are_found(text, name):
    assert parse_where(text) == Comparison(name, CompareOp.EQ, 1)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("select = 1", "select"),
        ("a = 1 and from = 2", "from"),
        ("case = 1", "case"),
        ("desc > 1", "desc"),
        ("current_date = 1", "current_date"),
    ],
)
def test_reserved_word_is_named_with_its_quoting(text, word):
    with pytest.raises(InvalidInputError, match=rf"If '{word}' is a column, write `{word}`"):
        parse_where(text)
    assert word in fields_of(parse_where(text.replace(word, f"`{word}`")))


@pytest.mark.parametrize(
    "text",
    [
        "(" * 200 + "a = 1" + ")" * 200,
        "not " * 2_000 + "a = 1",
        "not (" * 40 + "a = 1" + ")" * 40,
        "a = " + "- " * 2_000 + "1",
    ],
)
def test_too_deep_filter_is_refused(text):
    with pytest.raises(InvalidInputError, match="nested") as found:
        parse_where(text)
    assert len(found.value.message) < 500


def test_depth_is_counted_from_callers_frame():
    def deeper(frames):
        return parse_where("(" * 30 + "a = 1" + ")" * 30) if not frames else deeper(frames - 1)

    with pytest.raises(InvalidInputError, match="nested"):
        deeper(sys.getrecursionlimit() - 200)


def test_wide_filter_is_flat(new_catalog):
    table = new_table(new_catalog, {"a": "INT"}, pa.table({"a": pa.array([3, 6_000], pa.int32())}))
    either = " or ".join(f"a = {number}" for number in range(2_000))
    every = " and ".join(f"a <> {number}" for number in range(2_000))
    assert len(parse_where(either).children) == 2_000
    assert table.to_arrow(where=either)["a"].to_pylist() == [3]
    assert table.to_arrow(where=every)["a"].to_pylist() == [6_000]
    assert table.to_arrow(where=f"not ({either})").num_rows == 1


def test_twenty_thousand_alternatives_are_parsed():
    found = parse_where(" or ".join(f"a={number}" for number in range(20_000)))
    assert len(found.children) == 20_000


def test_stepwise_joined_filters_stay_flat(new_catalog):
    table = new_table(new_catalog, {"a": "INT"})
    found = Comparison("a", CompareOp.EQ, 0)
    for number in range(1, 2_000):
        found = any_of([found, Comparison("a", CompareOp.EQ, number)])
    assert bind(found, table.schema) == found


def test_deep_predicate_is_refused_on_binding():
    schema = table_schema({"a": "INT"})
    found = Comparison("a", CompareOp.EQ, 0)
    for _ in range(5_000):
        found = Or((And((found, IsNull("a"))), IsNull("a")))
    with pytest.raises(InvalidInputError, match="nested"):
        bind(found, schema)


@pytest.mark.parametrize("given", [pc.field("id") + 1 == 2, ("id", "=", 1), 1, [("id", "=", 1)]])
def test_filter_of_other_library_is_refused_with_way_out(new_catalog, given):
    table = new_table(new_catalog, {"id": "INT"})
    for take in (
        table.new_read_builder().with_filter,
        table.new_compaction_builder().with_filter,
        table.new_row_change_builder().delete,
    ):
        with pytest.raises(InvalidInputError, match=r"a text such as .*price > 3"):
            take(given)
    with pytest.raises(InvalidInputError, match=r"a text such as .*price > 3"):
        table.to_arrow(where=And((IsNull("id"), given)))


def test_long_expression_is_refused():
    with pytest.raises(InvalidInputError, match="nested"):
        parse_expression(" + ".join(["a"] * 500))
    assert parse_expression(" + ".join(["a"] * 60))


@pytest.mark.parametrize("text", ["select = 1", "from > 2 AND id = 1"])
def test_column_named_by_word_of_sql_needs_quotes(text):
    with pytest.raises(InvalidInputError, match=r"If '\w+' is a column, write `\w+`"):
        parse_where(text)
    quoted = parse_where("`select` = 1 AND `a b` > 2")
    assert quoted == And(
        (Comparison("select", CompareOp.EQ, 1), Comparison("a b", CompareOp.GT, 2))
    )


def test_patterns_and_current_date_filter_rows(catalog):
    table = new_table(catalog, {"s": "STRING", "d": "DATE", "t": "TIMESTAMP_LTZ(3)"})
    now = dt.datetime.now(dt.UTC).replace(microsecond=0)
    instants = [now - dt.timedelta(days=days) for days in (0, 3, 9)]
    table.append(
        pa.table(
            {"s": ["100%", "a_b", "axb\nc"], "d": [each.date() for each in instants], "t": instants}
        )
    )

    def filtered_values(where):
        return table.to_arrow(where=where)["s"].to_pylist()

    assert filtered_values("s LIKE '%b%'") == ["a_b", "axb\nc"]
    assert filtered_values(r"s LIKE 'a\_b'") == ["a_b"]
    assert filtered_values("s NOT LIKE 'a_b%'") == ["100%"]
    assert filtered_values("NOT s LIKE 'a%'") == ["100%"]
    assert filtered_values("s LIKE 'a_b'") == ["a_b"]
    assert filtered_values("d >= CURRENT_DATE - INTERVAL 1 WEEK") == ["100%", "a_b"]
    assert filtered_values("t < CURRENT_TIMESTAMP - INTERVAL '25' HOURS") == ["a_b", "axb\nc"]
    assert filtered_values("d = CURRENT_DATE()") == ["100%"]


@pytest.mark.parametrize(
    ("where", "expected"),
    [("d = -0.0", [2]), ("d >= -0.0", [1, 2, 3]), ("d < 0.0", [2]), ("d IN (-0.0, 1)", [2, 3])],
)
def test_zero_compares_with_sign(catalog, where, expected):
    rows = pa.table({"id": [1, 2, 3], "d": [0.0, -0.0, 1.0]})
    table = new_table(catalog, rows.schema)
    table.append(rows)
    assert table.to_arrow(where=where)["id"].to_pylist() == expected
