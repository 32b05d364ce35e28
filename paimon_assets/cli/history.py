"""Commands on a table's history and what it has: snapshots, files, tags, branches, rollback."""

import datetime as dt
import fnmatch
from typing import Any

import click

from paimon_assets.cli.commands import Given, command, duration, flag, integer
from paimon_assets.cli.output import print_rows_of, say, says_json, size_text, table_rows
from paimon_assets.engine.control.clock import SystemClock
from paimon_assets.engine.spec.options.scan_options import SCAN_SNAPSHOT_ID
from paimon_assets.engine.spec.words import counted
from paimon_assets.engine.table.table import Table

_USER = 12
"""Characters of a commit user that a grid shows; a random one is told by fewer."""

tag = click.Group("tag", help="List, create, rename and delete tags.")
branch = click.Group("branch", help="List, create, delete and fast-forward branches.")
consumer = click.Group("consumer", help="List, set and delete how far readers have come.")


def _rows(table: Table, kind: str) -> list[dict[str, Any]]:
    """Return the rows of a system table."""
    return table_rows(table.system_table(kind).to_arrow())


def _add_list(group: click.Group, kind: str) -> None:
    """Add the command that shows a system table, which lists what the group is about."""

    def run(given: Given) -> None:
        print_rows_of(_rows(given.table(), kind))

    run.__name__, run.__doc__ = "list", f"List the {kind} of TARGET."
    command("TARGET", group=group)(run)


for _group, _kind in ((tag, "tags"), (branch, "branches"), (consumer, "consumers")):
    _add_list(_group, _kind)


@command("TARGET", "NAME", group=tag)
@integer("--snapshot", help="Snapshot id; the newest by default.")
@duration("--retain", help="How long the tag is kept, such as '7 d'; for ever by default.")
@flag("--if-not-exists", help="Do nothing if the tag exists.")
def tag_create(given: Given) -> None:
    """Give a snapshot of TARGET the name NAME."""
    retained = None if given.retain is None else dt.timedelta(milliseconds=given.retain)
    made = given.table().create_tag(
        given.name,
        given.snapshot,
        time_retained=retained,
        ignore_if_exists=given.if_not_exists,
    )
    facts = {"tag": made.name, "snapshot_id": made.snapshot.id}
    say(f"tag {made.name} is snapshot {made.snapshot.id}", facts)


@command("TARGET", "NAME", "NEW_NAME", group=tag)
def tag_rename(given: Given) -> None:
    """Give the tag NAME of TARGET another name."""
    given.table().tags.rename(given.name, given.new_name)
    facts = {"tag": given.new_name, "was": given.name}
    say(f"tag {given.name} is {given.new_name} now", facts)


@command("TARGET", "NAME", group=tag, yes=True)
def tag_delete(given: Given) -> None:
    """Delete the tag NAME of TARGET, with the files that only it kept."""
    given.confirm(f"Tag {given.name} of {given.target} goes, with the files that only it keeps.")
    deleted = given.table().delete_tag(given.name)
    say(
        f"tag {given.name} is deleted, with {deleted.data_files} data files that only it kept"
        f" ({deleted.data_bytes:,} bytes)",
        {"deleted": given.name, "files": deleted.data_files, "bytes": deleted.data_bytes},
    )


@command("TARGET", "NAME", group=branch)
@click.option("--tag", help="Begin with this tag; empty by default.")
@integer("--snapshot", help="Begin with this snapshot, which a tag must keep.")
def branch_create(given: Given) -> None:
    """Make the branch NAME of TARGET; read and write it as TARGET$branch_NAME."""
    branches = given.table().branches
    branches.create(given.name, tag=given.tag, snapshot_id=given.snapshot)
    say(f"branch {given.name} is made", {"branch": given.name})


@command("TARGET", "NAME", group=branch, yes=True)
def branch_delete(given: Given) -> None:
    """Delete the branch NAME of TARGET."""
    given.confirm(f"Branch {given.name} of {given.target} goes, with its snapshots.")
    given.table().branches.delete(given.name)
    say(f"branch {given.name} is deleted", {"deleted": given.name})


@command("TARGET", group=branch, yes=True)
@duration("--older-than", default="7 d", show_default=True, help="Keep those refused since.")
def branch_drop_audited(given: Given) -> None:
    """Delete the branches of batches that checks kept out of TARGET."""
    before_millis = SystemClock().now_millis() - given.older_than
    given.confirm(f"Batches of {given.target} that were kept out go, with their files.")
    dropped = given.table().drop_audited(before_millis=before_millis)
    say(f"Branches deleted: {', '.join(dropped) or 'none'}", {"deleted": dropped})


