"""Frames that reads return and writes take; filters of other engines reach the read."""

import datetime as dt
import operator
from decimal import Decimal
from itertools import product
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from pyarrow import acero

from paimon_assets import EmbeddedExecutor, InvalidInputError, Schema
from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema
from paimon_assets.engine.table.frames.arrow_dataset import ScanDataset
from tests.testkit.tables import new_catalog_in, new_table, write

COLUMNS = {
    "day": "STRING",
    "id": "BIGINT",
    "price": "DOUBLE",
    "cost": "DECIMAL(10, 2)",
    "at": "TIMESTAMP(6)",
    "seen": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    "born": "DATE",
    "raw": "BYTES",
    "ok": "BOOLEAN",
    "n": "ROW<x INT>",
}
ROWS = [
    {
        "day": f"2024-01-0{day}",
        "id": 10 * day + number,
        "price": [float("nan"), -0.0, None, 2.5][number],
        "cost": Decimal(f"{day}.{number}0"),
        "at": dt.datetime(2024, 1, day, number),
        "seen": dt.datetime(2024, 1, day, number, tzinfo=dt.UTC),
        "born": dt.date(2000, 1, day),
        "raw": bytes([number]),
        "ok": [True, False, None, True][number],
        "n": {"x": number} if number else None,
    }
    for day in (1, 2, 3)
    for number in range(4)
]
FILTERS = {
    "comparisons": ((pc.field("id") > 12) & (pc.field("id") <= 31), "id > 12 and id <= 31"),
    "mirrored": (pc.scalar(12) < pc.field("id"), "12 < id"),
    "or": ((pc.field("id") == 12) | (pc.field("ok") == True), "id = 12 or ok"),  # noqa: E712
    "in": (pc.field("id").isin([11, 31]), "id in (11, 31)"),
    "text": (pc.field("day") == "2024-01-02", "day = '2024-01-02'"),
    "decimal": (pc.field("cost") >= Decimal("2.20"), "cost >= 2.20"),
    "timestamp": (pc.field("at") < dt.datetime(2024, 1, 2), "\"at\" < timestamp '2024-01-02'"),
    "instant": (
        pc.field("seen") < pa.scalar(dt.datetime(2024, 1, 2), pa.timestamp("us", "UTC")),
        "seen < timestamptz '2024-01-02 00:00:00+00'",
    ),
    "date": (pc.field("born") == dt.date(2000, 1, 2), "born = date '2000-01-02'"),
    "bytes": (pc.field("raw") == b"\x01", "raw = '\\x01'::blob"),
    "boolean": (pc.field("ok"), "ok"),
    "not": (~(pc.field("id") == 11), "not id = 11"),
    "null": (pc.field("ok").is_null(), "ok is null"),
    "valid": (pc.field("price").is_valid(), "price is not null"),
    "zero": (pc.field("price") == 0.0, "price = 0"),
    "nested": (pc.field("n", "x") == 2, "n.x = 2"),
    "both sides": (pc.field("id") == pc.field("id"), "id = id"),
    "null literal": (pc.field("id") == pa.scalar(None, pa.int64()), "id = null"),
    "prefix": (pc.starts_with(pc.field("day"), "2024-01-03"), "day like '2024-01-03%'"),
    "fraction": (pc.field("id") < 12.5, "id < 12.5"),
    "fraction among integers": (pc.field("id").isin([11.0, 12.0]), "id in (11, 12.5)"),
    "day and time": (
        pc.field("born") < dt.datetime(2000, 1, 2, 5),
        "born < timestamp '2000-01-02 05:00:00'",
    ),
    "time and day": (pc.field("at") >= dt.date(2024, 1, 2), "\"at\" >= date '2024-01-02'"),
    "fine decimal": (pc.field("cost") > Decimal("2.195"), "cost > 2.195"),
    "fine time": (
        pc.field("at") > pa.scalar(1_704_153_600_000_000_001, pa.timestamp("ns")),
        "\"at\" > timestamp_ns '2024-01-02 00:00:00.000000001'",
    ),
    "mixed": ((pc.field("n", "x") == 1) & (pc.field("id") < 20), "n.x = 1 and id < 20"),
}


