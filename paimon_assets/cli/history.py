"""Commands on a table's history: tags, branches, consumers, rollback."""

import datetime as dt
from typing import Any

import click

from paimon_assets.cli.options import confirm, pass_settings, target_argument, yes_option
from paimon_assets.cli.output import print_rows_of, say, table_rows
from paimon_assets.cli.settings import Settings
from paimon_assets.engine.control.clock import SystemClock
from paimon_assets.engine.spec.options.option import parse_duration_ms
from paimon_assets.engine.spec.words import counted


@click.group()
def tag() -> None:
    """List, create, rename and delete tags."""


@tag.command("create")
@target_argument
@click.argument("name")
@click.option("--snapshot", "snapshot_id", type=int, help="Snapshot id; the newest by default.")
@click.option("--retain", help="How long the tag is kept, such as '7 d'; for ever by default.")
@click.option(
    "--if-not-exists", "ignore_if_exists", is_flag=True, help="Do nothing if the tag exists."
)
@pass_settings
def tag_create(settings: Settings, /, target: str, name: str, **arguments: Any) -> None:
    """Give a snapshot of TARGET the name NAME."""
    retain = arguments.pop("retain")
    retained = None if retain is None else dt.timedelta(milliseconds=duration_ms(retain))
    made = settings.table(target).create_tag(name, time_retained=retained, **arguments)
    facts = {"tag": made.name, "snapshot_id": made.snapshot.id}
    say(f"tag {made.name} is snapshot {made.snapshot.id}", facts)


@tag.command("rename")
@target_argument
@click.argument("name")
@click.argument("new_name")
@pass_settings
def tag_rename(settings: Settings, /, target: str, name: str, new_name: str) -> None:
    """Give the tag NAME of TARGET another name."""
    settings.table(target).tags.rename(name, new_name)
    say(f"tag {name} is {new_name} now", {"tag": new_name, "was": name})


@tag.command("delete")
@target_argument
@click.argument("name")
@yes_option
@pass_settings
def tag_delete(settings: Settings, /, target: str, name: str) -> None:
    """Delete the tag NAME of TARGET, with the files that only it kept."""
    confirm(f"Tag {name} of {target} goes, with the files that only it keeps.")
    deleted = settings.table(target).delete_tag(name)
    say(
        f"tag {name} is deleted, with {deleted.data_files} data files that only it kept"
        f" ({deleted.data_bytes:,} bytes)",
        {"deleted": name, "files": deleted.data_files, "bytes": deleted.data_bytes},
    )


@click.group()
def branch() -> None:
    """List, create, delete and fast-forward branches."""


@branch.command("create")
@target_argument
@click.argument("name")
@click.option("--tag", help="Begin with this tag; empty by default.")
@click.option(
    "--snapshot", "snapshot_id", type=int, help="Begin with this snapshot, which a tag must keep."
)
@pass_settings
def branch_create(settings: Settings, /, target: str, name: str, **begin: Any) -> None:
    """Make the branch NAME of TARGET; read and write it as TARGET$branch_NAME."""
    settings.table(target).branches.create(name, **begin)
    say(f"branch {name} is made", {"branch": name})


@branch.command("delete")
@target_argument
@click.argument("name")
@yes_option
@pass_settings
def branch_delete(settings: Settings, /, target: str, name: str) -> None:
    """Delete the branch NAME of TARGET."""
    confirm(f"Branch {name} of {target} goes, with its snapshots.")
    settings.table(target).branches.delete(name)
    say(f"branch {name} is deleted", {"deleted": name})


@branch.command("drop-audited")
@target_argument
@click.option("--older-than", default="7 d", help="Keep those refused since; '7 d' by default.")
@yes_option
@pass_settings
def branch_drop_audited(settings: Settings, /, target: str, *, older_than: str) -> None:
    """Delete the branches of batches that checks kept out of TARGET."""
    before_millis = SystemClock().now_millis() - duration_ms(older_than)
    confirm(f"Batches of {target} that were kept out go, with their files.")
    dropped = settings.table(target).drop_audited(before_millis=before_millis)
    say(f"Branches deleted: {', '.join(dropped) or 'none'}", {"deleted": dropped})


