"""The check of differences in YAML."""

from paimon_assets.components.built_components import component_of
from paimon_assets.components.catalog_components import NAME
from paimon_assets.review.check import build_diff_check

PaimonDiffCheckComponent = component_of(
    __name__,
    "PaimonDiffCheckComponent",
    build_diff_check,
    {"table": "shop.orders", "most_share": 0.5, "options": {"name": NAME}},
)
