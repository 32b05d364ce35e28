"""Texts that are no value of their column are refused by name, and each way out is taken."""

import gzip
import math
from itertools import product

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from paimon_assets import FormatError, InvalidInputError, Schema
from paimon_assets.assets.files.source_files import FileSource, checked_schema, read_files
from paimon_assets.engine.fileio.local import LocalFileIO
from tests.testkit.errors import refused
from tests.testkit.foreign import add_segment

_TYPES = ("INT", "DOUBLE", "BOOLEAN", "DECIMAL(10, 2)", "DATE", "TIMESTAMP(3)", "TIME(3)", "BYTES")
_TEXTS = ("NaN", "-Infinity", "x", "1e400", "300000000000000000000", "1.234", "2024-13-01")


def _file(folder, text, form):
    folder.mkdir()
    if form == "csv":
        (folder / "a.csv").write_text(f"a,i\n{text},1\n")
    else:
        quote = '"' if form == "quoted" else ""
        (folder / "a.json").write_text(f'{{"a": {quote}{text}{quote}, "i": 1}}\n')
    return "csv" if form == "csv" else "json"


def _read_landing(folder, name, kind, other="INT"):
    source, path = FileSource(folder=str(folder), format=name), str(folder / f"a.{name}")
    declared = Schema.of({"a": kind, "i": other})
    schema = checked_schema(LocalFileIO(), [path], source, declared)
    return read_files(LocalFileIO(), [path], source, schema).read_all()


def _refusal(take, *arguments):
    """Return the message of a refusal, or nothing."""
    try:
        take(*arguments)
    except FormatError as error:
        return error.message
    return ""


@pytest.mark.parametrize("kind", _TYPES)
def test_text_column_accepts_texts_refused_by_typed_one(catalog, tmp_path, kind):
    typed = catalog.create_table("db.typed", Schema.of({"a": kind, "i": "INT"}))
    refusals = 0
    for number, (text, form) in enumerate(product(_TEXTS, ("csv", "quoted", "bare"))):
        folder = tmp_path / str(number)
        name = _file(folder, text, form)
        for message in (
            _refusal(add_segment, typed, folder, name),
            _refusal(_read_landing, folder, name, kind),
        ):
            if not message:
                continue
            refusals += 1
            assert f"{folder}/a.{name}" in message
            texts = catalog.create_table(f"db.t{refusals}", Schema.of({"a": "STRING", "i": "INT"}))
            add_segment(texts, folder, name)
            assert texts.to_arrow().to_pylist() == [{"a": text, "i": 1}]
            if form != "bare":  # a bare text may be no JSON at all
                assert "or declare the column as STRING" in message
                assert _read_landing(folder, name, "STRING").to_pylist() == [{"a": text, "i": 1}]
    assert refusals >= 10


def test_nan_and_infinities_are_refused_with_ways_out(catalog):
    rows = pa.table({"d": [1.5, math.nan, math.inf]})
    table = catalog.create_table("db.t", Schema.of({"d": "DECIMAL(10, 2)"}))
    with refused(InvalidInputError, "NaN and infinities as null, or declare it", kind="input-type"):
        table.append(rows)
    finite = pc.if_else(pc.is_finite(rows["d"]), rows["d"], None)
    table.append(pa.table({"d": finite.cast(pa.decimal128(10, 2))}))
    assert table.to_arrow()["d"].cast(pa.float64()).to_pylist() == [1.5, None, None]
    doubles = catalog.create_table("db.u", Schema.of({"d": "DOUBLE"}))
    doubles.append(rows)
    assert str(doubles.to_arrow()["d"].to_pylist()) == "[1.5, nan, inf]"


def test_bad_value_of_csv_is_named_with_its_column_and_line(catalog, tmp_path, invoke):
    table = catalog.create_table("db.t", Schema.of({"i": "INT", "a": "DOUBLE"}))
    folder = tmp_path / "csv"
    folder.mkdir()
    lines = [f"{number}.5,{number}" for number in range(70_000)]
    lines[60_000] = "abc,1"
    text = "\n".join(["a,i", *lines])
    (folder / "a.csv").write_text(text)
    for message in (
        _refusal(add_segment, table, folder, "csv"),
        _refusal(_read_landing, folder, "csv", "DOUBLE"),
        invoke("create", "db.u", "--column", "a DOUBLE", "--column", "i INT")
        and invoke("write", "db.u", str(folder / "a.csv"), code=9),
    ):
        assert "column 'a', line 60002: " in message
        assert "'abc'" in message


_ODD_LINES = {
    "blank lines": "\n\na,s\n\n1,p\n\n\n{},p\n",
    "quoted line ends": 'a,s\n1,"p\n\n"\n2,"q"\n{},p\n',
    "CR LF": 'a,s\r\n\r\n1,"p\r\n"\r\n\r\n{},p\r\n',
    "CR": 'a,s\r1,"p\r"\r\r{},p\r',
    "byte order mark": "\ufeffa,s\n\n{},p\n",
    "quotes in values": 'a,s\n1,5"\n\n{},"p\n""q"\n',
    "names in quotes": 'a,"s\n"\n\n1,p\n{},p\n',
}


