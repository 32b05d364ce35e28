"""spark_sql: any statement over the tables of a catalog, on Spark.

    spark_sql(session, catalog, "SELECT count(*) FROM ods.flights VERSION AS OF 3")
    spark_sql(session, catalog, "MERGE INTO ods.flights AS t USING landed AS s ON …")

Tables have the names `database.table` and `paimon.database.table`; other names are Spark's own.
`docs/sql/sql.md` lists the statements. In a notebook, after `load_magic(spark, catalog)`:

    %%paimon_sql
    SELECT carrier, count(*) FROM ods.flights GROUP BY carrier
"""

import importlib
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from paimon_assets.engine.errors import AlreadyExistsError, CommitUnknownError, InvalidInputError
from paimon_assets.engine.spec.options.all_options import WRITE_MERGE_SCHEMA
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.table.api import TableCatalog
from paimon_assets.engine.table.table import Table
from paimon_assets.spark import types as spark_types
from paimon_assets.spark.dataframes.tables import write_dataframe
from paimon_assets.spark.executor import SparkExecutor
from paimon_assets.spark.failure import typed_errors
from paimon_assets.sql import statements as st
from paimon_assets.sql.parse import parse_sql
from paimon_assets.sql.run import Runner
from paimon_assets.sql.spark.assignment_casts import cast_for_storage, column_named
from paimon_assets.sql.spark.changes import change_rows
from paimon_assets.sql.spark.frames import Frames
from paimon_assets.sql.spark.merges import merge_rows
from paimon_assets.sql.table_uses import TableUse, find_tables
from paimon_assets.sql.words import with_nulls_for_default

_DIALECT = "spark"
_MODE = "spark.sql.sources.partitionOverwriteMode"


def spark_sql(
    session: SparkSession,
    catalog: TableCatalog,
    text: str,
    *,
    database: str | None = None,
    catalog_name: str = st.CATALOG_NAME,
) -> DataFrame:
    """Run one statement over the tables of a catalog.

    Everything is parsed, named and analysed before anything is committed, and the changes of a
    statement are one commit. Nothing stays in the session.

    Args:
        session: Where it runs; also one of Spark Connect.
        catalog: Whose tables names mean.
        text: A query or a statement, as Paimon's Spark SQL spells it.
        database: Where tables lie whose names have no database.
        catalog_name: How statements name the catalog.

    Returns:
        The rows of a query, lazily, each table as it was when planned: now. Of another statement
        its result; or one row, with the snapshot and the commit user of its change.

    Raises:
        InvalidInputError: Kinds `statement`, `query`, `name`: the text is wrong; nothing was done.
        UnsupportedFeatureError: A statement that is not taken (kind `statement-unsupported`), or a
            table that does not take it; names the way out.
        AnalysisException: Spark's, of a query.
        PaimonError: As the method that the statement calls.

    >>> spark_sql(spark, catalog, "SELECT * FROM db.`t$snapshots`").show()       # doctest: +SKIP
    """
    names = st.Names(catalog=catalog_name, database=database)
    statement = parse_sql(text, names)
    frames = Frames(session=session, catalog=catalog, names=names)
    if isinstance(statement, st.Select):
        return frames.query(statement.query)
    run = Runner(catalog=catalog, names=names, executor=SparkExecutor(session))
    with typed_errors():
        answer = _run(frames, run, statement)
    schema = spark_types.arrow_to_spark_schema(answer.schema)
    return session.createDataFrame([tuple(row.values()) for row in answer.to_pylist()], schema)


def _run(frames: Frames, runner: Runner, statement: st.Statement) -> pa.Table:
    match statement:
        case st.Insert():
            return _insert(frames, statement)
        case st.CreateTable(query=str()):
            return _create_table(frames, runner, statement)
        case st.Delete() | st.Update():
            return change_rows(frames, runner, statement)
        case st.Merge():
            return merge_rows(frames, statement)
        case st.CreateView():
            return _create_view(frames, statement)
        case _:
            return runner.run(statement)


