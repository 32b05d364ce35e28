"""SHOW and DESCRIBE, from the catalog and a table's schema.

Columns are named as Spark names them.
"""

import re
from collections.abc import Iterable, Sequence

import pyarrow as pa

from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.options.catalog_options import shown_options
from paimon_assets.engine.spec.types.literals import to_internal
from paimon_assets.engine.table.sql.sql_types import spark_text
from paimon_assets.engine.table.sql.statements import Describe, Show, Shown, SqlCatalog, view_exists
from paimon_assets.engine.table.table import Table

Columns = Sequence[tuple[str, pa.DataType]]
_OUTCOME_COLUMNS: Columns = [
    ("statement", pa.string()),
    ("name", pa.string()),
    ("snapshot_id", pa.int64()),
    ("commit_user", pa.string()),
    ("rows_written", pa.int64()),
    ("rows_matched", pa.int64()),
    ("rows_inserted", pa.int64()),
]
_OUTCOME = pa.schema(_OUTCOME_COLUMNS)


def answer(
    columns: Sequence[tuple[str, pa.DataType]], rows: Sequence[Sequence[object]]
) -> pa.Table:
    """Return a small table, row by row."""
    names = [name for name, _ in columns]
    dicts = [dict(zip(names, row, strict=True)) for row in rows]
    return pa.Table.from_pylist(dicts, schema=pa.schema(list(columns)))


def texts(name: str, values: Sequence[str]) -> pa.Table:
    """Return one column of texts."""
    return answer([(name, pa.string())], [[value] for value in values])


def outcome(
    statement: str,
    name: object,
    snapshot: Snapshot | None = None,
    *,
    written: int | None = None,
    matched: int | None = None,
    inserted: int | None = None,
) -> pa.Table:
    """Return the result of a statement, in one row."""
    row = {
        "statement": statement,
        "name": str(name),
        "snapshot_id": None if snapshot is None else snapshot.id,
        "commit_user": None if snapshot is None else snapshot.commit_user,
        "rows_written": written,
        "rows_matched": matched,
        "rows_inserted": inserted,
    }
    return pa.Table.from_pylist([row], schema=_OUTCOME)


_TEXT = pa.string()


def show(catalog: SqlCatalog, statement: Show) -> pa.Table:
    """Run a SHOW."""
    database = statement.database or ""
    match statement.shown:
        case Shown.DATABASES:
            return texts("namespace", _like(catalog.list_databases(), statement.pattern))
        case Shown.TABLES:
            found = _like(catalog.list_tables(database), statement.pattern)
            return _list(database, "tableName", found)
        case Shown.VIEWS:
            found = _like(catalog.views.list(database), statement.pattern)
            return _list(database, "viewName", found)
        case _:
            return _of_table(catalog, statement)


def _of_table(catalog: SqlCatalog, statement: Show) -> pa.Table:
    name = statement.table
    assert name is not None  # noqa: S101 - the parser gives one
    if statement.shown is Shown.CREATE and view_exists(catalog, name):
        return texts("createtab_stmt", [_create_view(catalog, name)])
    table = catalog.get_table(name)
    match statement.shown:
        case Shown.CREATE:
            return texts("createtab_stmt", [_create_table(table)])
        case Shown.COLUMNS:
            return texts("col_name", table.schema.field_names)
        case Shown.TAGS:
            return texts("tag", [tag.name for tag in table.tags.list()])
        case Shown.PROPERTIES:
            options = sorted(shown_options(table.schema.options).items())
            return answer([("key", _TEXT), ("value", _TEXT)], options)
        case _:
            return texts("partition", _partitions(table, statement))


def _partitions(table: Table, statement: Show) -> list[str]:
    wanted = {
        name: to_internal(value, table.schema.column(name).type, name)
        for name, value in statement.partition
    }
    parts = {entry.partition for entry in table.state.live_files()}
    found = []
    for part in parts:
        values = table.state.partition_values(part)
        if all(values[name] == value for name, value in wanted.items()):
            found.append(table.state.partition_text(part))
    return sorted("/".join(f"{name}={value}" for name, value in each.items()) for each in found)


