"""The sensor on new files: one run for each set of files, and a reason for every skip."""

from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as papq
import pytest

from paimon_assets import Schema, assets
from tests.testkit.asset_tables import instance_beside, run

EVENTS = Schema.of({"id": "BIGINT"})


class Watched:
    """A landing folder, its asset, and the sensor of the asset."""

    def __init__(self, folder: Path, paimon: assets.PaimonCatalogResource, max_files: int) -> None:
        folder.mkdir()
        self.folder = folder
        self.paimon = paimon
        source = assets.FileSource(folder=str(folder))
        self.asset = assets.build_file_ingestion_asset("log.events", EVENTS, source=source)
        self.sensor = assets.build_new_files_sensor(self.asset, source=source, max_files=max_files)
        self.cursor: str | None = None
        self.instance = instance_beside(paimon)

    def land(self, *names: str) -> None:
        for name in names:
            papq.write_table(pa.table({"id": pa.array([1], pa.int64())}), self.folder / name)

    def tick(self) -> Any:
        """Evaluate the sensor with the cursor of the last tick."""
        with dg.build_sensor_context(
            instance=self.instance, cursor=self.cursor, resources={"paimon": self.paimon}
        ) as context:
            ticked = self.sensor(context)
        if isinstance(ticked, dg.SensorResult) and ticked.cursor:
            self.cursor = ticked.cursor
        return ticked

    def ingest(self, request: dg.RunRequest) -> None:
        """Run a request of the sensor."""
        options = {"run_config": request.run_config, "tags": request.tags}
        assert run(self.asset, self.paimon, instance=self.instance, **options).success


@pytest.fixture
def folder_sensor(tmp_path: Path, paimon: assets.PaimonCatalogResource) -> Watched:
    return Watched(tmp_path / "landing", paimon, max_files=2)


def request_of(ticked: Any) -> dg.RunRequest:
    assert isinstance(ticked, dg.SensorResult), ticked
    [request] = ticked.run_requests or []
    return request


def test_sensor_is_stopped_and_named_after_its_asset(folder_sensor: Watched) -> None:
    assert folder_sensor.sensor.default_status is dg.DefaultSensorStatus.STOPPED
    assert folder_sensor.sensor.name == "log__events_new_files"


def test_empty_folder_is_skipped_with_its_name(folder_sensor: Watched) -> None:
    ticked = folder_sensor.tick()
    assert isinstance(ticked, dg.SkipReason)
    assert str(folder_sensor.folder) in (ticked.skip_message or "")


def test_new_files_are_requested_once_until_they_are_ingested(folder_sensor: Watched) -> None:
    folder_sensor.land("a.parquet")
    first = request_of(folder_sensor.tick())
    again = folder_sensor.tick()
    assert isinstance(again, dg.SkipReason)
    assert first.run_key is not None
    assert first.run_key in (again.skip_message or "")
    folder_sensor.ingest(first)
    done = folder_sensor.tick()
    assert isinstance(done, dg.SkipReason)
    assert "all 1 file" in (done.skip_message or "")


def test_rollback_and_recreation_request_files_again(folder_sensor: Watched) -> None:
    keys = []
    folder_sensor.land("a.parquet")
    folder_sensor.ingest(request_of(folder_sensor.tick()))
    folder_sensor.land("b.parquet")
    for _ in range(3):
        request = request_of(folder_sensor.tick())
        keys.append(request.run_key)
        assert isinstance(folder_sensor.tick(), dg.SkipReason), "once"
        folder_sensor.ingest(request)
        assert isinstance(folder_sensor.tick(), dg.SkipReason), "ingested"
        folder_sensor.paimon.catalog().get_table("log.events").rollback_to(1)
    folder_sensor.paimon.catalog().drop_table("log.events")
    folder_sensor.paimon.catalog().create_table("log.events", EVENTS)
    request = request_of(folder_sensor.tick())
    keys.append(request.run_key)
    folder_sensor.ingest(request)
    assert len(set(keys)) == 4


def test_tick_is_bounded_and_next_continues(folder_sensor: Watched) -> None:
    folder_sensor.land("a.parquet", "b.parquet", "c.parquet")
    first = request_of(folder_sensor.tick())
    folder_sensor.ingest(first)
    second = request_of(folder_sensor.tick())
    assert first.run_key != second.run_key
    folder_sensor.ingest(second)
    assert isinstance(folder_sensor.tick(), dg.SkipReason)
    table = folder_sensor.paimon.catalog().get_table("log.events")
    assert [snapshot.delta_record_count for snapshot in table.snapshots()] == [2, 1]


def test_same_files_have_same_run_key_without_cursor(folder_sensor: Watched) -> None:
    folder_sensor.land("a.parquet")
    key = request_of(folder_sensor.tick()).run_key
    folder_sensor.cursor = None
    assert request_of(folder_sensor.tick()).run_key == key


def test_files_beyond_bound_request_no_second_run(folder_sensor: Watched) -> None:
    folder_sensor.land("a.parquet", "b.parquet")
    request_of(folder_sensor.tick())
    folder_sensor.land("c.parquet")
    assert isinstance(folder_sensor.tick(), dg.SkipReason)


def test_changed_file_is_named_and_not_requested(folder_sensor: Watched) -> None:
    folder_sensor.land("a.parquet")
    folder_sensor.ingest(request_of(folder_sensor.tick()))
    papq.write_table(
        pa.table({"id": pa.array([1, 2], pa.int64())}), folder_sensor.folder / "a.parquet"
    )
    ticked = folder_sensor.tick()
    assert isinstance(ticked, dg.SkipReason)
    assert "a.parquet in" in (ticked.skip_message or "")


def test_requested_config_is_valid_for_asset(folder_sensor: Watched) -> None:
    folder_sensor.land("a.parquet")
    request = request_of(folder_sensor.tick())
    job = dg.Definitions(
        assets=[folder_sensor.asset],
        resources={"paimon": folder_sensor.paimon},
        jobs=[dg.define_asset_job("ingest", selection="*")],
    ).resolve_job_def("ingest")
    config = dg.validate_run_config(job, request.run_config)
    assert config["ops"]["log__events"]["config"]["max_files"] == 2
