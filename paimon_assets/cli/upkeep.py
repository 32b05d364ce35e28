"""Commands that keep a table healthy: check, compact, expire, health, doctor."""

import platform
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from typing import Any

import click
from msgspec.structs import replace

from paimon_assets.cli import commands, output
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.control.compact import CompactStrategy
from paimon_assets.engine.errors import NotFoundError, PaimonError, without_secrets
from paimon_assets.engine.executors import has_spark, spark_module
from paimon_assets.engine.fileio.opening import file_io_for
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.words import counted
from paimon_assets.engine.table.api import TableCatalog
from paimon_assets.engine.table.system.table_health import DUE_SCORE, HealthLimits, manifest_fault
from paimon_assets.engine.table.table import Table
from paimon_assets.engine.table.upkeep import many_tables
from paimon_assets.engine.table.upkeep.compaction import CompactionProgress, kept_text
from paimon_assets.engine.table.upkeep.maintenance import Maintenance, MaintenanceTask

_LOOKS_AT_ONCE = 16
"""Files that are asked for at a time: each answer takes the storage's time, not ours."""
_EXPIRING = (
    MaintenanceTask.EXPIRE_PARTITIONS,
    MaintenanceTask.EXPIRE_TAGS,
    MaintenanceTask.EXPIRE_SNAPSHOTS,
    MaintenanceTask.EXPIRE_CHANGELOGS,
)


@commands.command("TARGET", executor=True)
@click.option(
    "--strategy",
    type=commands.choice(CompactStrategy),
    default="minor",
    show_default=True,
    help="Files to compact.",
)
@click.option("--where", help="Only partitions for which this filter is true.")
@click.option("--buckets", help="Only buckets of these numbers, such as 0-99,205.")
@commands.names("--order-by", help="Comma list of columns to sort by, without a key.")
@click.option(
    "--curve",
    default="zorder",
    show_default=True,
    help="Curve through several columns: order, zorder or hilbert.",
)
@commands.pairs("--option", "options", help="KEY=VALUE.")
@commands.flag("--dry-run", help="Only report the files to compact.")
def compact(args: commands.Arguments) -> None:
    """Merge the runs and fold the small files of TARGET.

    One snapshot, or none; no row changes.
    """
    table = args.table(args.options)
    builder = table.new_compaction_builder().with_strategy(args.strategy)
    builder = builder.with_filter(args.where).with_buckets(args.buckets)
    if args.order_by:
        builder = builder.with_order(args.order_by, args.curve)
    if args.dry_run:
        plan = builder.plan()
        count = sum(len(unit.task.split.data_files) for unit in plan.units)
        output.say(
            f"{counted(count, 'file')} of {counted(len(plan.units), 'bucket')} would go",
            {"units": len(plan.units), "files": count},
        )
        return
    with output.progress("compacting", None, "bytes") as advance:
        done = 0

        def show_progress(now: CompactionProgress) -> None:
            nonlocal done
            advance(now.bytes_done - done, now.total_bytes)
            done = now.bytes_done

        outcome = builder.run(args.new_executor(), on_progress=show_progress)
    snapshot = None if outcome.snapshot is None else outcome.snapshot.id
    line = (
        f"snapshot {snapshot}: merged {counted(outcome.files_before, 'file')}"
        f" ({output.size_text(outcome.bytes_before)}) into {outcome.files_after}"
        f" ({output.size_text(outcome.bytes_after)}){kept_text(outcome)}"
    )
    counts = (
        "files_before", "files_after", "bytes_before", "bytes_after", "deletes_kept", "left_out",
    )  # fmt: skip
    facts = {"snapshot_id": snapshot, **{name: getattr(outcome, name) for name in counts}}
    nothing = "nothing to compact"
    if args.strategy == CompactStrategy.MINOR:
        nothing = "nothing is due; --strategy full compacts all"
    output.say(nothing if snapshot is None else line, facts)


@commands.command("TARGET", executor=True)
@click.option(
    "--buckets",
    type=click.IntRange(min=1),
    help="The new count; by default the table's option bucket, which the count of new partitions"
    " stays.",
)
@commands.pairs("--partition", "partition", help="COLUMN=VALUE; all partitions by default.")
def rescale(args: commands.Arguments) -> None:
    """Give the partitions of TARGET another number of buckets.

    One snapshot, or none; no row changes. Java's writers need the number in the option
    bucket, too.
    """
    with output.working("rescaling"):
        snapshot = args.table().rescale(
            args.new_executor(), buckets=args.buckets, partition=args.partition
        )
    done = "nothing to rescale" if snapshot is None else f"snapshot {snapshot.id}"
    output.say(done, {"snapshot_id": None if snapshot is None else snapshot.id})


