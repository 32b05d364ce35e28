"""The compaction job: a form in the Launchpad, one step for each table, a picture on its asset.

    choose_tables ─▶ <database>__<table>   one step for each declared table, in the table's pool
                  └▶ other_tables          tables the form names that are no asset here

    step: done by an earlier try? ─▶ dry run: the plan     ─┐
                                  └▶ tasks ─▶ one snapshot ─┴▶ materialization of the asset

It is a materialization, unless the job is set otherwise: the asset's page shows the newest
materialization, so its size and files are right afterwards. No row changed: the data version stays
(`metadata.data_version_of`), and `on_new_data` asks for nothing. A dry run, and one that finds
nothing to do, is an observation.
"""

import datetime as dt
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from typing import Any

import dagster as dg
from pydantic import Field

from paimon_assets.assets import translator as naming
from paimon_assets.assets.failures import dagster_failures, failure_of, naming_arguments
from paimon_assets.assets.jobs.declared_tables import DeclaredTable, DeclaredTables, TableLike
from paimon_assets.assets.jobs.table_picture import levels_table, picture, size_text
from paimon_assets.assets.metadata import Metadata, grid, materialization_of, partition_text
from paimon_assets.assets.provenance import op_properties
from paimon_assets.assets.resource import PaimonCatalogResource, catalog_resource
from paimon_assets.engine.control.compact import CompactionPlan, PlannedUnit
from paimon_assets.engine.embedded import News
from paimon_assets.engine.errors import InvalidInputError, NotFoundError, PaimonError
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.options.all_options import parse_duration_ms
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.spec.words import counted
from paimon_assets.engine.table.api import TableCatalog
from paimon_assets.engine.table.system.table_health import TableShape
from paimon_assets.engine.table.table import Table
from paimon_assets.engine.table.upkeep import compaction

_LINES_SHOWN = 200


def plan_metadata(table: Table, plan: CompactionPlan) -> Metadata:
    """Return the plan of a compaction: a line for each task, and its expected effect."""
    units, shape = plan.units, table.state.shape(plan.snapshot)
    lines = [*plan.waiting, *units]
    metadata: Metadata = {
        **_panel_metadata({"now": shape}),
        "paimon/tasks": len(lines),
        "paimon/bytes_to_read": sum(unit.file_bytes for unit in units),
        "paimon/rows_to_read": sum(unit.row_count for unit in units),
        "paimon/files_after_expected": len(shape.file_sizes) - saved_files(units),
        "paimon/read_amplification_after_expected": _expected_amplification(shape, units),
    }
    if plan.snapshot is not None:
        metadata["paimon/snapshot_id"] = plan.snapshot.id
    if plan.waiting:
        metadata["paimon/rows_waiting"] = sum(unit.row_count for unit in plan.waiting)
    if lines:
        metadata["paimon/plan"] = grid(_plan_line(table, unit) for unit in lines[:_LINES_SHOWN])
    return metadata


def plan_text(plan: CompactionPlan) -> str:
    units = plan.units
    rows = sum(unit.row_count for unit in plan.waiting)
    first = f"{counted(rows, 'waiting row')} would get their bucket; " if rows else ""
    if not units:
        return first.rstrip("; ") + "." if first else "Nothing to compact."
    files = sum(len(unit.files) for unit in units)
    return first + (
        f"{counted(len(units), 'task')} would read {counted(files, 'file')} ("
        f"{size_text(sum(unit.file_bytes for unit in units))}) and leave about "
        f"{files - saved_files(units):,}."
    )


def saved_files(units: Iterable[PlannedUnit]) -> int:
    return sum(len(unit.files) - unit.expected_files for unit in units)


