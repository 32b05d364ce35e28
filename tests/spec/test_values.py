"""Values are frozen, made by names and equal by fields; hidden fields are in no text of them."""

import pytest
from msgspec.structs import replace
from rich.pretty import pretty_repr

from paimon_assets.engine.spec.values import Value


class Key(Value, hidden=("salt",)):
    name: str
    salt: str


class DatedKey(Key):
    until: int = 0


@pytest.mark.parametrize("key", [Key(name="a", salt="xyz"), DatedKey(name="a", salt="xyz")])
def test_hidden_fields_are_not_printed(key):
    for text in (repr(key), str(key), f"{[key]}", pretty_repr(key), repr(replace(key, name="b"))):
        assert "name=" in text
        assert "xyz" not in text


def test_values_do_not_change():
    key = Key(name="a", salt="x")
    with pytest.raises(AttributeError):
        key.name = "b"
    assert replace(key, salt="y") != key == Key(name="a", salt="x")
    assert {key: 1}[Key(name="a", salt="x")] == 1
    assert key != DatedKey(name="a", salt="x")
    with pytest.raises(TypeError):
        Key("a", "x")
