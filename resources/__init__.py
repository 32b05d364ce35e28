"""The resources of this deployment: values, by environment; the classes are in the library."""

from paimon_assets.assets.resource import PaimonCatalogResource
from resources.paimon import paimon_resource


def build_resources(executor: str | None = None) -> dict[str, PaimonCatalogResource]:
    """Resource key → resource, for the one `Definitions`; see `paimon_resource`."""
    return {"paimon": paimon_resource(executor)}
