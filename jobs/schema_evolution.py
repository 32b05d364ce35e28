"""The schema evolution job; its Launchpad opens with a dry run that finds values to lose."""

from paimon_assets.assets import SchemaEvolutionConfig, build_schema_evolution_job

NARROWING = [
    {
        "action": "updateColumnType",
        "fieldNames": ["dep_delay"],
        "newDataType": "TINYINT",
        "keepNullability": True,
    }
]
"""Minutes beyond two hours would overflow."""

schema_evolution_job = build_schema_evolution_job(
    example=SchemaEvolutionConfig(table="demo.flights", changes=NARROWING)
)
