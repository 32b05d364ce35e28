"""Merged rows; and random histories of row changes with concurrent writers, against a model."""

import datetime as dt
import tempfile
from collections import Counter
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_assets.engine import errors
from paimon_assets.engine.codec.arrow.arrow_types import from_arrow_type, to_arrow_schema
from paimon_assets.engine.codec.arrow.arrow_values import shown_rows
from paimon_assets.engine.table.read.where import parse_expression
from paimon_assets.engine.table.write.row_change import READ_CHANGED, ArrowSource, WhenMatched
from tests.testkit import row_changing
from tests.testkit.effort import often
from tests.testkit.errors import refused
from tests.testkit.tables import new_catalog_in, new_table

pytestmark = pytest.mark.slow

MERGED = [kind for kind in row_changing.TABLES if kind != "sequence"]


def on_of(table):
    return table.schema.primary_keys or ("id",)


@pytest.fixture(params=MERGED)
def table(request, catalog):
    made = row_changing.create(catalog, request.param)
    row_changing.write(made, *row_changing.FIRST)
    return made


SOURCE = row_changing.arrow(("a", 2, 200), ("b", 3, 300), ("a", 10, 0), ("a", 40, 400))


def test_source_marks_matches_to_delete(table):
    on = on_of(table)
    flagged = SOURCE.append_column("is_deleted", pa.array([True, False, None, True]))
    builder = row_changing.changing(table)
    source = ArrowSource.of("db.t", table.schema, flagged, on, row_changing.EXECUTOR)
    values = {"v": parse_expression("source.v")}
    outcome = builder.merge_from(source, when_matched=values, deletes="is_deleted")
    assert (outcome.rows_matched, outcome.rows_inserted) == (3, 1)
    expected = {row[1]: row for row in row_changing.FIRST if row[1] != 2}
    expected.update({3: ("b", 3, 300), 10: ("a", 10, 0), 40: ("a", 40, 400)})
    assert row_changing.read(table) == sorted(expected.values(), key=repr)


def test_change_of_earlier_read_rows_is_not_planned_again(table):
    asked = []

    def refuse(latest):
        asked.append(latest.id)
        raise errors.CommitConflictError("changed", kind=READ_CHANGED)

    before = row_changing.data_files(table)
    how = {"on": on_of(table), "when_matched": {"v": parse_expression("source.v")}}
    with pytest.raises(errors.CommitConflictError):
        row_changing.changing(table).with_condition(refuse).merge(SOURCE, **how)
    assert asked == [1]
    assert row_changing.data_files(table) == before


def test_matches_are_updated_and_new_rows_inserted(table):
    on = on_of(table)
    summed = {"v": parse_expression("coalesce(v, 1) + source.v")}
    outcome = row_changing.changing(table).merge(SOURCE, on=on, when_matched=summed)
    assert (outcome.rows_matched, outcome.rows_inserted) == (3, 1)
    expected = {row[1]: row for row in row_changing.FIRST}
    expected.update({2: ("a", 2, 202), 3: ("b", 3, 303), 10: ("a", 10, 1), 40: ("a", 40, 400)})
    assert row_changing.read(table) == sorted(expected.values(), key=repr)
    assert len(table.snapshots()) == 2
    outcome = row_changing.changing(table).merge(
        SOURCE, on=on, when_matched=WhenMatched.DELETE, inserts=False
    )
    assert (outcome.rows_matched, outcome.rows_inserted) == (4, 0)
    left = [row for number, row in expected.items() if number not in (2, 3, 10, 40)]
    assert row_changing.read(table) == sorted(left, key=repr)


def test_missing_rows_are_inserted_and_matches_kept(table):
    keeping = row_changing.changing(table).with_commit_user("ann")
    done = keeping.merge(SOURCE, on=on_of(table), when_matched=WhenMatched.KEEP)
    assert (done.rows_matched, done.rows_inserted, done.files_deleted) == (3, 1, 0)
    assert row_changing.read(table) == sorted([*row_changing.FIRST, ("a", 40, 400)], key=repr)
    again = keeping.merge(SOURCE, on=on_of(table), when_matched=WhenMatched.KEEP)
    assert again.was_already_committed


def test_all_columns_of_source_are_taken(catalog):
    table = row_changing.create(catalog, "fixed")
    source = pa.table({"v": [5, 6], "id": [2, 4], "p": ["a", "a"], "more": ["x", "y"]})
    first = row_changing.changing(table).merge(source, on=["p", "id"])
    assert (first.rows_matched, first.rows_inserted) == (0, 2)
    row_changing.write(table, *row_changing.FIRST)
    row_changing.changing(table).with_dry_run().merge(source, on=["id", "p"])
    row_changing.changing(table).merge(source, on=["id", "p"])
    found = {row[1]: row[2] for row in row_changing.read(table)}
    assert (found[2], found[4], found[6]) == (5, 6, 6)


