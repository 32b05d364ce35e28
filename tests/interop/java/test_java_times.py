"""Timestamps of every year in ORC files, of either side; Arrow's reader does not hold them."""

import datetime as dt
import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paimon_assets import FormatError, Schema
from paimon_assets.engine.spec.predicate.predicate import CompareOp, Comparison
from tests.interop.java_values import as_java_texts, java_rows
from tests.interop.steps import OurSide
from tests.testkit.oracle import Oracle
from tools.fuzz.values import arrow_rows

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
def test_orc_timestamps_of_every_year_are_read(codec: str, java: Oracle, ours: OurSide) -> None:
    options = {
        "file.format": "orc", "file.compression": codec, "orc.timestamp-ltz.legacy.type": "false"
    }  # fmt: skip
    columns = {
        "id": "INT", "t": "TIMESTAMP(6)", "m": "TIMESTAMP(3)",
        "z": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    }  # fmt: skip
    table = ours.create(f"times.orc_{codec}", Schema.of(columns, options=options))
    times = [second * SECOND + fraction for second in SECONDS for fraction in FRACTIONS]
    rows: list[list[Any]] = [
        [number, None if number % 7 == 3 else at, at // 10**6 * 10**6, at]
        for number, at in enumerate(times * 20)
    ]
    java.call("put", table=table.name, rows=rows)
    fields = table.schema.fields
    found = as_java_texts(table.new_read_builder().to_arrow(), fields)
    assert found == sorted(map(repr, rows))
    # Java reads days of the Julian calendar differently from its own writes.
    theirs = java_rows(java, table.name, fields)
    today = {repr(row) for row in rows if row[3] >= GREGORIAN * SECOND}
    assert [row for row in theirs if row in today] == [row for row in found if row in today]


def test_orc_timestamps_of_every_year_are_read_by_java(java: Oracle, ours: OurSide) -> None:
    options = {"file.format": "orc", "orc.timestamp-ltz.legacy.type": "false"}
    columns = {
        "id": "INT", "t": "TIMESTAMP(6)", "m": "TIMESTAMP(3)", "s": "TIMESTAMP(0)",
        "z": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    }  # fmt: skip
    table = ours.create("times.orc_ours", Schema.of(columns, options=options))
    times = [
        second * SECOND + (fraction if second >= 0 else fraction // 10**6 * 10**6)
        for second in SECONDS
        for fraction in FRACTIONS
    ]
    rows: list[list[Any]] = [
        [number, None if number % 7 == 3 else at, at // 10**6 * 10**6, at // SECOND * SECOND, at]
        for number, at in enumerate(times)
    ]
    fields = table.schema.fields
    table.new_write_builder().write(arrow_rows(rows, fields), ours.executor)
    found = as_java_texts(table.new_read_builder().to_arrow(), fields)
    assert found == sorted(map(repr, rows))
    assert java_rows(java, table.name, fields) == found
    # Below, Java takes the bounds of a file for days of the Julian calendar.
    for at in [each for each in times if each >= GREGORIAN * SECOND]:
        for function, compare in (("equal", operator.eq), ("greaterOrEqual", operator.ge)):
            asked = {"column": "t", "function": function, "literals": [at], "internal": True}
            wanted = [row for row in rows if row[1] is not None and compare(row[1], at)]
            matched = java_rows(java, table.name, fields, filter=asked)
            assert matched == sorted(map(repr, wanted))


@pytest.mark.parametrize("zone", ["Asia/Shanghai", "America/New_York", "Europe/London", "UTC"])
@pytest.mark.parametrize("legacy", ["true", "false"])
@pytest.mark.parametrize("beside", ["TIMESTAMP(3)", "INT"])
@pytest.mark.way_out("orc-zone")
def test_orc_instants_of_java_in_any_zone_are_read(
    zone: str, legacy: str, beside: str, java_in: Callable[[str], Oracle], ours: OurSide
) -> None:
    options = {"file.format": "orc", "orc.timestamp-ltz.legacy.type": legacy}
    columns = {
        "id": "INT", "beside": beside, "z": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
        "f": "TIMESTAMP(9) WITH LOCAL TIME ZONE", "far": "TIMESTAMP_LTZ(3)",
        "l": "ARRAY<ROW<z TIMESTAMP(3) WITH LOCAL TIME ZONE>>",
    }  # fmt: skip
    name = f"times.zone_{zone}_{legacy}_{beside[:3]}".replace("/", "_")
    table = ours.create(name, Schema.of(columns, options=options))
    near = [
        -2_000_000_000, -86_401, -30_000, -2, 0, 1, 30_000, 1_709_164_800, 1_720_000_000,
        4_102_444_800 + 180 * 86_400, 4_110_000_000, 7_000_000_000,
    ]  # fmt: skip
    far = [*SECONDS, 9_223_286_400, 253_402_200_000, 253_390_000_000]
    times = [at * SECOND + fraction for at in near for fraction in (*FRACTIONS, 999_999_999)]
    rows: list[list[Any]] = [
        [
            number,
            None,
            None if number % 5 == 4 else at // 1000 * 1000,
            at,
            far[number % len(far)] * SECOND,
            None if number % 7 == 6 else [[at // 10**6 * 10**6], [None], None],
        ]
        for number, at in enumerate(times)
    ]
    java = java_in(zone)
    java.call("put", table=table.name, rows=rows)
    java.call("compact", table=table.name)
    *fields, nested = table.schema.fields
    if zone != "UTC" and legacy == "true" and beside == "INT":
        assert table.new_read_builder().with_columns(["id"]).to_arrow().num_rows == len(rows)
        with pytest.raises(FormatError, match=r"does not name the zone.*cast\.time-zone") as raised:
            table.new_read_builder().to_arrow()
        assert raised.value.kind == "orc-zone"
        table = table.copy({"cast.time-zone": zone})
    found = table.new_read_builder().to_arrow()
    assert as_java_texts(found, fields) == sorted(repr(row[:-1]) for row in rows)
    inside = {
        number: None if each is None else [row and row["z"] for row in each]
        for number, each in zip(
            *found.select(["id", nested.name]).to_pydict().values(), strict=True
        )
    }
    unix = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    assert inside == {
        number: each and [unix + dt.timedelta(microseconds=each[0][0] // 1000), None, None]
        for number, *_, each in rows
    }
    for at in near:
        asked = table.new_read_builder().with_filter(
            Comparison("z", CompareOp.GE, unix + dt.timedelta(seconds=at))
        )
        assert asked.to_arrow().num_rows == sum(
            row[2] is not None and row[2] >= at * SECOND for row in rows
        )


@pytest.mark.parametrize(
    "zone", ["Asia/Shanghai", "Asia/Kolkata", "Asia/Riyadh", "America/New_York", "Europe/Moscow"]
)
def test_old_orc_timestamps_of_java_in_any_zone_are_read(
    zone: str, java_in: Callable[[str], Oracle], ours: OurSide
) -> None:
    columns = {
        "id": "INT", "t": "TIMESTAMP(6)", "far": "TIMESTAMP(3)", "l": "ARRAY<ROW<t TIMESTAMP(3)>>"
    }  # fmt: skip
    schema = Schema.of(columns, options={"file.format": "orc"})
    table = ours.create(f"times.old_{zone}".replace("/", "_"), schema)
    first, last = -8_835_868_800, -600_000_000  # 1690, 1950
    seconds = [
        *range(first, last, 97 * 86_400 + 4_321),
        *range(-2_208_990_000, -2_177_400_000, 99_990),
    ]
    rows: list[list[Any]] = [
        [
            number,
            second * SECOND + FRACTIONS[number % len(FRACTIONS)],
            SECONDS[number % len(SECONDS)] * SECOND,
            [[second * SECOND], None],
        ]
        for number, second in enumerate(seconds)
    ]
    java_in(zone).call("put", table=table.name, rows=rows)
    found = table.new_read_builder().to_arrow().sort_by("id")
    *fields, _ = table.schema.fields
    assert as_java_texts(found.select(["id", "t", "far"]), fields) == sorted(
        repr(row[:-1]) for row in rows
    )
    unix = dt.datetime(1970, 1, 1)
    assert found["l"].to_pylist() == [
        [{"t": unix + dt.timedelta(seconds=second)}, None] for second in seconds
    ]


def test_nanoseconds_beside_distant_years_are_kept_or_refused(
    java_in: Callable[[str], Oracle], shared_warehouse: Path
) -> None:
    """Statistics of a JVM's zone lie beyond 1677 where the values themselves do not."""
    ours, java = OurSide(shared_warehouse), java_in("Asia/Shanghai")
    columns = {"id": "INT", "z": "TIMESTAMP(9) WITH LOCAL TIME ZONE", "t": "TIMESTAMP(3)"}
    table = ours.create("times.nanos", Schema.of(columns, options={"file.format": "orc"}))
    rows: list[list[Any]] = [[1, -9_223_372_036 * SECOND, 0], [2, 752_466_791, 0], [3, None, 0]]
    java.call("put", table=table.name, rows=rows)
    found = table.new_read_builder().to_arrow()
    assert as_java_texts(found, table.schema.fields) == sorted(map(repr, rows))
    java.call("put", table=table.name, rows=[[4, -9_300_000_000 * SECOND, 0], [5, 1, 0]])
    with pytest.raises(FormatError, match="both nanoseconds and years outside") as raised:
        table.new_read_builder().to_arrow()
    assert raised.value.kind == "orc-timestamp"
    unnamed = Schema.of({"id": "INT", "z": columns["z"]}, options={"file.format": "orc"})
    table = ours.create("times.nanos_unnamed", unnamed)
    java.call("put", table=table.name, rows=[row[:2] for row in rows])
    with pytest.raises(FormatError, match="does not name the zone") as raised:
        table.new_read_builder().to_arrow()
    assert raised.value.kind == "orc-zone"


def test_zone_known_to_java_alone_is_named(java_in: Callable[[str], Oracle], ours: OurSide) -> None:
    columns = {"id": "INT", "t": "TIMESTAMP(3)"}
    table = ours.create("times.odd", Schema.of(columns, options={"file.format": "orc"}))
    java_in("GMT+05:30").call("put", table=table.name, rows=[[1, 0]])
    assert table.new_read_builder().with_columns(["id"]).to_arrow().to_pydict() == {"id": [1]}
    with pytest.raises(FormatError, match=r"zone 'GMT\+05:30', which is not known") as raised:
        table.new_read_builder().to_arrow()
    assert raised.value.kind == "orc-zone"
