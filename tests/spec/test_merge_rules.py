import pytest

from paimon_assets import InvalidInputError
from paimon_assets.engine.spec.evolution.schema_validation import validate_schema
from paimon_assets.engine.spec.merge import merge_rules
from paimon_assets.engine.spec.options.all_options import MergeEngine, NestedKeyNulls
from tests.testkit.tables import table_schema

ROW = "ROW<x INT>"
COLUMNS = {"k": "INT", "a": "INT", "b": "STRING", "s": "INT", "t": "INT", "rows": f"ARRAY<{ROW}>"}
AGGREGATION = {"merge-engine": "aggregation"}
PARTIAL = {"merge-engine": "partial-update"}
GROUP = {**PARTIAL, "fields.s.sequence-group": "a"}


def schema_of(options):
    return table_schema(COLUMNS, primary_keys=["k"], options={"bucket": "1", **options})


def functions_of(options):
    rules = merge_rules.merge_rules_of(schema_of(options))
    return {name: each.function.value for name, each in rules.aggregations.items()}


def test_every_column_of_aggregation_table_has_function():
    options = {
        **AGGREGATION,
        "sequence.field": "s",
        "fields.a.aggregate-function": "sum",
        "fields.default-aggregate-function": "first_not_null_value",
    }
    assert functions_of(options) == {
        "k": "primary-key",
        "a": "sum",
        "s": "last_value",
        "b": "first_non_null_value",
        "t": "first_non_null_value",
        "rows": "first_non_null_value",
    }
    assert functions_of(AGGREGATION)["b"] == "last_non_null_value"


def test_settings_of_function_are_read():
    rules = merge_rules.merge_rules_of(
        schema_of(
            {
                **AGGREGATION,
                "fields.b.aggregate-function": "listagg",
                "fields.b.list-agg-delimiter": "; ",
                "fields.b.distinct": "true",
                "fields.b.ignore-retract": "true",
                "fields.rows.aggregate-function": "nested_update",
                "fields.rows.nested-key": "x",
                "fields.rows.nested-key-null-strategy": "IGNORE",
                "fields.rows.count-limit": "5",
            }
        )
    )
    text, rows = rules.aggregations["b"], rules.aggregations["rows"]
    assert (text.delimiter, text.distinct, text.ignore_retract) == ("; ", True, True)
    assert (rows.nested_key, rows.nested_key_nulls) == (("x",), NestedKeyNulls.IGNORE)
    assert rows.has_limit
    assert rows.count_limit == 5


def test_sequence_groups_own_their_fields_and_columns():
    rules = merge_rules.merge_rules_of(
        schema_of(
            {
                **PARTIAL,
                "fields.s, t.sequence-group": "a , b",
                "fields.a.aggregate-function": "max",
                "partial-update.remove-record-on-sequence-group": "t",
            }
        )
    )
    group = merge_rules.SequenceGroup(fields=("s", "t"), columns=("a", "b"), removes_record=True)
    assert rules.groups == (group,)
    assert {name: each.function for name, each in rules.aggregations.items()} == {
        "a": merge_rules.AggregateFunction.MAX
    }


@pytest.mark.parametrize("engine", ["deduplicate", "first-row"])
def test_choosing_engines_have_no_column_rules(engine):
    rules = merge_rules.merge_rules_of(schema_of({"merge-engine": engine, "ignore-delete": "true"}))
    assert rules.traits.engine is MergeEngine(engine)
    assert rules.ignore_delete
    assert not rules.aggregations


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({**AGGREGATION, "fields.a.aggregate-function": "summ"}, "'a'.*unknown.*'summ'.*sum"),
        ({**AGGREGATION, "fields.b.aggregate-function": "sum"}, "'b' of type STRING.*numbers"),
        ({**AGGREGATION, "fields.rows.aggregate-function": "max"}, "'rows'.*have an order"),
        ({**AGGREGATION, "fields.a.aggregate-function": "collect"}, "'a'.*ARRAY"),
        (
            {**AGGREGATION, "fields.rows.aggregate-function": "nested_partial_update"},
            r"'fields\.rows\.nested-key'",
        ),
        (
            {
                **AGGREGATION,
                "fields.rows.aggregate-function": "nested_update",
                "fields.rows.nested-key": "y",
            },
            "no field 'y'.*'x'",
        ),
        (
            {
                **AGGREGATION,
                "fields.rows.aggregate-function": "nested_update",
                "fields.rows.nested-sequence-field": "x",
            },
            "nested-sequence-field.*needs",
        ),
        (
            {
                **AGGREGATION,
                "aggregation.remove-record-on-delete": "true",
                "fields.a.ignore-retract": "true",
            },
            "excludes",
        ),
        ({**PARTIAL, "fields.s.sequence-group": "nothing"}, "'nothing' can not be found"),
        ({**PARTIAL, "fields.s.sequence-group": "k"}, "primary key column 'k'"),
        ({**GROUP, "fields.t.sequence-group": "a"}, "'a' is in two sequence groups"),
        ({**GROUP, "fields.b.aggregate-function": "max"}, "'b'.*needs a sequence group"),
        ({**GROUP, "partial-update.remove-record-on-delete": "true"}, "contradict"),
        (
            {**PARTIAL, "ignore-delete": "true", "partial-update.remove-record-on-delete": "true"},
            "contradict",
        ),
        (
            {**GROUP, "partial-update.remove-record-on-sequence-group": "t"},
            "'t', which is no sequence field",
        ),
    ],
)
def test_contradictory_rules_are_refused_on_creation(options, message):
    with pytest.raises(InvalidInputError, match=message):
        validate_schema(schema_of(options))
