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
from paimon_assets.engine.table.sql.procedures import call
from paimon_assets.engine.table.sql.show import describe, show
from paimon_assets.engine.table.sql.statements import (
    AlterTable,
    Analyze,
    Call,
    CreateDatabase,
    CreateTable,
    CreateView,
    Delete,
    Describe,
    Drop,
    DropDatabase,
    Insert,
    Merge,
    Names,
    Rename,
    Select,
    Show,
    SqlCatalog,
    Statement,
    Truncate,
    Update,
    outcome,
)
from paimon_assets.engine.table.sql_words import SparkSql, without_qualifiers
from paimon_assets.engine.table.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """The catalog, executor and session of statements."""

    catalog: SqlCatalog
    names: Names
    executor: CountingExecutor[Any]
    roots: Sequence[str] | None = None
    """Folders that segments may be taken from."""

    def run(self, statement: Statement) -> pa.Table:
        """Run a statement that needs no query engine."""
        match statement:
            case Show():
                return show(self.catalog, statement)
            case Describe():
                return describe(self.catalog, statement)
            case Call():
                return call(self.catalog, statement, self.names, self.executor)
            case AddSegment() | ShowSegments() | DeleteSegments() | CleanFiles():
                return self._segments(statement)
            case Delete() | Update() | Truncate() | Analyze():
                return self._rows(statement)
            case Select() | Insert() | Merge() | CreateView():
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

    def _rows(self, statement: Delete | Update | Truncate | Analyze) -> pa.Table:
        table = self.catalog.get_table(statement.table)
        match statement:
            case Truncate(partitions=()):
                return outcome("TRUNCATE", table.name, table.truncate())
            case Truncate():
                specs = [dict(spec) for spec in statement.partitions]
                return outcome("TRUNCATE", table.name, table.drop_partitions(specs))
            case Analyze(columns=columns):
                names = None if columns == () else list(columns or ())
                done = table.analyze(columns=names, executor=self.executor)
                return outcome("ANALYZE", table.name, done.snapshot)
            case Delete() | Update():
                return self.change(table, statement)

    def change(self, table: Table, statement: Delete | Update) -> pa.Table:
        """Run a DELETE or an UPDATE whose conditions and values this engine computes."""
        where, values = plain_change(table.schema, statement)
        builder = table.new_row_change_builder()
        if isinstance(statement, Update):
            done = builder.update(values, where, self.executor)
            return outcome("UPDATE", table.name, done.snapshot, matched=done.rows_matched)
        if where is None:
            return outcome("DELETE", table.name, table.truncate())
        done = builder.delete(where, self.executor)
        return outcome("DELETE", table.name, done.snapshot, matched=done.rows_matched)

    def _define(self, statement: Statement) -> pa.Table:
        catalog = self.catalog
        match statement:
            case CreateDatabase():
                catalog.create_database(
                    statement.name,
                    ignore_if_exists=statement.if_not_exists,
                    options=statement.options,
                )
                return outcome("CREATE DATABASE", statement.name)
            case DropDatabase():
                if not statement.if_exists or statement.name in catalog.list_databases():
                    catalog.drop_database(statement.name, cascade=statement.cascade)
                return outcome("DROP DATABASE", statement.name)
            case CreateTable():
                return self.create(statement)
            case AlterTable():
                catalog.get_table(statement.table).alter_checked(
                    statement.changes, executor=lambda: self.executor
                )
                return outcome("ALTER TABLE", statement.table)
            case Rename(is_view=True):
                catalog.views.rename(str(statement.name), str(statement.target))
                return outcome("ALTER VIEW", statement.target)
            case Rename():
                catalog.rename_table(statement.name, statement.target)
                return outcome("ALTER TABLE", statement.target)
            case Drop(is_view=True):
                catalog.views.drop(str(statement.name), ignore_if_missing=statement.if_exists)
                return outcome("DROP VIEW", statement.name)
            case Drop():
                catalog.drop_table(statement.name, ignore_if_missing=statement.if_exists)
                return outcome("DROP TABLE", statement.name)
            case _:
                raise needs_spark(statement)

    def create(self, statement: CreateTable, columns: Schema | None = None) -> pa.Table:
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
        return outcome("CREATE TABLE", statement.table)


def plain_change(
    schema: TableSchema, statement: Delete | Update
) -> tuple[pred.Predicate | None, Mapping[str, pred.Expression]]:
    """Return the predicate and the values of a change, if this engine computes them."""
    own = qualifiers(statement.table, statement.alias)
    where = None
    if statement.where is not None:
        where = parse_where(without_qualifiers(statement.where, own), SparkSql)
        pred.bind(where, schema)
    values = {}
    for path, text in statement.assignments if isinstance(statement, Update) else ():
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


def needs_spark(statement: Statement) -> UnsupportedFeatureError:
    """Return the refusal of a statement that needs a query engine."""
    what = type(statement).__name__
    return UnsupportedFeatureError(
        f"This statement ({what}) needs a query engine: run it by spark_sql, or on the command line"
        " with --executor spark.",
        kind="sql-needs-spark",
        details={"statement": what},
    )
