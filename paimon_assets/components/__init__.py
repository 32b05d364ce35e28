"""Tables, files, checks and upkeep in YAML: the components of `dg list components`.

Each is a thin layer over a `build_` function of `paimon_assets.assets`, which has further
parameters in Python, or of an add-on.
"""

from paimon_assets.components.catalog_components import (
    PaimonCatalogComponent,
    PaimonCompactionComponent,
    PaimonMaintenanceComponent,
    PaimonTablesComponent,
)
from paimon_assets.components.change_log_components import (
    PaimonChangeLogComponent,
    PaimonDatabaseLogComponent,
    PaimonTopicComponent,
)
from paimon_assets.components.further_components import (
    PaimonColumnsComponent,
    PaimonHealthComponent,
    PaimonOperationComponent,
    PaimonPartitionKeysComponent,
    PaimonSchemaEvolutionComponent,
    PaimonSegmentImportComponent,
    PaimonSegmentsComponent,
)
from paimon_assets.components.review_components import PaimonDiffCheckComponent
from paimon_assets.components.table_components import (
    PaimonAssetComponent,
    PaimonChecksComponent,
    PaimonFileIngestionComponent,
)

__all__ = [
    "PaimonAssetComponent",
    "PaimonCatalogComponent",
    "PaimonChangeLogComponent",
    "PaimonChecksComponent",
    "PaimonColumnsComponent",
    "PaimonCompactionComponent",
    "PaimonDatabaseLogComponent",
    "PaimonDiffCheckComponent",
    "PaimonFileIngestionComponent",
    "PaimonHealthComponent",
    "PaimonMaintenanceComponent",
    "PaimonOperationComponent",
    "PaimonPartitionKeysComponent",
    "PaimonSchemaEvolutionComponent",
    "PaimonSegmentImportComponent",
    "PaimonSegmentsComponent",
    "PaimonTablesComponent",
    "PaimonTopicComponent",
]
