import pytest

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.options.option import Options, parse_instant_ms
from paimon_assets.engine.spec.options.scan_options import (
    INCREMENTAL_BETWEEN,
    INCREMENTAL_BETWEEN_TIMESTAMP,
    SCAN_MODE,
    ScanMode,
)


@pytest.mark.parametrize(
    ("text", "millis"),
    [
        ("0", 0),
        ("-5", -5),
        (" 1700000000000 ", 1_700_000_000_000),
        ("1970-01-02", 86_400_000),
        ("1970-01-01 00:00:01", 1000),
        ("1970-01-01T00:00:01.234567", 1234),
        ("1970-01-01 02:00:00+02:00", 0),
        ("1969-12-31 23:59:59.999", -1),
    ],
)
def test_a_moment_is_milliseconds_or_a_time(text, millis):
    assert parse_instant_ms(text) == millis


def test_two_moments_stand_side_by_side():
    options = Options(
        {
            INCREMENTAL_BETWEEN.key: " v1 , v2 ",
            INCREMENTAL_BETWEEN_TIMESTAMP.key: "1000,1970-01-01 00:00:02",
            "log.scan": "LATEST",
        }
    )
    assert options.get(INCREMENTAL_BETWEEN) == ("v1", "v2")
    assert options.get(INCREMENTAL_BETWEEN_TIMESTAMP) == (1000, 2000)
    assert options.get(SCAN_MODE) is ScanMode.LATEST


@pytest.mark.parametrize("text", ["", "1", ",2", "1,", "1,2,3", "now,1"])
def test_anything_else_is_refused_by_the_option_s_name(text):
    options = Options({INCREMENTAL_BETWEEN_TIMESTAMP.key: text})
    with pytest.raises(InvalidInputError, match=INCREMENTAL_BETWEEN_TIMESTAMP.key):
        options.get(INCREMENTAL_BETWEEN_TIMESTAMP)
