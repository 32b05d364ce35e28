"""System tables as a source of Spark: `.option("table", "db.t$snapshots")`, or `"sys.tables"`.

One task reads it.
"""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from paimon_assets.spark.data_source.location import Location
from paimon_assets.spark.failure import encoded_errors
from paimon_assets.spark.types import arrow_to_spark_schema, spark_arrow_schema, to_spark_batch


def system_schema(location: Location) -> StructType:
    """Return the columns of a system table, as Spark's types."""
    return arrow_to_spark_schema(location.system_table().arrow_schema)


class SystemTableReader(DataSourceReader):
    """Reads a system table where the task runs, from the table's metadata."""

    def __init__(self, location: Location, schema: StructType) -> None:
        self._location = location
        self._schema = schema

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Read all rows; there is one partition."""
        names, schema = self._schema.fieldNames(), spark_arrow_schema(self._schema)
        with encoded_errors():
            for batch in self._location.system_table().to_reader():
                yield to_spark_batch(batch.select(names), schema)
