"""The schema evolution job: a list of changes, looked at first, made only where nothing is lost.

    config ─▶ made before? ─▶ plan ─▶ dry run: observation
                                 ├─▶ values would be lost: failure, the schema stays
                                 └─▶ one schema ─▶ observation

No row changed, so it is an observation: downstream assets are not run again, by `eager()`
neither. The asset's page lists the new columns with it, and at its head after the next run.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Any

import dagster as dg
from pydantic import Field

from paimon_assets.assets import metadata as md
from paimon_assets.assets import translator as naming
from paimon_assets.assets.failures import dagster_failures, failure_of, naming_arguments
from paimon_assets.assets.jobs.declared_tables import DeclaredTable, DeclaredTables, TableLike
from paimon_assets.assets.resource import PaimonCatalogResource, catalog_resource
from paimon_assets.engine.add_ons import load_sql
from paimon_assets.engine.codec.rest.structure import changes_from_json
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.evolution import schema_change as sc
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.table import schema_changes

SCHEMA_EVOLUTION_OP = "evolve_schema"


class OverflowChoice(Enum):
    """The answer to stored values that would be lost."""

    refuse = "refuse"
    allow = "allow"


class SchemaEvolutionConfig(dg.Config):
    """The config of a schema evolution run; by default a dry run.

    >>> SchemaEvolutionConfig(table="sales.orders", changes=["ADD COLUMN note STRING"]).dry_run
    True
    """

    table: str = Field(description="The table: database.table.")
    changes: list[Any] = Field(
        description="Changes in the order to apply them, all or none. As in SQL after ALTER TABLE "
        "t: 'ADD COLUMN note STRING', 'RENAME COLUMN a TO b', 'ALTER COLUMN price TYPE"
        " BIGINT'; or in the JSON of REST catalogs: {action: updateColumnType,"
        " fieldNames: [price], newDataType: BIGINT, keepNullability:"
        " true}. Actions: setOption, removeOption, updateComment, addColumn, renameColumn,"
        " dropColumn, updateColumnType, updateColumnNullability, updateColumnComment,"
        " updateColumnDefaultValue, updateColumnPosition, dropPrimaryKey."
    )
    dry_run: bool = Field(
        default=True, description="Only show the diff and its effect on stored values."
    )
    on_overflow: OverflowChoice = Field(
        default=OverflowChoice.refuse,
        description="Whether a change that loses stored values is refused or made.",
    )


_EXAMPLE = SchemaEvolutionConfig(table="database.table", changes=["ADD COLUMN note STRING"])


@naming_arguments
def build_schema_evolution_job(
    tables: Sequence[TableLike] | TableLike = (),
    name: str = "schema_evolution_job",
    *,
    example: SchemaEvolutionConfig = _EXAMPLE,
    translator: naming.PaimonTranslator = naming.DEFAULT_TRANSLATOR,
    resource_key: str = naming.DEFAULT_RESOURCE_KEY,
) -> dg.JobDefinition:
    """Return the job that changes the schema of any table of the catalog.

    >>> build_schema_evolution_job(["sales.orders"]).name
    'schema_evolution_job'

    Args:
        tables: Assets whose keys are not those of the translator: their pages show the change.
        name: The name of the job.
        example: Config that fills the Launchpad.
        translator: Names the assets of all other tables.
        resource_key: The catalog's.

    Raises:
        InvalidInputError: Something in `tables` is not a table.
    """
    config = dg.RunConfig(ops={SCHEMA_EVOLUTION_OP: example})
    declared = DeclaredTables.of(tables, translator)

    # Names of ops must differ in a code location.
    @dg.op(name=f"{name}__{SCHEMA_EVOLUTION_OP}", required_resource_keys={resource_key})
    def evolve_schema(context: dg.OpExecutionContext, config: SchemaEvolutionConfig) -> None:
        """Judge the changes and, unless it is a dry run, make them: one schema, or none."""
        paimon = catalog_resource(context, resource_key)
        target = declared.find(naming.identifier_of(config.table))
        with dagster_failures(target.identifier, context):
            _run(context, config, paimon, target)

    @dg.job(
        name=name,
        config=config,
        description="Shows the effect of a list of schema changes on a table and its values, "
        "and makes them if `dry_run` is false and nothing is lost.",
    )
    def job() -> None:
        evolve_schema.alias(SCHEMA_EVOLUTION_OP)()

    return job


def _changes_of(listed: Sequence[Any]) -> list[sc.SchemaChange]:
    changes: list[sc.SchemaChange] = []
    for each in listed:
        if not isinstance(each, str):
            changes += changes_from_json([each])
            continue
        changes += load_sql("parse").parse_changes(each)
    return changes


def _run(
    context: dg.OpExecutionContext,
    config: SchemaEvolutionConfig,
    paimon: PaimonCatalogResource,
    target: DeclaredTable,
) -> None:
    """Report the effect of the changes and, unless it is a dry run, make them."""
    changes, key = _changes_of(config.changes), target.asset_key
    table = paimon.catalog().get_table(target.identifier)
    overflow = sc.OnOverflow(config.on_overflow.value)
    effect: md.Metadata = {}

    def describe(plan: schema_changes.SchemaChangePlan) -> None:
        context.log.info("Table %s: %s", table.name, md.schema_change_text(plan))
        effect.update(md.schema_change_metadata(plan, table.path, show=paimon.show_values))

    def judge(plan: schema_changes.SchemaChangePlan) -> None:
        describe(plan)
        if overflow is sc.OnOverflow.REFUSE:
            schema_changes.refuse_losses(table.name, plan, show_values=paimon.show_values)

    def report(schema: TableSchema) -> None:
        metadata = {**md.table_metadata(table.refresh()), **effect, "paimon/schema_id": schema.id}
        text = f"Schema {schema.id}."
        context.log_event(dg.AssetObservation(key, description=text, metadata=metadata))

    if config.dry_run:
        plan = table.plan_alter(changes, executor=paimon.new_executor)
        describe(plan)
        text = f"Dry run: {md.schema_change_text(plan)}"
        metadata = {"paimon/dry_run": True, **effect}
        context.log_event(dg.AssetObservation(key, description=text, metadata=metadata))
        return
    earlier = schema_changes.change_made_since(table.state.store, changes, _began_millis(context))
    if earlier is not None:
        context.log.info("Schema %d was made by an earlier try of this run.", earlier.id)
        report(earlier)
        return
    try:
        plan = table.alter_checked(
            changes, on_overflow=overflow, executor=paimon.new_executor, judged=judge
        )
    except InvalidInputError as error:
        failure = failure_of(error, target.identifier)
        raise dg.Failure(
            failure.description, metadata={**failure.metadata, **effect}, allow_retries=False
        ) from error
    if not plan.differences:
        stays = "Nothing to change; table %s stays at schema %d."
        context.log.info(stays, table.name, plan.base.id)
        return
    report(plan.new)
    context.log.info("Table %s has schema %d now.", table.name, plan.new.id)


def _began_millis(context: dg.OpExecutionContext) -> int:
    """Return the start time of the run, of a retry that of the first run."""
    run = context.run
    record = context.instance.get_run_record_by_id(run.root_run_id or run.run_id)
    if record is None:
        return 0
    seconds = record.start_time or record.create_timestamp.timestamp()
    return int(seconds * 1000)
