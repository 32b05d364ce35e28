"""The compaction job: a form in the Launchpad, one step for each table, a picture on its asset.

    choose_tables ─▶ <database>__<table>   one step for each declared table, in the table's pool
                  └▶ other_tables          tables the form names that are no asset here

    step: done by an earlier try? ─▶ dry run: the plan     ─┐
                                  └▶ tasks ─▶ one snapshot ─┴▶ observation of the asset

It is an observation, not a materialization: no row changed, so nothing downstream is asked to run,
and the data version stays (`metadata.data_version_of`).
"""

import datetime as dt
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from typing import Any

import dagster as dg
from pydantic import Field

from paimon_assets.assets.failures import dagster_failures, failure_of
from paimon_assets.assets.jobs.compaction_report import (
    outcome_metadata,
    outcome_text,
    plan_metadata,
    plan_text,
    progress_text,
)
from paimon_assets.assets.metadata import Metadata
from paimon_assets.assets.provenance import JOB, RUN_ID, STEP_KEY
from paimon_assets.assets.resource import DEFAULT_RESOURCE_KEY, PaimonCatalogResource
from paimon_assets.assets.translator import (
    asset_key_of,
    identifier_of,
    identifier_of_asset,
    pool_of,
)
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.errors import InvalidInputError, PaimonError
from paimon_assets.engine.spec.options.option import parse_duration_ms
from paimon_assets.engine.table.api import TableCatalog
from paimon_assets.engine.table.table import Table
from paimon_assets.engine.table.upkeep.compaction import CompactionBuilder, CompactionProgress

COMPACTION_OP = "compact"
"""The op whose config is the form."""
OTHERS_POOL = "paimon/compaction"
"""Pool of tables that are no asset here: one such step at a time, if the pool has a limit."""

_CHOOSE, _OTHERS = "choose_tables", "other_tables"
_SECONDS_BETWEEN_NEWS = 5.0


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
    """The config of a compaction run."""

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
    strategy: StrategyChoice = Field(
        default=StrategyChoice.minor,
        description="minor: what is due by the table's options. full: every bucket to one sorted "
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
        default=False, description="Only show the plan and what it would save; write nothing."
    )

    def check(self) -> None:
        """Refuse what the Launchpad cannot.

        Raises:
            InvalidInputError: Kind `compaction-config`.
        """
        if self.parallelism < 0:
            raise _refused(f"parallelism is {self.parallelism}; give 0 for all cores, or how many")
        if (self.strategy is StrategyChoice.sort) != bool(self.sort_columns):
            raise _refused("the strategy sort and sort_columns go together")
        self.idle_time()

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
            raise _refused(
                f"partition_idle_time is '{self.partition_idle_time}': {error}"
            ) from error


def _refused(reason: str) -> InvalidInputError:
    return InvalidInputError(f"The compaction cannot run: {reason}.", kind="compaction-config")


@dataclass(frozen=True, kw_only=True)
class DeclaredTable:
    """A table the job has a step for."""

    identifier: Identifier
    asset_key: dg.AssetKey

    @staticmethod
    def of(table: dg.AssetsDefinition | str | Identifier) -> "DeclaredTable":
        """Return the table of an asset, or of a name, which has the default key."""
        if isinstance(table, dg.AssetsDefinition):
            return DeclaredTable(identifier=identifier_of_asset(table), asset_key=table.key)
        identifier = identifier_of(table)
        return DeclaredTable(identifier=identifier, asset_key=asset_key_of(identifier))

    @property
    def step(self) -> str:
        """Name of its step."""
        return "__".join((self.identifier.database, self.identifier.table))


