"""Statements that need no query engine, run: on this process, or on any executor.

Of a statement everything is parsed, named and opened before anything is changed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from paimon_assets.engine.contract.executor import CountingExecutor
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.errors import InvalidInputError, UnsupportedFeatureError
from paimon_assets.engine.spec.predicate import predicate as pred
from paimon_assets.engine.spec.schema.schema import Schema, TableSchema
from paimon_assets.engine.table.read.where import parse_expression, parse_where
from paimon_assets.engine.table.segments.segment_sql import (
    AddSegment,
    CleanFiles,
    DeleteSegments,
    SegmentStatement,
    ShowSegments,
)
from paimon_assets.engine.table.segments.segment_status import show_segments
from paimon_assets.engine.table.sql import statements as st
from paimon_assets.engine.table.sql.procedures import call
from paimon_assets.engine.table.sql.show import describe, show
from paimon_assets.engine.table.sql_words import SparkSql, without_qualifiers
from paimon_assets.engine.table.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """The catalog, executor and session of statements."""

    catalog: st.SqlCatalog
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
            case AddSegment() | ShowSegments() | DeleteSegments() | CleanFiles():
                return self._segments(statement)
            case st.Delete() | st.Update() | st.Truncate() | st.Analyze():
                return self._rows(statement)
            case st.Select() | st.Insert() | st.Merge() | st.CreateView():
                raise needs_spark(statement)
            case _:
                return self._define(statement)

    def _segments(self, statement: SegmentStatement) -> pa.Table:
        segments = self.catalog.get_table(statement.table).segments(roots=self.roots)
        match statement:
            case AddSegment():
                return show_segments(segments.add(statement.source, self.executor).segments)
            case ShowSegments():
                return segments.shown(limit=statement.limit, history=statement.history)
            case CleanFiles(force=force, dry_run=dry_run):
                return show_segments(segments.clean(force=force, dry_run=dry_run))
            case DeleteSegments():
                gone = segments.delete(statement.ids, before_ms=statement.before_ms)
                return show_segments(gone.segments)

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
        if where is None:
            return st.outcome("DELETE", table.name, table.truncate())
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
                catalog.drop_table(statement.name, ignore_if_missing=statement.if_exists)
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
    """Return how the columns of a table may be qualified."""
    if alias is not None:
        return [(alias,)]
    return [(table.table,), (table.database, table.table)]


def needs_spark(statement: st.Statement) -> UnsupportedFeatureError:
    """Return the refusal of a statement that needs a query engine."""
    what = type(statement).__name__
    return UnsupportedFeatureError(
        f"This statement ({what}) needs a query engine: run it by spark_sql, or on the command line"
        " with --executor spark.",
        kind="sql-needs-spark",
        details={"statement": what},
    )
