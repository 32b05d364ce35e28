"""Columnar merge functions against merging record by record, for every engine and function."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyroaring import BitMap, BitMap64

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_type
from paimon_assets.engine.codec.bitmaps.roaring import write_java_bitmap64
from paimon_assets.engine.data.key_order import sort_keys
from paimon_assets.engine.data.merge.function import merge_function_of
from paimon_assets.engine.data.merge.records import Records
from paimon_assets.engine.data.merge.sort_merge import merge_sorted
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.merge.merge_rules import AggregateFunction, merge_rules_of
from paimon_assets.engine.spec.types.data_types import RowKind
from tests.testkit import tables
from tests.testkit.effort import often
from tests.testkit.merge_model import MergeModel, NotRetractableError

TEXTS = st.sampled_from([None, "", " ", "a", "b", "a,b", "b,,c", "é"])
INTS = st.none() | st.integers(-3, 3)
DOUBLES = st.none() | st.sampled_from([0.1, -0.5, 1e16, 1.0, -1e16])
NESTED = st.none() | st.fixed_dictionaries(
    {"id": st.none() | st.integers(0, 2), "v": INTS, "s": INTS}
)
NESTED_ROWS = st.none() | st.lists(NESTED, max_size=3)
NESTED_TYPE = "ARRAY<ROW<id INT, v INT, s INT>>"
TIMED_MAP = "MAP<INT, ROW<v INT, ts STRING>>"
BITMAPS = st.none() | st.frozensets(st.integers(0, 70_000), max_size=3).map(
    lambda numbers: BitMap(numbers).serialize()
)
BITMAPS64 = st.none() | st.frozensets(st.integers(0, 2**64 - 1), max_size=3).map(
    lambda numbers: write_java_bitmap64(BitMap64(numbers))
)
DECIMALS = st.none() | st.integers(-999, 999).map(lambda unscaled: Decimal(unscaled) / 10)
BIG = st.none() | st.integers(-(10**38) + 1, 10**38 - 1).map(
    lambda unscaled: Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -4))
)

AGGREGATED = {
    "sum_int": ("INT", "sum", INTS, {}),
    "sum_long": ("BIGINT", "sum", st.none() | st.integers(-(2**60), 2**60), {}),
    "sum_decimal": ("DECIMAL(4, 1)", "sum", DECIMALS, {}),
    "sum_wide": ("DECIMAL(38, 4)", "sum", BIG, {}),
    "sum_double": ("DOUBLE", "sum", DOUBLES, {}),
    "product_int": ("BIGINT", "product", st.none() | st.integers(1, 9), {}),
    "product_decimal": ("DECIMAL(4, 1)", "product", DECIMALS, {"ignore-retract": "true"}),
    "product_double": ("DOUBLE", "product", DOUBLES, {"ignore-retract": "true"}),
    "max_text": ("STRING", "max", TEXTS, {"ignore-retract": "true"}),
    "max_wide": ("DECIMAL(38, 4)", "max", BIG, {"ignore-retract": "true"}),
    "min_double": ("DOUBLE", "min", DOUBLES, {"ignore-retract": "true"}),
    "last": ("INT", "last_value", INTS, {}),
    "last_known": ("INT", "last_non_null_value", INTS, {}),
    "by_default": ("STRING", None, TEXTS, {}),
    "first": ("INT", "first_value", INTS, {"ignore-retract": "true"}),
    "first_known": ("INT", "first_not_null_value", INTS, {"ignore-retract": "true"}),
    "texts": ("STRING", "listagg", TEXTS, {"ignore-retract": "true", "list-agg-delimiter": ";"}),
    "pieces": ("STRING", "listagg", TEXTS, {"ignore-retract": "true", "distinct": "true"}),
    "all_true": ("BOOLEAN", "bool_and", st.none() | st.booleans(), {"ignore-retract": "true"}),
    "some_true": ("BOOLEAN", "bool_or", st.none() | st.booleans(), {"ignore-retract": "true"}),
    "bag": ("ARRAY<INT>", "collect", st.none() | st.lists(INTS, max_size=3), {}),
    "set": ("ARRAY<STRING>", "collect", st.none() | st.lists(TEXTS, max_size=3, unique=True),
            {"distinct": "true"}),
    "set_of_rows": (NESTED_TYPE, "collect", st.none() | st.lists(NESTED, max_size=2,
                    unique_by=repr), {"distinct": "true"}),
    "map": ("MAP<STRING, INT>", "merge_map",
            st.none() | st.dictionaries(st.sampled_from("abc"), INTS, max_size=3), {}),
    "timed": (TIMED_MAP, "merge_map_with_keytime",
              st.none() | st.dictionaries(st.integers(0, 1), st.none() | st.fixed_dictionaries(
                  {"v": INTS, "ts": st.sampled_from([None, "1", "2"])}), max_size=2),
              {"ignore-retract": "true"}),
    "rows": (NESTED_TYPE, "nested_update", NESTED_ROWS, {}),
    "few_rows": (NESTED_TYPE, "nested_update", NESTED_ROWS, {"count-limit": "2"}),
    "table": (NESTED_TYPE, "nested_update", NESTED_ROWS, {"nested-key": "id"}),
    "small_table": (NESTED_TYPE, "nested_update", NESTED_ROWS,
                    {"nested-key": "id", "count-limit": "2"}),
    "ordered_table": (NESTED_TYPE, "nested_update", NESTED_ROWS,
                      {"nested-key": "id", "nested-sequence-field": "s,v"}),
    "strict_table": (NESTED_TYPE, "nested_update", NESTED_ROWS, {
        "nested-key": "id,v", "nested-key-null-strategy": "ignore"}),
    "merged_table": (NESTED_TYPE, "nested_partial_update", NESTED_ROWS,
                     {"nested-key": "id", "ignore-retract": "true"}),
    "bitmap": ("BYTES", "rbm32", BITMAPS, {"ignore-retract": "true"}),
    "bitmap64": ("BYTES", "rbm64", BITMAPS64, {"ignore-retract": "true"}),
}  # fmt: skip
"""Column → (type, function, values, options of the column)."""
KINDS = st.sampled_from([RowKind.INSERT, RowKind.INSERT, *RowKind])
ADD_DELETE_ADD = (RowKind.INSERT, RowKind.DELETE, RowKind.INSERT)


def aggregated_schema(*names, **options):
    columns, declared = {"k": "INT"}, {"merge-engine": "aggregation", **options}
    for name in names or AGGREGATED:
        data_type, function, _, extra = AGGREGATED[name]
        columns[name] = data_type
        if function:
            declared[f"fields.{name}.aggregate-function"] = function
        declared.update({f"fields.{name}.{key}": value for key, value in extra.items()})
    return table_schema(columns, declared)


def table_schema(columns, options):
    return tables.table_schema(columns, primary_keys=["k"], options=options)


def records_of(schema, records):
    """Records (kind, row), in order of arrival, as the merge functions take them."""
    columns = {}
    for field in schema.fields:
        values = [row[field.name] for _, row in records]
        if field.type.root == "MAP":
            values = [value if value is None else list(value.items()) for value in values]
        columns[field.name] = pa.array(values, to_arrow_type(field.type))
    kinds = np.array([kind for kind, _ in records], dtype=np.int8)
    return Records(
        by_key=sort_keys([columns["k"]]),
        kinds=kinds if kinds.any() else None,
        columns=schema.field_names,
        column=columns.__getitem__,
    )


def merge_columns(schema, records, **options):
    """Merge with the columnar functions: key → (kind, row)."""
    given = records_of(schema, records)
    rows = merge_function_of(schema, "d.t").merge(given, **options)
    columns = {name: rows.column(name, given.column(name)) for name in schema.field_names}
    assert all(
        column.type == given.column(name).type and len(column) == len(rows.newest)
        for name, column in columns.items()
    )
    for column in columns.values():
        # Sums of decimals may be wider than their type, as in Java.
        column.validate(full=not pa.types.is_decimal(column.type))
    kinds = [0] * len(rows.newest) if rows.kinds is None else rows.kinds.tolist()
    plain = pa.table(columns).to_pylist(maps_as_pydicts="strict")
    return {row["k"]: (RowKind(kind), row) for kind, row in zip(kinds, plain, strict=True)}


def merge_records(schema, records):
    """Merge record by record: key → (kind, row)."""
    model = MergeModel(merge_rules_of(schema), schema.fields)
    keys = {}
    for kind, row in records:
        keys.setdefault(row["k"], []).append((kind, row))
    found = {key: model.merge(members) for key, members in keys.items()}
    return {key: record for key, record in found.items() if record is not None}


def canonical(schema, result):
    """Lists and maps whose order is left open, sorted."""
    loose = {
        name
        for name, each in merge_rules_of(schema).aggregations.items()
        if each.distinct or each.nested_key
    }
    return {
        key: (kind, {name: _loose(name in loose, value) for name, value in row.items()})
        for key, (kind, row) in result.items()
    }


def _loose(is_loose, value):
    if isinstance(value, dict):
        return sorted(value.items(), key=_sortable)
    if isinstance(value, str):
        return value if value.strip() else None  # blank texts list nothing
    if isinstance(value, float):
        return repr(value)  # NaN equals itself, and the zeros differ
    return sorted(value, key=_sortable) if is_loose and isinstance(value, list) else value


def _sortable(value):
    return repr(sorted(value.items()) if isinstance(value, dict) else value)


def check(schema, records):
    """Assert that both ways of merging agree, for reads and for writes."""
    try:
        wanted = canonical(schema, merge_records(schema, records))
    except NotRetractableError:
        with pytest.raises(InvalidInputError, match="-U and"):
            merge_columns(schema, records, keep_retracts=True)
        return
    assert canonical(schema, merge_columns(schema, records, keep_retracts=True)) == wanted
    visible = {key: record for key, record in wanted.items() if record[0].is_add}
    assert {
        key: row for key, (_, row) in canonical(schema, merge_columns(schema, records)).items()
    } == {key: row for key, (_, row) in visible.items()}


def records_strategy(values, kinds=KINDS):
    row = st.fixed_dictionaries({"k": st.integers(0, 2), **values})
    return st.lists(st.tuples(kinds, row), min_size=1, max_size=10)


@pytest.mark.parametrize("column", AGGREGATED)
@settings(max_examples=often(16))
@given(data=st.data())
def test_functions_equal_fold_of_records(column, data):
    schema = aggregated_schema(column)
    check(schema, data.draw(records_strategy({column: AGGREGATED[column][2]})))


@settings(max_examples=often(24))
@given(
    records_strategy({name: AGGREGATED[name][2] for name in ("sum_int", "last", "bag")}),
    st.booleans(),
)
def test_delete_may_remove_whole_row(records, remove):
    options = {"aggregation.remove-record-on-delete": str(remove).lower()}
    check(aggregated_schema("sum_int", "last", "bag", **options), records)


@example([(RowKind.DELETE, {"k": 0, "f": 1, "g": 1}), (RowKind.INSERT, {"k": 0, "f": 2, "g": 2})])
@example([(kind, {"k": 0, "f": n, "g": n}) for n, kind in enumerate(ADD_DELETE_ADD)])
@settings(max_examples=often(30))
@given(
    records_strategy(
        {"f": INTS, "g": INTS},
        st.sampled_from([RowKind.INSERT, RowKind.UPDATE_AFTER, RowKind.DELETE]),
    )
)
def test_first_value_after_delete_counts_if_none_was_seen(records):
    schema = table_schema(
        {"k": "INT", "f": "INT", "g": "INT"},
        {
            "merge-engine": "aggregation",
            "aggregation.remove-record-on-delete": "true",
            "fields.f.aggregate-function": "first_value",
            "fields.g.aggregate-function": "first_non_null_value",
        },
    )
    check(schema, records)


@example([(RowKind.INSERT, {"k": 0, "s": 1}), (RowKind.DELETE, {"k": 0, "s": 2})])
@given(records_strategy({"s": INTS}))
def test_sequence_field_may_ignore_retractions(records):
    options = {"merge-engine": "aggregation", "sequence.field": "s"}
    schema = table_schema({"k": "INT", "s": "INT"}, {**options, "fields.s.ignore-retract": "true"})
    check(schema, records)
    assert merge_rules_of(schema).aggregations["s"].ignore_retract


PARTIAL = {"a": INTS, "b": INTS, "c": INTS, "d": INTS, "s": INTS, "t": INTS, "u": INTS}
GROUPS = {"fields.s.sequence-group": "a", "fields.t,u.sequence-group": "b,c"}
SUMMED = {"fields.a.aggregate-function": "sum", "fields.c.aggregate-function": "last_value"}
REMOVING = "partial-update.remove-record-on-sequence-group"
PARTIAL_OPTIONS = {
    "plain": {},
    "ignoring": {"ignore-delete": "true"},
    "removing": {"partial-update.remove-record-on-delete": "true"},
    "groups": GROUPS,
    "groups ignoring": {**GROUPS, "ignore-delete": "true"},
    "groups summing": {**GROUPS, **SUMMED},
    "groups summing, ignoring": {**GROUPS, **SUMMED, "ignore-delete": "true"},
    "the first group removing": {**GROUPS, **SUMMED, REMOVING: "s"},
    "the second group removing": {**GROUPS, **SUMMED, REMOVING: "u"},
    "both groups removing": {**GROUPS, **SUMMED, REMOVING: "t,s"},
    "other functions": {
        **GROUPS,
        "fields.a.aggregate-function": "product",
        "fields.a.ignore-retract": "true",
        "fields.b.aggregate-function": "last_non_null_value",
        "fields.c.aggregate-function": "max",
    },
    "a default": {**GROUPS, "fields.default-aggregate-function": "last_non_null_value"},
}


# The second record restarts the key; then the third one is not late for its group, and removes it.
REMOVED_TWICE = [
    (kind, {**dict.fromkeys(PARTIAL, 0), "k": 0, "s": s, "t": t})
    for kind, s, t in ((RowKind.INSERT, 1, 5), (RowKind.DELETE, 2, 1), (RowKind.DELETE, 1, 3))
]


@pytest.mark.parametrize("name", PARTIAL_OPTIONS)
@example(records=REMOVED_TWICE, all_add=False)
@settings(max_examples=often(24))
@given(records=records_strategy(PARTIAL), all_add=st.booleans())
def test_partial_update_equals_fold_of_records(name, records, all_add):
    options = PARTIAL_OPTIONS[name]
    schema = table_schema(
        {"k": "INT", **dict.fromkeys(PARTIAL, "INT")}, {"merge-engine": "partial-update", **options}
    )
    if all_add:
        records = [(RowKind.INSERT, row) for _, row in records]
    check(schema, records)


@pytest.mark.parametrize("name", ["groups", "groups ignoring", "groups summing, ignoring"])
@given(data=st.data())
def test_nan_in_sequence_group_ties_with_every_number(name, data):
    schema = table_schema(
        {"k": "INT", **dict.fromkeys(PARTIAL, "INT"), "s": "DOUBLE", "t": "FLOAT"},
        {"merge-engine": "partial-update", **PARTIAL_OPTIONS[name]},
    )
    numbers = st.none() | st.sampled_from([1.0, 5.0, -0.0, 0.0, float("nan")])
    values = {**PARTIAL, "s": numbers, "t": numbers, "u": st.none()}
    check(schema, data.draw(records_strategy(values)))


ORDERED = ["texts", "pieces", "bag", "rows", "table", "ordered_table", "map", "timed",
           "merged_table", "last", "last_known", "first", "first_known", "sum_double",
           "product_decimal"]  # fmt: skip


RETRACTED = {name for name, (*_, extra) in AGGREGATED.items() if "ignore-retract" not in extra}
ADDS = st.just(RowKind.INSERT)


@pytest.mark.parametrize("column", ORDERED)
@settings(max_examples=often(16))
@given(data=st.data())
def test_sequence_group_functions_order_late_records_first(column, data):
    data_type, function, values, extra = AGGREGATED[column]
    if values is NESTED_ROWS:  # a record that seeds a row keeps its nulls and repetitions
        values = st.none() | st.lists(
            NESTED.filter(bool), max_size=3, unique_by=lambda row: row["id"]
        )
    kinds = KINDS if column in RETRACTED or function.startswith("first") else ADDS
    schema = table_schema(
        {"k": "INT", "s": "INT", column: data_type},
        {
            "merge-engine": "partial-update",
            "fields.s.sequence-group": column,
            f"fields.{column}.aggregate-function": function,
            **{f"fields.{column}.{key}": value for key, value in extra.items()},
        },
    )
    check(schema, data.draw(records_strategy({"s": INTS, column: values}, kinds)))


@given(records=records_strategy({"v": INTS}), ignore=st.booleans())
def test_first_row_is_kept(records, ignore):
    options = {"merge-engine": "first-row", "ignore-delete": str(ignore).lower()}
    check(table_schema({"k": "INT", "v": "INT"}, options), records)


@settings(max_examples=often(16))
@given(
    records_strategy({name: AGGREGATED[name][2] for name in ("sum_int", "bag")}), st.integers(1, 4)
)
def test_slices_merge_same(records, rows_at_once):
    schema = aggregated_schema("sum_int", "bag")
    given = records_of(schema, records)
    function = merge_function_of(schema, "d.t")
    parts = list(merge_sorted(given, function, rows_at_once=rows_at_once))
    whole = function.merge(given, keep_retracts=True)
    assert [row for part, _ in parts for row in part.newest.tolist()] == whole.newest.tolist()
    for position, name in enumerate(schema.field_names):
        column = [value for _, columns in parts for value in columns[position].to_pylist()]
        assert column == whole.column(name, given.column(name)).to_pylist()


def sums(data_type, *numbers, function="sum"):
    """Aggregate the numbers of one key; a number in a list is retracted."""
    schema = table_schema(
        {"k": "INT", "v": data_type},
        {"merge-engine": "aggregation", "fields.v.aggregate-function": function},
    )
    records = [
        (RowKind.DELETE, {"k": 1, "v": number[0]})
        if isinstance(number, list)
        else (RowKind.INSERT, {"k": 1, "v": number})
        for number in numbers
    ]
    return merge_columns(schema, records)[1][1]["v"]


@pytest.mark.parametrize(
    ("data_type", "limit"),
    [("TINYINT", 2**7), ("SMALLINT", 2**15), ("INT", 2**31), ("BIGINT", 2**63)],
)
def test_integers_that_overflow_wrap_around(data_type, limit):
    assert sums(data_type, limit - 2, 1) == limit - 1
    assert sums(data_type, -limit + 1, [1]) == -limit
    assert sums(data_type, limit - 1, 1) == -limit
    assert sums(data_type, limit - 1, 1, -1) == limit - 1
    assert sums(data_type, -limit, [1]) == limit - 1
    assert sums(data_type, [-limit], 0) == -limit
    assert sums(data_type, limit // 2, 2, function="product") == -limit
    assert sums(data_type, limit // 2, 2, 3, [3], function="product") == -(limit // 3)
    assert sums(data_type, -limit, -1, function="product") == -limit
    assert sums(data_type, -limit, 7, [-1], function="product") == -limit


def test_narrow_decimal_sum_may_exceed_precision():
    """As Java's is: it is the exact sum, though the type has no room for it."""
    assert sums("DECIMAL(4, 2)", Decimal("99.99"), Decimal("0.01")) == Decimal("100.00")
    assert sums("DECIMAL(9, 0)", Decimal(999_999_999), Decimal(999_999_999)) == 1_999_999_998
    assert sums("DECIMAL(9, 0)", *[Decimal(999_999_999)] * 3) is None  # files hold 32 bits
    nines = Decimal(10**18 - 1)
    assert sums("DECIMAL(18, 0)", *[nines] * 9) == 9 * nines
    assert sums("DECIMAL(18, 0)", *[nines] * 10) is None
    assert sums("DECIMAL(18, 0)", *[nines] * 10, Decimal(1)) == 1
    assert sums("DECIMAL(19, 0)", Decimal(10**19 - 1), Decimal(1)) is None


