"""Any bytes in a foreign file give rows or a typed error, and never end the process."""

import io

import fastavro
import pytest

from tests.testkit.foreign_bytes import Case, outcomes

ONE = b'{"id": 1, "v": "a"}\n'


@pytest.mark.parametrize("options", [(), (("multiLine", "true"),)])
def test_roots_and_depths_of_json_do_not_end_the_process(options):
    deep = b"[" * 20_000 + b"]" * 20_000
    texts = [
        b"null\n" + ONE, b"[null]\n" + ONE, ONE + b"null\n", b" \n null", b"\xef\xbb\xbfnull",
        b"nul",
        b'{"id": 1, "v": ' + deep + b"}\n", b'{"id": ' * 20_000 + b"1" + b"}" * 20_000, deep,
    ]  # fmt: skip
    said = outcomes([Case(file_format="json", data=text, options=options) for text in texts])
    taken = [line for line in said if line.endswith(" rows")]
    ways = {"segment", "landing", "inferred", "rows", "rows inferred", "topic"}
    assert {line.split(": ")[0] for line in said} >= ways
    assert not taken, said


def test_objects_that_begin_with_null_in_a_block_do_not_end_the_process():
    said = outcomes([Case(file_format="json", data=b'{"id":\nnull}\n' * 400_000)])
    assert "segment: FormatError format" in said


@pytest.mark.parametrize("schema", ["int", ["null", "string"], {"type": "array", "items": "int"}])
def test_avro_values_that_are_no_records_are_refused(schema):
    sink = io.BytesIO()
    fastavro.writer(sink, schema, [])
    assert outcomes([Case(file_format="avro", data=sink.getvalue())])[1:] == [
        f"{way}: FormatError avro" for way in ("segment", "landing", "inferred")
    ]
