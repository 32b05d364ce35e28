"""Commands on a catalog's names: ls, db, rename, drop, views."""

import importlib
import logging
from pathlib import Path
from typing import Any

import click

from paimon_assets.cli import commands
from paimon_assets.cli.output import is_json, print_rows_of, say, size_text
from paimon_assets.engine.add_ons import SERVER
from paimon_assets.engine.errors import InvalidInputError, NotFoundError
from paimon_assets.engine.spec.options.catalog_options import shown_options
from paimon_assets.engine.spec.words import counted, did_you_mean

db = click.Group("db", help="Create, show, change and drop databases.")
views = click.Group("views", help="Named queries of a catalog: create, change, show, drop.")


@commands.command("[DATABASE]")
@commands.flag("--all", "is_all", help="The tables of all databases.")
@commands.flag(
    "--long", "-l", "is_long", help="With keys, files and records (rows before merging)."
)
def ls(args: commands.Arguments) -> None:
    """List the databases, or the tables of DATABASE."""
    catalog, database = args.catalog, args.database
    databases = [database] if database is not None else catalog.list_databases()
    if not databases:
        args.settings.check_warehouse()
    if database is None and not args.is_all and not args.is_long:
        say(databases, databases)
        return
    try:
        tables = [f"{name}.{table}" for name in databases for table in catalog.list_tables(name)]
    except NotFoundError as error:
        hint = did_you_mean(databases[0], catalog.list_databases())
        raise error.with_message(f"{error.message}{hint}") from error
    if not args.is_long:
        say(tables, tables)
        return
    rows = []
    for name in tables:
        table = catalog.get_table(name)
        snapshot = table.latest_snapshot()
        files = table.state.live_files(snapshot)
        rows.append(
            {
                "table": name,
                "path": table.path,
                "primary_key": list(table.schema.primary_keys),
                "partition_keys": list(table.schema.partition_keys),
                "snapshot_id": None if snapshot is None else snapshot.id,
                "files": len(files),
                "records": sum(entry.file.row_count for entry in files),
                "bytes": sum(entry.file.file_size for entry in files),
            }
        )
    print_rows_of(
        rows,
        "table=table, primary key=primary_key, partitioned by=partition_keys, snapshot=snapshot_id,"
        " files=files, records=records, size=bytes",
    )


@commands.command("NAME", group=db)
@commands.flag("--if-not-exists", help="Do nothing if the database exists.")
@commands.pairs("--property", "properties", help="KEY=VALUE.")
def db_create(args: commands.Arguments) -> None:
    """Create the database NAME."""
    args.catalog.create_database(
        args.name, ignore_if_exists=args.if_not_exists, options=args.properties
    )
    say(f"database {args.name} created", {"database": args.name})


@commands.command("NAME", group=db)
def db_show(args: commands.Arguments) -> None:
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


@commands.command("NAME", group=db)
@commands.pairs("--property", "properties", help="KEY=VALUE.")
@commands.texts("--remove", "removals", help="KEY of a property to remove.")
def db_set(args: commands.Arguments) -> None:
    """Set and remove properties of the database NAME."""
    args.catalog.alter_database(args.name, updates=args.properties, removals=args.removals)
    say(f"database {args.name} is changed", {"database": args.name})


@commands.command("NAME", group=db, yes=True)
@commands.flag("--cascade", help="With all tables in it, and their files.")
@commands.flag("--if-exists", help="Do nothing if there is no such database.")
def db_drop(args: commands.Arguments) -> None:
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


@commands.command("SOURCE", "TARGET")
def rename(args: commands.Arguments) -> None:
    """Give the table SOURCE the name TARGET."""
    source, target = args.source, args.target
    args.catalog.rename_table(source, target)
    say(f"{source} is {target} now", {"table": target, "was": source})


@commands.command("TARGET", yes=True)
@commands.flag("--cascade", help="With foreign files in its folder.")
@commands.flag("--if-exists", help="Do nothing if there is no such table.")
def drop(args: commands.Arguments) -> None:
    """Drop TARGET with all its files.

    External files that it reads as segments stay. Is a file in its folder not its own, nothing is
    dropped without --cascade.
    """
    target, catalog = args.target, args.catalog
    if args.if_exists and not catalog.table_exists(target):
        say(f"there is no table {target}", {"dropped": None})
        return
    if "$" in target:
        raise InvalidInputError(
            f"'{target}' is no table of its own; drop the table, or `branch delete`.", kind="name"
        )
    table = catalog.get_table(target)
    files = table.state.live_files()
    size = size_text(sum(entry.file.file_size for entry in files))
    args.confirm(
        f"Table {table.name} at {table.path}, with {counted(len(files), 'file')} of {size}"
        f"{', and foreign ones in its folder' * args.cascade}, will be deleted for good."
    )
    catalog.drop_table(target, cascade=args.cascade)
    say(f"table {target} is dropped", {"dropped": target})