def register_views(
    session: SparkSession, catalog: TableCatalog, databases: Iterable[str] | None = None
) -> list[str]:
    """Give every table and view of a catalog a name in `session.sql`: `database_table`.

    >>> register_views(spark, catalog)                                   # doctest: +SKIP
    ['shop_orders']

    The names are temporary views of the session. Each shows its table as it is now; register again
    to see later commits, or use `spark_sql`, which always shows the newest.

    Args:
        session: Gets the names.
        catalog: Has the tables.
        databases: Only these; all by default.

    Returns:
        The names, sorted.

    Raises:
        InvalidInputError: Kind `name`: two tables would have one name.
        PaimonError: As planning the reads; no name was registered.

    Cost:
        A plan of each table.
    """
    frames = Frames(session=session, catalog=catalog, names=st.Names())
    rows: dict[str, DataFrame] = {}
    for database in catalog.list_databases() if databases is None else databases:
        tables = catalog.list_tables(database)
        for table in [*tables, *catalog.views.list(database)]:
            name = f"{database}_{table}"
            if name in rows:
                raise InvalidInputError(
                    f"Two tables would have the name '{name}' in the session; register their"
                    " databases in sessions of their own.",
                    kind="name",
                )
            path = f"{spark_types.quote(database)}.{spark_types.quote(table)}"
            rows[name] = frames.query(f"SELECT * FROM {path}")
    for name, frame in rows.items():
        frame.createOrReplaceTempView(spark_types.quote(name))
    return sorted(rows)


def load_magic(
    session: SparkSession, catalog: TableCatalog, *, database: str | None = None, shell: Any = None
) -> None:
    """Let a notebook run statements by `%paimon_sql`, which returns the DataFrame.

    >>> load_magic(spark, catalog, database="shop")                      # doctest: +SKIP

    Args:
        session: Where they run.
        catalog: Whose tables they name.
        database: Where tables lie whose names have no database.
        shell: The notebook's; the one this runs in by default.

    Raises:
        InvalidInputError: Kind `notebook`: this is no notebook.
    """
    if shell is None:
        try:
            shell = importlib.import_module("IPython").get_ipython()
        except ModuleNotFoundError:
            shell = None
    if shell is None:
        raise InvalidInputError(
            "This is no IPython session; call spark_sql(session, catalog, text).", kind="notebook"
        )

    def run(line: str, cell: str | None = None) -> DataFrame:
        return spark_sql(session, catalog, cell or line, database=database)

    shell.register_magic_function(run, magic_kind="line_cell", magic_name="paimon_sql")


def _insert(frames: Frames, statement: st.Insert) -> pa.Table:
    table = frames.catalog.get_table(statement.table)
    query = statement.query
    if query.lstrip("( ").upper().startswith("VALUES"):
        query = with_nulls_for_default(query)
    rows = _align(table, statement, frames.query(query))
    builder, verb = table.new_write_builder(), "INSERT INTO"
    if statement.overwrites:
        verb = "INSERT OVERWRITE"
        mode = str(frames.session.conf.get(_MODE)).lower()
        if mode == "dynamic" and table.schema.partition_keys and not statement.fixed:
            builder = builder.with_dynamic_overwrite()
        else:
            builder = builder.with_overwrite(dict(statement.fixed))
    written = write_dataframe(builder, rows)
    return st.outcome(verb, table.name, written.snapshot, written=written.report.rows_written)


def _create_table(frames: Frames, runner: Runner, statement: st.CreateTable) -> pa.Table:
    """Run CREATE TABLE AS: the table is created with its rows, or not at all."""
    catalog, name = frames.catalog, statement.table
    if statement.if_not_exists and catalog.table_exists(name):
        return st.outcome("CREATE TABLE", name)
    rows = frames.query(statement.query or "")
    columns = {field.name: field.type for field in spark_types.from_spark_schema(rows.schema)}
    if len(columns) != len(rows.columns):
        raise InvalidInputError(
            f"The query of table '{name}' has columns that occur twice; rename one of them.",
            kind="insert-columns",
        )
    runner.create(statement, Schema.of(columns))
    table = catalog.get_table(name)
    try:
        written = write_dataframe(table.new_write_builder().with_empty_commits(), rows)
    except CommitUnknownError:
        raise
    except BaseException:
        catalog.drop_table(name, ignore_if_missing=True)
        raise
    return st.outcome("CREATE TABLE", name, written.snapshot, written=written.report.rows_written)


