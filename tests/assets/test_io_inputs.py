"""Inputs: columns, filters, time travel, new rows since the last run, and errors."""

import datetime as dt
from typing import Any

import dagster as dg
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pads
import pytest

from paimon_assets import InvalidInputError, Schema, TableCatalog
from paimon_assets.assets import (
    PaimonCatalogResource,
    PaimonIOManager,
    paimon_asset,
    paimon_input,
    paimon_output,
)
from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema
from paimon_assets.engine.control.catalog.filesystem_catalog import FilesystemCatalog
from paimon_assets.engine.control.commit.file_store_commit import FileStoreCommit
from tests.testkit import asset_tables
from tests.testkit.asset_tables import asset_of
from tests.testkit.io_manager_runs import ANNOTATION, io_run, to_arrow
from tests.testkit.tables import new_table, write

pytestmark = pytest.mark.slow

KEY = dg.AssetKey(["shop", "orders"])
SCHEMA = Schema.of({"id": "BIGINT", "v": "STRING"}, primary_keys=["id"], options={"bucket": "1"})


def rows(*numbers: int, text: str = "x") -> pa.Table:
    ids = pa.array(numbers, pa.int64())
    return pa.table({"id": ids, "v": pa.array([text] * len(numbers), pa.string())})


@pytest.fixture
def lake(paimon: PaimonCatalogResource) -> PaimonCatalogResource:
    """Return a lake with a table of three snapshots, the second one tagged."""
    table = new_table(paimon.catalog(), SCHEMA, name="shop.orders")
    for number in (1, 2, 3):
        put(paimon, number)
    table.tags.create("second", snapshot=2)
    return paimon


def put(paimon: PaimonCatalogResource, *numbers: int, text: str = "x") -> None:
    write(paimon.catalog().get_table("shop.orders"), rows(*numbers, text=text))


def external() -> dg.AssetSpec:
    return dg.AssetSpec(KEY, metadata=paimon_output(table="shop.orders"))


def read(paimon: PaimonCatalogResource, **options: Any) -> pa.Table:
    seen: list[pa.Table] = []

    @dg.asset(ins={"table": dg.AssetIn(KEY, metadata=paimon_input(**options))})
    def reader(table: pa.Table) -> dg.MaterializeResult[Any]:
        seen.append(table)
        return dg.MaterializeResult()

    result = io_run([external(), reader], paimon)
    assert result.success, asset_tables.failure_text(result)
    return seen[0]


def refusal(paimon: PaimonCatalogResource, metadata: Any = None, **run: Any) -> str:
    """Return the failure of an asset that cannot load its input."""

    @dg.asset(
        ins={"table": dg.AssetIn(KEY, metadata=metadata)},
        partitions_def=dg.DailyPartitionsDefinition("2024-01-01") if run else None,
    )
    def reader(table: pa.Table) -> None:
        raise AssertionError(table)

    return asset_tables.failure_text(io_run([external(), reader], paimon, **run))


def ids(table: pa.Table) -> list[Any]:
    return sorted(table.column("id").to_pylist())


def test_columns_and_filter_are_read(lake: PaimonCatalogResource) -> None:
    table = read(lake, columns=["v", "id"], where="id > 1")
    assert table.column_names == ["v", "id"]
    assert ids(table) == [2, 3]


def test_time_travel_targets_are_read(lake: PaimonCatalogResource) -> None:
    assert ids(read(lake, snapshot=1)) == [1]
    assert ids(read(lake, tag="second")) == [1, 2]
    table = lake.catalog().get_table("shop.orders")
    first = table.snapshot(1)
    assert first is not None
    time = dt.datetime.fromtimestamp(first.time_millis / 1000, tz=dt.UTC)
    assert ids(read(lake, timestamp=time))[0] == 1
    assert ids(read(lake, timestamp=first.time_millis))[0] == 1
    table.branches.create("b1", tag="second")
    assert ids(read(lake, branch="b1")) == [1, 2]


