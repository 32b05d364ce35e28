"""Files cut off, under odd names, or of types that no column holds: rows, or refused by name."""

import bz2
import gzip
import math
import os
import shutil
import unicodedata
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from paimon_assets import FormatError, InvalidInputError, Schema
from paimon_assets.assets.files.source_files import FileSource, checked_schema, read_files
from paimon_assets.engine.data.format.external_files import FileKind, open_external_file
from paimon_assets.engine.errors import PaimonError
from paimon_assets.engine.fileio.local import LocalFileIO
from tests.testkit.effort import often
from tests.testkit.errors import refused
from tests.testkit.foreign import AB, add_segment, rows, write

_COUNT = 60
_TEXTS = {
    "csv": "a,b\n" + "".join(f"{n},x{n * 7919 % 1000}\n" for n in range(_COUNT)),
    "json": "".join(f'{{"a": {n}, "b": "x{n * 7919 % 1000}"}}\n' for n in range(_COUNT)),
}
_UNION = Path("tests/golden/orc_union.orc").resolve()
_LZO = Path("tests/golden/orc_lzo").resolve()


def _compress(codec, data):
    if codec in ("gz", "bz2"):
        return gzip.compress(data) if codec == "gz" else bz2.compress(data)
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, {"zst": "zstd", "lz4": "lz4"}[codec]) as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


def _rows_of_landing(path, name):
    with open_external_file(LocalFileIO(), str(path), FileKind(format=name), AB) as opened:
        return sum(batch.num_rows for batch in opened.batches)


@pytest.mark.parametrize("codec", ["gz", "bz2", "zst", "lz4"])
@pytest.mark.parametrize("name", _TEXTS)
def test_truncated_compressed_files_are_refused(catalog, tmp_path, name, codec):
    draw, text = Random(f"{name} {codec}"), _TEXTS[name].encode()  # noqa: S311 - no secret
    path = tmp_path / "in" / f"1.{name}.{codec}"
    path.parent.mkdir()
    table = catalog.create_table("db.t", Schema.of({"a": "INT", "b": "STRING"}))
    middle = text.index(b"\n", 300) + 1
    members = [[text], [text[:middle], text[middle:]]]
    for number in range(often(40)):
        parts = [_compress(codec, part) for part in members[number % 2]]
        data = b"".join(parts)
        end = draw.randrange(1, len(data))
        if end == len(parts[0]):  # a file of fewer members is a whole one
            continue
        path.write_bytes(data[:end])
        with refused(FormatError, path.name, kind="source-file"):
            _rows_of_landing(path, name)
        if number % 8 == 0:
            with refused(FormatError, path.name, kind="format"):
                add_segment(table, path.parent, name)
        path.write_bytes(data)
        assert _rows_of_landing(path, name) == _COUNT
    assert table.latest_snapshot() is None
    add_segment(table, path.parent, name)
    assert table.count() == table.to_arrow().num_rows == _COUNT


_NAMES = (
    "a b", "a%20b", "a%", "a%2Fb", "a#b", "a?b", "a&b=c", "k=v", "a+b", "a;b", "a\nb", "a\tb",
    unicodedata.normalize("NFC", "é"), unicodedata.normalize("NFD", "é"), "a\\b", "a:b", "a*b",
    "a[b]", "a{b}", "a'b", 'a"b', "x" * 240, "ü" * 120, " a", "~a", "$a", "-a", "a\x01b", "a,b",
    "<a>", "\U0001f600",
)  # fmt: skip


@pytest.mark.parametrize("name", ["parquet", "orc", "avro", "csv", "json"])
def test_odd_names_are_read(catalog, tmp_path, name):
    for number, odd in enumerate(_NAMES):
        base = tmp_path / str(number)
        write(base / f"{odd}.{name}", rows((1, "x")))
        write(base / odd / f"1.{name}", rows((2, "y")))
        table = catalog.create_table(f"db.t{number}", Schema.of({"a": "INT", "b": "STRING"}))
        add_segment(table, base, name)
        assert sorted(table.to_arrow()["a"].to_pylist()) == [1, 2], odd
        assert table.count() == 2
        names = [file.name for file in FileSource(folder=str(base), format=name).list_files(
            LocalFileIO(), str(base))]  # fmt: skip
        assert names == [f"{odd}.{name}"]


def test_invalid_file_name_is_refused_until_renamed(catalog, tmp_path):
    path = write(tmp_path / "in" / "1.parquet", rows((1, "x")))
    odd = os.fsdecode(b"\xff.parquet")
    path.rename(path.parent / odd)
    table = catalog.create_table("db.t", Schema.of({"a": "INT", "b": "STRING"}))
    with refused(InvalidInputError, "is no path: .* Rename it", kind="path"):
        add_segment(table, path.parent)
    (path.parent / odd).rename(path)
    add_segment(table, path.parent)
    assert table.count() == 1


