"""Files of other writers: statistics that are absent, or wrong, hide no row from a filter."""

import datetime as dt
import io
import itertools
from decimal import Decimal

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from paimon_assets import FormatError, InvalidInputError, Schema, open_catalog
from paimon_assets.engine.spec.predicate.predicate import CompareOp, Comparison, In, IsNull
from tests.testkit import footers
from tests.testkit.effort import often
from tests.testkit.errors import refused
from tests.testkit.foreign import add_segment as add
from tests.testkit.foreign import write
from tests.testkit.foreign_cases import avro_of
from tests.testkit.tables import new_table

_COLUMNS = {
    "n": ("INT", pa.int32(), st.integers(-3, 3)),
    "s": ("STRING", pa.string(), st.sampled_from(["", "a", "ab", "z", "é", "zé", "\U0001f600"])),
    "b": ("BYTES", pa.binary(), st.sampled_from([b"", b"\x00", b"\x7f", b"\x80", b"\xff\x01"])),
    "d": ("DECIMAL(30, 2)", pa.decimal128(30, 2), st.decimals(-150, 150, places=2)),
    "x": ("DATE", pa.date32(), st.dates(dt.date(1, 1, 1), dt.date(9999, 12, 31))),
    "f": ("DOUBLE", pa.float64(), st.sampled_from([-1.5, -0.0, 0.0, 2.0, float("inf")])),
    "l": ("BOOLEAN", pa.bool_(), st.booleans()),
}  # fmt: skip
_IMPALA = b"impala version 2.8.0 (build 1)"


@st.composite
def tables(draw, columns=tuple(_COLUMNS)):
    count = draw(st.integers(1, 6))
    return pa.table(
        {
            name: pa.array(
                [draw(st.one_of(st.none(), _COLUMNS[name][2])) for _ in range(count)],
                _COLUMNS[name][1],
            )
            for name in columns
        }
    )


def _parquet(table, **options):
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def _orc(table, **options):
    sink = io.BytesIO()
    orc.write_table(table, sink, **options)
    return sink.getvalue()


def _filters(name, values):
    """Yield (a filter, which values pass it)."""
    yield IsNull(name), lambda value: value is None
    yield IsNull(name, negated=True), lambda value: value is not None
    for literal in [*dict.fromkeys(value for value in values if value is not None)][:2]:
        if isinstance(literal, float) and literal == 0:  # Java's order has two of them
            continue
        yield In(name, (literal,)), lambda value, it=literal: value == it
        for op in CompareOp:
            if not (isinstance(literal, bytes) and op not in "=<>"):
                yield (
                    Comparison(name, op, literal),
                    lambda value, c=op.compare, it=literal: value is not None and c(value, it),
                )


def check_filters(folder, table, data, file_format="parquet"):
    """Add a file to a table, and compare each filter with the rows of the whole table."""
    (folder / "in").mkdir(parents=True)
    (folder / "in" / f"a.{file_format}").write_bytes(data)
    catalog = open_catalog(str(folder / "w"))
    paimon = new_table(catalog, {name: _COLUMNS[name][0] for name in table.column_names})
    add(paimon, folder / "in", file_format)
    whole = paimon.to_arrow()
    assert whole.num_rows == table.num_rows
    tried = 0
    for name in table.column_names:
        values = whole.column(name).to_pylist()
        assert values == table.column(name).to_pylist()
        for where, passes in _filters(name, table.column(name).to_pylist()):
            assert paimon.count(where) == sum(map(passes, values)), where
            tried += 1
    return tried


_numbers = itertools.count()


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    base = tmp_path_factory.mktemp("foreign")
    return lambda: base / str(next(_numbers))


_WRITERS = {
    "pyarrow 1.0": ("parquet", lambda table, _: _parquet(table, version="1.0")),
    "pyarrow 2.4": ("parquet", lambda table, _: _parquet(table, version="2.4", row_group_size=2)),
    "pyarrow 2.6": ("parquet", lambda table, _: _parquet(table, store_decimal_as_integer=True)),
    "no statistics": ("parquet", lambda table, _: _parquet(table, write_statistics=False)),
    "pyarrow of one column": ("parquet", lambda table, _: _parquet(table, write_statistics=["n"])),
    "orc": ("orc", lambda table, _: _orc(table)),
    "orc snappy": ("orc", lambda table, _: _orc(table, compression="snappy")),
}  # fmt: skip


