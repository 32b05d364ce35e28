"""Asset checks on how a table is written: fresh, in few files, and in an order that is certain.

`freshness_check`     how old the newest data is; a compaction makes nothing fresh
`small_files_check`   whether its files ask for a compaction
`quarantine_check`    whether landed files were left out because they cannot be read
`sequence_check`      whether the sequence field decides which row of a key is the last
"""

import datetime as dt

import dagster as dg

from paimon_assets.assets.check_run import CheckOptions, CheckRun, define_check, records_value
from paimon_assets.assets.checks.row_checks import find_duplicates, unmerged_plan
from paimon_assets.assets.files.ingestion import compare_landing, quarantine_value
from paimon_assets.assets.files.ledger import names_text
from paimon_assets.assets.files.source_files import FileSource
from paimon_assets.assets.jobs.compaction_backlog import due_compaction
from paimon_assets.assets.jobs.table_picture import levels_table
from paimon_assets.assets.metadata import Metadata, last_number, newest_data
from paimon_assets.engine.control.clock import Clock, SystemClock
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.options.all_options import (
    SEQUENCE_AUTO_PADDING,
    SEQUENCE_FIELD,
    SEQUENCE_PADDING_FIELD,
)
from paimon_assets.engine.spec.predicate.predicate import IsNull
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.words import counted
from paimon_assets.engine.table.system.table_health import FileDebt

SEQUENCE_WRAPS = "paimon/sequence_wraps"

_ERROR = CheckOptions()
_WARNING = CheckOptions(severity=dg.AssetCheckSeverity.WARN)
_DEBT = FileDebt()
_CLOCK = SystemClock()


def build_freshness_check(
    asset: dg.AssetsDefinition,
    max_age: dt.timedelta,
    *,
    options: CheckOptions = _ERROR,
    clock: Clock = _CLOCK,
) -> dg.AssetChecksDefinition:
    """Check that data was committed not longer ago than this.

    It looks at the table, not at Dagster's events: also what others commit makes it fresh, and a
    run that had nothing to write does not.

    Args:
        asset: A table asset.
        max_age: The max age of the newest snapshot that changed data.
        options: Name, severity, blocking.
        clock: Says the time.

    Raises:
        InvalidInputError: The asset is not of exactly one table.

    Cost:
        Reads the newest snapshots, back to the first that is no compaction.
    """

    def evaluate(run: CheckRun) -> dg.AssetCheckResult:
        newest = run.table.latest_snapshot()
        data = None if newest is None else newest_data(run.table, newest)
        if data is None:
            text = "No data was committed yet."
            return run.result(passed=False, description=text, metadata={})
        age = dt.timedelta(milliseconds=max(0, clock.now_millis() - data.time_millis))
        committed = dt.datetime.fromtimestamp(data.time_millis / 1000, tz=dt.UTC)
        shown = f"{committed:%Y-%m-%d %H:%M:%S} UTC"
        metadata: Metadata = {
            "paimon/age_seconds": age.total_seconds(),
            "paimon/max_age_seconds": max_age.total_seconds(),
            "paimon/committed": dg.MetadataValue.timestamp(committed),
            "paimon/data_snapshot_id": data.id,
        }
        return run.result(
            passed=age <= max_age,
            description=f"Snapshot {data.id} of {shown} is the newest data, {_age_text(age)} old; "
            f"at most {_age_text(max_age)} are allowed.",
            metadata=metadata,
        )

    text = f"Checks that the newest data is at most {_age_text(max_age)} old."
    return define_check(asset, "freshness", text, options, evaluate)