@commands.command("DATABASE", group=views)
def views_list(args: commands.Arguments) -> None:
    """List the views of DATABASE."""
    names = [f"{args.database}.{name}" for name in args.catalog.views.list(args.database)]
    say(names, names)


@commands.command("NAME", group=views)
@click.option("--dialect", help="Only the query, in this dialect.")
def views_show(args: commands.Arguments) -> None:
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


@commands.command("NAME", "QUERY", group=views)
@commands.texts("--column", "columns", required=True, help='"NAME TYPE"; repeated.')
@commands.pairs("--dialect", "dialects", help="NAME=QUERY.")
@click.option("--comment", help="Description of the view.")
def views_create(args: commands.Arguments) -> None:
    """Create the view NAME, a database.view, of QUERY."""
    name, columns = args.name, args.columns
    typed = dict(commands.name_and_rest(column, "NAME TYPE") for column in columns)
    if len(typed) != len(columns):
        raise click.BadParameter("each column is named once", param_hint="--column")
    args.catalog.views.create(name, args.query, typed, dialects=args.dialects, comment=args.comment)
    say(f"view {name} created", {"view": name})


@commands.command("NAME", "DIALECT", "[QUERY]", group=views)
def views_dialect(args: commands.Arguments) -> None:
    """Set the query of the view NAME in DIALECT; without QUERY, remove it."""
    from paimon_assets.engine.codec.rest import bodies

    name, dialect, views = args.name, args.dialect, args.catalog.views
    if args.query is None:
        views.alter(name, [bodies.DropDialect(dialect=dialect)])
        say(f"view {name} has no query in {dialect} now", {"view": name, "dropped": dialect})
        return
    is_known = dialect in views.get(name).dialects
    change = bodies.UpdateDialect if is_known else bodies.AddDialect
    views.alter(name, [change(dialect=dialect, query=args.query)])
    say(f"view {name} has a query in {dialect} now", {"view": name, "dialect": dialect})


@commands.command("SOURCE", "TARGET", group=views)
def views_rename(args: commands.Arguments) -> None:
    """Give the view SOURCE the name TARGET."""
    source, target = args.source, args.target
    args.catalog.views.rename(source, target)
    say(f"{source} is {target} now", {"view": target, "was": source})


@commands.command("NAME", group=views, yes=True)
def views_drop(args: commands.Arguments) -> None:
    """Drop the view NAME; the tables it reads stay."""
    args.confirm(f"View {args.name} is dropped; the tables it reads stay.")
    args.catalog.views.drop(args.name)
    say(f"view {args.name} is dropped", {"dropped": args.name})


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="0 is any."
)
@click.option(
    "--principals",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="TOML file of principals and their grants; it is read again when it changes.",
)
@click.option(
    "--data-tokens",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="TOML file of the storage's keys that clients get to open the files of tables.",
)
@commands.flag("--insecure", help="Ask for no token: everybody may do everything.")
@commands.flag("--read-only", help="Refuse whatever changes something.")
@commands.flag(
    "--sole-writer",
    help="For a storage without conditional put: order commits in this process. No other process "
    "may write to the warehouse.",
)
@commands.texts(
    "--root",
    "roots",
    help="Folder that tables outside the warehouse may lie below; may be repeated.",
)
@commands.pairs(
    "--client-option",
    "client_options",
    help="KEY=VALUE handed to clients as a default, such as s3.endpoint=…; no secrets.",
)
@click.option(
    "--table-health",
    type=click.FloatRange(min=1),
    metavar="SECONDS",
    help="Show the health of tables at /metrics, measured again after so long.",
)
@click.option("--tls-certificate", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--tls-key", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.pass_obj
def serve(settings: commands.Settings, /, **arguments: Any) -> None:
    """Serve --warehouse as a Paimon REST catalog, until it is interrupted."""
    if settings.warehouse is None:
        raise InvalidInputError("A server needs --warehouse.", kind="target")
    try:
        module = importlib.import_module(SERVER)
    except ModuleNotFoundError as error:
        message = f"The package '{error.name}' is not installed: install paimon-assets[server]."
        raise InvalidInputError(message, kind="server-missing") from error
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    module.serve(
        module.ServeSettings(
            warehouse=settings.warehouse, storage_options=settings.options, **arguments
        ),
        on_start=lambda address: click.echo(f"serving {settings.warehouse} at {address}"),
    )