@branch.command("fast-forward")
@target_argument
@click.argument("name")
@yes_option
@pass_settings
def branch_fast_forward(settings: Settings, /, target: str, name: str) -> None:
    """Let TARGET be what its branch NAME is; what it did since they parted is undone."""
    confirm(f"{target} becomes its branch {name}; its own snapshots since they parted go.")
    newest = settings.table(target).branches.fast_forward(name)
    facts = {"branch": name, "snapshot_id": newest.id}
    say(f"{target} is branch {name} now, at snapshot {newest.id}", facts)


@click.group()
def consumer() -> None:
    """List, set and delete how far readers have come."""


@consumer.command("reset")
@target_argument
@click.argument("name")
@click.argument("next_snapshot", type=int)
@pass_settings
def consumer_reset(settings: Settings, /, target: str, name: str, *, next_snapshot: int) -> None:
    """Let the consumer NAME of TARGET continue at NEXT_SNAPSHOT."""
    settings.table(target).consumers.reset(name, next_snapshot)
    facts = {"consumer": name, "next_snapshot_id": next_snapshot}
    say(f"consumer {name} continues at snapshot {next_snapshot}", facts)


@consumer.command("delete")
@target_argument
@click.argument("name")
@yes_option
@pass_settings
def consumer_delete(settings: Settings, /, target: str, name: str) -> None:
    """Forget the consumer NAME of TARGET; snapshots it kept may expire."""
    confirm(f"Consumer {name} of {target} forgets how far it has come.")
    settings.table(target).consumers.delete(name)
    say(f"consumer {name} is deleted", {"deleted": name})


@click.command()
@target_argument
@click.option("--snapshot", type=int, help="Snapshot id to go back to.")
@click.option("--tag", "to_tag", help="Tag to go back to.")
@click.option("--schema", type=int, help="Schema id to go back to; rows stay as they are.")
@yes_option
@pass_settings
def rollback(
    settings: Settings,
    /,
    target: str,
    *,
    snapshot: int | None,
    to_tag: str | None,
    schema: int | None,
) -> None:
    """Undo what happened to TARGET after a snapshot, a tag or a schema.

    Stop writers first.
    """
    given = [way for way in (snapshot, to_tag) if way is not None]
    if len(given) + (schema is not None) != 1:
        raise click.UsageError("Give one of --snapshot, --tag and --schema.")
    if schema is not None:
        confirm(f"All schemas of {target} after {schema} go.")
        table = settings.table(target).rollback_schema(schema)
        say(f"{target} is at schema {table.schema.id}", {"schema_id": table.schema.id})
        return
    confirm(f"All of {target} after {given[0]} goes: snapshots and tags.")
    done = settings.table(target).rollback_to(given[0])
    say(
        f"{target} is at snapshot {done.snapshot.id}; gone are "
        f"{counted(len(done.snapshots), 'snapshot')} and {counted(len(done.tags), 'tag')}, "
        "their files stay until a cleaning",
        {"snapshot_id": done.snapshot.id, "snapshots": len(done.snapshots), "tags": len(done.tags)},
    )


def _add_list(group: click.Group, kind: str) -> None:
    """Add the command that shows a system table, which lists what the group is about."""

    @group.command("list", help=f"List the {kind} of TARGET.")
    @target_argument
    @pass_settings
    def show(settings: Settings, /, target: str) -> None:
        print_rows_of(table_rows(settings.table(target).system_table(kind).to_arrow()))


for _group, _kind in ((tag, "tags"), (branch, "branches"), (consumer, "consumers")):
    _add_list(_group, _kind)


def duration_ms(text: str) -> int:
    """Return a duration such as '7 d' in milliseconds."""
    try:
        return parse_duration_ms(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
