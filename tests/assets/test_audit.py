"""Write, audit, publish: a bad batch is never the current snapshot, and stays readable."""

from pathlib import Path
from typing import Any

import dagster as dg
import pandera.pyarrow as pap
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_assets import CommitUnknownError, Schema, open_catalog
from paimon_assets.assets import (
    Batch,
    BatchCheck,
    CheckOptions,
    FileSource,
    PaimonCatalogResource,
    Verdict,
    build_file_ingestion_asset,
    build_pandera_checks,
    failures,
    paimon_asset,
)
from paimon_assets.assets.tables import table_write
from paimon_assets.engine.control.maintenance.orphan_files import drop_rejected, staged_names
from tests.testkit.asset_tables import (
    PLANES,
    asset_of,
    failure_text,
    lent_instance,
    planes,
    rows_of,
    run,
)

pytestmark = pytest.mark.slow

SEATS = pap.DataFrameSchema(
    {"tailnum": pap.Column(str), "seats": pap.Column(pa.int32(), pap.Check.gt(0))}, name="seats"
)
PASSING = planes(("N1", 10, None), ("N2", 20, "jet"))
FAILING = planes(("N1", -5, None), ("N3", -5, None), ("N4", 7, None), ("N5", None, None))


def planes_asset(
    *frames: pa.Table, options: CheckOptions | None = None, **more: Any
) -> dg.AssetsDefinition:
    """Return an asset that writes the next frame in each run."""
    left = iter(frames)
    checks = build_pandera_checks(None, SEATS, when="before_commit", options=options)
    return asset_of("air.planes", PLANES, lambda: next(left), before_commit=checks, **more)


def evaluations(result: dg.ExecuteInProcessResult) -> dict[str, dg.AssetCheckEvaluation]:
    return {item.check_name: item for item in result.get_asset_check_evaluations()}


def test_passing_batch_is_committed_without_branch(paimon: PaimonCatalogResource) -> None:
    result = run(planes_asset(PASSING), paimon)
    assert result.success
    [evaluation] = evaluations(result).values()
    assert (evaluation.passed, evaluation.blocking) == (True, True)
    assert "2 rows of the batch: no failure" in (evaluation.description or "")
    table = paimon.catalog().get_table("air.planes")
    assert [row["tailnum"] for row in rows_of(table)] == ["N1", "N2"]
    assert table.branches.list() == {}
    snapshot = table.latest_snapshot()
    assert snapshot is not None
    manifests = {
        status.name for status in table.state.file_io.list_directory(f"{table.path}/manifest")
    }
    assert len(manifests) == 3, "one manifest and two lists, of the snapshot"
    assert snapshot.delta_manifest_list in manifests


def test_failing_batch_is_not_committed_and_stays_readable(
    paimon: PaimonCatalogResource, warehouse: str
) -> None:
    asset = planes_asset(PASSING, FAILING)
    assert run(asset, paimon).success
    reader = open_catalog(warehouse).get_table("air.planes")
    before = reader.latest_snapshot()
    result = run(asset, paimon)
    assert not result.success
    assert not result.get_asset_materialization_events()
    assert reader.latest_snapshot() == before, "for a reader opened before"
    assert [row["seats"] for row in rows_of(reader)] == [10, 20]

    [evaluation] = evaluations(result).values()
    assert not evaluation.passed
    metadata = {name: value.value for name, value in evaluation.metadata.items()}
    assert (metadata["paimon/rows"], metadata["paimon/failures"]) == (4, 3)
    lines: Any = evaluation.metadata["paimon/failure_table"]
    assert [dict(line.data) for line in lines.records] == [
        {"column": "seats", "check": "greater_than(0)", "failures": 2, "examples": "-5"},
        {"column": "seats", "check": "not_nullable", "failures": 1, "examples": "null"},
    ]
    text = failure_text(result)
    assert "2 of 4 rows of the batch failed greater_than(0) in column 'seats', such as -5" in text
    assert "air.planes stays at snapshot 1" in text
    [name] = staged_names(reader.branches.list())
    assert name.startswith(f"audit_{result.run_id[:8]}_")
    branch = f"air.planes$branch_{name}"
    assert branch in text
    assert metadata["paimon/batch"] == branch
    assert rows_of(open_catalog(warehouse).get_table(branch)) == FAILING.to_pylist()