@example([Decimal(10**19 - 1), Decimal(1), Decimal(5)])
@given(st.lists(st.sampled_from([*map(Decimal, (1, -1, 10**19 - 1, 1 - 10**19))]), min_size=2))
def test_overflowing_wide_decimal_sum_restarts_from_null(numbers):
    result = None
    for number in numbers:
        result = number if result is None else result + number
        result = result if abs(result) < 10**19 else None
    assert sums("DECIMAL(19, 0)", *numbers) == result


def test_floating_point_numbers_are_added_in_order():
    numbers = [1e16, 1.0, 1.0, -1e16] + [0.1] * 50
    total = 0.0
    for number in numbers:
        total += number
    assert sums("DOUBLE", *numbers) == total
    assert sums("FLOAT", 16777216.0, 1.0, 1.0) == 16777216.0


def test_products_divide_by_retracted_values():
    assert sums("INT", 7, 3, [2], function="product") == 10
    assert sums("INT", -7, [2], function="product") == -3
    assert sums("INT", [5], 7, function="product") == 7
    assert sums("DOUBLE", 1.0, [0.0], function="product") == float("inf")
    assert sums("DECIMAL(6, 2)", Decimal(3), [Decimal(8)], function="product") == Decimal("0.38")
    for divisor in (0, 3):
        with pytest.raises(InvalidInputError, match="no exact value"):
            sums("DECIMAL(6, 2)", Decimal(1), [Decimal(divisor)], function="product")
    with pytest.raises(InvalidInputError, match="no exact value"):
        sums("INT", 1, [0], function="product")


