"""The catalog resource, its IO manager, its upkeep and its external tables in YAML.

    dg scaffold defs paimon_assets.components.PaimonTablesComponent lake
    dg utils refresh-defs-state      # describes the catalog's tables in a file beside the project
    dg list defs                     # from here on nothing asks the catalog

The state is one JSON file. Definitions load from it without catalog, network or Spark; in
production it is refreshed while the image is built, or at any time with a versioned state storage.

Dagster renders every text of a YAML as a template and takes the outcome for a Python value: `0x10`
becomes 16, `1,2` a tuple. Of a table's options, columns and names no text may become another.
"""

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Annotated, Any, TypeVar

import dagster as dg
from dagster.components import DefsStateConfig, DefsStateConfigArgs, ResolvedDefsStateConfig
from pydantic import BaseModel, Field, ValidationError, create_model

from paimon_assets.assets.external_tables import (
    build_external_table_specs,
    build_observable_tables,
    describe_tables,
)
from paimon_assets.assets.failures import refuse_unknown
from paimon_assets.assets.jobs.compaction import CompactionConfig, build_compaction_job
from paimon_assets.assets.jobs.compaction_backlog import build_file_debt_sensor
from paimon_assets.assets.jobs.maintenance import MaintenanceConfig, build_maintenance_job
from paimon_assets.assets.resource import ExecutorKind, PaimonCatalogResource
from paimon_assets.assets.schedules import build_compaction_schedule, build_maintenance_schedule
from paimon_assets.assets.snapshot_sensor import build_new_snapshots_sensor
from paimon_assets.assets.tables.io_manager import PaimonIOManager
from paimon_assets.assets.translator import DEFAULT_RESOURCE_KEY
from paimon_assets.components.table_state import AssetNaming, tables_from_json, tables_to_json
from paimon_assets.engine.errors import InvalidInputError, without_secrets
from paimon_assets.engine.spec.options.catalog_options import URI
from paimon_assets.engine.table.api import TableCatalog, open_catalog


def text_of(context: dg.ResolutionContext, value: object) -> str:
    """Return a text: `{{ env.X }}` is filled in, all else stays as it is written."""
    text = str(value)
    if "{{" not in text:
        return text
    # Behind a mark the outcome stays a text.
    return str(context.resolve_value(f"={text}")).removeprefix("=")


def secret_of(context: dg.ResolutionContext, value: Any) -> Any:
    """Return a text, or of `{env: NAME}` the variable, which the UI shows by its name."""
    if not isinstance(value, dict):
        return text_of(context, value)
    if list(value) != ["env"]:
        raise InvalidInputError(
            f"A value with {', '.join(map(repr, value))} is unknown; write a text, or "
            "{env: NAME} for an environment variable.",
            kind="component",
        )
    return dg.EnvVar(str(value["env"]))


def _each(resolve: Callable[[dg.ResolutionContext, Any], Any]) -> dg.Resolver:
    """Return the resolver of a mapping whose values are resolved one by one."""

    def resolve_all(context: dg.ResolutionContext, values: Any) -> dict[str, Any]:
        return {str(key): resolve(context, value) for key, value in dict(values or {}).items()}

    return dg.Resolver(resolve_all, model_field_type=dict[str, Any], inject_before_resolve=False)


class DescribedModel(dg.Model, dg.Resolvable):
    """A model whose fields keep their descriptions in the UI and in editors.

    Dagster 1.13 drops those of fields with a default.
    """

    @classmethod
    def model(cls) -> type[BaseModel]:
        derived = super().model()
        for name, field in derived.model_fields.items():
            field.description = field.description or cls.model_fields[name].description
        derived.model_rebuild(force=True)
        return derived


Text = Annotated[str, dg.Resolver(text_of, model_field_type=str, inject_before_resolve=False)]
Texts = Annotated[dict[str, str], _each(text_of)]
Names = Annotated[list[str], dg.Resolver.passthrough()]
Secret = Annotated[
    Any, dg.Resolver(secret_of, model_field_type=str | dict[str, str], inject_before_resolve=False)
]
Secrets = Annotated[dict[str, Any], _each(secret_of)]

