"""`paimon-assets sql`: queries by duckdb, other statements by the catalog."""

import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module

import click

from paimon_assets.cli import commands, output
from paimon_assets.cli.queries import put_rows, row_options
from paimon_assets.engine.errors import PaimonError, without_secrets
from paimon_assets.engine.executors import spark_module
from paimon_assets.engine.table.api import TableCatalog
from paimon_assets.sql.parse import parse_sql
from paimon_assets.sql.segment_sql import SegmentStatement
from paimon_assets.sql.statements import Names, is_query, loss_of
from paimon_assets.sql.words import split_statements


@commands.command("[STATEMENT]", executor=True, yes=True)
@click.option(
    "--file",
    "-f",
    "file",
    type=click.File(encoding="utf-8"),
    help="Run the statements of this file, which semicolons end; - is the standard input.",
)
@click.option("--database", help="Of tables that are named without one.")
@row_options
@commands.root_option
def sql(args: commands.Arguments) -> None:
    """Run STATEMENT: queries by duckdb, the rest by the engine, or by Spark.

    A query names tables as database.table, with VERSION AS OF 3 or TIMESTAMP AS OF '2024-01-31'
    behind them for a state of the past, and "table$snapshots" for system tables.

    A statement that deletes or changes rows, tables or history asks first, unless --yes is given.

    Other statements are spelt as in Paimon's Spark SQL: CREATE, ALTER, DROP, DELETE, UPDATE, SHOW,
    CALL, and ALTER TABLE t ADD SEGMENT, SHOW [HISTORY] SEGMENTS, DELETE FROM TABLE t … SEGMENT,
    CLEAN FILES FOR TABLE t. INSERT, MERGE and CREATE VIEW need --executor spark, which speaks
    Spark's SQL in queries, too.

    Without STATEMENT and --file it asks for statements until the input ends.
    """
    if args.statement is not None and args.file is not None:
        raise click.UsageError("Give STATEMENT or --file.")
    catalog = args.catalog
    if args.statement is not None:
        _run_statement(args, catalog, args.statement)
        return
    if args.file is not None:
        for statement in split_statements(args.file.read()):
            _run_statement(args, catalog, statement)
        return
    for statement in _statements_of_prompt():
        try:
            _run_statement(args, catalog, statement)
        except (PaimonError, OSError, click.ClickException) as error:
            click.echo(f"Error: {without_secrets(str(error))}", err=True)


def _statements_of_prompt() -> Iterator[str]:
    """Yield statements as they are typed, each ended by a semicolon."""
    with suppress(ImportError):
        import_module("readline")  # lines can be edited and called back
    text = ""
    while True:
        try:
            line = input("  ... " if text else "sql> ")
        except (EOFError, KeyboardInterrupt):
            click.echo()
            return
        if not text and line.strip().lower().rstrip(";") in {"exit", "quit"}:
            return
        text = f"{text}\n{line}" if text else line
        if text.rstrip().endswith(";"):
            yield from split_statements(text)
            text = ""


def _run_statement(args: commands.Arguments, catalog: TableCatalog, statement: str) -> None:
    database = args.database
    parsed = None if is_query(statement) else parse_sql(statement, Names(database=database))
    if parsed is not None and (loss := loss_of(parsed)):
        is_typed = args.statement is not None or args.file is not None or sys.stdin.isatty()
        args.confirm(loss, inputs=[] if is_typed else [output.STANDARD_INPUT])
    executor = args.new_executor()
    if args.executor == "spark" and not isinstance(parsed, SegmentStatement):
        module = spark_module("paimon_assets.sql.spark.spark_sql")
        frame = module.spark_sql(commands.spark_session(), catalog, statement, database=database)
        rows = (frame if args.limit is None else frame.limit(args.limit)).toArrow()
        put_rows(rows.to_reader(), rows.num_rows, args)
    elif parsed is None:
        put_rows(catalog.sql(statement, database=database).to_reader(executor), None, args)
    else:
        roots = args.roots or None
        shown = catalog.execute(statement, executor, roots=roots, database=database)
        rows = output.table_rows(shown)
        if len(rows) == 1 and not output.is_json():
            rows = [{name: value for name, value in rows[0].items() if value is not None}]
        output.print_rows_of(rows)
