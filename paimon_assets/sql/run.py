"""Runs statements that need no query engine, in this process or on an executor.

Of a statement everything is parsed, named and opened before anything is changed.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from msgspec.structs import replace

from paimon_assets.engine.contract.executor import CountingExecutor
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.errors import InvalidInputError, UnsupportedFeatureError
from paimon_assets.engine.spec.options.catalog_options import shown_options
from paimon_assets.engine.spec.predicate import predicate as pred
from paimon_assets.engine.spec.schema.schema import Schema, TableSchema
from paimon_assets.engine.spec.segments.segment import Load, Segment
from paimon_assets.engine.spec.types.data_types import DataField
from paimon_assets.engine.spec.types.literals import to_internal
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.table.api import TableCatalog
from paimon_assets.engine.table.read.spark_dialect import SparkSql
from paimon_assets.engine.table.read.where import parse_expression, parse_where
from paimon_assets.engine.table.segments.segment_status import segment_rows, show_segments
from paimon_assets.engine.table.segments.segments import Segments
from paimon_assets.engine.table.system.metadata import answer, texts
from paimon_assets.engine.table.table import Table
from paimon_assets.engine.table.views import View
from paimon_assets.sql import segment_sql as seg
from paimon_assets.sql import statements as st
from paimon_assets.sql.parse import parse_sql
from paimon_assets.sql.procedures import call
from paimon_assets.sql.query import SqlQuery
from paimon_assets.sql.sql_types import spark_text
from paimon_assets.sql.words import without_qualifiers


class Runner(Value):
    catalog: TableCatalog
    names: st.Names
    executor: CountingExecutor[Any]
    roots: Sequence[str] | None = None
    """Folders that segments may be taken from."""

    def run(self, statement: st.Statement) -> pa.Table:
        """Run a statement that needs no query engine."""
        match statement:
            case st.Show():
                return show(self.catalog, statement)
            case st.Describe():
                return describe(self.catalog, statement)
            case st.Call():
                return call(self.catalog, statement, self.names, self.executor)
            case seg.AddSegment() | seg.ShowSegments() | seg.DeleteSegments() | seg.CleanFiles():
                return self._segments(statement)
            case st.Delete() | st.Update() | st.Truncate() | st.Analyze():
                return self._rows(statement)
            case st.Select() | st.Insert() | st.Merge() | st.CreateView():
                raise needs_spark(statement)
            case _:
                return self._define(statement)

    def _segments(self, statement: seg.SegmentStatement) -> pa.Table:
        segments = self.catalog.get_table(statement.table).segments(roots=self.roots)
        match statement:
            case seg.AddSegment():
                return show_segments(segments.add(statement.source, self.executor).segments)
            case seg.ShowSegments(query=str(query)):
                return self._query_segments(segments, statement, query)
            case seg.ShowSegments():
                return segments.shown(limit=statement.limit, history=statement.history)
            case seg.CleanFiles(force=force, dry_run=dry_run):
                return show_segments(segments.clean(force=force, dry_run=dry_run))
            case seg.DeleteSegments():
                gone = segments.delete(statement.ids, before_ms=statement.before_ms)
                return show_segments(gone.segments)

    def _query_segments(
        self, segments: Segments, statement: seg.ShowSegments, query: str
    ) -> pa.Table:
        """Run the query of SHOW SEGMENTS, which sees one table alone."""
        newest = sorted(segments.listed(), key=lambda segment: -segment.id)[: statement.limit]
        name = f"{statement.table.table}_segments"
        source = _carbon_rows(newest)

        def open_table(asked: str, options: Mapping[str, str]) -> pa.Table:
            if asked.rpartition(".")[2].lower() != name.lower() or options:
                raise InvalidInputError(
                    f"The query of SHOW SEGMENTS reads '{name}', not '{asked}'.", kind="query"
                )
            return source

        database = statement.table.database
        made = SqlQuery(text=query, open_table=open_table, database=database, external_access=False)
        return made.to_reader(self.executor).read_all()

    def _rows(self, statement: st.Delete | st.Update | st.Truncate | st.Analyze) -> pa.Table:
        table = self.catalog.get_table(statement.table)
        match statement:
            case st.Truncate(partitions=()):
                return st.outcome("TRUNCATE", table.name, table.truncate())
            case st.Truncate():
                specs = [dict(spec) for spec in statement.partitions]
                return st.outcome("TRUNCATE", table.name, table.drop_partitions(specs))
            case st.Analyze(columns=columns):
                names = None if columns == () else list(columns or ())
                done = table.analyze(columns=names, executor=self.executor)
                return st.outcome("ANALYZE", table.name, done.snapshot)
            case st.Delete() | st.Update():
                return self.change(table, statement)

    def change(self, table: Table, statement: st.Delete | st.Update) -> pa.Table:
        """Run a DELETE or an UPDATE whose conditions and values this engine computes."""
        where, values = plain_change(table.schema, statement)
        builder = table.new_row_change_builder()
        if isinstance(statement, st.Update):
            done = builder.update(values, where, self.executor)
            return st.outcome("UPDATE", table.name, done.snapshot, matched=done.rows_matched)
        done = builder.delete(where, self.executor)
        return st.outcome("DELETE", table.name, done.snapshot, matched=done.rows_matched)

    def _define(self, statement: st.Statement) -> pa.Table:
        catalog = self.catalog
        match statement:
            case st.CreateDatabase():
                catalog.create_database(
                    statement.name,
                    ignore_if_exists=statement.if_not_exists,
                    options=statement.options,
                )
                return st.outcome("CREATE DATABASE", statement.name)
            case st.DropDatabase():
                if not statement.if_exists or statement.name in catalog.list_databases():
                    catalog.drop_database(statement.name, cascade=statement.cascade)
                return st.outcome("DROP DATABASE", statement.name)
            case st.CreateTable():
                return self.create(statement)
            case st.AlterTable():
                catalog.get_table(statement.table).alter_checked(
                    statement.changes, executor=lambda: self.executor
                )
                return st.outcome("ALTER TABLE", statement.table)
            case st.Rename(is_view=True):
                catalog.views.rename(str(statement.name), str(statement.target))
                return st.outcome("ALTER VIEW", statement.target)
            case st.Rename():
                catalog.rename_table(statement.name, statement.target)
                return st.outcome("ALTER TABLE", statement.target)
            case st.Drop(is_view=True):
                catalog.views.drop(str(statement.name), ignore_if_missing=statement.if_exists)
                return st.outcome("DROP VIEW", statement.name)
            case st.Drop():
                catalog.drop_table(
                    statement.name, ignore_if_missing=statement.if_exists, cascade=statement.cascade
                )
                return st.outcome("DROP TABLE", statement.name)
            case _:
                raise needs_spark(statement)

    def create(self, statement: st.CreateTable, columns: Schema | None = None) -> pa.Table:
        schema = statement.schema
        if statement.query is not None and columns is None:
            raise needs_spark(statement)
        if columns is not None:
            keys = (*schema.primary_keys, *schema.partition_keys)
            missing = [k for k in keys if k not in (field.name for field in columns.fields)]
            if missing:
                raise InvalidInputError(
                    f"Key column '{missing[0]}' is no column of the query.", kind="schema"
                )
            schema = replace(schema, fields=columns.fields)
        if statement.like is not None:
            like = self.catalog.get_table(statement.like).schema
            schema = Schema(
                fields=like.fields,
                partition_keys=like.partition_keys,
                primary_keys=like.primary_keys,
                options={**like.options, **schema.options},
                comment=schema.comment or like.comment,
            )
        self.catalog.create_table(statement.table, schema, ignore_if_exists=statement.if_not_exists)
        return st.outcome("CREATE TABLE", statement.table)


def plain_change(
    schema: TableSchema, statement: st.Delete | st.Update
) -> tuple[pred.Predicate | None, Mapping[str, pred.Expression]]:
    """Return the predicate and the values of a change, if this engine computes them."""
    own = qualifiers(statement.table, statement.alias)
    where = None
    if statement.where is not None:
        where = parse_where(without_qualifiers(statement.where, own), SparkSql)
        pred.bind(where, schema)
    values = {}
    for path, text in statement.assignments if isinstance(statement, st.Update) else ():
        if len(path) > 1 and path[:-1] not in own:
            raise InvalidInputError(f"'{'.'.join(path)}' is no column.", kind="expression")
        if path[-1] in values:
            raise InvalidInputError(f"Column '{path[-1]}' is set twice.", kind="statement")
        values[path[-1]] = parse_expression(without_qualifiers(text, own), SparkSql)
    pred.bind_assignments(values, schema)
    return where, values


def qualifiers(table: Identifier, alias: str | None) -> list[tuple[str, ...]]:
    """Return the names that may stand before a column of a table."""
    if alias is not None:
        return [(alias,)]
    return [(table.table,), (table.database, table.table)]


def needs_spark(statement: st.Statement) -> UnsupportedFeatureError:
    """Return the error for a statement that needs a query engine."""
    name = type(statement).__name__
    message = (
        f"This statement ({name}) needs a query engine: run it by spark_sql, or on the command line"
        " with --executor spark."
    )
    return UnsupportedFeatureError(message, kind="sql-needs-spark", statement=name)


_DESCRIPTION = "col_name STRING, data_type STRING, comment STRING"
"""As Spark names these columns."""


def _carbon_rows(segments: Sequence[Segment | Load]) -> pa.Table:
    """Return segments as SHOW SEGMENTS … AS SELECT reads them, by CarbonData's names."""
    return answer(
        "id BIGINT, status STRING, loadStartTime TIMESTAMP(3), timeTakenMs BIGINT,"
        " partitions ARRAY<STRING>, dataSize BIGINT, indexSize BIGINT, mergedToId BIGINT,"
        " format STRING, path STRING, loadEndTime TIMESTAMP(3), segmentFileName STRING",
        [
            [
                segment.id,
                row["status"],
                row["load_start_time"],
                row["time_taken_ms"],
                [segment.partition_text] if segment.partition_text else None,
                row["data_size"],
                None,
                row["merged_to_id"],
                row["format"],
                row["path"],
                row["load_end_time"],
                None,
            ]
            for segment, row in zip(segments, segment_rows(segments), strict=True)
        ],
    )