def test_skipped_files_are_listed(tmp_path):
    for name in ("1.csv", "2.CSV", "3.csv.snappy", "_4.csv", ".5.csv"):
        (tmp_path / name).write_text("a,b\n1,x\n")
    (tmp_path / "6.csv").touch()
    (tmp_path / "7.csv").mkdir()
    rest = []
    source = FileSource(folder=str(tmp_path), format="csv")
    assert [f.name for f in source.list_files(LocalFileIO(), str(tmp_path), rest)] == ["1.csv"]
    assert [file.name for file in rest] == ["2.CSV", "3.csv.snappy", "6.csv"]


def test_landing_orc_holds_timestamps_of_every_year(tmp_path):
    path, times = tmp_path / "1.orc", [-62_135_510_400_000_000, None, 0]
    data = pa.table({"t": pa.array(times, pa.timestamp("us"))})
    write(path, data)
    source = FileSource(folder=str(tmp_path), format="orc")
    found = checked_schema(LocalFileIO(), [str(path)], source, Schema.of({"t": "TIMESTAMP(6)"}))
    assert read_files(LocalFileIO(), [str(path)], source, found).read_all() == data


def test_orc_of_lzo_is_read_without_its_timestamps(catalog, tmp_path):
    """The zone of timestamps is in footers, which only pyarrow can decompress."""
    for name in ("footers", "stripes"):
        (tmp_path / name).mkdir()
        shutil.copy(_LZO / f"{name}.orc", tmp_path / name / "1.orc")
    reals = catalog.create_table("db.reals", Schema.of({"f8": "DOUBLE", "i8": "BIGINT"}))
    add_segment(reals, tmp_path / "stripes", "orc")
    assert reals.to_arrow(where="i8 IS NULL").to_pylist() == [{"f8": -math.inf, "i8": None}]
    numbers = catalog.create_table("db.numbers", Schema.of({"id": "BIGINT", "u": "STRING"}))
    add_segment(numbers, tmp_path / "footers", "orc")
    assert numbers.to_arrow()["id"].to_pylist() == [0, 1]
    times = catalog.create_table("db.times", Schema.of({"id": "BIGINT", "t": "TIMESTAMP(6)"}))
    with refused(FormatError, r"1\.orc.* zone .*'t'.* another codec", kind="orc-timestamp"):
        add_segment(times, tmp_path / "footers", "orc")


@pytest.mark.parametrize("kind", ["ARRAY<STRING>", "STRING"])
def test_orc_unions_are_refused_before_read(catalog, tmp_path, kind):
    path = tmp_path / "in" / "1.orc"
    path.parent.mkdir()
    shutil.copy(_UNION, path)
    columns = {"id": "BIGINT", "v": "STRING"}
    declared = Schema.of({**columns, "l": kind})
    table = catalog.create_table("db.t", declared)
    with refused(InvalidInputError, r"1\.orc'.*column 'l'.*union", kind="segment-schema"):
        add_segment(table, path.parent, "orc")

    def columns_of(schema, extra):
        source = FileSource(folder=str(path.parent), format="orc", extra_columns=extra)
        bad: dict[str, PaimonError] = {}
        found = checked_schema(LocalFileIO(), [str(path)], source, schema, bad.__setitem__)
        return found, bad

    for schema, extra in (
        (declared, "error"), (declared, "ignore"), (Schema.of(columns), "add"),
    ):  # fmt: skip
        found, bad = columns_of(schema, extra)
        assert found is None
        assert "1.orc' holds column 'l' as list<item: sparse_union" in bad[str(path)].message
        assert "FileSource(extra_columns='ignore')" in bad[str(path)].message
    found, bad = columns_of(Schema.of(columns), "ignore")
    assert (found.names, bad) == (["id", "v"], {})
    other = catalog.create_table("db.u", Schema.of(columns))
    add_segment(other, path.parent, "orc")
    assert other.to_arrow().to_pylist() == [{"id": 1, "v": "a"}]


def test_unfit_types_move_file_to_quarantine(tmp_path):
    declared = Schema.of({"a": "INT", "b": "STRING"})
    good = write(tmp_path / "1.parquet", rows((1, "x")))
    for number, values in enumerate((pa.array([b"x"]), pa.array([1]), pa.array([1.5]))):
        bad = write(tmp_path / f"bad{number}.parquet", rows((1, "x")).set_column(1, "b", values))
        left_out: dict[str, PaimonError] = {}
        source = FileSource(folder=str(tmp_path), format="parquet")
        paths = [str(bad), str(good)]
        schema = checked_schema(LocalFileIO(), paths, source, declared, left_out.__setitem__)
        assert list(left_out) == [str(bad)], values.type
        assert schema.names == ["a", "b"]
        assert "not as string" in left_out[str(bad)].message
