"""Commands on a catalog's names: ls, db, rename, drop, views."""

from collections.abc import Iterator
from typing import Any

import click

from paimon_assets.cli.commands import Given, command, flag, pairs, texts
from paimon_assets.cli.output import print_rows_of, say, says_json, size_text
from paimon_assets.engine.codec.rest.resources import AddDialect, DropDialect, UpdateDialect
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.options.secret_options import shown_options
from paimon_assets.engine.spec.words import counted
from paimon_assets.engine.table.api import TableCatalog

db = click.Group("db", help="Create, show, change and drop databases.")
views = click.Group("views", help="Named queries of a catalog: create, change, show, drop.")


@command("[DATABASE]")
@flag("--all", "is_all", help="The tables of all databases.")
@flag("--long", "-l", "is_long", help="With keys, files and rows.")
def ls(given: Given) -> None:
    """List the databases, or the tables of DATABASE."""
    catalog, database = given.catalog, given.database
    databases = [database] if database is not None else catalog.list_databases()
    if not databases:
        given.settings.check_warehouse()
    if database is None and not given.is_all and not given.is_long:
        say(databases, databases)
        return
    tables = [f"{name}.{table}" for name in databases for table in catalog.list_tables(name)]
    if not given.is_long:
        say(tables, tables)
        return
    lines = list(_describe(catalog, tables))
    if not says_json():
        lines = [{**line, "bytes": size_text(line["bytes"])} for line in lines]
        for line in lines:
            del line["path"]
    print_rows_of(lines)


def _describe(catalog: TableCatalog, tables: list[str]) -> Iterator[dict[str, Any]]:
    for name in tables:
        table = catalog.get_table(name)
        snapshot = table.latest_snapshot()
        yield {
            "table": name,
            "path": table.path,
            "primary key": ",".join(table.schema.primary_keys),
            "partitions": ",".join(table.schema.partition_keys),
            "snapshot": None if snapshot is None else snapshot.id,
            "files": len(files := table.live_files(snapshot)),
            "rows": sum(entry.file.row_count for entry in files),
            "bytes": sum(entry.file.file_size for entry in files),
        }


@command("NAME", group=db)
@flag("--if-not-exists", help="Do nothing if the database exists.")
@pairs("--property", "properties", help="KEY=VALUE.")
def db_create(given: Given) -> None:
    """Create the database NAME."""
    given.catalog.create_database(
        given.name, ignore_if_exists=given.if_not_exists, options=given.properties
    )
    say(f"database {given.name} is made", {"database": given.name})


@command("NAME", group=db)
def db_show(given: Given) -> None:
    """Show the database NAME: its properties and its tables."""
    name, catalog = given.name, given.catalog
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
def db_set(given: Given) -> None:
    """Set and remove properties of the database NAME."""
    given.catalog.alter_database(given.name, updates=given.properties, removals=given.removals)
    say(f"database {given.name} is changed", {"database": given.name})


@command("NAME", group=db, yes=True)
@flag("--cascade", help="With all tables in it, and their files.")
@flag("--if-exists", help="Do nothing if there is no such database.")
def db_drop(given: Given) -> None:
    """Drop the database NAME."""
    name, catalog = given.name, given.catalog
    if given.if_exists and name not in catalog.list_databases():
        say(f"there is no database {name}", {"dropped": None})
        return
    tables = catalog.list_tables(name) if given.cascade else []
    named = f": {', '.join(tables)}" if tables else ""
    given.confirm(
        f"Database {name} goes, with {counted(len(tables), 'table')} and their files{named}."
    )
    catalog.drop_database(name, cascade=given.cascade)
    say(f"database {name} is dropped", {"dropped": name, "tables": tables})


@command("SOURCE", "TARGET")
def rename(given: Given) -> None:
    """Give the table SOURCE the name TARGET."""
    source, target = given.source, given.target
    given.catalog.rename_table(source, target)
    say(f"{source} is {target} now", {"table": target, "was": source})


@command("TARGET", yes=True)
@flag("--if-exists", help="Do nothing if there is no such table.")
def drop(given: Given) -> None:
    """Drop TARGET with all its files.

    Files of others that it reads as segments stay.
    """
    target, catalog = given.target, given.catalog
    if given.if_exists and not catalog.table_exists(target):
        say(f"there is no table {target}", {"dropped": None})
        return
    given.confirm(f"{_what_goes(catalog, target)} goes for ever.")
    catalog.drop_table(target)
    say(f"table {target} is dropped", {"dropped": target})


def _what_goes(catalog: TableCatalog, target: str) -> str:
    if "$" in target:
        raise InvalidInputError(
            f"'{target}' is no table of its own; drop the table, or `branch delete`.", kind="name"
        )
    table = catalog.get_table(target)
    files = table.live_files()
    size = size_text(sum(entry.file.file_size for entry in files))
    return f"Table {table.name} at {table.path}, with {counted(len(files), 'file')} of {size},"


@command("DATABASE", group=views)
def views_list(given: Given) -> None:
    """List the views of DATABASE."""
    names = [f"{given.database}.{name}" for name in given.catalog.views.list(given.database)]
    say(names, names)


@command("NAME", group=views)
@click.option("--dialect", help="Only the query, in this dialect.")
def views_show(given: Given) -> None:
    """Show the columns and the queries of the view NAME, a database.view."""
    view = given.catalog.views.get(given.name)
    columns = [{"name": column.name, "type": str(column.type)} for column in view.fields]
    facts = {"columns": columns, "query": view.query, "dialects": dict(view.dialects)}
    if given.dialect is not None and not says_json():
        click.echo(view.query_for(given.dialect))
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
def views_create(given: Given) -> None:
    """Create the view NAME, a database.view, of QUERY."""
    name, columns = given.name, given.columns
    typed = dict(column.strip().split(None, 1) for column in columns if " " in column.strip())
    if len(typed) != len(columns):
        raise click.BadParameter(
            'each column is "NAME TYPE", and named once', param_hint="--column"
        )
    given.catalog.views.create(
        name, given.query, typed, dialects=given.dialects, comment=given.comment
    )
    say(f"view {name} is made", {"view": name})


@command("NAME", "DIALECT", "[QUERY]", group=views)
def views_dialect(given: Given) -> None:
    """Set the query of the view NAME in DIALECT; without QUERY, remove it."""
    name, dialect, views = given.name, given.dialect, given.catalog.views
    if given.query is None:
        views.alter(name, [DropDialect(dialect=dialect)])
        say(f"view {name} has no query in {dialect} now", {"view": name, "dropped": dialect})
        return
    change = UpdateDialect if dialect in views.get(name).dialects else AddDialect
    views.alter(name, [change(dialect=dialect, query=given.query)])
    say(f"view {name} has a query in {dialect} now", {"view": name, "dialect": dialect})


@command("SOURCE", "TARGET", group=views)
def views_rename(given: Given) -> None:
    """Give the view SOURCE the name TARGET."""
    source, target = given.source, given.target
    given.catalog.views.rename(source, target)
    say(f"{source} is {target} now", {"view": target, "was": source})


@command("NAME", group=views, yes=True)
def views_drop(given: Given) -> None:
    """Drop the view NAME; the tables it reads stay."""
    given.confirm(f"View {given.name} goes; the tables it reads stay.")
    given.catalog.views.drop(given.name)
    say(f"view {given.name} is dropped", {"dropped": given.name})