def outcome_metadata(
    table: Table, snapshot: Snapshot, outcome: compaction.CompactionOutcome, seconds: float
) -> Metadata:
    """Return the result of a compaction: the table before and after its snapshot, in numbers."""
    after, panels = table.state.shape(snapshot), {}
    with suppress(NotFoundError):  # it has expired, or there was none
        panels["before"] = table.state.shape(table.snapshot(snapshot.id - 1))
    panels["after"] = after
    return {
        **_panel_metadata(panels),
        "paimon/compacted": _compacted_table(outcome),
        "paimon/read_amplification": round(after.read_amplification, 3),
        "paimon/most_runs": after.most_runs,
        "paimon/rows_dropped": outcome.rows_before - outcome.rows_after,
        **({"paimon/deletes_kept": outcome.deletes_kept} if outcome.deletes_kept else {}),
        "paimon/tasks_given_up": outcome.left_out,
        "paimon/seconds": round(seconds, 3),
        "paimon/snapshot_id": snapshot.id,
        "paimon/commit_kind": str(snapshot.commit_kind),
    }


def outcome_text(outcome: compaction.CompactionOutcome) -> str:
    if outcome.snapshot is None:
        return "Nothing to compact."
    return (
        f"Snapshot {outcome.snapshot.id}: merged {counted(outcome.files_before, 'file')} ("
        f"{size_text(outcome.bytes_before)}) into {outcome.files_after:,} ("
        f"{size_text(outcome.bytes_after)}){compaction.kept_text(outcome)}."
    )


def progress_text(progress: compaction.CompactionProgress) -> str:
    left = progress.seconds_left if progress.tasks_done < progress.tasks else None
    return (
        f"{progress.tasks_done} of {counted(progress.tasks, 'task')}, "
        f"{size_text(progress.bytes_done)} of {size_text(progress.total_bytes)}, "
        f"{progress.rows_done:,} of {counted(progress.total_rows, 'row')}"
        f" in {progress.seconds:.1f} s" + ("" if left is None else f"; about {left:.0f} s left")
    )


def _panel_metadata(panels: Mapping[str, TableShape]) -> Metadata:
    sizes = [
        {
            "when": when,
            "files": len(shape.file_sizes),
            "bytes": shape.total_bytes,
            "rows": shape.row_count,
            "read amplification": round(shape.read_amplification, 3),
            "most runs": shape.most_runs,
        }
        for when, shape in panels.items()
    ]
    levels = levels_table(panels)
    return {
        "paimon/picture": picture(panels),
        "paimon/table_size": grid(sizes),
        "paimon/levels": levels,
    }


def _compacted_table(outcome: compaction.CompactionOutcome) -> dg.TableMetadataValue:
    return grid(
        {
            "": word,
            "buckets": len(outcome.buckets),
            **{noun: getattr(outcome, f"{noun}_{when}") for noun in ("files", "bytes", "rows")},
        }
        for word, when in (("read", "before"), ("written", "after"))
    )


def _expected_amplification(shape: TableShape, units: Iterable[PlannedUnit]) -> float:
    fewest = sum(bucket.fewest_runs for bucket in shape.buckets)
    runs = sum(len(bucket.runs) for bucket in shape.buckets)
    runs -= sum(unit.runs_before - unit.runs_after for unit in units)
    return round(runs / fewest, 3) if fewest else 1.0


def _plan_line(table: Table, unit: PlannedUnit) -> Mapping[str, Any]:
    return {
        "partition": partition_text(table, unit.partition),
        "bucket": unit.bucket,
        "why": unit.reason,
        "files": len(unit.files),
        "bytes": unit.file_bytes,
        "rows": unit.row_count,
        "files moved up": unit.upgrades,
        "files afterwards": unit.expected_files,
        "runs": unit.runs_before,
        "runs afterwards": unit.runs_after,
    }


COMPACTION_OP = "compact"
"""The op whose config is the form."""
COMPACTION_POOL = "paimon/compaction"
"""Pool of tables that are no asset here: one such step at a time, if the pool has a limit."""

_CHOOSE, _REST = "choose_tables", "other_tables"


class StrategyChoice(Enum):
    """The amount of work of a compaction."""

    minor = "minor"
    full = "full"
    sort = "sort"


class CurveChoice(Enum):
    """The curve that makes one order of several columns."""

    order = "order"
    zorder = "zorder"
    hilbert = "hilbert"


