"""Segments from Dagster: the asset, the job with its dry run, and the sensor."""

from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

from paimon_assets import EmbeddedExecutor, InvalidInputError, Schema, SegmentSource, assets
from paimon_assets.assets.check_run import CheckOptions, CheckRun
from tests.testkit import asset_tables
from tests.testkit.foreign import rows, states, write
from tests.testkit.tables import new_table

SALES = Schema.of({"v": "INT", "day": "INT"}, partition_keys=["day"])
KEY = dg.AssetKey(["shop", "sales"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    land(tmp_path / "foreign", 1, 2)
    return tmp_path / "foreign"


def land(folder: Path, *days: int) -> None:
    for day in days:
        data = pa.table({"v": pa.array([day, None], pa.int32())})
        write(folder / f"day={day}" / "part-0.parquet", data)


def sales(folder: Path) -> tuple[dg.AssetsDefinition, SegmentSource]:
    source = SegmentSource(path=str(folder), partition="day:int")
    return assets.build_segment_asset("shop.sales", SALES, source=source), source


def test_each_run_adds_new_folders(folder, paimon):
    asset, _ = sales(folder)
    before = states(folder)
    first = asset_tables.metadata_of(asset_tables.run(asset, paimon), KEY)
    assert first["paimon/segments_added"] == 2
    assert first["dagster/row_count"] == 4
    assert [record.data["partition"] for record in first["paimon/segments"]] == ["day=2", "day=1"]
    assert states(folder) == before
    land(folder, 3)
    third = asset_tables.metadata_of(asset_tables.run(asset, paimon), KEY)
    assert (third["paimon/segments_added"], third["paimon/segments_live"]) == (1, 3)
    again = asset_tables.metadata_of(asset_tables.run(asset, paimon), KEY)
    assert (again["paimon/segments_added"], again["paimon/rows_in"]) == (0, 0)
    table = paimon.catalog().get_table("shop.sales")
    assert len(asset_tables.rows_of(table)) == 6
    assert len(table.snapshots()) == 2
    assert table.latest_snapshot().properties["dagster.asset-key"] == "shop/sales"


def test_counts_are_sums_until_file_changes(folder, paimon):
    asset, _ = sales(folder)
    asset_tables.run(asset, paimon)
    table = paimon.catalog().get_table("shop.sales")
    csv = folder.parent / "csv"
    write(csv / "day=1" / "1.csv", pa.table({"v": [5, 6]}))
    source = SegmentSource(path=str(csv), format="csv", partition="day:int")
    table.segments().add(source, EmbeddedExecutor(threads=1))
    assert table.new_read_builder().count() == 4 + 2 == len(asset_tables.rows_of(table))
    land(folder, 1)
    with pytest.raises(InvalidInputError, match="external file changed"):
        table.new_read_builder().count()


def test_metadata_and_checks_count_rows_of_text_segments(folder, paimon):
    csv = folder.parent / "csv"
    write(csv / "day=1" / "1.csv", pa.table({"v": list(range(10))}))
    source = SegmentSource(
        path=str(csv), format="csv", partition="day:int", options={"comment": "#"}
    )
    asset = assets.build_segment_asset("shop.texts", SALES, source=source)
    found = asset_tables.metadata_of(asset_tables.run(asset, paimon), asset.key)
    names = ("dagster/row_count", "paimon/stored_rows", "paimon/added_rows")
    assert [found[name] for name in names] == [10, 10, 10]
    assert (found["paimon/total_files"], found["paimon/added_files"]) == (1, 1)
    with dg.DagsterInstance.ephemeral() as instance:
        run_of_check = CheckRun(
            paimon=paimon,
            table=paimon.catalog().get_table("shop.texts"),
            options=CheckOptions(),
            asset=asset,
            instance=instance,
        )
        assert run_of_check.table.state.physical_rows() == 10


def test_refresh_reads_changed_files(folder, paimon):
    asset, _ = sales(folder)
    asset_tables.run(asset, paimon)
    write(folder / "day=1" / "part-0.parquet", pa.table({"v": pa.array([7], pa.int32())}))
    config = dg.RunConfig(ops={"shop__sales": {"config": {"refresh": True}}})
    found = asset_tables.metadata_of(asset_tables.run(asset, paimon, run_config=config), KEY)
    assert (found["paimon/segments_added"], found["dagster/row_count"]) == (0, 3)


def test_dry_run_of_asset_commits_nothing(folder, paimon):
    asset, _ = sales(folder)
    config = dg.RunConfig(ops={"shop__sales": {"config": {"dry_run": True}}})
    found = asset_tables.metadata_of(asset_tables.run(asset, paimon, run_config=config), KEY)
    assert [record.data["file"] for record in found["paimon/source_files"]] == [
        "day=1/part-0.parquet",
        "day=2/part-0.parquet",
    ]
    assert found["paimon/inferred_columns"][0].data == {
        "column": "v",
        "in the files": "INT",
        "in the table": "INT",
    }
    assert paimon.catalog().list_databases() == []


def test_file_with_another_schema_fails_run(folder, paimon):
    write(folder / "day=3" / "part-0.parquet", pa.table({"w": [1]}))
    asset, _ = sales(folder)
    result = asset_tables.run(asset, paimon)
    assert not result.success
    assert "Schema is not same" in asset_tables.failure_text(result)


def import_segment(paimon: assets.PaimonCatalogResource, config: assets.SegmentImportConfig) -> Any:
    return asset_tables.job_run(assets.build_segment_import_job(), "import_segment", config, paimon)


def test_job_shows_difference_and_imports(tmp_path, paimon):
    columns = {"a": "INT", "b": "STRING"}
    table = new_table(paimon.catalog(), columns, name="db.t")
    write(tmp_path / "orc" / "1.orc", rows((1, "x")).rename_columns(["a", "B"]))
    config = {"table": "db.t", "path": str(tmp_path / "orc"), "format": "orc"}
    dry = import_segment(paimon, assets.SegmentImportConfig(**config, dry_run=True))
    [event] = dry.get_asset_observation_events()
    observation = event.asset_observation_data.asset_observation
    assert "It would be refused" in observation.description
    assert "is called 'B'" in observation.metadata["paimon/problem"].value
    assert not import_segment(paimon, assets.SegmentImportConfig(**config)).success
    assert table.latest_snapshot() is None
    write(tmp_path / "orc" / "1.orc", rows((1, "x")))
    done = import_segment(paimon, assets.SegmentImportConfig(**config))
    assert done.success
    [event] = done.get_asset_materialization_events()
    assert event.asset_key == dg.AssetKey(["db", "t"])
    assert event.materialization.metadata["paimon/rows_in"].value == 1
    assert asset_tables.data_snapshot_of(event.materialization) == 1
    assert event.materialization.description == "Snapshot 1: 1 row of 1 file, read where they lie."
    assert table.latest_snapshot().properties["dagster.run-id"] == done.run_id
    assert asset_tables.rows_of(table) == [{"a": 1, "b": "x"}]


def test_sensor_requests_new_partition_folders_once(folder, paimon):
    asset, source = sales(folder)
    sensor = assets.build_new_segments_sensor(asset, source=source)

    def tick(cursor: str | None) -> Any:
        with dg.build_sensor_context(
            instance=instance, cursor=cursor, resources={"paimon": paimon}
        ) as context:
            return sensor(context)

    instance = asset_tables.instance_beside(paimon)

    first = tick(None)
    [request] = first.run_requests
    assert request.tags["paimon/new_folders"] == "day=1, day=2"
    assert "requested already" in tick(first.cursor).skip_message
    assert asset_tables.run(asset, paimon, instance=instance, tags=request.tags).success
    assert "All 2 files" in tick(first.cursor).skip_message
    land(folder, 3)
    second = tick(first.cursor)
    [again] = second.run_requests
    assert again.tags["paimon/new_folders"] == "day=3"
    assert asset_tables.run(asset, paimon, instance=instance, tags=again.tags).success
    paimon.catalog().get_table("shop.sales").rollback_to(1)
    [third] = tick(second.cursor).run_requests
    assert third.tags["paimon/new_folders"] == "day=3"
    assert third.run_key != again.run_key


def test_segment_asset_has_no_partitions():
    source = SegmentSource(path="/x")
    with pytest.raises(InvalidInputError, match="cannot have partitions_def"):
        assets.build_segment_asset(
            "shop.sales", SALES, source=source, partitions_def=dg.StaticPartitionsDefinition(["a"])
        )


def test_folders_must_be_below_roots_of_resource(folder, tmp_path):
    def allowing(*roots: Path) -> assets.PaimonCatalogResource:
        return assets.PaimonCatalogResource(
            warehouse=str(tmp_path / "warehouse"),
            executor="embedded",
            segment_roots=[str(root) for root in roots],
        )

    asset, _ = sales(folder)
    strict = allowing(tmp_path / "allowed")
    result = asset_tables.run(asset, strict)
    assert not result.success
    assert "is in none of the folders" in asset_tables.failure_text(result)
    config = assets.SegmentImportConfig(table="shop.sales", path=str(folder), partition="day:int")
    assert "is in none of the folders" in asset_tables.failure_text(import_segment(strict, config))
    assert asset_tables.run(asset, allowing(tmp_path / "allowed", tmp_path)).success