@pytest.mark.parametrize("writer", [*_WRITERS, "duckdb", "polars"])
@settings(phases=(Phase.generate,), max_examples=often(4))
@given(data=st.data())
def test_filters_equal_filtered_whole_read(folders, writer, data):
    names = [name for name in _COLUMNS if not (writer == "duckdb" and name == "x")]
    table, folder = data.draw(tables(names)), folders()
    folder.mkdir()
    if writer == "duckdb":
        duckdb.from_arrow(table).write_parquet(str(folder / "file"))
        file_format, written = "parquet", (folder / "file").read_bytes()
    elif writer == "polars":
        pl.from_arrow(table).write_parquet(folder / "file")
        file_format, written = "parquet", (folder / "file").read_bytes()
    else:
        file_format, write = _WRITERS[writer]
        written = write(table, folder)
    assert check_filters(folder / "t", table, written, file_format)


def test_bounds_of_json_are_texts(tmp_path):
    (tmp_path / "in").mkdir()
    texts = ['{"a":1}', None, "[]"]
    frame = pa.table({"s": texts})
    duckdb.from_arrow(frame).project("s::json s").write_parquet(str(tmp_path / "in" / "a.parquet"))
    table = new_table(open_catalog(str(tmp_path / "w")), {"s": "STRING"})
    add(table, tmp_path / "in")
    for where, passes in _filters("s", texts):
        assert table.count(where) == sum(map(passes, texts)), where
    assert not table.new_read_builder().with_filter("s > 'é'").plan().splits


def _signed_bytes(data):
    return [byte - 256 * (byte > 127) for byte in data]


@settings(phases=(Phase.generate,), max_examples=often(6))
@given(table=tables(["s", "b", "d", "n"]))
def test_bounds_that_compare_bytes_as_signed_prune_nothing(folders, table):
    """As Impala, Hive and old parquet-mr wrote them: in the old fields, and without orders."""

    def change(footer):
        footer.pop(7, None)
        footer[6] = (footers.BINARY, _IMPALA)
        for name, groups in footers.parquet_statistics(footer).items():
            for statistics in groups:
                low, high = statistics.pop(6, None), statistics.pop(5, None)
                if name != "n" and low is not None:
                    values = [low[1], high[1]]
                    if name in "sb":
                        stored = [
                            each for each in table.column(name).to_pylist() if each is not None
                        ]
                        values = [each.encode() if name == "s" else each for each in stored]
                    statistics[2] = (footers.BINARY, min(values, key=_signed_bytes))
                    statistics[1] = (footers.BINARY, max(values, key=_signed_bytes))

    data = footers.change_parquet_footer(_parquet(table), change)
    assert pq.read_metadata(io.BytesIO(data)).created_by == _IMPALA.decode()
    assert check_filters(folders(), table, data)


@pytest.mark.parametrize(
    ("created_by", "columns"),
    [
        ("parquet-rs version 4.4.0", "sbd"),
        ("Polars", "sbd"),
        ("Arrow2 - Native Rust implementation of Arrow", "sbd"),
        ("parquet-cpp version 1.5.1-SNAPSHOT", "d"),
        ("parquet-cpp-arrow version 3.0.0", "d"),
        ("", "sbd"),
    ],
)
@settings(phases=(Phase.generate,), max_examples=often(3))
@given(table=tables(["s", "b", "d"]))
def test_bounds_of_known_wrong_writers_prune_nothing(folders, created_by, columns, table):
    def change(footer):
        footer[6] = (footers.BINARY, created_by.encode())
        for name, groups in footers.parquet_statistics(footer).items():
            for statistics in groups:
                if name in columns and 5 in statistics:  # both are the largest or the smallest
                    statistics[5] = statistics[6]

    data = footers.change_parquet_footer(_parquet(table), change)
    assert check_filters(folders(), table, data)


