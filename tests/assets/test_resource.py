"""The catalog and Spark resources: variables in every field, no secret shown."""

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from paimon_assets import EmbeddedExecutor, InvalidInputError
from paimon_assets.assets import PaimonCatalogResource, PaimonSparkResource
from tests.testkit.asset_tables import failure_text, lent_instance


def test_environment_variables_resolve_in_every_field(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    paimon: PaimonCatalogResource,
) -> None:
    values = {
        "WAREHOUSE": str(tmp_path_factory.mktemp("wh")),
        "EXECUTOR": "embedded",
        "SECRET": "s3cret",
        "MASTER": "local[1]",
        "APP": "app",
        "MEMORY": "3g",
        "SETTING": "7",
    }
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    seen: list[Any] = []

    @dg.asset
    def looks(lake: PaimonCatalogResource) -> None:
        spark = lake.spark
        seen.extend([lake.warehouse, lake.executor, lake.options, spark.master, spark.app_name])
        seen.extend([spark.driver_memory, spark.extra, lake.catalog().list_databases()])
        seen.append(isinstance(lake.new_executor(), EmbeddedExecutor))

    lake = PaimonCatalogResource(
        warehouse=dg.EnvVar("WAREHOUSE"),
        executor=dg.EnvVar("EXECUTOR"),
        options={"s3.secret-key": dg.EnvVar("SECRET")},
        spark=PaimonSparkResource(
            master=dg.EnvVar("MASTER"),
            app_name=dg.EnvVar("APP"),
            driver_memory=dg.EnvVar("MEMORY"),
            extra={"spark.sql.shuffle.partitions": dg.EnvVar("SETTING")},
        ),
    )
    with lent_instance() as instance:
        assert dg.materialize([looks], resources={"lake": lake}, instance=instance).success
    assert seen == [
        values["WAREHOUSE"],
        "embedded",
        {"s3.secret-key": "s3cret"},
        "local[1]",
        "app",
        "3g",
        {"spark.sql.shuffle.partitions": "7"},
        [],
        True,
    ]


def test_no_value_of_option_is_shown() -> None:
    spark = PaimonSparkResource(extra={"spark.hadoop.fs.s3a.secret.key": "hidden"})
    lake = PaimonCatalogResource(
        warehouse="/wh", options={"s3.secret-key": "hidden"}, executor="embedded", spark=spark
    )
    for shown in (repr(lake), str(lake), f"{lake}", repr(spark), str(spark)):
        assert "hidden" not in shown
    assert "s3.secret-key" in repr(lake)


def test_mask_of_ui_is_refused_as_value(paimon: PaimonCatalogResource) -> None:
    @dg.asset
    def looks(lake: PaimonCatalogResource) -> None:
        lake.catalog()

    lake = PaimonCatalogResource(
        warehouse="/wh", options={"s3.secret-key": "********"}, executor="embedded"
    )
    with lent_instance() as instance:
        result = dg.materialize(
            [looks], resources={"lake": lake}, instance=instance, raise_on_error=False
        )
    assert "Remove the `resources:` section" in failure_text(result)


def test_unknown_executor_is_refused_with_valid_ones(warehouse: str) -> None:
    lake = PaimonCatalogResource(warehouse=warehouse, executor="flink")
    with pytest.raises(InvalidInputError, match="'flink' is unknown; expected one of spark, emb"):
        lake.new_executor()


def test_error_without_spark_names_extra(warehouse: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "paimon_assets.spark.session", None)
    lake = PaimonCatalogResource(warehouse=warehouse, executor="spark")
    with pytest.raises(InvalidInputError, match=r"install paimon-assets\[spark\]"):
        lake.new_executor()


def test_unused_spark_resource_stops_nothing() -> None:
    PaimonSparkResource().stop()


def test_environment_describes_catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = {
        "PAIMON_WAREHOUSE": str(tmp_path),
        "PAIMON_S3_SECRET_KEY": "hunter2",
        "PAIMON_EXECUTOR": "embedded",
        "PAIMON_SEGMENT_ROOTS": "/a /b",
        "SPARK_MASTER": "local[1]",
    }
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    resource = PaimonCatalogResource.from_env()
    assert "hunter2" not in repr(resource.model_dump())
    with dg.build_resources({"paimon": resource}) as resources:
        lake = resources.paimon
        assert (lake.warehouse, lake.executor) == (str(tmp_path), "embedded")
        assert lake.options == {"s3.secret-key": "hunter2"}
        assert (lake.segment_roots, lake.spark.master) == (["/a", "/b"], "local[1]")
        assert lake.catalog().list_databases() == []
    assert PaimonCatalogResource.from_env(warehouse="/other").warehouse == "/other"
    monkeypatch.setenv("PAIMON_URI", "http://127.0.0.1:1")
    assert PaimonCatalogResource.from_env().metastore == "rest"