def test_changes_between_two_snapshots_are_read(lake: PaimonCatalogResource) -> None:
    assert ids(read(lake, between=[1, 3])) == [2, 3]
    put(lake, 1, text="y")
    lake.catalog().get_table("shop.orders").tags.create("fourth", snapshot=4)
    assert ids(read(lake, between=("second", "fourth"))) == [1, 3]
    kinds = read(lake, between=[3, 4], row_kinds=True)
    assert kinds.column("rowkind").to_pylist() == ["+I"]


def test_options_apply_to_one_read(lake: PaimonCatalogResource) -> None:
    put(lake, 1, text="y")
    diff = {"incremental-between-scan-mode": "diff"}
    kinds = read(lake, between=[3, 4], row_kinds=True, options=diff)
    assert kinds.column("rowkind").to_pylist() == ["+U"]
    assert ids(read(lake, options={"scan.snapshot-id": "2"})) == [1, 2]


def test_watermark_is_time_travel_target(lake: PaimonCatalogResource) -> None:
    store = lake.catalog().get_table("shop.orders")._store
    FileStoreCommit(store).commit([], commit_user="a", commit_identifier=1, watermark=5000)
    put(lake, 4)
    assert ids(read(lake, watermark=4000)) == [1, 2, 3]
    assert ids(read(lake, watermark=dt.datetime(1970, 1, 1, 0, 0, 5))) == [1, 2, 3]


@pytest.mark.parametrize("between", [[1], "13", [1, 2, 3]])
def test_range_without_two_ends_is_refused(between: Any) -> None:
    with pytest.raises(InvalidInputError, match="two snapshots"):
        paimon_input(between=between)


def test_dataset_is_scanned_twice(lake: PaimonCatalogResource) -> None:
    seen: list[int] = []

    @dg.asset(ins={"table": dg.AssetIn(KEY, metadata=paimon_input(columns=["id"]))})
    def reader(table: pads.Dataset) -> None:
        seen.extend(table.count_rows(filter=pads.field("id") > low) for low in (0, 2))

    result = io_run([external(), reader], lake)
    assert result.success, asset_tables.failure_text(result)
    assert seen == [3, 1]


NESTED = Schema.of({"id": "INT", "n": "ROW<a INT, b ROW<c STRING>>", "n.x": "INT", "m": "STRING"})
NESTED_ROWS: dict[str, list[Any]] = {
    "id": [1, 2],
    "n": [{"a": 7, "b": {"c": "x"}}, None],
    "n.x": [5, 6],
    "m": ["p", "q"],
}


@pytest.mark.parametrize("kind", sorted(ANNOTATION))
def test_nested_columns_are_read(kind: str, paimon: PaimonCatalogResource) -> None:
    table = new_table(paimon.catalog(), NESTED, name="shop.orders")
    write(table, pa.table(NESTED_ROWS, schema=to_arrow_schema(NESTED.fields)))
    seen: list[Any] = []
    metadata = paimon_input(columns=["n.b.c", "id", "n.a", "n.x"])

    def reader(table: Any) -> None:
        seen.append(to_arrow(table.select("id", "n.b.c") if kind == "lazy" else table))

    reader.__annotations__["table"] = ANNOTATION[kind]
    asset = dg.asset(ins={"table": dg.AssetIn(KEY, metadata=metadata)})(reader)
    result = io_run([external(), asset], paimon)
    assert result.success, asset_tables.failure_text(result)
    [found] = seen
    if kind == "lazy":
        assert found.to_pydict() == {"id": [1, 2], "n.b.c": ["x", None]}
        return
    assert found.column_names == ["n.b.c", "id", "n.a", "n.x"]
    assert found.column("n.b.c").to_pylist() == ["x", None]
    assert found.column("n.a").to_pylist() == [7, None]
    assert found.column("n.x").to_pylist() == [5, 6]