def test_source_row_may_match_many_and_null_matches_none(catalog):
    table = row_changing.create(catalog, "vectors")
    row_changing.write(table, *row_changing.FIRST)
    source = pa.table({"p": ["a", None, None], "v": pa.array([9, 1, 2], pa.int32())})
    changed = {"v": parse_expression("source.v")}
    done = row_changing.changing(table).merge(source, on=["p"], when_matched=changed, inserts=False)
    assert done.rows_matched == 6
    assert {row[2] for row in row_changing.read(table) if row[0] == "a"} == {9}


@pytest.mark.parametrize(
    ("source", "on", "kind"),
    [
        (row_changing.arrow(("a", 2, 1), ("a", 2, 2)), ["id"], "merge-duplicates"),
        (SOURCE, [], "merge-on"),
        (pa.table({"id": ["2"]}), ["id"], "merge-on"),
        (pa.table({"id": [2]}), ["p"], "column-not-found"),
        (pa.table({"id": [77], "v": [1]}), ["id"], "input-columns"),
        (pa.table({"id": [2], "v": ["x"]}), ["id"], "input-type"),
    ],
)
def test_sources_that_are_refused(catalog, source, on, kind):
    table = row_changing.create(catalog, "rewrite")
    row_changing.write(table, *row_changing.FIRST)
    before = row_changing.data_files(table)
    with refused(errors.InvalidInputError, kind=kind):
        row_changing.changing(table).merge(source, on=on)
    assert row_changing.data_files(table) == before


@pytest.mark.parametrize(
    ("column", "stored", "other"),
    [
        ("DATE", dt.date(2024, 1, 1), pa.array([dt.datetime(2024, 1, 1, 10)])),
        ("BOOLEAN", True, pa.array([7])),
        ("INT", 1, pa.array([dt.date(1970, 1, 2)])),
        ("BIGINT", 1, pa.array([1], pa.timestamp("us"))),
        ("TIME(3)", dt.time(0, 0, 1), pa.array([1000], pa.int32())),
        ("DECIMAL(4, 2)", Decimal("1.26"), pa.array([1.255])),
        ("TIMESTAMP(3)", dt.datetime(1970, 1, 1), pa.array([0], pa.timestamp("us", "UTC"))),
    ],
)
def test_rounded_values_do_not_match(catalog, column, stored, other):
    table = new_table(catalog, {"c": column, "v": "INT"})
    one, two = (pa.array([v], pa.int32()) for v in (1, 2))
    types = to_arrow_schema(table.schema.fields).types
    table.append(pa.table({"c": pa.array([stored], types[0]), "v": one}))
    with refused(errors.InvalidInputError, kind="merge-on"):
        row_changing.changing(table).merge(pa.table({"c": other, "v": two}), on=["c"])
    assert table.to_arrow()["v"].to_pylist() == [1]


def test_equal_values_of_other_types_match(catalog):
    table = new_table(catalog, {"c": "INT", "d": "DATE", "v": "INT"})
    rows = pa.table({"c": [1, 2], "d": pa.array([0, 1], pa.int32()).cast(pa.date32()), "v": [1, 1]})
    table.append(rows)
    midnights = rows["d"].cast(pa.timestamp("us"))
    source = pa.table({"c": [1.0, 3.0], "d": midnights, "v": pa.array([5, 5], pa.int32())})
    changed = {"v": parse_expression("source.v")}
    done = row_changing.changing(table).merge(
        source, on=["c", "d"], when_matched=changed, inserts=False
    )
    assert done.rows_matched == 1
    assert sorted(table.to_arrow()["v"].to_pylist()) == [1, 5]


@pytest.mark.parametrize("kind", [pa.timestamp("us"), pa.timestamp("ms"), pa.timestamp("ns")])
def test_keys_outside_python_times_are_named(catalog, kind):
    unchecked = {"write.check-times": "false"}  # which refuses such years
    columns = {"at": from_arrow_type(kind), "v": "INT"}
    table = new_table(catalog, columns, name="db.far", options=unchecked)
    far = pa.array([2**58 + 1, 2**58 + 1], kind)
    rows = pa.table({"at": far, "v": pa.array([1, 2], pa.int32())})
    table.new_write_builder().write(rows.slice(0, 1))
    with refused(errors.InvalidInputError, "'at': ", kind="merge-duplicates"):
        row_changing.changing(table).merge(rows, on=["at"])
    row_changing.changing(table).merge(
        rows.slice(1), on=["at"], when_matched={"v": parse_expression("source.v")}
    )
    assert table.to_arrow()["v"].to_pylist() == [2]
    for wanted in (pc.field("at") == far[0], pc.field("at").isin(far)):
        rows = table.new_read_builder().to_dataset().to_table(filter=wanted)
        assert [row["v"] for row in shown_rows(rows)] == [2]