class CompactionConfig(dg.Config):
    """The config of a compaction run.

    >>> dg.RunConfig(ops={"compact": CompactionConfig(tables=["sales.*"])}).ops["compact"].tables
    ['sales.*']
    """

    tables: list[str] = Field(
        default=[],
        description="Tables as database.table; database.* takes all tables of a database. Empty "
        "takes all tables this job declares.",
    )
    partitions: str = Field(
        default="",
        description="Condition over partition columns, such as dt >= '2026-11-01'; empty for all.",
    )
    partition_idle_time: str = Field(
        default="",
        description="Only partitions that got no file for so long, such as 1 d; empty takes all.",
    )
    buckets: str = Field(
        default="", description="Only buckets of these numbers, such as 0-99, 205; empty for all."
    )
    strategy: StrategyChoice = Field(
        default=StrategyChoice.minor,
        description="minor: due files by the table's options. full: every bucket to one sorted "
        "run without deleted rows. sort: all rows of a table without key in the order of "
        "sort_columns.",
    )
    sort_columns: list[str] = Field(
        default=[], description="For the strategy sort: columns that queries filter by."
    )
    sort_curve: CurveChoice = Field(
        default=CurveChoice.order,
        description="For the strategy sort. order: by the first column, then the next. zorder, "
        "hilbert: filters on any of the columns skip files.",
    )
    parallelism: int = Field(
        default=0, description="Tasks at a time; 0 for as many as the executor has cores."
    )
    dry_run: bool = Field(
        default=False, description="Only show the plan and its savings; write nothing."
    )

    def check(self) -> None:
        """Refuse values that the Launchpad cannot refuse by itself.

        Raises:
            InvalidInputError: Kind `compaction-config`.
        """
        if self.parallelism < 0:
            raise _refusal(f"parallelism is {self.parallelism}; give 0 for all cores, or how many")
        if (self.strategy is StrategyChoice.sort) != bool(self.sort_columns):
            raise _refusal("the strategy sort and sort_columns go together")
        self.idle_time()
        if self.buckets.strip():
            compaction.bucket_numbers(self.buckets)

    def idle_time(self) -> dt.timedelta | None:
        """Return `partition_idle_time`, None if it is empty.

        Raises:
            InvalidInputError: The text is no duration (kind `compaction-config`).
        """
        if not self.partition_idle_time.strip():
            return None
        try:
            return dt.timedelta(milliseconds=parse_duration_ms(self.partition_idle_time))
        except ValueError as error:
            raise _refusal(
                f"partition_idle_time is '{self.partition_idle_time}': {error}"
            ) from error


def _refusal(reason: str) -> InvalidInputError:
    return InvalidInputError(f"The compaction cannot run: {reason}.", kind="compaction-config")


