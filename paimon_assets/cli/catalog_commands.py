"""Commands on a catalog's names: ls, db, rename, drop, views."""

from collections.abc import Iterator
from typing import Any

import click

from paimon_assets.cli.commands import Arguments, command, flag, pairs, texts
from paimon_assets.cli.output import is_json, print_rows_of, say, size_text
from paimon_assets.engine.codec.rest.documents import AddDialect, DropDialect, UpdateDialect
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.options.catalog_options import shown_options
from paimon_assets.engine.spec.words import counted
from paimon_assets.engine.table.api import TableCatalog

db = click.Group("db", help="Create, show, change and drop databases.")
views = click.Group("views", help="Named queries of a catalog: create, change, show, drop.")


@command("[DATABASE]")
@flag("--all", "is_all", help="The tables of all databases.")
@flag("--long", "-l", "is_long", help="With keys, files and records (rows before merging).")
def ls(args: Arguments) -> None:
    """List the databases, or the tables of DATABASE."""
    catalog, database = args.catalog, args.database
    databases = [database] if database is not None else catalog.list_databases()
    if not databases:
        args.settings.check_warehouse()
    if database is None and not args.is_all and not args.is_long:
        say(databases, databases)
        return
    tables = [f"{name}.{table}" for name in databases for table in catalog.list_tables(name)]
    if not args.is_long:
        say(tables, tables)
        return
    lines = list(_describe(catalog, tables))
    if not is_json():
        lines = [
            {
                "table": line["table"],
                "primary key": ", ".join(line["primary_key"]),
                "partitioned by": ", ".join(line["partition_keys"]),
                "snapshot": line["snapshot_id"],
                "files": line["files"],
                "records": line["records"],
                "size": size_text(line["bytes"]),
            }
            for line in lines
        ]
    print_rows_of(lines)


def _describe(catalog: TableCatalog, tables: list[str]) -> Iterator[dict[str, Any]]:
    for name in tables:
        table = catalog.get_table(name)
        snapshot = table.latest_snapshot()
        yield {
            "table": name,
            "path": table.path,
            "primary_key": list(table.schema.primary_keys),
            "partition_keys": list(table.schema.partition_keys),
            "snapshot_id": None if snapshot is None else snapshot.id,
            "files": len(files := table.state.live_files(snapshot)),
            "records": sum(entry.file.row_count for entry in files),
            "bytes": sum(entry.file.file_size for entry in files),
        }


@command("NAME", group=db)
@flag("--if-not-exists", help="Do nothing if the database exists.")
@pairs("--property", "properties", help="KEY=VALUE.")
def db_create(args: Arguments) -> None:
    """Create the database NAME."""
    args.catalog.create_database(
        args.name, ignore_if_exists=args.if_not_exists, options=args.properties
    )
    say(f"database {args.name} is made", {"database": args.name})


@command("NAME", group=db)
def db_show(args: Arguments) -> None:
    """Show the database NAME: its properties and its tables."""
    name, catalog = args.name, args.catalog
    tables = catalog.list_tables(name)
    properties = shown_options(catalog.get_database(name).options)
    lines = [
        f"{name}: {counted(len(tables), 'table')}",
        *(f"{key} = {value}" for key, value in sorted(properties.items())),
        *tables,
    ]
    say(lines, {"name": name, "properties": properties, "tables": tables})


@command("NAME", group=db)
@pairs("--property", "properties", help="KEY=VALUE.")
@texts("--remove", "removals", help="KEY of a property that goes.")
def db_set(args: Arguments) -> None:
    """Set and remove properties of the database NAME."""
    args.catalog.alter_database(args.name, updates=args.properties, removals=args.removals)
    say(f"database {args.name} is changed", {"database": args.name})


@command("NAME", group=db, yes=True)
@flag("--cascade", help="With all tables in it, and their files.")
@flag("--if-exists", help="Do nothing if there is no such database.")
def db_drop(args: Arguments) -> None:
    """Drop the database NAME."""
    name, catalog = args.name, args.catalog
    if args.if_exists and name not in catalog.list_databases():
        say(f"there is no database {name}", {"dropped": None})
        return
    tables = catalog.list_tables(name) if args.cascade else []
    named = f": {', '.join(tables)}" if tables else ""
    args.confirm(
        f"Database {name} is deleted, with {counted(len(tables), 'table')} and their files{named}."
    )
    catalog.drop_database(name, cascade=args.cascade)
    say(f"database {name} is dropped", {"dropped": name, "tables": tables})