@pytest.fixture
def table(tmp_path):
    made = new_table(tmp_path / "w", COLUMNS, partition_keys=["day"])
    write(made, pa.Table.from_pylist(ROWS, made.new_read_builder().arrow_schema))
    return made


def lose(table, day):
    """Delete the files of a day, so that reads of them fail."""
    for entry in table.state.live_files():
        if table.state.partition_text(entry.partition) == {"day": day}:
            Path(table.state.file_path(entry)).unlink()


def ids(rows):
    return sorted(rows.to_pydict()["id"])


def test_read_returns_every_frame_library(table):
    polars, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    read = table.new_read_builder().with_filter("id < 13")
    assert read.to_pandas()["id"].tolist() == [10, 11, 12]
    assert read.to_pandas()["ok"].dtype == "boolean"
    assert read.to_polars()["id"].to_list() == [10, 11, 12]
    assert read.scan_polars().select("id").collect()["id"].to_list() == [10, 11, 12]
    assert ids(pa.table(read)) == [10, 11, 12]
    assert polars.DataFrame(read)["id"].to_list() == [10, 11, 12]
    assert sum(batch.num_rows for batch in read.to_batches()) == 3
    assert read.to_dataset().to_table(["id"]).to_pydict() == {"id": [10, 11, 12]}
    assert read.to_duckdb().filter("id > 10").fetchall()[0][1] == 11
    with duckdb.connect() as connection:
        assert read.to_duckdb(connection).count("*").fetchall() == [(3,)]


@pytest.mark.parametrize("name", FILTERS)
def test_dataset_filters_as_arrow(table, name):
    expression, _ = FILTERS[name]
    whole = table.to_arrow()
    found = table.new_read_builder().to_dataset().to_table(filter=expression)
    assert ids(found) == ids(whole.filter(expression))


@pytest.mark.parametrize("name", FILTERS)
def test_duckdb_filters_as_rows(table, name):
    duckdb = pytest.importorskip("duckdb")
    _, where = FILTERS[name]
    with duckdb.connect() as connection:
        connection.register("rows", table.to_arrow())
        connection.register("scanned", table.new_read_builder().to_dataset())
        query = "select id from {} where {} order by id"
        expected = connection.execute(query.format("rows", where)).fetchall()
        assert connection.execute(query.format("scanned", where)).fetchall() == expected


def test_filter_with_wider_values_loses_no_row(new_catalog):
    """Arrow compares 0.1 with a FLOAT as doubles, and microseconds with a TIME as microseconds."""
    columns = {"f": "FLOAT", "t": "TIME(3)", "d": "DECIMAL(20, 17)", "i": "BIGINT"}
    table = new_table(new_catalog, columns)
    one = [0.1, dt.time(0), Decimal("0.30000000000000001"), 2**53 + 1]
    fields = to_arrow_schema(table.schema.fields)
    table.append(pa.Table.from_pylist([dict(zip(columns, one, strict=True))], fields))
    read, rows = table.new_read_builder(), table.to_arrow()
    dataset = read.to_dataset()
    fine = [pa.scalar(500, pa.time64(unit)) for unit in ("us", "ns")]
    values = {"f": [0.1, 0.25], "t": [*fine, dt.time(0, 0, 0, 1000)], "d": [0.3, Decimal("0.3")]}
    found = []
    for op, (name, literals) in product(["gt", "lt", "ne", "ge", "le", "eq"], values.items()):
        for literal in literals:
            where = getattr(operator, op)(pc.field(name), literal)
            found.append(rows.filter(where).num_rows)
            assert dataset.to_table(filter=where).num_rows == found[-1], where
    among = pc.field("t").isin(pa.array([500], pa.time64("ns")))
    assert dataset.to_table(filter=among).num_rows == 0
    assert sorted(set(found)) == [0, 1]
    polars = pytest.importorskip("polars")
    assert read.scan_polars().filter(polars.col("i") == float(2**53)).collect().height == 1