@naming_arguments
def build_compaction_job(
    tables: Sequence[TableLike] | TableLike = (),
    name: str = "compaction_job",
    *,
    suggestion: CompactionConfig | None = None,
    translator: naming.PaimonTranslator = naming.DEFAULT_TRANSLATOR,
    resource_key: str = naming.DEFAULT_RESOURCE_KEY,
    materializes: bool = True,
) -> dg.JobDefinition:
    """Return the job that compacts tables of a catalog, by the resource's executor.

    >>> build_compaction_job(["sales.orders"], "compact").name
    'compact'

    Args:
        tables: Assets or names of tables. Each has a step of its own, in the pool it shares with
            its writers, so that a failing table stops no other; the form may name further ones.
        name: The name of the job.
        suggestion: Config that fills the Launchpad.
        translator: Names the assets of tables that are given by name.
        resource_key: The catalog's.
        materializes: Whether a compaction is a materialization of the asset, so that its page shows
            the new snapshot and size. The data version stays, and `on_new_data` asks for nothing;
            but `AutomationCondition.eager` below it does, which looks at events alone: where assets
            use that, say False, and compactions are observations.

    Raises:
        InvalidInputError: Something in `tables` is not one table.
    """
    declared = DeclaredTables.of(tables, translator)
    # Names of ops must differ in a code location, also from those of the tables' assets.
    reporter = _Reporter(resource_key=resource_key, materializes=materializes)
    steps = {
        table.step: _table_op(table, f"{name}__{table.step}", reporter) for table in declared.tables
    }
    steps[_REST] = _rest_op(declared, f"{name}__{_REST}", reporter)
    choose = _choose_op(declared, f"{name}__{_CHOOSE}", resource_key)

    @dg.config_mapping
    def one_form(val: CompactionConfig) -> dict[str, Any]:
        configs = dict.fromkeys((_CHOOSE, *steps), val)
        described = dg.RunConfig(ops=configs).to_config_dict()  # type: ignore[no-untyped-call]  # Dagster's
        return dict(described["ops"])

    @dg.graph(name=f"{name}__{COMPACTION_OP}", config=one_form)
    def compact() -> None:
        chosen = choose.alias(_CHOOSE)()
        outputs = chosen if declared.tables else (chosen,)
        for output, (step, op) in zip(outputs, steps.items(), strict=True):
            op.alias(step)(start=output)

    @dg.job(
        name=name,
        config=dg.RunConfig(ops={COMPACTION_OP: suggestion or CompactionConfig()}),
        description="Merges files of tables into fewer, larger ones: reads become cheaper, no row "
        "changes. `dry_run` shows the plan and its savings.",
    )
    def job() -> None:
        compact.alias(COMPACTION_OP)()

    return job


def chosen_tables(
    config: CompactionConfig, declared: DeclaredTables, catalog: TableCatalog
) -> tuple[list[DeclaredTable], list[DeclaredTable]]:
    """Return the declared and the further tables of a form; InvalidInputError if it names none."""
    config.check()
    if not config.tables and not declared.tables:
        raise _refusal("the form names no table: fill in 'tables' as database.table")
    chosen = declared.choose(config.tables, catalog)
    ours = [table for table in declared.tables if table in chosen]
    return ours, [table for table in chosen if table not in ours]


def _choose_op(declared: DeclaredTables, name: str, resource_key: str) -> dg.OpDefinition:
    """Skip the steps of tables that the form does not name, before they wait for their pool."""
    steps = [*(table.step for table in declared.tables), _REST]
    outputs = {step: dg.Out(dg.Nothing, is_required=False) for step in steps}

    @dg.op(name=name, out=outputs, required_resource_keys={resource_key})
    def choose_tables(
        context: dg.OpExecutionContext, config: CompactionConfig
    ) -> Iterator[dg.Output[None]]:
        """Say which tables the form names."""
        paimon = catalog_resource(context, resource_key)
        try:
            ours, rest = chosen_tables(config, declared, paimon.catalog())
        except InvalidInputError as error:
            raise dg.Failure(
                error.message, metadata={"paimon/error_kind": error.kind}, allow_retries=False
            ) from error
        context.log.info(
            "Compacting %s.", ", ".join(str(table.identifier) for table in (*ours, *rest))
        )
        for table in ours:
            yield dg.Output(None, table.step)
        if rest:
            yield dg.Output(None, _REST)

    return choose_tables


class _Reporter(Value):
    """Reports of a job to Dagster, and the key of its catalog resource."""

    resource_key: str
    materializes: bool

    def report(
        self,
        context: dg.OpExecutionContext,
        target: DeclaredTable,
        text: str,
        metadata: Metadata,
        table: Table | None = None,
        *,
        rows_shown: int = 0,
    ) -> None:
        """Log the text, and report it to the table's asset; `table` is given if it changed."""
        context.log.info("Table %s: %s", target.identifier, text)
        key = target.asset_key
        context.log_event(
            dg.AssetObservation(key, description=text, metadata=metadata)
            if table is None or not self.materializes
            else materialization_of(key, text, metadata, table, rows_shown=rows_shown)
        )


