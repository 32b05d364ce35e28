"""Calls of a client of pypaimon-rust over a REST catalog; in its environment.

python -m tests.interop.peers.rust_rest URI WAREHOUSE DATABASE: as `pypaimon_rest`.
"""

import json
import sys
from typing import Any

import pyarrow as pa
from pypaimon_rust.datafusion import PaimonCatalog, SQLContext  # type: ignore[import-not-found]  # own environment


def write(table: Any, *ids: int) -> None:
    builder = table.new_batch_write_builder()
    writer, commit = builder.new_write(), builder.new_commit()
    data = {"id": pa.array(ids, pa.int32()), "text": [f"r{number}" for number in ids]}
    for batch in pa.table(data).to_batches():
        writer.write_arrow(batch)
    commit.commit(writer.prepare_commit())
    writer.close()
    commit.close()


def read(table: Any) -> list[Any]:
    builder = table.new_read_builder()
    batches = builder.new_read().read(builder.new_scan().plan().splits())
    return sorted([list(row.values()) for batch in batches for row in batch.to_pylist()], key=str)


def walk(sql: Any, catalog: Any, database: str) -> dict[str, Any]:
    """Do everything once that this client can."""
    seen: dict[str, Any] = {}
    name = f"c.{database}.t"
    sql.sql(f"CREATE SCHEMA c.{database}")
    seen["databases"] = database in catalog.list_databases()
    sql.sql(f"CREATE TABLE {name} (id INT, text STRING)")
    sql.sql(f"CREATE TABLE c.{database}.kept (id INT, text STRING)")
    seen["tables"] = sorted(catalog.list_tables(database))
    write(catalog.get_table((database, "kept")), 7)
    write(catalog.get_table((database, "t")), 1, 2)
    write(catalog.get_table((database, "t")), 3)
    seen["written"] = read(catalog.get_table((database, "t")))
    for key, statement in {
        "tag": f"CALL sys.create_tag(table => '{database}.t', tag => 'first', snapshot_id => 1)",
        "roll back": f"CALL sys.rollback_to(table => '{database}.t', snapshot_id => 1)",
        "alter": f"ALTER TABLE {name} ADD COLUMN more BIGINT",
        "drop": f"DROP TABLE {name}",
    }.items():
        try:
            sql.sql(statement)
            seen[key] = True
        except Exception as error:  # noqa: BLE001 - the error is the result
            seen[key] = str(error)[:300]
        if key == "roll back":
            seen["rolled back"] = read(catalog.get_table((database, "t")))
    seen["after"] = catalog.list_tables(database)
    return seen


if __name__ == "__main__":
    uri, warehouse, database = sys.argv[1:]
    answers, sys.stdout = sys.stdout, sys.stderr
    options = {"metastore": "rest", "uri": uri, "warehouse": warehouse, **json.load(sys.stdin)}
    context = SQLContext()
    context.register_catalog("c", options, "")
    context.set_current_catalog("c")
    json.dump(walk(context, PaimonCatalog(options), database), answers)