def show(catalog: TableCatalog, statement: st.Show) -> pa.Table:
    database = statement.database or ""
    match statement.shown:
        case st.Shown.DATABASES:
            return texts("namespace", _like(catalog.list_databases(), statement.pattern))
        case st.Shown.TABLES:
            return _list(database, "tableName", catalog.list_tables(database), statement)
        case st.Shown.VIEWS:
            return _list(database, "viewName", catalog.views.list(database), statement)
        case _:
            return _of_table(catalog, statement)


def _of_table(catalog: TableCatalog, statement: st.Show) -> pa.Table:
    name = statement.table
    assert name is not None  # noqa: S101 - the parser gives one
    if statement.shown is st.Shown.CREATE and st.view_exists(catalog, name):
        return texts("createtab_stmt", [_create_view(name, catalog.views.get(str(name)))])
    table = catalog.get_table(name)
    match statement.shown:
        case st.Shown.CREATE:
            return texts("createtab_stmt", [_create_table(table)])
        case st.Shown.COLUMNS:
            return texts("col_name", table.schema.field_names)
        case st.Shown.TAGS:
            return texts("tag", [tag.name for tag in table.tags.list()])
        case st.Shown.PROPERTIES:
            options = sorted(shown_options(table.schema.options).items())
            return answer("key STRING, value STRING", options)
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
            return texts("partition", sorted(names))


