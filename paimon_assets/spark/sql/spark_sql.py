"""spark_sql: any statement over the tables of a catalog, on Spark.

    spark_sql(session, catalog, "SELECT count(*) FROM ods.flights VERSION AS OF 3")
    spark_sql(session, catalog, "MERGE INTO ods.flights AS t USING landed AS s ON …")

Tables have the names `database.table` and `paimon.database.table`; other names are Spark's own.
`docs/sql.md` lists the statements.
"""

from collections.abc import Iterable

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from paimon_assets.engine.errors import AlreadyExistsError, InvalidInputError
from paimon_assets.engine.table.api import TableCatalog
from paimon_assets.engine.table.sql.parse import parse_sql
from paimon_assets.engine.table.sql.run import Runner
from paimon_assets.engine.table.sql.show import outcome
from paimon_assets.engine.table.sql.statements import (
    CATALOG_NAME,
    CreateTable,
    CreateView,
    Delete,
    Insert,
    Merge,
    Names,
    Select,
    Statement,
    Update,
    view_exists,
)
from paimon_assets.engine.table.sql.table_uses import TableUse, find_tables
from paimon_assets.spark.executor import SparkExecutor
from paimon_assets.spark.failure import typed_errors
from paimon_assets.spark.sql.changes import Changes
from paimon_assets.spark.sql.frames import Frames
from paimon_assets.spark.sql.inserts import Inserts
from paimon_assets.spark.sql.merges import Merges
from paimon_assets.spark.types import arrow_to_spark_schema, from_spark_schema, quoted

_DIALECT = "spark"


def spark_sql(
    session: SparkSession,
    catalog: TableCatalog,
    text: str,
    *,
    database: str | None = None,
    catalog_name: str = CATALOG_NAME,
) -> DataFrame:
    """Run one statement over the tables of a catalog.

    Everything is parsed, named and analysed before anything is committed, and what a statement
    changes is one commit. Nothing stays in the session.

    Args:
        session: Where it runs; also one of Spark Connect.
        catalog: Whose tables names mean.
        text: A query or a statement, as Paimon's Spark SQL spells it.
        database: Where tables lie whose names have no database.
        catalog_name: How statements name the catalog.

    Returns:
        The rows of a query, lazily, each table as it was when planned: now. Of another statement
        what it shows; or one row, with the snapshot and the commit user of what it did.

    Raises:
        InvalidInputError: Kinds `statement`, `query`, `name`: the text is wrong; nothing was done.
        UnsupportedFeatureError: A statement that is not taken (kind `statement-unsupported`), or a
            table that does not take it; names the way out.
        AnalysisException: Spark's, of a query.
        PaimonError: As what the statement does.

    >>> spark_sql(spark, catalog, "SELECT * FROM db.`t$snapshots`").show()       # doctest: +SKIP
    """
    names = Names(catalog=catalog_name, database=database)
    statement = parse_sql(text, names)
    frames = Frames(session=session, catalog=catalog, names=names)
    run = Runner(catalog=catalog, names=names, executor=SparkExecutor(session))
    if isinstance(statement, Select):
        return frames.query(statement.query)
    with typed_errors():
        done = _done(frames, run, statement)
    return _show(session, done)


def _done(frames: Frames, run: Runner, statement: Statement) -> pa.Table:
    match statement:
        case Insert():
            return Inserts(frames=frames, runner=run).insert(statement)
        case CreateTable(query=str()):
            return Inserts(frames=frames, runner=run).create(statement)
        case Delete() | Update():
            return Changes(frames=frames, runner=run).run(statement)
        case Merge():
            return Merges(frames=frames).run(statement)
        case CreateView():
            return _create_view(frames, statement)
        case _:
            return run.run(statement)


def _show(session: SparkSession, answer: pa.Table) -> DataFrame:
    schema = arrow_to_spark_schema(answer.schema)
    if not answer.num_rows:
        return session.createDataFrame([], schema)
    return session.createDataFrame([tuple(row.values()) for row in answer.to_pylist()], schema)


def register_views(
    session: SparkSession, catalog: TableCatalog, databases: Iterable[str] | None = None
) -> list[str]:
    """Give every table and view of a catalog a name in `session.sql`: `database_table`.

    The names are temporary views of the session. Each shows its table as it is now; register again
    to see what came later, or use `spark_sql`, which always shows the newest.

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
    frames = Frames(session=session, catalog=catalog, names=Names())
    found: dict[str, DataFrame] = {}
    for database in catalog.list_databases() if databases is None else databases:
        tables = catalog.list_tables(database)
        for table in [*tables, *catalog.views.list(database)]:
            name = f"{database}_{table}"
            if name in found:
                raise InvalidInputError(
                    f"Two tables would have the name '{name}' in the session; register their"
                    " databases in sessions of their own.",
                    kind="name",
                )
            path = f"{quoted(database)}.{quoted(table)}"
            found[name] = frames.query(f"SELECT * FROM {path}")
    for name, frame in found.items():
        frame.createOrReplaceTempView(quoted(name))
    return sorted(found)


def _create_view(frames: Frames, statement: CreateView) -> pa.Table:
    """Create a view; its query is analysed first, and says names with their database."""
    catalog, name = frames.catalog, statement.name
    exists = view_exists(catalog, name)
    if exists and statement.if_not_exists:
        return outcome("CREATE VIEW", name)
    if catalog.table_exists(name) or (exists and not statement.replaces):
        raise AlreadyExistsError(f"There is a table or view '{name}' already.", kind="view-exists")
    query = _qualify(frames, statement.query)
    fields = from_spark_schema(frames.query(query).schema)
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
    return outcome("CREATE VIEW", name)


def _qualify(frames: Frames, query: str) -> str:
    """Return a query whose tables have their database, so that it means the same in any session."""
    database = frames.names.database
    known = set(catalog_names(frames.catalog, database)) if database is not None else set()

    def choose(use: TableUse) -> str | None:
        if len(use.name) != 1 or use.name[0] not in known or use.arguments is not None:
            return None
        moment = ""
        if use.version is not None:
            moment = f" VERSION AS OF '{use.version}'"
        elif use.timestamp is not None:
            moment = f" TIMESTAMP AS OF {use.timestamp}"
        return f"{quoted(database or '')}.{quoted(use.name[0])}{moment}"

    return find_tables(query).replaced(choose)


def catalog_names(catalog: TableCatalog, database: str) -> list[str]:
    """Return the names of a database's tables and views."""
    return [*catalog.list_tables(database), *catalog.views.list(database)]
