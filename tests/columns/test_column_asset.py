"""Columns of a table as an asset: they are added, and computed where they are behind."""

from typing import Any

import dagster as dg
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from paimon_assets import InvalidInputError, Schema
from paimon_assets.assets import PaimonCatalogResource, paimon_asset, refuse_shared_tables
from paimon_assets.columns import build_rows_behind_check, column_asset
from tests.testkit.asset_tables import FailsOnce, catalog_on, failure_text, metadata_of, run
from tests.testkit.row_changing import data_files
from tests.testkit.tables import EXECUTOR, arrow, new_table, read

EVOLVING = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
ORDERS = Schema.of(
    {"day": "STRING", "id": "INT", "amount": "DOUBLE", "status": "STRING"},
    partition_keys=["day"],
    options=EVOLVING,
)
ROWS = [("a" if n < 3 else "b", n, 1.5 * n, "new") for n in range(6)]
KEY = dg.AssetKey(["shop", "orders", "score"])
SCORES = [(n, 3.0 * n) for n in range(6)]


@pytest.fixture
def table(paimon: PaimonCatalogResource) -> Any:
    return new_table(paimon.catalog(), ORDERS, *ROWS, name="shop.orders")


def scoring(function: Any = None, **options: Any) -> dg.AssetsDefinition:
    def score(rows: pa.Table) -> Any:
        return pa.table({"score": pc.multiply(rows["amount"], 2)})

    made = column_asset("shop.orders", {"score": "DOUBLE"}, reads=["amount", "status"], **options)
    return made(function or score)


def scores(table: Any) -> list[Any]:
    return sorted(read(table.refresh(), ["id", "score"]))


def test_column_is_added_without_rewriting_files(paimon, table):
    before = data_files(table)
    result = run(scoring(), paimon)
    assert result.success
    assert scores(table) == SCORES
    assert before < data_files(table)
    metadata = metadata_of(result, KEY)
    assert (metadata["paimon/rows_behind"], metadata["paimon/rows_written"]) == (6, 6)
    assert metadata["paimon/writes_columns"] == "score"
    assert metadata["dagster/row_count"] == 6
    assert "paimon/stored_rows" not in metadata  # which counts rows once for each file
    lineage = metadata["dagster/column_lineage"]
    assert [each.column_name for each in lineage.deps_by_column["score"]] == ["amount", "status"]
    assert table.refresh().latest_snapshot().id == 2


def test_later_run_computes_only_rows_behind(paimon, table):
    given = []

    def score(rows: pa.Table) -> Any:
        given.append(rows.num_rows)
        return pa.table({"score": pc.multiply(rows["amount"], 2)})

    asset = scoring(score)
    assert run(asset, paimon).success
    result = run(asset, paimon)
    assert metadata_of(result, KEY)["paimon/rows_behind"] == 0
    assert metadata_of(result, KEY)["paimon/rows_written"] == 0
    assert given == [3, 3]
    table = table.refresh()
    table.new_row_change_builder().update({"amount": 10.0}, "id = 4", EXECUTOR)
    assert run(asset, paimon).success
    assert given == [3, 3, 3]
    assert scores(table)[4] == (4, 20.0)
    config = {"ops": {"shop__orders__score": {"config": {"all_rows": True}}}}
    assert run(asset, paimon, run_config=config).success
    assert given == [3] * 5


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_rows_have_type_of_annotation(paimon, table, library):
    def score(rows):
        assert isinstance(rows, library)
        return rows.assign(score=rows["amount"] * 2) if library is pd.DataFrame else rows.select(
            (pl.col("amount") * 2).alias("score")
        )  # fmt: skip

    score.__annotations__ = {"rows": library}
    assert run(scoring(score), paimon).success
    assert scores(table) == SCORES


def test_function_takes_context_resources_and_inputs(paimon, table):
    seen = []

    def factor() -> float:
        return 2.0

    def score(
        context: dg.AssetExecutionContext,
        rows: pa.Table,
        factor: float,
        other: dg.ResourceParam[str],
    ) -> Any:
        seen.append((context.asset_key, other))
        return pa.table({"score": pc.multiply(rows["amount"], factor)})

    asset = scoring(score)
    result = dg.materialize(
        [dg.asset(factor), asset], resources={"paimon": paimon, "other": "x"}, raise_on_error=False
    )
    assert result.success
    assert set(seen) == {(KEY, "x")}
    assert scores(table) == SCORES


def test_partitioned_run_writes_its_partition(paimon, table):
    asset = scoring(
        partitions_def=dg.StaticPartitionsDefinition(["a", "b"]), partition_column="day"
    )
    assert run(asset, paimon, partition_key="b").success
    assert scores(table) == [(n, None if n < 3 else 3.0 * n) for n in range(6)]
    assert run(asset, paimon, partition_key="a").success
    assert scores(table) == SCORES


def test_retried_step_finds_its_commit(warehouse, table):
    file_io = FailsOnce(after_publish_of="/snapshot-2")
    given = []

    def score(rows: pa.Table) -> Any:
        given.append(rows.num_rows)
        return pa.table({"score": pc.multiply(rows["amount"], 2)})

    result = run(scoring(score), catalog_on(file_io, warehouse))
    assert file_io.has_failed
    assert result.success, failure_text(result)
    assert metadata_of(result, KEY)["paimon/already_committed"] is True
    assert given == [3, 3]
    assert scores(table) == SCORES


