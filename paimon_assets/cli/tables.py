"""Commands on one table's description: create, schema."""

import json
from pathlib import Path
from typing import Any

import click
from rich.table import Table as Grid
from rich.text import Text

from paimon_assets.cli.files import read_files
from paimon_assets.cli.options import (
    key_values,
    name_and_rest,
    names,
    pass_settings,
    says_json,
    target_argument,
)
from paimon_assets.cli.output import print_grid, print_json, say
from paimon_assets.cli.settings import Settings
from paimon_assets.engine.codec.json.metadata_json import schema_from_json, schema_to_json
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.options.secret_options import shown_options
from paimon_assets.engine.spec.schema.schema import Schema, TableSchema
from paimon_assets.engine.table.schema.schema_inference import infer_schema


@click.command()
@click.argument("target")
@click.option("--column", "columns", multiple=True, help='"NAME TYPE"; may be repeated.')
@click.option("--like", type=click.Path(exists=True), help="Take the columns of this file.")
@click.option(
    "--schema",
    "schema_file",
    type=click.Path(exists=True, dir_okay=False),
    help="Take columns, keys, options and comment of this file, as `schema --json` prints them.",
)
@click.option("--primary-key", default="", help="Comma list of columns.")
@click.option("--partition-by", default="", help="Comma list of columns.")
@click.option("--option", "options", multiple=True, callback=key_values, help="KEY=VALUE.")
@click.option("--comment", help="What the table is for.")
@click.option("--if-not-exists", is_flag=True, help="Do nothing if the table exists.")
@pass_settings
def create(settings: Settings, /, target: str, **arguments: Any) -> None:
    """Create TARGET, a database.table of the warehouse."""
    identifier = Identifier.parse(target)
    schema = _schema(arguments)
    catalog = settings.catalog()
    catalog.create_database(identifier.database, ignore_if_exists=True)
    table = catalog.create_table(identifier, schema, ignore_if_exists=arguments["if_not_exists"])
    facts = {"table": table.name, "path": table.path, "schema_id": table.schema.id}
    say(f"{table.name} at {table.path}, schema {table.schema.id}", facts)


def _schema(arguments: dict[str, Any]) -> Schema:
    path, columns, like = arguments["schema_file"], arguments["columns"], arguments["like"]
    if path is not None and (columns or like is not None):
        raise click.UsageError("--schema has all columns; leave out --column and --like.")
    keys = names(arguments["primary_key"])
    partitions = names(arguments["partition_by"])
    if path is None:
        return Schema.of(
            _columns(columns, like),
            primary_keys=keys,
            partition_keys=partitions,
            options=arguments["options"],
            comment=arguments["comment"],
        )
    given = _schema_of_file(path)
    return Schema(
        fields=given.fields,
        primary_keys=tuple(keys) or given.primary_keys,
        partition_keys=tuple(partitions) or given.partition_keys,
        options={**given.options, **arguments["options"]},
        comment=arguments["comment"] or given.comment,
    )


def _columns(declared: tuple[str, ...], like: str | None) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    if like is not None:
        for field in infer_schema(read_files([like], None).schema):
            columns[field.name] = field.type
    for text in declared:
        name, type_text = name_and_rest(text, "NAME TYPE")
        if name in columns:
            raise InvalidInputError(f"Column '{name}' is given twice.", kind="column")
        columns[name] = type_text
    if not columns:
        raise InvalidInputError("Give --column, --like or --schema.", kind="column")
    return columns


@click.command()
@target_argument
@click.option("--all", "is_all", is_flag=True, help="All schemas the table had, oldest first.")
@pass_settings
def schema(settings: Settings, /, target: str, *, is_all: bool) -> None:
    """Print the columns, keys and options of TARGET.

    With --json in the form of Paimon's schema files, which `create --schema` takes.
    """
    table = settings.table(target)
    shown = table.schemas() if is_all else [table.schema]
    if says_json():
        documents = list(map(_document, shown))
        print_json(documents if is_all else documents[0])
        return
    for one in shown:
        _print_schema(table.name, one)
    click.echo(f"path = {table.path}")


def _print_schema(table: str, shown: TableSchema) -> None:
    grid = Grid(title=f"{table}, schema {shown.id}")
    for heading in ("id", "column", "type", "key", "comment"):
        grid.add_column(heading, overflow="fold")
    for field in shown.fields:
        primary = "primary" if field.name in shown.primary_keys else ""
        partition = "partition" if field.name in shown.partition_keys else ""
        key = " ".join(part for part in (primary, partition) if part)
        cells = (str(field.id), field.name, str(field.type), key, field.description or "")
        grid.add_row(*map(Text, cells))
    print_grid(grid)
    if shown.comment:
        click.echo(f"comment = {shown.comment}")
    for option, value in sorted(shown_options(shown.options).items()):
        click.echo(f"{option} = {value}")


def _document(shown: TableSchema) -> Any:
    document = json.loads(schema_to_json(shown))
    return {**document, "options": shown_options(shown.options)}


def _schema_of_file(path: str) -> Schema:
    """Read the document of a schema; whatever numbers it has are given anew."""
    data = Path(path).read_bytes()
    try:
        document = json.loads(data)
        fields = document["fields"]
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInputError(f"'{path}' is no JSON of a schema.", kind="schema-file") from error
    highest = max((field.get("id", 0) for field in fields), default=0)
    defaults = {"version": 3, "id": 0, "highestFieldId": highest, "timeMillis": 0}
    empty: dict[str, Any] = {"partitionKeys": [], "primaryKeys": [], "options": {}}
    whole = json.dumps({**defaults, **empty, **document}).encode()
    return schema_from_json(whole, path).declared
