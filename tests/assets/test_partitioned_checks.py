"""Checks with a result for each partition: of the rows of that partition alone."""

import datetime as dt

import dagster as dg
import pandera.pyarrow as pap
import pyarrow as pa
import pytest

from paimon_assets.assets import (
    CheckOptions,
    build_pandera_checks,
    build_row_count_check,
    build_schema_check,
    build_sequence_check,
    build_unique_key_check,
    paimon_asset,
)
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.schema.schema import Schema
from tests.testkit.asset_tables import lent_instance, run

# Dagster 1.13 calls partitions of checks a preview.
pytestmark = pytest.mark.filterwarnings("ignore:Specifying a partitions_def on an AssetCheckSpec")

DAYS = dg.DailyPartitionsDefinition("2024-01-01", end_date="2024-01-04")
SALES = Schema.of({"day": "DATE", "id": "BIGINT", "amount": "DOUBLE"}, partition_keys=["day"])
BY_PARTITION = CheckOptions(by_partition=True)
AMOUNTS = {"2024-01-01": [1.0, 2.0], "2024-01-02": [-1.0], "2024-01-03": [5.0, 6.0, 7.0]}


@paimon_asset("shop.sales", SALES, partitions_def=DAYS, partition_column="day")
def sales(context) -> pa.Table:
    day = context.partition_key
    amounts = AMOUNTS[day]
    ids = [1] * len(amounts) if day == "2024-01-03" else list(range(len(amounts)))
    return pa.table({"day": [dt.date.fromisoformat(day)] * len(amounts), "id": ids,
                     "amount": amounts})  # fmt: skip


def results(check, paimon):
    """Materialize and check each day; the result of each."""
    with lent_instance() as instance:
        shown = {}
        for day in AMOUNTS:
            result = run([sales, check], paimon, partition_key=day, instance=instance)
            [evaluation] = result.get_asset_check_evaluations()
            shown[day] = (evaluation.passed, evaluation.partition)
        return {day: passed for day, (passed, partition) in shown.items() if partition == day}


def row_count():
    return build_row_count_check(sales, minimum=2, options=BY_PARTITION)


def unique_key():
    return build_unique_key_check(sales, ["id"], options=BY_PARTITION)


def positive_amounts():
    schema = pap.DataFrameSchema({"amount": pap.Column(pa.float64(), pap.Check.gt(0))})
    return build_pandera_checks(sales, schema, options=BY_PARTITION)


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (row_count, [True, False, True]),
        (unique_key, [True, True, False]),
        (positive_amounts, [True, False, True]),
    ],
)
def test_each_partition_has_a_result_of_its_rows_alone(paimon, build, expected):
    assert results(build(), paimon) == dict(zip(AMOUNTS, expected, strict=True))


def test_without_it_the_whole_table_is_checked(paimon):
    check = build_row_count_check(sales, minimum=2)
    assert next(iter(check.check_specs)).partitions_def is None
    for day in AMOUNTS:
        result = run([sales, check], paimon, partition_key=day)
    assert result.get_asset_check_evaluations()[0].metadata["paimon/rows"].value == 6


def test_what_looks_at_the_whole_table_is_refused(paimon):
    with pytest.raises(InvalidInputError, match="looks at the table as a whole") as refusal:
        build_schema_check(sales, SALES, options=BY_PARTITION)
    assert refusal.value.kind == "check-partitions"


def test_an_asset_without_partitions_is_refused():
    @paimon_asset("shop.plain", SALES)
    def plain():
        return None

    for build in (build_unique_key_check, build_sequence_check):
        with pytest.raises(InvalidInputError, match="no partitions_def and partition column"):
            build(plain, options=BY_PARTITION)
