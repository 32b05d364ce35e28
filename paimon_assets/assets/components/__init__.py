"""Tables, files, checks and upkeep in YAML: the components of `dg list components`.

Each is a thin layer over a `build_` function of `paimon_assets.assets`, which has further
parameters in Python.
"""

from paimon_assets.assets.components.catalog_components import (
    PaimonCatalogComponent,
    PaimonCompactionComponent,
    PaimonMaintenanceComponent,
    PaimonTablesComponent,
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
    "PaimonCompactionComponent",
    "PaimonFileIngestionComponent",
    "PaimonMaintenanceComponent",
    "PaimonTablesComponent",
]