def test_run_with_mended_rows_commits(paimon: PaimonCatalogResource) -> None:
    asset = planes_asset(FAILING, PASSING)
    assert not run(asset, paimon).success
    assert run(asset, paimon).success
    table = paimon.catalog().get_table("air.planes")
    assert len(rows_of(table)) == 2
    [name] = staged_names(table.branches.list())
    assert drop_rejected(table.state.store, before_millis=0).branches == ()
    assert drop_rejected(table.state.store, before_millis=2**53).branches == (name,)
    assert table.branches.list() == {}
    assert len(rows_of(table)) == 2


@pytest.mark.parametrize(
    "options",
    [CheckOptions(), CheckOptions(blocking=True, severity=dg.AssetCheckSeverity.WARN)],
    ids=["not-blocking", "warn"],
)
def test_batch_without_blocking_failures_is_committed_and_reported(
    paimon: PaimonCatalogResource, options: CheckOptions
) -> None:
    result = run(planes_asset(FAILING, options=options), paimon)
    assert result.success
    [evaluation] = evaluations(result).values()
    assert not evaluation.passed
    table = paimon.catalog().get_table("air.planes")
    assert len(rows_of(table)) == 4
    assert table.branches.list() == {}


def test_only_rows_of_batch_are_judged(paimon: PaimonCatalogResource) -> None:
    asset = planes_asset(FAILING, PASSING, options=CheckOptions(blocking=False))
    run(asset, paimon)
    [evaluation] = evaluations(run(asset, paimon)).values()
    assert evaluation.passed
    assert evaluation.metadata["paimon/rows"].value == 2


@pytest.mark.parametrize(
    "settings",
    [{"deletion-vectors.enabled": "true"}, {"merge-engine": "first-row"}, {"bucket": "-1"}],
    ids=["deletion-vectors", "first-row", "dynamic-bucket"],
)
def test_batch_that_readers_would_not_see_yet_is_judged(
    paimon: PaimonCatalogResource, settings: dict[str, str]
) -> None:
    schema = Schema.of(
        {"tailnum": "STRING", "seats": "INT", "engine": "STRING"},
        primary_keys=["tailnum"],
        options={"bucket": "1", "write-only": "true", **settings},
    )
    left = iter([PASSING, FAILING])
    checks = build_pandera_checks(None, SEATS, when="before_commit")
    some_planes = asset_of("air.planes", schema, lambda: next(left), before_commit=checks)
    assert run(some_planes, paimon).success
    result = run(some_planes, paimon)
    assert not result.success
    [evaluation] = evaluations(result).values()
    assert evaluation.metadata["paimon/failures"].value == 3
    newest = paimon.catalog().get_table("air.planes").latest_snapshot()
    assert newest is not None
    assert newest.id == 1


def test_failed_overwrite_keeps_stored_rows(paimon: PaimonCatalogResource) -> None:
    asset = planes_asset(PASSING, FAILING, PASSING, mode="overwrite")
    assert run(asset, paimon).success
    assert not run(asset, paimon).success
    table = paimon.catalog().get_table("air.planes")
    assert len(rows_of(table)) == 2
    assert run(asset, paimon).success
    assert len(rows_of(table)) == 2


def test_batch_without_rows_passes(paimon: PaimonCatalogResource) -> None:
    nothing = asset_of(
        "air.planes", PLANES, before_commit=build_pandera_checks(None, SEATS, when="before_commit")
    )
    result = run(nothing, paimon)
    assert result.success
    [evaluation] = evaluations(result).values()
    assert (evaluation.passed, evaluation.description) == (True, "There were no rows to judge.")


def test_check_that_raises_commits_and_leaves_nothing(paimon: PaimonCatalogResource) -> None:
    def fail(batch: Batch) -> Verdict:
        with batch.read.to_reader(batch.executor) as reader:
            assert reader.read_all().num_rows == 2
        raise ZeroDivisionError(batch.table)

    some_planes = asset_of(
        "air.planes", PLANES, PASSING, before_commit=[BatchCheck(name="broken", evaluate=fail)]
    )
    result = run(some_planes, paimon)
    assert not result.success
    assert "ZeroDivisionError: air.planes" in failure_text(result)
    table = paimon.catalog().get_table("air.planes")
    assert table.latest_snapshot() is None
    assert table.branches.list() == {}
    left = {path.name for path in Path(table.path).rglob("*") if path.is_file()}
    assert left == {"schema-0"}


