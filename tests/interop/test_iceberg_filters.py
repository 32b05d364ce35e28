"""pyiceberg's filters of partitions, beside its whole reads and a table that it wrote itself."""

import datetime as dt
import operator
from decimal import Decimal
from typing import Any

import pytest

from paimon_assets import Schema, open_catalog
from tests.iceberg.kit.histories import located
from tests.testkit.oracle import OracleError
from tests.testkit.tables import arrow

pytestmark = pytest.mark.interop

NAN, INF = float("nan"), float("inf")
DAY = dt.date(1969, 12, 31)
TIME = dt.datetime(1969, 12, 31, 23, 59, 59, 123_456)
PARTITIONS = {
    "BOOLEAN": [True, False],
    "TINYINT": [-128, 0, 127],
    "SMALLINT": [-300, 0, 300],
    "INT": [-(2**31), 0, 2**31 - 1],
    "BIGINT": [-(2**63), 0, 2**63 - 1],
    "FLOAT": [NAN, -INF, -1.5, -0.0, 0.0, 1.5, INF],
    "DOUBLE": [NAN, -INF, -1.5, -0.0, 0.0, 1.5, INF],
    "DECIMAL(10, 2)": [Decimal("-12.34"), Decimal("0.00"), Decimal("99999999.99")],
    "DECIMAL(38, 10)": [Decimal("-1.5").quantize(Decimal("1e-10")), Decimal("1e-10")],
    "CHAR(3)": ["abc", "xyz"],
    "VARCHAR(5)": ["", "äöü", "b"],
    "STRING": ["", "a" * 40, "a b/c=d%", "\U0001f600", "Z"],
    "BINARY(2)": [b"\x00\x01", b"\xff\xfe"],
    "BYTES": [b"", b"\x00", b"abc", b"\xff" * 20],
    "DATE": [dt.date(1, 1, 1), DAY, dt.date(9999, 12, 31)],
    "TIMESTAMP(3)": [TIME.replace(microsecond=123_000), dt.datetime(2024, 2, 29, 1)],
    "TIMESTAMP(6)": [dt.datetime(1, 1, 1), TIME, dt.datetime(2024, 2, 29, 1)],
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": [
        TIME.replace(tzinfo=dt.UTC), dt.datetime(2024, 2, 29, 1, tzinfo=dt.UTC),
    ],
}  # fmt: skip
OPERATORS = {
    "EqualTo": operator.eq, "NotEqualTo": operator.ne, "LessThan": operator.lt,
    "LessThanOrEqual": operator.le, "GreaterThan": operator.gt, "GreaterThanOrEqual": operator.ge,
    "In": operator.eq, "NotIn": operator.ne,
}  # fmt: skip


def _passing_ids(values: list[Any], name: str, number: int) -> list[int]:
    """Return the ids that pass a filter, by the values of a whole read."""
    if name in OPERATORS:
        passes = lambda value: value is not None and OPERATORS[name](value, values[number])  # noqa: E731
    else:
        passes = {
            "IsNull": lambda value: value is None,
            "NotNull": lambda value: value is not None,
            "IsNaN": lambda value: value != value,
            "NotNaN": lambda value: value is not None and value == value,
        }[name]
    return [number for number, value in enumerate(values) if passes(value)]


@pytest.mark.parametrize("kind", PARTITIONS)
def test_partitions_of_every_type_pass_filters_of_pyiceberg(tmp_path, iceberg, kind):
    catalog = open_catalog(str(tmp_path))
    catalog.create_database("db")
    columns, values = {"id": "BIGINT", "p": kind}, [*PARTITIONS[kind], None]
    by_folder = "true" if "ZONE" in kind else "false"  # folders of BYTES have names of ours
    options = {"metadata.iceberg.storage": "table-location", "partition.legacy-name": by_folder}
    schema = Schema.of(columns, partition_keys=["p"], options=options)
    table = catalog.create_table("db.t", schema)
    rows = arrow(columns, *enumerate(values))
    table.append(rows)
    whole = iceberg.read(located(table)).sort_by("id")["p"].to_pylist()
    assert repr(whole) == repr(table.to_arrow().sort_by("id")["p"].to_pylist())
    has_nan = kind in ("FLOAT", "DOUBLE")
    name = "".join(filter(str.isalnum, kind))
    iceberg.write(name, rows.slice(1) if has_nan else rows)  # pyiceberg writes no partition of NaN
    filters = [(each, number) for each in OPERATORS for number in range(has_nan, len(values) - 1)]
    filters += [("IsNull", 0), ("NotNull", 0), *([("IsNaN", 0), ("NotNaN", 0)] * has_nan)]
    differences = {}
    for each, number in filters:
        ours = _outcome(iceberg, f"{located(table)}##{each}@{number}")
        if ours != _passing_ids(whole, each, number):
            own = _outcome(iceberg, f"own:{name}##{each}@{number}")
            # It writes the rows of -0.0 and 0.0 twice, and we have a row of NaN, too.
            differences[each, values[number]] = ({*ours} - {0}, {*own})
    assert {whole[number] for _, number in filters} >= {*values[has_nan:-1]}
    for filter_, (ours, own) in differences.items():
        assert ours == own, filter_
    infinite = {value for _, value in differences}
    assert infinite == ({INF, -INF} if kind == "FLOAT" else set()), differences


def _outcome(iceberg: Any, place: str) -> Any:
    try:
        return sorted(iceberg.read(place)["id"].to_pylist())
    except OracleError as error:
        return str(error).strip().splitlines()[-1]
