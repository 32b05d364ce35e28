import pytest

from paimon_assets import InvalidInputError, NotFoundError, Schema
from paimon_assets.engine.spec.evolution.schema_validation import validate_schema
from paimon_assets.engine.spec.schema.schema import BucketMode, all_field_ids
from tests.testkit.tables import table_schema

ROW = {
    "type": "ROW",
    "fields": [
        {"id": 0, "name": "x", "type": "INT"},
        {
            "id": 0,
            "name": "r",
            "type": {"type": "ROW", "fields": [{"id": 0, "name": "y", "type": "INT"}]},
        },
    ],
}


def test_nested_ids_come_after_their_column_and_inner_ones_first():
    schema = table_schema({"a": "INT", "q": ROW, "z": "INT"})
    a, q, z = schema.fields
    x, r = q.type.fields
    assert (a.id, q.id, x.id, r.type.fields[0].id, r.id, z.id) == (0, 1, 2, 3, 4, 5)
    assert schema.highest_field_id == 5
    assert len(set(all_field_ids(schema.fields))) == 6


def test_primary_key_columns_become_not_null():
    schema = table_schema({"id": "BIGINT", "v": "INT"}, primary_keys=["id"])
    assert not schema.column("id").type.nullable
    assert schema.column("v").type.nullable


def test_keys_given_as_options_move_into_key_lists():
    schema = table_schema(
        {"id": "BIGINT", "dt": "STRING"}, options={"primary-key": "id, dt", "partition": "dt"}
    )
    assert schema.primary_keys == ("id", "dt")
    assert schema.partition_keys == ("dt",)
    assert schema.trimmed_primary_keys == ("id",)
    assert schema.options == {}


def test_unknown_column_lists_existing_ones():
    with pytest.raises(NotFoundError, match=r"Column 'c' does not exist; the table has a, b"):
        table_schema({"a": "INT", "b": "INT"}).column("c")


def test_comments_of_unknown_columns_are_refused():
    with pytest.raises(InvalidInputError, match="unknown columns: b"):
        Schema.of({"a": "INT"}, comments={"b": "?"})


@pytest.mark.parametrize(
    ("primary", "partition", "bucket", "mode"),
    [
        ([], [], "-1", BucketMode.BUCKET_UNAWARE),
        (["id"], [], "4", BucketMode.HASH_FIXED),
        (["id"], [], "-1", BucketMode.HASH_DYNAMIC),
        (["id"], ["dt"], "-1", BucketMode.KEY_DYNAMIC),
        (["id", "dt"], ["dt"], "-2", BucketMode.POSTPONE),
    ],
)
def test_bucket_mode_follows_from_keys_and_option(primary, partition, bucket, mode):
    schema = table_schema(
        {"id": "BIGINT", "dt": "STRING"},
        primary_keys=primary,
        partition_keys=partition,
        options={"bucket": bucket},
    )
    assert schema.bucket_mode is mode


COLUMNS = {"k": "INT", "p": "STRING", "v": "DOUBLE", "a": {"type": "ARRAY", "element": "INT"}}


@pytest.mark.parametrize(
    ("columns", "kwargs", "message"),
    [
        ({}, {}, "at least one column"),
        ({"_KEY_a": "INT"}, {}, "reserved for system"),
        ({"rowkind": "INT"}, {}, "reserved for system"),
        ({" ": "INT"}, {}, "must not be blank"),
        (COLUMNS, {"primary_keys": ["x"]}, "'x' is not a column"),
        (COLUMNS, {"primary_keys": ["a"]}, "must not be of type ARRAY"),
        (COLUMNS, {"primary_keys": ["k", "k"]}, "named twice"),
        (COLUMNS, {"primary_keys": ["p"], "partition_keys": ["p"]}, "more than the partition"),
        (COLUMNS, {"partition_keys": ["y"]}, "'y' is not a column"),
        (COLUMNS, {"options": {"bucket": "0"}}, "'bucket' must be"),
        (COLUMNS, {"options": {"bucket": "-2"}}, "'bucket' must be"),
        (COLUMNS, {"options": {"bucket": "two"}}, "'bucket' has the value 'two'"),
        (COLUMNS, {"options": {"bucket": "2"}}, "needs the option 'bucket-key'"),
        (COLUMNS, {"options": {"bucket-key": "k"}}, "needs a fixed number"),
        (
            COLUMNS,
            {"primary_keys": ["k"], "options": {"bucket": "2", "bucket-key": "v"}},
            "must be part of the primary key",
        ),
        (COLUMNS, {"options": {"changelog-producer": "input"}}, "needs a primary key"),
        (
            COLUMNS,
            {"primary_keys": ["k"], "options": {"sequence.field": "x"}},
            r"Sequence field: 'x' can not be found in table schema\.",
        ),
        (
            COLUMNS,
            {"primary_keys": ["k"], "options": {"sequence.field": "v,v"}},
            r"Sequence field 'v' is defined repeatedly\.",
        ),
        (
            COLUMNS,
            {
                "primary_keys": ["k"],
                "options": {"sequence.field": "v", "merge-engine": "first-row"},
            },
            "FIRST_ROW merge engine",
        ),
        (
            COLUMNS,
            {"primary_keys": ["k"], "partition_keys": ["p"], "options": {"sequence.field": "v"}},
            "cross partition update",
        ),
        (
            COLUMNS,
            {"primary_keys": ["k"], "options": {"rowkind.field": "x"}},
            r"Rowkind field: 'x' can not be found in table schema\.",
        ),
        (COLUMNS, {"primary_keys": ["k"], "options": {"rowkind.field": "v"}}, "character type"),
        (COLUMNS, {"options": {"snapshot.num-retained.min": "few"}}, "'few': expected a whole"),
        (COLUMNS, {"options": {"target-file-size": "-1"}}, "expected a size such as"),
        (
            COLUMNS,
            {"primary_keys": ["k"], "partition_keys": ["p"], "options": {"bucket": "2"}},
            "lacks the partition column 'p'",
        ),
    ],
)
def test_schema_that_breaks_rule_is_refused(columns, kwargs, message):
    with pytest.raises(InvalidInputError, match=message):
        validate_schema(table_schema(columns, **kwargs))


def test_good_schema_passes():
    validate_schema(
        table_schema(
            COLUMNS,
            primary_keys=["k", "p"],
            partition_keys=["p"],
            options={"bucket": "2", "sequence.field": "v"},
        )
    )
