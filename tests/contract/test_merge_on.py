"""The columns by which rows are merged: the keys of a source are merged from its parts."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_assets.engine.contract.merge_on import MergeOn
from paimon_assets.engine.errors import InvalidInputError, NotFoundError
from paimon_assets.engine.spec.predicate.predicate import And, In
from tests.testkit.errors import refused
from tests.testkit.tables import table_schema

COLUMNS = {"p": "INT", "id": "BIGINT", "name": "STRING", "flag": "BOOLEAN", "amount": "DOUBLE"}
NAMES = ["p", "id", "name", "flag"]
TYPES = (pa.int32(), pa.int64(), pa.string(), pa.bool_())


def on_of(names):
    schema = table_schema(COLUMNS, partition_keys=["p"])
    return MergeOn.of("db.t", schema, names, list(COLUMNS))


def rows_of(rows):
    columns = list(zip(*rows, strict=True)) or [()] * len(TYPES)
    arrays = [pa.array(list(c), kind) for c, kind in zip(columns, TYPES, strict=True)]
    return pa.Table.from_arrays(arrays, names=NAMES)


ROWS = st.lists(
    st.tuples(
        st.integers(0, 3) | st.none(),
        st.integers(-9, 9) | st.none(),
        st.sampled_from(["", "a", "é", "zz"]) | st.none(),
        st.booleans() | st.none(),
    ),
    max_size=6,
)


@given(parts=st.lists(ROWS, min_size=1, max_size=3))
def test_predicate_of_parts_equals_whole(parts):
    on = on_of(NAMES)
    whole = pa.concat_tables(map(rows_of, parts))
    bounds = pa.concat_tables(on.bounds(rows_of(part)) for part in parts)
    assert bounds.num_rows <= whole.num_rows * 3
    again = on.bounds(bounds)
    wanted = on.predicate(whole)
    assert _sort_literals(on.predicate(bounds)) == _sort_literals(wanted)
    assert _sort_literals(on.predicate(again)) == _sort_literals(wanted)


def _sort_literals(predicate):
    """Return a predicate with the values it lists in order."""
    match predicate:
        case And(children=children):
            return And(tuple(map(_sort_literals, children)))
        case In(field=field, literals=literals):
            return In(field, tuple(sorted(literals)))
        case _:
            return predicate


def test_many_values_of_partition_column_become_range():
    on = on_of(["p"])
    whole = pa.table({"p": pa.array(range(1600), pa.int32())})
    halves = [whole.slice(0, 800), whole.slice(800)]
    assert on.predicate(pa.concat_tables(map(on.bounds, halves))) == on.predicate(whole)
    assert on.bounds(whole).num_rows < 1100
    assert on.predicate(on.bounds(whole)) == on.predicate(whole)


def test_keys_are_equal_exactly_where_values_are():
    columns = {
        "flag": "BOOLEAN", "day": "DATE", "at": "TIMESTAMP(9)", "time": "TIME(3)",
        "price": "DECIMAL(10, 2)", "raw": "BYTES", "name": "STRING",
    }  # fmt: skip
    on = MergeOn.of("db.t", table_schema(columns), list(columns), list(columns))
    day, at = dt.date(2024, 2, 29), dt.datetime(2024, 2, 29, 1)
    values = [True, day, at, dt.time(1, 2), Decimal("1.5"), b"\0", "é"]
    source = pa.table({name: [value, None] for name, value in zip(columns, values, strict=True)})
    batch = on.convert(source).to_batches()[0]
    keys = on.keys(batch)
    assert [key.type for key in keys] == on.key_types()
    assert {key.type for key in keys} <= {pa.int64(), pa.binary()}
    assert all(key[0].is_valid and not key[1].is_valid for key in keys)
    assert keys == on.keys(pa.RecordBatch.from_arrays(batch.columns, schema=batch.schema))


@pytest.mark.parametrize(
    ("on", "source", "kind"),
    [
        ([], ["p"], "merge-on"),
        (["amount"], ["amount"], "merge-on"),
        (["id"], ["p"], "column-not-found"),
        (["nix"], ["nix"], "column-not-found"),
    ],
)
def test_unsupported_columns_are_refused(on, source, kind):
    with pytest.raises((InvalidInputError, NotFoundError)) as caught:
        MergeOn.of("db.t", table_schema(COLUMNS), on, source)
    assert caught.value.kind == kind


def test_nested_columns_are_not_compared():
    schema = table_schema({"tags": "ARRAY<INT>"})
    with refused(InvalidInputError, kind="merge-on"):
        MergeOn.of("db.t", schema, ["tags"], ["tags"])