def _align(table: Table, statement: st.Insert, rows: DataFrame) -> DataFrame:
    schema, label = table.schema, table.name
    fixed = {column_named(schema, n).name: value for n, value in statement.fixed}
    for name in (*fixed, *statement.dynamic):
        if name not in schema.partition_keys:
            raise InvalidInputError(
                f"Column '{name}' is no partition key of table '{label}'.", kind="partition-spec"
            )
    names = rows.columns if statement.by_name else statement.columns
    new: list[str] = []  # columns that are added to the table
    if statement.by_name and schema.typed_options.get(WRITE_MERGE_SCHEMA):
        known = {name.lower() for name in schema.field_names}
        new = [name for name in rows.columns if name.lower() not in known]
    if names:
        targets = [column_named(schema, name).name for name in names if name not in new]
    else:  # Spark wants the partition columns of a PARTITION clause at the end.
        plain = {*fixed, *statement.dynamic}
        targets = [n for n in schema.field_names if n not in plain] + list(statement.dynamic)
    both = sorted(set(targets) & set(fixed))
    if both or len(set(targets)) != len(targets):
        message = f"A column of table '{label}' is given twice: {', '.join(both or targets)}."
        raise InvalidInputError(message, kind="insert-columns")
    if len(targets) + len(new) != len(rows.columns):
        text = (
            f"Table '{label}' takes {len(targets)} values a row here ({', '.join(targets)}), and is"
            f" given {len(rows.columns)}."
        )
        raise InvalidInputError(text, kind="insert-columns", table=label)
    placed_as = {name: f"c{place}" for place, name in enumerate([*targets, *new])}
    if statement.by_name:
        ordered = [n for n in rows.columns if n not in new] + new
        rows = rows.select(*(sf.col(f"`{name}`") for name in ordered))
    placed = rows.toDF(*placed_as.values())
    columns = []
    for field in schema.fields:
        if field.name in placed_as:
            columns.append(cast_for_storage(placed, placed_as[field.name], field, label))
        else:
            value = fixed.get(field.name)
            kind = spark_types.to_spark_type(field.type, column=field.name)
            columns.append(sf.lit(value).cast(kind).alias(field.name))
    columns += [sf.col(placed_as[name]).alias(name) for name in new]
    return placed.select(*columns)


def _create_view(frames: Frames, statement: st.CreateView) -> pa.Table:
    """Create a view; its query is analysed first, and has names with their database."""
    catalog, name = frames.catalog, statement.name
    exists = st.view_exists(catalog, name)
    if exists and statement.if_not_exists:
        return st.outcome("CREATE VIEW", name)
    if catalog.table_exists(name) or (exists and not statement.replaces):
        raise AlreadyExistsError(f"There is a table or view '{name}' already.", kind="view-exists")
    query = _qualify(frames, statement.query)
    fields = spark_types.from_spark_schema(frames.query(query).schema)
    columns = statement.columns or tuple((field.name, None) for field in fields)
    if len(columns) != len(fields) or len({column for column, _ in columns}) != len(fields):
        raise InvalidInputError(
            f"View '{name}' names {len(columns)} columns, and its query has {len(fields)}: each"
            " needs a name of its own.",
            kind="view-columns",
        )
    types = {column: field.type for (column, _), field in zip(columns, fields, strict=True)}
    if exists:
        catalog.views.drop(str(name))
    catalog.views.create(
        str(name),
        query,
        types,
        dialects={_DIALECT: query},
        comment=statement.comment,
        options=statement.options,
    )
    return st.outcome("CREATE VIEW", name)


def _qualify(frames: Frames, query: str) -> str:
    """Return a query whose tables have their database, so that it means the same in any session."""
    database, known = frames.names.database, set[str]()
    if database is not None:
        known = {*frames.catalog.list_tables(database), *frames.catalog.views.list(database)}

    def choose(use: TableUse) -> str | None:
        if len(use.name) != 1 or use.name[0] not in known or use.arguments is not None:
            return None
        target = ""
        if use.version is not None:
            target = f" VERSION AS OF '{use.version}'"
        elif use.timestamp is not None:
            target = f" TIMESTAMP AS OF {use.timestamp}"
        return f"{spark_types.quote(database or '')}.{spark_types.quote(use.name[0])}{target}"

    return find_tables(query).replace_tables(choose)
