"""Commands on a table's segments: external files that it reads in place."""

import datetime as dt

import click

from paimon_assets.cli import commands
from paimon_assets.cli.output import print_rows_of, say, table_rows, working
from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.spec.segments.segment import PAIMON_FORMATS, TEXT_FORMATS
from paimon_assets.engine.spec.words import counted
from paimon_assets.engine.table.segments.segment_import import SegmentSource
from paimon_assets.engine.table.segments.segments import SegmentOutcome, Segments

_FORMATS = sorted(PAIMON_FORMATS | TEXT_FORMATS)
segments = click.Group("segments", help="Add foreign folders to a table, without copying a byte.")


@commands.command("TARGET", "PATH", group=segments)
@click.option(
    "--format",
    default="parquet",
    show_default=True,
    help=f"One of {', '.join(_FORMATS)}; the texts are read by paimon-assets alone.",
)
@click.option("--partition", help="Partition columns, such as day:int, of folders day=1, day=2.")
@commands.pairs(
    "--option",
    "options",
    metavar="KEY=VALUE",
    help="How csv, json and text files are written, as Spark's readers name it: sep=';',"
    " header=false, encoding=latin1, multiLine=true; may be repeated.",
)
@commands.flag("--only-new", help="Take the files that no segment holds yet.")
@commands.flag("--dry-run", help="Only report the plan.")
@commands.root_option
def segments_add(args: commands.Arguments) -> None:
    """Make the files below PATH part of TARGET where they lie."""
    segments, executor = _segments(args), EmbeddedExecutor()
    source = SegmentSource(
        path=args.path,
        format=args.format,
        partition=args.partition,
        options=args.options,
        only_new=args.only_new,
    )
    if not args.dry_run:
        with working("reading footers"):
            outcome = segments.add(source, executor)
        _show(outcome, "added")
        return
    with working("reading footers"):
        plan = segments.plan(source, executor)
    if plan.problem is not None:
        raise plan.problem
    say(
        f"{counted(len(plan.files), 'file')} with {counted(plan.row_count, 'row')} in "
        f"{counted(len(plan.folders), 'folder')} of '{plan.root}' would be added",
        {"files": len(plan.files), "rows": plan.row_count, "folders": len(plan.folders)},
    )


@commands.command("TARGET", group=segments)
@commands.integer("--limit", help="Only the newest.")
def segments_list(args: commands.Arguments) -> None:
    """Show the segments of TARGET and its own loads; read 'TARGET$segments' for more."""
    print_rows_of(table_rows(_segments(args).shown(limit=args.limit)))


@commands.command("TARGET", group=segments, yes=True)
@click.argument("ids", nargs=-1, type=int)
@click.option(
    "--before",
    type=click.DateTime(["%Y-%m-%d", "%Y-%m-%d %H:%M:%S"]),
    help="Also folders that were added before this time, in UTC; never the table's own loads.",
)
def segments_delete(args: commands.Arguments) -> None:
    """Remove the segments and loads IDS from TARGET; external files stay as they are."""
    ids, before = args.ids, args.before
    if not ids and before is None:
        raise click.UsageError("Give ids, or --before.")
    named = [
        *(f"segment {number}" for number in ids),
        *([f"those before {before}"] if before else []),
    ]
    args.confirm(f"{', '.join(named)} of {args.target} can no longer be read; their files stay.")
    limit = None if before is None else int(before.replace(tzinfo=dt.UTC).timestamp() * 1000)
    _show(_segments(args).delete(ids, before_ms=limit), "deleted")


@commands.command("TARGET", group=segments)
@click.argument("ids", nargs=-1, type=int)
@commands.root_option
def segments_refresh(args: commands.Arguments) -> None:
    """Take the segments IDS of TARGET, all that were added by default, as their folders are now."""
    _show(_segments(args).refresh(args.ids, EmbeddedExecutor()), "read again")


@commands.command("TARGET", group=segments)
@commands.duration("--retain", default="7 d", show_default=True, help="Keep those deleted since.")
@commands.flag("--force", help="Also those that can be read.")
def segments_clean(args: commands.Arguments) -> None:
    """Forget deleted segments and compacted loads of TARGET; no file of theirs is touched."""
    gone = _segments(args).clean(retention_ms=args.retain, force=args.force)
    say(f"forgot {counted(len(gone), 'deleted segment')}", {"forgotten": len(gone)})


def _segments(args: commands.Arguments) -> Segments:
    return args.table().segments(roots=vars(args).get("roots") or None)


def _show(outcome: SegmentOutcome, done: str) -> None:
    if outcome.snapshot is None:
        say(f"no segment was {done}", {"snapshot_id": None, "segments": []})
        return
    ids = [segment.id for segment in outcome.segments]
    files = sum(len(segment.files) for segment in outcome.segments)
    rows = sum(segment.row_count for segment in outcome.segments)
    say(
        f"segments {', '.join(map(str, ids))} with {counted(files, 'file')} and"
        f" {counted(rows, 'row')} were {done} in snapshot {outcome.snapshot.id}",
        {"snapshot_id": outcome.snapshot.id, "segments": ids, "files": files, "rows": rows},
    )
