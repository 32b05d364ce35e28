"""Fixtures of the asset tests: a warehouse on disk, read and written in this process."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from paimon_assets.assets import PaimonCatalogResource
from tests.testkit.kafka_broker import Broker, running_broker

OURS = "tests/assets/"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # Dagster 1.13 calls its own deprecated attribute when it sets up nested resources.
    ignored = pytest.mark.filterwarnings(
        "ignore:InitResourceContext.dagster_run:DeprecationWarning"
    )
    for item in items:
        if item.nodeid.startswith(OURS):
            item.add_marker(ignored)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker of Kafka, of one test module."""
    with running_broker() as broker:
        yield broker


@pytest.fixture
def warehouse(tmp_path: Path) -> str:
    """A warehouse that does not exist yet."""
    return str(tmp_path / "warehouse")


@pytest.fixture
def paimon(warehouse: str) -> PaimonCatalogResource:
    """The catalog resource of the warehouse, on the embedded executor."""
    return PaimonCatalogResource(warehouse=warehouse, executor="embedded")
