"""Schemas after lists of changes; refusals of `SchemaManager.generateTableSchema`."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from paimon_assets import (
    AlreadyExistsError,
    InvalidInputError,
    NotFoundError,
    SchemaChange,
    UnsupportedFeatureError,
    add_column,
    drop_column,
    move_column,
    remove_option,
    rename_column,
    set_option,
    update_column_comment,
    update_column_default_value,
    update_column_nullability,
    update_column_type,
)
from paimon_assets.engine.spec.evolution import schema_change as sc
from paimon_assets.engine.spec.evolution.option_rules import IMMUTABLE_OPTIONS
from paimon_assets.engine.spec.evolution.schema_evolution import apply_changes, changes_nothing
from paimon_assets.engine.spec.schema.schema import all_field_ids
from paimon_assets.engine.spec.types.cast_rules import supports_cast
from paimon_assets.engine.spec.types.type_text import parse_type
from tests.testkit.tables import table_schema

FLAT = table_schema(dict.fromkeys("abcd", "INT"))
KEYED = table_schema(
    {"p": "INT", "k": "INT", "s": "BIGINT", "v": "DOUBLE", "kind": "STRING"},
    partition_keys=["p"],
    primary_keys=["p", "k"],
    options={"bucket": "2", "bucket-key": "k", "sequence.field": "s", "rowkind.field": "kind"},
)
NOT_NULL_ALLOWED = {"alter-column-null-to-not-null.disabled": "false"}


def evolve(schema, *changes, has_snapshots=True):
    return apply_changes(schema, changes, has_snapshots=has_snapshots, time_millis=9)


def with_options(schema, **options):
    named = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    return replace(schema, options={**schema.options, **named})


def names(schema):
    return "".join(schema.field_names)


def test_several_changes_make_one_schema():
    new = evolve(
        FLAT,
        rename_column("b", "x"),
        drop_column("a"),
        add_column("a", "STRING", comment="anew"),
        update_column_type("x", "BIGINT"),
        sc.UpdateComment(comment="changed"),
        set_option("target-file-size", "1 mb"),
    )
    assert (new.id, new.time_millis, new.highest_field_id) == (1, 9, 4)
    assert [(f.id, f.name, str(f.type)) for f in new.fields] == [
        (1, "x", "BIGINT"),
        (2, "c", "INT"),
        (3, "d", "INT"),
        (4, "a", "STRING"),
    ]
    assert new.fields[-1].description == "anew"
    assert (new.comment, new.options) == ("changed", {"target-file-size": "1 mb"})


def test_ids_are_never_reused():
    new = evolve(FLAT, drop_column("d"))
    assert new.highest_field_id == 3
    assert evolve(new, add_column("d", "INT")).column("d").id == 4


def test_nested_fields_of_new_column_get_ids_of_their_own():
    new = evolve(FLAT, add_column("r", "ROW<x INT, y ROW<z INT>>"), add_column("e", "INT"))
    assert new.column("r").id == 4
    assert sorted(all_field_ids([new.column("r")])) == [4, 5, 6, 7]
    assert new.column("e").id == 8
    assert new.highest_field_id == 8


@pytest.mark.parametrize(
    ("change", "order"),
    [
        (add_column("n", "INT"), "abcdn"),
        (add_column("n", "INT", first=True), "nabcd"),
        (add_column("n", "INT", after="b"), "abncd"),
        (add_column("n", "INT", before="b"), "anbcd"),
        (move_column("c", after="a"), "acbd"),
        (move_column("a", after="c"), "bcad"),
        (move_column("d", before="b"), "adbc"),
        (move_column("a", before="c"), "bacd"),
        (move_column("c", first=True), "cabd"),
        (move_column("a"), "bcda"),
        (move_column("b", after="a"), "abcd"),
        (move_column("a", before="b"), "abcd"),
        (move_column("d", after="c"), "abcd"),
    ],
)
def test_column_moves_to_its_place(change, order):
    assert names(evolve(FLAT, change)) == order


@pytest.mark.parametrize(
    "move",
    [
        move_column("a", first=True),
        move_column("d"),
        move_column("a", after="a"),
        move_column("a", before="a"),
    ],
)
def test_column_that_stays_is_not_moved(move):
    with pytest.raises(InvalidInputError, match=f"Column '{move.move.field_name}' cannot go"):
        evolve(FLAT, move)


@given(st.permutations("abcd"))
def test_any_order_is_reached_by_moves(order):
    schema = FLAT
    for position, name in enumerate(order):
        if schema.field_names[position] == name:
            continue
        place = {"after": order[position - 1]} if position else {"first": True}
        schema = evolve(schema, move_column(name, **place))
    assert names(schema) == "".join(order)
    assert [schema.column(name).id for name in "abcd"] == [0, 1, 2, 3]


def test_new_column_may_go_before_partition_columns():
    schema = with_options(KEYED, add_column_before_partition="true")
    assert evolve(schema, add_column("n", "INT")).field_names[0] == "n"
    assert evolve(KEYED, add_column("n", "INT")).field_names[-1] == "n"


def test_renamed_key_is_renamed_wherever_it_is_named():
    schema = with_options(KEYED, fields__v__stats_mode="full")
    new = evolve(
        schema, rename_column("k", "key"), rename_column("s", "seq"), rename_column("v", "w")
    )
    assert new.primary_keys == ("p", "key")
    assert new.options == {
        "bucket": "2",
        "bucket-key": "key",
        "sequence.field": "seq",
        "rowkind.field": "kind",
        "fields.w.stats-mode": "full",
    }
    assert [field.id for field in new.fields] == [0, 1, 2, 3, 4]


def test_sequence_groups_follow_rename():
    schema = table_schema(
        {"k": "INT", "g": "INT", "h": "INT", "a": "INT"},
        primary_keys=["k"],
        options={
            "bucket": "1",
            "merge-engine": "partial-update",
            "fields.g,h.sequence-group": "a",
            "fields.a.aggregate-function": "sum",
        },
    )
    new = evolve(schema, rename_column("h", "x"), rename_column("a", "y"))
    assert new.options["fields.g,x.sequence-group"] == "y"
    assert new.options["fields.y.aggregate-function"] == "sum"
    with pytest.raises(InvalidInputError, match=r"'h' cannot be dropped: .*'fields.g,h.sequence-"):
        evolve(schema, drop_column("h"))


REFUSED = (
    (KEYED, drop_column("p"), "Column 'p' cannot be dropped: it is a partition column"),
    (KEYED, drop_column("k"), "Column 'k' cannot be dropped: it belongs to the primary key"),
    (KEYED, drop_column("s"), "Column 's' cannot be dropped: the option 'sequence.field' names"),
    (KEYED, drop_column("kind"), "'kind' cannot be dropped: the option 'rowkind.field' names it"),
    (KEYED, rename_column("kind", "x"), "'kind' cannot be renamed: the option 'rowkind.field'"),
    (KEYED, rename_column("p", "x"), "Column 'p' cannot be renamed: it is a partition column"),
    (KEYED, update_column_type("p", "BIGINT"), "column 'p' cannot change: it is a partition"),
    (KEYED, update_column_type("k", "BIGINT"), "column 'k' cannot change: it belongs to the prim"),
    (KEYED, update_column_nullability("k", nullable=True), "'k' must stay NOT NULL"),
    (KEYED, update_column_type("s", "STRING NOT NULL"), None),
    (KEYED, sc.DropPrimaryKey(), r"primary key \(p, k\) cannot be dropped: the table has been wri"),
    (FLAT, add_column("n", "INT NOT NULL"), "Column 'n' cannot be added as INT NOT NULL"),
    (FLAT, add_column("_KEY_a", "INT"), "'_KEY_a' is reserved for system columns"),
    (FLAT, add_column("_SEQUENCE_NUMBER", "INT"), "reserved for system columns"),
    (FLAT, add_column(" ", "INT"), "must not be blank"),
    (FLAT, rename_column("a", "rowkind"), "reserved for system columns"),
    (FLAT, update_column_type("a", "DATE"), "column 'a' cannot change: INT cannot become DATE"),
    (FLAT, update_column_type("a", "ARRAY<INT>"), "only columns of atomic types"),
    (FLAT, update_column_nullability("a", nullable=False), "'a' cannot become NOT NULL: the tab"),
    (
        FLAT,
        sc.UpdateColumnType(field_names=("a",), new_data_type=parse_type("BIGINT NOT NULL")),
        "'a' cannot become NOT NULL",
    ),
    (FLAT, update_column_default_value("a", "five"), "'a' cannot have this default: 'five' is no"),
)


@pytest.mark.parametrize(("schema", "change", "message"), REFUSED)
def test_refusals_of_java(schema, change, message):
    if message is None:
        assert evolve(schema, change).id == 1
        return
    with pytest.raises(InvalidInputError, match=message):
        evolve(schema, change)


MISSING = (
    drop_column("x"),
    rename_column("x", "y"),
    update_column_type("x", "INT"),
    update_column_nullability("x", nullable=True),
    update_column_comment("x", "c"),
    update_column_default_value("x", "1"),
    move_column("x"),
    move_column("a", after="x"),
    add_column("n", "INT", before="x"),
)


@pytest.mark.parametrize("change", MISSING)
def test_unknown_columns_are_named(change):
    with pytest.raises(NotFoundError, match="Column 'x' does not exist; the table has a, b, c, d"):
        evolve(FLAT, change)


@pytest.mark.parametrize("change", [add_column("b", "INT"), rename_column("a", "b")])
def test_taken_name_is_refused(change):
    with pytest.raises(AlreadyExistsError, match="Column 'b' exists already"):
        evolve(FLAT, change)


def test_column_options_are_checked_after_all_changes():
    schema = replace(FLAT, options={"file-index.bitmap.columns": "a,b"})
    new = evolve(schema, rename_column("a", "e"), set_option("file-index.bitmap.columns", "b,e"))
    assert new.options == {"file-index.bitmap.columns": "b,e"}
    assert evolve(schema, remove_option("file-index.bitmap.columns"), drop_column("b")).id == 1
    with pytest.raises(InvalidInputError, match="'a' cannot be renamed: the option 'file-index"):
        evolve(schema, rename_column("a", "e"))
    with pytest.raises(InvalidInputError, match="'b' cannot be dropped: the option 'file-index"):
        evolve(schema, drop_column("b"), add_column("b", "INT"))


def test_last_column_stays():
    schema = table_schema({"a": "INT"})
    with pytest.raises(InvalidInputError, match="'a' cannot be dropped: it is the last one"):
        evolve(schema, drop_column("a"))


@pytest.mark.parametrize(
    "change",
    [
        sc.AddColumn(field_names=("r", "z"), data_type=parse_type("INT")),
        sc.RenameColumn(field_names=("r", "x"), new_name="z"),
        sc.DropColumn(field_names=("r", "x")),
        sc.UpdateColumnType(field_names=("r", "x"), new_data_type=parse_type("BIGINT")),
        sc.UpdateColumnNullability(field_names=("r", "x"), new_nullability=False),
    ],
)
def test_fields_inside_column_do_not_change(change):
    schema = table_schema({"r": "ROW<x INT, y INT>"})
    with pytest.raises(UnsupportedFeatureError, match=r"'r\.[xz]' cannot be changed: it is insi"):
        evolve(schema, change)


def test_key_membership_is_checked_on_old_schema():
    changes = (rename_column("k", "key"), update_column_type("key", "BIGINT"))
    with pytest.raises(InvalidInputError, match="'key' cannot change: it belongs to the primary"):
        evolve(KEYED, *changes)
    with pytest.raises(InvalidInputError, match="'k' cannot be dropped"):
        evolve(KEYED, rename_column("k", "key"), add_column("k", "INT"), drop_column("k"))


def test_primary_key_is_dropped_while_table_is_empty():
    schema = table_schema(
        {"k": "INT"}, primary_keys=["k"], options={"bucket": "1", "bucket-key": "k"}
    )
    new = evolve(schema, sc.DropPrimaryKey(), has_snapshots=False)
    assert new.primary_keys == ()
    assert str(new.column("k").type) == "INT NOT NULL"


def test_null_may_become_not_null_if_earlier_schema_had_it():
    allowed = replace(FLAT, options=NOT_NULL_ALLOWED)
    new = evolve(allowed, update_column_nullability("a", nullable=False))
    assert str(new.column("a").type) == "INT NOT NULL"
    assert str(evolve(new, update_column_type("a", "BIGINT")).column("a").type) == "BIGINT NOT NULL"
    relaxed = sc.UpdateColumnType(field_names=("a",), new_data_type=parse_type("BIGINT"))
    assert str(evolve(new, relaxed).column("a").type) == "BIGINT"
    with pytest.raises(InvalidInputError, match="in a change of its own"):
        evolve(
            FLAT,
            *(set_option(key, value) for key, value in NOT_NULL_ALLOWED.items()),
            update_column_nullability("a", nullable=False),
        )


ATOMIC = (
    "BOOLEAN TINYINT SMALLINT INT BIGINT FLOAT DOUBLE CHAR(5) VARCHAR(5) STRING BINARY(5)",
    "VARBINARY(5) BYTES DATE TIME(3) TIMESTAMP(3) TIMESTAMP(9)",
)
TYPES = (*map(parse_type, " ".join(ATOMIC).split()), parse_type("DECIMAL(10, 2)"))


@pytest.mark.parametrize("explicit", [True, False])
@pytest.mark.parametrize("source", TYPES, ids=str)
def test_type_changes_where_cast_is_allowed(source, explicit):
    options = {} if explicit else {"disable-explicit-type-casting": "true"}
    schema = table_schema({"a": source}, options=options)
    for target in TYPES:
        if supports_cast(source, target, explicit=explicit):
            assert evolve(schema, update_column_type("a", target)).column("a").type == target
        else:
            with pytest.raises(
                InvalidInputError, match=f"'a' cannot change: {re.escape(str(source))} cannot"
            ):
                evolve(schema, update_column_type("a", target))


def test_java_refuses_cast_of_reals_to_booleans():
    schema = table_schema({"a": "FLOAT"})
    assert evolve(schema, update_column_type("a", "BOOLEAN")).id == 1
    strict = replace(schema, options={"cast.float-to-boolean": "false"})
    with pytest.raises(InvalidInputError, match="FLOAT cannot become BOOLEAN"):
        evolve(strict, update_column_type("a", "BOOLEAN"))


def test_default_must_fit_new_type():
    schema = table_schema({"a": "STRING"})
    schema = evolve(schema, update_column_default_value("a", "none"))
    assert schema.column("a").default_value == "none"
    with pytest.raises(InvalidInputError, match="'a' cannot have this default: 'none' is no INT"):
        evolve(schema, update_column_type("a", "INT"))
    changes = (update_column_type("a", "INT"), update_column_default_value("a", None))
    assert evolve(schema, *changes).column("a").default_value is None


@pytest.mark.parametrize("key", sorted(IMMUTABLE_OPTIONS))
def test_immutable_options_are_fixed_once_something_is_stored(key):
    for change in (set_option(key, "x"), remove_option(key)):
        with pytest.raises(InvalidInputError, match=f"Option '{key}' cannot change"):
            evolve(FLAT, change)


OPTIONS: tuple[tuple[dict[str, str], SchemaChange, str | None], ...] = (
    ({"bucket": "2"}, set_option("bucket", "4"), None),
    ({"bucket": "2"}, set_option("bucket", "-1"), "it cannot become -1"),
    ({}, set_option("bucket", "4"), "it is -1"),
    ({"bucket": "2"}, remove_option("bucket"), "in the buckets that it counts"),
    ({}, set_option("deletion-vectors.enabled", "true"), "'deletion-vectors.modifiable'"),
    ({}, set_option("deletion-vectors.enabled", "false"), None),
    ({"deletion-vectors.modifiable": "true"}, set_option("deletion-vectors.enabled", "true"), None),
    ({"ignore-delete": "true"}, set_option("ignore-delete", "false"), "it stays true"),
    ({}, set_option("ignore-delete", "true"), None),
    ({"ignore-update-before": "true"}, set_option("ignore-update-before", "false"), "stays true"),
    (
        {"pk-clustering-override": "true"},
        set_option("clustering.columns", "a"),
        "'pk-clustering-override' is set",
    ),
    ({}, set_option("path", "/x"), "moved by renaming"),
    ({}, set_option("file.format", "orc"), None),
    ({}, set_option("target-file-size", "big"), "'target-file-size' has the value 'big'"),
    ({"target-file-size": "1 mb"}, remove_option("target-file-size"), None),
    ({}, remove_option("target-file-size"), None),
)


@pytest.mark.parametrize(("options", "change", "message"), OPTIONS)
def test_options_changed_by_schema_change(options, change, message):
    schema = table_schema({"a": "INT"}, primary_keys=["a"], options={"bucket": "-1", **options})
    if message is None:
        new = evolve(schema, change)
        assert new.options.get(change.key) == getattr(change, "value", None)
        return
    with pytest.raises(InvalidInputError, match=message):
        evolve(schema, change)


@pytest.mark.parametrize("key", ["merge-engine", "type", "bucket"])
def test_empty_table_takes_changes_of_new_one(key):
    value = {"merge-engine": "aggregation", "type": "table", "bucket": "-1"}[key]
    schema = table_schema({"a": "INT"}, primary_keys=["a"], options={"bucket": "2"})
    assert evolve(schema, set_option(key, value), has_snapshots=False).options[key] == value


def test_keys_are_not_chosen_by_options_afterwards():
    with pytest.raises(InvalidInputError, match="keys are chosen when a table is created"):
        evolve(FLAT, set_option("primary-key", "a"), has_snapshots=False)


def test_ineffective_change_is_detected():
    schema = with_options(FLAT, target_file_size="1 mb")
    assert changes_nothing(schema, evolve(schema, set_option("target-file-size", "1 mb")))
    assert not changes_nothing(schema, evolve(schema, sc.UpdateComment(comment="x")))
    assert sc.UpdateColumnPosition(move=move_column("a").move) == move_column("a")
