"""Every kind of catalog, for tests that hold all of them to the same."""

from collections.abc import Callable
from pathlib import Path

from paimon_assets.engine.table.api import TableCatalog, open_catalog
from tests.testkit.served_catalog import ServedCatalog


def _filesystem(directory: Path) -> TableCatalog:
    return open_catalog(str(directory / "warehouse"))


def _served(directory: Path) -> TableCatalog:
    return TableCatalog(ServedCatalog(str(directory / "warehouse")))


def _external(directory: Path) -> TableCatalog:
    served = ServedCatalog(str(directory / "warehouse"))
    served.creates_external = True
    return TableCatalog(served)


CATALOG_KINDS: dict[str, Callable[[Path], TableCatalog]] = {
    "filesystem": _filesystem,
    "served": _served,
    "external": _external,
}
"""Name → (directory) → an empty catalog whose tables lie below it."""
