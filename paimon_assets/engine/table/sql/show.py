"""SHOW and DESCRIBE, from the catalog and a table's schema.

Columns are named as Spark names them.
"""

import re
from collections.abc import Iterable

import pyarrow as pa

from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.spec.options.catalog_options import shown_options
from paimon_assets.engine.spec.types.data_types import DataField
from paimon_assets.engine.spec.types.literals import to_internal
from paimon_assets.engine.table.sql import statements as st
from paimon_assets.engine.table.sql.sql_types import spark_text
from paimon_assets.engine.table.table import Table
from paimon_assets.engine.table.views import View

_DESCRIPTION = "col_name STRING, data_type STRING, comment STRING"


def show(catalog: st.SqlCatalog, statement: st.Show) -> pa.Table:
    database = statement.database or ""
    match statement.shown:
        case st.Shown.DATABASES:
            return st.texts("namespace", _like(catalog.list_databases(), statement.pattern))
        case st.Shown.TABLES:
            return _list(database, "tableName", catalog.list_tables(database), statement)
        case st.Shown.VIEWS:
            return _list(database, "viewName", catalog.views.list(database), statement)
        case _:
            return _of_table(catalog, statement)


def _of_table(catalog: st.SqlCatalog, statement: st.Show) -> pa.Table:
    name = statement.table
    assert name is not None  # noqa: S101 - the parser gives one
    if statement.shown is st.Shown.CREATE and st.view_exists(catalog, name):
        return st.texts("createtab_stmt", [_create_view(name, catalog.views.get(str(name)))])
    table = catalog.get_table(name)
    match statement.shown:
        case st.Shown.CREATE:
            return st.texts("createtab_stmt", [_create_table(table)])
        case st.Shown.COLUMNS:
            return st.texts("col_name", table.schema.field_names)
        case st.Shown.TAGS:
            return st.texts("tag", [tag.name for tag in table.tags.list()])
        case st.Shown.PROPERTIES:
            options = sorted(shown_options(table.schema.options).items())
            return st.answer("key STRING, value STRING", options)
        case _:
            fixed = {
                name: to_internal(value, table.schema.column(name).type, name)
                for name, value in statement.partition
            }
            parts = {entry.partition for entry in table.state.live_files()}
            chosen = [
                table.state.partition_text(part).items()
                for part in parts
                if fixed.items() <= table.state.partition_values(part).items()
            ]
            names = ("/".join(f"{name}={value}" for name, value in each) for each in chosen)
            return st.texts("partition", sorted(names))


def _like(names: Iterable[str], pattern: str | None) -> list[str]:
    """Return the names a pattern of SHOW takes: `*` any letters, `|` between alternatives."""
    if pattern is None:
        return list(names)
    choices = [re.escape(each.strip()).replace(r"\*", ".*") for each in pattern.split("|")]
    regex = re.compile("|".join(f"(?:{each})" for each in choices), re.IGNORECASE)
    return [name for name in names if regex.fullmatch(name)]


def _list(database: str, column: str, names: Iterable[str], statement: st.Show) -> pa.Table:
    rows = [[database, name, False] for name in _like(names, statement.pattern)]
    return st.answer(f"namespace STRING, {column} STRING, isTemporary BOOLEAN", rows)


def describe(catalog: st.SqlCatalog, statement: st.Describe) -> pa.Table:
    """Run a DESCRIBE: columns, then those of the partition; EXTENDED says more of the table."""
    name = statement.table
    if st.view_exists(catalog, name):
        view = catalog.views.get(str(name))
        rows = _column_rows(view.fields)
        if statement.extended:
            rows += [["", "", ""], ["# Detailed View Information", "", ""]]
            rows += [["Name", str(name), ""], ["View Text", view.query_for("spark"), ""]]
        return st.answer(_DESCRIPTION, rows)
    table = catalog.get_table(name)
    schema = table.schema
    rows = _column_rows(schema.fields)
    if schema.partition_keys:
        rows += [["# Partition Information", "", ""], ["# col_name", "data_type", "comment"]]
        rows += _column_rows(schema.partition_fields)
    if statement.extended:
        options = ",".join(f"{k}={v}" for k, v in sorted(shown_options(schema.options).items()))
        rows += [["", "", ""], ["# Detailed Table Information", "", ""], ["Name", table.name, ""]]
        rows += [["Comment", schema.comment or "", ""], ["Location", table.path, ""]]
        rows += [["Provider", "paimon", ""], ["Primary Keys", ",".join(schema.primary_keys), ""]]
        rows += [["Table Properties", f"[{options}]", ""]]
    return st.answer(_DESCRIPTION, rows)


def _column_rows(fields: Iterable[DataField]) -> list[list[str | None]]:
    return [[f.name, spark_text(f.type).lower(), f.description] for f in fields]


def _create_table(table: Table) -> str:
    schema = table.schema
    lines = []
    for field in schema.fields:
        default = field.default_value
        lines.append(
            f"  {_quote(field.name)} {spark_text(field.type)}"
            + ("" if field.type.nullable else " NOT NULL")
            + ("" if default is None else f" DEFAULT {_string(default)}")
            + _comment(field.description)
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


def _create_view(name: Identifier, view: View) -> str:
    columns = ", ".join(_quote(f.name) + _comment(f.description) for f in view.fields)
    head = f"CREATE VIEW {_quoted_name(str(name))} ({columns})\n"
    comment = f"{_comment(view.comment)}\n".lstrip()
    return f"{head}{comment}AS {view.query_for('spark')}"


def _comment(text: str | None) -> str:
    return "" if text is None else f" COMMENT {_string(text)}"


def _quoted_name(name: str) -> str:
    return ".".join(map(_quote, name.split(".", 1)))


def _quote(name: str) -> str:
    return name if name.isidentifier() else "`" + name.replace("`", "``") + "`"


def _string(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
