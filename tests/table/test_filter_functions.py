"""Filters by functions of a column, and by casts: the same rows as a model finds one by one."""

import datetime as dt
import random
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from paimon_assets import InvalidInputError, Schema, update_column_type
from paimon_assets.engine.data.read import row_stage
from paimon_assets.engine.spec.predicate import predicate as pred
from paimon_assets.engine.spec.predicate.prune import exactly, may_match
from paimon_assets.engine.table.read.where import parse_where
from tests.testkit import row_changing, tables
from tests.testkit.errors import refused
from tests.testkit.predicate_truth import truth
from tests.testkit.row_changing import FIRST, SECOND, changing
from tests.testkit.tables import new_catalog_in, new_table

COLUMNS = {
    "p": "STRING",
    "id": "BIGINT",
    "s": "STRING",
    "n": "SMALLINT",
    "w": "INT",
    "f": "DOUBLE",
    "d": "DATE",
    "t": "TIMESTAMP(3)",
    "b": "BOOLEAN",
}
KEYED = {"bucket": "2"}
LAYOUTS = {
    "append": {},
    "indexed": {"file-index.bitmap.columns": "s", "file-index.bloom-filter.columns": "w"},
    "append-orc": {"file.format": "orc"},
    "keyed": KEYED,
    "keyed-orc": {**KEYED, "file.format": "orc"},
    "vectors": {**KEYED, "deletion-vectors.enabled": "true"},
    "partial-update": {**KEYED, "merge-engine": "partial-update"},
}


def some_rows(rng, count):
    def maybe(value):
        return None if rng.random() < 0.2 else value

    day = dt.date(1970, 1, 1)
    for _ in range(count):
        time = dt.datetime(1970, 1, 1) + dt.timedelta(hours=rng.randrange(500_000))
        yield {
            "p": maybe(rng.choice(["a", "A", " a", "Bb", "5"])),
            "id": rng.randrange(40),
            "s": maybe(rng.choice(["", "x", "X ", " xY", "ÄÖ", "äö", "x%"])),
            "n": maybe(rng.choice([-32768, -2, -1, 0, 1, 2, 32767])),
            "w": maybe(rng.randrange(-12, 12)),
            "f": maybe(rng.choice([-1.5, -0.0, 0.0, 1.5, float("nan"), float("-inf")])),
            "d": maybe(day + dt.timedelta(days=rng.randrange(-800, 20_000))),
            "t": maybe(time),
            "b": maybe(rng.random() < 0.5),
        }


@pytest.fixture(scope="module", params=LAYOUTS)
def table(request, tmp_path_factory):
    """A table of two commits, with column types changed between them, and its rows."""
    catalog = new_catalog_in(tmp_path_factory.mktemp("warehouse"))
    options, rng = LAYOUTS[request.param], random.Random(31)  # noqa: S311
    keys = ["p", "id"] if "bucket" in options else []
    table = new_table(catalog, COLUMNS, primary_keys=keys, partition_keys=["p"], options=options)
    for types in ((), (("n", "INT"), ("w", "STRING"))):
        table = table.alter([update_column_type(*each) for each in types]) if types else table
        rows = list(some_rows(rng, 60))
        if keys:  # once a commit, so that the order of writing does not matter
            rows = [{**row, "p": row["p"] or "none"} for row in rows]
            rows = list({(row["p"], row["id"]): row for row in rows}.values())
        if types:
            rows = [{**row, "w": None if row["w"] is None else str(row["w"])} for row in rows]
        names = table.schema.field_names
        tuples = [tuple(row[name] for name in names) for row in rows]
        tables.write(table, *tuples)
    if options.get("deletion-vectors.enabled"):
        table.compact()
    return table, table.to_arrow().to_pylist()