def test_bounds_of_newer_versions_still_prune(tmp_path):
    table = pa.table(
        {"s": ["a", "b"], "d": pa.array([Decimal(1), Decimal(2)], pa.decimal128(30, 2))}
    )
    for number, writer in enumerate(
        ["parquet-rs version 5.2.0", "parquet-cpp-arrow version 4.0.0"]
    ):

        def change(footer, name=writer):
            footer[6] = (footers.BINARY, name.encode())

        data = footers.change_parquet_footer(_parquet(table), change)
        folder = tmp_path / str(number)
        check_filters(folder, table, data)
        paimon = open_catalog(str(folder / "w")).get_table("db.t")
        for where in ("s > 'b'", "d > 2"):
            assert not paimon.new_read_builder().with_filter(where).plan().splits, where


_ORC_EDITS = {
    "empty": lambda _: {},
    "only a count of 0": lambda _: {1: 0},
    "only no null": lambda _: {10: 0},
    "both": lambda _: {1: 0, 10: 0},
    # Of booleans there are no bounds, which a count of no values contradicts.
    "no values": lambda message: message if 5 in message else {**message, 1: 0, 10: 1},
    "empty text": lambda message: (
        {**message, 4: bytes([10, 0, 18, 0])} if 4 in message else message
    ),
}


@pytest.mark.parametrize("edit", _ORC_EDITS.values(), ids=_ORC_EDITS)
@settings(phases=(Phase.generate,), max_examples=often(4))
@given(table=tables([name for name in _COLUMNS if name != "b"]))
def test_orc_statistics_that_lack_or_contradict_prune_nothing(folders, edit, table):
    data = footers.change_orc_statistics(
        _orc(table, compression="uncompressed"),
        lambda number, message: edit(message) if number else message,
    )
    assert check_filters(folders(), table, data, "orc")


@pytest.mark.parametrize("statistics", [True, False])
def test_add_refuses_decimals_of_more_digits_than_declared(tmp_path, statistics):
    sink = io.BytesIO()
    rows = pa.table({"v": pa.array([1, 2**31 - 1], pa.int32())})
    pq.write_table(rows, sink, store_schema=False, write_statistics=statistics)

    def change(footer):
        column = footer[2][1][1][1]
        footer[2][1][1][1] = dict(sorted({**column, 6: (5, 10), 7: (5, 4), 8: (5, 18)}.items()))

    (tmp_path / "in").mkdir()
    data = footers.change_parquet_footer(sink.getvalue(), change)
    (tmp_path / "in" / "a.parquet").write_bytes(data)
    catalog = open_catalog(str(tmp_path / "w"))
    catalog.create_database("db")
    table = catalog.create_table("db.t", Schema.of({"v": "DECIMAL(9, 2)"}))
    with refused(FormatError, "'v' .*a.parquet.* write the file again", kind="column-type"):
        add(table, tmp_path / "in")
    other = catalog.create_table("db.u", Schema.of({"v": "DECIMAL(8, 2)"}))
    with refused(InvalidInputError, "DECIMAL.9, 2. in it", kind="segment-schema"):
        add(other, tmp_path / "in")


@pytest.mark.parametrize("name", ["parquet", "orc"])
@pytest.mark.parametrize("scale", [0, 10, 38])
def test_decimals_of_all_digits_are_added(tmp_path, name, scale):
    most = Decimal((0, (9,) * 38, -scale))
    rows = pa.table({"v": pa.array([most.copy_negate(), most, None], pa.decimal128(38, scale))})
    write(tmp_path / "in" / f"a.{name}", rows)
    table = new_table(tmp_path, {"v": f"DECIMAL(38, {scale})"})
    add(table, tmp_path / "in", name)
    assert table.to_arrow() == rows
    assert table.count(Comparison("v", CompareOp.EQ, most)) == 1


