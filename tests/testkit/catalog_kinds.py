"""Every kind of catalog, for tests that hold all of them to the same."""

import weakref
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from threading import Thread

from paimon_assets.engine.table.api import TableCatalog, open_catalog
from paimon_assets.server.serve import ServeSettings
from tests.testkit.rest_server import serving
from tests.testkit.served_catalog import ServedCatalog


def _filesystem(directory: Path) -> TableCatalog:
    return open_catalog(str(directory / "warehouse"))


def _managing(directory: Path) -> TableCatalog:
    return TableCatalog(ServedCatalog(str(directory / "warehouse")))


def _external(directory: Path) -> TableCatalog:
    served = ServedCatalog(str(directory / "warehouse"))
    served.creates_external = True
    return TableCatalog(served)


def _rest(directory: Path) -> TableCatalog:
    """Return our client of our server, which ends with it."""
    warehouse = directory / "warehouse"
    warehouse.mkdir(parents=True)
    running = ExitStack()
    server = running.enter_context(serving(ServeSettings(warehouse=str(warehouse), insecure=True)))
    uri = f"http://127.0.0.1:{server.port}"
    opened = open_catalog(metastore="rest", uri=uri, token="any")  # noqa: S106
    # Garbage may be collected in a thread of the server, which cannot wait for its own end.
    weakref.finalize(opened, Thread(target=running.close).start)
    return opened


CATALOG_KINDS: dict[str, Callable[[Path], TableCatalog]] = {
    "filesystem": _filesystem,
    "served": _managing,
    "external": _external,
    "rest": _rest,
}
"""Name → (directory) → an empty catalog whose tables lie below it."""
