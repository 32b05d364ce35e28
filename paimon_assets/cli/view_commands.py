"""`paimon-assets views`: the views of a catalog."""

from collections.abc import Mapping

import click

from paimon_assets.cli.options import confirm, json_option, key_values, said_option, yes_option
from paimon_assets.cli.output import print_json, say
from paimon_assets.cli.settings import Settings
from paimon_assets.engine.codec.rest.view_changes import AddDialect, DropDialect, UpdateDialect


@click.group("views")
def views() -> None:
    """Named queries of a catalog: create, change, show, drop."""


@views.command("list")
@click.argument("database")
@json_option
@click.pass_obj
def views_list(settings: Settings, /, database: str, *, as_json: bool) -> None:
    """List the views of DATABASE."""
    found = [f"{database}.{name}" for name in settings.catalog().views.list(database)]
    if as_json:
        print_json(found)
        return
    for name in found:
        click.echo(name)


@views.command("show")
@click.argument("name")
@click.option("--dialect", help="Only the query, in this dialect.")
@json_option
@click.pass_obj
def views_show(settings: Settings, /, name: str, *, dialect: str | None, as_json: bool) -> None:
    """Show the columns and the queries of the view NAME, a database.view."""
    view = settings.catalog().views.get(name)
    if as_json:
        columns = [{"name": column.name, "type": str(column.type)} for column in view.fields]
        print_json({"columns": columns, "query": view.query, "dialects": dict(view.dialects)})
        return
    if dialect is not None:
        click.echo(view.query_for(dialect))
        return
    for column in view.fields:
        click.echo(f"{column.name} {column.type}")
    for spoken, query in {"": view.query, **view.dialects}.items():
        click.echo(f"-- {spoken or 'any dialect'}\n{query}")


@views.command("create")
@click.argument("name")
@click.argument("query")
@click.option("--column", "columns", multiple=True, required=True, help='"NAME TYPE"; repeated.')
@click.option("--dialect", "dialects", multiple=True, callback=key_values, help="NAME=QUERY.")
@click.option("--comment", help="What the view is for.")
@said_option
@click.pass_obj
def views_create(
    settings: Settings,
    /,
    name: str,
    query: str,
    *,
    columns: tuple[str, ...],
    dialects: Mapping[str, str],
    comment: str | None,
) -> None:
    """Create the view NAME, a database.view, of QUERY."""
    typed = dict(column.strip().split(None, 1) for column in columns if " " in column.strip())
    if len(typed) != len(columns):
        raise click.BadParameter(
            'each column is "NAME TYPE", and named once', param_hint="--column"
        )
    settings.catalog().views.create(name, query, typed, dialects=dialects, comment=comment)
    say(f"view {name} is made", {"view": name})


@views.command("dialect")
@click.argument("name")
@click.argument("dialect")
@click.argument("query", required=False)
@said_option
@click.pass_obj
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
@said_option
@click.pass_obj
def views_rename(settings: Settings, /, source: str, target: str) -> None:
    """Give the view SOURCE the name TARGET."""
    settings.catalog().views.rename(source, target)
    say(f"{source} is {target} now", {"view": target, "was": source})


@views.command("drop")
@click.argument("name")
@yes_option
@said_option
@click.pass_obj
def views_drop(settings: Settings, /, name: str, *, yes: bool) -> None:
    """Drop the view NAME; the tables it reads stay."""
    confirm(f"View {name} goes; the tables it reads stay.", yes=yes)
    settings.catalog().views.drop(name)
    say(f"view {name} is dropped", {"dropped": name})
