"""Landed files are ingested exactly once, also after a crash between ledger and commit."""

import json
import os
from pathlib import Path
from shutil import rmtree
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.orc as paorc
import pyarrow.parquet as papq
import pytest

from paimon_assets import EmbeddedExecutor, InvalidInputError, Schema, Table
from paimon_assets.assets import (
    FileSource,
    IngestConfig,
    PaimonCatalogResource,
    build_file_ingestion_asset,
)
from paimon_assets.assets.files.ledger import load_ledger, property_of, write_ledger
from paimon_assets.engine.control.segments import FolderFile
from tests.testkit.asset_tables import (
    FailsOnce,
    catalog_on,
    data_version_of,
    failure_text,
    metadata_of,
    run,
)

pytestmark = pytest.mark.slow

EVENTS = Schema.of({"id": "BIGINT", "text": "STRING"})
KEY = dg.AssetKey(["log", "events"])


def land(folder: Path, name: str, *ids: int) -> Path:
    """A Parquet file of events lands by rename."""
    rows = pa.table({"id": pa.array(ids, pa.int64()), "text": [f"e{number}" for number in ids]})
    papq.write_table(rows, folder / f".{name}")
    return (folder / f".{name}").rename(folder / name)


def events(folder: Path, **options: Any) -> dg.AssetsDefinition:
    source = options.pop("source", FileSource(folder=str(folder)))
    return build_file_ingestion_asset("log.events", EVENTS, source=source, **options)


def config(**fields: Any) -> dg.RunConfig:
    return dg.RunConfig(ops={"log__events": IngestConfig(**fields)})


def table_of(paimon: PaimonCatalogResource) -> Table:
    return paimon.catalog().get_table("log.events")


def ids_of(paimon: PaimonCatalogResource) -> list[int]:
    """Return the ids in the order of the table."""
    return [row["id"] for row in table_of(paimon).new_read_builder().to_arrow().to_pylist()]


def test_files_are_ingested_once_in_path_order(
    landing: Path, paimon: PaimonCatalogResource
) -> None:
    land(landing, "b.parquet", 3, 4)
    land(landing, "a.parquet", 2, 1)
    asset = events(landing)
    first = metadata_of(run(asset, paimon), KEY)
    assert ids_of(paimon) == [2, 1, 3, 4]
    assert next(iter(first)) == "paimon/summary"
    assert first["paimon/summary"] == "2 files: 4 rows in, 4 written"
    assert (first["paimon/files_ingested"], first["paimon/rows_in"]) == (2, 4)
    assert [record.data["file"] for record in first["paimon/files_taken"]] == [
        "a.parquet",
        "b.parquet",
    ]

    land(landing, "0.parquet", 9)
    second = metadata_of(run(asset, paimon), KEY)
    assert ids_of(paimon) == [2, 1, 3, 4, 9]
    assert (second["paimon/files_ingested"], second["paimon/files_in_ledger"]) == (1, 3)


def test_run_without_new_files_commits_nothing(
    landing: Path, paimon: PaimonCatalogResource
) -> None:
    land(landing, "a.parquet", 1)
    run(events(landing), paimon)
    result = run(events(landing), paimon)
    shown = metadata_of(result, KEY)
    assert "nothing was committed" in shown["paimon/summary"]
    assert [*shown][:2] == ["paimon/summary", "paimon/rows_in"]
    assert (shown["paimon/files_ingested"], shown["paimon/rows_in"]) == (0, 0)
    assert data_version_of(result, KEY).startswith("1-")
    assert [snapshot.id for snapshot in table_of(paimon).snapshots()] == [1]


def test_empty_folder_makes_empty_table(landing: Path, paimon: PaimonCatalogResource) -> None:
    assert run(events(landing), paimon).success
    assert ids_of(paimon) == []
    assert table_of(paimon).latest_snapshot() is None


def test_hidden_empty_and_other_files_are_left_out(
    landing: Path, paimon: PaimonCatalogResource
) -> None:
    land(landing, "a.parquet", 1)
    land(landing, "_b.parquet", 2)
    (landing / "c.parquet").touch()
    (landing / "notes.txt").write_text("no rows")
    (landing / "d.parquet").mkdir()
    assert run(events(landing), paimon).success
    assert ids_of(paimon) == [1]


