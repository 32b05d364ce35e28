"""Segments of csv, json and text, in the words of Spark's readers: `SegmentSource.options`."""

import datetime as dt
import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_assets.engine.data.format import text_streams
from paimon_assets.engine.errors import FormatError, InvalidInputError
from paimon_assets.engine.spec.evolution.schema_change import RenameColumn
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.spec.segments.text_options import TextOptions
from paimon_assets.engine.table.segments.segment_import import SegmentSource

COLUMNS = {
    "a": "INT",
    "s": "STRING",
    "d": "DATE",
    "t": "TIMESTAMP(6)",
    "n": "DECIMAL(8, 2)",
}
MOMENT = dt.datetime(2024, 2, 29, 13, 5, 7, 250_000)


def read_back(catalog, folder, text, file_format, columns=None, **options):
    """Import one file and read its rows."""
    data = text if isinstance(text, bytes) else text.encode()
    folder.mkdir()
    (folder / "1").write_bytes(data)
    table = catalog.create_table("db.t", Schema.of(columns or COLUMNS))
    table.segments().add(SegmentSource(path=str(folder), format=file_format, options=options))
    return [tuple(row.values()) for row in table.new_read_builder().to_arrow().to_pylist()]


def test_a_csv_of_another_country_without_a_header_is_read(catalog, tmp_path):
    text = (
        "# exported\n"
        "1;'ä;b';29.02.2024;29.02.2024 13:05:07,250;1234,50\n"
        "2;'two\n# lines';-;-;-\n"
        "# end\n"
    )
    found = read_back(
        catalog, tmp_path / "c", text.encode("latin-1"), "csv",
        sep=";", header="false", quote="'", comment="#", nullValue="-", encoding="ISO-8859-1",
        dateFormat="dd.MM.yyyy", timestampFormat="dd.MM.yyyy HH:mm:ss,SSS", locale="de-DE",
    )  # fmt: skip
    assert found == [
        (1, "ä;b", dt.date(2024, 2, 29), MOMENT, Decimal("1234.50")),
        (2, "two\n# lines", None, None, None),
    ]


def test_columns_of_a_csv_are_named_by_the_command(catalog, tmp_path):
    columns = {"a": "INT", "s": "STRING"}
    text = 'x\ty\nq\\"uote\t7\n'
    options = {"Delimiter": "\\t", "fileHeader": "s,a", "escape": "\\"}
    assert read_back(catalog, tmp_path / "c", text, "csv", columns, **options) == [(7, 'q"uote')]


def test_columns_of_a_csv_without_header_keep_their_places_when_the_table_changes(
    catalog, tmp_path
):
    read_back(catalog, tmp_path / "c", "1;x\n", "csv", {"a": "INT", "s": "STRING"},
              sep=";", header="false")  # fmt: skip
    catalog.get_table("db.t").alter([RenameColumn(field_names=("s",), new_name="z")])
    read = catalog.get_table("db.t").new_read_builder().with_columns(["z"]).to_arrow()
    assert read.to_pylist() == [{"z": "x"}]


def test_an_empty_csv_without_header_has_no_rows(catalog, tmp_path):
    assert read_back(catalog, tmp_path / "c", "", "csv", header="false") == []


def test_json_in_one_array_over_several_lines_is_read(catalog, tmp_path):
    rows = [
        {"a": 1, "s": 'x],{"\\', "t": "2024-02-29T13:05:07.250", "more": [{"y": [1, 2]}]},
        {"a": None, "s": "ü", "d": "20240229"},
    ]
    found = read_back(
        catalog, tmp_path / "j", json.dumps(rows, indent=2, ensure_ascii=False).encode("utf-16"),
        "json", multiLine="true", encoding="UTF-16", dateFormat="yyyyMMdd",
        timestampFormat="yyyy-MM-dd'T'HH:mm:ss.SSS",
    )  # fmt: skip
    assert found == [
        (1, 'x],{"\\', None, MOMENT, None),
        (None, "ü", dt.date(2024, 2, 29), None, None),
    ]


@pytest.mark.parametrize("name", ["csv", "json"])
def test_what_a_file_holds_under_the_name_of_its_partition_is_not_parsed(catalog, tmp_path, name):
    (tmp_path / "in" / "p=1").mkdir(parents=True)
    text = {"csv": "a,p\n7,none\n", "json": '{"a": 7, "p": {"none": []}}\n'}[name]
    (tmp_path / "in" / "p=1" / "1").write_text(text)
    schema = Schema.of({"a": "INT", "p": "INT NOT NULL"}, partition_keys=["p"])
    table = catalog.create_table("db.t", schema)
    source = SegmentSource(path=str(tmp_path / "in"), format=name, partition="p:int")
    table.segments().add(source)
    read = table.new_read_builder().with_filter("p = 1").to_arrow()
    assert read.to_pylist() == [{"a": 7, "p": 1}]


def test_text_has_its_own_line_end_and_encoding(catalog, tmp_path):
    text = "ein;zwei\r\n;drei".encode("utf-16-le")
    options = {"lineSep": ";", "encoding": "utf-16-le"}
    found = read_back(catalog, tmp_path / "t", text, "text", {"value": "STRING"}, **options)
    assert found == [("ein",), ("zwei\r\n",), ("drei",)]


def test_a_time_of_another_pattern_names_the_file(catalog, tmp_path):
    with pytest.raises(FormatError, match=r"/c/1'.*as CSV"):
        read_back(catalog, tmp_path / "c", "a,s,d,t,n\n1,x,2024-02-29,,\n", "csv",
                  dateFormat="dd.MM.yyyy")  # fmt: skip


def test_an_unknown_option_is_refused_before_a_file_is_opened(catalog, tmp_path):
    with pytest.raises(InvalidInputError, match="no option 'mergeSchema'"):
        read_back(catalog, tmp_path / "c", "a", "csv", mergeSchema="true")
    assert catalog.get_table("db.t").segments().listed() == []


def test_a_refresh_reads_files_as_the_segment_was_added(catalog, tmp_path):
    read_back(catalog, tmp_path / "c", "1;x\n", "csv", {"a": "INT", "s": "STRING"},
              sep=";", header="false")  # fmt: skip
    (tmp_path / "c" / "1").write_text("1;x\n2;y\n")
    table = catalog.get_table("db.t")
    table.segments().refresh([])
    assert table.new_read_builder().to_arrow().num_rows == 2


JSON = st.recursive(
    st.none() | st.integers(0, 9) | st.text(',{}[]"\\ a', max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=8,
)


class _Pieces:
    """A stream that gives a few bytes at a time."""

    def __init__(self, data, size):
        self._data, self._size = data, size

    def read(self, _):
        piece, self._data = self._data[: self._size], self._data[self._size :]
        return piece


@given(st.lists(st.dictionaries(st.text(max_size=3), JSON, max_size=3)), st.integers(1, 7))
def test_objects_of_an_array_are_found_wherever_blocks_end(objects, size):
    text = json.dumps(objects)
    lines = text_streams.without_array(_Pieces(text.encode(), size)).read(10**6).decode()
    assert [json.loads(line) for line in lines.splitlines() if line.strip()] == objects


@given(st.lists(st.sampled_from(["#c\n", "a\n", '"x\n#y"\n', '"",\n', '#"\n'])), st.integers(1, 7))
def test_comments_go_and_quoted_lines_stay(lines, size):
    data = "".join(lines).encode()
    left = text_streams.without_comments(_Pieces(data, size), TextOptions(comment="#")).read(9999)
    assert left.decode() == "".join(line for line in lines if not line.startswith("#"))