def _age_text(age: dt.timedelta) -> str:
    """Return a duration in its two largest units.

    >>> _age_text(dt.timedelta(hours=30, milliseconds=7)), _age_text(dt.timedelta(days=1))
    ('1 day 6 hours', '1 day')
    """
    minutes, seconds = divmod(int(age.total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    units = {"day": days, "hour": hours, "minute": minutes, "second": seconds}
    parts = [counted(number, unit) for unit, number in units.items() if number]
    return " ".join(parts[:2]) or "0 seconds"


def build_small_files_check(
    asset: dg.AssetsDefinition, debt: FileDebt = _DEBT, *, options: CheckOptions = _WARNING
) -> dg.AssetChecksDefinition:
    """Check that the files of a table do not ask for a compaction.

    It fails where `build_file_debt_sensor` requests one, and a compaction has something to do.

    Args:
        asset: A table asset.
        debt: From how much on they do.
        options: Name, severity (a warning by default), blocking.

    Raises:
        InvalidInputError: The asset is not of exactly one table.

    Cost:
        The newest snapshot's manifests, up to three times.
    """

    def evaluate(run: CheckRun) -> dg.AssetCheckResult:
        snapshot = run.table.latest_snapshot()
        shape, due = run.table.state.shape(snapshot), due_compaction(debt, run.table, snapshot)
        amplification = f"read amplification {shape.read_amplification:.2f}"
        text = f"{counted(len(shape.file_sizes), 'file')}, {amplification}."
        if due is not None:
            text = (
                f"{due.reason}; {text} Run compaction_job with the strategy {due.strategy.value};"
                " a file-debt sensor asks for it by itself."
            )
        return run.result(
            passed=due is None,
            description=text,
            metadata={
                "paimon/total_files": len(shape.file_sizes),
                "paimon/small_files": shape.small_files,
                "paimon/level_0_runs": shape.level_0_runs,
                "paimon/deleted_rows": shape.deleted_rows,
                "paimon/read_amplification": shape.read_amplification,
                "paimon/levels": levels_table({"now": shape}),
            },
        )

    return define_check(
        asset, "small_files", "Checks that reads open few files.", options, evaluate
    )


def build_quarantine_check(
    asset: dg.AssetsDefinition, source: FileSource, *, options: CheckOptions = _WARNING
) -> dg.AssetChecksDefinition:
    """Check that no file of a landing folder was left out because it cannot be read.

    It shows each with the reason. A file leaves quarantine when it is mended, or removed.

    Args:
        asset: From `build_file_ingestion_asset`.
        source: The asset's, with `on_bad_file="quarantine"`.
        options: Name, severity (a warning by default), blocking.

    Raises:
        InvalidInputError: The asset is not of exactly one table.

    Cost:
        A listing of the folder, and the ledger.
    """

    def evaluate(run: CheckRun) -> dg.AssetCheckResult:
        landing = compare_landing(run.paimon, run.table, asset.key, source)
        folder, quarantined = landing.folder, landing.pending.quarantined
        metadata: Metadata = {"paimon/files_in_quarantine": len(quarantined)}
        text = f"All files of '{folder}' that were looked at could be read."
        if quarantined:
            metadata["paimon/quarantine"] = quarantine_value(quarantined)
            text = (
                f"{counted(len(quarantined), 'file')} of '{folder}' left out; mend or remove: "
                f"{names_text(each.file for each in quarantined)}."
            )
        return run.result(passed=not quarantined, description=text, metadata=metadata)

    text = "Checks that every landed file could be read."
    return define_check(asset, "quarantine", text, options, evaluate)


def build_sequence_check(
    asset: dg.AssetsDefinition, *, options: CheckOptions = _ERROR
) -> dg.AssetChecksDefinition:
    """Check that the sequence field decides which row of a key is the last.

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
        wraps = last_number(run.instance, run.asset.key, SEQUENCE_WRAPS) or 0
        is_padded = bool(schema.typed_options.get(SEQUENCE_AUTO_PADDING))
        named = ", ".join(fields)
        by = "its padding" if is_padded else "arrival alone, which no retry repeats"
        findings = {
            f"{nulls:,} rows have no {named}, so any other row wins": nulls,
            f"{wraps:,} rows of the last write wrapped their padding": wraps,
            f"{ties.keys:,} times rows of one key have one {named}, ordered by {by}": ties.keys,
        }
        text = "; ".join(finding for finding, count in findings.items() if count)
        metadata: Metadata = {
            "paimon/stored_rows": ties.rows,
            "paimon/null_sequences": nulls,
            "paimon/sequence_ties": ties.keys,
            SEQUENCE_WRAPS: wraps,
        }
        if ties.examples:
            metadata["paimon/examples"] = records_value(ties.examples, show=run.shows_values)
        return run.result(
            passed=not (nulls or wraps or (ties.keys and not is_padded)),
            description=f"{text}." if text else f"{named} orders all {ties.rows:,} stored rows.",
            metadata=metadata,
        )

    text = "Checks that the sequence field decides which row of a key is the last."
    return define_check(asset, "sequence", text, options, evaluate, is_of_rows=True)


def _null_rows(run: CheckRun, fields: tuple[str, ...]) -> int:
    rows = 0
    for name in fields:
        read = run.reader().with_columns([name]).with_filter(IsNull(name))
        with read.read(unmerged_plan(read), run.executor()) as reader:
            rows += sum(batch.num_rows for batch in reader)
    return rows


def _sequence_fields(schema: TableSchema, table: str) -> tuple[str, ...]:
    options = schema.typed_options
    padded = options.get(SEQUENCE_PADDING_FIELD)
    fields = options.get(SEQUENCE_FIELD) or ((padded,) if padded else ())
    if not fields:
        raise InvalidInputError(
            f"Table {table} has no '{SEQUENCE_FIELD.key}': the row that arrives last wins, and "
            "there is no order to check.",
            kind="check-columns",
            details={"table": table},
        )
    return fields
