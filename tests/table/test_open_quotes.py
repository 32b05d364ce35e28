"""CSV files with a quote that does not close: no line is lost in silence."""

import csv
import io

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_assets.engine.codec import row_files
from paimon_assets.engine.data.format import text as text_format
from paimon_assets.engine.data.format import text_streams
from paimon_assets.engine.data.format.external_files import FileKind, open_external_file
from paimon_assets.engine.errors import FormatError
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.schema.schema import Schema
from tests.testkit.errors import refused
from tests.testkit.foreign import add_segment

_OPTIONS = [{}, {"escape": ""}, {"multiLine": "true"}, {"multiLine": "false"}]


def _read(path, text, options, only=None):
    path.write_bytes(text.encode(options.get("encoding", "utf-8")))
    columns, kind = (
        pa.schema({"a": pa.string(), "b": pa.string()}),
        FileKind(format="csv", options=options),
    )
    with open_external_file(LocalFileIO(), str(path), kind, columns, only=only) as opened:
        return [tuple(row.values()) for each in opened.batches for row in each.to_pylist()]


@pytest.mark.parametrize("options", _OPTIONS)
@pytest.mark.parametrize("only", [None, pa.schema({"a": pa.string()})])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('a,b\n1,"x\n2,y\n', "column 'b', line 2: "),
        ('a,b\n1,x\n\n2,"y', "column 'b', line 4: "),
        ('a,b\n1,x\n\n"2,y\n', "column 'a', line 4: "),
        ('a,b\n1,5" x\n2,"y\n3,z\n\n', "column 'b', line 3: "),
        ('a,"b\n1,2\n', "line 1: "),
        ('a,b\n1,"x' + "\n2,y" * 90_000, "line 2 or later: "),
    ],
)
def test_open_quote_is_refused_with_its_line(tmp_path, options, only, end, text, place):
    with pytest.raises(FormatError, match="a quote does not close in ") as refusal:
        _read(tmp_path / "a.csv", text.replace("\n", end), options, only)
    assert "a.csv' " in refusal.value.message
    assert place in refusal.value.message