def leaf(operand, values):
    literals = st.sampled_from(values)
    return st.one_of(
        st.builds(
            lambda op, value: f"{operand} {op} {value}",
            st.sampled_from(["=", "<>", "<", "<=", ">", ">="]),
            literals,
        ),
        st.builds(lambda value: f"{value} < {operand}", literals),
        st.builds(lambda low, high: f"{operand} BETWEEN {low} AND {high}", literals, literals),
        st.builds(
            lambda items, no: f"{operand} {no}IN ({', '.join(items)})",
            st.lists(literals, min_size=1, max_size=3),
            st.sampled_from(["", "NOT "]),
        ),
        st.sampled_from([f"{operand} IS NULL", f"{operand} IS NOT NULL"]),
        st.sampled_from([f"{operand} LIKE 'x%'", f"{operand} NOT LIKE '%a'"])
        if values is TEXTS
        else st.nothing(),
    )


TEXTS = ["'a'", "'A'", "'x'", "'X'", "''", "'äö'", "'1'", "'-7'"]
NUMBERS = ["-1", "0", "1", "2", "32768", "1970", "12"]
DAYS = ["DATE '1970-01-01'", "'1999-12-31'", "'2020-02-29'"]
OPERANDS = [
    *((f"{name}({column})", TEXTS) for name in ("lower", "upper", "trim") for column in "ps"),
    ("lower(trim(s))", TEXTS),
    ("length(s)", NUMBERS),
    ("length(upper(p))", NUMBERS),
    ("abs(n)", NUMBERS),
    ("abs(id)", NUMBERS),
    ("abs(f)", ["0.0", "1.5"]),
    *((f"{name}(d)", NUMBERS) for name in ("year", "month", "day")),
    *((f"{name}(t)", NUMBERS) for name in ("year", "month", "day", "hour")),
    ("CAST(w AS INT)", NUMBERS),
    ("abs(CAST(w AS INT))", NUMBERS),
    ("CAST(n AS STRING)", TEXTS),
    ("CAST(id AS STRING)", TEXTS),
    ("CAST(d AS STRING)", ["'1970-01-01'", "'2'"]),
    ("CAST(t AS DATE)", DAYS),
    ("coalesce(n, 1)", NUMBERS),
    ("coalesce(s, 'x')", TEXTS),
    ("lower(coalesce(s, 'X'))", TEXTS),
    ("coalesce(d, DATE '1970-01-01')", DAYS),
    ("n", NUMBERS),
    ("p", TEXTS),
]
LEAVES = st.one_of(
    *(leaf(operand, values) for operand, values in OPERANDS),
    st.sampled_from(["coalesce(b, true)", "CAST(n AS BOOLEAN)", "b"]),
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(st.just("NOT"), inner), st.tuples(st.sampled_from(["AND", "OR"]), inner, inner)
    ),
    max_leaves=5,
)


def text_of(tree):
    if isinstance(tree, str):
        return tree
    word, *sides = tree
    if word == "NOT":
        return f"NOT ({text_of(sides[0])})"
    return f"(({text_of(sides[0])}) {word} ({text_of(sides[1])}))"


def answer(tree, row):
    """Return SQL's answer for a tree of ANDs, ORs and NOTs."""
    if isinstance(tree, str):
        return truth(with_typed_literals(parse_where(tree)), row)
    word, *sides = tree
    answers = [answer(side, row) for side in sides]
    if word == "NOT":
        return None if answers[0] is None else not answers[0]
    decisive = word == "OR"
    return decisive if decisive in answers else None if None in answers else not decisive


def with_typed_literals(predicate, *, days=False):
    """Give literals the types of Python's values, which the model compares."""

    def value(literal):
        if days:
            return dt.date.fromisoformat(literal)
        return float(literal) if isinstance(literal, Decimal) else literal

    match predicate:
        case pred.Applied(field=field, function=function, test=test, argument=argument):
            days = argument == "DATE" or (function == "coalesce" and field == "d")
            if days and function == "coalesce":
                argument = dt.date.fromisoformat(argument)
            return replace(predicate, test=with_typed_literals(test, days=days), argument=argument)
        case pred.Comparison(literal=literal):
            return replace(predicate, literal=value(literal))
        case pred.In(literals=literals):
            return replace(predicate, literals=tuple(map(value, literals)))
        case pred.And(children=children):
            return pred.And(tuple(with_typed_literals(child, days=days) for child in children))
        case _:
            return predicate


