"""Files that Spark or Hive wrote in the Julian calendar keep the names of days, as in Spark.

Segments, landing folders, the Spark source and the command line read them alike.
"""

import datetime as dt
import io
from functools import partial

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from paimon_assets import FormatError, Schema, open_catalog
from paimon_assets.cli import output
from paimon_assets.engine.data.format.external_files import FileKind, open_external_file
from paimon_assets.engine.fileio.local import LocalFileIO
from tests.testkit import footers
from tests.testkit.effort import often
from tests.testkit.errors import refused
from tests.testkit.foreign import add_segment as add

_SPARK = {b"org.apache.spark.version": b"4.1.0"}
_LEGACY = {**_SPARK, b"org.apache.spark.legacyDateTime": b""}
_OLD = {b"org.apache.spark.version": b"2.4.8"}
_UTC = {b"org.apache.spark.timeZone": b"UTC"}
_FIRST = dt.date(1582, 10, 15)
_DAYS = st.one_of(
    st.dates(dt.date(1, 1, 1), dt.date(1600, 1, 1)),
    st.dates(dt.date(1, 1, 1), dt.date(9999, 12, 31)),
).filter(lambda day: not dt.date(1582, 10, 4) < day < _FIRST)
_JULIAN = 1
"""The calendar that Hive names in the footers of its ORC files."""
_numbers = iter(range(10**9))


def _julian(day):
    """Return a day as the Julian calendar counts it, in days since 1970."""
    if day >= _FIRST:
        return (day - dt.date(1970, 1, 1)).days
    shift = (14 - day.month) // 12
    year, month = day.year + 4800 - shift, day.month + 12 * shift - 3
    return day.day + (153 * month + 2) // 5 + 365 * year + year // 4 - 32083 - 2_440_588


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    base = tmp_path_factory.mktemp("julian")
    return lambda: base / str(next(_numbers))


def _table(folder, columns, data, file_format="parquet"):
    (folder / "in").mkdir(parents=True)
    (folder / "in" / f"a.{file_format}").write_bytes(data)
    catalog = open_catalog(str(folder / "w"))
    catalog.create_database("db")
    table = catalog.create_table("db.t", Schema.of(columns))
    add(table, folder / "in", file_format)
    return table


def _parquet(columns, keys):
    sink = io.BytesIO()
    rows = pa.table(columns)
    with pq.ParquetWriter(sink, rows.schema, store_schema=False) as writer:
        writer.write_table(rows)
        writer.add_key_value_metadata({key.decode(): text.decode() for key, text in keys.items()})
    return sink.getvalue()


def _orc(columns, keys, calendar=None):
    sink = io.BytesIO()
    rows = columns if isinstance(columns, pa.Table) else pa.table(columns)
    orc.write_table(rows, sink, compression="uncompressed")
    data = sink.getvalue()
    return footers.change_orc_statistics(data, lambda _, message: message, keys, calendar)


def _read_landed(folder, file_format):
    """Return the rows as landing folders, the Spark source and the command line get them."""
    (path,) = (folder / "in").iterdir()
    with open_external_file(LocalFileIO(), str(path), FileKind(format=file_format)) as opened:
        landed = pa.Table.from_batches(opened.batches, opened.schema)
    assert output.read_files([str(path)], None).read_all().equals(landed)
    return landed


def _dates(days):
    stored = pa.array([None if day is None else _julian(day) for day in days], pa.int32())
    return {"d": stored.view(pa.date32()), "l": pa.ListArray.from_arrays(
        pa.array(range(len(days) + 1), pa.int32()), stored.view(pa.date32()))}  # fmt: skip


@pytest.mark.parametrize("keys", [_LEGACY, _OLD, None, _JULIAN], ids=["legacy", "2", "orc", "hive"])
@settings(max_examples=often(8), phases=(Phase.explicit, Phase.generate))
@given(st.lists(st.one_of(st.none(), _DAYS), min_size=1, max_size=8))
@example(
    [dt.date(1, 1, 1), dt.date(1582, 10, 4), _FIRST, dt.date(1500, 3, 1), dt.date(1200, 2, 29)]
)
def test_julian_dates_keep_names(folders, keys, days):
    if keys is None or keys is _JULIAN:
        file_format, data = "orc", _orc(_dates(days), _SPARK if keys is None else None, keys)
    else:
        file_format, data = "parquet", _parquet(_dates(days), keys)
    folder = folders()
    table = _table(folder, {"d": "DATE", "l": "ARRAY<DATE>"}, data, file_format)
    for rows in (table.to_arrow(), _read_landed(folder, file_format)):
        assert rows.column("d").to_pylist() == days
        assert rows.column("l").to_pylist() == [[day] for day in days]
    for day in {day for day in days if day is not None}:
        assert table.count(f"d = DATE '{day}'") == days.count(day)
        assert table.count(f"d < DATE '{day}'") == sum(it is not None and it < day for it in days)


