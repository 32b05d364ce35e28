"""Spark with Iceberg's Hadoop catalog over our metadata: writes the rows of queries as JSON.

python -m tests.interop.peers.iceberg_hadoop JAR WAREHOUSE QUERY...
"""

import json
import sys

from pyspark.sql import SparkSession


def main() -> None:
    jar, warehouse, *queries = sys.argv[1:]
    catalog = "spark.sql.catalog.lake"
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.jars", jar)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config(catalog, "org.apache.iceberg.spark.SparkCatalog")
        .config(f"{catalog}.type", "hadoop")
        .config(f"{catalog}.warehouse", warehouse)
        .getOrCreate()
    )
    answers = [[list(row) for row in spark.sql(each).collect()] for each in queries]
    sys.stdout.write(json.dumps(answers))
    spark.stop()


if __name__ == "__main__":
    main()