def _like(names: Iterable[str], pattern: str | None) -> list[str]:
    """Return the names a pattern of SHOW takes: `*` any letters, `|` between alternatives."""
    if pattern is None:
        return list(names)
    choices = [re.escape(each.strip()).replace(r"\*", ".*") for each in pattern.split("|")]
    taken = re.compile("|".join(f"(?:{each})" for each in choices), re.IGNORECASE)
    return [name for name in names if taken.fullmatch(name)]


def _list(database: str, column: str, names: Iterable[str]) -> pa.Table:
    columns: Columns = [("namespace", _TEXT), (column, _TEXT), ("isTemporary", pa.bool_())]
    return answer(columns, [[database, name, False] for name in names])


def describe(catalog: SqlCatalog, statement: Describe) -> pa.Table:
    """Run a DESCRIBE: columns, then those of the partition; EXTENDED says more of the table."""
    name = statement.table
    columns = [("col_name", _TEXT), ("data_type", _TEXT), ("comment", _TEXT)]
    if view_exists(catalog, name):
        view = catalog.views.get(str(name))
        rows = [[f.name, spark_text(f.type).lower(), f.description] for f in view.fields]
        if statement.extended:
            rows += [["", "", ""], ["# Detailed View Information", "", ""]]
            rows += [["Name", str(name), ""], ["View Text", view.query_for("spark"), ""]]
        return answer(columns, rows)
    table = catalog.get_table(name)
    schema = table.schema
    rows = [[f.name, spark_text(f.type).lower(), f.description] for f in schema.fields]
    if schema.partition_keys:
        rows += [["# Partition Information", "", ""], ["# col_name", "data_type", "comment"]]
        rows += [
            [f.name, spark_text(f.type).lower(), f.description] for f in schema.partition_fields
        ]
    if statement.extended:
        options = ",".join(f"{k}={v}" for k, v in sorted(shown_options(schema.options).items()))
        rows += [["", "", ""], ["# Detailed Table Information", "", ""], ["Name", table.name, ""]]
        rows += [["Comment", schema.comment or "", ""], ["Location", table.path, ""]]
        rows += [["Provider", "paimon", ""], ["Primary Keys", ",".join(schema.primary_keys), ""]]
        rows += [["Table Properties", f"[{options}]", ""]]
    return answer(columns, rows)


def _create_table(table: Table) -> str:
    schema = table.schema
    lines = []
    for field in schema.fields:
        default = field.default_value
        lines.append(
            f"  {_quote(field.name)} {spark_text(field.type)}"
            + ("" if field.type.nullable else " NOT NULL")
            + ("" if default is None else f" DEFAULT {_string(default)}")
            + ("" if field.description is None else f" COMMENT {_string(field.description)}")
        )
    text = f"CREATE TABLE {_quoted_name(table.name)} (\n" + ",\n".join(lines) + ")\nUSING paimon\n"
    if schema.partition_keys:
        text += f"PARTITIONED BY ({', '.join(map(_quote, schema.partition_keys))})\n"
    if schema.comment is not None:
        text += f"COMMENT {_string(schema.comment)}\n"
    options = dict(shown_options(schema.options))
    if schema.primary_keys:
        options["primary-key"] = ",".join(schema.primary_keys)
    if options:
        pairs = [f"  {_string(key)} = {_string(value)}" for key, value in sorted(options.items())]
        text += "TBLPROPERTIES (\n" + ",\n".join(pairs) + ")\n"
    return text


def _create_view(catalog: SqlCatalog, name: Identifier) -> str:
    view = catalog.views.get(str(name))
    columns = ", ".join(
        _quote(field.name)
        + ("" if field.description is None else f" COMMENT {_string(field.description)}")
        for field in view.fields
    )
    comment = "" if view.comment is None else f"COMMENT {_string(view.comment)}\n"
    return (
        f"CREATE VIEW {_quoted_name(str(name))} ({columns})\n{comment}AS {view.query_for('spark')}"
    )


def _quoted_name(name: str) -> str:
    return ".".join(map(_quote, name.split(".", 1)))


def _quote(name: str) -> str:
    return name if name.isidentifier() else "`" + name.replace("`", "``") + "`"


def _string(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
