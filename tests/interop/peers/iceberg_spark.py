"""Reads of Spark over our catalog server by Iceberg's own catalog; in our environment of pyspark.

python -m tests.interop.peers.iceberg_spark JARS URI DATABASE: as `iceberg_rest`.
"""

import json
import sys
from typing import Any

from pyspark.sql import SparkSession

from tests.interop.peers.iceberg_rest import outcome


def walk(jars: str, uri: str, token: str, database: str) -> dict[str, Any]:
    """Send the requests of a reader, and try to change a table."""
    builder = SparkSession.builder.master("local[1]").appName("iceberg")
    settings = {
        "spark.jars": jars,
        "spark.ui.enabled": "false",
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.catalog.x": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.x.type": "rest",
        "spark.sql.catalog.x.uri": uri,
        "spark.sql.catalog.x.token": token,
        "spark.sql.catalog.x.io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "spark.sql.catalog.x.header.X-Iceberg-Access-Delegation": "vended-credentials",
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    name = f"x.{database}"

    def ask(query: str) -> Any:
        return outcome(lambda: [list(row) for row in spark.sql(query).collect()])

    try:
        return {
            "databases": ask("SHOW NAMESPACES IN x"),
            "tables": sorted(row[1] for row in ask(f"SHOW TABLES IN {name}")),
            "t": ask(f"SELECT * FROM {name}.t ORDER BY id"),
            "filtered": ask(f"SELECT text FROM {name}.t WHERE id > 1 AND text <> 'x3'"),
            "elsewhere": ask(f"SELECT * FROM {name}.elsewhere ORDER BY id"),
            "keyed": ask(f"SELECT * FROM {name}.keyed ORDER BY id"),
            "as of 1": ask(f"SELECT * FROM {name}.t VERSION AS OF 1 ORDER BY id"),
            "snapshots": ask(f"SELECT snapshot_id FROM {name}.t.snapshots ORDER BY 1"),
            "plain": ask(f"SELECT * FROM {name}.plain"),
            "append": ask(f"INSERT INTO {name}.t VALUES (9, 'z')"),
            "create": ask(f"CREATE TABLE {name}.u (id INT) USING iceberg"),
            "drop": ask(f"DROP TABLE {name}.t"),
        }
    finally:
        spark.stop()


if __name__ == "__main__":
    jars, uri, database = sys.argv[1:]
    answers, sys.stdout = sys.stdout, sys.stderr
    json.dump(walk(jars, uri, sys.stdin.read(), database), answers)
