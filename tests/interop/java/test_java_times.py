"""Timestamps of every year in ORC files, of either side; Arrow's reader does not hold them."""

import operator
import os
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from paimon_assets.engine.spec.schema.schema import Schema
from tests.interop.environment import ROOT, java_peer
from tests.interop.fuzz.values import arrow_rows
from tests.interop.java_values import as_java_says, java_rows
from tests.interop.steps import OurSide
from tests.testkit.oracle import Oracle

pytestmark = pytest.mark.interop

SECOND = 1_000_000_000
GREGORIAN = -12_219_292_800
"""1582-10-15; the ten days before are none in the calendar of Java."""
SECONDS = (
    -62_135_596_800,  # 0001-01-01
    -62_135_596_799, -50_000_000_000, GREGORIAN - 864_001, GREGORIAN, -9_223_372_037, -86_401,
    -2, 0, 1, 9_223_372_037, 253_402_300_799,
)  # fmt: skip
FRACTIONS = (0, 1_000, 999_000, 1_000_000, 123_456_000, 999_999_000)


@pytest.mark.parametrize("codec", ["none", "zstd", "snappy", "lz4"])
def test_orc_timestamps_of_every_year_are_read(
    codec: str, java: Oracle, shared_warehouse: Path
) -> None:
    options = {
        "file.format": "orc", "file.compression": codec, "orc.timestamp-ltz.legacy.type": "false"
    }  # fmt: skip
    columns = {
        "id": "INT", "t": "TIMESTAMP(6)", "m": "TIMESTAMP(3)",
        "z": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    }  # fmt: skip
    ours = OurSide(shared_warehouse)
    table = ours.create(f"times.orc_{codec}", Schema.of(columns, options=options))
    moments = [second * SECOND + fraction for second in SECONDS for fraction in FRACTIONS]
    rows: list[list[Any]] = [
        [number, None if number % 7 == 3 else at, at // 10**6 * 10**6, at]
        for number, at in enumerate(moments * 20)
    ]
    java.call("put", table=table.name, rows=rows)
    fields = table.schema.fields
    found = as_java_says(table.new_read_builder().to_arrow(), fields)
    assert found == sorted(map(repr, rows))
    # Days of the Julian calendar Java itself reads as others than it wrote.
    theirs = java_rows(java, table.name, fields)
    today = {repr(row) for row in rows if row[3] >= GREGORIAN * SECOND}
    assert [row for row in theirs if row in today] == [row for row in found if row in today]


def test_orc_timestamps_of_every_year_are_read_by_java(
    java: Oracle, shared_warehouse: Path
) -> None:
    options = {"file.format": "orc", "orc.timestamp-ltz.legacy.type": "false"}
    columns = {
        "id": "INT", "t": "TIMESTAMP(6)", "m": "TIMESTAMP(3)", "s": "TIMESTAMP(0)",
        "z": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    }  # fmt: skip
    ours = OurSide(shared_warehouse)
    table = ours.create("times.orc_ours", Schema.of(columns, options=options))
    moments = [
        second * SECOND + (fraction if second >= 0 else fraction // 10**6 * 10**6)
        for second in SECONDS
        for fraction in FRACTIONS
    ]
    rows: list[list[Any]] = [
        [number, None if number % 7 == 3 else at, at // 10**6 * 10**6, at // SECOND * SECOND, at]
        for number, at in enumerate(moments)
    ]
    fields = table.schema.fields
    table.new_write_builder().write(arrow_rows(rows, fields), ours.executor)
    found = as_java_says(table.new_read_builder().to_arrow(), fields)
    assert found == sorted(map(repr, rows))
    assert java_rows(java, table.name, fields) == found
    # Below, Java takes the bounds of a file for days of the Julian calendar.
    for at in [each for each in moments if each >= GREGORIAN * SECOND]:
        for function, compare in (("equal", operator.eq), ("greaterOrEqual", operator.ge)):
            asked = {"column": "t", "function": function, "literals": [at], "internal": True}
            wanted = [row for row in rows if row[1] is not None and compare(row[1], at)]
            matched = java_rows(java, table.name, fields, filter=asked)
            assert matched == sorted(map(repr, wanted))


ZONES = ("Asia/Shanghai", "America/New_York", "UTC")


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("legacy", [None, "true", "false"])
def test_instants_in_orc_are_those_of_java_in_any_zone(
    zone: str, legacy: str | None, shared_warehouse: Path, tmp_path: Path
) -> None:
    environment = {**os.environ, "JAVA_TOOL_OPTIONS": f"-Duser.timezone={zone}"}
    option = {} if legacy is None else {"orc.timestamp-ltz.legacy.type": legacy}
    columns = {
        "id": "INT", "t": "TIMESTAMP(3)", "z": "TIMESTAMP(3) WITH LOCAL TIME ZONE",
        "n": "ROW<z TIMESTAMP(3) WITH LOCAL TIME ZONE>",
    }  # fmt: skip
    ours = OurSide(shared_warehouse)
    name = f"times.zone_{zone.replace('/', '_').lower()}_{legacy}"
    table = ours.create(name, Schema.of(columns, options={"file.format": "orc", **option}))
    # Not in the hour that a clock skips, which Java's legacy files do not hold.
    moments = [second * SECOND for second in (0, 1_709_164_800, 1_719_792_001, 253_370_764_800)]
    rows = [[number, at, at, [at]] for number, at in enumerate(moments)]
    with Oracle(
        java_peer(shared_warehouse),
        exchange=tmp_path,
        working_directory=ROOT,
        environment=environment,
    ) as java:
        java.call("put", table=table.name, rows=rows[:-1])
        read = table.new_read_builder().to_arrow()
        plain = read.select(["id", "t", "z"])
        expected = sorted(repr(row[:3]) for row in rows[:-1])
        assert as_java_says(plain, table.schema.fields[:3]) == expected
        nested = pc.struct_field(read["n"].combine_chunks(), "z")
        assert nested.equals(read["z"].combine_chunks())
        # Beyond 64 bits of nanoseconds instants are decoded here.
        flat = {column: columns[column] for column in ("id", "t", "z")}
        schema = Schema.of(flat, options={"file.format": "orc", **option})
        far = ours.create(f"{name}_far", schema)
        java.call("put", table=far.name, rows=[[1, 0, moments[-1]]])
        found = as_java_says(far.new_read_builder().to_arrow(), far.schema.fields)
        assert found == [repr([1, 0, moments[-1]])]