def _like(names: Iterable[str], pattern: str | None) -> list[str]:
    """Return the names a pattern of SHOW takes: `*` any letters, `|` between alternatives."""
    if pattern is None:
        return list(names)
    choices = [re.escape(each.strip()).replace(r"\*", ".*") for each in pattern.split("|")]
    regex = re.compile("|".join(f"(?:{each})" for each in choices), re.IGNORECASE)
    return [name for name in names if regex.fullmatch(name)]


def _list(database: str, column: str, names: Iterable[str], statement: st.Show) -> pa.Table:
    rows = [[database, name, False] for name in _like(names, statement.pattern)]
    return answer(f"namespace STRING, {column} STRING, isTemporary BOOLEAN", rows)


def describe(catalog: TableCatalog, statement: st.Describe) -> pa.Table:
    """Run a DESCRIBE: columns, then those of the partition; EXTENDED adds facts of the table."""
    name = statement.table
    if st.view_exists(catalog, name):
        view = catalog.views.get(str(name))
        rows = _column_rows(view.fields)
        if statement.extended:
            rows += [["", "", ""], ["# Detailed View Information", "", ""]]
            rows += [["Name", str(name), ""], ["View Text", view.query_for("spark"), ""]]
        return answer(_DESCRIPTION, rows)
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
    return answer(_DESCRIPTION, rows)


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


def execute(
    catalog: TableCatalog,
    statement: str,
    executor: CountingExecutor[Any] | None,
    *,
    database: str | None,
    roots: Sequence[str] | None,
) -> pa.Table:
    """Run a statement; see `TableCatalog.execute`."""
    names = st.Names(database=database)
    runner = Runner(
        catalog=catalog, names=names, executor=executor or EmbeddedExecutor(), roots=roots
    )
    return runner.run(parse_sql(statement, names))
