"""DATE from 0000-01-01 to 9999-12-31: written, found by filters, shown; Python has no year 0."""

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.partition import date_text
from paimon_assets.engine.table.system.table_health import table_health
from tests.testkit.tables import new_catalog_in, new_table, write

_FIRST, _LAST = -719_528, 2_932_896
_DAYS = st.one_of(
    st.integers(_FIRST, _LAST), st.integers(_FIRST, _FIRST + 400), st.just(_FIRST), st.just(_LAST)
)
_KINDS = {
    "parquet": {"options": {"file.format": "parquet"}},
    "orc": {"options": {"file.format": "orc"}},
    "avro": {"options": {"file.format": "avro"}},
    "partition": {"partition_keys": ["d"]},
    "key": {"primary_keys": ["d"], "options": {"bucket": "2"}},
}


@given(st.lists(_DAYS, min_size=1, max_size=8, unique=True), st.sampled_from(sorted(_KINDS)))
@example([_FIRST, _LAST], "partition")
def test_days_round_trip(tmp_path_factory, days, kind):
    catalog = new_catalog_in(tmp_path_factory.mktemp("w"))
    column = "DATE NOT NULL" if kind == "key" else "DATE"
    table = new_table(catalog, {"d": column, "v": "INT"}, **_KINDS[kind])
    rows = pa.table({"d": pa.array(days, pa.int32()).view(pa.date32())})
    write(table, rows.append_column("v", pa.array(range(len(days)), pa.int32())))
    read = catalog.get_table("db.t").new_read_builder()
    assert sorted(read.to_arrow().column("d").cast(pa.int32()).to_pylist()) == sorted(days)
    for day in days:
        found = read.with_filter(f"d = DATE '{date_text(day)}'").to_arrow()
        assert found.column("d").cast(pa.int32()).to_pylist() == [day]
    for system in ("files", "partitions", "buckets", "manifests"):
        catalog.get_system_table(f"db.t${system}").to_arrow()
    assert table_health(table.refresh().state.store).row_count == len(days)
    catalog.execute("CALL sys.compact('db.t')")
    least = read.with_filter(f"d >= DATE '{date_text(max(days))}'").to_arrow()
    assert least.column("d").cast(pa.int32()).to_pylist() == [max(days)]


@pytest.mark.parametrize("day", [_FIRST - 1, _LAST + 1])
def test_days_beyond_range_are_refused(tmp_path, day):
    table = new_table(new_catalog_in(tmp_path), {"d": "DATE"})
    with pytest.raises(InvalidInputError, match="years 0 to 9999"):
        table.append(pa.table({"d": pa.array([day], pa.int32()).view(pa.date32())}))


_FOLLOW = ["follow", "db.t", "--from", "earliest", "--once"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["read", "db.t"],
        ["read", "db.t", "--json"],
        ["files", "db.t"],
        ["partitions", "db.t"],
        _FOLLOW,
    ],
    ids=" ".join,
)
def test_commands_show_first_day(tmp_path, invoke, arguments):
    table = new_table(tmp_path / "w", {"d": "DATE", "v": "INT"}, partition_keys=["d"])
    days = pa.array([_FIRST], pa.int32()).view(pa.date32())
    table.append(pa.table({"d": days, "v": pa.array([1], pa.int32())}))
    assert "0000-01-01" in invoke(*arguments)