@pytest.mark.parametrize(
    ("unit", "value", "kind", "way_out"),
    [
        ("ms", 2**61, "TIMESTAMP(6)", "TIMESTAMP(3)"),
        ("ms", -(2**61), "TIMESTAMP(9)", "TIMESTAMP(3)"),
        ("us", 2**62, "TIMESTAMP(9)", "TIMESTAMP(6)"),
    ],
)
def test_add_refuses_unreadable_timestamps(tmp_path, unit, value, kind, way_out):
    times = pa.array([0, value, None], pa.timestamp(unit))
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"t": times}), tmp_path / "in" / "a.parquet")
    catalog = open_catalog(str(tmp_path / "w"))
    catalog.create_database("db")
    table = catalog.create_table("db.t", Schema.of({"t": kind}))
    with refused(FormatError, "'t' .*a.parquet.* fewer digits", kind="timestamp-range"):
        add(table, tmp_path / "in")
    assert table.latest_snapshot() is None
    other = catalog.create_table("db.u", Schema.of({"t": way_out}))
    add(other, tmp_path / "in")
    assert other.to_arrow()["t"].cast(pa.int64()).to_pylist() == [0, value, None]


_TIMES = {
    "TIME(3)": (pa.time32("ms"), "time-millis", [86_400_000, -1, 2**31 - 1]),
    "TIMESTAMP(6)": (pa.timestamp("ms"), "timestamp-millis", [2**61, -(2**61)]),
    "TIMESTAMP(9)": (pa.timestamp("us"), "timestamp-micros", [2**62, -(2**61)]),
}


@pytest.mark.parametrize("writer", ["avro", "parquet", "parquet without statistics", "nested"])
@pytest.mark.parametrize("kind", _TIMES)
def test_add_refuses_unreadable_times_without_statistics(tmp_path, kind, writer):
    arrow, logical, values = _TIMES[kind]
    stored = pa.int32() if arrow.bit_width == 32 else pa.int64()
    catalog = open_catalog(str(tmp_path / "w"))
    declared = f"ARRAY<{kind}>" if writer == "nested" else kind
    table = new_table(catalog, {"t": declared})
    for number, value in enumerate([1, *values]):
        times = pa.array([0, value, None], stored).view(arrow)
        folder = tmp_path / str(number)
        folder.mkdir()
        if writer == "avro":
            branch = {"type": "int" if stored == pa.int32() else "long", "logicalType": logical}
            (folder / "a.avro").write_bytes(avro_of(["null", branch], [0, value, None]))
        else:
            if writer == "nested":
                times = _lists(times)
            has_statistics = "without" not in writer
            pq.write_table(
                pa.table({"t": times}), folder / "a.parquet", write_statistics=has_statistics
            )
        if value == 1:
            add(table, folder, writer.partition(" ")[0].replace("nested", "parquet"))
            assert table.count() == 3
            continue
        expected = "format" if kind == "TIME(3)" else "column-type"
        if writer == "parquet":
            expected = "timestamp-range"
        way_out = "" if kind == "TIME(3)" else ".*Declare the column with fewer digits"
        with refused(FormatError, rf"olumn 't'{way_out}", kind=expected):
            add(table, folder, writer.partition(" ")[0].replace("nested", "parquet"))
    assert table.to_arrow().num_rows == 3


def _lists(values):
    return pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), values)


@pytest.mark.parametrize("unit", ["us", "ns"])
@pytest.mark.parametrize("fraction", [0, 1])
def test_times_finer_than_milliseconds_are_refused(tmp_path, unit, fraction):
    per_milli = 1000 if unit == "us" else 1_000_000
    times = [123 * per_milli, None, 86_399_999 * per_milli + fraction]
    data = pa.table({"t": pa.array(times, pa.int64()).view(pa.time64(unit))})
    (tmp_path / "in").mkdir()
    pq.write_table(data, tmp_path / "in" / "a.parquet")
    table = new_table(open_catalog(str(tmp_path / "w")), {"t": "TIME(3)"})
    if fraction:
        with refused(FormatError, "'t' .*a.parquet.*Write .* in milliseconds", kind="column-type"):
            add(table, tmp_path / "in")
        assert table.latest_snapshot() is None
        return
    add(table, tmp_path / "in")
    assert table.to_arrow()["t"].cast(pa.int32()).to_pylist() == [123, None, 86_399_999]