@commands.command("TARGET", yes=True)
@click.option(
    "--task",
    "tasks",
    multiple=True,
    type=commands.choice(MaintenanceTask),
    help="Task to run; may be repeated. By default all that expire something.",
)
@click.option("--keep", type=click.IntRange(min=1), help="Snapshots to keep, at least and at most.")
@commands.duration("--older-than", help="Snapshots older than this go, such as '1 h'.")
@commands.integer("--before", help="Snapshots before the one of this id go, and no other.")
@commands.pairs("--option", "options", help="KEY=VALUE.")
@commands.flag("--dry-run", help="Only report.")
def expire(args: commands.Arguments) -> None:
    """Expire by the options of TARGET: snapshots, tags, partitions.

    Reports first, and asks.
    """
    options, keep, older_than = dict(args.options), args.keep, args.older_than
    if keep is not None:
        options |= {opt.SNAPSHOT_NUM_RETAINED_MIN.key: str(keep)}
        options |= {opt.SNAPSHOT_NUM_RETAINED_MAX.key: str(keep)}
    if older_than is not None:
        options[opt.SNAPSHOT_TIME_RETAINED.key] = f"{older_than} ms"
    table = args.table(options)
    if args.before is not None:
        if keep is not None or older_than is not None:
            raise click.UsageError("--before excludes --keep and --older-than.")
        table.snapshot(args.before)
    tasks = [task for task in MaintenanceTask if task in (args.tasks or _EXPIRING)]
    _run_tasks(args, table, replace(table.maintenance(), expire_before=args.before), tasks)


@commands.command("TARGET", yes=True)
@commands.duration(
    "--older-than", default="1 d", show_default=True, help="Younger files may be in use."
)
@commands.flag("--dry-run", help="Only report.")
def clean(args: commands.Arguments) -> None:
    """Delete files of TARGET that no snapshot names.

    Reports first, and asks.
    """
    table = args.table()
    maintenance = replace(table.maintenance(), orphans_older_than_ms=args.older_than)
    _run_tasks(args, table, maintenance, [MaintenanceTask.CLEAN_ORPHANS])


@commands.command("TARGET", executor=True)
@commands.names("--columns", help="Comma list of columns; all by default.")
def analyze(args: commands.Arguments) -> None:
    """Compute statistics of the rows of TARGET and commit them.

    Reads all rows. Query planners use the statistics.
    """
    with output.working("analyzing"):
        outcome = args.table().analyze(columns=args.columns or None, executor=args.new_executor())
    snapshot = outcome.snapshot
    facts = {"snapshot_id": None if snapshot is None else snapshot.id}
    output.say("nothing to analyze" if snapshot is None else f"snapshot {snapshot.id}", facts)


def _run_tasks(
    args: commands.Arguments, table: Table, maintenance: Maintenance, tasks: list[MaintenanceTask]
) -> None:
    """Print the plans of tasks, ask, and run them; with --dry-run only print."""
    if args.yes and not args.dry_run:
        _print_work(_reports(maintenance, tasks), table.name)
        return
    lines = _reports(replace(maintenance, dry_run=True), tasks)
    is_due = MaintenanceTask.ANALYZE in tasks or any(one["count"] or one["files"] for one in lines)
    if is_due and not args.dry_run:
        args.confirm(f"These tasks run on {table.name}.", lambda: _print_work(lines, table.name))
        lines = _reports(maintenance, tasks)
    _print_work(lines, table.name)


def _print_work(lines: Sequence[Mapping[str, Any]], subject: str) -> None:
    """Print the lines that have work or a note, with --json all; without any, a sentence."""
    shown = [line for line in lines if line["count"] or line["files"] or line["note"]]
    if shown or output.is_json():
        output.print_rows_of(lines if output.is_json() else shown)
    else:
        click.echo(f"nothing is due for {subject}")


def _reports(maintenance: Maintenance, tasks: list[MaintenanceTask]) -> list[dict[str, Any]]:
    action = "looking" if maintenance.dry_run else "expiring"
    lines = []
    with output.progress(action, len(tasks), "tasks") as advance:
        for task in tasks:
            report = maintenance.run(task)
            advance(1, None)
            lines.append(
                {
                    "task": report.task.value,
                    "count": report.count,
                    "files": report.files,
                    "bytes": report.total_bytes,
                    "note": report.note,
                }
            )
    return lines