@given(tree=TREES)
def test_filtered_read_equals_model(table, tree):
    opened, rows = table
    text = text_of(tree)
    expected = [row for row in rows if answer(tree, row) is True]
    found = opened.to_arrow(where=text).to_pylist()
    assert sorted(map(repr, found)) == sorted(map(repr, expected)), text
    assert opened.count(text) == len(expected), text
    assert opened.new_read_builder().with_filter(text).with_limit(1).to_arrow().num_rows == min(
        1, len(expected)
    )


@pytest.mark.parametrize(
    ("verb", "where"),
    [
        ("delete", "upper(p) = 'A'"),
        ("delete", "abs(v) BETWEEN 3 AND 21 OR v = 7"),
        ("delete", "p = 'a' AND coalesce(v, 5) = 5"),
        ("update", "NOT lower(p) = 'b'"),
        ("update", "CAST(id AS STRING) LIKE '2%'"),
    ],
)
def test_rows_are_updated_by_functions(row_table, verb, where):
    rows = [dict(zip(row_changing.COLUMNS, row, strict=True)) for row in (*FIRST, *SECOND)]
    predicate = parse_where(where)
    matching = [row for row in rows if truth(predicate, row) is True]
    if verb == "update" and row_table.schema.options.get("sequence.field") == "v":
        pytest.skip("a sequence field is not updated")
    if verb == "update":
        outcome = changing(row_table).update({"v": 77}, where)
        left = [{**row, "v": 77} if row in matching else row for row in rows]
    else:
        outcome = changing(row_table).delete(where)
        left = [row for row in rows if row not in matching]
    assert outcome.rows_matched == len(matching)
    assert row_changing.read(row_table) == sorted((tuple(r.values()) for r in left), key=repr)


def test_functions_do_not_select_whole_partitions(catalog):
    table = row_changing.create(catalog, "fixed")
    row_changing.write(table, *FIRST)
    with refused(InvalidInputError, "not by lower of 'p'", kind="partition-spec"):
        table.new_compaction_builder().with_filter("lower(p) = 'a'").with_strategy("full").run()
    where = pred.bind(parse_where("id = 1 OR lower(p) = 'a'"), table.schema)
    with pytest.raises(InvalidInputError, match="can choose whole partitions by p"):
        table.new_write_builder().with_overwrite_where(where)
    with pytest.raises(InvalidInputError, match="not by lower of 'p'"):
        table.new_write_builder().with_overwrite_where(parse_where("p = 'a' OR lower(p) = 'a'"))
    assert row_changing.read(table) == sorted(FIRST, key=repr)


