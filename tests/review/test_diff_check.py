"""The asset check on the share of rows that differ from an older state."""

from typing import Any

import dagster as dg
import pyarrow as pa

from paimon_assets import Schema, assets
from paimon_assets.review import build_diff_check
from tests.testkit.asset_tables import run

LOG = Schema.of({"id": "INT NOT NULL", "ts": "BIGINT"}, primary_keys="id")


def log_asset(*batches: list[tuple[int, int]]) -> dg.AssetsDefinition:
    left = iter(batches)

    @assets.paimon_asset("air.log", LOG)
    def log() -> pa.Table:
        ids, times = zip(*next(left), strict=True)
        return pa.table({"id": pa.array(ids, pa.int32()), "ts": times})

    return log


def test_write_that_changes_too_many_rows_fails(paimon: assets.PaimonCatalogResource) -> None:
    log = log_asset([(1, 10), (2, 10)], [(1, 11), (2, 11)], [(2, 12), (3, 12)])

    def evaluate(check: dg.AssetChecksDefinition) -> tuple[bool, str, Any]:
        [evaluation] = run([log, check], paimon).get_asset_check_evaluations()
        rows = evaluation.metadata.get("paimon/diff_rows")
        return evaluation.passed, evaluation.description or "", rows and rows.value

    check = build_diff_check(log, 0.5)
    assert evaluate(check) == (True, "There is no older state.", None)
    passed, text, rows = evaluate(check)
    assert (passed, rows) == (False, 2)
    assert "0 added, 0 removed, 2 changed; columns: ts (2)" in text
    passed, _, rows = evaluate(build_diff_check(log, 1.0, before="1"))
    assert (passed, rows) == (True, 3)
