"""Fixtures of tests that run assets: a warehouse on disk, read and written in this process."""

from pathlib import Path

import pytest

from paimon_assets.assets import PaimonCatalogResource

RESOURCE_WARNING = pytest.mark.filterwarnings(
    "ignore:InitResourceContext.dagster_run:DeprecationWarning"
)
"""Dagster 1.13 calls its own deprecated attribute when it sets up nested resources."""


def mark_below(items: list[pytest.Item], folder: str) -> None:
    """Let the tests of a folder ignore that warning."""
    for item in items:
        if item.nodeid.startswith(folder):
            item.add_marker(RESOURCE_WARNING)


@pytest.fixture
def warehouse(tmp_path: Path) -> str:
    """A warehouse that does not exist yet."""
    return str(tmp_path / "warehouse")


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    """Return an empty folder for files that land."""
    folder = tmp_path / "landing"
    folder.mkdir()
    return folder


@pytest.fixture
def paimon(warehouse: str) -> PaimonCatalogResource:
    """The catalog resource of the warehouse, on the embedded executor."""
    return PaimonCatalogResource(warehouse=warehouse, executor="embedded")