def test_max_files_takes_first_files(landing: Path, paimon: PaimonCatalogResource) -> None:
    for number in range(5):
        land(landing, f"{number}.parquet", number)
    shown = metadata_of(run(events(landing), paimon, run_config=config(max_files=2)), KEY)
    assert (shown["paimon/files_ingested"], shown["paimon/files_left"]) == (2, 3)
    assert ids_of(paimon) == [0, 1]
    run(events(landing), paimon)
    assert ids_of(paimon) == [0, 1, 2, 3, 4]


def test_dry_run_reports_and_writes_nothing(landing: Path, paimon: PaimonCatalogResource) -> None:
    land(landing, "a.parquet", 1)
    shown = metadata_of(run(events(landing), paimon, run_config=config(dry_run=True)), KEY)
    assert "Dry run: 1 new file would be ingested" in shown["paimon/summary"]
    assert paimon.catalog().list_databases() == []


@pytest.mark.parametrize("change", ["size", "time"])
def test_file_changed_after_its_ingestion_is_named(
    landing: Path, paimon: PaimonCatalogResource, change: str
) -> None:
    path = land(landing, "a.parquet", 1)
    run(events(landing), paimon)
    land(landing, "b.parquet", 2)
    if change == "size":
        land(landing, "a.parquet", 1, 5, 6)
    else:
        os.utime(path, (1, 1))
    text = failure_text(run(events(landing), paimon))
    assert "a.parquet in" in text
    assert "changed after being ingested" in text
    assert ids_of(paimon) == [1]


def test_file_changed_during_read_is_not_committed(
    landing: Path, paimon: PaimonCatalogResource
) -> None:
    land(landing, "a.parquet", 1)
    file = land(landing, "b.parquet", 2)

    def rewritten(rows: pa.RecordBatchReader) -> pa.Table:
        table = rows.read_all()
        land(landing, file.name, 2, 3, 4)
        return table

    result = run(events(landing, transform=rewritten), paimon)
    assert "b.parquet" in failure_text(result)
    assert "while being ingested" in failure_text(result)
    table = paimon.catalog().get_table("log.events")
    assert table.latest_snapshot() is None
    assert not list(Path(table.path).rglob("data-*"))
    assert metadata_of(run(events(landing), paimon), KEY)["paimon/rows_in"] == 4


def test_run_reports_that_its_folder_is_empty(landing: Path, paimon: PaimonCatalogResource) -> None:
    land(landing, "a.parquet", 1)
    result = run(events(landing), paimon, run_config=config(source=str(landing / "typo")))
    assert "typo" in failure_text(result)


def test_file_with_damaged_pages_is_named(landing: Path, paimon: PaimonCatalogResource) -> None:
    land(landing, "a.parquet", 1)
    file = land(landing, "b.parquet", *range(10_000))
    content = bytearray(file.read_bytes())
    content[4:60] = b"\xff" * 56
    file.write_bytes(content)
    assert "b.parquet" in failure_text(run(events(landing), paimon))
    assert paimon.catalog().get_table("log.events").latest_snapshot() is None


def test_deleted_file_is_ignored(landing: Path, paimon: PaimonCatalogResource) -> None:
    land(landing, "a.parquet", 1).unlink()
    land(landing, "b.parquet", 2)
    run(events(landing), paimon)
    (landing / "b.parquet").unlink()
    land(landing, "c.parquet", 3)
    run(events(landing), paimon)
    assert ids_of(paimon) == [2, 3]


def test_crash_between_ledger_and_commit_loses_no_file(
    landing: Path, paimon: PaimonCatalogResource
) -> None:
    land(landing, "a.parquet", 1)
    run(events(landing), paimon)
    land(landing, "b.parquet", 2)
    table = table_of(paimon)
    held = load_ledger(table, "log/events")
    dead = held.with_files([FolderFile(name="b.parquet", size=1, modified_ms=1)])
    write_ledger(table, dead)  # the run died here
    assert run(events(landing), paimon).success
    assert ids_of(paimon) == [1, 2]
    assert run(events(landing), paimon).success
    assert ids_of(paimon) == [1, 2]


def test_retry_after_commit_ingests_nothing_again(landing: Path, warehouse: str) -> None:
    file_io = FailsOnce(after_publish_of="/snapshot-1")
    paimon = catalog_on(file_io, warehouse)
    land(landing, "a.parquet", 1)
    result = run(events(landing), paimon)
    assert file_io.has_failed
    assert result.success, failure_text(result)
    shown = metadata_of(result, KEY)
    assert (shown["paimon/already_committed"], shown["paimon/snapshot_id"]) == (True, 1)
    assert ids_of(paimon) == [1]


