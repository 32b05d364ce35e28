"""Shared parts of asset checks on tables: their options, their run, and the executor.

Small tables are read in this process, so that nobody waits for a Spark session; larger ones by the
executor of the catalog resource.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from paimon_assets.assets.failures import dagster_failures
from paimon_assets.assets.metadata import Metadata, grid
from paimon_assets.assets.partitions import PARTITION_COLUMNS, RunPartitions, run_partitions
from paimon_assets.assets.resource import ExecutorKind, PaimonCatalogResource, catalog_resource
from paimon_assets.assets.translator import identifier_of_asset, resource_key_of
from paimon_assets.engine.contract.executor import ROWS, CountingExecutor
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.words import plain_sample
from paimon_assets.engine.table.read.read_builder import ReadBuilder
from paimon_assets.engine.table.table import Table

EMBEDDED_LIMIT_ROWS = 20_000_000
"""Physical rows up to which a check reads in this process by default."""


@dataclass(frozen=True, kw_only=True)
class CheckOptions:
    """Options that all checks share."""

    name: str | None = None
    """The name of the check; a check's own name by default."""
    blocking: bool = False
    """Whether a failure stops what lies downstream in the run."""
    severity: dg.AssetCheckSeverity = dg.AssetCheckSeverity.ERROR
    executor: ExecutorKind | None = None
    """The executor; None is this process up to `EMBEDDED_LIMIT_ROWS`, then the resource's."""
    show_values: bool | None = None
    """Whether results show some of the rows' values; None is the resource's choice."""
    resource_key: str | None = None
    """The catalog's; None is that of the asset."""
    by_partition: bool = False
    """Whether each partition has a result, of its rows alone; Dagster warns of a preview."""

    def shows_values(self, paimon: PaimonCatalogResource) -> bool:
        """Whether results show some of the rows' values."""
        return paimon.show_values if self.show_values is None else self.show_values


@dataclass(frozen=True, kw_only=True)
class CheckRun:
    """One evaluation of a check: the table, and how to answer."""

    paimon: PaimonCatalogResource
    table: Table
    options: CheckOptions
    partition_keys: tuple[str, ...] = ()
    """The partition keys of the run, if it is about some."""
    asset: dg.AssetsDefinition
    instance: dg.DagsterInstance

    def partitions(self) -> RunPartitions | None:
        """Return the rows of the run's partitions; None for the whole table."""
        columns = self.asset.get_asset_spec().metadata.get(PARTITION_COLUMNS)
        definition = self.asset.partitions_def
        if not self.partition_keys or columns is None or definition is None:
            return None
        return run_partitions(self.partition_keys, definition, columns, self.table.schema)

    def reader(self) -> ReadBuilder:
        """Return a read of the rows to check: of the run's partitions with `by_partition`."""
        read = self.table.new_read_builder()
        partitions = self.partitions() if self.options.by_partition else None
        return read if partitions is None else read.with_filter(partitions.predicate())

    @property
    def shows_values(self) -> bool:
        """Whether the answer shows some of the rows' values."""
        return self.options.shows_values(self.paimon)

    def executor(self, physical_rows: int | None = None) -> CountingExecutor[Any]:
        """Return the executor for so many rows; those of the newest snapshot by default."""
        rows = self.table.state.physical_rows() if physical_rows is None else physical_rows
        return executor_of_check(self.paimon, self.options, rows)

    def result(self, *, passed: bool, description: str, metadata: Metadata) -> dg.AssetCheckResult:
        """Return the answer, with the snapshot it holds for."""
        snapshot = self.table.latest_snapshot()
        return dg.AssetCheckResult(
            passed=passed,
            severity=self.options.severity,
            description=description,
            metadata={"paimon/snapshot_id": snapshot.id if snapshot else 0, **metadata},
        )


def define_check(
    asset: dg.AssetsDefinition,
    name: str,
    description: str,
    options: CheckOptions,
    evaluate: Callable[[CheckRun], dg.AssetCheckResult],
    *,
    is_of_rows: bool = False,
) -> dg.AssetChecksDefinition:
    """Define a check of one table asset by its evaluation function.

    Args:
        asset: A table asset.
        name: The check's, unless the options name it.
        description: What it checks.
        options: Of the check.
        evaluate: Gives the result.
        is_of_rows: Whether it reads rows by `CheckRun.reader`, so that it can look at a partition.

    Raises:
        InvalidInputError: The asset is not of exactly one table; or results are asked for by
            partition (kind `check-partitions`) where the check is of the whole table, or the asset
            has no partitions whose rows can be told.
    """
    identifier = identifier_of_asset(asset)
    resource_key = options.resource_key or resource_key_of(asset)
    partitions_def = asset.partitions_def if options.by_partition else None
    if options.by_partition:
        _refuse_by_partition(asset, options.name or name, identifier, is_of_rows=is_of_rows)

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
        keys: tuple[str, ...] = (run_of.partition_key,) if run_of.has_partition_key else ()
        if not keys and run_of.has_partition_key_range:
            keys = tuple(run_of.partition_keys)
        with dagster_failures(identifier, context):
            run = CheckRun(
                paimon=paimon,
                table=paimon.catalog().get_table(identifier),
                options=options,
                partition_keys=keys,
                asset=asset,
                instance=context.instance,
            )
            return evaluate(run)

    return check


def _refuse_by_partition(
    asset: dg.AssetsDefinition, check: str, identifier: Identifier, *, is_of_rows: bool
) -> None:
    """Refuse results by partition where there can be none."""
    reason = None
    if not is_of_rows:
        reason = "it looks at the table as a whole. Row counts, keys, sequences and pandera's do"
    elif asset.partitions_def is None or PARTITION_COLUMNS not in asset.get_asset_spec().metadata:
        reason = "the asset has no partitions_def and partition column. Declare both"
    if reason is not None:
        raise InvalidInputError(
            f"The check '{check}' of {identifier} cannot have a result for each partition: "
            f"{reason}, or leave by_partition out.",
            kind="check-partitions",
            details={"table": str(identifier)},
        )


def executor_of_check(
    paimon: PaimonCatalogResource, options: CheckOptions, physical_rows: int
) -> CountingExecutor[Any]:
    """Return the executor of a check for so many rows."""
    kind = options.executor
    if kind is None and physical_rows <= EMBEDDED_LIMIT_ROWS:
        kind = "embedded"
    return paimon.new_executor(kind)


def records_value(examples: Sequence[Mapping[str, Any]], *, show: bool) -> dg.TableMetadataValue:
    """Return keys and their numbers of rows as a table of Dagster's.

    Shown are numbers, and the beginning of all else as text.
    """
    return grid(_record(item, show=show) for item in examples)


def _record(example: Mapping[str, Any], *, show: bool) -> dict[str, Any]:
    plain = (int, float, type(None))
    return {
        key: value
        if key == ROWS or (show and isinstance(value, plain))
        else plain_sample(value, show=show)
        for key, value in example.items()
    }
