"""JSON in columns holds the same as Python's parser, and nothing is rounded."""

import json
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_assets.cdc.records.change_batch import CdcOptions
from paimon_assets.cdc.records.json_columns import Envelope, Values
from paimon_assets.engine.errors import FormatError
from tests.cdc.kit.cdc_replay import changes, rows_of
from tests.testkit.effort import often

ABSENT = object()
TEXTS = st.text(st.sampled_from('ab"\\/{}[]:, \n\té\u2028😀\x00'), max_size=6)
NAMES = st.sampled_from(["a", "b", 'c"', "d\n", "é", ""])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats(allow_nan=False,
    allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=8,
)  # fmt: skip
RECORDS = st.lists(st.dictionaries(NAMES, VALUES, max_size=5), min_size=1, max_size=6)
LAYOUTS = st.sampled_from([{"separators": (",", ":")}, {}, {"indent": 2}])


def _check(column: Values, values: list[Any]) -> None:
    sources = column.source().to_pylist()
    texts = [ABSENT if text is None else json.loads(text) for text in sources]
    assert texts == values
    assert column.texts().to_pylist() == [
        None if value is ABSENT or value is None else value if isinstance(value, str) else source
        for value, source in zip(values, sources, strict=True)
    ]
    objects = [value if isinstance(value, dict) else {} for value in values]
    columns = column.members().columns
    assert [*columns] == [*dict.fromkeys(name for value in objects for name in value)]
    for name, part in columns.items():
        _check(part, [value.get(name, ABSENT) for value in objects])
    elements = [(row, part) for row, value in enumerate(values) if isinstance(value, list)
                for part in value]  # fmt: skip
    owners, found = column.elements()
    assert owners.tolist() == [row for row, _ in elements]
    if elements:
        _check(found, [part for _, part in elements])


@pytest.mark.hunt
@settings(max_examples=often(60), deadline=None)
@given(records=RECORDS, layout=LAYOUTS, is_ascii=st.booleans())
def test_members_and_elements_equal_python_parser(
    records: list[dict[str, Any]], layout: dict[str, Any], is_ascii: bool
) -> None:
    texts = [json.dumps(record, ensure_ascii=is_ascii, **layout).encode() for record in records]
    _check(Values(pa.array(texts, pa.binary())), records)


@pytest.mark.parametrize("rows", ["{}", "{},null", "null,{}", 'null,{"b":{}},{"b":{}}', "null"])
def test_rows_of_envelopes_are_kept_where_few_have_members(rows: str) -> None:
    records = [{"a": row, "c": row} for row in json.loads(f"[{rows}]")]
    values = Values(pa.array([json.dumps(each).encode() for each in records], pa.binary()))
    members = values.members(Envelope(("a",), {("a", "c"): frozenset()}))
    for name in ("a", "c"):
        _check(members[name], [each[name] for each in records])


@pytest.mark.hunt
@settings(max_examples=often(40), deadline=None)
@given(
    rows=st.lists(
        st.dictionaries(st.sampled_from("abc"), TEXTS, min_size=1), min_size=1, max_size=9
    ),
    size=st.integers(1, 40),
    form=st.sampled_from(["lines", "array", "pretty", "crlf"]),
)
def test_lines_and_arrays_parse_across_any_block(
    rows: list[dict[str, str]], size: int, form: str
) -> None:
    if form in ("lines", "crlf"):
        text = ("\r\n" if form == "crlf" else "\n").join(json.dumps(row) for row in rows)
        lines = list(range(1, len(rows) + 1))
    else:
        text = json.dumps(rows, indent=1 if form == "pretty" else None)
        starts = [number for number, line in enumerate(text.split("\n"), 1) if line == " {"]
        lines = starts if form == "pretty" else [1] * len(rows)
    batches = changes(text, "json", CdcOptions(block_bytes=size))
    found = [
        {name: value for name, value in row.items() if value is not None}  # absent in an insert
        for batch in batches
        for _, row in rows_of(batch)
    ]
    assert found == rows
    assert [line for batch in batches for line in batch.origin["line"].to_pylist()] == lines


@pytest.mark.parametrize("text", ["[{}, {", "[{}", '{\n"a": 1', "[1]", "[{}] x", '[{"a" 1}]'])
def test_broken_array_is_refused(text: str) -> None:
    with pytest.raises(FormatError) as caught:
        changes(text, "json")
    assert caught.value.kind == "cdc-record"


def test_message_quotes_begin_of_broken_record() -> None:
    with pytest.raises(FormatError, match=r" It begins with '{broken'\. Nothing was committed\."):
        changes("{broken", "json")


@pytest.mark.parametrize(
    "text", ["[null]", '[null, {"a": 1}]', 'null {"a": 1}', '{"a": 1}\n null x']
)
def test_null_among_objects_is_refused(text: str) -> None:
    """Arrow's reader crashes where it is the first value."""
    with pytest.raises(FormatError, match="'f', line"):
        changes(text, "json")


