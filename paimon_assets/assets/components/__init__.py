"""Tables, files, checks and upkeep in YAML: the components of `dg list components`.

Each is a thin layer over a `build_` function of `paimon_assets.assets`, which has further
parameters in Python. Add-ons have theirs: `cdc.assets.components`, `review.components`.
"""

from paimon_assets.assets.components.catalog_components import (
    PaimonCatalogComponent,
    PaimonCompactionComponent,
    PaimonMaintenanceComponent,
    PaimonTablesComponent,
)
from paimon_assets.assets.components.further_components import (
    PaimonColumnsComponent,
    PaimonHealthComponent,
    PaimonOperationComponent,
    PaimonPartitionKeysComponent,
    PaimonSchemaEvolutionComponent,
    PaimonSegmentImportComponent,
    PaimonSegmentsComponent,
)
from paimon_assets.assets.components.table_components import (
    PaimonAssetComponent,
    PaimonChecksComponent,
    PaimonFileIngestionComponent,
)

__all__ = [
    "PaimonAssetComponent",
    "PaimonCatalogComponent",
    "PaimonChecksComponent",
    "PaimonColumnsComponent",
    "PaimonCompactionComponent",
    "PaimonFileIngestionComponent",
    "PaimonHealthComponent",
    "PaimonMaintenanceComponent",
    "PaimonOperationComponent",
    "PaimonPartitionKeysComponent",
    "PaimonSchemaEvolutionComponent",
    "PaimonSegmentImportComponent",
    "PaimonSegmentsComponent",
    "PaimonTablesComponent",
]
