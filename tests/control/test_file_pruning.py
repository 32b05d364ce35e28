"""The complement of a predicate is true exactly where the predicate is not."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_assets.engine.codec.rows.binary_row import serialize_row
from paimon_assets.engine.control.row_change import complement
from paimon_assets.engine.control.scan.file_pruning import FilePruning
from paimon_assets.engine.spec.metadata.data_file import SimpleStats
from paimon_assets.engine.spec.metadata.manifest import ManifestEntry
from paimon_assets.engine.spec.predicate import predicate as pred
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types.data_types import DataField
from paimon_assets.engine.spec.types.type_text import parse_type
from tests.testkit.builders import data_file, entry
from tests.testkit.predicate_truth import truth
from tests.testkit.tables import table_schema


def _schema_of(schema_id: int, *fields: tuple[int, str, str]) -> TableSchema:
    columns = tuple(DataField(id=i, name=n, type=parse_type(t)) for i, n, t in fields)
    return TableSchema(id=schema_id, fields=columns, highest_field_id=9)


def _stats(
    schema: TableSchema, names: tuple[str, ...], lows: list[Any], highs: list[Any], nulls: Any
) -> SimpleStats:
    types = [schema.column(name).type for name in names]
    return SimpleStats(
        min_values=serialize_row(lows, types),
        max_values=serialize_row(highs, types),
        null_counts=tuple(nulls),
    )


def _names(
    schema: TableSchema, predicate: pred.Predicate, entries: list[ManifestEntry], *more: TableSchema
) -> list[str]:
    schemas = {one.id: one for one in (schema, *more)}
    pruning = FilePruning(schema, pred.bind(predicate, schema), schemas.__getitem__)
    return [item.file.file_name for item in pruning.needed_entries(entries)]


X = table_schema({"x": "INT", "y": "STRING"})


def _x_file(name: str, low: Any, high: Any, nulls: int | None = 0, **more: Any) -> ManifestEntry:
    stats = _stats(X, ("x", "y"), [low, None], [high, None], [nulls, None])
    return entry(file=data_file(file_name=name, value_stats=stats, **more))


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        (pred.equal("x", 15), ["b", "unknown"]),
        (pred.Comparison("x", pred.CompareOp.GT, 9), ["b", "unknown"]),
        (pred.IsNull("x"), ["nulls", "unknown"]),
        (pred.IsNull("x", negated=True), ["a", "b", "unknown"]),
        (pred.equal("y", "text"), ["a", "b", "nulls", "unknown"]),
        (
            pred.any_of([pred.equal("x", 1), pred.equal("y", "text")]),
            ["a", "b", "nulls", "unknown"],
        ),
    ],
)
def test_append_files_are_pruned_one_by_one(predicate, expected):
    entries = [
        _x_file("a", 0, 9),
        _x_file("b", 10, 19),
        _x_file("nulls", None, None, nulls=10),
        _x_file("unknown", None, None, nulls=None),
    ]
    assert _names(X, predicate, entries) == expected


def test_dense_statistics_name_their_columns():
    stats = _stats(X, ("y",), ["k"], ["m"], [0])
    file = entry(file=data_file(value_stats=stats, value_stats_cols=("y",)))
    assert _names(X, pred.equal("y", "a"), [file]) == []
    assert _names(X, pred.equal("x", 1), [file]) == ["data-0.parquet"]
    none = entry(file=data_file(value_stats_cols=()))
    assert _names(X, pred.equal("y", "a"), [none]) == ["data-0.parquet"]


def test_partition_columns_ignore_statistics():
    schema = table_schema({"x": "INT", "p": "INT"}, partition_keys=["p"])
    stats = _stats(schema, ("p", "x"), [99, 5], [99, 5], [0, 0])
    files = [
        entry(
            file=data_file(file_name=f"p={p}", value_stats=stats, value_stats_cols=("p", "x")),
            partition=serialize_row([p], [schema.column("p").type]),
        )
        for p in (1, None)
    ]
    assert _names(schema, pred.equal("p", 1), files) == ["p=1"]
    assert _names(schema, pred.IsNull("p"), files) == ["p=None"]
    assert _names(schema, pred.equal("p", 99), files) == []
    assert _names(schema, pred.any_of([pred.equal("p", 1), pred.equal("x", 7)]), files) == ["p=1"]


def test_statistics_of_another_arity_are_ignored():
    assert _names(X, pred.equal("x", 1), [entry()]) == ["data-0.parquet"]


OLD = _schema_of(0, (0, "a", "INT"), (1, "b", "INT"), (2, "gone", "INT"))
NEW = _schema_of(1, (1, "renamed", "INT"), (0, "a", "BIGINT"), (3, "added", "INT"))


def _old_file() -> ManifestEntry:
    stats = _stats(OLD, ("a", "b", "gone"), [1, 10, 0], [2, 20, 0], [0, 0, 0])
    return entry(file=data_file(file_name="old", schema_id=0, value_stats=stats))


@pytest.mark.parametrize(
    ("predicate", "is_needed"),
    [
        (pred.equal("renamed", 15), True),  # matched by id, not by name or position
        (pred.equal("renamed", 1), False),
        (pred.equal("a", 2), True),
        (pred.equal("a", 99), False),  # a wider integer: the bounds are the same
        (pred.equal("added", 1), False),  # the file has only nulls there
        (pred.IsNull("added"), True),
        (pred.IsNull("renamed"), False),
    ],
)
def test_statistics_reach_read_schema_by_field_id(predicate, is_needed):
    assert _names(NEW, predicate, [_old_file()], OLD) == (["old"] if is_needed else [])


@pytest.mark.parametrize("changed", ["STRING", "SMALLINT", "DOUBLE", "DECIMAL(9, 2)"])
def test_bounds_of_another_type_are_ignored(changed):
    read = _schema_of(1, (0, "a", changed), (1, "renamed", "INT"))
    literal = "99" if changed == "STRING" else 99
    assert _names(read, pred.equal("a", literal), [_old_file()], OLD) == ["old"]
    assert _names(read, pred.IsNull("a"), [_old_file()], OLD) == ["old"]  # a cast may make nulls


FLOATS = table_schema({"f": "DOUBLE"})


def test_nan_bound_prunes_nothing():
    def file(low: float, high: float) -> list[ManifestEntry]:
        stats = _stats(FLOATS, ("f",), [low], [high], [0])
        return [entry(file=data_file(file_name="f", value_stats=stats))]

    assert _names(FLOATS, pred.equal("f", 3.0), file(1.0, math.nan)) == ["f"]
    assert _names(FLOATS, pred.equal("f", 3.0), file(1.0, 2.0)) == []
    # The file may hold NaN beside its only other value; NaN <> 1 is true.
    assert _names(FLOATS, pred.Comparison("f", pred.CompareOp.NE, 1.0), file(1.0, 1.0)) == ["f"]
    assert _names(FLOATS, pred.In("f", (1.0,), negated=True), file(1.0, 1.0)) == ["f"]


KEYED = table_schema({"k": "INT", "x": "INT"}, primary_keys=["k"], options={"bucket": "2"})


def _entry(name: str, keys: tuple[int, int], xs: tuple[int, int], **more: Any) -> ManifestEntry:
    key_stats = _stats(KEYED, ("k",), [keys[0]], [keys[1]], [0])
    value_stats = _stats(KEYED, ("k", "x"), [keys[0], xs[0]], [keys[1], xs[1]], [0, 0])
    bucket, level = more.get("bucket", 0), more.get("level", 0)
    file = data_file(file_name=name, key_stats=key_stats, value_stats=value_stats, level=level)
    return entry(bucket=bucket, file=file)


def test_merged_bucket_keeps_all_its_files_or_none():
    # The newer file overwrites key 1 with x = 9; skipping it would bring x = 1 back.
    entries = [_entry("old", (1, 1), (1, 1)), _entry("new", (1, 1), (9, 9))]
    assert _names(KEYED, pred.equal("x", 1), entries) == ["old", "new"]
    assert _names(KEYED, pred.equal("x", 5), entries) == []


def test_files_of_one_level_above_zero_are_pruned_one_by_one():
    entries = [_entry("a", (1, 5), (1, 1), level=5), _entry("b", (6, 9), (9, 9), level=5)]
    assert _names(KEYED, pred.equal("x", 1), entries) == ["a"]


def test_files_of_two_levels_are_not_pruned_one_by_one():
    entries = [_entry("low", (1, 5), (1, 1), level=1), _entry("top", (1, 5), (9, 9), level=5)]
    assert _names(KEYED, pred.equal("x", 1), entries) == ["low", "top"]


def test_buckets_are_pruned_separately_and_keep_their_order():
    entries = [
        _entry("0a", (1, 1), (1, 1), bucket=0),
        _entry("1a", (1, 1), (7, 7), bucket=1),
        _entry("0b", (1, 1), (9, 9), bucket=0),
    ]
    assert _names(KEYED, pred.equal("x", 1), entries) == ["0a", "0b"]
    assert _names(KEYED, pred.equal("x", 7), entries) == ["1a"]


def test_keys_prune_files_of_merged_bucket():
    entries = [_entry("a", (1, 5), (1, 1)), _entry("b", (4, 9), (9, 9))]
    assert _names(KEYED, pred.equal("k", 2), entries) == ["a"]
    assert _names(KEYED, pred.equal("k", 5), entries) == ["a", "b"]


def test_combining_merge_engine_keeps_every_file_of_merged_bucket():
    schema = table_schema(
        {"k": "INT", "x": "INT"},
        primary_keys=["k"],
        options={"bucket": "2", "merge-engine": "aggregation"},
    )
    # 1 + 9 = 10 is in no file.
    entries = [_entry("a", (1, 1), (1, 1)), _entry("b", (1, 1), (9, 9))]
    assert _names(schema, pred.equal("x", 10), entries) == ["a", "b"]


def test_files_of_settled_levels_are_pruned_one_by_one():
    schema = KEYED.with_dynamic_options({"deletion-vectors.enabled": "true"})
    entries = [_entry("low", (1, 5), (1, 1), level=1), _entry("top", (1, 5), (9, 9), level=5)]
    assert _names(schema, pred.equal("x", 1), entries) == ["low"]
    combining = schema.with_dynamic_options({"merge-engine": "aggregation"})
    assert _names(combining, pred.equal("x", 1), entries) == ["low"]


def test_files_that_hold_columns_of_same_rows_are_kept_together():
    entries = [
        _x_file("old", 1, 1, first_row_id=0),
        _x_file("update", 5, 5, first_row_id=0),
        _x_file("alone", 1, 1, first_row_id=10),
    ]
    assert _names(X, pred.equal("x", 5), entries) == ["old", "update"]
    assert _names(X, pred.equal("x", 7), entries) == ["old", "update"]


SCHEMA = table_schema({"a": "INT", "b": "INT", "t": "STRING", "x": "DOUBLE"})
NUMBERS = st.integers(0, 3)
LEAVES = st.one_of(
    st.builds(pred.Comparison, st.sampled_from("ab"), st.sampled_from(pred.CompareOp), NUMBERS),
    st.builds(
        pred.In, st.sampled_from("ab"), st.lists(NUMBERS, max_size=2).map(tuple), st.booleans()
    ),
    st.builds(pred.IsNull, st.sampled_from("ab"), st.booleans()),
)
PREDICATES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(tuple).map(pred.And),
        st.lists(inner, min_size=1, max_size=3).map(tuple).map(pred.Or),
    ),
    max_leaves=6,
)


@given(predicate=PREDICATES, a=NUMBERS | st.none(), b=NUMBERS | st.none())
def test_complement_passes_remaining_rows(predicate, a, b):
    rest = complement(predicate, SCHEMA)
    row = {"a": a, "b": b}
    assert rest is not None
    assert (truth(predicate, row) is True) is not (truth(rest, row) is True)


def test_some_predicates_have_no_complement():
    for leaf in (
        pred.StartsWith("t", "x"),
        pred.Comparison("x", pred.CompareOp.LT, 1.0),
        pred.In("x", (1.0,)),
        pred.Comparison("a", pred.CompareOp.NE, None),
        pred.In("a", (1, None), negated=True),
    ):
        assert complement(leaf, SCHEMA) is None
        assert complement(pred.Or((pred.IsNull("a"), leaf)), SCHEMA) is None
