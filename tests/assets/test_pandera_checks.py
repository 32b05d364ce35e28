"""Pandera schemas as checks after a commit: rows read, failures counted, schemas refused."""

import datetime as dt
import decimal
from typing import Any

import dagster as dg
import pandera.pandas as pandas_schemas
import pandera.pyarrow as pap
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from paimon_assets import InvalidInputError, Schema
from paimon_assets.assets import (
    CheckOptions,
    PaimonCatalogResource,
    build_pandera_checks,
    paimon_asset,
)
from tests.testkit.asset_tables import asset_of, run

ORDERS = Schema.of(
    {"day": "DATE", "id": "BIGINT", "price": "DECIMAL(8, 2)", "note": "STRING"},
    partition_keys=["day"],
)
DAYS = dg.DailyPartitionsDefinition(start_date="2024-01-01", end_date="2024-01-04")


def positive(data: Any) -> Any:
    """Compare decimals, which pandera does not know."""
    return pc.greater(data.table[data.key], pa.scalar(decimal.Decimal(0)))


PRICES = pap.DataFrameSchema(
    {"id": pap.Column(int), "price": pap.Column(None, pap.Check(positive, name="positive"))}
)


def orders(*rows: tuple[str, int, str]) -> pa.Table:
    days, numbers, prices = zip(*rows, strict=True)
    return pa.table(
        {
            "day": [dt.date.fromisoformat(day) for day in days],
            "id": pa.array(numbers, pa.int64()),
            "price": pa.array([decimal.Decimal(price) for price in prices], pa.decimal128(8, 2)),
            "note": pa.array([None] * len(rows), pa.string()),
        }
    )


def orders_asset(rows: pa.Table, **options: Any) -> dg.AssetsDefinition:
    @paimon_asset("shop.orders", ORDERS, **options)
    def some_orders(context: dg.AssetExecutionContext) -> pa.Table:
        if not context.has_partition_key:
            return rows
        day = dt.date.fromisoformat(context.partition_key)
        return rows.filter(pc.equal(rows["day"], pa.scalar(day)))

    return some_orders


def check_result(result: dg.ExecuteInProcessResult) -> tuple[bool, dict[str, Any]]:
    [evaluation] = result.get_asset_check_evaluations()
    metadata = {
        name: [dict(record.data) for record in value.records]
        if isinstance(value, dg.TableMetadataValue)
        else value.value
        for name, value in evaluation.metadata.items()
    }
    return evaluation.passed, metadata


ROWS = orders(("2024-01-01", 1, "5.00"), ("2024-01-02", 2, "-1.00"), ("2024-01-03", 3, "-2.00"))


def test_failures_are_counted_with_examples(paimon: PaimonCatalogResource) -> None:
    asset = orders_asset(ROWS)
    passed, metadata = check_result(run([asset, build_pandera_checks(asset, PRICES)], paimon))
    assert not passed
    assert metadata["paimon/failure_table"] == [
        {"column": "price", "check": "positive", "failures": 2, "examples": "-1.00, -2.00"}
    ]
    assert (metadata["paimon/rows"], metadata["paimon/snapshot_id"]) == (3, "1")


def test_only_partitions_of_run_are_judged(paimon: PaimonCatalogResource) -> None:
    asset = orders_asset(ROWS, partitions_def=DAYS, partition_column="day")
    check = build_pandera_checks(asset, PRICES)
    answers = [
        check_result(run([asset, check], paimon, partition_key=day))
        for day in ("2024-01-02", "2024-01-01")
    ]
    assert [(passed, metadata["paimon/rows"]) for passed, metadata in answers] == [
        (False, 1),
        (True, 1),
    ]


def test_failures_add_up_over_batches(paimon: PaimonCatalogResource) -> None:
    rows = orders(*(("2024-01-01", number, str(number % 3 - 1)) for number in range(1000)))
    in_many_files = asset_of("shop.orders", ORDERS, rows)
    for _ in range(3):
        run(in_many_files, paimon)
    check = build_pandera_checks(in_many_files, PRICES)
    passed, metadata = check_result(run([in_many_files, check], paimon))
    assert not passed
    [line] = metadata["paimon/failure_table"]
    assert (line["failures"], line["examples"]) == (4 * 667, "-1.00, 0.00")
    assert metadata["paimon/rows"] == 4000


@pytest.mark.parametrize(
    ("schema", "lines"),
    [
        (
            pap.DataFrameSchema({"nowhere": pap.Column(int), "no": pap.Column(int)}, name="shop"),
            [("no", "column_in_dataframe", 1), ("nowhere", "column_in_dataframe", 1)],
        ),
        (pap.DataFrameSchema({"note": pap.Column(int)}), [("note", "dtype('Int64')", 1)]),
        (
            pap.DataFrameSchema({"id": pap.Column(int)}, strict=True),
            [("day", "column_in_schema", 1)],  # pandera looks no further than the first
        ),
    ],
    ids=["missing", "type", "strict"],
)
def test_fault_of_column_is_reported_once(
    paimon: PaimonCatalogResource, schema: pap.DataFrameSchema, lines: list[tuple[str, str, int]]
) -> None:
    asset = orders_asset(ROWS)
    passed, metadata = check_result(run([asset, build_pandera_checks(asset, schema)], paimon))
    assert not passed
    found = [
        (line["column"], line["check"], line["failures"])
        for line in metadata["paimon/failure_table"]
    ]
    assert found == lines


def test_model_names_and_column_patterns_are_used(paimon: PaimonCatalogResource) -> None:
    class Ids(pap.DataFrameModel):
        id: int = pap.Field(le=2)

        class Config:
            name = "order ids"

    asset = orders_asset(ROWS)
    options = CheckOptions(blocking=True, severity=dg.AssetCheckSeverity.WARN)
    check = build_pandera_checks(asset, Ids, options=options)
    [spec] = check.check_specs
    assert (spec.name, spec.blocking) == ("order_ids", True)
    passed, metadata = check_result(run([asset, check], paimon))
    assert not passed
    assert metadata["paimon/failures"] == 1
    pattern = pap.DataFrameSchema({"^i.$": pap.Column(int, pap.Check.gt(1), regex=True)})
    check = build_pandera_checks(asset, pattern, options=CheckOptions(name="patterns"))
    passed, metadata = check_result(run([asset, check], paimon))
    assert metadata["paimon/failures"] == 2  # one row of each run


def test_uncheckable_schema_is_refused_when_it_is_defined() -> None:
    asset = orders_asset(ROWS)
    with pytest.raises(InvalidInputError, match=r"unique values \(id\).*unique_key_check"):
        build_pandera_checks(asset, pap.DataFrameSchema({"id": pap.Column(int, unique=True)}))
    with pytest.raises(InvalidInputError, match=r"unique values \(id\)"):
        build_pandera_checks(asset, pap.DataFrameSchema({"id": pap.Column(int)}, unique=["id"]))
    foreign: Any = pandas_schemas.DataFrameSchema({"id": pandas_schemas.Column(int)})
    with pytest.raises(InvalidInputError, match=r"expected a DataFrameSchema .* pandera.pyarrow"):
        build_pandera_checks(asset, foreign)
    wrong: Any = {"when": "before_commit"}
    with pytest.raises(InvalidInputError, match="hand them to it as before_commit="):
        build_pandera_checks(asset, PRICES, **wrong)