def test_missing_nested_field_is_named(paimon: PaimonCatalogResource) -> None:
    new_table(paimon.catalog(), NESTED, name="shop.orders")
    for column, text in (("n.b.d", "has the fields c"), ("m.x", "fields none"), ("q.x", "'q.x'")):
        assert text in refusal(paimon, paimon_input(columns=[column]))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"columns": ["id", "w"]}, "'w'"),
        ({"where": "w > 1"}, "'w'"),
        ({"snapshot": 99}, "99"),
        ({"tag": "third"}, "third"),
    ],
)
def test_missing_column_snapshot_or_tag_is_named(
    options: dict[str, Any], expected: str, lake: PaimonCatalogResource
) -> None:
    text = refusal(lake, paimon_input(**options))
    assert expected in text
    assert "shop.orders" in text


def test_unknown_metadata_key_is_refused(lake: PaimonCatalogResource) -> None:
    text = refusal(lake, {"paimon/column": ["id"]})
    assert "input 'table' has no 'paimon/column'. Did you mean 'paimon/columns'" in text


def test_missing_table_is_named(paimon: PaimonCatalogResource) -> None:
    assert "Table 'shop.orders' does not exist yet. Materialize its asset first" in refusal(paimon)


def test_rows_of_table_asset_are_read(paimon: PaimonCatalogResource) -> None:
    seen: list[pa.Table] = []
    orders = asset_of("shop.orders", SCHEMA, rows(7))

    @dg.asset(ins={"table": dg.AssetIn(KEY)})
    def reader(table: pa.Table) -> dg.MaterializeResult[Any]:
        seen.append(table)
        return dg.MaterializeResult()

    result = io_run([orders, reader], paimon)
    assert result.success, asset_tables.failure_text(result)
    assert ids(seen[0]) == [7]


def copy_of_new_rows(seen: list[list[int]], **options: Any) -> dg.AssetsDefinition:
    metadata = paimon_input(consumer="copy", **options)

    @dg.asset(
        key=["shop", "copy"],
        ins={"table": dg.AssetIn(KEY, metadata=metadata)},
        metadata=paimon_output(mode="append"),
    )
    def copy(table: pa.Table) -> pa.Table:
        seen.append(ids(table))
        return table

    return copy


def test_consumer_reads_only_new_rows(lake: PaimonCatalogResource) -> None:
    seen: list[list[int]] = []
    assets = [external(), copy_of_new_rows(seen)]
    assert io_run(assets, lake).success
    assert io_run(assets, lake).success, "nothing new"
    put(lake, 4)
    put(lake, 2, text="y")
    assert io_run(assets, lake).success
    assert seen == [[1, 2, 3], [], [2, 4]]
    assert lake.catalog().get_table("shop.orders").consumers.list() == {"copy": 6}
    assert len(asset_tables.rows_of(lake.catalog().get_table("shop.copy"))) == 5


def test_row_kinds_are_column(lake: PaimonCatalogResource) -> None:
    table = read(lake, row_kinds=True, columns=["id"])
    assert table.column_names == ["rowkind", "id"]
    assert set(table.column("rowkind").to_pylist()) == {"+I"}


def test_new_rows_replace_no_table_by_default(lake: PaimonCatalogResource) -> None:
    metadata = paimon_input(consumer="copy")

    @dg.asset(key=["shop", "copy"], ins={"table": dg.AssetIn(KEY, metadata=metadata)})
    def copy(table: pa.Table) -> pa.Table:
        return table

    text = asset_tables.failure_text(io_run([external(), copy], lake))
    assert "New rows of table 'shop.orders' would replace all of table 'shop.copy'" in text
    assert lake.catalog().get_table("shop.orders").consumers.list() == {}


def test_ignored_input_is_not_consumed(lake: PaimonCatalogResource) -> None:
    metadata = paimon_input(consumer="copy")

    @dg.asset(
        key=["shop", "copy"],
        ins={"table": dg.AssetIn(KEY, metadata=metadata)},
        metadata=paimon_output(mode="ignore"),
    )
    def copy(table: pa.Table) -> pa.Table:
        return table

    for _ in range(2):
        assert io_run([external(), copy], lake).success
        put(lake, 4)
    assert lake.catalog().get_table("shop.orders").consumers.list() == {"copy": 4}


