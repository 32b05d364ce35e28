"""The oracle itself: the scenarios of sequence padding, told by hand."""

import pytest

from paimon_assets.engine.spec.schema.schema import Schema
from tests.testkit.model import ModelTable, Row

COLUMNS = {"id": "BIGINT", "op_time": "INT", "kind": "STRING", "text": "STRING"}


def _row(kind: str, op_time: int | None, text: str, key: int = 1) -> Row:
    return {"id": key, "op_time": op_time, "kind": kind, "text": text}


def _model(**options: str) -> ModelTable:
    named = {name.replace("_", "-", 1): value for name, value in options.items()}
    base = {"bucket": "1", "sequence.field": "op_time", "rowkind.field": "kind"}
    if "padding" in named:
        base["sequence.auto-padding"] = named.pop("padding")
    return ModelTable(Schema.of(COLUMNS, primary_keys=["id"], options={**base, **named}))


def _texts(model: ModelTable) -> list[str]:
    return [row["text"] for row in model.rows()]


@pytest.mark.parametrize(
    ("padding", "first", "second", "left"),
    [
        ("row-kind-flag", _row("+U", 10, "new"), _row("-U", 10, "old"), ["new"]),
        ("row-kind-flag", _row("-U", 10, "old"), _row("+U", 10, "new"), ["new"]),
        ("row-kind-flag", _row("+U", 10, "a"), _row("-D", 11, "a"), []),
        ("second-to-micro", _row("+I", 10, "a2"), _row("+I", 10, "a3"), ["a3"]),
        ("second-to-micro", _row("+I", 10, "a"), _row("+I", 9, "b"), ["a"]),
        ("second-to-micro,row-kind-flag", _row("+U", 10, "new"), _row("-U", 10, "old"), []),
        ("row-kind-flag,millis-to-micro", _row("+U", 10, "new"), _row("-U", 10, "old"), ["new"]),
    ],
)
def test_padding_decides_between_two_records(
    padding: str, first: Row, second: Row, left: list[str]
) -> None:
    model = _model(padding=padding)
    model.write([first])
    model.write([second])
    assert _texts(model) == left


def test_without_padding_a_late_retraction_of_the_same_time_wins() -> None:
    model = _model()
    model.write([_row("+U", 10, "new"), _row("-U", 10, "old")])
    assert _texts(model) == []


def test_a_null_sequence_value_loses() -> None:
    model = _model()
    model.write([_row("+I", -5, "kept"), _row("+I", None, "lost")])
    assert _texts(model) == ["kept"]


def test_ignored_deletes_make_no_version() -> None:
    model = _model(ignore_delete="true")
    assert model.write([_row("+I", 1, "a")])
    assert not model.write([_row("-D", 2, "a")])
    assert model.version_count == 1
    assert _texts(model) == ["a"]


def test_old_versions_stay() -> None:
    model = ModelTable(Schema.of({"id": "INT"}))
    model.write([{"id": 1}])
    model.write([{"id": 2}])
    assert [row["id"] for row in model.rows(version=1)] == [1]
    assert [row["id"] for row in model.rows()] == [1, 2]
    assert model.rows(version=0) == []


def test_of_one_second_the_later_write_wins() -> None:
    model = _model(padding="second-to-micro", bucket="2")
    model.write([_row("+I", 4, "largest", key=3), _row("+I", 3, "earlier")])
    model.write([_row("+I", 3, "later")])
    assert _texts(model) == ["largest", "later"]