def test_column_assets_share_table_with_its_own_asset(paimon, table):
    def rows_of_orders() -> Any:
        return arrow(ORDERS, ("c", 9, 1.0, "new"))

    orders = paimon_asset("shop.orders", ORDERS, schema_policy="add", mode="append")(rows_of_orders)

    def rank(rows: pl.DataFrame) -> Any:
        return rows.select(pl.col("id").alias("rank"))

    ranks = column_asset("shop.orders", {"rank": "INT"}, reads=["id"])(rank)
    refuse_shared_tables([orders, scoring(), ranks])
    assert ranks.asset_deps[dg.AssetKey(["shop", "orders", "rank"])] == {
        dg.AssetKey(["shop", "orders"])
    }
    assert run([scoring(), ranks], paimon).success
    assert sorted(read(table.refresh(), ["id", "score", "rank"])) == [
        (n, score, n) for n, score in SCORES
    ]
    assert run(orders, paimon).success
    assert run([scoring(), ranks], paimon).success
    assert max(read(table.refresh(), ["id", "score", "rank"])) == (9, 2.0, 9)


def test_invalid_columns_are_not_committed(paimon, table):
    def short(rows: pa.Table) -> Any:
        return pa.table({"score": [1.0]})

    assert "was given 3 rows and returns 1" in failure_text(run(scoring(short), paimon))
    assert table.refresh().latest_snapshot().id == 1
    texts = column_asset("shop.orders", {"score": "STRING"}, reads=["amount"])
    assert run(scoring(), paimon).success

    def score(rows: pa.Table) -> Any:
        return rows

    assert "Declare the stored type" in failure_text(run(texts(score), paimon))


def test_table_without_row_tracking_is_not_altered(paimon, table):
    plain = paimon.catalog().create_table("shop.plain", Schema.of({"id": "INT"}))

    def score(rows: pa.Table) -> Any:
        return rows

    asset = column_asset("shop.plain", {"score": "INT"}, reads=["id"])(score)
    assert "Create it with 'row-tracking.enabled'" in failure_text(run(asset, paimon))
    assert plain.refresh().schema.field_names == ("id",)


def test_assets_of_partial_update_table_write_their_own_columns(paimon):
    options = {"merge-engine": "partial-update"}
    columns = Schema.of({"id": "INT", "n": "INT"}, primary_keys=["id"], options=options)
    more = Schema.of({"id": "INT", "score": "INT"}, primary_keys=["id"], options=options)

    def all_customers() -> Any:
        return pa.table({"id": [1, 2], "n": [3, 4]})

    def score_of_each(paimon: PaimonCatalogResource) -> Any:
        rows = paimon.catalog().get_table("shop.customers").to_arrow()
        return pa.table({"id": rows["id"], "score": pc.multiply(rows["n"], 2)})

    customers = paimon_asset("shop.customers", columns, schema_policy="add")(all_customers)
    score = paimon_asset(
        "shop.customers", more, schema_policy="add", name="score", deps=[customers]
    )(score_of_each)
    refuse_shared_tables([customers, score])
    for _ in range(2):
        assert run([customers, score], paimon).success
    found = paimon.catalog().get_table("shop.customers").to_arrow().sort_by("id").to_pylist()
    assert found == [{"id": 1, "n": 3, "score": 6}, {"id": 2, "n": 4, "score": 8}]


def test_keyed_table_is_refused_with_way_out(paimon, table):
    keyed = Schema.of({"id": "INT"}, primary_keys=["id"], options={"bucket": "1"})
    paimon.catalog().create_table("shop.keyed", keyed)

    def score(rows: pa.Table) -> Any:
        return rows

    asset = column_asset("shop.keyed", {"score": "INT"}, reads=["id"])(score)
    assert "'merge-engine' = partial-update" in failure_text(run(asset, paimon))


def test_invalid_options_are_refused_at_definition():
    def lazy(rows: pl.LazyFrame) -> Any:
        return rows

    def nothing() -> Any:
        return None

    for make, text in (
        (lambda: scoring(before_commit=[]), "cannot have before_commit"),
        (lambda: scoring(partition_column="day"), "or neither"),
        (lambda: scoring(lazy), "not as polars.LazyFrame"),
        (lambda: scoring(nothing), "'nothing' takes none"),
    ):
        with pytest.raises(InvalidInputError, match=text):
            make()


def evaluate(asset, check, paimon):
    result = run([asset, check], paimon, selection=dg.AssetSelection.checks(check))
    [evaluation] = result.get_asset_check_evaluations()
    return evaluation


def test_rows_behind_are_checked(paimon, table):
    asset = scoring()
    check = build_rows_behind_check(asset, max_behind=3)
    evaluation = evaluate(asset, check, paimon)  # no column yet
    assert (evaluation.passed, evaluation.metadata["paimon/rows_behind"].value) == (False, 6)
    assert run(asset, paimon).success
    table.refresh().new_row_change_builder().update({"amount": 10.0}, "id = 4", EXECUTOR)
    evaluation = evaluate(asset, check, paimon)
    assert (evaluation.passed, evaluation.metadata["paimon/rows_behind"].value) == (True, 3)

    def orders() -> Any:
        return None

    with pytest.raises(InvalidInputError, match="is not one of `column_asset`"):
        build_rows_behind_check(paimon_asset("shop.orders", ORDERS)(orders))
