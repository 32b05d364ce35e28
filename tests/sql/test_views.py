"""Views as assets: their tables are upstream, and executors without queries refuse them."""

from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

from paimon_assets import assets, sql
from tests.testkit.asset_tables import failure_text
from tests.testkit.io_manager_runs import io_run

QUERY = "SELECT t.p AS p FROM db.t JOIN u ON t.id = u.id JOIN parquet.`/x` ON 1 = 1"


def copying(**options: Any) -> dg.AssetsDefinition:
    view = dg.AssetIn(key=["db", "v"], metadata=assets.paimon_input(**options))

    @dg.asset(ins={"v": view}, key=["db", "copy"])
    def copy(v: pa.Table) -> pa.Table:
        return v

    return copy


@pytest.fixture
def specs(new_catalog):
    new_catalog.views.create("db.v", QUERY, {"p": "STRING"}, comment="late ones")
    new_catalog.views.create("db.other", "not SQL at all (", {"a": "INT"})
    return sql.build_external_view_specs(sql.describe_views(new_catalog, ["db.*"]))


def test_views_are_assets_with_their_tables_upstream(specs):
    other, view = specs
    assert (view.key, view.description) == (dg.AssetKey(["db", "v"]), "late ones")
    assert {dep.asset_key for dep in view.deps} == {
        dg.AssetKey(["db", "t"]),
        dg.AssetKey(["db", "u"]),
    }
    assert view.kinds == {"paimon", "view"}
    (column,) = view.metadata["dagster/column_schema"].columns
    assert (column.name, column.type) == ("p", "STRING")
    assert list(other.deps) == []


@pytest.mark.filterwarnings("ignore:.*is currently in beta")
def test_new_data_of_table_reaches_readers_of_its_view(specs):
    table, other = (dg.asset(key=["db", name])(lambda: None) for name in "tu")

    @dg.asset(deps=[dg.AssetKey(["db", "v"])], automation_condition=assets.on_new_data())
    def late(): ...

    definitions = dg.Definitions([table, other, late, *specs])
    with dg.DagsterInstance.ephemeral() as instance:
        dg.materialize(
            [table, other, late, *specs], selection=[table, other, late], instance=instance
        )
        before = dg.evaluate_automation_conditions(definitions, instance)
        dg.materialize([table, *specs], selection=[table], instance=instance)
        after = dg.evaluate_automation_conditions(definitions, instance, cursor=before.cursor)
    assert (before.total_requested, after.total_requested) == (0, 1)


def test_patterns_select_views(specs, new_catalog):
    assert [v.view.name for v in sql.describe_views(new_catalog, ["*"], ["db.o*"])] == ["db.v"]


def view_readers(seen: list[Any]) -> list[dg.AssetsDefinition]:
    """Assets that read the view db.w, as a Spark frame and as Arrow."""

    @dg.asset(ins={"w": dg.AssetIn(["db", "w"], metadata=assets.paimon_input(where="w > 20"))})
    def spark_frame(w: DataFrame) -> None:
        seen.append(sorted(map(tuple, w.collect())))

    @dg.asset(ins={"w": dg.AssetIn(["db", "w"], metadata=assets.paimon_input(columns=["w"]))})
    def arrow(w: pa.Table) -> None:
        seen.append(sorted(tuple(row.values()) for row in w.to_pylist()))

    return [spark_frame, arrow]


@pytest.mark.spark
@pytest.mark.way_out("view", "view-input")
def test_views_are_inputs_on_spark(spark, warehouse, new_catalog):
    door = pytest.importorskip("paimon_assets.sql.spark.spark_sql")
    door.spark_sql(spark, new_catalog, "CREATE TABLE db.t (id BIGINT, v INT)")
    door.spark_sql(spark, new_catalog, "INSERT INTO db.t VALUES (1, 10), (2, 20), (3, 30)")
    door.spark_sql(spark, new_catalog, "CREATE VIEW db.w AS SELECT id, v * 2 AS w FROM db.t")
    seen = []
    readers = view_readers(seen)
    specs = sql.build_external_view_specs(sql.describe_views(new_catalog))
    embedded = assets.PaimonCatalogResource(warehouse=warehouse, executor="embedded")
    new_catalog.views.create("db.v", QUERY, {"p": "STRING"})
    view = sql.build_external_view_specs(sql.describe_views(new_catalog, ["db.v"]))
    for options, text in ({}, "'db.v' is a view"), ({"snapshot": 1}, "takes no 'snapshot'"):
        copy = copying(**options)
        assert text in failure_text(io_run([copy, *view], embedded, selection=[copy]))
    own = assets.PaimonSparkResource(master="local[2]")
    lake = assets.PaimonCatalogResource(warehouse=warehouse, executor="spark", spark=own)
    assert io_run([*readers, *specs], lake, selection=readers).success
    assert sorted(seen) == [[(2, 40), (3, 60)], [(20,), (40,), (60,)]]
