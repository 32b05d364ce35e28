"""SELECTs over a warehouse, run by duckdb."""

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_assets import InvalidInputError, NotFoundError, Schema
from tests.testkit.tables import new_catalog_in

pytest.importorskip("duckdb")


@pytest.fixture
def catalog(tmp_path):
    opened = new_catalog_in(tmp_path / "w")
    orders = opened.create_table(
        "db.orders",
        Schema.of({"day": "STRING", "id": "BIGINT", "item": "INT"}, partition_keys=["day"]),
    )
    for day in ("2024-01-01", "2024-01-02"):
        rows = {"day": [day] * 2, "id": [1, 2], "item": pa.array([7, 8], pa.int32())}
        orders.new_write_builder().write(pa.table(rows))
    items = opened.create_table("db.items", Schema.of({"item": "INT", "name": "STRING"}))
    items.new_write_builder().write(
        pa.table({"item": pa.array([7, 8], pa.int32()), "name": ["seven", "eight"]})
    )
    return opened


def test_tables_are_joined_and_counted(catalog):
    query = (
        "select name, count(*) as n from db.orders join db.items using (item)"
        " where db.orders.day >= '2024-01-01' group by name order by name"
    )
    found = catalog.sql(query)
    assert found.to_arrow().to_pydict() == {"name": ["eight", "seven"], "n": [2, 2]}
    assert found.to_pandas()["n"].tolist() == [2, 2]
    assert found.to_polars()["name"].to_list() == ["eight", "seven"]
    assert pa.table(found).num_rows == 2
    twice = catalog.sql("select a.id from orders a join orders b using (id, day)", database="db")
    assert twice.to_arrow().num_rows == 4


def test_filters_and_columns_reach_scan(catalog):
    table = catalog.get_table("db.orders")
    for entry in table.state.live_files():
        if table.state.partition_text(entry.partition) == {"day": "2024-01-02"}:
            Path(table.state.file_path(entry)).unlink()
    few = "select sum(id) as s from db.orders where day < '2024-01-02'"
    assert catalog.sql(few).to_arrow()["s"].to_pylist() == [3]
    with pytest.raises(NotFoundError, match="data-"):
        catalog.sql("select sum(id) from db.orders").to_arrow()


def test_time_travel_and_system_tables_are_read(catalog):
    table = catalog.get_table("db.orders")
    table.tags.create("first", 1)
    count = "select count(*) as n from db.orders {} o"

    def count_at(target):
        return catalog.sql(count.format(target)).to_arrow()["n"].to_pylist()

    assert count_at("version as of 1") == [2]
    assert count_at("for version as of 'first'") == [2]
    later = dt.datetime.now(dt.UTC) + dt.timedelta(days=1)
    assert count_at(f"timestamp as of '{later:%Y-%m-%d %H:%M:%S}'") == [4]
    with pytest.raises(NotFoundError, match="no snapshot at or before"):
        count_at("timestamp as of timestamp '1999-01-01'")
    with pytest.raises(InvalidInputError, match="is no time"):
        count_at("timestamp as of now()")
    both = (
        "select a.n - b.n as new from (select count(*) n from db.orders) a, "
        "(select count(*) n from db.orders version as of 1) b"
    )
    assert catalog.sql(both).to_arrow()["new"].to_pylist() == [2]
    snapshots = 'select snapshot_id from db."orders$snapshots" where snapshot_id > 1'
    assert catalog.sql(snapshots).to_arrow()["snapshot_id"].to_pylist() == [2]
    named = catalog.sql("select table_name from sys.tables order by 1").to_arrow()
    assert named.num_rows == 2


@pytest.mark.parametrize(
    ("query", "error", "message"),
    [
        ("select * from db.nothing", NotFoundError, "db.nothing"),
        ("select nothing from db.orders", InvalidInputError, "nothing"),
        ("select from from", InvalidInputError, "Cannot parse"),
        ("drop table db.orders", InvalidInputError, "is no query"),
        ("select * from a.b.c", InvalidInputError, "is not database.table"),
        ("select * from catalog", InvalidInputError, "catalog"),
    ],
    ids=range(6),
)
def test_faults_are_named(catalog, query, error, message):
    with pytest.raises(error, match=message):
        catalog.sql(query).to_arrow()


@pytest.mark.parametrize("source", ["read_text('{file}')", "'{file}'", "glob('{file}')"])
def test_untrusted_query_reads_no_files(catalog, tmp_path, source):
    file = tmp_path / "secret.csv"
    file.write_text("a\n1\n")
    query = f"SELECT count(*) AS n FROM {source.format(file=file)}"
    assert catalog.sql(query).to_arrow().num_rows == 1
    with pytest.raises(InvalidInputError, match="disabled"):
        catalog.sql(query, external_access=False).to_arrow()
    own = catalog.sql("SELECT count(*) AS n FROM db.orders", external_access=False)
    assert own.to_arrow().num_rows == 1


def test_closed_reader_reads_no_further(catalog):
    reader = catalog.sql("select * from db.orders").to_reader()
    assert reader.read_next_batch().num_rows > 0
    reader.close()
