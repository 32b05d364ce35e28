"""Tables made from the first frame: they hold it, or do not exist."""

import datetime as dt
import re
from decimal import Decimal
from typing import Any

import dagster as dg
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from paimon_assets.assets import PaimonCatalogResource, paimon_output
from tests.testkit.asset_tables import failure_text, rows_of, stored_asset
from tests.testkit.io_manager_runs import io_run

KEY = dg.AssetKey(["shop", "made"])
ROW = {"x": 1, "y": [{"z": "a"}, None]}
STRUCT = pa.struct([("x", pa.int64()), ("y", pa.list_(pa.struct([("z", pa.string())])))])


def output_asset(frame: Any, **options: Any) -> dg.AssetsDefinition:
    return stored_asset(frame, key=KEY, metadata=paimon_output(**options))


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        (
            pa.table({"a": pa.array([ROW, None], STRUCT), "b": pa.array([ROW, None], STRUCT)}),
            [{"a": None, "b": None}, {"a": ROW, "b": ROW}],
        ),
        (
            pl.DataFrame(
                {
                    "big": pl.Series([2**64 - 1], dtype=pl.UInt64),
                    "at": [dt.time(1, 2, 3, 4000)],
                    "pair": pl.Series([[1, None]], dtype=pl.Array(pl.Int64, 2)),
                    "kind": pl.Series(["x"], dtype=pl.Categorical),
                }
            ),
            [
                {
                    "big": Decimal(2**64 - 1),
                    "at": dt.time(1, 2, 3, 4000),
                    "pair": [1, None],
                    "kind": "x",
                }
            ],
        ),
        (
            pd.DataFrame(
                {
                    "row": [ROW, None],
                    "amount": [Decimal("1.50"), 2],
                    "day": [dt.date(2024, 1, 1), pd.NaT],
                    "lists": [[1, None], []],
                }
            ),
            [
                {"row": None, "amount": Decimal("2.00"), "day": None, "lists": []},
                {
                    "row": ROW,
                    "amount": Decimal("1.50"),
                    "day": dt.date(2024, 1, 1),
                    "lists": [1, None],
                },
            ],
        ),
    ],
    ids=["structs", "polars", "pandas"],
)
def test_inferred_table_holds_its_frame(
    frame: Any, expected: list[Any], paimon: PaimonCatalogResource
) -> None:
    for _ in range(2):
        result = io_run(output_asset(frame), paimon)
        assert result.success, failure_text(result)
    assert rows_of(paimon.catalog().get_table("shop.made")) == sorted(expected, key=str)


FINE = dt.time(1, 2, 3, 4)
TIMES = pa.table({"at": pa.array([dt.time(1), FINE], pa.time64("us"))})


@pytest.mark.parametrize(
    ("frame", "options", "reason"),
    [
        (TIMES, {}, "'at' is TIME.*row 1"),
        (TIMES.to_reader(max_chunksize=1), {}, "'at' is TIME.*row 1"),
        (pa.table({"n": [1]}), {"mode": "upsert"}, "no primary key"),
        (pa.table({"n": pa.array([1], pa.duration("s"))}), {}, "'n' cannot be stored"),
        (pd.DataFrame({"n": [[1], "abc"]}), {}, "Column 'n' of the pandas frame"),
        (pd.DataFrame({"n": [1, "a"]}), {}, "Column 'n' of the pandas frame"),
    ],
    ids=["value", "stream", "mode", "type", "nested", "mixed"],
)
def test_failed_first_write_leaves_no_table(
    frame: Any, options: dict[str, Any], reason: str, paimon: PaimonCatalogResource
) -> None:
    result = io_run(output_asset(frame, **options), paimon)
    assert not result.success
    assert re.search(reason, failure_text(result))
    catalog = paimon.catalog()
    assert "shop" not in catalog.list_databases() or catalog.list_tables("shop") == []
    assert io_run(output_asset(pa.table({"n": ["now a text"]})), paimon).success


def test_failed_later_write_keeps_table(paimon: PaimonCatalogResource) -> None:
    assert io_run(output_asset(TIMES.slice(0, 1)), paimon).success
    assert not io_run(output_asset(TIMES), paimon).success
    assert len(rows_of(paimon.catalog().get_table("shop.made"))) == 1