def test_columns_and_filters_of_duckdb_reach_read(table):
    duckdb = pytest.importorskip("duckdb")
    seen = []
    read = table.new_read_builder()

    def scan(columns, predicate):
        seen.append((sorted(columns), predicate is not None))
        return read.narrow(columns, predicate)

    with duckdb.connect() as connection:
        connection.register("t", ScanDataset(read.arrow_schema, scan))
        connection.execute("select price from t where id = 12 and day = '2024-01-01'").fetchall()
        connection.execute("select count(*) from t").fetchall()
    assert seen[0] == (["day", "id", "price"], True)
    assert len(seen[1][0]) == 1


def test_partitions_that_filter_leaves_out_are_not_read(table):
    polars, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    lose(table, "2024-01-02")
    read = table.new_read_builder()
    assert len(read.to_dataset().to_table(filter=pc.field("day") == "2024-01-01")) == 4
    assert len(read.to_dataset().to_table(filter=pc.field("day").isin(["2024-01-03"]))) == 4
    lazy = read.scan_polars()
    assert lazy.filter(polars.col("day") == "2024-01-01").collect().height == 4
    assert lazy.filter(polars.lit("2024-01-01") >= polars.col("day")).collect().height == 4
    assert lazy.filter(polars.col("day").is_in(["2024-01-03", "2024-01-01"])).collect().height == 8
    with duckdb.connect() as connection:
        few = read.to_duckdb(connection).filter("day <> '2024-01-02' and price is null")
        assert len(few.fetchall()) == 2
        with pytest.raises(duckdb.Error, match=r"data-.*\.parquet"):
            read.to_duckdb(connection).fetchall()


@pytest.mark.parametrize(
    "make",
    [
        lambda col: col("id") > 12,
        lambda col: (col("id") > 12) & (col("ok")),
        lambda col: (col("id") == 12) | (col("price") == 0.0),
        lambda col: col("price") > 1.0,
        lambda col: col("price").is_null() | col("ok").is_not_null(),
        lambda col: col("born") == dt.date(2000, 1, 2),
        lambda col: col("at") >= dt.datetime(2024, 1, 2),
        lambda col: col("seen") >= dt.datetime(2024, 1, 2, tzinfo=dt.UTC),
        lambda col: col("cost") == Decimal("2.20"),
        lambda col: col("n").struct.field("x") == 2,
        lambda col: col("id").is_in([11, 31]) & ~col("ok"),
        lambda col: col("id") == col("id"),
    ],
    ids=range(12),
)
def test_polars_filter_of_scan_equals_filter_of_frame(table, make):
    polars = pytest.importorskip("polars")
    read = table.new_read_builder()
    expected = read.to_polars().filter(make(polars.col))["id"].to_list()
    assert sorted(read.scan_polars().filter(make(polars.col)).collect()["id"]) == sorted(expected)


def test_pyarrow_filter_is_applied_or_refused(table):
    read = table.new_read_builder().with_columns(["id"])
    assert ids(read.with_filter((pc.field("id") > 12) & pc.field("ok")).to_arrow()) == [
        13, 20, 23, 30, 33
    ]  # fmt: skip
    with pytest.raises(InvalidInputError, match="is no filter"):
        read.with_filter(pc.field("n", "x") == 2)
    with pytest.raises(InvalidInputError, match="is no filter"):
        read.with_filter((pc.field("id") > 12) & (pc.field("n", "x") == 2))


def test_limit_reads_no_more_files_than_it_needs(table):
    lose(table, "2024-01-03")
    read = table.new_read_builder().with_limit(6)
    assert len(read.plan().splits) == 2
    assert read.to_arrow().num_rows == 6
    assert read.count() == 6
    assert read.with_limit(0).to_arrow().num_rows == 0
    assert table.new_read_builder().with_limit(100).count() == 12
    # rows are limited first, whatever the query filters
    assert len(read.to_dataset().to_table(filter=pc.field("day") == "2024-01-02")) == 2
    with pytest.raises(InvalidInputError, match="limit"):
        table.new_read_builder().with_limit(1).with_consumer("c").plan()


