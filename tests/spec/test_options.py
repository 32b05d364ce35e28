import pytest

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.options.all_options import (
    ALL_OPTIONS,
    BUCKET,
    IGNORE_DELETE,
    PARTITION_LEGACY_NAME,
    Options,
    parse_duration_ms,
    parse_memory,
)


def test_an_absent_option_has_its_default():
    assert Options({}).get(BUCKET) == -1


def test_a_fallback_key_is_found():
    assert Options({"deduplicate.ignore-delete": "TRUE"}).get(IGNORE_DELETE) is True


def test_a_bad_value_names_option_and_text():
    with pytest.raises(InvalidInputError, match=r"'partition.legacy-name' has the value 'yes'"):
        Options({"partition.legacy-name": "yes"}).get(PARTITION_LEGACY_NAME)


@pytest.mark.parametrize("text", ["", "mb", "1 xb", "-1 mb", "1.5 gb"])
def test_a_bad_memory_size_is_refused(text):
    with pytest.raises(ValueError, match="size"):
        parse_memory(text)


@pytest.mark.parametrize(("text", "millis"), [("1 d", 86_400_000), ("5min", 300_000), ("7", 7)])
def test_durations_are_milliseconds(text, millis):
    assert parse_duration_ms(text) == millis


def test_every_option_says_what_it_means_and_is_listed_once():
    keys = [option.key for option in ALL_OPTIONS]
    assert len(keys) == len(set(keys))
    assert all(option.description.endswith(".") for option in ALL_OPTIONS)
