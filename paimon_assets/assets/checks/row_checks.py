"""Asset checks on tables: how many rows, and whether keys are unique.

Each is a check of its own, run from the UI or after its asset, and reads only the columns it needs.
"""

from collections.abc import Callable, Sequence

import dagster as dg

from paimon_assets.assets.check_run import CheckOptions, CheckRun, define_check, records_value
from paimon_assets.assets.checks.unique_keys import find_duplicates
from paimon_assets.assets.metadata import Metadata
from paimon_assets.engine.contract.repeated_keys import RepeatedKeys
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.words import counted

_DEFAULTS = CheckOptions()


def build_row_count_check(
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

    Raises:
        InvalidInputError: The asset is not of exactly one table.

    Cost:
        Metadata only, unless files overlap; then their keys.
    """

    def evaluate(run: CheckRun) -> dg.AssetCheckResult:
        wanted = expected() if callable(expected) else expected
        counting = run.table.new_read_builder().plan_count()
        rows = counting.count(run.executor(counting.physical_rows))
        missing = f"{abs(rows - wanted):,} {'too many' if rows > wanted else 'missing'}"
        return run.result(
            passed=rows == wanted,
            description=counted(rows, "row") + (f", {missing}" if rows != wanted else ""),
            metadata={
                "paimon/rows": rows,
                "paimon/expected_rows": wanted,
                "paimon/difference": rows - wanted,
                "paimon/physical_rows": counting.physical_rows,
            },
        )

    text = "The table has exactly the expected number of rows."
    return define_check(asset, "row_count", text, options, evaluate)


def build_unique_key_check(
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
        The key columns once, twice if there are duplicates; memory: `assets.checks.unique_keys`.
    """

    def evaluate(run: CheckRun) -> dg.AssetCheckResult:
        key = tuple(columns or run.table.schema.primary_keys)
        if not key:
            raise InvalidInputError(
                f"Table {run.table.name} has no primary key; name the columns that must be unique.",
                kind="check-columns",
            )
        found = find_duplicates(run.table, key, run.executor(run.physical_rows()))
        return run.result(
            passed=found.keys == 0,
            description=_duplicates_text(found, key),
            metadata=_duplicates_metadata(found, key, show=run.shows_values),
        )

    text = "No two rows have the same key."
    return define_check(asset, "unique_key", text, options, evaluate)


def _duplicates_text(found: RepeatedKeys, key: Sequence[str]) -> str:
    named = ", ".join(key)
    if not found.keys:
        return f"{counted(found.rows, 'row')}, each with a key of its own ({named})"
    keys = "1 key" if found.keys == 1 else f"{found.keys:,} keys"
    verb = "is" if found.keys == 1 else "are"
    return f"{keys} ({named}) {verb} shared by {found.rows_of_keys:,} rows"


def _duplicates_metadata(found: RepeatedKeys, key: Sequence[str], *, show: bool) -> Metadata:
    metadata: Metadata = {
        "paimon/rows": found.rows,
        "paimon/duplicate_keys": found.keys,
        "paimon/rows_with_duplicate_keys": found.rows_of_keys,
        "paimon/key": ", ".join(key),
    }
    if found.examples:
        metadata["paimon/examples"] = records_value(found.examples, show=show)
    return metadata
