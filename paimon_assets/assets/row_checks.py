"""Asset checks of a table's rows: how many there are, and whether keys and their order are sound.

`row_count`, `row_count_anomaly`   how many rows, also against the last runs
`unique_key`                       whether keys are unique
`sequence`                         whether the sequence field decides which row of a key is the last
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Any

import dagster as dg
from msgspec.structs import replace

from paimon_assets.assets import metadata as md
from paimon_assets.assets.check_run import CheckOptions, CheckRun, define_check, records_value
from paimon_assets.assets.failures import naming_arguments
from paimon_assets.assets.partitions import keys_before
from paimon_assets.engine.contract.executor import CountingExecutor, RepeatedKeys
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.predicate.predicate import IsNull, Predicate
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.words import counted
from paimon_assets.engine.table.read.read_builder import Plan, ReadBuilder

SEQUENCE_WRAPS = "paimon/sequence_wraps"

_ERROR = CheckOptions()
_WARNING = CheckOptions(severity=dg.AssetCheckSeverity.WARN)
_FEWEST_CHANGES = 3
_DEVIATIONS = 3
_TO_DEVIATION = 1.4826
"""Median distance from the median → standard deviation of a normal distribution."""
_EVENTS_PER_RUN = 5
"""Materializations looked at for each run that is wanted: some committed nothing."""


@naming_arguments
def build_row_count_check(
    asset: dg.AssetsDefinition,
    expected: int | Callable[[], int] | None = None,
    *,
    minimum: int | None = None,
    maximum: int | None = None,
    options: CheckOptions = _ERROR,
) -> dg.AssetChecksDefinition:
    """Check that a reader gets exactly so many rows, or not fewer or more than bounds say.

    >>> check = build_row_count_check(orders, minimum=1)

    Args:
        asset: A table asset.
        expected: The number, or a function that computes it when the check runs, by means that do
            not go through the table.
        minimum: The fewest rows.
        maximum: The most rows.
        options: Name, severity, blocking, executor.

    Raises:
        InvalidInputError: The asset is not of exactly one table; or there is neither a number nor a
            bound, or both, or no number is between the bounds (kind `check-bounds`).

    Cost:
        Metadata only, unless files overlap; then their keys.
    """
    _check_bounds(expected, minimum, maximum)

    def evaluate(run: CheckRun) -> dg.AssetCheckResult:
        counting = run.reader().plan_count()
        rows = counting.count(run.executor(counting.physical_rows))
        metadata: md.Metadata = {"paimon/rows": rows}
        if expected is None:
            passed = (minimum or 0) <= rows and (maximum is None or rows <= maximum)
            note = f"; expected: {_bounds_text(minimum, maximum)}."
        else:
            number = expected() if callable(expected) else expected
            passed = rows == number
            metadata["paimon/expected_rows"] = number
            metadata["paimon/difference"] = rows - number
            metadata["paimon/stored_rows"] = counting.physical_rows
            side = "too many" if rows > number else "missing"
            note = "" if passed else f", {abs(rows - number):,} {side}"
        return run.result(passed=passed, description=counted(rows, "row") + note, metadata=metadata)

    text = "Checks that the table has exactly the expected number of rows."
    if expected is None:
        text = f"Checks the number of rows of the table: {_bounds_text(minimum, maximum)}."
    return define_check(asset, "row_count", text, options, evaluate)


def _check_bounds(expected: object, minimum: int | None, maximum: int | None) -> None:
    has_bound = minimum is not None or maximum is not None
    if has_bound != (expected is None):
        text = "A row count check needs the expected number of rows, or minimum, maximum or both."
        raise InvalidInputError(text, kind="check-bounds")
    if minimum is not None and maximum is not None and minimum > maximum:
        message = f"No number of rows is at least {minimum:,} and at most {maximum:,}; raise it."
        raise InvalidInputError(message, kind="check-bounds")


def _bounds_text(minimum: int | None, maximum: int | None) -> str:
    parts = [
        f"at least {minimum:,}" if minimum is not None else "",
        f"at most {maximum:,}" if maximum is not None else "",
    ]
    return " and ".join(part for part in parts if part)


@naming_arguments
def build_row_count_anomaly_check(
    asset: dg.AssetsDefinition, *, runs: int = 10, options: CheckOptions = _WARNING
) -> dg.AssetChecksDefinition:
    """Check that a run changed the number of rows as the runs before it did.

    >>> check = build_row_count_anomaly_check(orders, runs=20)

    A change is an anomaly where it is further from the median change of the last runs than three
    times their spread. The spread is the median distance from that median, scaled to a standard
    deviation, and not less than a tenth of the median change; for a table that keeps its size, not
    less than a hundredth of its rows. With fewer than three changes to compare, it passes with a
    note. Runs that committed nothing do not count.

    By partition, changes are those of the partition. Partitions of time windows, each of which is
    written about once, are compared with each other instead: the rows of this one, with those of as
    many windows before it that have some; their spread is not less than a tenth of their median.

    Args:
        asset: A table asset.
        runs: How many runs it compares with: those whose materializations have a row count.
        options: Name, severity (a warning by default), blocking, executor.

    Raises:
        InvalidInputError: The asset is not of exactly one table; or `runs` is below three (kind
            `check-bounds`).

    Cost:
        One query of the run history, or a count of each window; and as `build_row_count_check`.
    """
    if runs < _FEWEST_CHANGES:
        raise InvalidInputError(
            f"runs is {runs}; an anomaly needs at least {_FEWEST_CHANGES} runs to compare with.",
            kind="check-bounds",
        )

    def evaluate(run: CheckRun) -> dg.AssetCheckResult:
        rows = _row_count(run, run.where)
        windows = _windows_before(run, runs)
        if windows is not None:
            return _compare_windows(run, rows, windows)
        before = _counts_before(run, runs + 1)
        changes = [late - early for early, late in pairwise(before)]
        metadata: md.Metadata = {"paimon/rows": rows, "paimon/runs_compared": len(changes)}
        if len(changes) < _FEWEST_CHANGES:
            text = (
                f"{counted(rows, 'row')}; {len(before)} of the {_FEWEST_CHANGES + 1} earlier runs "
                "with a row count that a comparison needs."
            )
            return run.result(passed=True, description=text, metadata=metadata)
        change = rows - before[-1]
        low, high = _usual_range(changes, before[-1] / 100)
        return run.result(
            passed=low <= change <= high,
            description=f"{counted(rows, 'row')}, {change:+,} in this run; the last "
            f"{counted(len(changes), 'change')} let {low:+,.0f} to {high:+,.0f} be expected.",
            metadata={
                **metadata,
                "paimon/change": change,
                "paimon/expected_low": round(low, 1),
                "paimon/expected_high": round(high, 1),
            },
        )

    text = f"Checks that the number of rows changes as in the last {runs} runs."
    return define_check(asset, "row_count_anomaly", text, options, evaluate)


def _usual_range(numbers: Sequence[int], least_spread: float) -> tuple[float, float]:
    usual = median(numbers)
    distances = median(abs(each - usual) for each in numbers) * _TO_DEVIATION
    spread = max(distances, abs(usual) / 10 or least_spread)
    return usual - _DEVIATIONS * spread, usual + _DEVIATIONS * spread


def _row_count(run: CheckRun, where: Predicate | None) -> int:
    counting = run.table.new_read_builder().with_filter(where).plan_count()
    return counting.count(run.executor(counting.physical_rows))


def _windows_before(run: CheckRun, most: int) -> dict[str, int] | None:
    """Return the rows of windows before the run's, by key; None for other partitions."""
    if run.run_rows is None or not run.asset.partitions_def:
        return None
    before = keys_before(run.asset.partitions_def, run.partition_keys[0])
    if before is None:
        return None
    counts = {}
    for key in before[-most:]:
        partitions = run.partitions([key])
        counts[key] = 0 if partitions is None else _row_count(run, partitions.predicate())
    return {key: rows for key, rows in counts.items() if rows}