@settings(max_examples=often(8), phases=(Phase.generate,))
@given(st.lists(_DAYS, min_size=1, max_size=8))
def test_julian_utc_instants_and_local_times_keep_names(folders, days):
    stored = pa.array([_julian(day) * 86_400_000_000 + 5 for day in days], pa.int64())
    data = _parquet(
        {"z": stored.cast(pa.timestamp("us", "UTC")), "n": stored.cast(pa.timestamp("us"))},
        {**_LEGACY, **_UTC},
    )
    folder = folders()
    table = _table(folder, {"z": "TIMESTAMP_LTZ(6)", "n": "TIMESTAMP(6)"}, data)
    expected = [dt.datetime.combine(day, dt.time(0, 0, 0, 5), dt.UTC) for day in days]
    for rows in (table.to_arrow(), _read_landed(folder, "parquet")):
        assert rows.column("z").to_pylist() == expected
        assert rows.column("n").cast(pa.int64()).to_pylist() == stored.to_pylist()
    assert table.count(f"z >= TIMESTAMP '{days[0]} 00:00:00'") >= 1


@pytest.mark.parametrize("keys", [_LEGACY, {**_OLD, b"org.apache.spark.timeZone": b"Asia/Tokyo"}])
def test_instants_of_other_zones_before_1900_are_refused(folders, keys):
    times = [dt.datetime(1899, 12, 31, tzinfo=dt.UTC), dt.datetime(2020, 1, 1, tzinfo=dt.UTC)]
    values = pa.array(times, pa.timestamp("us", "UTC"))
    folder, data = folders(), _parquet({"z": values, "i": pa.array([1, 2])}, keys)
    table = _table(folder, {"z": "TIMESTAMP_LTZ(6)"}, data)
    for read in (table.to_arrow, lambda: _read_landed(folder, "parquet")):
        with refused(FormatError, "'z' .* before 1900 .*= CORRECTED", kind="timestamp-calendar"):
            read()
    without = _table(folders(), {"i": "BIGINT"}, data)  # a way out of the message
    assert without.to_arrow().column("i").to_pylist() == [1, 2]
    newer = _table(folders(), {"z": "TIMESTAMP_LTZ(6)"}, _parquet({"z": values[1:]}, keys))
    assert newer.to_arrow().column("z").to_pylist() == times[1:]


@pytest.mark.way_out("int96-calendar")
def test_old_int96_times_are_refused_by_import_and_ingestion(folders):
    """Which calendar they are of is unknown, or 64 bits of nanoseconds do not hold them."""
    sink, times = io.BytesIO(), pa.array([dt.datetime(1000, 1, 1)], pa.timestamp("us"))
    rows = pa.table({"t": times, "i": [1]})
    pq.write_table(rows, sink, use_deprecated_int96_timestamps=True, store_schema=False)
    folder = folders()
    imported = partial(_table, folder, {"t": "TIMESTAMP(6)"}, sink.getvalue())
    with refused(FormatError, "'t' .* 1582-10-15.* Leave the column", kind="int96-calendar"):
        imported()
    assert _table(folders(), {"i": "BIGINT"}, sink.getvalue()).count() == 1
    with refused(FormatError, "'t' .* outside the years 1678 to 2261", kind="timestamp-range"):
        _read_landed(folder, "parquet")


@pytest.mark.parametrize("key", ["paimon.id", "iceberg.id"])
def test_dates_in_own_orc_files_are_unchanged(folders, key):
    """Java's writer names the Julian calendar in them, although days are counted as ours."""
    days = pa.array([-719_162, 0], pa.int32()).view(pa.date32())
    rows = pa.table([days], schema=pa.schema([pa.field("d", pa.date32(), metadata={key: "1"})]))
    folder = folders()
    table = _table(folder, {"d": "DATE"}, _orc(rows, None, _JULIAN), "orc")
    for found in (table.to_arrow(), _read_landed(folder, "orc")):
        assert found.column("d").combine_chunks().equals(days)


def test_gregorian_dates_are_unchanged(folders):
    days = pa.array([-719_162, -200_000, 0], pa.int32()).view(pa.date32())
    for keys in (_SPARK, {}):
        table = _table(folders(), {"d": "DATE"}, _parquet({"d": days}, keys))
        assert table.to_arrow().column("d").combine_chunks().equals(days)
