import datetime as dt
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import orc

from paimon_assets.engine.data.field_mapping import FieldMapping
from paimon_assets.engine.data.format.external_files import FileKind, open_external_file
from paimon_assets.engine.data.format.formats import open_writer
from paimon_assets.engine.data.format.orc import fixes_of, offsets_of
from paimon_assets.engine.errors import FormatError, InvalidInputError
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.options.all_options import Options
from paimon_assets.engine.spec.predicate import predicate as pred
from tests.testkit.foreign import add_segment
from tests.testkit.split_reads import FILE_IO, file_batches, open_file
from tests.testkit.tables import new_table, table_schema

SCHEMA = table_schema(
    {
        "i": "TINYINT",
        "s": "STRING",
        "m": "DECIMAL(10, 2)",
        "t": "TIME(3)",
        "x": "TIMESTAMP(3)",
        "l": "ARRAY<INT>",
    }
)
STORED = pa.table(
    {
        "i": pa.array([1, None, 3], pa.int8()),
        "s": pa.array(["a", "b", None]),
        "m": pa.array([Decimal("1.50"), None, Decimal("-2.00")], pa.decimal128(10, 2)),
        "t": pa.array([3_600_000, None, 1], pa.int32()),
        "x": pa.array([1_000_000, None, 2_000_000], pa.timestamp("ns")),
        "l": pa.array([[1, None], None, []], pa.list_(pa.int32())),
    }
)


@pytest.fixture
def path(tmp_path):
    orc.write_table(STORED, tmp_path / "data-1.orc")
    return str(tmp_path / "data-1.orc")


def test_orc_columns_have_table_types(path):
    mapping = FieldMapping.of(SCHEMA.fields, (), SCHEMA, path)
    with open_file(path) as reader:
        mapping.check_columns(reader.schema.names)
        batches = [
            mapping.apply(batch)
            for batch in reader.batches(mapping.file_columns, predicate=None, batch_rows=2)
        ]
    assert [batch.num_rows for batch in batches] == [2, 1]
    found = pa.Table.from_batches(batches)
    assert found.schema == mapping.arrow_schema
    assert found.to_pydict() == {
        **STORED.select(["i", "s", "m", "l"]).to_pydict(),
        "t": [dt.time(1), None, dt.time(0, 0, 0, 1000)],
        "x": [
            dt.datetime.fromisoformat(f"1970-01-01T00:00:00.00{n}") if n else None
            for n in (1, 0, 2)
        ],
    }


def test_columns_are_in_requested_order(path):
    (batch,) = file_batches(path, ["s", "i"], 10)
    assert batch.equals(STORED.select(["s", "i"]).to_batches()[0])


def test_invalid_orc_is_named(tmp_path):
    broken = tmp_path / "data-2.orc"
    broken.write_bytes(b"no orc at all")
    with pytest.raises(FormatError, match=r"data-2\.orc.*ORC"):
        open_file(broken)


