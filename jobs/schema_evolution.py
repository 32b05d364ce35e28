"""The schema evolution job; its Launchpad opens with a dry run that finds values to lose."""

from jobs.tables import SCHEMA_CHANGE_EXAMPLE
from paimon_assets.assets import build_schema_evolution_job

schema_evolution_job = build_schema_evolution_job(example=SCHEMA_CHANGE_EXAMPLE)
