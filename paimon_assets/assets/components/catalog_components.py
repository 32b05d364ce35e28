"""The catalog resource and the IO manager in YAML; the tables of a catalog as external assets.

    dg scaffold defs paimon_assets.assets.components.PaimonTablesComponent lake
    dg utils refresh-defs-state      # describes the catalog's tables in a file beside the project
    dg list defs                     # from here on nothing asks the catalog

The state is one JSON file. Definitions load from it without catalog, network or Spark; in
production it is refreshed while the image is built, or at any time with a versioned state storage.
"""

import logging
from pathlib import Path

import dagster as dg
from dagster.components import DefsStateConfig, DefsStateConfigArgs, ResolvedDefsStateConfig
from pydantic import BaseModel, Field

from paimon_assets.assets.components.yaml_values import (
    DescribedModel,
    Names,
    Secret,
    Secrets,
    Text,
    Texts,
    example,
)
from paimon_assets.assets.external_sensors import build_new_snapshots_sensor
from paimon_assets.assets.external_tables import (
    AssetNaming,
    build_external_table_specs,
    build_observable_tables,
    describe_tables,
    tables_from_json,
    tables_to_json,
)
from paimon_assets.assets.resource import ExecutorKind, PaimonCatalogResource
from paimon_assets.assets.tables.io_manager import PaimonIOManager
from paimon_assets.assets.translator import DEFAULT_RESOURCE_KEY
from paimon_assets.engine.errors import without_secrets
from paimon_assets.engine.spec.options.catalog_options import URI
from paimon_assets.engine.table.api import TableCatalog, open_catalog


@dg.scaffold_with(
    example({"warehouse": "{{ context.project_root }}/warehouse", "executor": "embedded"})
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
        description="Who reads and writes rows: 'spark', 'embedded' for this process, or 'auto': "
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
        """Return the resources."""
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
    """Writes a defs.yaml that loads as it stands."""

    @classmethod
    def get_scaffold_params(cls) -> type[ScaffoldParams]:
        """Return the options of the command."""
        return ScaffoldParams

    def scaffold(self, request: dg.ScaffoldRequest[ScaffoldParams]) -> None:
        """Write the file."""
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
    """Tables that others write, as external assets: columns, observations, a sensor on snapshots.

    Their data version is the newest commit that changed rows, so automation conditions downstream
    follow what others commit, and no compaction.
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