def build_compaction_job(
    tables: Sequence[dg.AssetsDefinition | str | Identifier] = (),
    name: str = "compaction_job",
    *,
    suggestion: CompactionConfig | None = None,
) -> dg.JobDefinition:
    """Return the job that compacts tables of the catalog `paimon`, by the resource's executor.

    Args:
        tables: Assets or names of tables. Each has a step of its own, in the pool it shares with
            its writers, so that a failing table stops no other; the form may name further ones.
        name: The name of the job.
        suggestion: What fills the Launchpad.

    Raises:
        InvalidInputError: Something in `tables` is not one table.
    """
    declared = [DeclaredTable.of(table) for table in tables]
    # Names of ops must differ in a code location, also from those of the tables' assets.
    steps = {table.step: _table_op(table, f"{name}__{table.step}") for table in declared}
    steps[_OTHERS] = _others_op(declared, f"{name}__{_OTHERS}")
    choose = _choose_op(declared, f"{name}__{_CHOOSE}")

    @dg.config_mapping
    def one_form(val: CompactionConfig) -> dict[str, Any]:
        configs = dict.fromkeys((_CHOOSE, *steps), val)
        described = dg.RunConfig(ops=configs).to_config_dict()  # type: ignore[no-untyped-call]  # Dagster's
        return dict(described["ops"])

    @dg.graph(name=f"{name}__{COMPACTION_OP}", config=one_form)
    def compact() -> None:
        chosen = choose.alias(_CHOOSE)()
        outputs = chosen if declared else (chosen,)
        for output, (step, op) in zip(outputs, steps.items(), strict=True):
            op.alias(step)(start=output)

    @dg.job(
        name=name,
        config=dg.RunConfig(ops={COMPACTION_OP: suggestion or CompactionConfig()}),
        description="Merges files of tables into fewer, larger ones: reads become cheaper, no row "
        "changes. `dry_run` shows the plan and what it would save.",
    )
    def job() -> None:
        compact.alias(COMPACTION_OP)()

    return job


def chosen_tables(
    config: CompactionConfig, declared: Sequence[DeclaredTable], catalog: TableCatalog
) -> tuple[list[DeclaredTable], list[Identifier]]:
    """Return what a form names: declared tables, and others.

    Raises:
        InvalidInputError: The form names no table, or a pattern that fits none.
    """
    config.check()
    if not config.tables:
        if not declared:
            raise _refused("the form names no table: fill in 'tables' as database.table")
        return list(declared), []
    named = [found for text in config.tables for found in tables_named(text, catalog)]
    known = {table.identifier for table in declared}
    return (
        [table for table in declared if table.identifier in named],
        [each for each in dict.fromkeys(named) if each not in known],
    )


def tables_named(text: str, catalog: TableCatalog) -> list[Identifier]:
    """Return the table a name means, or all that fit a pattern such as `database.*`.

    Raises:
        InvalidInputError: It is no name, or a pattern that fits no table.
    """
    identifier = identifier_of(text.strip())
    if not set("*?") & set(identifier.table):
        return [identifier]
    names = catalog.list_tables(identifier.database)
    found = [
        Identifier(identifier.database, name)
        for name in names
        if fnmatchcase(name, identifier.table)
    ]
    if not found:
        raise _refused(f"no table fits '{text}'")
    return found


def _choose_op(declared: Sequence[DeclaredTable], name: str) -> dg.OpDefinition:
    """Skip the steps of tables that the form does not name, before they wait for their pool."""
    steps = [*(table.step for table in declared), _OTHERS]
    outputs = {step: dg.Out(dg.Nothing, is_required=False) for step in steps}

    @dg.op(name=name, out=outputs)
    def choose_tables(
        context: dg.OpExecutionContext, config: CompactionConfig, paimon: PaimonCatalogResource
    ) -> Iterator[dg.Output[None]]:
        """Say which tables the form names."""
        try:
            ours, others = chosen_tables(config, declared, paimon.catalog())
        except InvalidInputError as error:
            raise dg.Failure(
                error.message, metadata={"paimon/error_kind": error.kind}, allow_retries=False
            ) from error
        context.log.info(
            "Compacting %s.", ", ".join([*(str(t.identifier) for t in ours), *map(str, others)])
        )
        for table in ours:
            yield dg.Output(None, table.step)
        if others:
            yield dg.Output(None, _OTHERS)

    return choose_tables