@pytest.mark.parametrize("lines", _ODD_LINES.values(), ids=_ODD_LINES)
@pytest.mark.parametrize("bad", ["x", "1,2"])
def test_fault_names_line_of_file(catalog, tmp_path, invoke, lines, bad):
    columns = {"a": "INT", "s\n" if 's\n"' in lines else "s": "STRING"}
    declared, text = Schema.of(columns), lines.format(bad)
    table, folder = catalog.create_table("db.t", declared), tmp_path / "in"
    before = text[: text.rindex(f"{bad},")].replace("\r\n", "\n").replace("\r", "\n")
    place = f"line {before.count(chr(10)) + 1}: "
    folder.mkdir()
    for suffix in ("csv", "csv.gz"):
        file = folder / f"a.{suffix}"
        file.write_bytes(gzip.compress(text.encode()) if "gz" in suffix else text.encode())
        assert place in _refusal(add_segment, table, folder, "csv")
        for options in ({}, {"comment": "#"}):
            source = FileSource(folder=str(folder), format="csv", options=options)

            def read(source=source, path=str(file)):
                schema = checked_schema(LocalFileIO(), [path], source, declared)
                read_files(LocalFileIO(), [path], source, schema).read_all()

            assert place in _refusal(read)
        if suffix == "csv" and "s" in columns:
            invoke("create", "db.t", "--column", "a INT", "--column", "s STRING")
            assert place in invoke("write", "db.t", str(file), code=9)
        file.unlink()


def test_fault_names_line_behind_comments_and_escapes(catalog, tmp_path):
    table, folder = (
        catalog.create_table("db.t", Schema.of({"a": "INT", "s": "STRING"})),
        tmp_path / "in",
    )
    folder.mkdir()
    (folder / "a.csv").write_text('# x\na,s\n#y\n\n1,"p\\"\n"\n#\nx,p\n')
    options = {"comment": "#", "escape": "\\"}
    assert "line 8: " in _refusal(lambda: add_segment(table, folder, "csv", options=options))
    (folder / "a.csv").write_text("# x\n\n1,p\nx,p\n")
    options = {"comment": "#", "header": "false"}
    assert "line 4: " in _refusal(lambda: add_segment(table, folder, "csv", options=options))


@pytest.mark.parametrize(
    ("name", "kind", "text", "part", "mended"),
    [
        ("csv", "INT", "a,i\nx,1\nx,y,1\n", "line 3: ", 'a,i\nx,1\n"x,y",1\n'),
        ("csv", "INT", "a,i\nx,1\nx\n", "line 3: ", "a,i\nx,1\nx,2\n"),
        ("json", "INT", '{"a": "x", "i": 1.5}', "column 'i': ", '{"a": "x", "i": 1}'),
        ("json", "DATE", '{"a": "x", "i": "2024-13-01"}', "column 'i': ", '{"a": "x", "i": null}'),
    ],
)
def test_fault_is_named_with_its_place(catalog, tmp_path, name, kind, text, part, mended):
    table = catalog.create_table("db.t", Schema.of({"a": "STRING", "i": kind}))
    folder = tmp_path / "in"
    folder.mkdir()
    file = folder / f"a.{name}"
    file.write_text(text)
    for message in (
        _refusal(add_segment, table, folder, name),
        _refusal(_read_landing, folder, name, "STRING", kind),
    ):
        assert part in message
        assert "Correct the " in message
    file.write_text(mended)
    add_segment(table, folder, name)
    assert table.to_arrow()["a"][0].as_py() == "x"


@pytest.mark.parametrize(
    ("encoding", "suffix"),
    [
        ("utf-16", "csv"),
        ("utf-16-le", "json"),
        ("utf-16-be", "csv.gz"),
        ("utf-32", "json.gz"),
        ("utf-32-le", "json"),
        ("utf-32-be", "csv"),
    ],
)
def test_encoding_in_message_reads_file(catalog, tmp_path, encoding, suffix):
    schema, name = Schema.of({"a": "STRING", "i": "INT"}), suffix.partition(".")[0]
    table, file = catalog.create_table("db.t", schema), tmp_path / "in" / f"a.{suffix}"
    file.parent.mkdir()
    data = ('{"a": "ä", "i": 1}\n' if name == "json" else "a,i\nä,1\n").encode(encoding)
    file.write_bytes(gzip.compress(data) if "gz" in suffix else data)
    way_out = f"Set the option 'encoding' to {encoding}."
    with refused(FormatError, way_out, kind="format"):
        add_segment(table, file.parent, name)
    source = FileSource(folder=str(file.parent), format=name)
    with pytest.raises(FormatError, match=way_out):
        checked_schema(LocalFileIO(), [str(file)], source, schema)
    add_segment(table, file.parent, name, options={"encoding": encoding})
    assert table.to_arrow().to_pylist() == [{"a": "ä", "i": 1}]