OF_THE_RESOURCE = "Key of the catalog's resource; PaimonCatalogComponent makes one called paimon."


NAME, HERE = "<name>", "<here>"
"""In a scaffolded YAML: the name that was given, and the folder of the YAML."""
_WORD = re.compile(r"\W")


def example(
    attributes: Mapping[str, Any],
    files: Mapping[str, str] | None = None,
    table: str = "",
    *,
    of_second: Mapping[str, Any] | None = None,
    optional: Sequence[str] = (),
) -> type[dg.Scaffolder[Any]]:
    """Return a scaffolder of one example, with files beside the YAML: path → text.

    Each attribute, and each member of `source`, is a flag of `dg scaffold defs`, too. `NAME` and
    `HERE` stand for the component's name and folder. `of_second` has further attributes, for a
    project that has such a component already; `optional` are further texts that flags may give.
    """
    source = attributes.get("source", {})
    members = {**{name: value for name, value in attributes.items() if name != "source"}, **source}
    # dg knows lists of texts alone.
    flags = {
        name: list[str] if isinstance(value, list) else type(value)
        for name, value in members.items()
        if not isinstance(value, list) or isinstance(value[0], str)
    } | {name: str for name in optional if name not in members}
    fields: Any = {name: (kind | None, None) for name, kind in flags.items()}
    params: type[BaseModel] = create_model("ScaffoldParams", **fields)

    class Example(dg.Scaffolder[Any]):
        @classmethod
        def get_scaffold_params(cls) -> type[BaseModel]:
            return params

        def scaffold(self, request: dg.ScaffoldRequest[Any]) -> None:
            folder, root = request.target_path, request.project_root or request.target_path
            here = "/".join(("{{ context.project_root }}", *folder.relative_to(root).parts))
            words = {NAME: _WORD.sub("_", folder.name), HERE: here}
            given = {name: value for name in flags if (value := getattr(request.params, name))}
            own = {name: given.get(name, value) for name, value in attributes.items()}
            own |= {name: given[name] for name in optional if name in given}
            if of_second and _has_component(root, request.type_name):
                own |= of_second
            if source:
                own["source"] = {name: given.get(name, value) for name, value in source.items()}
            for name, text in (files or {}).items():
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(_fill(text, words), encoding="utf-8")
            dg.scaffold_component(request, _fill(own, words))
            path = folder / "defs.yaml"
            if table and "table" not in given and path.exists():
                text = _fill(table, words) + "---\n" + path.read_text(encoding="utf-8")
                path.write_text(text, encoding="utf-8")

    return Example


def _has_component(root: Path, type_name: str) -> bool:
    """Whether a project defines a component of a type."""
    folders = ("src/*/defs", "*/defs")
    files = [path for folder in folders for path in root.glob(f"{folder}/**/defs.yaml")]
    return any(type_name in path.read_text(encoding="utf-8") for path in files)


