"""Make the input of bench_tpcds, in an environment of its own (duckdb's extension from PyPI).

python tools/bench/tpcds_data.py SCALE FOLDER
"""

import json
import sys
from pathlib import Path

import duckdb
from duckdb_extensions import import_extension  # type: ignore[import-not-found]


def main() -> None:
    scale, folder = float(sys.argv[1]), Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    connection = duckdb.connect()
    import_extension("tpcds")
    connection.execute("LOAD tpcds")
    connection.execute(f"CALL dsdgen(sf={scale})")
    for (table,) in connection.execute("SHOW TABLES").fetchall():
        connection.execute(f"COPY {table} TO '{folder / table}.parquet' (FORMAT parquet)")
    queries = dict(connection.execute("SELECT query_nr, query FROM tpcds_queries()").fetchall())
    (folder / "queries.json").write_text(json.dumps(queries), encoding="utf-8")


if __name__ == "__main__":
    main()