def test_incremental_reads_are_filtered(catalog):
    table = row_changing.create(catalog, "logged")
    row_changing.write(table, *FIRST)
    row_changing.write(table, *SECOND)
    changes = table.new_read_builder().between(1, 2).with_filter("upper(p) = 'B'").to_arrow()
    assert sorted(changes["id"].to_pylist()) == [21, 23]


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("abs(s) = 1", "'s' is STRING .* abs of it: it takes BIGINT"),
        ("lower(n) = 'x'", "'n' is SMALLINT .* lower of it: it takes CHAR, VARCHAR"),
        ("hour(d) = 1", "'d' is DATE .* hour of it"),
        ("CAST(d AS INT) = 1", "'d' is DATE .* cast of it: DATE cannot become INT"),
        ("year(d) = 'x'", "'x' is not a value"),
        ("coalesce(n, 'x') = 1", "'x' is not a value"),
        ("length(s) LIKE '1%'", "LIKE takes texts only"),
        ("lower(nothing) = 'x'", "nothing"),
        ("substr(s, 1) = 'x'", "'SUBSTRING\\(s, 1\\)' is not supported.* catalog.sql"),
        ("trim(BOTH 'x' FROM s) = 'x'", "not supported"),
        ("try_cast(s AS INT) = 1", "not supported"),
        ("CAST(s AS CHAR) = 'x'", "not supported"),
        ("coalesce(s, p) = 'x'", "not supported"),
        ("lower(s) = upper(s)", "not supported"),
    ],
)
def test_unfit_file_is_refused(catalog, where, message):
    table = catalog.create_table("db.t", Schema.of(COLUMNS))
    with pytest.raises((InvalidInputError, LookupError), match=message):
        table.to_arrow(where=where)


def test_invalid_value_in_filter_names_column(catalog):
    table = catalog.create_table("db.t", Schema.of({"s": "STRING", "n": "TINYINT"}))
    tables.write(table, ("1", 1), ("x", None))
    with pytest.raises(InvalidInputError, match=r"cast of column 's' fails: 'x' .* valid INT"):
        table.to_arrow(where="CAST(s AS INT) = 1")
    with pytest.raises(InvalidInputError, match="'n' is TINYINT, which does not hold the 300"):
        table.to_arrow(where="coalesce(n, 300) = 1")


def test_deleted_key_is_not_cast(catalog):
    columns = {"k": "STRING", "v": "INT"}
    table = new_table(catalog, columns, primary_keys=["k"], options={"bucket": "1"})
    tables.write(table, ("1", 1), ("x", 2))
    changing(table).delete("k = 'x'")
    assert table.to_arrow(where="CAST(k AS INT) = 1").num_rows == 1


def test_smallest_number_has_absolute_value(catalog):
    table = catalog.create_table("db.t", Schema.of({"n": "BIGINT", "m": "DECIMAL(5, 2)"}))
    tables.write(table, (-(2**63), None), (5, None))
    assert table.to_arrow(where="abs(n) > 5")["n"].to_pylist() == [-(2**63)]
    assert table.count("abs(m) > 1 OR abs(n) = 9223372036854775808") == 1


def test_hours_use_cast_time_zone(catalog):
    columns = {"z": "TIMESTAMP(3) WITH LOCAL TIME ZONE"}
    table = new_table(catalog, columns, options={"cast.time-zone": "Europe/Berlin"})
    tables.write(table, (dt.datetime(2024, 6, 30, 23, 30, tzinfo=dt.UTC),))
    assert table.count("hour(z) = 1 AND day(z) = 1 AND month(z) = 7") == 1
    assert table.count("CAST(z AS DATE) = '2024-07-01'") == 1


def test_columns_are_renamed_inside_predicates():
    inner = pred.Applied(
        "a", "trim", pred.Applied("a", "lower", pred.Comparison("a", pred.CompareOp.EQ, "x"))
    )
    expected = pred.Applied(
        "b", "trim", pred.Applied("b", "lower", pred.Comparison("b", pred.CompareOp.EQ, "x"))
    )
    assert pred.rename(inner, {"a": "b"}) == expected


def test_functions_prune_nothing():
    assert may_match(pred.Applied("a", "abs", pred.IsNull("a")), lambda _: exactly(1))


def test_years_beyond_arrow_are_correct():
    """Days of the years 32768, 2024 and 1, and null."""
    days = pa.array([11248738, 19753, -719162, None], pa.int32()).cast(pa.date32())
    assert row_stage._years(days).to_pylist() == [32768, 2024, 1, None]
    assert pc.year(days)[0].as_py() != 32768
    instants = days.slice(1).cast(pa.timestamp("us"))
    assert row_stage._years(instants).to_pylist() == [2024, 1, None]
