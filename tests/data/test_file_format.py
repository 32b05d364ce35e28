"""A format of data files is one value: a new one takes its module and a line in `FORMATS`.

Here a dynamic option names it: `PAIMON_FORMATS` lists the formats that a table may name.
"""

import pyarrow as pa
import pytest

from paimon_assets.engine.data.format import base
from paimon_assets.engine.data.format.formats import FORMATS, format_of, open_reader, open_writer
from paimon_assets.engine.errors import InvalidInputError, UnsupportedFeatureError
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.segments.segment import PAIMON_FORMATS, TEXT_FORMATS
from tests.testkit.tables import new_table, write

FILE_IO = LocalFileIO()
ROWS = pa.table({"id": pa.array([1, 2], pa.int32()), "v": ["a", None]})


class ArrowReader(base.FormatReader):
    """One open file of Arrow's own format."""

    title = "Arrow"

    def _columns(self, file: base.FileToRead) -> pa.Schema:
        self._file = pa.ipc.open_file(self._source)
        return self._file.schema

    def _batches(self, names, predicate, batch_rows, batch_bytes):
        return iter(self._file.read_all().select(names).to_batches(batch_rows))

    def row_ranges(self, predicate):
        return [(0, self._file.read_all().num_rows)]


class ArrowWriter(base.FormatWriter):
    """One file of Arrow's own format being written."""

    def __init__(self, file: base.FileToWrite) -> None:
        self._sink = file.file_io.open_output(file.path)
        self._file = pa.ipc.new_file(self._sink, file.schema)

    def write(self, rows):
        self._file.write(rows)

    def close(self):
        self._file.close()
        return super().close()


ARROW = base.FileFormat(
    name="arrow", reader=ArrowReader, writer=ArrowWriter, codecs=frozenset({"none"})
)


def arrow_table(path, kind="STRING", **options):
    options = {"bucket": "1", **options}
    return new_table(path, {"id": "INT", "v": kind}, primary_keys=["id"], options=options)


def test_new_format_is_one_entry(tmp_path, monkeypatch):
    options = {"file.format": "arrow", "file.compression": "none"}
    table = arrow_table(tmp_path).copy(options)
    with pytest.raises(UnsupportedFeatureError, match=r"'file\.format' = arrow is not written"):
        write(table, ROWS)
    monkeypatch.setitem(FORMATS, "arrow", ARROW)
    for rows in (ROWS, ROWS.slice(1)):
        write(table, rows)
    assert [entry.file.file_name[-6:] for entry in table.state.live_files()] == [".arrow"] * 2
    assert table.new_read_builder().to_arrow().sort_by("id").to_pylist() == ROWS.to_pylist()


def test_new_format_holds_parquets_types_only_if_it_declares_them(tmp_path, monkeypatch):
    monkeypatch.setitem(FORMATS, "arrow", ARROW)
    table = arrow_table(tmp_path, "VARIANT").copy({"file.format": "arrow"})
    with pytest.raises(UnsupportedFeatureError, match="files of format arrow have no such type"):
        write(table, ROWS.drop_columns("v"))


def test_codec_that_new_format_does_not_name_is_refused(tmp_path, monkeypatch):
    monkeypatch.setitem(FORMATS, "arrow", ARROW)
    with pytest.raises(
        InvalidInputError, match="'zstd'; files of format arrow can have one of none"
    ):
        open_writer(FILE_IO, str(tmp_path / "x.arrow"), ROWS.schema, file_format="arrow")


def test_segments_are_of_formats_that_are_written_or_parsed():
    assert {name for name in FORMATS if format_of(name).writer} == PAIMON_FORMATS
    assert {name for name in FORMATS if format_of(name).is_text} == TEXT_FORMATS


def test_unknown_format_names_way_out(tmp_path):
    with pytest.raises(
        UnsupportedFeatureError,
        match=r"data-7\.lance' has the format 'lance', which is not read here; parquet, .*"
        r" are\. Compact the table with an engine that reads the format, after",
    ):
        open_reader(FILE_IO, str(tmp_path / "data-7.lance"), file_format="lance")


def test_unknown_changelog_format_names_its_option(tmp_path):
    options = {"changelog-producer": "input", "changelog-file.format": "lance"}
    with pytest.raises(
        UnsupportedFeatureError, match=r"'changelog-file\.format' is 'lance', which is not written"
    ):
        arrow_table(tmp_path, **options)
