"""The checks of a table on their own, such as after a change of its schema."""

import dagster as dg

from jobs.tables import CHECKED

flights_checks = dg.define_asset_job(
    "flights_checks",
    selection=dg.AssetSelection.checks_for_assets(CHECKED),
    description="Runs every check of the flights table; writes nothing.",
)