@commands.command(yes=True)
@click.argument("names", nargs=-1)
@commands.flag("--dry-run", help="Only report due work, and why.")
def maintain(args: commands.Arguments) -> None:
    """Do the upkeep that is due for the tables NAMES, by the options of each.

    NAMES are database.table, with * for any part; all tables by default. Partitions, tags,
    snapshots, changelogs and rejected batches expire, tags that are due are made, manifests folded;
    files that no snapshot names are only counted: `clean` deletes them, `compact` merges data
    files. Shows due work and its reasons first, and asks. A table that fails stops no other; then
    it ends with code 1.
    """
    args.settings.check_warehouse()
    catalog = args.catalog
    named = [
        many_tables.tables_named(name, catalog) for name in args.names or [many_tables.EVERY_TABLE]
    ]
    tables = list(dict.fromkeys(chain.from_iterable(named)))
    if args.yes and not args.dry_run:
        done = _maintain_tables(catalog, tables, dry_run=False)
    else:
        done = _maintain_tables(catalog, tables, dry_run=True)
        if due := 0 if args.dry_run else sum(one.is_due for one in done):
            lines = _lines(done)
            action = f"These tasks run on {counted(due, 'table')}."
            args.confirm(action, lambda: output.print_rows_grid(lines))
            done = _maintain_tables(catalog, tables, dry_run=False)
    _print_work(_lines(done), counted(len(tables), "table"))
    if any(one.error for one in done):
        raise click.exceptions.Exit(1)


def _lines(done: Sequence[many_tables.TableUpkeep]) -> list[many_tables.Line]:
    return [line for one in done for line in one.shown]


def _maintain_tables(
    catalog: TableCatalog, tables: list[Identifier], *, dry_run: bool
) -> list[many_tables.TableUpkeep]:
    def open_work(table: Identifier) -> Maintenance:
        return replace(catalog.get_table(table).maintenance(), dry_run=dry_run)

    done = []
    with output.progress("looking" if dry_run else "maintaining", len(tables), "tables") as advance:
        for table in tables:
            done.append(many_tables.maintain_table(table, open_work))
            advance(1, None)
    return done


@commands.command("TARGET", executor=True)
@commands.flag("--all-snapshots", help="Files of every snapshot, not of the newest.")
@commands.flag("--rows", help="Read all rows, too; keys that repeat are a fault.")
def check(args: commands.Arguments) -> None:
    """Check that all files of TARGET are there, and its rows if asked.

    Ends with code 1 if there is a fault. Nothing is changed.
    """
    table = args.table()
    faults = [*_file_faults(table, is_all=args.all_snapshots)]
    if args.rows and not faults:
        faults += _row_faults(table, args.new_executor())
    lines = [*faults, f"{table.name}: {counted(len(faults), 'fault')}"]
    output.say(lines, {"table": table.name, "faults": faults})
    if faults:
        raise click.exceptions.Exit(1)


def _file_faults(table: Table, *, is_all: bool) -> Iterator[str]:
    """Yield the faults of files: missing, or of another size."""
    newest = table.latest_snapshot()
    chosen = table.snapshots() if is_all else [newest] if newest else []
    sizes: dict[str, int] = {}
    if newest and (fault := manifest_fault(table.state.store, newest)):
        yield fault
    for snapshot in chosen:
        try:
            entries = table.state.live_files(snapshot)
        except PaimonError as error:
            yield f"snapshot {snapshot.id}: {error.message}"
            continue
        sizes |= {table.state.file_path(entry): entry.file.file_size for entry in entries}

    def look(path: str) -> str | None:
        try:
            size = table.state.file_io.file_size(path)
        except NotFoundError:
            return f"{path}: is not there"
        if size != sizes[path]:
            return f"{path}: has {size:,} bytes instead of {sizes[path]:,}"
        return None

    with (
        output.progress("checking", len(sizes), "files") as advance,
        ThreadPoolExecutor(_LOOKS_AT_ONCE) as pool,
    ):
        for fault in pool.map(look, sizes):
            advance(1, None)
            if fault is not None:
                yield fault


def _row_faults(table: Table, executor: Any) -> Iterator[str]:
    """Yield the faults of rows: unreadable, or a repeated key."""
    plan = table.new_read_builder().plan()
    try:
        with output.progress("reading", sum(split.row_count for split in plan.splits)) as advance:
            for batch in executor.map_splits(plan.context, plan.splits):
                advance(batch.num_rows, None)
        key = table.schema.primary_keys
        if key:
            repeated = executor.repeated_keys(plan.context, plan.splits, key)
            if repeated.keys:
                yield f"{counted(repeated.keys, 'key')} repeated, such as {repeated.examples[0]}"
    except PaimonError as error:
        yield error.message


