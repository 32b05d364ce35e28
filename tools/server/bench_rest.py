"""The catalog server: a commit through it beside the file system's, and a warehouse of many tables.

    python -m tools.server.bench_rest [--commits 60] [--tables 10000] [--requests 500] [--java]

The server is a child of its own. Small writes go by turns through the server and to the file
system, so that both meet the same disk; the ratio is the cost of the server. With `--java` the
server that Java Paimon tests its client with is asked the same, by turns, by our client; it keeps
names and snapshots in memory, trusts one request about commits, and lists no folder.
"""

import argparse
import http.client
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as Printed

from paimon_assets import Identifier, Schema, Table, TableCatalog, open_catalog, open_table
from paimon_assets.engine.codec.rest import bodies
from paimon_assets.engine.codec.rest.bodies import CreateDatabaseRequest, CreateTableRequest
from paimon_assets.engine.control.catalog.filesystem_catalog import FilesystemCatalog
from paimon_assets.engine.control.rest.auth import BearerAuth
from paimon_assets.engine.control.rest.http_client import HttpClient, RestApi
from paimon_assets.engine.fileio.local import LocalFileIO
from tests.interop.environment import ROOT, java_rest_server
from tests.testkit.oracle import Oracle
from tests.testkit.rest_server import RestClient, server_process
from tests.testkit.rest_tables import created, open_posted, rows, write

BEARER = "letmein"


def time_call(call: Callable[[], Any]) -> float:
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
        served.append(time_call(partial(write, through, number)))
        alone.append(time_call(partial(write, plain, number)))
    return statistics.median(served), statistics.median(alone)


def many_tables(warehouse: str, count: int) -> None:
    """Make tables as a client of the file system does."""
    catalog = FilesystemCatalog(warehouse, LocalFileIO())
    catalog.create_database("many")
    schema = Schema.of({"id": "INT", "text": "STRING"})
    for number in range(count):
        catalog.create_table(Identifier("many", f"t{number:06}"), schema)


def ask(connection: http.client.HTTPConnection, path: str) -> Any:
    """Ask over one connection, as pooled clients do."""
    headers = {"Authorization": f"Bearer {BEARER}"}
    connection.request("GET", f"/v1/paimon/{path}", headers=headers)
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
        ask(connection, path)
    found = [time_call(partial(ask, connection, path)) for path in paths]
    connection.close()
    return sorted(found)


def list_pages(port: int, page: int) -> tuple[int, float]:
    """Return (names, milliseconds) of a whole list in pages."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    names, query, began = 0, f"maxResults={page}", time.perf_counter()
    while query:
        answer = ask(connection, f"databases/many/tables?{query}")
        names, token = names + len(answer["tables"]), answer["nextPageToken"]
        query = f"maxResults={page}&pageToken={token}" if token else ""
    connection.close()
    return names, 1e3 * (time.perf_counter() - began)


@contextmanager
def java_server(folder: Path) -> Iterator[int]:
    """Run Java's server for tests, with a database `db`; yield its port."""
    warehouse = folder / "java"
    warehouse.mkdir()
    with Oracle(java_rest_server(warehouse), exchange=folder, working_directory=ROOT) as oracle:
        port = int(oracle.call("url").rstrip("/").rpartition(":")[2])
        catalog_of(port).create_database("db")
        yield port


def catalog_of(port: int) -> TableCatalog:
    """Return our client of a server."""
    uri = f"http://127.0.0.1:{port}"
    return open_catalog("w", metastore="rest", uri=uri, token=BEARER)


def write_rows(table: Table, number: int) -> None:
    table.new_write_builder().write(rows(number))


def beside_java(
    ours: int, java: int, options: argparse.Namespace
) -> Iterator[tuple[str, float, float]]:
    """Yield (subject, milliseconds of our server, of Java's): the same client, by turns."""
    schema = Schema.of({"id": "INT", "text": "STRING"})
    tables = [catalog_of(port).create_table("db.beside", schema) for port in (ours, java)]
    took: list[list[float]] = [[], []]
    for number in range(options.commits + 1):
        for times, held in zip(took, tables, strict=True):
            times.append(time_call(partial(write_rows, held, number)))
    ours_ms, java_ms = (statistics.median(times[1:]) for times in took)
    yield "small write by our client", ours_ms, java_ms
    api = RestApi(HttpClient(f"http://127.0.0.1:{java}", BearerAuth(BEARER)), "paimon")
    api.post(("databases",), CreateDatabaseRequest(name="many", options={}))
    for number in range(options.tables):
        table = bodies.Identifier(database="many", object=f"t{number:06}")
        api.post(
            ("databases", "many", "tables"), CreateTableRequest(identifier=table, schema=schema)
        )
    ours_all, java_all = (gets(port, options.tables, options.requests) for port in (ours, java))
    for name, part in (("p50", 0.5), ("p95", 0.95)):
        yield f"getTable {name}", at(ours_all, part), at(java_all, part)
    (count, ours_ms), (java_count, java_ms) = (list_pages(port, 1000) for port in (ours, java))
    assert count == java_count == options.tables
    yield f"list of {count}, pages of 1000", ours_ms, java_ms


def at(times: list[float], part: float) -> float:
    return times[int(part * (len(times) - 1))]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.server.bench_rest")
    parser.add_argument("--commits", type=int, default=60)
    parser.add_argument("--tables", type=int, default=10_000)
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--java", action="store_true", help="needs a JDK and Maven Central")
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
                printed.add_row(f"getTable {name}", f"{at(found, part):.2f}", "", "")
            catalog = FilesystemCatalog(warehouse, LocalFileIO())
            plain = time_call(lambda: catalog.list_tables("many"))
            for page in (100, 1000):
                names, millis = list_pages(client.port, page)
                printed.add_row(
                    f"list of {names}, pages of {page}", f"{millis:.0f}", f"{plain:.0f}",
                    f"{millis / plain:.2f}",
                )  # fmt: skip
            if options.java:
                with java_server(Path(folder)) as java:
                    for subject, ours, theirs in beside_java(client.port, java, options):
                        printed.add_row(
                            f"{subject}, beside Java's server", f"{ours:.2f}", f"{theirs:.2f}",
                            f"{ours / theirs:.2f}",
                        )  # fmt: skip
    Console(width=110).print(printed)


if __name__ == "__main__":
    main()
