"""`paimon-assets views`: the views of a catalog."""

from typing import Any

import click

from paimon_assets.cli.options import confirm, key_values, pass_settings, says_json, yes_option
from paimon_assets.cli.output import say
from paimon_assets.cli.settings import Settings
from paimon_assets.engine.codec.rest.resources import AddDialect, DropDialect, UpdateDialect


@click.group("views")
def views() -> None:
    """Named queries of a catalog: create, change, show, drop."""


@views.command("list")
@click.argument("database")
@pass_settings
def views_list(settings: Settings, /, database: str) -> None:
    """List the views of DATABASE."""
    found = [f"{database}.{name}" for name in settings.catalog().views.list(database)]
    say(found, found)


@views.command("show")
@click.argument("name")
@click.option("--dialect", help="Only the query, in this dialect.")
@pass_settings
def views_show(settings: Settings, /, name: str, *, dialect: str | None) -> None:
    """Show the columns and the queries of the view NAME, a database.view."""
    view = settings.catalog().views.get(name)
    columns = [{"name": column.name, "type": str(column.type)} for column in view.fields]
    facts = {"columns": columns, "query": view.query, "dialects": dict(view.dialects)}
    if dialect is not None and not says_json():
        click.echo(view.query_for(dialect))
        return
    queries = {"any dialect": view.query, **view.dialects}
    lines = [
        *(f"{column.name} {column.type}" for column in view.fields),
        *(f"-- {spoken}\n{query}" for spoken, query in queries.items()),
    ]
    say(lines, facts)


@views.command("create")
@click.argument("name")
@click.argument("query")
@click.option("--column", "columns", multiple=True, required=True, help='"NAME TYPE"; repeated.')
@click.option("--dialect", "dialects", multiple=True, callback=key_values, help="NAME=QUERY.")
@click.option("--comment", help="What the view is for.")
@pass_settings
def views_create(
    settings: Settings, /, name: str, query: str, *, columns: tuple[str, ...], **details: Any
) -> None:
    """Create the view NAME, a database.view, of QUERY."""
    typed = dict(column.strip().split(None, 1) for column in columns if " " in column.strip())
    if len(typed) != len(columns):
        raise click.BadParameter(
            'each column is "NAME TYPE", and named once', param_hint="--column"
        )
    settings.catalog().views.create(name, query, typed, **details)
    say(f"view {name} is made", {"view": name})


@views.command("dialect")
@click.argument("name")
@click.argument("dialect")
@click.argument("query", required=False)
@pass_settings
def views_dialect(settings: Settings, /, name: str, dialect: str, *, query: str | None) -> None:
    """Set the query of the view NAME in DIALECT; without QUERY, remove it."""
    found = settings.catalog().views
    if query is None:
        found.alter(name, [DropDialect(dialect=dialect)])
        say(f"view {name} has no query in {dialect} now", {"view": name, "dropped": dialect})
        return
    change = UpdateDialect if dialect in found.get(name).dialects else AddDialect
    found.alter(name, [change(dialect=dialect, query=query)])
    say(f"view {name} has a query in {dialect} now", {"view": name, "dialect": dialect})


@views.command("rename")
@click.argument("source")
@click.argument("target")
@pass_settings
def views_rename(settings: Settings, /, source: str, target: str) -> None:
    """Give the view SOURCE the name TARGET."""
    settings.catalog().views.rename(source, target)
    say(f"{source} is {target} now", {"view": target, "was": source})


@views.command("drop")
@click.argument("name")
@yes_option
@pass_settings
def views_drop(settings: Settings, /, name: str) -> None:
    """Drop the view NAME; the tables it reads stay."""
    confirm(f"View {name} goes; the tables it reads stay.")
    settings.catalog().views.drop(name)
    say(f"view {name} is dropped", {"dropped": name})