def _fill(value: Any, words: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return reduce(lambda text, word: text.replace(*word), words.items(), value)
    if isinstance(value, list):
        return [_fill(each, words) for each in value]
    if isinstance(value, dict):
        return {_fill(key, words): _fill(each, words) for key, each in value.items()}
    return value


@dg.scaffold_with(
    example(
        {"warehouse": "{{ context.project_root }}/warehouse", "executor": "embedded"},
        of_second={"resource_key": NAME},
    )
)
class PaimonCatalogComponent(dg.Component, DescribedModel):
    """The catalog resource that table assets, checks and jobs take, and the IO manager beside it.

    Give secrets as `{env: NAME}`: the UI then shows the variable's name only.
    """

    warehouse: Text = Field(
        default="", description="Root of the warehouse, or its name at a REST catalog."
    )
    metastore: Text = Field(default="", description="'rest' for a REST catalog.")
    uri: Text = Field(default="", description="Where the REST catalog is.")
    token: Secret = Field(default="", description="Bearer token of the REST catalog: {env: NAME}.")
    options: Secrets = Field(
        default={}, description="Storage and catalog options; secrets as {env: NAME}."
    )
    executor: ExecutorKind = Field(
        default="auto",
        description="Executor of rows: 'spark', 'embedded' for this process, or 'auto': "
        "Spark, if installed, for Spark DataFrames and inputs above 512 MB, else this process.",
    )
    resource_key: str = Field(
        default=DEFAULT_RESOURCE_KEY, description="The key of the resource; one a catalog."
    )
    io_manager_key: str | None = Field(
        default=None,
        description="Key of an IO manager over the catalog, such as io_manager; none if unset.",
    )
    database: Text = Field(
        default="default", description="Database of the IO manager's assets whose key has one part."
    )

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        del context
        names = ("warehouse", "metastore", "uri", "token", "options", "executor")
        catalog = PaimonCatalogResource(**{name: getattr(self, name) for name in names})
        resources: dict[str, object] = {self.resource_key: catalog}
        if self.io_manager_key is not None:
            resources[self.io_manager_key] = PaimonIOManager(paimon=catalog, database=self.database)
        return dg.Definitions(resources=resources)


logger = logging.getLogger(__name__)


class ScaffoldParams(BaseModel):
    """Parameters of `dg scaffold defs`."""

    warehouse: str = Field(
        default="{{ context.project_root }}/warehouse", description="Root of the warehouse."
    )
    include: str = Field(default="*", description="Pattern of database.table, such as ods.*")


class PaimonTablesScaffolder(dg.Scaffolder[ScaffoldParams]):
    """Writes a defs.yaml that loads unchanged."""

    @classmethod
    def get_scaffold_params(cls) -> type[ScaffoldParams]:
        return ScaffoldParams

    def scaffold(self, request: dg.ScaffoldRequest[ScaffoldParams]) -> None:
        attributes = {
            "warehouse": request.params.warehouse,
            "include": [request.params.include],
            # Tables of the warehouse that assets of this project write have these keys already.
            "key_prefix": [request.target_path.name],
            "sensor": True,
            "defs_state": {"management_type": "LOCAL_FILESYSTEM", "refresh_if_dev": True},
        }
        dg.scaffold_component(request, attributes)


@dg.scaffold_with(PaimonTablesScaffolder)
class PaimonTablesComponent(dg.StateBackedComponent, DescribedModel):
    """Tables of other writers as external assets: columns, observations, a sensor on snapshots.

    Their data version is the newest commit that changed rows, so automation conditions downstream
    follow foreign commits, and no compaction.
    """

    warehouse: str = Field(
        default="",
        description="Root of the warehouse: a path or a URL. Of a REST catalog, which the options "
        "name by metastore and uri, the name its server gives the warehouse, if any.",
    )
    options: Texts = Field(
        default={}, description="Storage and catalog options; secrets as '{{ env.NAME }}'."
    )
    include: Names = Field(
        default=["*"], description="Patterns of database.table, of which one must match."
    )
    exclude: Names = Field(
        default=[], description="Patterns of database.table, of which none may match."
    )
    key_prefix: Names = Field(default=[], description="Asset key before database and table.")
    group_name: str | None = Field(default=None, description="Asset group; the database if unset.")
    owners: Names = Field(default=[], description="Owners of the assets, such as team:lake.")
    sensor: bool = Field(
        default=True, description="Whether a sensor reports new snapshots; it is shipped stopped."
    )
    defs_state: ResolvedDefsStateConfig = DefsStateConfigArgs(
        management_type=DefsStateConfigArgs.local_filesystem().management_type, refresh_if_dev=False
    )

    @property
    def defs_state_config(self) -> DefsStateConfig:
        """Where the state is kept, and under which key."""
        patterns = ",".join(self.include)
        where = self.warehouse or without_secrets(self.options.get(URI.key, ""))
        return DefsStateConfig.from_args(
            self.defs_state, default_key=f"PaimonTablesComponent[{where},{patterns}]"
        )

    def write_state_to_path(self, state_path: Path) -> None:
        """Describe the catalog's tables in the state: no other method asks the catalog."""
        tables = describe_tables(self._catalog(), self.include, self.exclude)
        state_path.parent.mkdir(parents=True, exist_ok=True)
        state_path.write_text(tables_to_json(tables), encoding="utf-8")

    def build_defs_from_state(
        self, context: dg.ComponentLoadContext, state_path: Path | None
    ) -> dg.Definitions:
        """Return the assets and the sensor, from the state alone."""
        if state_path is None:
            logger.warning(
                "%s has no state yet and defines no assets: run dg utils refresh-defs-state.",
                self.defs_state_config.key,
            )
            return dg.Definitions()
        tables = tables_from_json(state_path.read_text(encoding="utf-8"), str(state_path))
        naming = AssetNaming(
            key_prefix=tuple(self.key_prefix), group_name=self.group_name, owners=tuple(self.owners)
        )
        specs = build_external_table_specs(tables, naming)
        if not specs:
            return dg.Definitions()
        name = context.path.name
        sensor = build_new_snapshots_sensor(
            specs, name=f"{name}_new_snapshots", open_catalog=self._catalog
        )
        return dg.Definitions(
            assets=[build_observable_tables(specs, self._catalog, name=f"observe_{name}")],
            sensors=[sensor] if self.sensor else [],
        )

    def _catalog(self) -> TableCatalog:
        return open_catalog(self.warehouse, self.options)


_EXAMPLE = {"name": NAME, "tables": ["shop.orders"]}
_Form = TypeVar("_Form", bound=dg.Config)


class UpkeepModel(dg.Component, DescribedModel):
    """A job over tables, by the clock."""

    tables: Names = Field(description="Tables as database.table; each reports to its asset.")
    config: Annotated[dict[str, Any], dg.Resolver.passthrough()] = Field(
        default={}, description="The form of the job, for its Launchpad and its schedule."
    )
    schedule: Text | None = Field(
        default=None, description="Cron of a schedule, such as '0 4 * * *'; shipped stopped."
    )
    timezone: str = Field(default="UTC", description="Time zone of the schedule.")
    resource_key: str = Field(default=DEFAULT_RESOURCE_KEY, description=OF_THE_RESOURCE)

    def schedules(
        self, job: dg.JobDefinition, build: Callable[..., dg.ScheduleDefinition], form: dg.Config
    ) -> list[dg.ScheduleDefinition]:
        if self.schedule is None:
            return []
        return [build(job, self.schedule, config=form, timezone=self.timezone)]


@dg.scaffold_with(example({**_EXAMPLE, "schedule": "0 4 * * *", "config": {"strategy": "minor"}}))
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
        del context
        form, key = config_of(CompactionConfig, self.config), self.resource_key
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


@dg.scaffold_with(
    example({**_EXAMPLE, "schedule": "0 5 * * *", "config": {"tasks": ["expire_snapshots"]}})
)
class PaimonMaintenanceComponent(UpkeepModel):
    """The maintenance job and its schedule."""

    name: str = Field(default="maintenance_job", description="Name of the job.")

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        del context
        form = config_of(MaintenanceConfig, self.config)
        job = build_maintenance_job(
            self.tables, self.name, suggestion=form, resource_key=self.resource_key
        )
        schedules = self.schedules(job, build_maintenance_schedule, form)
        return dg.Definitions(jobs=[job], schedules=schedules)


def config_of(kind: type[_Form], values: Mapping[str, Any]) -> _Form:
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
    if isinstance(form, CompactionConfig | MaintenanceConfig):
        form.check()
    return form
