"""`make demo`: run the ingestion job, then hold its tables against the expectations.

    python -m jobs.demo.run [--every N] [--files N] [--rest] [--s3] [--cdc] [--kafka BROKER]

Exit code 0 if every table is right, 1 if a step, a check or a comparison failed.
"""

import sys
import time
from functools import partial
from uuid import uuid4

import click
import dagster as dg
from rich.console import Console

from jobs.definitions import defs
from jobs.demo.evolution import create_first_release, evolve_flights
from jobs.demo.followed import follow_flights
from jobs.demo.home import DEMO, STORE, prepare_dagster_home
from jobs.demo.landing import DEFAULT_FILES
from jobs.demo.progress import Progress
from jobs.demo.report import Compared, compare_tables, report_grid
from jobs.demo.served import run_over_rest
from jobs.demo.stored import run_on_s3
from jobs.demo.tables import FlightChangesConfig, assets, daily_delays, ingestion_config
from jobs.demo.upkeep import keep_up
from paimon_assets.assets import PaimonSparkResource
from resources import build_resources

JOB = "ingestion_job"

FOLLOWED = 10
"""Every n-th flight is in the database that a table follows."""
_LOG_WIDTH = 130
"""Columns of the report where the output is no terminal."""

_AFTER = "`make dev` shows the run and the tables in Dagster."

_SILENT = {"console": {"config": {"log_level": "CRITICAL"}}}
"""`Progress` replaces Dagster's console logger."""


@click.command()
@click.option("--every", type=int, help="Take every n-th flight: all by default, --cdc every 10th.")
@click.option("--files", default=DEFAULT_FILES, show_default=True, help="Change files to make.")
@click.option("--rest", is_flag=True, help="Go through a REST catalog server, started for it.")
@click.option("--s3", is_flag=True, help="Keep all on an S3 server, started for it.")
@click.option("--cdc", is_flag=True, help="Let a table follow a database with these flights.")
@click.option("--kafka", default="", metavar="BROKER", help="As --cdc, from a topic of a broker.")
def main(
    every: int | None,
    files: int,
    rest: bool,  # noqa: FBT001
    s3: bool,  # noqa: FBT001
    cdc: bool,  # noqa: FBT001
    kafka: str,
) -> None:
    """Ingest a year of flight changes and compare the tables with their expectations."""
    every = every or (FOLLOWED if cdc or kafka else 1)
    scale = [f"--every={every}", f"--files={files}", *(["--cdc"] if cdc else [])]
    if s3:
        sys.exit(run_on_s3([*scale, "--rest"] if rest else scale))
    if rest:
        sys.exit(run_over_rest(scale))
    if cdc or kafka:
        sys.exit(follow_flights(every=every, files=files, broker=kafka))
    console = Console(highlight=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = max(console.width, _LOG_WIDTH)
    started = time.monotonic()
    prepare_dagster_home()
    with dg.DagsterInstance.get() as instance, dg.build_resources(build_resources()) as resources:
        progress = Progress(console)
        if resources.paimon.executor == "spark":
            _start_spark(resources.paimon.spark, progress)
        create_first_release(resources.paimon.catalog())
        result = _run_job(instance, progress, FlightChangesConfig(every=every, files=files))
        if not result.success:
            kept = f"in {DEMO}." if STORE else "`make dev` shows it."
            console.print(f"\n[bold red]The job failed.[/] Its run is kept: {kept}")
            sys.exit(1)
        for line in evolve_flights(result, partial(_run_quietly, instance)):
            console.print(line)
        catalog = resources.paimon.catalog()
        for line in keep_up(catalog, partial(_run_quietly, instance)):
            console.print(line)
        console.print("\nComparing every row and column with the result of plain pandas ...")
        compared = compare_tables(catalog, result, progress.seconds, every=every)
    console.print(report_grid(compared))
    for table in compared:
        if table.difference:
            console.print(f"{table.name}: {table.difference}", style="red", markup=False)
    _say_result(console, compared, seconds=time.monotonic() - started)
    sys.exit(any(table.difference for table in compared))


def _start_spark(spark: PaimonSparkResource, progress: Progress) -> None:
    """Start the session that all runs of the demo share, for as long as the resource lives."""
    began = time.monotonic()
    spark.session()
    progress.say(f"Spark ({spark.master}) started in {time.monotonic() - began:.1f} s")


def _run_job(
    instance: dg.DagsterInstance, progress: Progress, changes: FlightChangesConfig
) -> dg.ExecuteInProcessResult:
    job = defs.resolve_job_def(JOB)
    config = ingestion_config(changes).to_config_dict()  # type: ignore[no-untyped-call]  # Dagster's
    run_id = str(uuid4())
    chosen = None
    if build_resources()["paimon"].executor == "embedded":
        progress.say(f"{daily_delays.key.to_user_string()} joins with Spark: left out.")
        chosen = [asset.key for asset in assets if asset.key != daily_delays.key]
    progress.say(f"{JOB}, run {run_id}; everything it makes is in {DEMO}")
    instance.add_event_listener(run_id, progress.on_event)
    return job.execute_in_process(
        run_config={**config, "loggers": _SILENT},
        instance=instance,
        run_id=run_id,
        asset_selection=chosen,
        raise_on_error=False,
    )


def _run_quietly(
    instance: dg.DagsterInstance, name: str, config: dg.RunConfig
) -> dg.ExecuteInProcessResult:
    described = {**config.to_config_dict(), "loggers": _SILENT}  # type: ignore[no-untyped-call]  # Dagster's
    return defs.resolve_job_def(name).execute_in_process(
        run_config=described, instance=instance, raise_on_error=False
    )


def _say_result(console: Console, compared: list[Compared], *, seconds: float) -> None:
    by_name = {table.name: table for table in compared}
    padded, unpadded = by_name["demo.flights"], by_name["demo.flights_unpadded"]
    if not any(table.rows_read for table in compared):
        console.print("Nothing new to ingest: no rows were added, no snapshot was made.")
    lost = padded.rows - unpadded.rows
    console.print(
        f"With padding all {padded.rows:,} flights are there. Without it {lost:,} are lost: those "
        "whose last -U arrived after the +U of the same second."
    )
    after = "The server ends now, and the tables with it." if STORE else _AFTER
    console.print(f"{seconds:.0f} s in all. {after}")


if __name__ == "__main__":
    main()
