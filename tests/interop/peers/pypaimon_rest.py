"""Calls of a client of pypaimon over a REST catalog; in its environment.

python -m tests.interop.peers.pypaimon_rest URI WAREHOUSE DATABASE: options as JSON on stdin,
the results as JSON on stdout.
"""

import json
import sys
from typing import Any

import pyarrow as pa
from pypaimon import CatalogFactory, Schema  # type: ignore[import-not-found]  # own environment
from pypaimon.common.identifier import Identifier  # type: ignore[import-not-found]
from pypaimon.schema.data_types import AtomicType  # type: ignore[import-not-found]
from pypaimon.schema.schema_change import SchemaChange  # type: ignore[import-not-found]
from pypaimon.table.instant import Instant  # type: ignore[import-not-found]

FIELDS: Any = [pa.field("id", pa.int32()), pa.field("text", pa.string())]
SCHEMA = pa.schema(FIELDS)


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int32()), "text": [f"p{n}" for n in ids]}, SCHEMA)


def write(table: Any, data: pa.Table) -> None:
    builder = table.new_batch_write_builder()
    writer, commit = builder.new_write(), builder.new_commit()
    writer.write_arrow(data)
    commit.commit(writer.prepare_commit())
    writer.close()
    commit.close()


def read(table: Any) -> list[Any]:
    builder = table.new_read_builder()
    found = builder.new_read().to_arrow(builder.new_scan().plan().splits())
    return sorted([list(row.values()) for row in found.to_pylist()], key=str)


def error_name(call: Any, *arguments: Any) -> str:
    """Return the name of the error that a call raises."""
    try:
        call(*arguments)
    except Exception as error:  # noqa: BLE001 - its name is the result
        return type(error).__name__
    return "nothing"


def walk(catalog: Any, database: str) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    catalog.create_database(database, False, {"made-by": "pypaimon"})
    seen["database twice"] = error_name(catalog.create_database, database, False)
    seen["databases"] = database in catalog.list_databases()
    seen["properties"] = catalog.get_database(database).options
    name = f"{database}.t"
    identifier = Identifier.from_string(name)
    schema = Schema.from_pyarrow_schema(SCHEMA, options={"bucket": "-1"})
    seen["no table"] = error_name(catalog.get_table, name)
    catalog.create_table(name, schema, False)
    seen["table twice"] = error_name(catalog.create_table, name, schema, False)
    for number in range(3):
        write(catalog.get_table(name), rows(number))
    seen["written"] = read(catalog.get_table(name))
    seen["newest"] = catalog.load_snapshot(identifier).snapshot.id
    catalog.create_tag(identifier, "second", 2)
    seen["tag"] = catalog.get_tag(identifier, "second").snapshot.id
    seen["tags"] = list(catalog.list_tags_paged(identifier).elements)
    catalog.create_branch(identifier, "b", "second")
    seen["branches"] = catalog.list_branches(identifier)
    write(catalog.get_table(f"{name}$branch_b"), rows(20))
    seen["branch"] = read(catalog.get_table(f"{name}$branch_b"))
    catalog.rollback_to(identifier, Instant.snapshot(2))
    seen["rolled back"] = read(catalog.get_table(name))
    change = SchemaChange.add_column("more", AtomicType("BIGINT"))
    catalog.alter_table(name, [change, SchemaChange.set_option("a", "b")])
    table = catalog.get_table(name)
    seen["columns"] = [field.name for field in table.fields]
    more = rows(5).append_column("more", pa.array([7], pa.int64()))
    write(table, more)
    seen["altered"] = read(catalog.get_table(name))
    catalog.rename_branch(identifier, "b", "c")
    catalog.drop_branch(identifier, "c")
    catalog.delete_tag(identifier, "second")
    seen["branches after"] = catalog.list_branches(identifier)
    seen["tags after"] = list(catalog.list_tags_paged(identifier).elements)
    catalog.rename_table(name, f"{database}.u")
    seen["tables"] = catalog.list_tables(database)
    catalog.drop_table(f"{database}.u")
    seen["dropped"] = catalog.list_tables(database)
    catalog.drop_database(database)
    seen["gone"] = database not in catalog.list_databases()
    return seen


if __name__ == "__main__":
    uri, warehouse, database = sys.argv[1:]
    answers, sys.stdout = sys.stdout, sys.stderr
    options = {"metastore": "rest", "uri": uri, "warehouse": warehouse, **json.load(sys.stdin)}
    json.dump(walk(CatalogFactory.create(options), database), answers)
