"""The compaction job and the maintenance job in YAML, with their schedules."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeVar

import dagster as dg
from pydantic import Field, ValidationError

from paimon_assets.assets.components.yaml_values import (
    OF_THE_RESOURCE,
    DescribedModel,
    Names,
    Text,
    example,
)
from paimon_assets.assets.failures import refuse_unknown
from paimon_assets.assets.jobs.compaction import CompactionConfig, build_compaction_job
from paimon_assets.assets.jobs.compaction_backlog import build_file_debt_sensor
from paimon_assets.assets.jobs.maintenance import MaintenanceConfig, build_maintenance_job
from paimon_assets.assets.schedules import build_compaction_schedule, build_maintenance_schedule
from paimon_assets.assets.translator import DEFAULT_RESOURCE_KEY
from paimon_assets.engine.errors import InvalidInputError

_EXAMPLE = {"tables": ["shop.orders"], "schedule": "0 4 * * *"}
_Form = TypeVar("_Form", CompactionConfig, MaintenanceConfig)


class UpkeepModel(dg.Component, DescribedModel):
    """A job over tables, by the clock."""

    tables: Names = Field(description="Tables as database.table; each reports to its asset.")
    config: Annotated[dict[str, Any], dg.Resolver.passthrough()] = Field(
        default={}, description="The form of the job: what its Launchpad and its schedule have."
    )
    schedule: Text | None = Field(
        default=None, description="Cron of a schedule, such as '0 4 * * *'; shipped stopped."
    )
    timezone: str = Field(default="UTC", description="Time zone of the schedule.")
    resource_key: str = Field(default=DEFAULT_RESOURCE_KEY, description=OF_THE_RESOURCE)

    def schedules(
        self, job: dg.JobDefinition, build: Callable[..., dg.ScheduleDefinition], form: dg.Config
    ) -> list[dg.ScheduleDefinition]:
        """Return the schedule of the job, if the YAML has one."""
        if self.schedule is None:
            return []
        return [build(job, self.schedule, config=form, timezone=self.timezone)]


@dg.scaffold_with(example({**_EXAMPLE, "config": {"strategy": "minor"}}))
class PaimonCompactionComponent(UpkeepModel):
    """The compaction job, its schedule, and the sensor on file debt."""

    name: str = Field(default="compaction_job", description="Name of the job.")
    sensor: bool = Field(
        default=True, description="A sensor that asks for a run when files do; shipped stopped."
    )
    materializes: bool = Field(
        default=True,
        description="Whether a compaction is a materialization of the asset, so that its page "
        "shows the new size; else an observation.",
    )

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Return the job and what runs it."""
        del context
        form, key = _form(CompactionConfig, self.config), self.resource_key
        job = build_compaction_job(
            self.tables,
            self.name,
            suggestion=form,
            resource_key=key,
            materializes=self.materializes,
        )
        debt = build_file_debt_sensor(job, tables=self.tables, resource_key=key)
        return dg.Definitions(
            jobs=[job],
            schedules=self.schedules(job, build_compaction_schedule, form),
            sensors=[debt] if self.sensor else [],
        )


@dg.scaffold_with(example({**_EXAMPLE, "config": {"tasks": ["expire_snapshots"]}}))
class PaimonMaintenanceComponent(UpkeepModel):
    """The maintenance job and its schedule."""

    name: str = Field(default="maintenance_job", description="Name of the job.")

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Return the job and its schedule."""
        del context
        form = _form(MaintenanceConfig, self.config)
        job = build_maintenance_job(
            self.tables, self.name, suggestion=form, resource_key=self.resource_key
        )
        schedules = self.schedules(job, build_maintenance_schedule, form)
        return dg.Definitions(jobs=[job], schedules=schedules)


def _form(kind: type[_Form], values: Mapping[str, Any]) -> _Form:
    refuse_unknown(values, kind.model_fields, f"The form {kind.__name__}", kind="component")
    try:
        form = kind(**values)
    except ValidationError as error:
        [first, *_] = error.errors()
        where = ".".join(map(str, first["loc"]))
        raise InvalidInputError(
            f"The form {kind.__name__} cannot have {where} = {first['input']!r}: {first['msg']}.",
            kind="component",
        ) from error
    form.check()
    return form
