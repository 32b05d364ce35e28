"""ReadContext and WriteContext: the state that workers need besides their splits or rows.

A worker gets everything by value: it asks no catalog, snapshot, manifest or schema file.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Self

from msgspec import field
from msgspec.structs import replace

from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.fileio.base import FileIOSpec
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.metadata.manifest import IndexFileMeta
from paimon_assets.engine.spec.predicate.predicate import Predicate
from paimon_assets.engine.spec.schema.schema import ROW_KIND, TableSchema, read_fields
from paimon_assets.engine.spec.segments.text_options import TextOptions
from paimon_assets.engine.spec.types.data_types import DataField
from paimon_assets.engine.spec.values import Value


class ReadContext(Value, dict=True):
    """The context of a read: all a worker needs besides its splits."""

    table: str
    """`database.table`, or the path: for messages."""
    schema: TableSchema
    """The schema to read as, with dynamic options; columns are matched to files by field id."""
    file_schemas: tuple[TableSchema, ...]
    """Every schema the plan's files were written with; `schema` itself may be among them."""
    columns: tuple[str, ...]
    """Names of the columns to return, in order; system columns among them."""
    predicate: Predicate | None = None
    """Bound (`spec.predicate.predicate.bind`); only rows for which it is true are returned."""
    file_io: FileIOSpec
    text_options: Mapping[str, TextOptions] = field(default_factory=dict)
    """How segments of text formats are written, by the prefix of their files' names."""
    file_tags: Mapping[str, str] = field(default_factory=dict)
    """Names of external files → the content that was checked (`FileStatus.tag`)."""
    fallback: TableSchema | None = None
    """Schema of the fallback branch's splits, with its own key and options; None if `schema`."""
    fallback_offset: int = 0
    """Added to the schema ids of the fallback branch in splits, so that they differ from main's."""

    def of(self, split: DataSplit) -> Self:
        """Return the context that a split is read in."""
        if self.fallback is None or not split.is_fallback:
            return self
        return replace(self, schema=self.fallback, fallback=None)

    def text_options_of(self, file: DataFileMeta) -> TextOptions | None:
        """Return how a text file is written; None by default."""
        return self.text_options.get(file.file_name.rpartition("-")[0])

    @cached_property
    def fields(self) -> tuple[DataField, ...]:
        return read_fields(self.schema, self.columns)

    @property
    def keeps_kinds(self) -> bool:
        """Whether rows that retract are returned too: then their kind is."""
        return ROW_KIND in self.fields

    @cached_property
    def schemas_by_id(self) -> dict[int, TableSchema]:
        return {schema.id: schema for schema in (*self.file_schemas, self.schema)}


class NumberedFile(Value):
    """A live data file of a primary-key table, as far as its sequence numbers are looked up."""

    location: str
    """Its name in the folder of its bucket, or its path elsewhere."""
    file_format: str
    file_size: int
    min_sequence_number: int
    max_sequence_number: int


class BucketState(Value):
    """The state of one existing bucket that a writer continues."""

    partition: bytes
    bucket: int
    max_sequence_number: int
    """Largest number of the bucket's live files; a writer continues at the next one."""
    files: tuple[NumberedFile, ...] = ()
    """The live files, if the table's padding continues their numbers; else none."""


class HashIndexState(Value):
    """The live hash index of one dynamic bucket: which keys it holds."""

    partition: bytes
    bucket: int
    path: str
    file: IndexFileMeta


class KeyRead(Value):
    """The read of the keys a table holds, for tables whose keys may change partition."""

    context: ReadContext
    """The read of the key columns without partition columns."""
    splits: tuple[DataSplit, ...]


class WriteContext(Value, dict=True):
    """The context of a write: all a worker needs besides its rows."""

    table: str
    """`database.table`, or the path: for messages."""
    table_path: str
    schema: TableSchema
    """The newest schema, with dynamic options."""
    bucket_states: tuple[BucketState, ...] = ()
    """Existing buckets of a primary-key or bucketed table; absent buckets are new."""
    partition_buckets: tuple[tuple[bytes, int], ...] = ()
    """(partition, total buckets) of partitions whose bucket count differs from the option."""
    hash_indexes: tuple[HashIndexState, ...] = ()
    """Indexes of dynamic buckets; buckets without one hold no keys."""
    key_read: KeyRead | None = None
    """Where keys may change partition: those there are; None if there are none."""
    keys_known_at: int | None = None
    """Id of the snapshot that indexes and keys are of, 0 if there was none; None needs none."""
    partitions: Predicate | None = None
    """Bound, over partition columns: rows of other partitions are refused; None takes all."""
    file_io: FileIOSpec

    @cached_property
    def states_by_bucket(self) -> dict[tuple[bytes, int], BucketState]:
        return {(state.partition, state.bucket): state for state in self.bucket_states}

    @cached_property
    def indexes_by_partition(self) -> dict[bytes, dict[int, HashIndexState]]:
        found: dict[bytes, dict[int, HashIndexState]] = {}
        for state in self.hash_indexes:
            found.setdefault(state.partition, {})[state.bucket] = state
        return found

    @cached_property
    def buckets_by_partition(self) -> dict[bytes, int]:
        """Partition → its own bucket count, where it differs from the option."""
        return dict(self.partition_buckets)
