"""Any bytes in a foreign file give rows or a typed error, and never end the process."""

import base64
import bz2
import gzip
import io
import json
import lzma
import string
from functools import partial
from random import Random
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

from paimon_assets import Schema
from paimon_assets.assets.files.source_files import FileSource, checked_schema, read_files
from paimon_assets.engine.codec.json.record_check import MOST_LEVELS
from paimon_assets.engine.codec.row_files import RowFormat, naming
from paimon_assets.engine.data.format.external_files import FileKind, open_external_file
from paimon_assets.engine.errors import FormatError
from paimon_assets.engine.fileio.local import LocalFileIO
from tests.testkit.effort import often
from tests.testkit.errors import refused
from tests.testkit.foreign import add_segment, rows, write
from tests.testkit.foreign_bytes import COLUMNS, Case, outcomes
from tests.testkit.foreign_cases import case_of
from tests.testkit.tables import new_table

ONE = b'{"id": 1, "v": "a"}\n'


@pytest.mark.parametrize("options", [(), (("multiLine", "true"),)])
def test_odd_json_roots_and_depths_do_not_crash(options):
    deep = b"[" * 20_000 + b"]" * 20_000
    texts = [
        b"null\n" + ONE, b"[null]\n" + ONE, ONE + b"null\n", b" \n null", b"\xef\xbb\xbfnull",
        b"nul",
        b'{"id": 1, "v": ' + deep + b"}\n", b'{"id": ' * 20_000 + b"1" + b"}" * 20_000, deep,
    ]  # fmt: skip
    lines = outcomes([Case(file_format="json", data=text, options=options) for text in texts])
    taken = [line for line in lines if line.endswith(" rows")]
    ways = {"segment", "landing", "inferred", "topic"}
    assert {line.split(": ")[0] for line in lines} >= ways
    assert not taken, lines


def test_objects_beginning_with_null_do_not_crash():
    lines = outcomes([Case(file_format="json", data=b'{"id":\nnull}\n' * 400_000)])
    assert "segment: FormatError format" in lines


@pytest.mark.parametrize("schema", ["int", ["null", "string"], {"type": "array", "items": "int"}])
def test_avro_values_that_are_no_records_are_refused(schema):
    sink = io.BytesIO()
    fastavro.writer(sink, schema, [])
    assert outcomes([Case(file_format="avro", data=sink.getvalue())])[1:] == [
        f"{way}: FormatError avro" for way in ("segment", "landing", "inferred")
    ]


EMPTY = [
    *((name, b"", ()) for name in ("csv", "json", "text", "parquet", "orc", "avro", "arrow")),
    *(("csv", text, ()) for text in (b"id,v", b"id,v\n", b"\r\n\n", b"\xef\xbb\xbf")),
    ("csv", b"", (("header", "false"),)), ("csv", b"", (("sep", ";"),)),
    ("csv", b"id;v", (("sep", ";"),)),
    *(("json", text, ()) for text in (b"[]", b" [ ]\n", b"\n \n", b"\xef\xbb\xbf[]")),
    ("json", b"[\n]", (("multiLine", "true"),)), ("json", b"", (("multiLine", "true"),)),
]  # fmt: skip


def test_files_without_rows_are_no_rows_in_every_format():
    cases = [
        Case(file_format=name, data=data, options=options,
             columns=(("value", "STRING"),) if name == "text" else tuple(COLUMNS.items()))
        for name, data, options in EMPTY
    ]  # fmt: skip
    taken = [[]]
    for line in outcomes(cases):
        if line.startswith("case "):
            taken.append([])
        taken[-1].append(line)
    for (name, data, _), lines in zip(EMPTY, taken[1:], strict=True):
        ways = [line for line in lines if line.startswith(("segment:", "landing:", "inferred:"))]
        if name in ("parquet", "orc", "avro"):
            assert ways.pop(0) == "segment: InvalidInputError segment-no-data"
        assert {line.partition(": ")[2] for line in ways} <= {"0 rows"}, (name, data, lines)
        assert ways, (name, data)


@pytest.mark.parametrize("name", ["parquet", "orc", "avro", "csv", "json"])
def test_empty_files_are_allowed(catalog, tmp_path, name):
    write(tmp_path / "in" / f"2.{name}", rows((1, "x")))
    (tmp_path / "in" / f"1.{name}").touch()
    table = catalog.create_table("db.t", Schema.of({"a": "INT", "b": "STRING"}))
    add_segment(table, tmp_path / "in", name)
    assert table.to_arrow().to_pylist() == [{"a": 1, "b": "x"}]
    (tmp_path / "in" / f"3.{name}").touch()
    table.segments().refresh([])
    assert table.count() == 1
    source = FileSource(folder=str(tmp_path / "in"), format=name)
    paths = [str(tmp_path / "in" / f"{number}.{name}") for number in (1, 2, 3)]
    schema = checked_schema(LocalFileIO(), paths, source, None)
    assert read_files(LocalFileIO(), paths, source, schema).read_all().num_rows == 1


