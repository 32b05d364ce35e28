"""Commands that list what a table has: snapshots, files, partitions."""

import datetime as dt
import fnmatch
from typing import Any

import click

from paimon_assets.cli.options import pass_settings, says_json, target_argument
from paimon_assets.cli.output import print_rows_of, size_text, table_rows
from paimon_assets.cli.settings import Settings
from paimon_assets.engine.spec.options.scan_options import SCAN_SNAPSHOT_ID

_USER = 12
"""Characters of a commit user that a grid shows; a random one is told by fewer."""


@click.command()
@target_argument
@click.option("--limit", type=click.IntRange(min=1), help="Only the newest.")
@pass_settings
def snapshots(settings: Settings, /, target: str, *, limit: int | None) -> None:
    """List the snapshots of TARGET.

    Oldest first; --json shows all that a snapshot says.
    """
    rows = table_rows(settings.table(target).system_table("snapshots").to_arrow())
    chosen = rows[-limit:] if limit else rows
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


@click.command()
@target_argument
@click.option("--snapshot", type=int, help="Snapshot id; the newest by default.")
@pass_settings
def files(settings: Settings, /, target: str, *, snapshot: int | None) -> None:
    """List the live data files of TARGET.

    --json shows their keys and statistics, too.
    """
    moment = {} if snapshot is None else {SCAN_SNAPSHOT_ID.key: str(snapshot)}
    rows = table_rows(settings.table(target, moment).system_table("files").to_arrow())
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


@click.command()
@target_argument
@click.option("--pattern", help="Only those like it, such as 'dt=2024-*'.")
@pass_settings
def partitions(settings: Settings, /, target: str, *, pattern: str | None) -> None:
    """List the partitions of TARGET."""
    rows = table_rows(settings.table(target).system_table("partitions").to_arrow())
    if pattern:
        rows = [row for row in rows if fnmatch.fnmatchcase(str(row["partition"]), pattern)]
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
