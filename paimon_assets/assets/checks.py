"""Asset checks on tables: how many rows, and whether keys are unique.

Each is a check of its own, run from the UI or after its asset, and reads only the columns it needs.
Small tables are read in this process, so that nobody waits for a Spark session; larger ones by the
executor of the catalog resource.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from paimon_assets.assets.failures import dagster_failures
from paimon_assets.assets.metadata import Metadata
from paimon_assets.assets.partitions import PARTITION_COLUMNS, RunPartitions, run_partitions
from paimon_assets.assets.resource import ExecutorKind, PaimonCatalogResource
from paimon_assets.assets.row_count import plan_count
from paimon_assets.assets.translator import identifier_of_asset
from paimon_assets.assets.unique_keys import DuplicateKeys, find_duplicates
from paimon_assets.engine.contract.executor import Executor
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.table.table import Table

EMBEDDED_LIMIT_ROWS = 20_000_000
"""Physical rows up to which a check reads in this process, unless told otherwise."""


@dataclass(frozen=True, kw_only=True)
class CheckOptions:
    """What all checks have in common."""

    name: str | None = None
    """Of the check; a check's own name by default."""
    blocking: bool = False
    """Whether a failure stops what lies downstream in the run."""
    severity: dg.AssetCheckSeverity = dg.AssetCheckSeverity.ERROR
    executor: ExecutorKind | None = None
    """Who reads; None is this process up to `EMBEDDED_LIMIT_ROWS`, then the resource's choice."""


_DEFAULTS = CheckOptions()


def row_count_check(
    asset: dg.AssetsDefinition,
    expected: int | Callable[[], int],
    *,
    options: CheckOptions = _DEFAULTS,
) -> dg.AssetChecksDefinition:
    """Check that a reader gets exactly so many rows.

    Args:
        asset: A table asset.
        expected: The number, or a function that computes it when the check runs, by means that do
            not go through the table.
        options: Name, severity, blocking, executor.

    Cost:
        Metadata only, unless files overlap; then their keys.
    """

    def evaluate(run: "CheckRun") -> dg.AssetCheckResult:
        wanted = expected() if callable(expected) else expected
        counting = plan_count(run.table)
        rows = counting.count(run.executor(counting.physical_rows))
        missing = f"{abs(rows - wanted):,} {'too many' if rows > wanted else 'missing'}"
        return run.result(
            passed=rows == wanted,
            description=f"{rows:,} rows" + (f", {missing}" if rows != wanted else ""),
            metadata={
                "paimon/rows": rows,
                "paimon/expected_rows": wanted,
                "paimon/difference": rows - wanted,
                "paimon/physical_rows": counting.physical_rows,
            },
        )

    text = "The table has exactly the expected number of rows."
    return define_check(asset, "row_count", text, options, evaluate)


def unique_key_check(
    asset: dg.AssetsDefinition,
    columns: Sequence[str] | None = None,
    *,
    options: CheckOptions = _DEFAULTS,
) -> dg.AssetChecksDefinition:
    """Check that no two rows have the same key.

    Args:
        asset: A table asset.
        columns: The key; the primary key by default. Nulls count as equal.
        options: Name, severity, blocking, executor.

    Raises:
        InvalidInputError: In the run: the table has no primary key and no columns were given.

    Cost:
        The key columns once, twice if there are duplicates; see `assets.unique_keys` for memory.
    """

    def evaluate(run: "CheckRun") -> dg.AssetCheckResult:
        key = tuple(columns or run.table.schema.primary_keys)
        if not key:
            raise InvalidInputError(
                f"Table {run.table.name} has no primary key; name the columns that must be unique.",
                kind="check-columns",
            )
        physical_rows = run.physical_rows()
        found = find_duplicates(run.table, key, run.executor(physical_rows), physical_rows)
        return run.result(
            passed=found.keys == 0,
            description=_duplicates_text(found, key),
            metadata=_duplicates_metadata(found, key),
        )

    text = "No two rows have the same key."
    return define_check(asset, "unique_key", text, options, evaluate)


def _duplicates_text(found: DuplicateKeys, key: Sequence[str]) -> str:
    named = ", ".join(key)
    if not found.keys:
        return f"{found.rows:,} rows, each with a key of its own ({named})"
    return f"{found.keys:,} keys ({named}) are shared by {found.rows_of_keys:,} rows"


def _duplicates_metadata(found: DuplicateKeys, key: Sequence[str]) -> Metadata:
    metadata: Metadata = {
        "paimon/rows": found.rows,
        "paimon/duplicate_keys": found.keys,
        "paimon/rows_with_duplicate_keys": found.rows_of_keys,
        "paimon/key": ", ".join(key),
    }
    if found.examples:
        metadata["paimon/examples"] = records_value(found.examples)
    return metadata


def records_value(examples: Sequence[Mapping[str, Any]]) -> dg.TableMetadataValue:
    """Return examples as a table of what Dagster shows: numbers, and all else as text."""
    return dg.MetadataValue.table([dg.TableRecord(_record(example)) for example in examples])


def _record(example: Mapping[str, Any]) -> dict[str, Any]:
    plain = (str, int, float, bool, type(None))
    return {
        key: value if isinstance(value, plain) else str(value) for key, value in example.items()
    }


def executor_of_check(
    paimon: PaimonCatalogResource, options: CheckOptions, physical_rows: int
) -> Executor[Any]:
    """Return who reads so many rows for a check."""
    kind = options.executor
    if kind is None and physical_rows <= EMBEDDED_LIMIT_ROWS:
        kind = "embedded"
    return paimon.new_executor(kind)


@dataclass(frozen=True, kw_only=True)
class CheckRun:
    """One evaluation of a check: the table, and how to answer."""

    paimon: PaimonCatalogResource
    table: Table
    options: CheckOptions
    partition_keys: tuple[str, ...] = ()
    """Of the run, if it is about some."""
    asset: dg.AssetsDefinition
    instance: dg.DagsterInstance

    def partitions(self) -> RunPartitions | None:
        """Return the rows of the run's partitions; None for the whole table."""
        columns = self.asset.get_asset_spec().metadata.get(PARTITION_COLUMNS)
        definition = self.asset.partitions_def
        if not self.partition_keys or columns is None or definition is None:
            return None
        return run_partitions(self.partition_keys, definition, columns, self.table.schema)

    def physical_rows(self) -> int:
        """Rows of the newest snapshot, before merging."""
        snapshot = self.table.latest_snapshot()
        return snapshot.total_record_count if snapshot else 0

    def executor(self, physical_rows: int) -> Executor[Any]:
        """Return who reads so many rows."""
        return executor_of_check(self.paimon, self.options, physical_rows)

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
) -> dg.AssetChecksDefinition:
    """Define a check of one table asset by what it evaluates."""
    identifier = identifier_of_asset(asset)

    @dg.asset_check(
        asset=asset,
        name=options.name or name,
        description=description,
        blocking=options.blocking,
    )
    def check(
        context: dg.AssetCheckExecutionContext, paimon: PaimonCatalogResource
    ) -> dg.AssetCheckResult:
        with dagster_failures(identifier):
            run = CheckRun(
                paimon=paimon,
                table=paimon.catalog().get_table(identifier),
                options=options,
                partition_keys=_partition_keys(context),
                asset=asset,
                instance=context.instance,
            )
            return evaluate(run)

    return check


def _partition_keys(context: dg.AssetCheckExecutionContext) -> tuple[str, ...]:
    run = context.op_execution_context
    if run.has_partition_key:
        return (run.partition_key,)
    return tuple(run.partition_keys) if run.has_partition_key_range else ()
