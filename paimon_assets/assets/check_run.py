"""Shared parts of asset checks on tables: their options, their run, and the executor.

Small tables are read in this process, without the wait for a Spark session; larger ones by the
executor of the catalog resource.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import dagster as dg
from dagster._core.definitions.asset_checks.asset_check_evaluation import (
    AssetCheckEvaluationTargetMaterializationData,
)
from dagster_shared.record import copy
from msgspec.structs import replace

from paimon_assets.assets.failures import dagster_failures
from paimon_assets.assets.metadata import Metadata, checked_snapshot, grid
from paimon_assets.assets.partitions import PARTITION_COLUMNS, RunPartitions, run_partitions
from paimon_assets.assets.provenance import partition_keys_of
from paimon_assets.assets.resource import ExecutorKind, PaimonCatalogResource, catalog_resource
from paimon_assets.assets.translator import identifier_of_asset, resource_key_of
from paimon_assets.engine.contract.executor import ROWS, CountingExecutor
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.predicate.predicate import Predicate
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.spec.words import counted, plain_sample
from paimon_assets.engine.table.read.read_builder import ReadBuilder
from paimon_assets.engine.table.table import Table

EMBEDDED_LIMIT_ROWS = 1_000_000
"""Physical rows up to which a check reads in this process, though the resource names Spark."""


class CheckOptions(Value):
    """Options that all checks share.

    >>> CheckOptions(blocking=True).blocking
    True
    """

    name: str | None = None
    blocking: bool = False
    """Whether a failure stops downstream steps of the run."""
    severity: dg.AssetCheckSeverity = dg.AssetCheckSeverity.ERROR
    executor: ExecutorKind | None = None
    """The executor; None is the resource's, and of Spark only above `EMBEDDED_LIMIT_ROWS`."""
    show_values: bool | None = None
    resource_key: str | None = None
    """The catalog's; None is that of the asset."""
    by_partition: bool = False
    """Whether each partition has a result, of its rows and files alone; Dagster warns of a preview.

    A run of several partitions records a result for each, and one of all."""

    def shows_values(self, paimon: PaimonCatalogResource) -> bool:
        return paimon.show_values if self.show_values is None else self.show_values


class CheckRun(Value):
    """One evaluation of a check: the table, and how to answer."""

    paimon: PaimonCatalogResource
    table: Table
    options: CheckOptions
    partition_keys: tuple[str, ...] = ()
    asset: dg.AssetsDefinition
    instance: dg.DagsterInstance

    def partitions(self, keys: Sequence[str] = ()) -> RunPartitions | None:
        """Return the rows of partitions, the run's by default; None for the whole table."""
        keys = keys or self.partition_keys
        columns = self.asset.get_asset_spec().metadata.get(PARTITION_COLUMNS)
        definition = self.asset.partitions_def
        if not keys or columns is None or definition is None:
            return None
        return run_partitions(keys, definition, columns, self.table.schema)

    @property
    def run_rows(self) -> RunPartitions | None:
        """The rows to check: of the run's partitions with `by_partition`; None is the table."""
        return self.partitions() if self.options.by_partition else None

    @property
    def where(self) -> Predicate | None:
        return None if self.run_rows is None else self.run_rows.predicate()

    @property
    def of_rows(self) -> str:
        """How messages name the checked rows, ` of partition '…'`; nothing for the table."""
        return "" if self.run_rows is None else f" of partition '{self.run_rows.label}'"

    def may_hold(self, file: str) -> bool:
        """Whether a file may hold rows to check, by the folders of its path."""
        return self.run_rows is None or self.run_rows.may_hold(file)

    def reader(self) -> ReadBuilder:
        return self.table.new_read_builder().with_filter(self.where)

    @property
    def shows_values(self) -> bool:
        return self.options.shows_values(self.paimon)

    def executor(self, physical_rows: int | None = None) -> CountingExecutor[Any]:
        """Return the executor for so many rows; those of the newest snapshot by default."""
        rows = self.table.state.physical_rows() if physical_rows is None else physical_rows
        return executor_of_check(self.paimon, self.options, rows)

    def result(self, *, passed: bool, description: str, metadata: Metadata) -> dg.AssetCheckResult:
        return dg.AssetCheckResult(
            passed=passed,
            severity=self.options.severity,
            description=description,
            metadata={**checked_snapshot(self.table.latest_snapshot()), **metadata},
        )