def test_failed_run_consumes_nothing(lake: PaimonCatalogResource) -> None:
    @dg.asset(ins={"table": dg.AssetIn(KEY, metadata=paimon_input(consumer="copy"))})
    def breaks(table: pa.Table) -> pa.Table:
        raise ValueError(table.num_rows)

    assert not io_run([external(), breaks], lake).success
    assert lake.catalog().get_table("shop.orders").consumers.list() == {}


def test_table_asset_consumes(lake: PaimonCatalogResource) -> None:
    seen: list[list[int]] = []
    metadata = paimon_input(consumer="copy")

    @paimon_asset("shop.copy", SCHEMA, ins={"table": dg.AssetIn(KEY, metadata=metadata)})
    def copy(table: pa.Table) -> pa.Table:
        seen.append(ids(table))
        return table

    for _ in range(2):
        result = io_run([external(), copy], lake)
        assert result.success, asset_tables.failure_text(result)
    assert seen == [[1, 2, 3], []]


def test_retry_consumes_committed_rows_and_no_more(lake: PaimonCatalogResource) -> None:
    file_io = asset_tables.FailsOnce(after_publish_of="copy/snapshot/snapshot-1")

    class Unreliable(PaimonCatalogResource):
        def catalog(self) -> TableCatalog:
            if file_io.has_failed and not seen[1:]:
                put(lake, 4)
            return TableCatalog(FilesystemCatalog(self.warehouse, file_io))

    seen: list[list[int]] = []
    unreliable = Unreliable(warehouse=lake.warehouse, executor="embedded")
    assets = [external(), copy_of_new_rows(seen)]
    result = io_run(assets, unreliable)
    assert file_io.has_failed
    assert result.success, asset_tables.failure_text(result)
    assert seen == [[1, 2, 3], [4]], "the retry read only rows after the commit"
    assert io_run(assets, lake).success
    assert seen[2] == [4]
    assert sorted(
        row["id"] for row in asset_tables.rows_of(lake.catalog().get_table("shop.copy"))
    ) == [1, 2, 3, 4]


def test_partitioned_input_takes_no_consumer(lake: PaimonCatalogResource) -> None:
    text = refusal(lake, paimon_input(consumer="copy"), partition_key="2024-01-01")
    assert "this needs a step with one output and without partitions" in text


def test_table_is_loaded_without_run(lake: PaimonCatalogResource) -> None:
    manager = PaimonIOManager(paimon=lake)
    defs = dg.Definitions(assets=[external()], resources={"io_manager": manager})
    with asset_tables.lent_instance() as instance, defs.get_asset_value_loader(instance) as loader:

        def load(**options: Any) -> pl.DataFrame:
            metadata = paimon_input(**options)
            frame = loader.load_asset_value(
                KEY, python_type=pl.DataFrame, input_definition_metadata=metadata
            )
            assert isinstance(frame, pl.DataFrame)
            return frame

        assert load(where="id > 1").height == 2
        assert load(snapshot=1).height == 1
        with pytest.raises(dg.Failure, match="this needs a step"):
            load(consumer="me")


def test_outputs_of_one_step_are_separate_tables(paimon: PaimonCatalogResource) -> None:
    outs = {
        "one": dg.AssetOut(key=["shop", "one"]),
        "two": dg.AssetOut(key=["shop", "two"], metadata=paimon_output(mode="append")),
    }

    @dg.multi_asset(outs=outs)
    def both() -> Any:
        mine = dg.DataVersion("mine")
        yield dg.MaterializeResult(asset_key=["shop", "one"], value=rows(1), data_version=mine)
        yield dg.Output(rows(2), "two")

    for _ in range(2):
        result = io_run(both, paimon)
        assert result.success, asset_tables.failure_text(result)
        assert asset_tables.data_version_of(result, dg.AssetKey(["shop", "one"])) == "mine"
    catalog = paimon.catalog()
    heights = [
        len(asset_tables.rows_of(catalog.get_table(f"shop.{name}"))) for name in ("one", "two")
    ]
    assert heights == [1, 2]
