"""`paimon-assets write`: files of rows into a table."""

from typing import Any

import click
import pyarrow as pa

from paimon_assets.cli.files import read_files
from paimon_assets.cli.options import (
    confirm,
    executor_option,
    pass_settings,
    says_json,
    target_argument,
    yes_option,
)
from paimon_assets.cli.output import counting, progress, say
from paimon_assets.cli.settings import Settings, spark_session
from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema
from paimon_assets.engine.codec.row_files import RowFormat
from paimon_assets.engine.spec.words import counted
from paimon_assets.executors import new_executor


@click.command()
@target_argument
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True))
@click.option(
    "--format",
    "file_format",
    type=click.Choice([row_format.value for row_format in RowFormat]),
    help="Of the files.",
)
@click.option("--commit-user", help="Name of the writer; writing again under it commits once.")
@click.option(
    "--overwrite", is_flag=True, help="Replace the partitions the rows lie in, or the whole table."
)
@yes_option
@pass_settings
@executor_option
def write(settings: Settings, /, target: str, files: tuple[str, ...], **arguments: Any) -> None:
    """Write the rows of FILES, in the order given, to TARGET.

    All become one snapshot, or none does.
    """
    table = settings.table(target)
    builder = table.new_write_builder()
    if arguments["commit_user"]:
        builder = builder.with_commit_user(arguments["commit_user"])
    if arguments["overwrite"]:
        what = "The partitions of the rows" if table.schema.partition_keys else "All rows"
        confirm(f"{what} of {table.name} are replaced.")
        builder = builder.with_overwrite()
    given = read_files(files, arguments["file_format"], to_arrow_schema(table.schema.fields))
    with progress("writing", None) as advance:
        rows = pa.RecordBatchReader.from_batches(given.schema, counting(given, advance))
        outcome = builder.write(rows, new_executor(arguments["executor"], spark_session))
    report, snapshot = outcome.report, outcome.snapshot
    if outcome.was_already_committed and snapshot is not None:
        line = f"already committed as snapshot {snapshot.id}; nothing written"
    else:
        done = "nothing to commit" if snapshot is None else f"snapshot {snapshot.id}"
        line = (
            f"{done}: {counted(report.rows_in, 'row')} in, {report.rows_ignored:,} ignored, "
            f"{report.rows_written:,} written"
        )
    counts = ("rows_in", "rows_ignored", "rows_written", "sequence_wraps")
    facts = {
        "snapshot_id": None if snapshot is None else snapshot.id,
        "already_committed": outcome.was_already_committed,
        **{name: getattr(report, name) for name in counts},
    }
    say(line, facts)
    if report.sequence_wraps and not says_json():
        click.echo(
            f"warning: {counted(report.sequence_wraps, 'row')} wrapped the padded sequence",
            err=True,
        )