def test_one_of_two_runs_with_same_files_commits(
    landing: Path, paimon: PaimonCatalogResource
) -> None:
    land(landing, "a.parquet", 1)
    raced: list[int] = []

    def race(frame: Any) -> Any:
        if not raced:
            raced.append(1)
            assert run(events(landing), paimon).success
        return frame

    result = run(events(landing, transform=race), paimon)
    assert result.success, failure_text(result)
    assert ids_of(paimon) == [1]
    assert metadata_of(result, KEY)["paimon/files_ingested"] == 0


@pytest.mark.way_out("ingestion-conflict")
def test_run_beside_rollback_is_run_again(landing: Path, paimon: PaimonCatalogResource) -> None:
    for name in "ab":
        land(landing, f"{name}.parquet", ord(name))
        run(events(landing), paimon)
    land(landing, "c.parquet", ord("c"))

    def undo(frame: Any) -> Any:
        table_of(paimon).rollback_to(1)
        return frame

    once = dg.RetryPolicy(max_retries=0)
    text = failure_text(run(events(landing, transform=undo, retry_policy=once), paimon))
    assert "nothing was committed. Run it again." in text
    assert run(events(landing), paimon).success
    assert ids_of(paimon) == [*b"abc"]


def test_ledger_is_found_behind_other_commits(landing: Path, paimon: PaimonCatalogResource) -> None:
    land(landing, "a.parquet", 1)
    run(events(landing), paimon)
    for number in (50, 51):
        rows = pa.table({"id": pa.array([number], pa.int64()), "text": ["by hand"]})
        table_of(paimon).new_write_builder().write(rows, EmbeddedExecutor())
    run(events(landing), paimon)
    assert ids_of(paimon) == [1, 50, 51]


@pytest.mark.way_out("ledger-expired")
def test_ledger_of_expired_snapshots_is_found_by_its_pointer(
    landing: Path, paimon: PaimonCatalogResource
) -> None:
    land(landing, "a.parquet", 1)
    run(events(landing), paimon)
    rows = pa.table({"id": pa.array([50], pa.int64()), "text": ["by hand"]})
    table_of(paimon).new_write_builder().write(rows, EmbeddedExecutor())
    directory = Path(table_of(paimon).path)
    (directory / "snapshot" / "snapshot-1").unlink()
    (directory / "snapshot" / "EARLIEST").write_text("2")
    # As another engine would have committed it.
    members = json.loads((directory / "snapshot" / "snapshot-2").read_bytes())
    del members["properties"]
    (directory / "snapshot" / "snapshot-2").write_text(json.dumps(members))
    assert run(events(landing), paimon).success
    assert ids_of(paimon) == [1, 50]
    for pointer in (directory / "ingestion").glob("pointer-*"):
        pointer.unlink()
    assert "have expired" in failure_text(run(events(landing), paimon))
    assert ids_of(paimon) == [1, 50]
    rmtree(directory / "ingestion")
    assert run(events(landing), paimon).success
    assert sorted(ids_of(paimon)) == [1, 1, 50]


