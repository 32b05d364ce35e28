"""The end of the demo's night: its tables are compacted, maintained and checked.

No row changes. All of it runs on the resource's executor, as the ingestion does.

A second run finds nothing left to do, and commits nothing.
"""

from collections.abc import Iterator
from typing import Any

import dagster as dg

from jobs.demo.evolution import RunJob
from paimon_assets import TableCatalog, set_option
from paimon_assets.assets import CompactionConfig, MaintenanceConfig
from paimon_assets.assets.jobs.compaction import StrategyChoice

COMPACTED = "demo.flights"
_SHOWN_TO_ICEBERG = set_option("metadata.iceberg.storage", "table-location")


def keep_up(catalog: TableCatalog, run_job: RunJob) -> Iterator[str]:
    """Show the flights to Iceberg's readers, compact them, maintain all tables, check the flights.

    Yields lines about it. Such a table takes no narrower types, so this follows their dry run.
    """
    catalog.alter_table(COMPACTED, [_SHOWN_TO_ICEBERG])
    config = CompactionConfig(tables=[COMPACTED], strategy=StrategyChoice.full)
    compacted = run_job("compaction_job", dg.RunConfig(ops={"compact": config}))
    yield f"compaction_job, strategy full, {COMPACTED}: {_or_failed(compacted, _report_text)}"
    if catalog.get_table(COMPACTED).state.iceberg_behind() == 0:
        yield f"Readers of Iceberg see {COMPACTED}, too: its files, and metadata beside them."
    maintained = run_job("maintenance_job", dg.RunConfig(ops={"maintain": MaintenanceConfig()}))
    yield f"maintenance_job, all tables: {_or_failed(maintained, _summary)}"
    # Dagster's page counts the checks of the newest materialization: here, the compaction.
    evaluations = run_job("flights_checks", dg.RunConfig()).get_asset_check_evaluations()
    passed = sum(evaluation.passed for evaluation in evaluations)
    yield f"In the end {passed} of {len(evaluations)} checks of {COMPACTED} pass."


def _or_failed(result: dg.ExecuteInProcessResult, summary: Any) -> str:
    return str(summary(result)) if result.success else "[red]FAILED[/], `make dev` shows its run."


def _report_text(result: dg.ExecuteInProcessResult) -> str:
    for event in result.get_asset_materialization_events():
        dropped = event.materialization.metadata["paimon/rows_dropped"].value
        gone = f" {dropped:,} deleted rows are gone for good." if dropped else ""
        return f"{event.materialization.description}{gone}"
    [observed] = result.get_asset_observation_events()  # nothing was to compact
    return str(observed.asset_observation_data.asset_observation.description)


def _summary(result: dg.ExecuteInProcessResult) -> str:
    [event] = [event for event in result.all_events if event.is_successful_output]
    summary = event.step_output_data.metadata.get("paimon/summary")
    if not isinstance(summary, dg.TableMetadataValue):
        return "nothing to do."
    lines = [line.data for line in summary.records]
    notes = [f"{line['table']} {line['task']} {line['note'] or line['count']}" for line in lines]
    return f"{'; '.join(notes)}."
