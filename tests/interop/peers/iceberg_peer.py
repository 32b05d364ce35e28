"""Readers of Iceberg behind the few calls interop needs. Runs in an environment of their own.

Tables are named by the path of their metadata document.
"""

from importlib.metadata import version
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from pyiceberg import expressions  # type: ignore[import-not-found]  # own environment
from pyiceberg.catalog.memory import InMemoryCatalog  # type: ignore[import-not-found]
from pyiceberg.table import StaticTable  # type: ignore[import-not-found]

_EXTENSIONS = ("avro", "iceberg")


class Peer:
    """pyiceberg and duckdb; a table `duckdb:/path` is read by duckdb, the rest by pyiceberg.

    Tables `own:NAME` are written by pyiceberg, partitioned by their column `p`.
    """

    def __init__(self, warehouse: str) -> None:
        self._catalog = InMemoryCatalog("own", warehouse=f"file://{warehouse}/own")
        self._catalog.create_namespace("db")
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
        is_own = path.startswith("own:")
        name = path.replace("own:", "db.")
        static = self._catalog.load_table(name) if is_own else StaticTable.from_metadata(path)
        operator, _, row = where.partition("@")
        options: dict[str, Any] = {"row_filter": where} if where else {}
        if row:
            options["row_filter"] = _filter(static, operator, int(row))
        if target.isdigit():
            options["snapshot_id"] = int(target)
        elif target:
            options["snapshot_id"] = static.snapshot_by_name(target).snapshot_id
        return static.scan(**options).to_arrow()

    def write(self, table: str, rows: pa.Table) -> None:
        """Write rows to a new table, partitioned by `p`; `own:<name>` reads it."""
        created = self._catalog.create_table(f"db.{table}", rows.schema)
        with created.update_spec() as change:
            change.add_identity("p")
        created.append(rows)


def _filter(table: Any, operator: str, row: int) -> Any:
    """Return a filter of `p` by the value that the row of an id has; nulls have none."""
    build = getattr(expressions, operator)
    if operator in ("IsNull", "NotNull", "IsNaN", "NotNaN"):
        return build("p")
    rows = table.scan().to_arrow().to_pylist()
    (value,) = (each["p"] for each in rows if each["id"] == row)
    return build("p", {value} if operator.endswith("In") else value)