def _op(
    name: str, pool: str, reporter: _Reporter
) -> Callable[[Callable[..., None]], dg.OpDefinition]:
    """Return the decorator of a step that waits for its choice."""
    return dg.op(
        name=name,
        ins={"start": dg.In(dg.Nothing)},
        pool=pool,
        required_resource_keys={reporter.resource_key},
        tags={"kind": "paimon"},
    )


def _table_op(table: DeclaredTable, name: str, reporter: _Reporter) -> dg.OpDefinition:
    @_op(name, table.pool, reporter)
    def compact_table(context: dg.OpExecutionContext, config: CompactionConfig) -> None:
        paimon = catalog_resource(context, reporter.resource_key)
        with dagster_failures(table.identifier, context):
            _compact(context, config, paimon, table, reporter)

    return compact_table


def _rest_op(declared: DeclaredTables, name: str, reporter: _Reporter) -> dg.OpDefinition:
    @_op(name, COMPACTION_POOL, reporter)
    def other_tables(context: dg.OpExecutionContext, config: CompactionConfig) -> None:
        """Compact tables that have no step here, one after the other; each fails by itself."""
        paimon = catalog_resource(context, reporter.resource_key)
        _, rest = chosen_tables(config, declared, paimon.catalog())
        failures: list[dg.Failure] = []
        for table in rest:
            try:
                _compact(context, config, paimon, table, reporter)
            except PaimonError as error:
                failures.append(failure_of(error, table.identifier))
                context.log.exception("%s", failures[-1].description)
        if failures:
            texts = [str(failure.description) for failure in failures]
            raise dg.Failure(
                f"{len(failures)} of {counted(len(rest), 'table')} failed. {' '.join(texts)}",
                metadata={"paimon/failures": dg.MetadataValue.json(texts)},
                allow_retries=False,
            )

    return other_tables


def _compact(
    context: dg.OpExecutionContext,
    config: CompactionConfig,
    paimon: PaimonCatalogResource,
    target: DeclaredTable,
    reporter: _Reporter,
) -> None:
    """Compact one table, or show how, and report to its asset."""
    catalog = paimon.catalog()
    if not config.tables and not catalog.table_exists(target.identifier):
        context.log.info("Table %s is not there yet.", target.identifier)
        return
    table = catalog.get_table(target.identifier)
    builder = _builder(context, config, table)
    if config.dry_run:
        plan = builder.plan()
        text = f"Dry run: {plan_text(plan)}"
        if not (plan.units or plan.waiting) and config.strategy is StrategyChoice.minor:
            text += " The strategy full would merge the remaining files."
        reporter.report(
            context, target, text, {"paimon/dry_run": True, **plan_metadata(table, plan)}
        )
        return
    started = time.monotonic()
    executor = paimon.new_executor(reports=False)  # a compaction reports by itself
    news = News(context.log.info)
    outcome = builder.run(
        executor,
        on_progress=lambda now: news.tell(now.seconds, f"Table {table.name}: {progress_text(now)}"),
    )
    seconds = time.monotonic() - started
    if outcome.snapshot is None:
        reporter.report(context, target, outcome_text(outcome), {})
        return
    if outcome.was_already_committed:
        context.log.info("An earlier try of this step committed; it is reported, not repeated.")
    metadata = outcome_metadata(table, outcome.snapshot, outcome, seconds)
    text, rows_shown = outcome_text(outcome), paimon.rows_shown
    reporter.report(context, target, text, metadata, table, rows_shown=rows_shown)


def _builder(
    context: dg.OpExecutionContext, config: CompactionConfig, table: Table
) -> compaction.CompactionBuilder:
    step = str(context.node_handle)
    properties = op_properties(context.run, step)
    builder = table.new_compaction_builder().with_strategy(config.strategy.value)
    if config.sort_columns:
        builder = builder.with_order(config.sort_columns, config.sort_curve.value)
    return (
        builder.with_filter(config.partitions.strip() or None)
        .with_partition_idle_time(config.idle_time())
        .with_buckets(config.buckets.strip() or None)
        .with_parallelism(config.parallelism or None)
        .with_commit_user(f"dagster:{context.run.run_id}:{step}:{table.name}")
        .with_properties(properties)
    )