def test_topics_refuse_columns_that_json_cannot_fill():
    lines = outcomes(
        [Case(file_format="json", data=b'{"t": "10:00:00"}', columns=(("t", "TIME(3)"),))]
    )
    assert any(line.startswith("topic: FormatError") for line in lines)


def test_topics_refuse_members_that_no_column_takes():
    lines = outcomes([Case(file_format="json", data=b'{"id": 2, "zz": 1}')])
    assert "topic: FormatError bad-record" in lines
    assert "segment: 1 rows" in lines  # also if `v`, which the file lacks, is read alone


@pytest.mark.parametrize("name", ["parquet", "orc", "arrow"])
def test_invalid_utf8_is_refused_by_reads(tmp_path, name):
    bytes_ = pa.array([b"a", b"\xff\xfe"])
    table = pa.table({"b": pa.Array.from_buffers(pa.string(), 2, bytes_.buffers())})
    path = tmp_path / f"1.{name}"
    match name:
        case "parquet":
            pq.write_table(table, path)
        case "orc":
            orc.write_table(table, path)
        case _:
            with pa.ipc.new_file(str(path), table.schema) as writer:
                writer.write_table(table)
    with (
        open_external_file(LocalFileIO(), str(path), FileKind(format=name)) as opened,
        pytest.raises(FormatError, match=rf"1.{name}.*column 'b' has a text that is not valid UTF"),
        naming(str(path), RowFormat(name)),
    ):
        list(opened.batches)


def test_json_numbers_are_read_as_texts():
    numbers = [b"1e999", b"1" * 5000, b"{}", b"[1e999]"]
    data = [b'{"id": 1, "v": %s}\n' % number for number in numbers]
    lines = outcomes([Case(file_format="json", data=each) for each in data])
    assert lines.count("segment: 1 rows") == lines.count("landing: 1 rows") == len(numbers)


def test_only_declared_encodings_are_read():
    texts = {"csv": "id,v\n1,ü\n", "json": '{"id": 1, "v": "ü"}\n'}
    encodings = ("utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32")
    cases = [
        (encoding, options, Case(file_format=name, data=text.encode(encoding), options=options))
        for name, text in texts.items()
        for encoding in encodings
        for options in ((), (("encoding", encoding),))
    ]
    lines = [line for line in outcomes([each for *_, each in cases]) if line.startswith("segment:")]
    for (encoding, options, _), line in zip(cases, lines, strict=True):
        if options:
            assert line.endswith((" 1 rows", "segment-option")), (encoding, line)
        else:
            assert line.endswith(" 1 rows") == (encoding == "utf-8-sig"), (encoding, line)


_ENCODINGS = ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be", "cp1252",
              "cp1251", "shift_jis", "gb18030")  # fmt: skip
_LETTERS = {"cp1251": "жяЮ", "shift_jis": "日本語", "gb18030": "中文日"}


@pytest.mark.parametrize("name", ["csv", "json", "text"])
def test_wrong_encodings_are_refused_with_their_option(tmp_path, name):
    """Of 30 files in ten encodings, each with texts that are no UTF-8."""
    io_, kinds = LocalFileIO(), {"text": {"value": "STRING"}}.get(name, {"a": "INT", "s": "STRING"})
    for number in range(often(30)):
        draw = Random(number)  # noqa: S311 - no secret
        encoding = draw.choice(_ENCODINGS)
        letters = _LETTERS.get(encoding, "éüß")
        texts = [
            draw.choice(letters) + "".join(draw.choices(letters + "az", k=draw.randrange(5)))
            for _ in range(draw.randint(1, 5))
        ]
        match name:
            case "csv":
                lines = ["a,s", *(f"{row},{text}" for row, text in enumerate(texts))]
            case "json":
                lines = [
                    json.dumps({"a": row, "s": text}, ensure_ascii=False)
                    for row, text in enumerate(texts)
                ]
            case _:
                texts = lines = ["a", *texts]
        path = tmp_path / str(number) / f"0.{name}"
        path.parent.mkdir()
        path.write_bytes("\n".join([*lines, ""]).encode(encoding))
        table = new_table(tmp_path, kinds, name=f"db.t{number}")
        with refused(FormatError, "Set the option 'encoding'", kind="format"):
            add_segment(table, path.parent, name)
        if name != "text":
            with (
                pytest.raises(FormatError, match="Set the option 'encoding'"),
                open_external_file(io_, str(path), FileKind(format=name)) as opened,
                naming(str(path), name),
            ):
                list(opened.batches)
        add_segment(table, path.parent, name, options={"encoding": encoding})
        found = table.to_arrow().column("value" if name == "text" else "s").to_pylist()
        assert found == texts, (number, encoding)


PACKED = {
    "gzip": gzip.compress, "bzip2": bz2.compress, "xz": lzma.compress,
    "lzma": partial(lzma.compress, format=lzma.FORMAT_ALONE),
    **{name: partial(pa.compress, codec=name, asbytes=True) for name in ("zstd", "lz4")},
}  # fmt: skip


