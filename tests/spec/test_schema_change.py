import json

import pytest

from paimon_assets import (
    InvalidInputError,
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
from paimon_assets.engine.codec.rest import structure
from paimon_assets.engine.spec.evolution import schema_change as sc
from paimon_assets.engine.spec.types.type_text import parse_type

JAVA = (
    (set_option("k", "v"), '{"action":"setOption","key":"k","value":"v"}'),
    (remove_option("k"), '{"action":"removeOption","key":"k"}'),
    (sc.UpdateComment(comment=None), '{"action":"updateComment","comment":null}'),
    (
        add_column("c", "INT", comment="cm", after="b"),
        (
            '{"action":"addColumn","fieldNames":["c"],"dataType":"INT","comment":"cm",'
            '"move":{"fieldName":"c","referenceFieldName":"b","type":"AFTER"}}'
        ),
    ),
    (
        sc.AddColumn(field_names=("s", "x"), data_type=parse_type("ARRAY<INT>")),
        (
            '{"action":"addColumn","fieldNames":["s","x"],'
            '"dataType":{"type":"ARRAY","element":"INT"},"comment":null,"move":null}'
        ),
    ),
    (rename_column("a", "b"), '{"action":"renameColumn","fieldNames":["a"],"newName":"b"}'),
    (drop_column("a"), '{"action":"dropColumn","fieldNames":["a"]}'),
    (
        update_column_type("a", "BIGINT"),
        (
            '{"action":"updateColumnType","fieldNames":["a"],"newDataType":"BIGINT",'
            '"keepNullability":true}'
        ),
    ),
    (
        update_column_nullability("a", nullable=False),
        '{"action":"updateColumnNullability","fieldNames":["a"],"newNullability":false}',
    ),
    (
        update_column_comment("a", "x"),
        '{"action":"updateColumnComment","fieldNames":["a"],"newComment":"x"}',
    ),
    (
        update_column_default_value("a", "5"),
        '{"action":"updateColumnDefaultValue","fieldNames":["a"],"newDefaultValue":"5"}',
    ),
    (
        move_column("a"),
        (
            '{"action":"updateColumnPosition","move":{"fieldName":"a","referenceFieldName":null,'
            '"type":"LAST"}}'
        ),
    ),
    (sc.DropPrimaryKey(), '{"action":"dropPrimaryKey"}'),
)
"""The documents Java 2.0 writes, byte for byte."""


@pytest.mark.parametrize(("change", "text"), JAVA)
def test_schema_change_round_trips_java_json(change, text):
    assert json.dumps(structure.change_to_json(change), separators=(",", ":")) == text
    assert structure.change_from_json(json.loads(text)) == change


def test_list_is_parsed_bare_and_as_request():
    changes = tuple(change for change, _ in JAVA)
    assert structure.changes_from_json(structure.changes_to_json(changes)) == changes
    assert structure.changes_from_json({"changes": structure.changes_to_json(changes)}) == changes


def test_short_forms_of_changes_are_parsed():
    assert structure.change_from_json({"type": "dropColumn", "fieldNames": "a"}) == drop_column("a")
    assert structure.change_from_json(
        {"action": "setOption", "key": "k", "value": 4}
    ) == sc.SetOption(key="k", value="4")
    assert structure.change_from_json(
        {"action": "setOption", "key": "k", "value": True}
    ) == sc.SetOption(key="k", value="true")
    assert structure.change_from_json(
        {"action": "updateColumnType", "fieldNames": "a", "newDataType": "int", "more": 1}
    ) == sc.UpdateColumnType(field_names=("a",), new_data_type=parse_type("INT"))
    assert structure.change_from_json(
        {"action": "updateColumnNullability", "fieldNames": ["a"], "newNullability": "true"}
    ) == update_column_nullability("a", nullable=True)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("dropColumn", "expected an object"),
        ({}, "unknown action None; there are setOption, "),
        ({"action": "dropTable"}, "unknown action 'dropTable'"),
        ({"action": "dropColumn"}, "'dropColumn' needs 'fieldNames'"),
        ({"action": "dropColumn", "fieldNames": []}, "must list names"),
        ({"action": "dropColumn", "fieldNames": [1]}, "must list names"),
        ({"action": "setOption", "key": None, "value": "v"}, "SetOption: member 'key' is missing"),
        ({"action": "setOption", "key": "k", "value": ["v"]}, "'value' cannot be a list"),
        ({"action": "addColumn", "fieldNames": ["a"], "dataType": "INTT"}, "INTT"),
        (
            {"action": "addColumn", "fieldNames": ["a"], "dataType": {"type": "ARRAY"}},
            "member 'dataType' cannot",
        ),
        ({"action": "updateColumnComment", "fieldNames": ["a"]}, "needs 'newComment'"),
        (
            {"action": "updateColumnNullability", "fieldNames": ["a"], "newNullability": 1},
            "true or false",
        ),
        ({"action": "updateColumnPosition", "move": None}, "member 'move' is missing"),
        (
            {"action": "updateColumnPosition", "move": {"fieldName": "a", "type": "UP"}},
            "one of FIRST, AFTER, BEFORE, LAST",
        ),
    ],
)
def test_invalid_change_is_refused(document, message):
    with pytest.raises(InvalidInputError, match=message):
        structure.change_from_json(document)


def test_wrong_change_of_list_is_numbered():
    with pytest.raises(InvalidInputError, match=r"Change 2 of 2: .*'renameColumn' needs 'newName'"):
        structure.changes_from_json(
            [structure.change_to_json(JAVA[0][0]), {"action": "renameColumn", "fieldNames": ["a"]}]
        )
    with pytest.raises(InvalidInputError, match="expected a list"):
        structure.changes_from_json({"change": []})


def test_column_moves_to_one_place_only():
    assert move_column("a", first=True).move == sc.Move(field_name="a", type=sc.MoveType.FIRST)
    with pytest.raises(InvalidInputError, match="one place only"):
        move_column("a", first=True, after="b")