def define_check(
    asset: dg.AssetsDefinition,
    name: str,
    description: str,
    options: CheckOptions,
    evaluate: Callable[[CheckRun], dg.AssetCheckResult],
) -> dg.AssetChecksDefinition:
    """Define a check of one table asset; `name` is its name unless the options have one.

    Raises:
        InvalidInputError: The asset is not of exactly one table; or results are asked for by
            partition (kind `check-partitions`), but the asset has no partition column.
    """
    identifier = identifier_of_asset(asset)
    resource_key = options.resource_key or resource_key_of(asset)
    partitions_def = asset.partitions_def if options.by_partition else None
    columns = asset.get_asset_spec().metadata.get(PARTITION_COLUMNS)
    if options.by_partition and (partitions_def is None or columns is None):
        message = (
            f"The check '{options.name or name}' of {identifier} cannot have a result for each "
            "partition: the asset has no partitions_def and partition column. Declare both, or "
            "leave by_partition out."
        )
        raise InvalidInputError(message, kind="check-partitions", table=str(identifier))

    @dg.asset_check(
        asset=asset,
        name=options.name or name,
        description=description,
        blocking=options.blocking,
        partitions_def=partitions_def,
        required_resource_keys={resource_key},
    )
    def check(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        paimon, run_of = catalog_resource(context, resource_key), context.op_execution_context
        keys = partition_keys_of(run_of)
        with dagster_failures(identifier, context):
            run = CheckRun(
                paimon=paimon,
                table=paimon.catalog().get_table(identifier),
                options=options,
                partition_keys=keys,
                asset=asset,
                instance=context.instance,
            )
            if len(keys) < 2 or not options.by_partition:
                return evaluate(run)
            results = {}
            for key in keys:
                results[key] = evaluate(replace(run, partition_keys=(key,)))
                # Dagster takes it, though its annotation does not say so.
                event: Any = _evaluation(run_of, asset.key, key, results[key])
                run_of.log_event(event)
            return _result_of_all(run, results)

    return check


def _evaluation(
    context: dg.OpExecutionContext, asset: dg.AssetKey, partition: str, result: dg.AssetCheckResult
) -> dg.AssetCheckEvaluation:
    """Return the event of one partition, which Dagster makes itself where a run is of one."""
    evaluation = result.to_asset_check_evaluation(context.get_step_execution_context())
    wanted = dg.AssetRecordsFilter(asset_key=asset, asset_partitions=[partition])
    records = context.instance.fetch_materializations(wanted, limit=1).records
    target = None
    if records:
        [record] = records
        target = AssetCheckEvaluationTargetMaterializationData(
            storage_id=record.storage_id, run_id=record.run_id, timestamp=record.timestamp
        )
    return copy(evaluation, partition=partition, target_materialization_data=target)


def _result_of_all(
    run: CheckRun, results: Mapping[str, dg.AssetCheckResult]
) -> dg.AssetCheckResult:
    failed = {key: result.description for key, result in results.items() if not result.passed}
    key = next(iter(failed), None)
    text = f"{counted(len(results), 'partition')}: no failure."
    if key is not None:
        text = f"{len(failed):,} of {counted(len(results), 'partition')} fail. {key}: {failed[key]}"
    metadata = {"paimon/partitions": len(results), "paimon/failed_partitions": len(failed)}
    return run.result(passed=key is None, description=text, metadata=metadata)


def executor_of_check(
    paimon: PaimonCatalogResource, options: CheckOptions, physical_rows: int
) -> CountingExecutor[Any]:
    kind = options.executor or paimon.executor
    is_small = options.executor is None and physical_rows <= EMBEDDED_LIMIT_ROWS
    if kind == "spark" and is_small:
        kind, log = "embedded", paimon.spark.run_log
        if log is not None:
            log(
                f"The check reads {counted(physical_rows, 'row')} in this process: Spark is used"
                f" above {EMBEDDED_LIMIT_ROWS:,} rows, or if the check has executor='spark'."
            )
    return paimon.new_executor(kind)


def records_value(examples: Sequence[Mapping[str, Any]], *, show: bool) -> dg.TableMetadataValue:
    """Return keys and their numbers of rows as a table of Dagster's.

    Shown are numbers, and the beginning of all else as text.
    """

    def cell(key: str, value: Any) -> Any:
        is_plain = key == ROWS or (show and isinstance(value, int | float | None))
        return value if is_plain else plain_sample(value, show=show)

    return grid({key: cell(key, value) for key, value in each.items()} for each in examples)
