"""Statistics bound every value of a file in every mode; unknown bounds are absent."""

from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema
from paimon_assets.engine.codec.arrow.arrow_values import internals
from paimon_assets.engine.codec.rows.binary_row import deserialize_row
from paimon_assets.engine.data.format.formats import open_writer
from paimon_assets.engine.data.write import column_stats
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.types.type_text import parse_type
from tests.testkit.rows import rows_to_arrow
from tests.testkit.split_reads import FILE_IO
from tests.testkit.strategies import TYPE_TEXTS, values_of
from tests.testkit.tables import table_schema


def collect(schema, *tables, mode=None, writer=None):
    modes = column_stats.stats_modes(schema.fields, schema.typed_options) if mode is None else mode
    collector = column_stats.StatsCollector(schema.fields, modes)
    for table in tables:
        collector.add(table, () if writer is None else writer.bounded)
    if writer is not None:
        writer.close()
        collector.complete(writer)
    stats = collector.finish()
    types = [field.type for field in schema.fields]
    low, high = deserialize_row(stats.min_values, types), deserialize_row(stats.max_values, types)
    return low, high, stats.null_counts


def column(column_type, *values, **options):
    schema = table_schema({"c": column_type}, options=options)
    table = pa.Table.from_pydict({"c": list(values)}, schema=to_arrow_schema(schema.fields))
    low, high, nulls = collect(schema, table)
    return low[0], high[0], nulls[0]


@given(TYPE_TEXTS, st.data(), st.sampled_from(["truncate(2)", "truncate(16)", "full"]))
def test_all_values_lie_between_bounds(type_text, data, mode):
    data_type = parse_type(type_text)
    values = data.draw(st.lists(st.one_of(st.none(), values_of(data_type)), max_size=8))
    cut = data.draw(st.integers(0, len(values)))
    schema = table_schema({"c": type_text}, options={"metadata.stats-mode": mode})
    tables = [
        rows_to_arrow([{"c": value} for value in part], schema)
        for part in (values[:cut], values[cut:])
    ]
    (low,), (high,), (nulls,) = collect(schema, *tables)
    stored = [value for table in tables for value in internals(table.column("c"), data_type)]
    present = [value for value in stored if value is not None]
    assert nulls == len(stored) - len(present)
    if not present:
        assert (low, high) == (None, None)
    elif low is None:
        assert mode == "truncate(2)" or type_text == "BYTES"
        assert high is None
    else:
        assert all(low <= value <= high for value in present)


LONG = "x" * (column_stats.LONGEST_BOUND + 1)


@given(
    st.sampled_from(["STRING", "VARCHAR(9)", "DECIMAL(5, 2)", "DECIMAL(18, 0)", "DECIMAL(20, 1)"]),
    st.data(),
    st.booleans(),
)
def test_footers_give_statistics_of_values(tmp_path_factory, type_text, data, has_long):
    longs = st.sampled_from([LONG, "y" + LONG, "\xe9" + LONG[3:]])
    of_type = values_of(parse_type(type_text))
    values = st.none() | (of_type | longs if has_long and type_text == "STRING" else of_type)
    parts = data.draw(st.lists(st.lists(values, max_size=4), min_size=1, max_size=3))
    schema = table_schema({"c": type_text}, options={"metadata.stats-mode": "full"})
    tables = [rows_to_arrow([{"c": value} for value in part], schema) for part in parts]
    path = str(tmp_path_factory.mktemp("stats") / "data-1.parquet")
    writer = open_writer(FILE_IO, path, tables[0].schema)
    assert set(writer.bounded) == {"c"}
    for table in tables:
        writer.write(table)
    assert collect(schema, *tables, writer=writer) == collect(schema, *tables)


def test_writer_without_bound_of_rows_leaves_column_without_statistics(tmp_path):
    schema = table_schema({"c": "STRING"})
    rows = rows_to_arrow([{"c": "a"}, {"c": "b"}], schema)
    writer = open_writer(FILE_IO, str(tmp_path / "data-1.parquet"), rows.schema)
    writer.write(rows_to_arrow([{"c": LONG}, {"c": None}], schema))
    assert collect(schema, rows, writer=writer) == ((None,), (None,), (None,))


def test_text_maximum_is_truncated_and_incremented():
    text = "Two roads diverged in a yellow wood"
    assert column("STRING", text) == ("Two roads diverg", "Two roads diverh", 0)
    assert column("STRING", "short") == ("short", "short", 0)


def test_bytes_have_no_bounds():
    assert column("BYTES", b"\x01", b"\xff", None) == (None, None, 1)


@given(st.text(min_size=1, max_size=8), st.integers(1, 4))
@example("a\ud7ffb", 2)
@example("\U0010ffff\U0010ffffx", 2)
@example("𝒳𝒴𝒵", 2)
def test_truncated_maximum_is_not_smaller(text, length):
    short = column_stats.truncate_max(text, length)
    if short is None:
        assert set(text[:length]) == {"\U0010ffff"}
    else:
        assert len(short) <= length
        assert short >= text
        short.encode()


def test_columns_with_nan_have_no_statistics():
    assert column("DOUBLE", 1.0, float("nan")) == (None, None, None)
    assert column("DOUBLE", 1.0, 2.0, None) == (1.0, 2.0, 1)


def test_both_zeros_lie_between_bounds():
    low, high, _ = column("DOUBLE", 0.0)
    assert (str(low), str(high)) == ("-0.0", "0.0")


def test_modes_set_stored_statistics():
    assert column("INT", 1, None, **{"metadata.stats-mode": "counts"}) == (None, None, 1)
    assert column("INT", 1, None, **{"metadata.stats-mode": "none"}) == (None, None, None)
    own = {"metadata.stats-mode": "none", "fields.c.stats-mode": "FULL"}
    assert column("INT", 1, 3, **own) == (1, 3, 0)
    assert column("STRING", "x" * 50, **{"metadata.stats-mode": "full"})[1] == "x" * 50


@pytest.mark.parametrize("text", ["truncate", "truncate(0)", "some", "truncate(-1)"])
def test_other_modes_are_refused(text):
    with pytest.raises(InvalidInputError, match="truncate"):
        column_stats.parse_stats_mode(text)


def test_nested_columns_keep_their_place_without_statistics():
    schema = table_schema({"a": "DECIMAL(20, 2)", "n": "ARRAY<INT>", "b": "TIMESTAMP(6)"})
    rows = {"a": [Decimal("-1.50"), None], "n": [[1], None], "b": [None, None]}
    table = pa.Table.from_pydict(rows, schema=to_arrow_schema(schema.fields))
    low, high, nulls = collect(
        schema, table, mode=(column_stats.FULL, column_stats.FULL, column_stats.FULL)
    )
    assert (low, high) == ((Decimal("-1.50"), None, None), (Decimal("-1.50"), None, None))
    assert nulls == (1, None, 2)