def test_two_assets_ingest_two_folders_into_one_table(
    landing: Path, tmp_path: Path, paimon: PaimonCatalogResource
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    land(landing, "a.parquet", 1)
    land(other, "a.parquet", 2)
    run(events(landing), paimon)
    assert run(events(other, key=["log", "events_of_the_other"]), paimon).success
    assert ids_of(paimon) == [1, 2]


def test_snapshot_names_its_ledger(landing: Path, paimon: PaimonCatalogResource) -> None:
    land(landing, "a.parquet", 1)
    result = run(events(landing), paimon)
    snapshot = table_of(paimon).latest_snapshot()
    assert snapshot is not None
    assert snapshot.properties["dagster.run-id"] == result.run_id
    name = snapshot.properties[property_of("log/events")]
    assert (Path(table_of(paimon).path) / "ingestion" / name).exists()


def test_run_may_read_another_folder(
    landing: Path, tmp_path: Path, paimon: PaimonCatalogResource
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    land(other, "x.parquet", 7)
    run(events(landing), paimon, run_config=config(source=str(other)))
    assert ids_of(paimon) == [7]


def test_folder_may_come_from_environment(
    landing: Path, paimon: PaimonCatalogResource, monkeypatch: pytest.MonkeyPatch
) -> None:
    asset = events(landing, source=FileSource(folder=dg.EnvVar("LANDING_FOLDER")))
    assert "'LANDING_FOLDER', which is not set" in failure_text(run(asset, paimon))
    monkeypatch.setenv("LANDING_FOLDER", str(landing))
    land(landing, "a.parquet", 1)
    assert run(asset, paimon).success
    assert ids_of(paimon) == [1]


@pytest.mark.parametrize("file_format", ["csv", "json", "orc"])
def test_formats_are_read_as_declared_types(
    landing: Path, paimon: PaimonCatalogResource, file_format: Any
) -> None:
    rows = pa.table({"id": pa.array([1, 2], pa.int64()), "text": ["a", "07"]})
    path = landing / f"a.{file_format}"
    match file_format:
        case "csv":
            pacsv.write_csv(rows, path)
        case "json":
            path.write_text('{"id": 1, "text": "a"}\n{"id": 2, "text": "07"}\n')
        case _:
            paorc.write_table(rows, path)
    source = FileSource(folder=str(landing), format=file_format)
    result = run(events(landing, source=source), paimon)
    assert result.success, failure_text(result)
    assert table_of(paimon).new_read_builder().to_arrow().to_pylist() == rows.to_pylist()


def test_file_with_other_columns_is_named(landing: Path, paimon: PaimonCatalogResource) -> None:
    land(landing, "a.parquet", 1)
    papq.write_table(pa.table({"id": [1], "who": ["x"]}), landing / "b.parquet")
    text = failure_text(run(events(landing), paimon))
    assert "b.parquet' has columns that are not expected (who) and lacks columns (text)" in text
    assert table_of(paimon).latest_snapshot() is None


def test_file_with_other_types_is_named(landing: Path, paimon: PaimonCatalogResource) -> None:
    land(landing, "a.parquet", 1)
    papq.write_table(pa.table({"id": ["1"], "text": ["x"]}), landing / "b.parquet")
    text = failure_text(run(events(landing), paimon))
    assert "b.parquet' holds column 'id' as string, not as int64" in text


@pytest.mark.parametrize("file_format", ["parquet", "csv"])
def test_damaged_file_is_named(
    landing: Path, paimon: PaimonCatalogResource, file_format: Any
) -> None:
    (landing / f"bad.{file_format}").write_text("id,text\nx,y\n")
    source = FileSource(folder=str(landing), format=file_format)
    text = failure_text(run(events(landing, source=source), paimon))
    reasons = {"csv": "bad.csv', line 2: ", "parquet": "bad.parquet' cannot be read as parquet"}
    assert reasons[file_format] in text
    assert ("FileSource(on_bad_file='quarantine')." in text) == (file_format == "parquet")
    assert table_of(paimon).latest_snapshot() is None


def test_transform_maps_columns_of_files(landing: Path, paimon: PaimonCatalogResource) -> None:
    (landing / "a.csv").write_text("number,text\n1,a\n2,b\n")
    source = FileSource(
        folder=str(landing), format="csv", schema=Schema.of({"number": "BIGINT", "text": "STRING"})
    )

    def rename(frame: pa.RecordBatchReader) -> pa.Table:
        return frame.read_all().rename_columns(["id", "text"])

    result = run(events(landing, source=source, transform=rename), paimon)
    assert result.success, failure_text(result)
    assert ids_of(paimon) == [1, 2]


def test_files_without_rows_are_ingested(landing: Path, paimon: PaimonCatalogResource) -> None:
    land(landing, "a.parquet")
    run(events(landing), paimon)
    shown = metadata_of(run(events(landing), paimon), KEY)
    assert "it had 1 file before" in shown["paimon/summary"]


def test_ingestion_asset_has_no_partitions_and_no_check_specs(landing: Path) -> None:
    with pytest.raises(InvalidInputError, match="cannot have partitions_def"):
        events(landing, partitions_def=dg.DailyPartitionsDefinition("2013-01-01"))
    with pytest.raises(InvalidInputError, match="cannot have check_specs"):
        events(landing, check_specs=[dg.AssetCheckSpec("enough", asset=KEY)])


def test_launchpad_refuses_unknown_configuration(landing: Path) -> None:
    defs = dg.Definitions(
        assets=[events(landing)],
        resources={"paimon": PaimonCatalogResource(warehouse="x", executor="embedded")},
        jobs=[dg.define_asset_job("ingest", selection="*")],
    )
    job = defs.resolve_job_def("ingest")
    dg.validate_run_config(job, {"ops": {"log__events": {"config": {"dry_run": True}}}})
    with pytest.raises(dg.DagsterInvalidConfigError, match="dryrun"):
        dg.validate_run_config(job, {"ops": {"log__events": {"config": {"dryrun": True}}}})
