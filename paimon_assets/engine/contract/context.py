"""ReadContext and WriteContext: what a worker must know besides its splits or rows.

A worker gets everything by value: it asks no catalog, snapshot, manifest or schema file.
"""

from dataclasses import dataclass
from functools import cached_property

from paimon_assets.engine.fileio.base import FileIOSpec
from paimon_assets.engine.spec.predicate import Predicate
from paimon_assets.engine.spec.schema import TableSchema


@dataclass(frozen=True, kw_only=True)
class ReadContext:
    """How to read the splits of one plan."""

    table: str
    """`database.table`, or the path: for messages."""
    schema: TableSchema
    """The schema to read as, with dynamic options; columns are matched to files by field id."""
    file_schemas: tuple[TableSchema, ...]
    """Every schema the plan's files were written with; `schema` itself may be among them."""
    columns: tuple[str, ...]
    """Names of the columns to return, in order."""
    predicate: Predicate | None = None
    """Bound (`spec.predicate.bind`); only rows for which it is true are returned."""
    file_io: FileIOSpec

    @cached_property
    def schemas_by_id(self) -> dict[int, TableSchema]:
        """Schema id → schema, for the files of the plan."""
        return {schema.id: schema for schema in (*self.file_schemas, self.schema)}


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketState:
    """What a writer must know of one existing bucket."""

    partition: bytes
    bucket: int
    max_sequence_number: int
    """Largest number of the bucket's live files; a writer continues at the next one."""


@dataclass(frozen=True, kw_only=True)
class WriteContext:
    """How to write rows into one table."""

    table: str
    """`database.table`, or the path: for messages."""
    table_path: str
    schema: TableSchema
    """The newest schema, with dynamic options."""
    bucket_states: tuple[BucketState, ...] = ()
    """Existing buckets of a primary-key or bucketed table; absent buckets are new."""
    partition_buckets: tuple[tuple[bytes, int], ...] = ()
    """(partition, total buckets) of partitions whose bucket count differs from the option."""
    file_io: FileIOSpec

    @cached_property
    def states_by_bucket(self) -> dict[tuple[bytes, int], BucketState]:
        """(partition, bucket) → state."""
        return {(state.partition, state.bucket): state for state in self.bucket_states}

    @cached_property
    def buckets_by_partition(self) -> dict[bytes, int]:
        """Partition → its own bucket count, where it differs from the option."""
        return dict(self.partition_buckets)
