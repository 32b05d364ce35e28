"""Verbs for tests of tables: rows become Arrow, a table is made, written, compacted and read.

>>> from tempfile import TemporaryDirectory
>>> with TemporaryDirectory() as folder:
...     t = new_table(folder, {"id": "BIGINT", "v": "STRING"}, (1, "a"), primary_keys="id")
...     _ = write(t, (1, "b"), (2, None))
...     _ = compact(t)
...     read(t), read(t, ["v"], "id = 1")
([(1, 'b'), (2, None)], [('b',)])
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from paimon_assets import (
    EmbeddedExecutor,
    ReadBuilder,
    Schema,
    Table,
    TableCatalog,
    WriteBuilder,
    open_catalog,
)
from paimon_assets.engine.contract.executor import Executor
from paimon_assets.engine.spec.schema.schema import TableSchema, first_table_schema
from paimon_assets.engine.spec.types.data_types import DataType
from paimon_assets.engine.table.read.plan import Where
from paimon_assets.engine.table.upkeep.compaction import CompactionOutcome
from tests.testkit.rows import rows_to_arrow

EXECUTOR = EmbeddedExecutor(2)
Columns = Mapping[str, str | DataType] | Schema | TableSchema
Row = tuple[Any, ...] | list[Any] | Mapping[str, Any]


def arrow(columns: Columns, *rows: Row) -> pa.Table:
    """Type rows of Python values: tuples in the order of the columns, or dicts without the nulls.

    Args:
        columns: Name → type as SQL spells it; or a schema.
        rows: In dicts, missing columns are null. Timestamps may be ints of nanoseconds.
    """
    schema = columns if isinstance(columns, Schema | TableSchema) else Schema.of(columns)
    names = [field.name for field in schema.fields]
    named = [
        {**dict.fromkeys(names), **row}
        if isinstance(row, Mapping)
        else dict(zip(names, row, strict=True))
        for row in rows
    ]
    return rows_to_arrow(named, schema)


def table_schema(columns: Any, **declared: Any) -> TableSchema:
    """Return the first schema of a table; arguments as `Schema.of`."""
    return first_table_schema(Schema.of(columns, **declared), time_millis=0)


def new_catalog_in(
    warehouse: str | Path, *databases: str, options: Mapping[str, str] | None = None
) -> TableCatalog:
    """Open a warehouse, with databases; `db` by default."""
    catalog = open_catalog(str(warehouse), options)
    for database in databases or ("db",):
        catalog.create_database(database, ignore_if_exists=True)
    return catalog


def new_table(
    place: TableCatalog | str | Path,
    columns: Mapping[str, str | DataType] | Schema,
    *rows: Row | pa.Table,
    name: str = "db.t",
    **declared: Any,
) -> Table:
    """Create a table, with its database, and write rows if there are any.

    Args:
        place: A catalog, or the path of a warehouse.
        columns: As `arrow`.
        rows: As `write`.
        name: Database and table.
        declared: Keys, options and comments, as `Schema.of` takes them.
    """
    database = name.partition(".")[0]
    catalog = place if isinstance(place, TableCatalog) else new_catalog_in(place, database)
    catalog.create_database(database, ignore_if_exists=True)
    schema = columns if isinstance(columns, Schema) else Schema.of(columns, **declared)
    table = catalog.create_table(name, schema)
    if rows:
        write(table, *rows)
    return table


def write(target: Table | WriteBuilder, *rows: Any, executor: Executor[Any] = EXECUTOR) -> Any:
    """Commit rows once, and return the snapshot; None if there was nothing to commit.

    Args:
        target: A table; or its write builder, such as `with_overwrite({})`.
        rows: Tuples or dicts as `arrow` takes them; or one frame or reader.
        executor: Writes the rows.
    """
    builder = target if isinstance(target, WriteBuilder) else target.new_write_builder()
    is_frame = len(rows) == 1 and not isinstance(rows[0], tuple | list | Mapping)
    frame = rows[0] if is_frame else arrow(builder.store.schema, *rows)
    return builder.write(frame, executor).snapshot


def compact(
    table: Table, strategy: str = "full", *, executor: Any = EXECUTOR, **changes: Any
) -> CompactionOutcome:
    """Compact a table; `changes` are arguments of the builder's `run`."""
    return table.new_compaction_builder().with_strategy(strategy).run(executor, **changes)


def read(
    source: Table | ReadBuilder,
    columns: Iterable[str] | None = None,
    where: Where | None = None,
    *,
    executor: Any = EXECUTOR,
) -> list[tuple[Any, ...]]:
    """Return the rows as sorted tuples, nulls first.

    Args:
        source: A table; or its read builder, such as `at_snapshot(1)`.
        columns: Names; all columns by default.
        where: Rows to return; all by default.
        executor: Reads the rows.
    """
    rows = [tuple(row.values()) for row in read_dicts(source, columns, where, executor=executor)]
    try:
        return sorted(rows, key=lambda row: [(value is not None, value) for value in row])
    except TypeError:  # of values that have no order, such as maps
        return sorted(rows, key=repr)


def read_dicts(
    source: Table | ReadBuilder,
    columns: Iterable[str] | None = None,
    where: Where | None = None,
    *,
    executor: Any = EXECUTOR,
) -> list[dict[str, Any]]:
    """Return the rows as dicts, in the order of reading; arguments as `read`."""
    builder = source if isinstance(source, ReadBuilder) else source.new_read_builder()
    if columns is not None:
        builder = builder.with_columns(columns)
    if where is not None:
        builder = builder.with_filter(where)
    return builder.to_arrow(executor).to_pylist()


def values(
    source: Table | ReadBuilder, column: str = "id", where: Where | None = None
) -> list[Any]:
    """Return the values of one column, sorted, nulls first."""
    return [value for (value,) in read(source, [column], where)]
