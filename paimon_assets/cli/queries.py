"""`paimon-assets sql`: queries by duckdb, other statements by the catalog."""

from typing import Any

import click

from paimon_assets.cli.files import OUTPUT_FORMATS
from paimon_assets.cli.options import executor_option, json_option
from paimon_assets.cli.output import print_rows_of, table_rows
from paimon_assets.cli.reading import put_rows
from paimon_assets.cli.segments import root_option
from paimon_assets.cli.settings import Settings, spark_session
from paimon_assets.engine.table.sql.query import is_query
from paimon_assets.executors import new_executor


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
@json_option
@executor_option
@click.pass_obj
def sql(settings: Settings, /, statement: str, **arguments: Any) -> None:
    """Run STATEMENT: a query by duckdb, another statement by the engine.

    A query names tables as database.table, with VERSION AS OF 3 or TIMESTAMP AS OF '2024-01-31'
    behind them for a moment, and "table$snapshots" for system tables.

    Other statements are spelt as in Paimon's Spark SQL: CREATE, ALTER, DROP, DELETE, UPDATE, SHOW,
    CALL, and ALTER TABLE t ADD SEGMENT, SHOW SEGMENTS, DELETE FROM TABLE t … SEGMENT.
    """
    catalog = settings.catalog()
    executor = new_executor(arguments["executor"], spark_session)
    if is_query(statement):
        rows = catalog.sql(statement, database=arguments["database"]).to_reader(executor)
        put_rows(rows, None, arguments)
        return
    roots, database = arguments["roots"] or None, arguments["database"]
    shown = catalog.execute(statement, executor, roots=roots, database=database)
    print_rows_of(table_rows(shown), as_json=arguments["as_json"])
