"""INSERT INTO, INSERT OVERWRITE, CREATE TABLE AS."""

from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from paimon_assets.engine.errors import CommitUnknownError, InvalidInputError
from paimon_assets.engine.spec.options.all_options import WRITE_MERGE_SCHEMA
from paimon_assets.engine.spec.schema.schema import Schema, TableSchema
from paimon_assets.engine.table.sql.run import Runner
from paimon_assets.engine.table.sql.show import outcome
from paimon_assets.engine.table.sql.statements import CreateTable, Insert
from paimon_assets.engine.table.sql_words import with_nulls_for_default
from paimon_assets.engine.table.table import Table
from paimon_assets.engine.table.write.write_builder import WriteBuilder
from paimon_assets.spark.dataframes.tables import write_dataframe
from paimon_assets.spark.sql.assignment_casts import column_named, stored
from paimon_assets.spark.sql.frames import Frames
from paimon_assets.spark.types import from_spark_schema, to_spark_type

_MODE = "spark.sql.sources.partitionOverwriteMode"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inserts:
    """Rows of queries that are written."""

    frames: Frames
    runner: Runner

    def insert(self, statement: Insert) -> pa.Table:
        """Run an INSERT."""
        table = self.frames.catalog.get_table(statement.table)
        query = statement.query
        if query.lstrip("( ").upper().startswith("VALUES"):
            query = with_nulls_for_default(query)
        rows = _align(table, statement, self.frames.query(query))
        written = write_dataframe(self._builder(table, statement), rows)
        name = "INSERT OVERWRITE" if statement.overwrites else "INSERT INTO"
        return outcome(name, table.name, written.snapshot, written=written.report.rows_written)

    def _builder(self, table: Table, statement: Insert) -> WriteBuilder:
        builder = table.new_write_builder()
        if not statement.overwrites:
            return builder
        mode = str(self.frames.session.conf.get(_MODE)).lower()
        if mode == "dynamic" and table.schema.partition_keys and not statement.fixed:
            return builder.with_dynamic_overwrite()
        return builder.with_overwrite(dict(statement.fixed))

    def create(self, statement: CreateTable) -> pa.Table:
        """Run CREATE TABLE AS: the table comes with its rows, or not at all."""
        catalog, name = self.frames.catalog, statement.table
        if statement.if_not_exists and catalog.table_exists(name):
            return outcome("CREATE TABLE", name)
        rows = self.frames.query(statement.query or "")
        columns = {field.name: field.type for field in from_spark_schema(rows.schema)}
        if len(columns) != len(rows.columns):
            raise InvalidInputError(
                f"The query of table '{name}' has columns that occur twice.", kind="insert-columns"
            )
        self.runner.create(statement, Schema.of(columns))
        table = catalog.get_table(name)
        try:
            written = write_dataframe(table.new_write_builder().with_empty_commits(), rows)
        except CommitUnknownError:
            raise
        except BaseException:
            catalog.drop_table(name, ignore_if_missing=True)
            raise
        return outcome("CREATE TABLE", name, written.snapshot, written=written.report.rows_written)


def _align(table: Table, statement: Insert, rows: DataFrame) -> DataFrame:
    """Return the rows of a query as the table's columns."""
    schema, label = table.schema, table.name
    fixed = {column_named(schema, n, label).name: value for n, value in statement.fixed}
    for name in (*fixed, *statement.dynamic):
        if name not in schema.partition_keys:
            raise InvalidInputError(
                f"Column '{name}' is no partition key of table '{label}'.", kind="partition-spec"
            )
    given = rows.columns if statement.by_name else statement.columns
    new = _new_columns(schema, statement, rows)
    targets = (
        [column_named(schema, name, label).name for name in given if name not in new]
        if given
        else [name for name in schema.field_names if name not in fixed]
    )
    if not given and statement.dynamic:
        # Spark wants the partition columns of a PARTITION clause behind the others.
        targets = [n for n in targets if n not in statement.dynamic] + list(statement.dynamic)
    both = sorted(set(targets) & set(fixed))
    if both or len(set(targets)) != len(targets):
        raise InvalidInputError(
            f"A column of table '{label}' is given twice: {', '.join(both or targets)}.",
            kind="insert-columns",
        )
    if len(targets) + len(new) != len(rows.columns):
        raise InvalidInputError(
            f"Table '{label}' takes {len(targets)} values a row here ({', '.join(targets)}), and is"
            f" given {len(rows.columns)}.",
            kind="insert-columns",
            details={"table": label},
        )
    names = {name: f"c{place}" for place, name in enumerate([*targets, *new])}
    if statement.by_name:
        ordered = [n for n in rows.columns if n not in new] + new
        rows = rows.select(*(sf.col(f"`{name}`") for name in ordered))
    placed = rows.toDF(*names.values())
    columns = []
    for field in schema.fields:
        if field.name in names:
            columns.append(stored(placed, names[field.name], field, label))
        else:
            value = fixed.get(field.name)
            kind = to_spark_type(field.type, column=field.name)
            columns.append(sf.lit(value).cast(kind).alias(field.name))
    columns += [sf.col(names[name]).alias(name) for name in new]
    return placed.select(*columns)


def _new_columns(schema: TableSchema, statement: Insert, rows: DataFrame) -> list[str]:
    """Return the columns of rows that are added to the table, if it takes such."""
    if not statement.by_name or not schema.typed_options.get(WRITE_MERGE_SCHEMA):
        return []
    known = {name.lower() for name in schema.field_names}
    return [name for name in rows.columns if name.lower() not in known]
