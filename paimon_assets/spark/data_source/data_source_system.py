"""System tables as a source of Spark: `.option("table", "db.t$snapshots")`, or `"sys.tables"`.

One task reads it; the driver does where the options hold secrets of a catalog, such as the token of
a server, which no task gets.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from paimon_assets.spark.data_source.location import Location
from paimon_assets.spark.failure import encoded_errors
from paimon_assets.spark.packing import pack, pieces, unpack
from paimon_assets.spark.types import arrow_to_spark_schema, spark_arrow_schema, to_spark_batch


def system_schema(location: Location) -> StructType:
    """Return the columns of a system table, as Spark's types."""
    return arrow_to_spark_schema(location.system_table().arrow_schema)


class ReadRows(DataSourceReader):
    """Rows that the driver has read, some a partition."""

    def __init__(self, schema: StructType) -> None:
        self._schema = schema

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Unpack the rows of a partition; Spark calls it with None if there are none."""
        if partition is not None:
            yield unpack(partition.value, spark_arrow_schema(self._schema))


class SystemTableReader(ReadRows):
    """Reads a system table from the table's metadata, where the task runs or on the driver."""

    def __init__(self, location: Location, schema: StructType) -> None:
        super().__init__(schema)
        self._location = location

    def partitions(self) -> Sequence[InputPartition]:
        """Return the rows, in partitions, if the driver reads them; else one for the task."""
        if not self._location.has_catalog_secrets:
            return [InputPartition(None)]
        with encoded_errors():
            return [InputPartition(pack(p)) for b in self._rows() for p in pieces(b)]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Read all rows, in a task."""
        with encoded_errors():
            yield from self._rows()

    def _rows(self) -> Iterator[pa.RecordBatch]:
        names, schema = self._schema.fieldNames(), spark_arrow_schema(self._schema)
        for batch in self._location.system_table().to_reader():
            yield to_spark_batch(batch.select(names), schema)

    def __reduce__(self) -> tuple[Any, ...]:
        if self._location.has_catalog_secrets:
            return ReadRows, (self._schema,)
        return SystemTableReader, (self._location, self._schema)