@pytest.mark.parametrize("program", PACKED)
def test_compressed_files_are_refused_in_any_encoding(program):
    draw = Random(program)  # noqa: S311 - no secret
    cases = []
    for encoding in ("iso-8859-1", "windows-1252"):
        lines = [f"{number},{draw.randbytes(3).hex()}ü" for number in range(draw.randrange(1, 99))]
        data = PACKED[program]("\n".join(["id,v", *lines]).encode("latin-1"))
        for header in ("true", "false"):
            options = (("encoding", encoding), ("header", header))
            cases.append(Case(file_format="csv", data=data, options=options))
        text = (("encoding", encoding),)
        columns = (("value", "STRING"),)
        cases.append(Case(file_format="text", data=data, columns=columns, options=text))
    results = [
        line for line in outcomes(cases) if line.startswith(("segment", "landing", "inferred"))
    ]
    assert {line.partition(": ")[2] for line in results} <= {
        "FormatError format", "FormatError source-file",
    }, results  # fmt: skip


def test_trailing_base64_bits_are_ignored(tmp_path):
    draw = Random(50)  # noqa: S311 - no secret
    letters = string.ascii_uppercase + string.ascii_lowercase + string.digits + "+/"
    texts, values = [], []
    for size in range(often(60)):
        values.append(draw.randbytes(size % 7))
        text = base64.b64encode(values[-1]).decode()
        plain = text.rstrip("=")
        if plain != text:
            last = letters.index(plain[-1]) + draw.randrange(16 if text[-2] == "=" else 4)
            plain = plain[:-1] + letters[last]
        texts.append(plain.ljust(len(text), "="))
    lines = "".join(f'{{"v": "{text}"}}\n' for text in texts)
    (tmp_path / "1.json").write_text(lines)
    columns, kind = pa.schema({"v": pa.binary()}), FileKind(format="json")
    with open_external_file(LocalFileIO(), str(tmp_path / "1.json"), kind, columns) as opened:
        read = [value for batch in opened.batches for value in batch["v"].to_pylist()]
    assert read == values == [base64.b64decode(text, validate=True) for text in texts]


@pytest.mark.parametrize("fields", [b'[{"name": 1, "type": "long"}]', b'{"a": 1}', b'[{}]',
    b'[{"name": "v", "type": {"type": "long", "logicalType": ["x"]}}]'])  # fmt: skip
def test_invalid_avro_schemas_are_refused(fields):
    sink = io.BytesIO()
    schema = b'{"type": "record", "name": "r", "fields": %s}' % fields
    metadata = {"avro.schema": schema, "avro.codec": b"null"}
    fastavro.schemaless_writer(sink, {"type": "map", "values": "bytes"}, metadata)
    data = b"Obj\x01" + sink.getvalue() + bytes(16)
    for line in outcomes([Case(file_format="avro", data=data)])[1:]:
        assert line.endswith("FormatError avro"), line


@pytest.mark.parametrize("fields", [[], [{"name": "v", "type": "null"}]])
def test_empty_records_are_refused_before_their_blocks(tmp_path, fields):
    """A block of few bytes would be billions of rows: 16 GB of memory were taken."""
    path = tmp_path / "1.avro"
    with path.open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "r", "fields": fields}, [])
    with (
        pytest.raises(FormatError, match=r"1\.avro.*its records take no bytes"),
        open_external_file(LocalFileIO(), str(path), FileKind(format="avro")),
    ):
        pass


def test_dangling_string_views_are_refused(tmp_path):
    view = (20).to_bytes(4, "little") + b"abcd" + (7).to_bytes(4, "little") + bytes(4)
    buffers = [None, pa.py_buffer(view), pa.py_buffer(b"x" * 20)]
    wrong: Any = pa.Array.from_buffers(pa.string_view(), 1, buffers)
    with pa.ipc.new_file(str(tmp_path / "1.arrow"), pa.schema({"v": wrong.type})) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays([wrong], names=["v"]))
    data = (tmp_path / "1.arrow").read_bytes()
    lines = outcomes([Case(file_format="arrow", data=data)])[1:]
    assert {line.partition(": ")[2] for line in lines} == {"FormatError source-file"}


@pytest.mark.parametrize("levels", [100, 200, 400])
def test_types_that_nest_deep_are_refused(levels):
    kind = pa.int32()
    for _ in range(levels):
        kind = pa.list_(kind)
    sink = io.BytesIO()
    columns = {"id": pa.array([1], pa.int64()), "v": ["x"], "z": pa.nulls(1, kind)}
    orc.write_table(pa.table(columns), sink)
    lines = outcomes([Case(file_format="orc", data=sink.getvalue())])[1:]
    expected = "1 rows" if levels < MOST_LEVELS else "FormatError"
    assert {line.partition(": ")[2].split(" s")[0].split(" f")[0] for line in lines} == {expected}


def test_arbitrary_bytes_give_rows_or_typed_error():
    count = often(40)
    lines = outcomes([case_of(seed) for seed in range(count)])
    assert sum(line.startswith("case ") for line in lines) == count
    taken = {line.partition(":")[0] for line in lines if line.endswith(" rows")}
    assert {"segment", "landing", "inferred", "rows"} <= taken
