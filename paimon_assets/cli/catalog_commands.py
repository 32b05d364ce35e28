"""Commands on a catalog's names: ls, db, rename, drop."""

from collections.abc import Iterator, Mapping
from typing import Any

import click

from paimon_assets.cli.options import (
    confirm,
    key_values,
    pass_settings,
    says_json,
    target_argument,
    yes_option,
)
from paimon_assets.cli.output import print_rows_of, say, size_text
from paimon_assets.cli.settings import Settings
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.options.secret_options import shown_options
from paimon_assets.engine.spec.words import counted
from paimon_assets.engine.table.api import TableCatalog
from paimon_assets.engine.table.table import Table


@click.command()
@click.argument("database", required=False)
@click.option("--all", "is_all", is_flag=True, help="The tables of all databases.")
@click.option("--long", "-l", "is_long", is_flag=True, help="With keys, files and rows.")
@pass_settings
def ls(settings: Settings, /, database: str | None, *, is_all: bool, is_long: bool) -> None:
    """List the databases, or the tables of DATABASE."""
    catalog = settings.catalog()
    if database is None and not is_all and not is_long:
        say(names := catalog.list_databases(), names)
        return
    databases = catalog.list_databases() if database is None else [database]
    tables = [f"{name}.{table}" for name in databases for table in catalog.list_tables(name)]
    if not is_long:
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


@click.group()
def db() -> None:
    """Create, show, change and drop databases."""


@db.command("create")
@click.argument("name")
@click.option("--if-not-exists", is_flag=True, help="Do nothing if the database exists.")
@click.option("--property", "properties", multiple=True, callback=key_values, help="KEY=VALUE.")
@pass_settings
def db_create(
    settings: Settings, /, name: str, *, if_not_exists: bool, properties: Mapping[str, str]
) -> None:
    """Create the database NAME."""
    settings.catalog().create_database(name, ignore_if_exists=if_not_exists, options=properties)
    say(f"database {name} is made", {"database": name})


@db.command("show")
@click.argument("name")
@pass_settings
def db_show(settings: Settings, /, name: str) -> None:
    """Show the database NAME: its properties and its tables."""
    catalog = settings.catalog()
    tables = catalog.list_tables(name)
    properties = shown_options(catalog.get_database(name).options)
    lines = [
        f"{name}: {counted(len(tables), 'table')}",
        *(f"{key} = {value}" for key, value in sorted(properties.items())),
        *tables,
    ]
    say(lines, {"name": name, "properties": properties, "tables": tables})


@db.command("set")
@click.argument("name")
@click.option("--property", "properties", multiple=True, callback=key_values, help="KEY=VALUE.")
@click.option("--remove", "removals", multiple=True, help="KEY of a property that goes.")
@pass_settings
def db_set(
    settings: Settings,
    /,
    name: str,
    *,
    properties: Mapping[str, str],
    removals: tuple[str, ...],
) -> None:
    """Set and remove properties of the database NAME."""
    settings.catalog().alter_database(name, updates=properties, removals=removals)
    say(f"database {name} is changed", {"database": name})


@db.command("drop")
@click.argument("name")
@click.option("--cascade", is_flag=True, help="With all tables in it, and their files.")
@click.option("--if-exists", is_flag=True, help="Do nothing if there is no such database.")
@yes_option
@pass_settings
def db_drop(settings: Settings, /, name: str, **arguments: bool) -> None:
    """Drop the database NAME."""
    catalog = settings.catalog()
    if arguments["if_exists"] and name not in catalog.list_databases():
        say(f"there is no database {name}", {"dropped": None})
        return
    tables = catalog.list_tables(name) if arguments["cascade"] else []
    named = f": {', '.join(tables)}" if tables else ""
    confirm(f"Database {name} goes, with {counted(len(tables), 'table')} and their files{named}.")
    catalog.drop_database(name, cascade=arguments["cascade"])
    say(f"database {name} is dropped", {"dropped": name, "tables": tables})


@click.command()
@click.argument("source")
@click.argument("target")
@pass_settings
def rename(settings: Settings, /, source: str, target: str) -> None:
    """Give the table SOURCE the name TARGET."""
    settings.catalog().rename_table(source, target)
    say(f"{source} is {target} now", {"table": target, "was": source})


@click.command()
@target_argument
@click.option("--if-exists", is_flag=True, help="Do nothing if there is no such table.")
@yes_option
@pass_settings
def drop(settings: Settings, /, target: str, *, if_exists: bool) -> None:
    """Drop TARGET with all its files.

    Files of others that it reads as segments stay.
    """
    catalog = settings.catalog()
    if if_exists and not catalog.table_exists(target):
        say(f"there is no table {target}", {"dropped": None})
        return
    confirm(f"{_what_goes(catalog, target)} goes for ever.")
    catalog.drop_table(target)
    say(f"table {target} is dropped", {"dropped": target})


def _what_goes(catalog: TableCatalog, target: str) -> str:
    if "$" in target:
        raise InvalidInputError(
            f"'{target}' is no table of its own; drop the table, or `branch delete`.", kind="name"
        )
    table: Table = catalog.get_table(target)
    files = table.live_files()
    size = size_text(sum(entry.file.file_size for entry in files))
    return f"Table {table.name} at {table.path}, with {counted(len(files), 'file')} of {size},"