def test_unsupported_merges_are_refused(catalog):
    table = row_changing.create(catalog, "fixed", **{"merge-engine": "aggregation"})
    with refused(errors.InvalidInputError, kind="merge-on"):
        row_changing.changing(table).merge(SOURCE, on=["id"])
    for matched in (WhenMatched.UPDATE, WhenMatched.DELETE):
        with pytest.raises(errors.UnsupportedFeatureError):
            row_changing.changing(table).merge(SOURCE, on=["p", "id"], when_matched=matched)
    nix = {"v": parse_expression("source.nix")}
    with pytest.raises(errors.NotFoundError):
        row_changing.changing(table).merge(SOURCE, on=["p", "id"], when_matched=nix)


def test_concurrently_inserted_row_is_found(table):
    def insert():
        row_changing.write(table, ("a", 40, 1))

    source = row_changing.arrow(("a", 40, 400))
    executor = row_changing.Meddling(insert)
    taken = {"v": parse_expression("source.v")}
    merging = row_changing.changing(table)
    outcome = merging.merge(source, on=on_of(table), when_matched=taken, executor=executor)
    assert outcome.plans == 2
    assert [row for row in row_changing.read(table) if row[1] == 40] == [("a", 40, 400)]


KEYS = st.integers(0, 7)
ROWS = st.lists(
    st.tuples(KEYS, st.integers(0, 9) | st.none()), max_size=4, unique_by=lambda r: r[0]
)
STEPS = st.one_of(
    st.tuples(st.just("write"), ROWS),
    st.tuples(st.just("merge"), ROWS),
    st.tuples(st.just("delete"), st.integers(0, 9)),
    st.tuples(st.just("remove"), KEYS),
    st.tuples(st.just("update"), KEYS),
    st.tuples(st.just("compact"), st.just(0)),
)


def _full(rows):
    return [("ab"[number % 2], number, value) for number, value in rows]


def perform(table, step, executor=row_changing.EXECUTOR):
    verb, argument = step
    change = row_changing.changing(table)
    match verb:
        case "write":
            row_changing.write(table, *_full(argument))
        case "merge":
            source = row_changing.arrow(*_full(argument))
            changed = {"v": parse_expression("source.v")}
            change.merge(source, on=on_of(table), when_matched=changed, executor=executor)
        case "delete":
            change.delete(f"v < {argument}", executor)
        case "remove":
            change.delete(f"id = {argument} AND p = '{'ab'[argument % 2]}'", executor)
        case "update":
            change.update({"v": parse_expression("v + 1")}, f"id >= {argument}", executor)
        case _:
            table.new_compaction_builder().with_strategy("full").run(row_changing.EXECUTOR)


def expected_rows(rows, step, *, keyed):
    """Return the rows after a step, as a sorted tuple."""
    verb, argument = step
    rows = list(rows)
    if verb == "delete":
        rows = [row for row in rows if row[2] is None or row[2] >= argument]
    elif verb == "remove":
        rows = [row for row in rows if row[1] != argument]
    elif verb == "update":
        rows = [(p, n, v + 1 if v is not None and n >= argument else v) for p, n, v in rows]
    elif verb in ("write", "merge"):
        new = {row[1]: row for row in _full(argument)}
        if keyed:
            rows = [row for row in rows if row[1] not in new] + list(new.values())
        elif verb == "write":
            rows += new.values()
        else:
            present = {row[1] for row in rows}
            rows = [(row[0], row[1], new.get(row[1], row)[2]) for row in rows]
            rows += [row for number, row in new.items() if number not in present]
    return tuple(sorted(rows, key=repr))


@pytest.mark.parametrize("kind", MERGED)
@settings(max_examples=often(8))
@given(steps=st.lists(st.tuples(STEPS, STEPS | st.none()), min_size=1, max_size=4))
def test_concurrent_merges_keep_all_changes(kind, steps):
    """Of two changes at once the result is that of one after the other, in some order."""
    keyed = kind in row_changing.KEYED_TABLES
    with tempfile.TemporaryDirectory() as directory:
        table = row_changing.create(new_catalog_in(directory), kind)
        row_changing.write(table, *row_changing.FIRST[:6])
        states = {tuple(sorted(row_changing.FIRST[:6], key=repr))}
        for step, beside in steps:
            happened = []

            def meddle(beside=beside, happened=happened):
                perform(table, beside)
                happened.append(beside)

            executor = row_changing.EXECUTOR if beside is None else row_changing.Meddling(meddle)
            try:
                perform(table, step, executor)
            except errors.CommitConflictError as conflict:
                raise AssertionError("planning again mends this") from conflict
            orders = [[step]] if not happened else [[step, *happened], [*happened, step]]
            outcomes = set()
            for order in orders:
                for state in states:
                    for each in order:
                        state = expected_rows(state, each, keyed=keyed)  # noqa: PLW2901
                    outcomes.add(state)
            found = tuple(row_changing.read(table))
            assert found in outcomes, (step, happened, Counter(found))
            states = {found}
