"""Filters and merges of values at their limits: Java finds the rows of our files that we find."""

import base64
import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

from paimon_assets.engine.spec.predicate.predicate import CompareOp, Comparison
from paimon_assets.engine.spec.schema.schema import Schema
from tests.interop.steps import OurSide, Write
from tests.testkit.oracle import Oracle

pytestmark = pytest.mark.interop

NAN = float("nan")
LAST = dt.datetime.fromisoformat("9999-12-31T23:59:59.999")
COLUMNS: dict[str, Any] = {
    "id": "INT",
    "wide": "DECIMAL(20, 0)",
    "fine": "TIMESTAMP(9)",
    "milli": "TIMESTAMP(3)",
    "micro": "TIMESTAMP(6)",
    "x": "DOUBLE",
    "raw": "BYTES",
    "n": "ROW<t TIMESTAMP(3)>",
}
NUMBERS = (1.0, NAN, 0.0, -0.0, 5.0, None)
ROWS = tuple(
    {
        "id": number,
        "wide": Decimal(number % 2),
        "fine": dt.datetime.fromisoformat(f"2024-01-0{number % 3 + 1}"),
        "milli": LAST if number % 2 else dt.datetime.fromisoformat("1969-12-31T23:59:59.999"),
        "micro": dt.datetime.fromisoformat(f"2024-01-0{number % 3 + 1}T00:00:00.000001"),
        "x": NUMBERS[number % len(NUMBERS)],
        "raw": bytes([number * 6]),
        "n": {"t": LAST},
    }
    for number in range(40)
)
FUNCTIONS = {
    "equal": CompareOp.EQ,
    "notEqual": CompareOp.NE,
    "lessThan": CompareOp.LT,
    "greaterOrEqual": CompareOp.GE,
}
LITERALS: tuple[tuple[str, Any, str], ...] = (
    ("wide", Decimal(1), "1"),
    ("milli", LAST, "9999-12-31T23:59:59.999"),
    ("micro", ROWS[1]["micro"], "2024-01-02T00:00:00.000001"),
    ("x", 1.0, "1.0"),
    ("x", 6.0, "6.0"),
    ("x", 0.0, "0.0"),
    ("x", -0.0, "-0.0"),
    ("x", NAN, "NaN"),
)
RAW = bytes([20 * 6])
"""Between the other values, as unsigned bytes; Java's filters compare signed ones."""


def test_java_filters_same(java: Oracle, ours: OurSide) -> None:
    table = ours.create("filters.found", Schema.of(COLUMNS, options={"bucket": "-1"}))
    ours.do(table.name, Write(ROWS))
    assert len(java.call("rows", table=table.name)) == len(ROWS)
    for column, literal, text in LITERALS:
        for function, op in FUNCTIONS.items():
            asked = {"column": column, "function": function, "literals": [text]}
            theirs = sorted(row[0] for row in java.call("rows", table=table.name, filter=asked))
            builder = table.new_read_builder().with_filter(Comparison(column, op, literal))
            found = sorted(row["id"] for row in builder.to_arrow().to_pylist())
            assert (column, text, function, found) == (column, text, function, theirs)
    literals = [base64.b64encode(RAW).decode()]
    equal = {"column": "raw", "function": "equal", "internal": True, "literals": literals}
    assert [row[0] for row in java.call("rows", table=table.name, filter=equal)] == [20]


def test_java_merges_nan_and_zeros_as_we_do(java: Oracle, ours: OurSide) -> None:
    options = {"bucket": "1", "sequence.field": "s"}
    columns = {"k": "INT", "s": "DOUBLE", "v": "INT"}
    pairs = [(a, b) for a in NUMBERS for b in NUMBERS]
    for name, commits in (("one_commit", 1), ("two_commits", 2)):
        table = ours.create(
            f"filters.{name}", Schema.of(columns, primary_keys=["k"], options=options)
        )
        parts = [
            [{"k": k, "s": pair[at], "v": at} for k, pair in enumerate(pairs)] for at in (0, 1)
        ]
        for rows in parts if commits == 2 else [[*parts[0], *parts[1]]]:
            ours.do(table.name, Write(tuple(rows)))
        theirs = {row[0]: row[2] for row in java.call("rows", table=table.name)}
        found = {row["k"]: row["v"] for row in table.new_read_builder().to_arrow().to_pylist()}
        assert found == theirs


def test_padded_char_of_java_is_found(java: Oracle, ours: OurSide) -> None:
    options = {"file.format": "orc"}
    table = ours.create("filters.chars", Schema.of({"id": "INT", "c": "CHAR(5)"}, options=options))
    java.call("put", table=table.name, rows=[[1, "b"], [2, "zz"]])
    for text, wanted in (("b", [1]), ("zz", [2]), ("a", [])):
        found = table.new_read_builder().with_filter(f"c = '{text}'").to_arrow()
        assert found["id"].to_pylist() == wanted
