"""Commands on a table's segments: files of others that it reads where they lie."""

import datetime as dt
from collections.abc import Callable
from typing import Any

import click

from paimon_assets.cli.history import duration_ms
from paimon_assets.cli.options import (
    confirm,
    key_values,
    pass_settings,
    target_argument,
    yes_option,
)
from paimon_assets.cli.output import print_rows_of, say, table_rows, working
from paimon_assets.cli.settings import Settings
from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.spec.segments.segment import PAIMON_FORMATS, TEXT_FORMATS
from paimon_assets.engine.spec.words import counted
from paimon_assets.engine.table.segments.segment_import import SegmentSource
from paimon_assets.engine.table.segments.segment_tables import show_segments
from paimon_assets.engine.table.segments.segments import SegmentOutcome, Segments

_FORMATS = sorted(PAIMON_FORMATS | TEXT_FORMATS)
_DAY, _SECOND = "%Y-%m-%d", "%Y-%m-%d %H:%M:%S"


def root_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option that says below which folders files may lie."""
    return click.option(
        "--root",
        "roots",
        multiple=True,
        envvar="PAIMON_SEGMENT_ROOTS",
        help="Take files from below this folder only, links followed; may be repeated. By default"
        " those of PAIMON_SEGMENT_ROOTS, with blanks between them; without, from anywhere.",
    )(command)


@click.group()
def segments() -> None:
    """Make folders of others part of a table, without copying a byte."""


@segments.command("add")
@target_argument
@click.argument("path")
@click.option(
    "--format",
    default="parquet",
    show_default=True,
    help=f"One of {', '.join(_FORMATS)}; the texts are read by paimon-assets alone.",
)
@click.option("--partition", help="Partition columns, such as day:int, of folders day=1, day=2.")
@click.option(
    "--option",
    "options",
    multiple=True,
    callback=key_values,
    metavar="KEY=VALUE",
    help="How csv, json and text files are written, as Spark's readers name it: sep=';',"
    " header=false, encoding=latin1, multiLine=true; may be repeated.",
)
@click.option("--only-new", is_flag=True, help="Take the files that no segment holds yet.")
@click.option("--dry-run", is_flag=True, help="Only say what would happen.")
@root_option
@pass_settings
def segments_add(settings: Settings, /, target: str, *, dry_run: bool, **options: Any) -> None:
    """Make the files below PATH part of TARGET where they lie."""
    found, executor = _segments(settings, target, options.pop("roots")), EmbeddedExecutor()
    source = SegmentSource(**options)
    if not dry_run:
        with working("reading footers"):
            outcome = found.add(source, executor)
        _show(outcome, "added")
        return
    with working("reading footers"):
        plan = found.plan(source, executor)
    if plan.problem is not None:
        raise plan.problem
    say(
        f"{counted(len(plan.files), 'file')} with {counted(plan.row_count, 'row')} in "
        f"{counted(len(plan.folders), 'folder')} of '{plan.root}' would be added",
        {"files": len(plan.files), "rows": plan.row_count, "folders": len(plan.folders)},
    )


@segments.command("list")
@target_argument
@click.option("--limit", type=int, help="Only the newest.")
@pass_settings
def segments_list(settings: Settings, /, target: str, *, limit: int | None) -> None:
    """Show the segments of TARGET and its own loads; read 'TARGET$segments' for more."""
    shown = show_segments(_segments(settings, target).listed(), limit=limit)
    print_rows_of(table_rows(shown))


@segments.command("delete")
@target_argument
@click.argument("ids", nargs=-1, type=int)
@click.option(
    "--before",
    type=click.DateTime([_DAY, _SECOND]),
    help="Also folders that were added before this time, in UTC; never the table's own loads.",
)
@yes_option
@pass_settings
def segments_delete(
    settings: Settings, /, target: str, *, ids: tuple[int, ...], before: dt.datetime | None
) -> None:
    """Take the segments and loads IDS out of TARGET; files of others stay as they are."""
    if not ids and before is None:
        raise click.UsageError("Give ids, or --before.")
    named = [
        *(f"segment {number}" for number in ids),
        *([f"those before {before}"] if before else []),
    ]
    confirm(f"{', '.join(named)} of {target} can be read no more; files stay.")
    limit = None if before is None else int(before.replace(tzinfo=dt.UTC).timestamp() * 1000)
    _show(_segments(settings, target).delete(ids, before_ms=limit), "deleted")


@segments.command("refresh")
@target_argument
@click.argument("ids", nargs=-1, type=int)
@root_option
@pass_settings
def segments_refresh(
    settings: Settings, /, target: str, *, ids: tuple[int, ...], roots: tuple[str, ...]
) -> None:
    """Take the segments IDS of TARGET, all that were added by default, as their folders are now."""
    _show(_segments(settings, target, roots).refresh(ids, EmbeddedExecutor()), "read anew")


@segments.command("clean")
@target_argument
@click.option("--retain", default="7 d", show_default=True, help="Keep those deleted since.")
@click.option("--force", is_flag=True, help="Also those that can be read.")
@pass_settings
def segments_clean(settings: Settings, /, target: str, *, retain: str, force: bool) -> None:
    """Forget deleted segments and compacted loads of TARGET; no file of theirs is touched."""
    gone = _segments(settings, target).clean(retention_ms=duration_ms(retain), force=force)
    say(f"{len(gone)} deleted segments are forgotten", {"forgotten": len(gone)})


def _segments(settings: Settings, target: str, roots: tuple[str, ...] = ()) -> Segments:
    return settings.table(target).segments(roots=roots or None)


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
