"""The sensor on new files: one run for each set of files, and a reason for every skip."""

from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as papq
import pytest

from paimon_assets import assets
from paimon_assets.engine.spec.schema.schema import Schema
from tests.testkit.asset_tables import instance_beside, run

EVENTS = Schema.of({"id": "BIGINT"})


class Watched:
    """A folder, the asset it feeds, and the asset's sensor."""

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
        """Do what the sensor asked for."""
        options = {"run_config": request.run_config, "tags": request.tags}
        assert run(self.asset, self.paimon, instance=self.instance, **options).success


@pytest.fixture
def watched(tmp_path: Path, paimon: assets.PaimonCatalogResource) -> Watched:
    return Watched(tmp_path / "landing", paimon, max_files=2)


def request_of(ticked: Any) -> dg.RunRequest:
    assert isinstance(ticked, dg.SensorResult), ticked
    [request] = ticked.run_requests or []
    return request


def test_it_is_shipped_stopped_and_named_after_its_asset(watched: Watched) -> None:
    assert watched.sensor.default_status is dg.DefaultSensorStatus.STOPPED
    assert watched.sensor.name == "log__events_new_files"


def test_an_empty_folder_is_skipped_with_its_name(watched: Watched) -> None:
    ticked = watched.tick()
    assert isinstance(ticked, dg.SkipReason)
    assert str(watched.folder) in (ticked.skip_message or "")


def test_new_files_are_requested_once_until_they_are_ingested(watched: Watched) -> None:
    watched.land("a.parquet")
    first = request_of(watched.tick())
    again = watched.tick()
    assert isinstance(again, dg.SkipReason)
    assert first.run_key is not None
    assert first.run_key in (again.skip_message or "")
    watched.ingest(first)
    done = watched.tick()
    assert isinstance(done, dg.SkipReason)
    assert "all 1 file" in (done.skip_message or "")


def test_files_are_requested_again_after_a_rollback_and_after_a_recreate(watched: Watched) -> None:
    keys = []
    watched.land("a.parquet")
    watched.ingest(request_of(watched.tick()))
    watched.land("b.parquet")
    for _ in range(3):
        request = request_of(watched.tick())
        keys.append(request.run_key)
        assert isinstance(watched.tick(), dg.SkipReason), "once"
        watched.ingest(request)
        assert isinstance(watched.tick(), dg.SkipReason), "taken in"
        watched.paimon.catalog().get_table("log.events").rollback_to(1)
    watched.paimon.catalog().drop_table("log.events")
    watched.paimon.catalog().create_table("log.events", EVENTS)
    request = request_of(watched.tick())
    keys.append(request.run_key)
    watched.ingest(request)
    assert len(set(keys)) == 4


def test_a_tick_is_bounded_and_the_rest_follows(watched: Watched) -> None:
    watched.land("a.parquet", "b.parquet", "c.parquet")
    first = request_of(watched.tick())
    watched.ingest(first)
    second = request_of(watched.tick())
    assert first.run_key != second.run_key
    watched.ingest(second)
    assert isinstance(watched.tick(), dg.SkipReason)
    table = watched.paimon.catalog().get_table("log.events")
    assert [snapshot.delta_record_count for snapshot in table.snapshots()] == [2, 1]


def test_the_same_files_give_the_same_run_key_without_a_cursor(watched: Watched) -> None:
    watched.land("a.parquet")
    key = request_of(watched.tick()).run_key
    watched.cursor = None
    assert request_of(watched.tick()).run_key == key


def test_files_landing_beyond_the_bound_do_not_ask_again(watched: Watched) -> None:
    watched.land("a.parquet", "b.parquet")
    request_of(watched.tick())
    watched.land("c.parquet")
    assert isinstance(watched.tick(), dg.SkipReason)


def test_a_changed_file_is_named_instead_of_a_run_that_would_fail(watched: Watched) -> None:
    watched.land("a.parquet")
    watched.ingest(request_of(watched.tick()))
    papq.write_table(pa.table({"id": pa.array([1, 2], pa.int64())}), watched.folder / "a.parquet")
    ticked = watched.tick()
    assert isinstance(ticked, dg.SkipReason)
    assert "a.parquet in" in (ticked.skip_message or "")


def test_the_requested_config_is_valid_for_the_asset(watched: Watched) -> None:
    watched.land("a.parquet")
    request = request_of(watched.tick())
    job = dg.Definitions(
        assets=[watched.asset],
        resources={"paimon": watched.paimon},
        jobs=[dg.define_asset_job("ingest", selection="*")],
    ).resolve_job_def("ingest")
    config = dg.validate_run_config(job, request.run_config)
    assert config["ops"]["log__events"]["config"]["max_files"] == 2
