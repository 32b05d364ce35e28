"""The catalog server: a commit through it beside the file system's, and a warehouse of many tables.

    python -m tests.bench.bench_rest [--commits 60] [--tables 10000] [--requests 500]

The server is a child of its own. Small writes go by turns through the server and to the file
system, so that both meet the same disk; the ratio is what the server costs.
"""

import argparse
import http.client
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as Printed

from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.control.catalog.filesystem_catalog import FilesystemCatalog
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.table.api import open_table
from tests.testkit.rest_server import RestClient, server_process
from tests.testkit.rest_tables import created, open_posted, write


def timed(call: Callable[[], Any]) -> float:
    """Return milliseconds."""
    began = time.perf_counter()
    call()
    return 1e3 * (time.perf_counter() - began)


def commits(client: RestClient, count: int) -> tuple[float, float]:
    """Return the median milliseconds of a small write: through the server, on the file system."""
    through, _ = open_posted(client, created(client, "through"))
    plain = open_table(created(client, "plain")["path"])
    write(through, 0)
    write(plain, 0)
    served, alone = [], []
    for number in range(count):
        served.append(timed(partial(write, through, number)))
        alone.append(timed(partial(write, plain, number)))
    return statistics.median(served), statistics.median(alone)


def many_tables(warehouse: str, count: int) -> None:
    """Make tables as a client of the file system does."""
    catalog = FilesystemCatalog(warehouse, LocalFileIO())
    catalog.create_database("many")
    schema = Schema.of({"id": "INT", "text": "STRING"})
    for number in range(count):
        catalog.create_table(Identifier("many", f"t{number:06}"), schema)


def asked(connection: http.client.HTTPConnection, path: str) -> Any:
    """Ask over one connection, as pooled clients do."""
    connection.request("GET", f"/v1/paimon/{path}")
    response = connection.getresponse()
    body = response.read()
    assert response.status == 200, body
    return json.loads(body)


def gets(port: int, tables: int, requests: int) -> list[float]:
    """Return milliseconds of getTable, over all tables; each has its id already."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    step = max(1, tables // requests)
    paths = [f"databases/many/tables/t{n:06}" for n in range(0, tables, step)]
    for path in paths:
        asked(connection, path)
    found = [timed(partial(asked, connection, path)) for path in paths]
    connection.close()
    return sorted(found)


def listed(port: int, page: int) -> tuple[int, float]:
    """Return (names, milliseconds) of a whole list in pages."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    names, query, began = 0, f"maxResults={page}", time.perf_counter()
    while query:
        answer = asked(connection, f"databases/many/tables?{query}")
        names, token = names + len(answer["tables"]), answer["nextPageToken"]
        query = f"maxResults={page}&pageToken={token}" if token else ""
    connection.close()
    return names, 1e3 * (time.perf_counter() - began)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.bench_rest")
    parser.add_argument("--commits", type=int, default=60)
    parser.add_argument("--tables", type=int, default=10_000)
    parser.add_argument("--requests", type=int, default=500)
    options = parser.parse_args()
    printed = Printed(title="the catalog server")
    for heading in ("what", "milliseconds", "beside", "ratio"):
        printed.add_column(heading, justify="right")
    with tempfile.TemporaryDirectory() as folder:
        warehouse = str(Path(folder) / "warehouse")
        FilesystemCatalog(warehouse, LocalFileIO()).create_database("db")
        many_tables(warehouse, options.tables)
        with server_process(warehouse, "--insecure", log=Path(folder) / "log") as (_, client):
            served, alone = commits(client, options.commits)
            printed.add_row(
                "small write, through the server", f"{served:.1f}", f"{alone:.1f}",
                f"{served / alone:.2f}",
            )  # fmt: skip
            found = gets(client.port, options.tables, options.requests)
            for name, part in (("p50", 0.5), ("p95", 0.95)):
                value = found[int(part * (len(found) - 1))]
                printed.add_row(f"getTable {name}", f"{value:.2f}", "", "")
            catalog = FilesystemCatalog(warehouse, LocalFileIO())
            plain = timed(lambda: catalog.list_tables("many"))
            for page in (100, 1000):
                names, millis = listed(client.port, page)
                printed.add_row(
                    f"list of {names}, pages of {page}", f"{millis:.0f}", f"{plain:.0f}",
                    f"{millis / plain:.2f}",
                )  # fmt: skip
    Console(width=110).print(printed)


if __name__ == "__main__":
    main()