def test_dataset_supports_or_refuses_each_method(table):
    dataset = table.new_read_builder().to_dataset()
    assert dataset.schema.names == list(COLUMNS)
    assert dataset.count_rows() == 12
    assert dataset.count_rows(pc.field("id") > 30) == 3
    assert dataset.head(2, ["id"]).num_rows == 2
    assert ids(dataset.filter(pc.field("id") > 30).to_table()) == [31, 32, 33]
    twice = dataset.to_table({"twice": pc.field("id") * 2}, filter=pc.field("id") == 33)
    assert twice.to_pydict() == {"twice": [66]}
    assert sum(batch.num_rows for batch in dataset.to_batches(batch_size=2)) == 12
    public = {name for name in dir(ds.Dataset) if not name.startswith("_")}
    assert public <= vars(ScanDataset).keys(), "the base class's would open files"
    for scan in (
        lambda: ds.Scanner.from_dataset(dataset).to_table(),
        lambda: ds.Scanner.from_dataset(dataset, filter=pc.field("id") > 30).count_rows(),
        lambda: ds.dataset([dataset, dataset]).to_table(),
        lambda: acero.Declaration("scan", acero.ScanNodeOptions(dataset)).to_table(),
    ):
        with pytest.raises(InvalidInputError, match="use its scanner"):
            scan()
    with pytest.raises(InvalidInputError, match="get_fragments"):
        dataset.get_fragments()
    with pytest.raises(InvalidInputError, match="all its rows"):
        _ = dataset.partition_expression


def test_table_is_written_from_every_frame(tmp_path):
    polars, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    pandas = pytest.importorskip("pandas")
    catalog = new_catalog_in(tmp_path / "w")
    table = new_table(catalog, {"id": "BIGINT", "v": "DOUBLE"})
    rows = {"id": [1, 2], "v": [0.5, None]}
    arrow = pa.table(rows)
    other = new_table(catalog, {"id": "BIGINT", "v": "DOUBLE"}, name="db.copy")
    with duckdb.connect() as connection:
        frames = [
            arrow, arrow.to_batches()[0], arrow.to_reader(), ds.dataset(arrow),
            ds.dataset(arrow).scanner(), pandas.DataFrame(rows), polars.DataFrame(rows),
            polars.LazyFrame(rows), connection.from_arrow(arrow),
        ]  # fmt: skip
        for number, frame in enumerate(frames, 1):
            outcome = table.new_write_builder().write(frame, EmbeddedExecutor())
            assert outcome.report.rows_written == 2, frame
            assert table.count() == 2 * number
    other.new_write_builder().write(table.new_read_builder())  # a read is a stream, too
    assert other.count() == 18
    with pytest.raises(InvalidInputError, match="A list of rows holds dicts"):
        table.new_write_builder().write([1])
    with pytest.raises(InvalidInputError, match="'v' of the pandas frame"):
        write(table, pandas.DataFrame({"id": [1], "v": pandas.Series(["x"], dtype=object)}))
    queried: list[int] = []  # a refused row ends the query of a LazyFrame: it is streamed
    lazy = polars.LazyFrame({"id": range(2_000_000), "v": "x"}).map_batches(
        lambda part: queried.append(part.height) or part, streamable=True
    )
    with pytest.raises(InvalidInputError, match="'v'"):
        table.new_write_builder().write(lazy)
    assert 0 < sum(queried) < 2_000_000


def test_printed_rows_fit_line_and_show_no_secret(tmp_path):
    secret = {"s3.secret-key": "hush"}
    catalog = new_catalog_in(tmp_path / "w", options=secret)
    schema = Schema.of(
        {f"column_{number}": "INT" for number in range(100)},
        primary_keys=["column_0"],
        options={"bucket": "1", **secret},
    )
    table = new_table(catalog, schema)
    column = pa.array([1], pa.int32())
    write(table, pa.table(dict.fromkeys(table.schema.field_names, column)))
    read = table.new_read_builder().with_columns(["column_0"]).with_filter("column_0 > 0")
    plan = read.plan()
    printed = [
        *(catalog, schema, table, table.schema, table.latest_snapshot(), read, plan),
        *(plan.splits[0], table.new_write_builder(), catalog.sql("select 1")),
    ]
    for thing in printed:
        assert len(repr(thing)) < 250, repr(thing)
        assert "hush" not in repr(thing)
    assert repr(plan) == "Plan(db.t at snapshot 1: 1 split, 1 stored row)"
    assert repr(read) == "ReadBuilder(db.t, columns column_0, filtered)"
    assert "primary key column_0" in repr(table)