def _compare_windows(run: CheckRun, rows: int, windows: Mapping[str, int]) -> dg.AssetCheckResult:
    shown, compared = f"{counted(rows, 'row')}{run.of_rows}", counted(len(windows), "window")
    metadata: md.Metadata = {"paimon/rows": rows, "paimon/windows_compared": len(windows)}
    if len(windows) < _FEWEST_CHANGES:
        text = f"{shown}; {compared} before it have rows, and {_FEWEST_CHANGES} are needed."
        return run.result(passed=True, description=text, metadata=metadata)
    low, high = _usual_range(list(windows.values()), 0)
    metadata |= {"paimon/expected_low": round(low, 1), "paimon/expected_high": round(high, 1)}
    return run.result(
        passed=low <= rows <= high,
        description=f"{shown}; the {compared} before it let {low:,.0f} to {high:,.0f} be expected.",
        metadata=metadata,
    )


def _counts_before(run: CheckRun, runs: int) -> list[int]:
    """Return the row counts of earlier snapshots, as materializations have them, oldest first."""
    newest = run.table.latest_snapshot()
    counts: dict[int, int] = {}
    wanted, row_count = dg.AssetRecordsFilter(asset_key=run.asset.key), md.ROW_COUNT
    if run.run_rows is not None:
        wanted = wanted._replace(asset_partitions=run.partition_keys)
        row_count = md.PARTITION_ROW_COUNT
    events = run.instance.fetch_materializations(wanted, limit=_EVENTS_PER_RUN * runs)
    for record in events.records:
        event = record.asset_materialization
        numbers = {} if event is None else event.metadata
        rows, snapshot = (numbers.get(key) for key in (row_count, md.SNAPSHOT_ID))
        if isinstance(rows, dg.IntMetadataValue) and isinstance(snapshot, dg.IntMetadataValue):
            counts.setdefault(snapshot.value or 0, rows.value or 0)
    counts.pop(0 if newest is None else newest.id, None)
    return list(counts.values())[:runs][::-1]