def test_retry_after_commit_judges_same_batch(
    paimon: PaimonCatalogResource, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = []

    @paimon_asset(
        "air.planes",
        PLANES,
        before_commit=build_pandera_checks(
            None, SEATS, when="before_commit", options=CheckOptions(blocking=False)
        ),
    )
    def some_planes() -> pa.Table:
        written.append(1)
        return FAILING

    def dies_once(*args: Any, **options: Any) -> Any:
        monkeypatch.undo()
        raise CommitUnknownError("The answer was lost.")

    monkeypatch.setattr(table_write, "result_of_write", dies_once)
    monkeypatch.setattr(failures, "RETRY_WAIT_SECONDS", 0)
    result = run(some_planes, paimon)
    assert result.success
    [evaluation] = evaluations(result).values()
    assert evaluation.metadata["paimon/failures"].value == 3
    assert len(written) == 1
    newest = paimon.catalog().get_table("air.planes").latest_snapshot()
    assert newest is not None
    assert newest.id == 1


def test_landed_files_are_judged_before_ledger_has_them(
    paimon: PaimonCatalogResource, landing: Path
) -> None:
    folder = landing
    pq.write_table(FAILING, folder / "a.parquet")
    asset = build_file_ingestion_asset(
        "air.planes",
        PLANES,
        source=FileSource(folder=str(folder)),
        before_commit=build_pandera_checks(None, SEATS, when="before_commit"),
    )
    result = run(asset, paimon)
    assert not result.success
    assert not evaluations(result)["seats"].passed
    (folder / "a.parquet").unlink()
    pq.write_table(PASSING, folder / "b.parquet")
    assert run(asset, paimon).success
    assert len(rows_of(paimon.catalog().get_table("air.planes"))) == 2
    assert evaluations(run(asset, paimon))["seats"].passed


def test_check_that_rejects_batch_is_in_log_of_checks(paimon: PaimonCatalogResource) -> None:
    asset = planes_asset(FAILING)
    with lent_instance() as instance:
        run(asset, paimon, instance=instance)
        [key] = asset.check_keys
        record = instance.get_latest_asset_check_evaluation_record(key)
        assert instance.get_latest_materialization_event(asset.key) is None
    assert record is not None
    assert record.event is not None
    evaluation = record.event.asset_check_evaluation
    assert evaluation is not None
    assert (evaluation.passed, evaluation.blocking) == (False, True)


def test_checks_follow_key_prefix_of_their_asset(paimon: PaimonCatalogResource) -> None:
    asset = planes_asset(PASSING, key_prefix=["lake", "raw"])
    [spec] = asset.check_specs
    assert spec.asset_key == asset.key == dg.AssetKey(["lake", "raw", "planes"])
    assert run(asset, paimon).success


def test_batch_of_partitioned_append_table_is_judged(paimon: PaimonCatalogResource) -> None:
    schema = Schema.of(
        {"engine": "STRING", "tailnum": "STRING", "seats": "INT"}, partition_keys=["engine"]
    )
    left = iter([PASSING, FAILING])
    checks = build_pandera_checks(None, SEATS, when="before_commit")
    seats = asset_of("air.seats", schema, lambda: next(left), before_commit=checks)
    assert run(seats, paimon).success
    assert "2 of 4 rows" in failure_text(run(seats, paimon))
    table = paimon.catalog().get_table("air.seats")
    assert len(rows_of(table)) == 2
    [branch] = staged_names(table.branches.list())
    assert len(rows_of(table.at_branch(branch))) == 4


def test_two_assets_of_one_table_have_separate_rejected_batches(
    paimon: PaimonCatalogResource,
) -> None:
    checks = build_pandera_checks(None, SEATS, when="before_commit")

    def of(name: str, rows: pa.Table) -> dg.AssetsDefinition:
        return asset_of("air.planes", PLANES, rows, key=name, before_commit=checks)

    first, second = planes(("N1", -1, None)), planes(("N2", -2, None))
    assert not run([of("one", first)], paimon).success
    assert not run([of("two", second)], paimon).success
    table = paimon.catalog().get_table("air.planes")
    batches = [rows_of(table.at_branch(name)) for name in staged_names(table.branches.list())]
    assert sorted(batches, key=str) == [first.to_pylist(), second.to_pylist()]
