"""Casts between local times and instants, in zones where clocks jump."""

import datetime as dt

import pyarrow as pa
import pytest

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_type
from paimon_assets.engine.data.casting.casting import cast_array
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.options.all_options import CastDialect
from paimon_assets.engine.spec.types.type_text import parse_type

LTZ = "TIMESTAMP(3) WITH LOCAL TIME ZONE"
NEW_YORK, SHANGHAI = "America/New_York", "Asia/Shanghai"


def cast(value, source, target, zone, dialect=CastDialect.JAVA):
    column = pa.array([None, value], to_arrow_type(parse_type(source)))
    found = cast_array(column, parse_type(source), parse_type(target), dialect=dialect, zone=zone)
    assert found.type == to_arrow_type(parse_type(target))
    assert found[0].as_py() is None
    return found[1].as_py()


def utc(*parts):
    return dt.datetime(*parts, tzinfo=dt.UTC)


@pytest.mark.parametrize("dialect", list(CastDialect))
def test_local_times_and_instants_meet_in_the_zone(dialect):
    local, instant = dt.datetime(2024, 1, 2, 8), utc(2024, 1, 2)
    assert cast(local, "TIMESTAMP(3)", LTZ, SHANGHAI, dialect) == instant
    assert cast(instant, LTZ, "TIMESTAMP(3)", SHANGHAI, dialect) == local
    assert cast(dt.date(1970, 1, 2), "DATE", LTZ, SHANGHAI, dialect) == utc(1970, 1, 1, 16)
    shown = cast(instant, LTZ, "STRING", SHANGHAI, dialect)
    assert shown == "2024-01-02 08:00:00.000"
    assert cast(shown, "STRING", LTZ, SHANGHAI, dialect) == instant
    assert cast(utc(1969, 12, 31, 15), LTZ, "DATE", SHANGHAI, dialect) == dt.date(1969, 12, 31)
    assert cast(utc(1969, 12, 31, 16), LTZ, "DATE", SHANGHAI, dialect) == dt.date(1970, 1, 1)


def test_java_takes_the_earlier_of_two_instants_and_moves_times_that_are_left_out():
    twice, never = dt.datetime(2024, 11, 3, 1, 30), dt.datetime(2024, 3, 10, 2, 30)
    assert cast(twice, "TIMESTAMP(3)", LTZ, NEW_YORK) == utc(2024, 11, 3, 5, 30)
    assert cast(never, "TIMESTAMP(3)", LTZ, NEW_YORK) == utc(2024, 3, 10, 7, 30)
    for local in (twice, never):
        with pytest.raises(InvalidInputError, match="twice or never"):
            cast(local, "TIMESTAMP(3)", LTZ, NEW_YORK, CastDialect.CPP)


def test_seconds_are_those_of_utc_in_java_but_local_in_cpp():
    assert cast(0, "INT", "TIMESTAMP(3)", SHANGHAI) == dt.datetime(1970, 1, 1)
    local = dt.datetime(1970, 1, 1, 8)
    assert cast(0, "INT", "TIMESTAMP(3)", SHANGHAI, CastDialect.CPP) == local
    assert cast(local, "TIMESTAMP(3)", "BIGINT", SHANGHAI, CastDialect.CPP) == 0
    assert cast(local, "TIMESTAMP(3)", "BIGINT", SHANGHAI) == 8 * 3600


def test_java_takes_what_a_clock_shows_for_the_instant_of_seconds():
    assert cast(0, "INT", LTZ, SHANGHAI) == utc(1970, 1, 1, 8)
    assert cast(0, "INT", LTZ, SHANGHAI, CastDialect.CPP) == utc(1970, 1, 1)
    assert cast(utc(1970, 1, 1, 8), LTZ, "INT", SHANGHAI) == 8 * 3600


def test_digits_are_no_instant():
    assert cast("1", "STRING", "TIMESTAMP(3)", SHANGHAI) == dt.datetime(1970, 1, 1, 0, 0, 0, 1000)
    with pytest.raises(InvalidInputError):
        cast("1", "STRING", LTZ, SHANGHAI)


def test_a_move_beyond_the_last_nanosecond_is_an_error():
    nanos = "TIMESTAMP(9)"
    last = pa.array([2**63 - 1]).cast(to_arrow_type(parse_type(nanos)))
    zoned = parse_type(f"{nanos} WITH LOCAL TIME ZONE")
    with pytest.raises(InvalidInputError, match="cannot hold it"):
        cast_array(last, parse_type(nanos), zoned, zone=NEW_YORK)
