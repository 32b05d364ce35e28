"""The demo's change of schema: delays were SMALLINT at first, and the declaration moved on.

    first release ─▶ ingestion ─▶ check `schema`: drift, and the changes that reconcile it
                                     └─▶ schema_evolution_job ─▶ one new schema

A second run finds the table as declared, and changes nothing.
"""

from collections.abc import Callable, Iterator
from typing import Any

import dagster as dg
from msgspec.structs import replace

from jobs.demo.schemas import FLIGHTS, NARROWING
from paimon_assets.assets import SchemaEvolutionConfig
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.spec.types.data_types import TypeRoot, integer
from paimon_assets.engine.table.api import TableCatalog

TABLE = Identifier("demo", "flights")
DELAYS = ("dep_delay", "arr_delay")
JOB = "schema_evolution_job"

FIRST_RELEASE = replace(
    FLIGHTS,
    fields=tuple(
        replace(field, type=integer(TypeRoot.SMALLINT)) if field.name in DELAYS else field
        for field in FLIGHTS.fields
    ),
)
"""The flights table as it was declared first: no flight was late by more than 22 days."""

RunJob = Callable[[str, dg.RunConfig], dg.ExecuteInProcessResult]
"""Job's name and config → its finished run."""


def create_first_release(catalog: TableCatalog) -> None:
    """Create the flights table as the first release did, unless it is there."""
    catalog.create_database(TABLE.database, ignore_if_exists=True)
    catalog.create_table(TABLE, FIRST_RELEASE, ignore_if_exists=True)


def evolve_flights(result: dg.ExecuteInProcessResult, run_job: RunJob) -> Iterator[str]:
    """Make the changes that the check `schema` of an ingestion offered; yield lines about them."""
    for evaluation in result.get_asset_check_evaluations():
        if evaluation.check_name != "schema" or evaluation.asset_key.path != ["demo", "flights"]:
            continue
        if evaluation.passed:
            yield f"Schema of {TABLE}: as declared, nothing to evolve."
            return
        narrowed = run_job(JOB, _config(NARROWING, dry_run=True))
        yield f"A dry run of dep_delay as TINYINT: {_verdict(narrowed)}."
        changes = evaluation.metadata["paimon/schema_changes"].value
        widened = run_job(JOB, _config(changes, dry_run=False))
        verdict = _verdict(widened) if widened.success else "[red]FAILED[/]"
        yield f"The check `schema` found drift; {JOB} reconciled it: {verdict}."


def _config(changes: Any, *, dry_run: bool) -> dg.RunConfig:
    config = SchemaEvolutionConfig(table=str(TABLE), changes=changes, dry_run=dry_run)
    return dg.RunConfig(ops={"evolve_schema": config})


def _verdict(result: dg.ExecuteInProcessResult) -> str:
    """Return the report of a run in words."""
    for event in result.all_events:
        data = event.event_specific_data
        reported = getattr(data, "asset_observation", None) or getattr(
            data, "materialization", None
        )
        if reported is not None and "paimon/overflow_report" in reported.metadata:
            lines = [line.data for line in reported.metadata["paimon/overflow_report"].records]
            return "; ".join(map(_line, lines))
    return "nothing was cast"


def _line(line: Any) -> str:
    change = f"{line['column']} {line['before']} → {line['after']}"
    files = line["files kept by statistics"] + line["files lost by statistics"]
    how = f"known from statistics of {files} files, {line['files read']} read"
    if not line["lost"]:
        return f"{change} keeps all {line['stored values']:,} stored values ({how})"
    return f"{change} would lose values, {line['counted']} {line['lost']:,} ({how})"