@naming_arguments
def build_unique_key_check(
    asset: dg.AssetsDefinition,
    columns: Sequence[str] | None = None,
    *,
    options: CheckOptions = _ERROR,
) -> dg.AssetChecksDefinition:
    """Check that no two rows have the same key.

    >>> check = build_unique_key_check(orders, ["id"])

    Args:
        asset: A table asset.
        columns: The key; the primary key by default. Nulls count as equal.
        options: Name, severity, blocking, executor.

    Raises:
        InvalidInputError: In the run: the table has no primary key and no columns were given.

    Cost:
        The key columns once, twice if there are duplicates; memory as of `find_duplicates`.
    """

    def evaluate(run: CheckRun) -> dg.AssetCheckResult:
        key = tuple(columns or run.table.schema.primary_keys)
        if not key:
            raise InvalidInputError(
                f"Table {run.table.name} has no primary key; name the columns that must be unique.",
                kind="check-columns",
            )
        repeated = find_duplicates(run.reader(), key, run.executor())
        named, keys = ", ".join(key), repeated.keys
        metadata: md.Metadata = {
            "paimon/rows": repeated.rows,
            "paimon/duplicate_keys": keys,
            "paimon/rows_with_duplicate_keys": repeated.rows_of_keys,
            "paimon/key": named,
        }
        if repeated.examples:
            metadata["paimon/examples"] = records_value(repeated.examples, show=run.shows_values)
        verb = "is" if keys == 1 else "are"
        text = f"{counted(keys, 'key')} ({named}) {verb} shared by {repeated.rows_of_keys:,} rows"
        if not keys:
            text = f"{counted(repeated.rows, 'row')}, each with a key of its own ({named})"
        return run.result(passed=not keys, description=text, metadata=metadata)

    text = "Checks that no two rows have the same key."
    return define_check(asset, "unique_key", text, options, evaluate)


