"""A sensor that requests a run when a table lags behind its topics."""

import logging
from itertools import takewhile
from typing import Any

import dagster as dg
from msgspec.structs import replace

from paimon_assets.assets.failures import naming_arguments
from paimon_assets.assets.files.ledger import load_ledger
from paimon_assets.assets.files.sources import source_name_of
from paimon_assets.assets.resource import PaimonCatalogResource, table_or_none
from paimon_assets.assets.sensors import FAILED, REQUEST_TAG, Ticked, define_sensor, retry_wait
from paimon_assets.assets.translator import identifier_of_asset, resource_key_of
from paimon_assets.cdc.assets.topic_intake import TopicIntake
from paimon_assets.cdc.assets.topic_source import KafkaSource, TopicConfig
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.words import counted

_PAUSE_SECONDS = 60.0
"""After a failed run the next waits so long."""
_MOST_FAILURES = 8
"""So many runs are looked at."""
_TICK_SECONDS = 15.0
"""So long a tick waits for an answer of the cluster."""
_LOG = logging.getLogger(__name__)


@naming_arguments
def build_lag_sensor(
    asset: dg.AssetsDefinition,
    *,
    source: KafkaSource,
    records: int = 1,
    config: TopicConfig | None = None,
    name: str | None = None,
    target: Any = None,
    minimum_interval_seconds: int = 30,
) -> dg.SensorDefinition:
    """Request a run of an asset when its table lags so many records behind its topics.

    >>> source = KafkaSource(bootstrap="host:9092", topic="orders")
    >>> sensor = build_lag_sensor(orders, source=source, records=1000)

    While a run that it requested is under way no other is requested; after one that failed, only
    after a pause. The sensor is shipped stopped.

    For commits every few seconds give a config with `follow_seconds`: the run continues that long,
    and its end makes the next one due.

    Args:
        asset: From `build_file_ingestion_asset` or `build_change_log_asset`, of topics.
        source: The asset's.
        records: Offsets behind at which a run is due.
        config: Of the runs.
        name: The name of the sensor; `<table>_lag` by default.
        target: A job or selection that contains the asset; the asset by default.
        minimum_interval_seconds: Between ticks.

    Raises:
        InvalidInputError: The asset is not of exactly one table.
    """
    identifier, resource_key = identifier_of_asset(asset), resource_key_of(asset)
    op_name, key = asset.node_def.name, f"{identifier}:lag"
    hasty = replace(source, timeout_seconds=min(source.timeout_seconds, _TICK_SECONDS))

    def tick(context: dg.SensorEvaluationContext, paimon: PaimonCatalogResource) -> Ticked:
        runs = dg.RunsFilter(tags={REQUEST_TAG: key})
        earlier = context.instance.get_run_records(runs, limit=_MOST_FAILURES)
        if earlier and not earlier[0].dagster_run.is_finished:
            return dg.SkipReason(f"Run {earlier[0].dagster_run.run_id} is under way.")
        failed = [*takewhile(lambda each: each.dagster_run.status in FAILED, earlier)]
        if failed and (left := retry_wait(failed[0].end_time, _PAUSE_SECONDS, len(failed))) > 0:
            return dg.SkipReason(f"The last run failed; the next is due in {left:.0f} s.")
        table = table_or_none(paimon, identifier)
        ledger = load_ledger(table, source_name_of(asset.key))
        intake = TopicIntake(
            paimon=paimon, table=table, source=hasty, ledger=ledger, log=_LOG, is_change_log=True
        )
        try:
            intake.choose(TopicConfig(max_records=0, new_partitions=True))
        except InvalidInputError as error:
            return dg.SkipReason(f"A run would fail: {error.message}")
        lag = sum(map(len, intake.ranges))
        if lag < records and (lag or intake.is_empty):
            return dg.SkipReason(f"{identifier} is {counted(lag, 'offset')} behind {source.place}.")
        request = dg.RunRequest(
            run_key=f"{key}:{earlier[0].dagster_run.run_id if earlier else ''}",
            run_config=None if config is None else dg.RunConfig(ops={op_name: config}),
            tags={REQUEST_TAG: key},
        )
        return dg.SensorResult(run_requests=[request])

    return define_sensor(
        name or f"{op_name}_lag",
        f"Requests a run when {identifier} lags behind {source.place}.",
        tick,
        resource_key=resource_key,
        seconds=minimum_interval_seconds,
        target=target if target is not None else asset,
    )