def _table_op(table: DeclaredTable, name: str) -> dg.OpDefinition:
    @dg.op(
        name=name,
        ins={"start": dg.In(dg.Nothing)},
        pool=pool_of(table.identifier),
        required_resource_keys={DEFAULT_RESOURCE_KEY},
        tags={"kind": "paimon"},
    )
    def compact_table(context: dg.OpExecutionContext, config: CompactionConfig) -> None:
        paimon: PaimonCatalogResource = getattr(context.resources, DEFAULT_RESOURCE_KEY)
        with dagster_failures(table.identifier):
            _compact(context, config, paimon, table)

    return compact_table


def _others_op(declared: Sequence[DeclaredTable], name: str) -> dg.OpDefinition:
    @dg.op(
        name=name,
        ins={"start": dg.In(dg.Nothing)},
        pool=OTHERS_POOL,
        required_resource_keys={DEFAULT_RESOURCE_KEY},
        tags={"kind": "paimon"},
    )
    def other_tables(context: dg.OpExecutionContext, config: CompactionConfig) -> None:
        """Compact tables that have no step here, one after the other; each fails by itself."""
        paimon: PaimonCatalogResource = getattr(context.resources, DEFAULT_RESOURCE_KEY)
        _, others = chosen_tables(config, declared, paimon.catalog())
        failures: list[dg.Failure] = []
        for identifier in others:
            try:
                _compact(context, config, paimon, DeclaredTable.of(identifier))
            except PaimonError as error:
                failures.append(failure_of(error, identifier))
                context.log.exception("%s", failures[-1].description)
        if failures:
            texts = [str(failure.description) for failure in failures]
            raise dg.Failure(
                f"{len(failures)} of {len(others)} tables failed. {' '.join(texts)}",
                metadata={"paimon/failures": dg.MetadataValue.json(texts)},
                allow_retries=False,
            )

    return other_tables


def _compact(
    context: dg.OpExecutionContext,
    config: CompactionConfig,
    paimon: PaimonCatalogResource,
    target: DeclaredTable,
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
            text += " The strategy full would merge what is left."
        _report(context, target, text, {"paimon/dry_run": True, **plan_metadata(table, plan)})
        return
    started = time.monotonic()
    outcome = builder.run(paimon.new_executor(), on_progress=_progress_log(context, table.name))
    seconds = time.monotonic() - started
    if outcome.snapshot is None:
        _report(context, target, outcome_text(outcome), {})
        return
    if outcome.was_already_committed:
        context.log.info("An earlier try of this step committed; it is reported, not repeated.")
    metadata = outcome_metadata(table, outcome.snapshot, outcome, seconds)
    _report(context, target, outcome_text(outcome), metadata)


def _builder(
    context: dg.OpExecutionContext, config: CompactionConfig, table: Table
) -> CompactionBuilder:
    step = str(context.node_handle)
    properties = {RUN_ID: context.run.run_id, JOB: context.run.job_name, STEP_KEY: step}
    builder = table.new_compaction_builder().with_strategy(config.strategy.value)
    if config.sort_columns:
        builder = builder.with_order(config.sort_columns, config.sort_curve.value)
    return (
        builder.with_filter(config.partitions.strip() or None)
        .with_partition_idle_time(config.idle_time())
        .with_parallelism(config.parallelism or None)
        .with_commit_user(f"dagster:{context.run.run_id}:{step}:{table.name}")
        .with_properties(properties)
    )


def _progress_log(
    context: dg.OpExecutionContext, table: str
) -> Callable[[CompactionProgress], None]:
    """Return what logs progress: the first task, the last, and some seconds apart."""
    last = -_SECONDS_BETWEEN_NEWS

    def log_progress(progress: CompactionProgress) -> None:
        nonlocal last
        is_last = progress.tasks_done == progress.tasks
        if is_last or progress.seconds - last >= _SECONDS_BETWEEN_NEWS:
            last = progress.seconds
            context.log.info("Table %s: %s", table, progress_text(progress))

    return log_progress


def _report(
    context: dg.OpExecutionContext, target: DeclaredTable, text: str, metadata: Metadata
) -> None:
    context.log.info("Table %s: %s", target.identifier, text)
    context.log_event(
        dg.AssetObservation(asset_key=target.asset_key, description=text, metadata=metadata)
    )
