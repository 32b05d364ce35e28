"""paimon-assets: Apache Paimon tables as Dagster assets.

jobs/ resources/           this deployment's choices (beside the package, not in it)
paimon_assets/assets/      the Dagster layer: the only library code that imports dagster
paimon_assets/spark/       Spark as an Executor: the only code that imports pyspark
paimon_assets/engine/      the table engine; imports neither
"""

__version__ = "0.1.0"
