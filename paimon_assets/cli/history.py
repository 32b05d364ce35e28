"""Commands on a table's history: snapshots, files, tags, branches, rollback."""

import datetime as dt
import fnmatch
from typing import Any

import click

from paimon_assets.cli.commands import Arguments, command, duration, flag, integer
from paimon_assets.cli.output import is_json, print_rows_of, say, table_rows
from paimon_assets.engine.control.clock import SystemClock
from paimon_assets.engine.control.maintenance.orphan_files import drop_rejected
from paimon_assets.engine.spec.options.all_options import SCAN_SNAPSHOT_ID
from paimon_assets.engine.spec.words import counted
from paimon_assets.engine.table.table import Table

tag = click.Group("tag", help="List, create, rename and delete tags.")
branch = click.Group("branch", help="List, create, delete and fast-forward branches.")
consumer = click.Group("consumer", help="List, set and delete how far readers have come.")


def _rows(table: Table, kind: str) -> list[dict[str, Any]]:
    """Return the rows of a system table, with the zone UTC for times of commits."""
    rows = table_rows(table.system_table(kind).to_arrow())
    for row in rows:
        if "commit_time" in row:  # other times are those of a writer's clock, wherever it was
            row["commit_time"] = row["commit_time"].replace(tzinfo=dt.UTC)
    return rows


def _add_list(group: click.Group, kind: str) -> None:
    """Add the command that shows the system table of a group."""

    def run(args: Arguments) -> None:
        print_rows_of(_rows(args.table(), kind))

    run.__name__, run.__doc__ = "list", f"List the {kind} of TARGET."
    command("TARGET", group=group)(run)


for _group, _kind in ((tag, "tags"), (branch, "branches"), (consumer, "consumers")):
    _add_list(_group, _kind)


@command("TARGET", "NAME", group=tag)
@integer("--snapshot", help="Snapshot id; the newest by default.")
@duration("--retain", help="How long the tag is kept, such as '7 d'; without a limit by default.")
@flag("--if-not-exists", help="Do nothing if the tag exists.")
def tag_create(args: Arguments) -> None:
    """Give a snapshot of TARGET the name NAME."""
    retained = None if args.retain is None else dt.timedelta(milliseconds=args.retain)
    tag = args.table().tags.create(
        args.name, args.snapshot, time_retained=retained, ignore_if_exists=args.if_not_exists
    )
    facts = {"tag": tag.name, "snapshot_id": tag.snapshot.id}
    say(f"tag {tag.name} is snapshot {tag.snapshot.id}", facts)


@command("TARGET", "NAME", "NEW_NAME", group=tag)
def tag_rename(args: Arguments) -> None:
    """Give the tag NAME of TARGET another name."""
    args.table().tags.rename(args.name, args.new_name)
    facts = {"tag": args.new_name, "was": args.name}
    say(f"tag {args.name} is {args.new_name} now", facts)


@command("TARGET", "NAME", group=tag, yes=True)
def tag_delete(args: Arguments) -> None:
    """Delete the tag NAME of TARGET, with the files that only it kept."""
    args.confirm(f"Tag {args.name} of {args.target} is deleted, with the files that only it keeps.")
    deleted = args.table().tags.delete(args.name)
    say(
        f"tag {args.name} is deleted, with {counted(deleted.data_files, 'data file')} that only "
        f"it kept ({deleted.data_bytes:,} bytes)",
        {"deleted": args.name, "files": deleted.data_files, "bytes": deleted.data_bytes},
    )


@command("TARGET", "NAME", group=branch)
@click.option("--tag", help="Begin with this tag; empty by default.")
@integer("--snapshot", help="Begin with this snapshot, which a tag must keep.")
def branch_create(args: Arguments) -> None:
    """Make the branch NAME of TARGET; read and write it as TARGET$branch_NAME."""
    branches = args.table().branches
    branches.create(args.name, tag=args.tag, snapshot_id=args.snapshot)
    say(f"branch {args.name} created", {"branch": args.name})


@command("TARGET", "NAME", group=branch, yes=True)
def branch_delete(args: Arguments) -> None:
    """Delete the branch NAME of TARGET."""
    args.confirm(f"Branch {args.name} of {args.target} is deleted, with its snapshots.")
    args.table().branches.delete(args.name)
    say(f"branch {args.name} is deleted", {"deleted": args.name})


@command("TARGET", group=branch, yes=True)
@duration("--older-than", default="7 d", show_default=True, help="Keep those refused since.")
def branch_drop_audited(args: Arguments) -> None:
    """Delete the branches of batches that checks rejected from TARGET."""
    before_millis = SystemClock().now_millis() - args.older_than
    args.confirm(f"Batches of {args.target} that checks rejected are deleted, with their files.")
    dropped = drop_rejected(args.table().state.store, before_millis=before_millis).branches
    say(f"Branches deleted: {', '.join(dropped) or 'none'}", {"deleted": dropped})