@command("SOURCE", "TARGET")
def rename(args: Arguments) -> None:
    """Give the table SOURCE the name TARGET."""
    source, target = args.source, args.target
    args.catalog.rename_table(source, target)
    say(f"{source} is {target} now", {"table": target, "was": source})


@command("TARGET", yes=True)
@flag("--if-exists", help="Do nothing if there is no such table.")
def drop(args: Arguments) -> None:
    """Drop TARGET with all its files.

    Files of others that it reads as segments stay.
    """
    target, catalog = args.target, args.catalog
    if args.if_exists and not catalog.table_exists(target):
        say(f"there is no table {target}", {"dropped": None})
        return
    args.confirm(f"{_contents(catalog, target)} is dropped for ever.")
    catalog.drop_table(target)
    say(f"table {target} is dropped", {"dropped": target})


def _contents(catalog: TableCatalog, target: str) -> str:
    if "$" in target:
        raise InvalidInputError(
            f"'{target}' is no table of its own; drop the table, or `branch delete`.", kind="name"
        )
    table = catalog.get_table(target)
    files = table.state.live_files()
    size = size_text(sum(entry.file.file_size for entry in files))
    return f"Table {table.name} at {table.path}, with {counted(len(files), 'file')} of {size},"


@command("DATABASE", group=views)
def views_list(args: Arguments) -> None:
    """List the views of DATABASE."""
    names = [f"{args.database}.{name}" for name in args.catalog.views.list(args.database)]
    say(names, names)


@command("NAME", group=views)
@click.option("--dialect", help="Only the query, in this dialect.")
def views_show(args: Arguments) -> None:
    """Show the columns and the queries of the view NAME, a database.view."""
    view = args.catalog.views.get(args.name)
    columns = [{"name": column.name, "type": str(column.type)} for column in view.fields]
    facts = {"columns": columns, "query": view.query, "dialects": dict(view.dialects)}
    if args.dialect is not None and not is_json():
        click.echo(view.query_for(args.dialect))
        return
    queries = {"any dialect": view.query, **view.dialects}
    lines = [
        *(f"{column.name} {column.type}" for column in view.fields),
        *(f"-- {dialect}\n{query}" for dialect, query in queries.items()),
    ]
    say(lines, facts)


@command("NAME", "QUERY", group=views)
@texts("--column", "columns", required=True, help='"NAME TYPE"; repeated.')
@pairs("--dialect", "dialects", help="NAME=QUERY.")
@click.option("--comment", help="What the view is for.")
def views_create(args: Arguments) -> None:
    """Create the view NAME, a database.view, of QUERY."""
    name, columns = args.name, args.columns
    typed = dict(column.strip().split(None, 1) for column in columns if " " in column.strip())
    if len(typed) != len(columns):
        raise click.BadParameter(
            'each column is "NAME TYPE", and named once', param_hint="--column"
        )
    args.catalog.views.create(name, args.query, typed, dialects=args.dialects, comment=args.comment)
    say(f"view {name} is made", {"view": name})


@command("NAME", "DIALECT", "[QUERY]", group=views)
def views_dialect(args: Arguments) -> None:
    """Set the query of the view NAME in DIALECT; without QUERY, remove it."""
    name, dialect, views = args.name, args.dialect, args.catalog.views
    if args.query is None:
        views.alter(name, [DropDialect(dialect=dialect)])
        say(f"view {name} has no query in {dialect} now", {"view": name, "dropped": dialect})
        return
    change = UpdateDialect if dialect in views.get(name).dialects else AddDialect
    views.alter(name, [change(dialect=dialect, query=args.query)])
    say(f"view {name} has a query in {dialect} now", {"view": name, "dialect": dialect})


@command("SOURCE", "TARGET", group=views)
def views_rename(args: Arguments) -> None:
    """Give the view SOURCE the name TARGET."""
    source, target = args.source, args.target
    args.catalog.views.rename(source, target)
    say(f"{source} is {target} now", {"view": target, "was": source})


@command("NAME", group=views, yes=True)
def views_drop(args: Arguments) -> None:
    """Drop the view NAME; the tables it reads stay."""
    args.confirm(f"View {args.name} is dropped; the tables it reads stay.")
    args.catalog.views.drop(args.name)
    say(f"view {args.name} is dropped", {"dropped": args.name})
