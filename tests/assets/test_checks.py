"""Checks of row counts and unique keys: results, metadata and executor."""

from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

from paimon_assets import InvalidInputError, Schema, assets
from paimon_assets.assets.check_run import EMBEDDED_LIMIT_ROWS, executor_of_check
from paimon_assets.assets.jobs.declared_tables import DeclaredTables
from tests.testkit.asset_tables import PLANES, asset_of, failure_text, planes, run, values_of

PAIRS = Schema.of({"a": "INT", "b": "STRING", "unread": "DOUBLE"})


@assets.paimon_asset("air.planes", PLANES)
def some_planes() -> pa.Table:
    return planes(("N1", 1, None), ("N2", 2, None), ("N2", 3, None))


def pairs_asset(*rows: tuple[int | None, str | None]) -> dg.AssetsDefinition:
    @assets.paimon_asset("air.pairs", PAIRS)
    def pairs() -> pa.Table:
        left, right = zip(*rows, strict=True)
        return pa.table(
            {
                "a": pa.array(left, pa.int32()),
                "b": pa.array(right, pa.string()),
                "unread": pa.nulls(len(rows), pa.float64()),
            }
        )

    return pairs


def evaluation_of(
    result: dg.ExecuteInProcessResult,
) -> tuple[dg.AssetCheckEvaluation, dict[str, Any]]:
    """Return the one evaluation, and its metadata as plain values."""
    [evaluation] = result.get_asset_check_evaluations()
    return evaluation, values_of(evaluation.metadata)


def test_row_count_counts_merged_rows(paimon: assets.PaimonCatalogResource) -> None:
    run(some_planes, paimon)
    check = assets.build_row_count_check(some_planes, 2)
    evaluation, metadata = evaluation_of(run([some_planes, check], paimon))
    assert evaluation.passed
    assert (metadata["paimon/rows"], metadata["paimon/stored_rows"]) == (2, 4)
    assert (evaluation.check_name, evaluation.asset_key) == ("row_count", some_planes.key)


@pytest.mark.parametrize(("expected", "text"), [(5, "3 missing"), (1, "1 too many")])
def test_wrong_row_count_shows_difference(
    paimon: assets.PaimonCatalogResource, expected: int, text: str
) -> None:
    check = assets.build_row_count_check(some_planes, lambda: expected)
    evaluation, metadata = evaluation_of(run([some_planes, check], paimon))
    assert not evaluation.passed
    assert text in (evaluation.description or "")
    assert metadata["paimon/difference"] == 2 - expected


def test_blocking_check_stops_downstream_assets(paimon: assets.PaimonCatalogResource) -> None:
    ran = []

    @dg.asset(deps=[some_planes])
    def downstream() -> None:
        ran.append(1)

    check = assets.build_row_count_check(
        some_planes, 99, options=assets.CheckOptions(blocking=True)
    )
    assert not run([some_planes, check, downstream], paimon).success
    assert not ran
    warned = assets.CheckOptions(blocking=True, severity=dg.AssetCheckSeverity.WARN)
    check = assets.build_row_count_check(some_planes, 99, options=warned)
    assert run([some_planes, check, downstream], paimon).success
    assert ran


def test_primary_key_is_unique_after_merging(paimon: assets.PaimonCatalogResource) -> None:
    evaluation, metadata = evaluation_of(
        run([some_planes, assets.build_unique_key_check(some_planes)], paimon)
    )
    assert evaluation.passed
    assert (metadata["paimon/rows"], metadata["paimon/duplicate_keys"]) == (2, 0)
    assert metadata["paimon/key"] == "tailnum"


def test_duplicate_keys_are_shown_worst_first(paimon: assets.PaimonCatalogResource) -> None:
    pairs = pairs_asset((1, "x"), (1, "x"), (1, "y"), (None, "x"), (None, "x"), (None, "x"))
    check = assets.build_unique_key_check(pairs, ["a", "b"])
    evaluation, metadata = evaluation_of(run([pairs, check], paimon))
    assert not evaluation.passed
    assert metadata["paimon/duplicate_keys"] == 2
    assert metadata["paimon/rows_with_duplicate_keys"] == 5
    assert [dict(record.data) for record in metadata["paimon/examples"]] == [
        {"a": None, "b": "x", "rows": 3},
        {"a": 1, "b": "x", "rows": 2},
    ]


def test_table_without_rows_passes(paimon: assets.PaimonCatalogResource) -> None:
    nothing = asset_of("air.planes", PLANES)
    checks = [assets.build_row_count_check(nothing, 0), assets.build_unique_key_check(nothing)]
    result = run([nothing, *checks], paimon)
    assert [evaluation.passed for evaluation in result.get_asset_check_evaluations()] == [True] * 2


def test_check_without_key_names_missing_argument(paimon: assets.PaimonCatalogResource) -> None:
    pairs = pairs_asset((1, "x"))
    text = failure_text(run([pairs, assets.build_unique_key_check(pairs)], paimon))
    assert "name the columns that must be unique" in text


def test_check_runs_without_its_asset(paimon: assets.PaimonCatalogResource) -> None:
    run(some_planes, paimon)
    check = assets.build_row_count_check(
        some_planes, 2, options=assets.CheckOptions(name="as_many_as_known")
    )
    chosen = dg.AssetSelection.checks(dg.AssetCheckKey(some_planes.key, "as_many_as_known"))
    result = run([some_planes, check], paimon, selection=chosen)
    assert result.get_asset_materialization_events() == []
    assert evaluation_of(result)[0].passed


def test_check_of_another_asset_is_refused() -> None:
    @dg.asset
    def other() -> None: ...

    with pytest.raises(InvalidInputError, match="'other' names no Paimon table"):
        assets.build_row_count_check(other, 1)


def test_check_finds_table_of_io_manager_asset(paimon: assets.PaimonCatalogResource) -> None:
    @dg.asset(key=["lake", "air", "seats"], io_manager_key="lake_io")
    def seats() -> pa.Table:
        return pa.table({"n": [1, 2]})

    result = dg.materialize(
        [seats, assets.build_row_count_check(seats, 2)],
        resources={"paimon": paimon, "lake_io": assets.PaimonIOManager(paimon=paimon)},
    )
    assert evaluation_of(result)[0].passed
    [declared] = DeclaredTables.of([seats]).tables
    assert str(declared.identifier) == "air.seats"


@pytest.mark.parametrize(
    ("resource", "own", "rows", "spark_"),
    [
        ("spark", None, EMBEDDED_LIMIT_ROWS, False),
        ("spark", None, EMBEDDED_LIMIT_ROWS + 1, True),
        ("spark", "spark", 1, True),
        ("spark", "embedded", 10**9, False),
        ("embedded", None, 10**9, False),
        ("embedded", "spark", 1, True),
    ],
)
def test_check_reads_on_spark_above_small_size(tmp_path, spark, resource, own, rows, spark_):
    on = assets.PaimonSparkResource(master="local[2]", extra={"spark.sql.shuffle.partitions": "2"})
    paimon = assets.PaimonCatalogResource(warehouse=str(tmp_path), executor=resource, spark=on)
    executor = executor_of_check(paimon, assets.CheckOptions(executor=own), rows)
    assert (type(executor).__name__ == "SparkExecutor") is spark_