@pytest.mark.parametrize("name", ["id", "text", "day"])
def test_flipped_byte_adds_no_uncounted_rows(tmp_path, name):
    columns = {
        "id": pa.array([n * 7919 % 3001 for n in range(500)], pa.int64()),
        "text": pa.array([None if n % 9 == 0 else f"text {n * 7 % 500:03}" for n in range(500)]),
        "day": pa.array([n * 31 % 700 for n in range(500)], pa.int32()).cast(pa.date32()),
    }
    table = pa.table({name: columns[name]})
    path = tmp_path / "x.orc"
    orc.write_table(table, path, compression="uncompressed")
    whole, refused = path.read_bytes(), 0
    truth = pc.min_max(table[name])
    for at in range(3, len(whole) // 2, 7):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1 :])
        try:
            with open_file(path) as reader:
                found = pa.Table.from_batches(
                    reader.batches([name], predicate=None, batch_rows=1000)
                )
        except FormatError:
            refused += 1
            continue
        bounds = pc.min_max(found[name])
        assert found[name].null_count == table[name].null_count
        assert bounds["min"].as_py() >= truth["min"].as_py()
        assert bounds["max"].as_py() <= truth["max"].as_py()
    assert refused


def write_patched(tmp_path, table, **changes):
    """Write a file by pyarrow, and change bytes of it that Java would have written otherwise."""
    path = tmp_path / "data-3.orc"
    orc.write_table(table, path, compression="uncompressed")
    content = path.read_bytes()
    for before, after in changes.values():
        assert content.count(before) == 1
        assert len(before) == len(after)
        content = content.replace(before, after)
    path.write_bytes(content)
    return str(path)


def read(path, *columns):
    with open_file(path) as reader:
        return pa.Table.from_batches(
            reader.batches(columns or reader.schema.names, predicate=None, batch_rows=10)
        )


STRING_AS_CHAR = (b"\x08\x07", b"\x08\x11")


def test_char_padding_is_removed(tmp_path):
    table = pa.table({"i": [1, 2, 3], "c": ["ab   ", None, " x  "]})
    found = read(write_patched(tmp_path, table, kind=STRING_AS_CHAR))
    assert found.to_pydict() == {"i": [1, 2, 3], "c": ["ab", None, " x"]}


@pytest.mark.parametrize("kind", ["STRING", "VARCHAR(5)", "CHAR(5)"])
def test_padded_bounds_of_char_hide_no_row(tmp_path, kind):
    """Files of one folder hold CHAR(5) and STRING; the values of CHAR have no blanks at the end."""
    texts = ["", "ab", " x", "ab\x01", "z", "ab   ", None]
    for number, text in enumerate(texts):
        for name, patches, stored in (
            ("char", {"kind": STRING_AS_CHAR}, text and text.ljust(5)),
            ("string", {}, text),
        ):
            folder = tmp_path / f"{name}{number}"
            folder.mkdir()
            rows = pa.table({"i": [number], "c": pa.array([stored], pa.string())})
            written = Path(write_patched(folder, rows, **patches))
            (tmp_path / "in").mkdir(exist_ok=True)
            written.rename(tmp_path / "in" / f"{name}{number}.orc")
    table = new_table(tmp_path, {"i": "BIGINT", "c": kind})
    add_segment(table, tmp_path / "in", "orc")
    rows = table.to_arrow()["c"].to_pylist()
    cut = [text and text.rstrip() for text in texts]
    assert sorted(map(str, rows)) == sorted(map(str, cut + (cut if kind == "CHAR(5)" else texts)))
    for literal in ("", "ab", " x", "ab\x01", "z", "ab   "):
        for op in pred.CompareOp:
            passing = sum(text is not None and op.compare(text, literal) for text in rows)
            assert table.count(pred.Comparison("c", op, literal)) == passing, (op, literal)
    with open_external_file(LocalFileIO(), str(tmp_path / "in" / "char1.orc"),
                            FileKind(format="orc")) as opened:  # fmt: skip
        assert pa.Table.from_batches(opened.batches)["c"].to_pylist() == ["ab"]


def test_nested_char_padding_is_removed(tmp_path):
    rows = [[{"c": "ab  "}], None, [], [{"c": None}, None, {"c": "x "}]]
    table = pa.table({"l": pa.array(rows, pa.list_(pa.struct({"c": pa.string()}))), "i": [1] * 4})
    found = read(write_patched(tmp_path, table, kind=STRING_AS_CHAR), "i", "l")
    assert found.column("l").to_pylist() == [
        [{"c": "ab"}], None, [], [{"c": None}, None, {"c": "x"}],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("zone", "stored", "right"),
    [
        # By the clock of the writer it was before 1970: Java cut toward zero, and takes one off.
        ("CET", 1801.5, 1800.5),
        ("CET", 1801.000999, 1801.000999),
        ("CET", 3600.5, 3600.5),
        # It was after 1970 there, so nothing was cut.
        ("EST", -3600.5, -3599.5),
        ("EST", -86400.5, -86400.5),
        ("GMT", 1801.5, 1801.5),
        ("GMT", -1801.5, -1801.5),
    ],
)
def test_fraction_near_1970_follows_writer_zone(tmp_path, zone, stored, right):
    values = pa.array([None, round(stored * 10**6) * 1000], pa.timestamp("ns"))
    path = write_patched(tmp_path, pa.table({"t": values}), zone=(b"GMT", zone.encode()))
    (nothing, found) = read(path).column("t").cast(pa.int64()).to_pylist()
    assert nothing is None
    assert found == round(right * 10**6) * 1000


@pytest.mark.parametrize(
    ("options", "hours"),
    [(None, 0), ({}, 1), ({"orc.timestamp-ltz.legacy.type": "false"}, 0)],
    ids=["of others", "legacy", "new"],
)
def test_instants_are_corrected_by_writer_zone(tmp_path, options, hours):
    winter, summer, ancient = (dt.datetime(year, month, 1, tzinfo=dt.UTC) for year, month in
                               ((2024, 1), (2050, 7), (1900, 1)))  # fmt: skip
    stored = [winter, None, ancient, summer]
    table = pa.table({"z": pa.array(stored, pa.timestamp("ns", "UTC"))})
    path = write_patched(tmp_path, table, zone=(b"GMT", b"CET"))
    settings = None if options is None else Options(options)
    [batch] = file_batches(path, ["z"], 9, options=settings)
    moved = dt.timedelta(hours=hours)
    right = [winter + moved, None, ancient + moved, summer + 2 * moved]
    assert batch.column(0).cast(pa.timestamp("us", "UTC")).to_pylist() == right


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Australia/Sydney", "Asia/Tokyo"])
def test_offsets_are_those_of_zone_in_any_year(zone):
    starts = [dt.datetime(year, 1, 1, tzinfo=dt.UTC) for year in range(1900, 9900, 37)]
    times = [start + dt.timedelta(days=n) for start in starts for n in range(0, 365, 7)]
    seconds = np.array([round(each.timestamp()) for each in times])
    expected = [each.astimezone(ZoneInfo(zone)).utcoffset().total_seconds() for each in times]
    assert offsets_of(seconds, zone, "").tolist() == expected


LAST = dt.datetime(9999, 12, 31, 23, 59, 59, 999999)


def test_timestamps_of_every_year_are_read_in_requested_order(tmp_path):
    path = tmp_path / "wide.orc"
    held = pa.table(
        {
            "i": pa.array([1, 2, 3], pa.int32()),
            "t": pa.array([LAST, None, dt.datetime(1970, 1, 1)], pa.timestamp("us")),
            "z": pa.array([None, LAST.replace(microsecond=0), None], pa.timestamp("us", "UTC")),
        }
    )
    orc.write_table(held, path)
    for names in (["t"], ["z", "i", "t"], ["i"], []):
        [batch] = file_batches(path, names, 9)
        assert batch.num_rows == 3
        assert batch.to_pydict() == held.select(names).to_pydict()


def test_timestamps_beyond_nanoseconds_inside_column_are_named(tmp_path):
    path = tmp_path / "nested.orc"
    orc.write_table(
        pa.table({"i": [1], "r": pa.array([[LAST]], pa.list_(pa.timestamp("us")))}), path
    )
    with open_file(path) as reader:
        [batch] = reader.batches(["i"], predicate=None, batch_rows=9)
        assert batch.to_pydict() == {"i": [1]}
        with pytest.raises(FormatError, match="columns i, r") as raised:
            list(reader.batches(["i", "r"], predicate=None, batch_rows=9))
    assert raised.value.kind == "orc-timestamp"


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
@pytest.mark.parametrize("zone", [None, "UTC"])
def test_orc_files_hold_timestamps_of_every_year(tmp_path, unit, zone):
    """Days before October 1582 are not those of Java's files, which have another calendar."""
    path = str(tmp_path / "data-0.orc")
    seconds = [-62_135_596_800, -12_219_292_801, -9_223_372_037, -1, 0, 253_402_300_799, None]
    per_second = {"s": 1, "ms": 1_000, "us": 1_000_000}[unit]
    values = [None if each is None else each * per_second for each in seconds]
    values += [-62_135_596_800 * per_second + per_second - per_second // 1000]
    rows = pa.table({"t": pa.array(values, pa.timestamp(unit, zone))})
    writer = open_writer(FILE_IO, path, rows.schema, file_format="orc")
    writer.write(rows)
    writer.close()
    with open_file(path) as reader:
        (batch,) = reader.batches(["t"], predicate=None, batch_rows=99)
        (counted,) = reader.batches([], predicate=None, batch_rows=99)
    assert counted.num_rows == len(values)
    assert (
        batch.column(0)
        .cast(pa.timestamp("us", zone))
        .equals(rows.column(0).cast(pa.timestamp("us", zone)).combine_chunks())
    )


def test_orc_refuses_timestamp_outside_years(tmp_path):
    rows = pa.table({"x": pa.array([2**62], pa.timestamp("s"))})
    writer = open_writer(FILE_IO, str(tmp_path / "x.orc"), rows.schema, file_format="orc")
    with pytest.raises(InvalidInputError, match=r"'x'.*of no year"):
        writer.write(rows)
    writer.abort()


@pytest.mark.parametrize(
    ("zone", "written", "shown"),
    [  # by Java → as Arrow's reader gives it; measured
        ("Asia/Kolkata", "1881-02-11T17:33:53", "1881-02-11T17:25:03"),
        ("Asia/Kolkata", "1690-01-01T00:00:00", "1690-01-01T00:23:20"),
        ("Asia/Shanghai", "1900-01-18T16:18:33", "1900-01-18T16:12:50"),
        ("Europe/Moscow", "1690-01-01T00:00:00", "1689-12-31T23:30:17"),
        ("Asia/Kolkata", "1950-01-01T00:00:00", "1950-01-01T00:00:00"),
    ],
)
def test_old_zoned_timestamps_equal_java(zone, written, shown):
    fix = fixes_of(zone, is_legacy=False, path="f.orc")[9]
    wanted = pa.array([dt.datetime.fromisoformat(written), None], pa.timestamp("ns"))
    assert fix(pa.array([dt.datetime.fromisoformat(shown), None], wanted.type)).equals(wanted)


def test_old_timestamps_that_nanoseconds_do_not_hold_are_refused():
    fix = fixes_of("Asia/Kolkata", is_legacy=False, path="f.orc")[9]
    with pytest.raises(FormatError, match="outside the years 1678 to 2261") as raised:
        fix(pa.array([-(2**63) + 1], pa.int64()).cast(pa.timestamp("ns")))
    assert raised.value.kind == "orc-timestamp"
