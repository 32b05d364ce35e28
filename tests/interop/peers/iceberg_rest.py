"""Reads of Iceberg's readers over our catalog server; in their environment.

python -m tests.interop.peers.iceberg_rest pyiceberg|duckdb URI DATABASE: the bearer token on stdin,
the answers as JSON on stdout.
"""

import json
import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def outcome(call: Callable[[], Any]) -> Any:
    """Return the result of a call, or the class and the text of its error."""
    try:
        return call()
    except Exception as error:  # noqa: BLE001 - the error is the result
        return f"{type(error).__name__}: {error}"


def by_pyiceberg(uri: str, token: str, database: str) -> dict[str, Any]:
    import pyarrow as pa
    from pyiceberg.catalog import load_catalog  # type: ignore[import-not-found]

    warnings.simplefilter("ignore")
    catalog = load_catalog("x", type="rest", uri=uri, token=token)
    paged = load_catalog("y", type="rest", uri=uri, token=token, **{"rest-page-size": 1})

    def read(name: str, **scan: Any) -> Any:
        rows = catalog.load_table(f"{database}.{name}").scan(**scan).to_arrow().to_pylist()
        return sorted([list(row.values()) for row in rows], key=str)

    row = pa.table({"id": pa.array([9], pa.int32()), "text": ["z"]})
    return {
        "databases": catalog.list_namespaces(),
        "tables": sorted(name for _, name in catalog.list_tables(database)),
        "pages": sorted(name for _, name in paged.list_tables(database)),
        "views": catalog.list_views(database),
        "exists": [catalog.table_exists(f"{database}.{each}") for each in ("t", "plain", "no")],
        "t": read("t"),
        "filtered": read("t", row_filter="id > 1 and text != 'x3'", selected_fields=("text",)),
        "elsewhere": read("elsewhere"),
        "keyed": read("keyed"),
        "as of 1": read("t", snapshot_id=1),
        "plain": outcome(lambda: read("plain")),
        "append": outcome(lambda: catalog.load_table(f"{database}.t").append(row)),
        "create": outcome(lambda: catalog.create_table(f"{database}.u", row.schema)),
        "drop": outcome(lambda: catalog.drop_table(f"{database}.t")),
        "oauth": outcome(lambda: load_catalog("z", type="rest", uri=uri, credential="id:secret")),
        "stranger": outcome(lambda: load_catalog("z", type="rest", uri=uri, token=token[:-1])),
    }  # fmt: skip


def by_duckdb(uri: str, token: str, database: str) -> dict[str, Any]:
    import duckdb

    connection = duckdb.connect(config={"autoinstall_known_extensions": "false"})
    for name in ("avro", "httpfs", "iceberg"):
        package = import_module(f"duckdb_extension_{name}")
        folder = Path(str(package.__file__)).parent / "extensions"
        connection.load_extension(str(next(folder.glob(f"*/{name}.duckdb_extension"))))

    def ask(query: str) -> Any:
        return outcome(lambda: [list(row) for row in connection.execute(query).fetchall()])

    connection.execute(f"CREATE SECRET s (TYPE iceberg, TOKEN '{token}')")
    connection.execute(f"ATTACH 'lake' AS x (TYPE iceberg, ENDPOINT '{uri}', SECRET s)")
    listed = ask("SHOW ALL TABLES")
    return {
        "tables": sorted(row[2] for row in listed),
        "t": ask(f"SELECT * FROM x.{database}.t ORDER BY id"),
        "filtered": ask(f"SELECT text FROM x.{database}.t WHERE id > 1 AND text <> 'x3'"),
        "elsewhere": ask(f"SELECT * FROM x.{database}.elsewhere ORDER BY id"),
        "keyed": ask(f"SELECT * FROM x.{database}.keyed ORDER BY id"),
        "plain": ask(f"SELECT * FROM x.{database}.plain"),
        "append": ask(f"INSERT INTO x.{database}.t VALUES (9, 'z')"),
        "create": ask(f"CREATE TABLE x.{database}.u (id INT)"),
        "drop": ask(f"DROP TABLE x.{database}.t"),
    }


if __name__ == "__main__":
    reader, uri, database = sys.argv[1:]
    answers, sys.stdout = sys.stdout, sys.stderr
    walk = {"pyiceberg": by_pyiceberg, "duckdb": by_duckdb}[reader]
    json.dump(walk(uri, sys.stdin.read(), database), answers)