@command("TARGET", "NAME", group=branch, yes=True)
def branch_fast_forward(given: Given) -> None:
    """Let TARGET be what its branch NAME is; what it did since they parted is undone."""
    name, target = given.name, given.target
    given.confirm(f"{target} becomes its branch {name}; its own snapshots since they parted go.")
    newest = given.table().branches.fast_forward(name)
    facts = {"branch": name, "snapshot_id": newest.id}
    say(f"{target} is branch {name} now, at snapshot {newest.id}", facts)


@command("TARGET", "NAME", group=consumer)
@click.argument("next_snapshot", type=int)
def consumer_reset(given: Given) -> None:
    """Let the consumer NAME of TARGET continue at NEXT_SNAPSHOT."""
    name, next_snapshot = given.name, given.next_snapshot
    given.table().consumers.reset(name, next_snapshot)
    facts = {"consumer": name, "next_snapshot_id": next_snapshot}
    say(f"consumer {name} continues at snapshot {next_snapshot}", facts)


@command("TARGET", "NAME", group=consumer, yes=True)
def consumer_delete(given: Given) -> None:
    """Forget the consumer NAME of TARGET; snapshots it kept may expire."""
    given.confirm(f"Consumer {given.name} of {given.target} forgets how far it has come.")
    given.table().consumers.delete(given.name)
    say(f"consumer {given.name} is deleted", {"deleted": given.name})


@command("TARGET", yes=True)
@integer("--snapshot", help="Snapshot id to go back to.")
@click.option("--tag", help="Tag to go back to.")
@integer("--schema", help="Schema id to go back to; rows stay as they are.")
def rollback(given: Given) -> None:
    """Undo what happened to TARGET after a snapshot, a tag or a schema.

    Stop writers first.
    """
    target, schema = given.target, given.schema
    ways = [way for way in (given.snapshot, given.tag) if way is not None]
    if len(ways) + (schema is not None) != 1:
        raise click.UsageError("Give one of --snapshot, --tag and --schema.")
    if schema is not None:
        given.confirm(f"All schemas of {target} after {schema} go.")
        now = given.table().rollback_schema(schema).schema.id
        say(f"{target} is at schema {now}", {"schema_id": now})
        return
    given.confirm(f"All of {target} after {ways[0]} goes: snapshots and tags.")
    done = given.table().rollback_to(ways[0])
    say(
        f"{target} is at snapshot {done.snapshot.id}; gone are "
        f"{counted(len(done.snapshots), 'snapshot')} and {counted(len(done.tags), 'tag')}, "
        "their files stay until a cleaning",
        {"snapshot_id": done.snapshot.id, "snapshots": len(done.snapshots), "tags": len(done.tags)},
    )


@command("TARGET")
@click.option("--limit", type=click.IntRange(min=1), help="Only the newest.")
def snapshots(given: Given) -> None:
    """List the snapshots of TARGET.

    Oldest first; --json shows all that a snapshot says.
    """
    rows = _rows(given.table(), "snapshots")
    chosen = rows[-given.limit :] if given.limit else rows
    print_rows_of(chosen if says_json() else [_short(row) for row in chosen])


def _short(row: dict[str, Any]) -> dict[str, Any]:
    user = row["commit_user"]
    return {
        "id": row["snapshot_id"],
        "committed": row["commit_time"],
        "kind": row["commit_kind"],
        "rows": row["total_record_count"],
        "added": row["delta_record_count"],
        "schema": row["schema_id"],
        "by": user if len(user) <= _USER else f"{user[: _USER - 1]}…",
    }


@command("TARGET")
@integer("--snapshot", help="Snapshot id; the newest by default.")
def files(given: Given) -> None:
    """List the live data files of TARGET.

    --json shows their keys and statistics, too.
    """
    options = {} if given.snapshot is None else {SCAN_SNAPSHOT_ID.key: str(given.snapshot)}
    rows = _rows(given.table(options), "files")
    if not says_json():
        rows = [
            {
                "partition": row["partition"],
                "bucket": row["bucket"],
                "level": row["level"],
                "rows": row["record_count"],
                "size": size_text(row["file_size_in_bytes"]),
                "file": row["file_path"].rpartition("/")[2],
            }
            for row in rows
        ]
    print_rows_of(rows)


@command("TARGET")
@click.option("--pattern", help="Only those like it, such as 'dt=2024-*'.")
def partitions(given: Given) -> None:
    """List the partitions of TARGET."""
    rows = _rows(given.table(), "partitions")
    if given.pattern:
        rows = [row for row in rows if fnmatch.fnmatchcase(str(row["partition"]), given.pattern)]
    if not says_json():
        rows = [
            {
                "partition": row["partition"],
                "rows": row["record_count"],
                "size": size_text(row["file_size_in_bytes"]),
                "files": row["file_count"],
                "last change": _seconds(row["last_update_time"]),
            }
            for row in rows
        ]
    print_rows_of(rows)


def _seconds(moment: dt.datetime | None) -> dt.datetime | None:
    return None if moment is None else moment.replace(microsecond=0)
