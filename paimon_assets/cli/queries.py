"""`paimon-assets sql`: queries by duckdb, other statements by the catalog."""

from typing import Any

import click

from paimon_assets.cli.files import OUTPUT_FORMATS
from paimon_assets.cli.options import executor_option, pass_settings
from paimon_assets.cli.output import print_rows_of, table_rows
from paimon_assets.cli.reading import put_rows
from paimon_assets.cli.segments import root_option
from paimon_assets.cli.settings import Settings, spark_session
from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.table.sql.parse import is_segment_statement
from paimon_assets.engine.table.sql.query import is_query
from paimon_assets.executors import new_executor, spark_module


@click.command()
@click.argument("statement")
@click.option("--database", help="Of tables that are named without one.")
@click.option(
    "--out",
    type=click.Path(allow_dash=True),
    help="Of a query: file ending in .parquet, .arrow, .csv or .json; - is the standard output.",
)
@click.option(
    "--format", "file_format", type=click.Choice(OUTPUT_FORMATS), help="Of --out, as in read."
)
@click.option("--limit", type=click.IntRange(min=0), help="Rows at most.")
@root_option
@pass_settings
@executor_option
def sql(settings: Settings, /, statement: str, **arguments: Any) -> None:
    """Run STATEMENT: queries by duckdb, others by the engine, or by Spark.

    A query names tables as database.table, with VERSION AS OF 3 or TIMESTAMP AS OF '2024-01-31'
    behind them for a moment, and "table$snapshots" for system tables.

    Other statements are spelt as in Paimon's Spark SQL: CREATE, ALTER, DROP, DELETE, UPDATE, SHOW,
    CALL, and ALTER TABLE t ADD SEGMENT, SHOW [HISTORY] SEGMENTS, DELETE FROM TABLE t … SEGMENT,
    CLEAN FILES FOR TABLE t. INSERT, MERGE and CREATE VIEW need --executor spark, which speaks
    Spark's SQL in queries, too.
    """
    catalog, database = settings.catalog(), arguments["database"]
    executor = new_executor(arguments["executor"], spark_session)
    if not isinstance(executor, EmbeddedExecutor) and not is_segment_statement(statement):
        module = spark_module("paimon_assets.spark.sql.spark_sql")
        frame = module.spark_sql(spark_session(), catalog, statement, database=database)
        limit = arguments["limit"]
        rows = (frame if limit is None else frame.limit(limit)).toArrow()
        put_rows(rows.to_reader(), rows.num_rows, arguments)
    elif is_query(statement):
        put_rows(catalog.sql(statement, database=database).to_reader(executor), None, arguments)
    else:
        roots = arguments["roots"] or None
        shown = catalog.execute(statement, executor, roots=roots, database=database)
        print_rows_of(table_rows(shown))
