import os

import pytest

from paimon_assets.engine.control.managers.consumer_manager import ConsumerManager
from paimon_assets.engine.errors import FormatError, InvalidInputError
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.paths import TablePaths
from tests.testkit.metadata_tables import FixedClock


@pytest.fixture
def paths(tmp_path):
    return TablePaths(table=str(tmp_path))


@pytest.fixture
def consumers(paths):
    return ConsumerManager(LocalFileIO(), paths, clock=FixedClock())


def test_a_consumer_s_file_is_what_java_writes(consumers, paths):
    assert consumers.next_snapshot("etl") is None
    consumers.advance("etl", 4)
    assert LocalFileIO().read_bytes(paths.consumer("etl")) == b'{"nextSnapshot":4}'
    assert consumers.next_snapshot("etl") == 4


def test_advancing_never_goes_back(consumers):
    assert consumers.advance("etl", 4) == 4
    assert consumers.advance("etl", 4) == 4
    assert consumers.advance("etl", 2) == 4
    consumers.reset("etl", 2)
    assert consumers.next_snapshot("etl") == 2
    with pytest.raises(InvalidInputError, match="snapshot 0"):
        consumers.reset("etl", 0)


def test_the_slowest_consumer_holds_snapshots(consumers):
    assert consumers.min_next_snapshot() is None
    consumers.advance("a", 7)
    consumers.advance("b", 3)
    assert consumers.list() == {"a": 7, "b": 3}
    assert consumers.min_next_snapshot() == 3
    consumers.delete("b")
    consumers.delete("b")
    assert consumers.min_next_snapshot() == 7


def test_consumers_that_rest_too_long_are_forgotten(consumers, paths):
    now = FixedClock().now_millis() / 1000
    for name, age in (("old", 3600), ("new", 10)):
        consumers.advance(name, 1)
        os.utime(paths.consumer(name), (now - age, now - age))
    assert consumers.expire(60_000) == ("old",)
    assert consumers.list() == {"new": 1}


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b"{}", b'{"nextSnapshot":"4"}', b'{"nextSnapshot":true}', b"[" * 100_000],
    ids=range(6),
)
def test_a_damaged_file_is_named(consumers, paths, data):
    LocalFileIO().write_bytes(paths.consumer("etl"), data)
    with pytest.raises(FormatError, match="consumer-etl: not a consumer's file"):
        consumers.next_snapshot("etl")
