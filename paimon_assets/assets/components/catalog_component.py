"""PaimonCatalogComponent: the catalog of a code location, and the IO manager, in YAML."""

import dagster as dg
from pydantic import Field

from paimon_assets.assets.components.scaffolding import example
from paimon_assets.assets.resource import (
    DEFAULT_RESOURCE_KEY,
    ExecutorKind,
    PaimonCatalogResource,
)
from paimon_assets.assets.tables.io_manager import PaimonIOManager
from paimon_assets.assets.yaml_values import DescribedModel, Secret, Secrets, Text


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
        "Spark where pyspark is installed.",
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
        catalog = PaimonCatalogResource(
            warehouse=self.warehouse,
            metastore=self.metastore,
            uri=self.uri,
            token=self.token,
            options=self.options,
            executor=self.executor,
        )
        resources: dict[str, object] = {self.resource_key: catalog}
        if self.io_manager_key is not None:
            resources[self.io_manager_key] = PaimonIOManager(paimon=catalog, database=self.database)
        return dg.Definitions(resources=resources)
