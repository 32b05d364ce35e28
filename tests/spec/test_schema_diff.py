from hypothesis import given
from hypothesis import strategies as st

from paimon_assets import (
    Schema,
    add_column,
    drop_column,
    move_column,
    remove_option,
    rename_column,
    set_option,
    update_column_comment,
    update_column_type,
)
from paimon_assets.engine.spec.evolution.schema_change import UpdateComment
from paimon_assets.engine.spec.evolution.schema_diff import reconciling_changes, schema_diff
from paimon_assets.engine.spec.evolution.schema_evolution import apply_changes
from tests.testkit.tables import table_schema

OLD = table_schema(dict.fromkeys("abcd", "INT"), options={"write-only": "true"})


def evolve(schema, *changes):
    return apply_changes(schema, changes, has_snapshots=True, time_millis=2)


def test_diff_has_line_for_each_change():
    new = evolve(
        OLD,
        drop_column("b"),
        add_column("b", "STRING"),
        rename_column("a", "x"),
        update_column_type("x", "BIGINT"),
        update_column_comment("c", "see"),
        move_column("d", first=True),
        UpdateComment(comment="all"),
        set_option("target-file-size", "1 mb"),
        remove_option("write-only"),
    )
    found = [
        (line.subject, line.field_id, line.change, line.before, line.after)
        for line in schema_diff(OLD, new)
    ]
    assert found == [
        ("column", 3, "moved", "d INT", "d INT"),
        ("column", 0, "renamed, type", "a INT", "x BIGINT"),
        ("column", 2, "comment", "c INT", "c INT COMMENT 'see'"),
        ("column", 4, "added", None, "b STRING"),
        ("column", 1, "dropped", "b INT", None),
        ("option target-file-size", None, "set", None, "1 mb"),
        ("option write-only", None, "removed", "true", None),
        ("comment", None, "changed", None, "all"),
    ]
    assert schema_diff(OLD, OLD) == ()


TYPES = ("INT", "BIGINT", "STRING", "DOUBLE", "DATE", "ARRAY<INT>")
COLUMNS = st.dictionaries(st.sampled_from("abcdef"), st.sampled_from(TYPES), min_size=1)


@given(COLUMNS, COLUMNS, st.permutations("abcdef"))
def test_reconciling_changes_reach_declaration(before, after, order):
    declared = Schema.of({name: after[name] for name in order if name in after}, comment="now")
    stored = table_schema(before)
    found = reconciling_changes(stored, declared)
    new = evolve(stored, *found.changes)
    if found.unreachable:
        return
    assert [(f.name, str(f.type), f.description) for f in new.fields] == [
        (f.name, str(f.type), f.description) for f in declared.fields
    ]
    assert new.comment == "now"
    assert not reconciling_changes(new, declared).changes


def test_column_with_unique_type_is_renamed():
    stored = table_schema({"a": "INT", "b": "STRING"})
    found = reconciling_changes(stored, Schema.of({"x": "STRING", "a": "INT"}))
    assert found.changes == (rename_column("b", "x"), move_column("x", first=True))


def test_unreachable_parts_are_listed():
    stored = table_schema({"k": "INT", "v": "INT"}, primary_keys=["k"], options={"bucket": "1"})
    declared = Schema.of(
        {"k": "BIGINT", "v": "DATE"}, primary_keys=["k"], options={"merge-engine": "first-row"}
    )
    reasons = " ".join(reconciling_changes(stored, declared).unreachable)
    for text in ("'k' cannot change", "'v' cannot change", "'merge-engine' cannot change"):
        assert text in reasons
