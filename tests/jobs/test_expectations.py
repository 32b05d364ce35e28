"""`difference` must see what it is there to see."""

import pandas as pd
import pyarrow as pa
import pytest

from jobs.demo.expectations import difference

WANTED = pd.DataFrame({"id": [1, 2, 3], "text": ["a", None, "c"], "number": [0.5, 1.5, None]})


def table(**changes: list[object]) -> pa.Table:
    columns = {"id": [3, 1, 2], "text": ["c", "a", None], "number": [None, 0.5, 1.5], **changes}
    return pa.table(columns)


def test_row_order_and_column_order_do_not_matter():
    assert difference(table().select(["number", "text", "id"]), WANTED, ["id"]) is None


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"text": ["c", "a", "b"]}, "column text: 1 rows differ, first at id=2"),
        ({"text": [None, "a", None]}, "column text: 1 rows differ, first at id=3"),
        ({"number": [None, 0.5, 1.6]}, "column number: 1 rows differ, first at id=2"),
        ({"number": [0.0, 0.5, 1.5]}, "column number: 1 rows differ, first at id=3"),
    ],
)
def test_one_wrong_value_is_found_and_named(changes, told):
    assert told in str(difference(table(**changes), WANTED, ["id"]))


def test_missing_row_is_found():
    assert difference(table().slice(1), WANTED, ["id"]) == "2 rows instead of 3"


def test_missing_column_is_found():
    assert "text" in str(difference(table().drop_columns("text"), WANTED, ["id"]))