def find_duplicates(
    read: ReadBuilder,
    key: Sequence[str],
    executor: CountingExecutor[Any],
    *,
    is_merged: bool = True,
) -> RepeatedKeys:
    """Find the keys of a table's newest snapshot that occur more than once.

    Nulls count as equal. Merged, it looks at rows as a reader gets them; else at every stored row.

    Cost:
        Memory as of `data.repeated_keys`; on Spark that of a grouped count.
    """
    read = read.with_columns(key)
    plan = read.plan() if is_merged else unmerged_plan(read)
    return executor.repeated_keys(plan.context, plan.splits, key)


def unmerged_plan(read: ReadBuilder) -> Plan:
    """Plan a read of every stored row, also of those that newer ones replace, with its kind."""
    plan = read.with_row_kinds().plan()
    return replace(plan, splits=tuple(replace(it, is_streaming=True) for it in plan.splits))


@naming_arguments
def build_sequence_check(
    asset: dg.AssetsDefinition, *, options: CheckOptions = _ERROR
) -> dg.AssetChecksDefinition:
    """Check that the sequence field decides which row of a key is the last.

    >>> check = build_sequence_check(orders)

    It fails on nulls, on rows of the asset's last write whose padding wrapped, and on rows of one
    key with equal sequence values, unless `sequence.auto-padding` orders those; then it counts
    them. All stored rows are compared, also those that newer ones hide; rows of one write
    are merged before they are stored.

    Args:
        asset: A table asset with `sequence.field`, or `sequence.padding-field`.
        options: Name, severity, blocking, executor.

    Raises:
        InvalidInputError: In the run: the table has neither.

    Cost:
        Keys and sequence fields of all files, unmerged; memory as of `build_unique_key_check`.
    """

    def evaluate(run: CheckRun) -> dg.AssetCheckResult:
        schema = run.table.schema
        fields = _sequence_fields(schema, run.table.name)
        key = (*schema.primary_keys, *(name for name in fields if name not in schema.primary_keys))
        ties = find_duplicates(run.reader(), key, run.executor(), is_merged=False)
        nulls = _null_rows(run, fields)
        wraps = md.last_number(run.instance, run.asset.key, SEQUENCE_WRAPS) or 0
        is_padded = bool(schema.typed_options.get(opt.SEQUENCE_AUTO_PADDING))
        named = ", ".join(fields)
        by = "its padding" if is_padded else "arrival alone, which no retry repeats"
        findings = {
            f"{counted(nulls, 'row')} without {named}, so any other row wins": nulls,
            f"the padding wrapped at {counted(wraps, 'row')} of the last write": wraps,
            f"{counted(ties.keys, 'key')} with rows of one {named}, ordered by {by}": ties.keys,
        }
        text = "; ".join(finding for finding, count in findings.items() if count)
        text = text or f"{named} orders {counted(ties.rows, 'stored row')}"
        metadata: md.Metadata = {
            "paimon/stored_rows": ties.rows,
            "paimon/null_sequences": nulls,
            "paimon/sequence_ties": ties.keys,
            SEQUENCE_WRAPS: wraps,
        }
        if ties.examples:
            metadata["paimon/examples"] = records_value(ties.examples, show=run.shows_values)
        return run.result(
            passed=not (nulls or wraps or (ties.keys and not is_padded)),
            description=f"{text}.",
            metadata=metadata,
        )

    text = "Checks that the sequence field decides which row of a key is the last."
    return define_check(asset, "sequence", text, options, evaluate)


def _null_rows(run: CheckRun, fields: tuple[str, ...]) -> int:
    rows = 0
    for name in fields:
        read = run.reader().with_columns([name]).with_filter(IsNull(name))
        with read.read(unmerged_plan(read), run.executor()) as reader:
            rows += sum(batch.num_rows for batch in reader)
    return rows


def _sequence_fields(schema: TableSchema, table: str) -> tuple[str, ...]:
    options = schema.typed_options
    padded = options.get(opt.SEQUENCE_PADDING_FIELD)
    fields = options.get(opt.SEQUENCE_FIELD) or ((padded,) if padded else ())
    if not fields:
        message = (
            f"Table {table} has no '{opt.SEQUENCE_FIELD.key}': the row that arrives last wins, and "
            "there is no order to check."
        )
        raise InvalidInputError(message, kind="check-columns", table=table)
    return fields
