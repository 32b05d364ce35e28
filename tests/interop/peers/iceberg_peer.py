"""Readers of Iceberg behind the few calls interop needs. Runs in an environment of their own.

Tables are named by the path of their metadata document.
"""

from importlib.metadata import version
from pathlib import Path
from typing import Any

import duckdb
from pyiceberg.table import StaticTable  # type: ignore[import-not-found]  # own environment

_EXTENSIONS = ("avro", "iceberg")


class Peer:
    """pyiceberg and duckdb; a table `duckdb:/path` is read by duckdb, others by pyiceberg."""

    def __init__(self, warehouse: str) -> None:
        _ = warehouse
        self._connection = duckdb.connect()
        packages = Path(str(duckdb.__file__)).parents[1]
        for name in _EXTENSIONS:
            pattern = f"duckdb_extension_{name}/extensions/*/{name}.duckdb_extension"
            self._connection.execute(f"LOAD '{next(packages.glob(pattern))}'")

    def version(self) -> str:
        return f"pyiceberg {version('pyiceberg')}, duckdb {version('duckdb')}"

    def read(self, table: str) -> Any:
        """Read rows: `duckdb:<document>`, or `<document>[#<snapshot or tag>[#<filter>]]`."""
        reader, colon, path = table.partition(":")
        if colon and reader == "duckdb":
            relation = self._connection.sql(f"SELECT * FROM iceberg_scan('{path}')")
            return relation.to_arrow_table()
        path, _, rest = table.partition("#")
        target, _, where = rest.partition("#")
        static = StaticTable.from_metadata(path)
        options: dict[str, Any] = {"row_filter": where} if where else {}
        if target.isdigit():
            options["snapshot_id"] = int(target)
        elif target:
            options["snapshot_id"] = static.snapshot_by_name(target).snapshot_id
        return static.scan(**options).to_arrow()
