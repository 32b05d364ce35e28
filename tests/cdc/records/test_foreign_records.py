"""Any bytes among change records give changes, dead letters or typed errors, and end no process."""

import json

import pytest

from tests.cdc.kit.foreign_records import FORMATS, GOOD, draw_case, outcomes
from tests.testkit.effort import often

_DEEP = b"[" * 20_000 + b"]" * 20_000


@pytest.mark.parametrize("name", FORMATS)
def test_odd_roots_and_depths_do_not_crash(name):
    good = GOOD[name][0].encode()
    wrong = [
        _DEEP, b'{"a":' * 20_000 + b"1" + b"}" * 20_000, b'{"id": 1, "v": ' + _DEEP + b"}",
        b"1", b'"x"', b"[1]", b"{", b'{"id": 1, "v": "\xff"}', b'\xff{"id": 1}',
        b'{"schema": {"type": "struct", "fields": ' + _DEEP + b'}, "payload": {"op": "c"}}',
        json.dumps({"schema": {"type": "struct", "fields": {}}, "payload": {"op": "c"}}).encode(),
    ]  # fmt: skip
    roots = [b"null", b"[null]", b" \n null", b"\xef\xbb\xbfnull", b"null" + good]
    lines = outcomes([(name, text + b"\n" + good) for text in (*wrong, *roots)])
    assert sum(line.startswith("case ") for line in lines) == len(wrong) + len(roots)
    alone = [line for line in lines if line.startswith(("file: ", "topic: "))]
    assert sum(line.endswith("cdc-record") for line in alone) >= 2 * len(wrong) - 6, lines
    letters = [line for line in lines if line.startswith("topic with dead letters")]
    assert sum(line.endswith(" records") for line in letters) >= len(wrong), lines


def test_random_records_raise_typed_errors():
    count = often(400)
    lines = outcomes([draw_case(seed) for seed in range(count)])
    assert sum(line.startswith("case ") for line in lines) == count
    assert {line.partition(":")[0] for line in lines if line.endswith(" records")} >= {
        "file", "topic", "file with dead letters", "topic with dead letters",
    }  # fmt: skip