_PACKAGES = {
    "dagster": "dagster",
    "pyspark": "spark",
    "pandas": "pandas",
    "polars": "polars",
    "duckdb": "duckdb",
    "confluent-kafka": "kafka",
    "obstore": "object-stores",
    "requests": "rest",
    "starlette": "server",
}
"""Package → the extra that installs it."""
_OK, _MISSING, _FAULT = "ok", "not installed", "fault"
_NOT_NAMED = "not named"

Finding = tuple[str, str, str]
"""A subject, its state, and details."""


@commands.command()
@commands.flag(
    "--read-only", help="Do not write the file that shows how the storage takes commits."
)
def doctor(args: commands.Arguments) -> None:
    """Look whether Java, packages and the storage are as they should be.

    Writes a small file into the warehouse and deletes it. Ends with code 1 if there is a fault.
    """
    findings = [*_versions(), *_java(), *_storage(args)]
    names = ("checked", "state", "details")
    output.print_rows_of([dict(zip(names, finding, strict=True)) for finding in findings])
    if any(state == _FAULT for _, state, _ in findings):
        raise click.exceptions.Exit(1)


def _versions() -> Iterator[Finding]:
    yield "paimon-assets", _OK, f"{version('paimon-assets')}, Python {platform.python_version()}"
    yield "pyarrow", _OK, version("pyarrow")
    for package, extra in _PACKAGES.items():
        try:
            yield package, _OK, version(package)
        except PackageNotFoundError:
            yield package, _MISSING, f"pip install 'paimon-assets[{extra}]'"


def _java() -> Iterator[Finding]:
    if not has_spark():
        return
    try:
        yield "java", _OK, str(spark_module("paimon_assets.spark.java").find_java())
    except PaimonError as error:
        yield "java", _FAULT, error.message


def _storage(args: commands.Arguments) -> Iterator[Finding]:
    settings = args.settings
    if not settings.names_tables:
        yield "catalog", _NOT_NAMED, "give --warehouse or --uri to look at one"
        return
    try:
        databases = args.catalog.list_databases()
    except (PaimonError, OSError) as error:
        yield "catalog", _FAULT, without_secrets(str(error))
        return
    yield "catalog", _OK, counted(len(databases), "database")
    warehouse = settings.warehouse
    if args.read_only or warehouse is None or settings.is_served:
        return
    path = f"{warehouse.rstrip('/')}/.paimon-assets-doctor-{uuid.uuid4().hex}"
    try:
        file_io = file_io_for(warehouse, settings.options)
        is_first, is_second = file_io.publish(path, b"first"), file_io.publish(path, b"second")
        is_kept = file_io.read_bytes(path) == b"first"
        file_io.delete_file(path)
    except (PaimonError, OSError) as error:
        yield "commits", _FAULT, without_secrets(str(error))
        return
    if is_first and is_kept and not is_second:
        yield "commits", _OK, "a file that exists is not written again: commits are safe"
    else:
        yield "commits", _FAULT, "the storage replaced a file that exists: commits may be lost"


@commands.command()
@click.argument("names", nargs=-1)
@click.option(
    "--score",
    type=click.IntRange(0, 100),
    default=DUE_SCORE,
    show_default=True,
    help="Ends with code 1 if a table has this score or less.",
)
@click.option("--record", metavar="TABLE", help="Append the result to this table, too.")
@commands.integer(
    "--orphans",
    metavar="BYTES",
    help="Look for files that nothing names, too; allow so many bytes of them. Lists all files.",
)
def health(args: commands.Arguments) -> None:
    """Show how much upkeep the tables NAMES need, and why; worst first.

    NAMES are database.table, with * for any part; all tables by default. A score of 100 needs
    nothing, 50 or less has reached a limit. Reads metadata alone.
    """
    limits = HealthLimits(orphan_bytes=args.orphans)
    health = args.catalog.health(*args.names, limits=limits)
    rows = sorted(health.to_pylist(), key=lambda row: -1 if row["score"] is None else row["score"])
    if args.record:
        args.catalog.record_health(args.record, health)
    for row in [] if output.is_json() else rows:
        row["table"] = f"{row['database_name']}.{row['table_name']}"
        row["reason"] = "cannot be read" if row["score"] is None else row["reason"]
    output.print_rows_of(
        rows,
        "table=table, score=score, files=file_count, size=total_bytes, snapshots=snapshot_count,"
        " reason=reason",
    )
    if any(row["score"] is None or row["score"] <= args.score for row in rows):
        raise click.exceptions.Exit(1)