BLANKS = st.sampled_from(["", "", "", " ", "\t ", "\r"])
SPELLED = [("a", '"a"'), ("a", '"\\u0061"'), ('c"', '"c\\""'), ("é", '"é"'), ("é", '"\\u00E9"')]
NUMBERS = ["0", "-0", "-0.0", "1E+2", "1.10", "-1e-300", "1234567890123456789.12", "9" * 60]
NUMBERS.append("1e400")
SOURCES = (
    st.sampled_from(
        [*NUMBERS, "true", "false", "null", '""', '"\\ud83d\\ude00"', '"\\u0000"', '"null"']
    )
    | TEXTS.map(json.dumps)
    | TEXTS.map(partial(json.dumps, ensure_ascii=False))
    | VALUES.filter(lambda value: isinstance(value, list | dict)).map(json.dumps)
)
MEMBERS = st.lists(st.tuples(st.sampled_from(SPELLED), SOURCES, BLANKS, BLANKS), max_size=6)


def _model(source: str) -> str | None:
    """Return the text of a value by Python's parser; numbers, arrays and objects unchanged."""
    value = json.loads(source)
    return value if value is None or isinstance(value, str) else source


ROWS = {
    "maxwell-json": '{"database":"d","table":"t","type":"update","data":%s}',
    "debezium-json": '{"op":"u","before":null,"after":%s,"source":null}',
    "wrapped": '{"schema":{},"payload":{"op":"u","after":%s}}',
}


@pytest.mark.hunt
@pytest.mark.parametrize("form", ROWS)
@settings(max_examples=often(60), deadline=None)
@given(
    rows=st.lists(MEMBERS, min_size=1, max_size=8), size=st.integers(1, 400), alike=st.booleans()
)
def test_rows_equal_those_of_slow_model(
    form: str, rows: list[list[Any]], size: int, alike: bool
) -> None:
    """Repeated, escaped and absent names, nulls, blanks, numbers that no double holds."""
    rows, size = (rows[:1] * 70 + rows, 4 << 20) if alike else (rows, size)
    lines, expected = [], []
    for row in rows:
        members = [f"{b}{spelled}{b}:{a}{source}{a}" for (_, spelled), source, b, a in row]
        lines.append(ROWS[form] % ("{" + ",".join(members) + "}"))
        expected.append({name: _model(source) for (name, _), source, _, _ in row})
    found = []
    for batch in changes(
        lines, form.replace("wrapped", "debezium-json"), CdcOptions(block_bytes=size)
    ):
        kinds_and_rows = list(rows_of(batch))
        assert {kind for kind, _ in kinds_and_rows} == {2}
        found += [row for _, row in kinds_and_rows]
    assert found == expected


@pytest.mark.parametrize(
    "value", ['"\\ud800"', '"\\udc00"', "NaN", "-Infinity", ".5", "01", '"a\tb"', "[1,]", "tru"]
)
def test_value_outside_json_or_text_is_refused(value: str) -> None:
    with pytest.raises(FormatError, match="line 2: it is no JSON"):
        changes(['{"a":1}', f'{{"a":{value}}}'], "json")


@pytest.mark.parametrize("blank", [" ", "\t", "\r"])
def test_blanks_around_lines_are_no_part_of_rows(blank: str) -> None:
    rows = [f'{blank}{{"a":"{a}","__op":"c"}}{blank}' for a in "xy"]
    (batch,) = changes(rows, "debezium-json")
    assert batch.rows.to_pylist() == [{"a": "x"}, {"a": "y"}]
    assert batch.origin["line"].to_pylist() == [1, 2]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (['{"a":1} {"a":2}', ""], [(2, "1"), (2, "2")]),
        (['{"a":[', '{"b":1}]}', '{"a":1}{"a":4}'], [(2, '[\n{"b":1}]'), (4, "1"), (4, "4")]),
    ],
)
def test_as_many_values_as_lines_are_not_one_in_each(
    lines: list[str], expected: list[tuple[int, str]]
) -> None:
    records = ['{"a":0}', *lines, '{"a":3}']
    (batch,) = changes(records, "json")
    found = zip(batch.origin["line"].to_pylist(), batch.rows["a"].to_pylist(), strict=True)
    assert [*found] == [(1, "0"), *expected, (len(records), "3")]


@pytest.mark.parametrize("text", ["", "\n \n", "[]", " [ ] ", "null\n", "\ufeff"])
def test_empty_document_has_no_changes(text: str) -> None:
    assert changes(text, "json") == []


def test_invalid_utf8_is_refused() -> None:
    with pytest.raises(FormatError, match="line 2"):
        changes(b'{"a":"x"}\n{"a":"\xff"}\n{"a":"y"}', "json")
