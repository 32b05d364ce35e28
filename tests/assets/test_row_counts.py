"""Row counts are compared with bounds and with earlier runs."""

from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

from paimon_assets import InvalidInputError, Schema, assets
from tests.testkit.asset_tables import lent_instance, run

SIZES: list[int] = []


def numbers(mode: str = "append") -> dg.AssetsDefinition:
    @assets.paimon_asset("air.numbers", Schema.of({"a": "INT"}), mode=mode)
    def asset() -> pa.Table | None:
        size = SIZES.pop(0)
        return pa.table({"a": pa.array(range(size), pa.int32())}) if size else None

    return asset


def evaluation_of(result: dg.ExecuteInProcessResult) -> dg.AssetCheckEvaluation:
    assert result.success
    [evaluation] = result.get_asset_check_evaluations()
    return evaluation


@pytest.mark.parametrize(
    ("low", "high", "passes"),
    [(3, None, True), (4, None, False), (None, 3, True), (None, 2, False), (1, 5, True)],
)
def test_row_count_is_compared_with_bounds(
    paimon: assets.PaimonCatalogResource, low: int, high: int, passes: bool
) -> None:
    SIZES[:] = [3]
    asset = numbers()
    check = assets.build_row_count_check(asset, minimum=low, maximum=high)
    evaluation = evaluation_of(run([asset, check], paimon))
    assert evaluation.passed is passes
    assert (evaluation.description or "").startswith("3 rows; expected: at ")


@pytest.mark.parametrize(
    "bounds", [{}, {"expected": 1, "minimum": 1}, {"minimum": 2, "maximum": 1}]
)
def test_invalid_bounds_are_refused(bounds: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError) as refused:
        assets.build_row_count_check(numbers(), **bounds)
    assert refused.value.kind == "check-bounds"


def last_anomaly(
    paimon: assets.PaimonCatalogResource, mode: str, *sizes: int
) -> dg.AssetCheckEvaluation:
    """Return the anomaly check of the last of several runs."""
    SIZES[:] = sizes
    asset = numbers(mode)
    check = assets.build_row_count_anomaly_check(asset, runs=5)
    with lent_instance() as instance:
        for _ in sizes[:-1]:
            run(asset, paimon, instance=instance)
        return evaluation_of(run([asset, check], paimon, instance=instance))


@pytest.mark.parametrize(
    ("mode", "sizes", "passes"),
    [
        ("append", (10, 11, 10, 0, 12, 11), True),
        ("append", (10, 11, 10, 10, 60), False),
        ("overwrite", (1000, 1001, 1000, 1002, 1003), True),
        ("overwrite", (1000, 1001, 1000, 1002, 500), False),
    ],
)
def test_run_unlike_earlier_runs_fails(
    paimon: assets.PaimonCatalogResource, mode: str, sizes: tuple[int, ...], passes: bool
) -> None:
    evaluation = last_anomaly(paimon, mode, *sizes)
    assert evaluation.passed is passes, evaluation.description
    assert evaluation.severity is dg.AssetCheckSeverity.WARN
    assert evaluation.metadata["paimon/runs_compared"].value == 3


def test_too_few_runs_to_compare_pass(paimon: assets.PaimonCatalogResource) -> None:
    evaluation = last_anomaly(paimon, "append", 1, 1, 900)
    assert evaluation.passed
    assert "2 of the 4 earlier runs" in (evaluation.description or "")
