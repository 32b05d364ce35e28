"""Commands on one table's description: create, schema, alter."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click
from rich.table import Table as Grid
from rich.text import Text

from paimon_assets.cli import commands, output
from paimon_assets.engine.codec.arrow.arrow_types import infer_columns
from paimon_assets.engine.codec.json.metadata_json import schema_from_json, schema_to_json
from paimon_assets.engine.codec.rest.structure import changes_from_json
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.evolution import schema_change as sc
from paimon_assets.engine.spec.options.catalog_options import shown_options
from paimon_assets.engine.spec.schema.schema import Schema, TableSchema
from paimon_assets.engine.table.schema_changes import SchemaChangePlan, refuse_losses


@commands.command("TARGET")
@commands.texts(
    "--column", "columns", help='"NAME TYPE"; `A NAME` with blanks in backquotes; repeated.'
)
@click.option("--like", type=click.Path(exists=True), help="Take the columns of this file.")
@click.option(
    "--schema",
    type=click.Path(exists=True, dir_okay=False),
    help="Take columns, keys, options and comment of this file, as `schema --json` prints them.",
)
@commands.names("--primary-key", help="Comma list of columns.")
@commands.names("--partition-by", help="Comma list of columns.")
@commands.pairs("--option", "--set", "options", help="KEY=VALUE.")
@click.option("--comment", help="Description of the table.")
@commands.flag("--if-not-exists", help="Do nothing if the table exists.")
@commands.any_option
def create(args: commands.Arguments) -> None:
    """Create TARGET, a database.table, and its database if needed."""
    identifier = Identifier.parse(args.target)
    args.check_options(args.options)
    schema, catalog = _schema(args), args.catalog
    is_new = identifier.database not in catalog.list_databases()
    if is_new:
        catalog.create_database(identifier.database, ignore_if_exists=True)
    table = catalog.create_table(identifier, schema, ignore_if_exists=args.if_not_exists)
    facts = {"table": table.name, "path": table.path, "schema_id": table.schema.id}
    made = f"; database {identifier.database} is new" if is_new else ""
    output.say(
        f"{table.name} at {table.path}, schema {table.schema.id}{made}",
        {**facts, "new_database": is_new},
    )


def _schema(args: commands.Arguments) -> Schema:
    path, columns, like = args.schema, args.columns, args.like
    if path is not None and (columns or like is not None):
        raise click.UsageError("--schema has all columns; leave out --column and --like.")
    keys, partitions = args.primary_key, args.partition_by
    if path is None:
        return Schema.of(
            _columns(columns, like),
            primary_keys=keys,
            partition_keys=partitions,
            options=args.options,
            comment=args.comment,
        )
    declared = _schema_of_file(path)
    return Schema(
        fields=declared.fields,
        primary_keys=tuple(keys) or declared.primary_keys,
        partition_keys=tuple(partitions) or declared.partition_keys,
        options={**declared.options, **args.options},
        comment=args.comment or declared.comment,
    )


def _columns(declared: tuple[str, ...], like: str | None) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    if like is not None:
        columns |= infer_columns(output.read_files([like], None).schema)
    for text in declared:
        name, type_text = commands.name_and_rest(text, "NAME TYPE")
        if name in columns:
            raise InvalidInputError(f"Column '{name}' is given twice.", kind="column")
        columns[name] = type_text
    if not columns:
        raise InvalidInputError("Give --column, --like or --schema.", kind="column")
    return columns


@commands.command("TARGET")
@commands.flag("--all", "is_all", help="All schemas the table had, oldest first.")
def schema(args: commands.Arguments) -> None:
    """Print the columns, keys and options of TARGET.

    With --json in the form of Paimon's schema files, which `create --schema` takes.
    """
    table = args.table()
    shown = table.schemas() if args.is_all else [table.schema]
    if output.is_json():
        documents = [
            {**json.loads(schema_to_json(each)), "options": shown_options(each.options)}
            for each in shown
        ]
        output.print_json(documents if args.is_all else documents[0])
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
    output.print_grid(grid)
    if shown.comment:
        click.echo(f"comment = {shown.comment}")
    for option, value in sorted(shown_options(shown.options).items()):
        click.echo(f"{option} = {value}")


def _schema_of_file(path: str) -> Schema:
    """Read the document of a schema; its field ids are assigned again."""
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


@commands.command("TARGET", yes=True, executor=True)
@commands.pairs("--rename-column", "renamed", help="OLD=NEW.")
@commands.texts("--drop-column", "dropped", help="NAME; its values go for readers.")
@commands.texts("--add-column", "added", help='"NAME TYPE", put at the end.')
@commands.texts("--type", "typed", help='"NAME TYPE": another type of a column.')
@commands.texts("--nullable", help="NAME may be null.")
@commands.texts("--not-null", help="NAME may not be null any more.")
@commands.pairs("--default", "defaults", help="NAME=VALUE.")
@commands.pairs("--column-comment", "comments", help="NAME=TEXT.")
@commands.texts("--move", "moved", help='"NAME first", "… last", "… after OTHER".')
@commands.pairs("--set", "--option", "options", help="KEY=VALUE, an option.")
@commands.texts("--unset", help="KEY, an option.")
@click.option("--comment", help="Of the table.")
@click.option(
    "--changes",
    type=click.Path(exists=True, dir_okay=False),
    help="Also those of this file, in the JSON of REST catalogs: a list of {action, …}.",
)
@commands.flag("--dry-run", help="Only report the changes and the values that they would lose.")
@commands.flag("--allow-loss", help="Make the change though values are lost; asks.")
@commands.any_option
def alter(args: commands.Arguments) -> None:
    """Change the columns and options of TARGET, all changes or none.

    In the order of the options below, each of which may be repeated. A change that would lose
    stored values is refused, with a report of them; files are not rewritten.
    """
    args.check_options(args.options)
    changes = _changes(args)
    if not changes:
        raise click.UsageError("Name a change.")
    table = args.table()

    def judge(plan: SchemaChangePlan) -> None:
        _show(plan)
        if plan.loses and args.allow_loss:
            args.confirm(f"Stored values of {table.name} are lost as shown.")

    if args.dry_run:
        with output.working("looking at values"):
            plan = table.plan_alter(changes, executor=args.new_executor)
        _show(plan)
        if not args.allow_loss:
            refuse_losses(table.name, plan)
        return
    overflow = sc.OnOverflow.ALLOW if args.allow_loss else sc.OnOverflow.REFUSE
    made = table.alter_checked(
        changes, on_overflow=overflow, executor=args.new_executor, judged=judge
    )
    if not output.is_json():
        done = f"schema {made.new.id}" if made.differences else f"stays at schema {made.base.id}"
        click.echo(f"{table.name}: {done}")


def _show(plan: SchemaChangePlan) -> None:
    lines = [
        {"what": it.subject, "change": it.change, "before": it.before, "after": it.after}
        for it in plan.differences
    ]
    reports = [
        {
            "column": report.column,
            "before": report.before,
            "after": report.after,
            "values": report.rows,
            "lost": report.lost,
            "exact": report.is_exact,
            "losses": {str(loss): count for loss, count in report.counts.items()},
            "examples": [example.lost.value for example in report.examples],
        }
        for report in plan.columns
    ]
    if output.is_json():
        facts = {"schema_id": plan.new.id, "differences": lines, "values": reports}
        output.print_json({**facts, "loses": plan.loses})
        return
    if not lines:
        click.echo("nothing would change")
        return
    output.print_rows_grid(lines)
    for report in plan.columns:
        click.echo(str(report))
        for example in report.examples:
            becomes = "" if example.lost.becomes is None else f", becomes {example.lost.becomes}"
            click.echo(f"  {example.lost.value} {example.lost.loss}{becomes}: {example.path}")


def _changes(args: commands.Arguments) -> list[sc.SchemaChange]:
    steps: list[tuple[Iterable[Any], Callable[[Any], sc.SchemaChange]]] = [
        (args.renamed.items(), lambda names: sc.rename_column(*names)),
        (args.dropped, sc.drop_column),
        (args.added, lambda text: sc.add_column(*commands.name_and_rest(text, "NAME TYPE"))),
        (
            args.typed,
            lambda text: sc.update_column_type(*commands.name_and_rest(text, "NAME TYPE")),
        ),
        (args.nullable, lambda name: sc.update_column_nullability(name, nullable=True)),
        (args.not_null, lambda name: sc.update_column_nullability(name, nullable=False)),
        (args.defaults.items(), lambda it: sc.update_column_default_value(it[0], it[1] or None)),
        (args.comments.items(), lambda it: sc.update_column_comment(it[0], it[1] or None)),
        (args.moved, lambda text: _move(*commands.name_and_rest(text, "NAME PLACE"))),
        (args.options.items(), lambda pair: sc.set_option(*pair)),
        (args.unset, sc.remove_option),
    ]
    changes = [make(value) for values, make in steps for value in values]
    if args.comment is not None:
        changes.append(sc.UpdateComment(comment=args.comment or None))
    if args.changes is not None:
        try:
            listed = json.loads(Path(args.changes).read_text(encoding="utf-8"))
        except ValueError as error:
            raise InvalidInputError(
                f"'{args.changes}' is no JSON: {error}", kind="schema-change"
            ) from error
        changes += changes_from_json(listed)
    return changes


def _move(name: str, place: str) -> sc.SchemaChange:
    match place.split():
        case ["first"]:
            return sc.move_column(name, first=True)
        case ["last"]:
            return sc.move_column(name)
        case ["after", other]:
            return sc.move_column(name, after=other)
        case ["before", other]:
            return sc.move_column(name, before=other)
        case _:
            raise InvalidInputError(
                f"'{place}' is no place; say first, last, after NAME or before NAME.", kind="column"
            )