def test_nan_is_largest_number():
    nan = float("nan")
    assert str(sums("DOUBLE", 1.0, nan, 5.0, function="max")) == "nan"
    assert sums("DOUBLE", nan, 2.0, 1.0, function="min") == 1.0


@pytest.mark.parametrize(
    "function",
    [
        AggregateFunction.MAX,
        AggregateFunction.FIRST_VALUE,
        AggregateFunction.BOOL_AND,
        AggregateFunction.LISTAGG,
    ],
)
def test_missing_retraction_is_refused_with_way_out(function):
    types = {"bool_and": "BOOLEAN", "listagg": "STRING"}
    schema = table_schema(
        {"k": "INT", "v": types.get(function, "INT")},
        {"merge-engine": "aggregation", "fields.v.aggregate-function": function},
    )
    records = [(RowKind.INSERT, {"k": 1, "v": None}), (RowKind.DELETE, {"k": 1, "v": None})]
    with pytest.raises(InvalidInputError, match=r"'v'.*'fields\.v\.ignore-retract'"):
        merge_columns(schema, records)
    # A key of one record is not folded.
    assert merge_columns(schema, records[1:]) == {}


def test_nested_key_may_be_forbidden_to_be_null():
    schema = table_schema(
        {"k": "INT", "v": NESTED_TYPE},
        {
            "merge-engine": "aggregation",
            "fields.v.aggregate-function": "nested_update",
            "fields.v.nested-key": "id",
            "fields.v.nested-key-null-strategy": "error",
        },
    )
    row = {"k": 1, "v": [{"id": None, "v": 1, "s": 1}]}
    with pytest.raises(InvalidInputError, match="nested-key-null-strategy"):
        merge_columns(schema, [(RowKind.INSERT, row), (RowKind.INSERT, row)])