def test_segment_with_open_quote_is_not_added(catalog, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text('a,b\n1,"x\n2,y\n')
    table = catalog.create_table("db.t", Schema.of({"a": "STRING", "b": "STRING"}))
    with refused(FormatError, "column 'b', line 2: a quote does not close", kind="format"):
        add_segment(table, tmp_path / "in", "csv")
    assert table.latest_snapshot() is None


@pytest.mark.parametrize("options", [*_OPTIONS, {"comment": "#"}, {"encoding": "utf-16"}])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_quotes_within_values_stay(tmp_path, options, end):
    text = '\na,b\n1,5" pipe\n\n2,"y""z"\n3,p"q"r"\n\n\n'.replace("\n", end)
    assert _read(tmp_path / "a.csv", text, options) == [
        ("1", '5" pipe'),
        ("2", 'y"z'),
        ("3", 'p"q"r"'),
    ]


def test_open_quotes_are_text_without_quote_option(tmp_path):
    found = _read(tmp_path / "a.csv", 'a,b\n1,"x\n2,y\n', {"quote": ""})
    assert found == [("1", '"x'), ("2", "y")]


def test_open_quote_behind_comments_and_escapes_has_its_line(tmp_path):
    text = '#"\na,b\n# x\n1,"p\\"q"\n#\n2,"y\\"\n3,z\n'
    with pytest.raises(FormatError, match="column 'b', line 6: a quote does not close"):
        _read(tmp_path / "a.csv", text, {"comment": "#", "escape": "\\"})


def test_line_end_in_quotes_is_refused_without_multi_line(tmp_path):
    text = 'a,b\nx"y,"z\n2,w"\n3,4\n'
    assert _read(tmp_path / "a.csv", text, {"multiLine": "true"}) == [('x"y', "z\n2,w"), ("3", "4")]
    with pytest.raises(FormatError, match="column 'b', line 2: a quote does not close in its line"):
        _read(tmp_path / "a.csv", text, {"multiLine": "false"})


@pytest.mark.parametrize("options", [{}, {"multiLine": "false"}])
@pytest.mark.parametrize("line", [",,", '3,"x'])
def test_empty_values_beyond_columns_are_refused_without_names(tmp_path, options, line):
    path, text = tmp_path / "a.csv", f"1,2\n,,\n{line}\n5,6\n"
    with pytest.raises(FormatError, match="line 2: CSV parse error: Expected 2 columns, got 3"):
        _read(path, text, {"header": "false", **options})


@pytest.mark.parametrize("options", _OPTIONS)
@pytest.mark.parametrize("line", ['"5', '5\n7,"'])
def test_open_quote_of_number_is_refused_without_end(tmp_path, options, line):
    with pytest.raises(FormatError, match=r"column 'b', line [23]: a quote") as refusal:
        _read(tmp_path / "a.csv", f"a,b\n1,{line}\n", options, pa.schema({"b": pa.int64()}))
    assert len(refusal.value.message) < 600


@pytest.mark.parametrize("comment", ["e", ""])
def test_line_of_open_quote_is_right_beside_any_comment(tmp_path, comment):
    with pytest.raises(FormatError, match="column 'b', line 2: a quote does not close"):
        _read(tmp_path / "a.csv", 'a,b\n1,"x\n2,y\n', {"comment": comment})


@pytest.mark.parametrize("options", [{}, {"escape": ""}])
def test_values_with_many_line_ends_are_read(tmp_path, options):
    rows = [(str(number), "x\n" * 150_000) for number in range(20)]
    lines = "".join(f'{number},"{text}"\n' for number, text in rows)
    assert _read(tmp_path / "a.csv", f"a,b\n{lines}", options) == rows


@pytest.mark.parametrize("options", [{}, {"multiLine": "false"}])
@pytest.mark.parametrize("value", ["x" * 10_000_000, f'"{"x," * 5_000_000}"'])
def test_row_beyond_block_is_not_only_named_open_quote(tmp_path, options, value):
    with pytest.raises(FormatError, match="line 2 or later: a row is longer than 4 MiB, or a quo"):
        _read(tmp_path / "a.csv", f"a,b\n1,{value}\n", options)


def test_line_of_names_may_have_line_end_beside_names_given(tmp_path):
    text = 'x,"y\nz"\n1,2\n'
    assert _read(tmp_path / "a.csv", text, {"fileHeader": "a,b"}) == [("1", "2")]


_PIECES = st.lists(
    st.sampled_from(['"', '""', ",", "\n", "\r\n", "a", '"a"', ',"', '",']), max_size=14
)


@given(_PIECES, st.booleans(), st.integers(16, 64))
def test_rows_are_those_of_csv_module_or_refused(tmp_path_factory, pieces, may_break, size):
    text = "".join(["a,b\nx,y\n", *pieces])
    rows = [*csv.reader(io.StringIO(text, newline=""))]
    closed = [*csv.reader(io.StringIO(text + "\nend", newline=""))][-1] == ["end"]
    rows = [tuple(value or None for value in row) for row in rows[1:] if row]
    is_sound = closed and {len(row) for row in rows} == {2}
    if not may_break:
        is_sound &= not any("\n" in (value or "") for row in rows for value in row)
    options = {"escape": "", "multiLine": str(may_break).lower()}
    path = tmp_path_factory.getbasetemp() / "drawn.csv"
    with pytest.MonkeyPatch.context() as patch:
        for module in (text_streams, text_format, row_files):
            patch.setattr(module, "BLOCK_BYTES", size)
        try:
            found = _read(path, text, options)
        except FormatError as error:
            found = rows if is_sound and "straddling" in error.message else None
    assert (found is not None) == is_sound
    assert found is None or [tuple(v or None for v in row) for row in found] == rows