@command("TARGET", "NAME", group=branch, yes=True)
def branch_fast_forward(args: Arguments) -> None:
    """Make TARGET equal to its branch NAME; later commits of TARGET are undone."""
    name, target = args.name, args.target
    args.confirm(f"{target} becomes its branch {name}; its own snapshots since then are deleted.")
    newest = args.table().branches.fast_forward(name)
    facts = {"branch": name, "snapshot_id": newest.id}
    say(f"{target} is branch {name} now, at snapshot {newest.id}", facts)


@command("TARGET", "NAME", group=consumer)
@click.argument("next_snapshot", type=int)
def consumer_reset(args: Arguments) -> None:
    """Let the consumer NAME of TARGET continue at NEXT_SNAPSHOT."""
    name, next_snapshot = args.name, args.next_snapshot
    args.table().consumers.reset(name, next_snapshot)
    facts = {"consumer": name, "next_snapshot_id": next_snapshot}
    say(f"consumer {name} continues at snapshot {next_snapshot}", facts)


@command("TARGET", "NAME", group=consumer, yes=True)
def consumer_delete(args: Arguments) -> None:
    """Forget the consumer NAME of TARGET; snapshots it kept may expire."""
    args.confirm(f"Consumer {args.name} of {args.target} loses its position.")
    args.table().consumers.delete(args.name)
    say(f"consumer {args.name} is deleted", {"deleted": args.name})


@command("TARGET", yes=True)
@integer("--snapshot", help="Snapshot id to go back to.")
@click.option("--tag", help="Tag to go back to.")
@integer("--schema", help="Schema id to go back to; rows stay as they are.")
def rollback(args: Arguments) -> None:
    """Return TARGET to a snapshot, a tag or a schema.

    Stop writers first.
    """
    target, schema = args.target, args.schema
    ways = [way for way in (args.snapshot, args.tag) if way is not None]
    if len(ways) + (schema is not None) != 1:
        raise click.UsageError("Give one of --snapshot, --tag and --schema.")
    if schema is not None:
        args.confirm(f"All schemas of {target} after {schema} are deleted.")
        now = args.table().rollback_schema(schema).schema.id
        say(f"{target} is at schema {now}", {"schema_id": now})
        return
    args.confirm(f"Snapshots and tags of {target} after {ways[0]} are deleted.")
    done = args.table().rollback_to(ways[0])
    say(
        f"{target} is at snapshot {done.snapshot.id}; gone are "
        f"{counted(len(done.snapshots), 'snapshot')} and {counted(len(done.tags), 'tag')}, "
        "their files stay until a cleaning",
        {"snapshot_id": done.snapshot.id, "snapshots": len(done.snapshots), "tags": len(done.tags)},
    )


@command("TARGET")
@click.option("--limit", type=click.IntRange(min=1), help="Only the newest.")
def snapshots(args: Arguments) -> None:
    """List the snapshots of TARGET.

    Oldest first, times in UTC; --json shows all members of a snapshot. Records are counted in
    files: of a table with a primary key a row may be several, until they are compacted.
    """
    rows = _rows(args.table(), "snapshots")
    print_rows_of(
        rows[-args.limit :] if args.limit else rows,
        "id=snapshot_id, committed=commit_time, kind=commit_kind, records=total_record_count,"
        " added=delta_record_count, schema=schema_id, by=commit_user",
    )


@command("TARGET")
@integer("--snapshot", help="Snapshot id; the newest by default.")
def files(args: Arguments) -> None:
    """List the live data files of TARGET.

    --json shows their keys and statistics, too.
    """
    options = {} if args.snapshot is None else {SCAN_SNAPSHOT_ID.key: str(args.snapshot)}
    rows = _rows(args.table(options), "files")
    if not is_json():
        rows = [{**row, "file": row["file_path"].rpartition("/")[2]} for row in rows]
    print_rows_of(
        rows,
        "partition=partition, bucket=bucket, level=level, records=record_count,"
        " size=file_size_in_bytes, file=file",
    )


@command("TARGET")
@click.option("--pattern", help="Only those like it, such as 'dt=2024-*'.")
def partitions(args: Arguments) -> None:
    """List the partitions of TARGET."""
    rows = _rows(args.table(), "partitions")
    if args.pattern:
        rows = [row for row in rows if fnmatch.fnmatchcase(str(row["partition"]), args.pattern)]
    print_rows_of(
        rows,
        "partition=partition, records=record_count, size=file_size_in_bytes, files=file_count,"
        " last change=last_update_time",
    )
