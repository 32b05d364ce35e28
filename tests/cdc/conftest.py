"""Fixtures of the tests of change data capture: assets, a landing folder, a broker of Kafka."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cdc.kit.kafka_broker import Broker, running_broker
from tests.testkit.asset_fixtures import mark_below, paimon, warehouse

__all__ = ["paimon", "warehouse"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Ignore a warning of Dagster's."""
    mark_below(items, "tests/cdc/")


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    """Return an empty folder for files that land."""
    folder = tmp_path / "landing"
    folder.mkdir()
    return folder


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker of Kafka, of one test module."""
    with running_broker() as broker:
        yield broker
