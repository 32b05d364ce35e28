"""`spark.readStream.format("paimon_assets")`: a table's rows, then what each snapshot adds.

An offset is the id of the last snapshot that was read; 0 is before the first. The first batch reads
the table as it is, later ones what changed since, as `ReadBuilder.between` gives it: rows that were
added or upserted. With `rowkind` among the columns retractions come too, each with its kind.
Compactions change no rows and are left out; so are overwrites.
"""

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from paimon_assets.engine.contract.wire.wire import dump_split
from paimon_assets.engine.contract.wire.wire_values import dump
from paimon_assets.engine.table.read.read_builder import Plan, ReadBuilder
from paimon_assets.engine.table.table import Table
from paimon_assets.spark.failure import encoded_errors
from paimon_assets.spark.read_worker import read_split_rows
from paimon_assets.spark.types import spark_arrow_schema

_SNAPSHOT = "snapshot"
_BEFORE_FIRST = 0


class StreamPartition(InputPartition):
    """One split of one micro-batch, and how to read it; both as wire bytes."""

    def __init__(self, context: bytes, split: bytes) -> None:
        super().__init__(split)
        self.context = context


class SplitStreamReader(DataSourceStreamReader):
    """The reader of splits of any micro-batch."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one split."""
        if isinstance(partition, StreamPartition):
            yield from read_split_rows(partition.context, partition.value, self._schema)


class TableStreamReader(SplitStreamReader):
    """Plans micro-batches on the driver."""

    def __init__(self, table: Table, read: ReadBuilder, schema: StructType) -> None:
        super().__init__(spark_arrow_schema(schema))
        self._table = table
        self._read = read

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Begin before the first snapshot."""
        return {_SNAPSHOT: _BEFORE_FIRST}

    def latestOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Return the newest snapshot."""
        with encoded_errors():
            newest = self._table.latest_snapshot()
            return {_SNAPSHOT: _BEFORE_FIRST if newest is None else newest.id}

    def partitions(
        self, start: Mapping[str, int], end: Mapping[str, int]
    ) -> Sequence[InputPartition]:
        """Return one partition for each split of what came after `start`, up to `end`.

        Raises:
            WorkerError: With the `PaimonError` inside: a snapshot in between has expired, or the
                table was rolled back.
        """
        with encoded_errors():
            plan = self._plan(start[_SNAPSHOT], end[_SNAPSHOT])
            context = dump(plan.context)
            return [StreamPartition(context, dump_split(split)) for split in plan.splits]

    def _plan(self, start: int, end: int) -> Plan:
        read = self._read.with_waiting_rows()
        chosen = read.at_snapshot(end) if start == _BEFORE_FIRST else read.between(start, end)
        return chosen.plan()

    def __reduce__(self) -> tuple[type[SplitStreamReader], tuple[pa.Schema]]:
        # Tasks get what reads a split, and no metadata.
        return SplitStreamReader, (self._schema,)
