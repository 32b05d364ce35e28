"""Hash index files of dynamic buckets: the hash of every key a bucket holds.

    hash   murmur of the trimmed primary key as BinaryRow, as for fixed buckets, but not reduced
    file   the distinct hashes as 4-byte big-endian integers; one file a bucket, always rewritten

Source: `org.apache.paimon.index.HashIndexFile`, `DynamicBucketIndexMaintainer`.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from paimon_assets.engine.codec.hashing.row_words import row_hashes
from paimon_assets.engine.contract.context import HashIndexState, WriteContext
from paimon_assets.engine.data.write.buckets.partition_index import Hashes
from paimon_assets.engine.data.write.buckets.row_key_extractor import bucket_path
from paimon_assets.engine.data.write.files.rolling_file import new_uuid
from paimon_assets.engine.errors import FormatError
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.metadata.index_file import HASH_INDEX, IndexFileMeta
from paimon_assets.engine.spec.options.all_options import INDEX_FILE_IN_DATA_DIRECTORY
from paimon_assets.engine.spec.paths import TablePaths
from paimon_assets.engine.spec.schema.schema import TableSchema

_HASH_BYTES = 4
_STORED = np.dtype(">i4")


def key_hashes(schema: TableSchema, rows: pa.RecordBatch) -> Hashes:
    """Return the hash of each row's key as Java's signed integer.

    The key is the trimmed primary key; where keys may change partition, the whole one.
    """
    fields = schema.columns(schema.lookup_keys)
    columns: list[Any] = [rows.column(field.name) for field in fields]
    hashes: Hashes = row_hashes(columns, [field.type for field in fields]).view(np.int32)
    return hashes


def read_hashes(state: HashIndexState, file_io: FileIO) -> Hashes:
    """Return the hashes of a bucket."""
    data = file_io.read_bytes(state.path)
    if len(data) != _HASH_BYTES * state.file.row_count:
        raise FormatError(
            f"Hash index '{state.path}' has {len(data)} bytes, but {state.file.row_count} hashes.",
            kind="hash-index",
            details={"file": state.path},
        )
    return np.frombuffer(data, dtype=_STORED).astype(np.int32)


@dataclass(slots=True, kw_only=True)
class HashIndexWriter:
    """Writes the new hash indexes of one write."""

    context: WriteContext
    file_io: FileIO
    paths: list[str] = field(default_factory=list)
    """Every path that was created; an aborted write deletes them."""
    _added: dict[tuple[bytes, int], list[Hashes]] = field(default_factory=dict)
    _identity: str = field(default_factory=new_uuid)

    def add(self, partition: bytes, bucket: int, hashes: Hashes) -> None:
        """Add the keys of rows of a bucket; the index may hold some already."""
        self._added.setdefault((partition, bucket), []).append(np.unique(hashes))

    def increment(
        self, partition: bytes, bucket: int
    ) -> tuple[tuple[IndexFileMeta, ...], tuple[IndexFileMeta, ...]]:
        """Rewrite a bucket's index if it has new keys; return (new files, those they replace)."""
        added = self._added.pop((partition, bucket), None)
        if added is None:
            return (), ()
        state = self.context.indexes_by_partition.get(partition, {}).get(bucket)
        stored = np.empty(0, np.int32) if state is None else read_hashes(state, self.file_io)
        new = np.setdiff1d(np.concatenate(added), stored)
        if not len(new):
            return (), ()
        file = self._write(partition, bucket, np.concatenate([stored, new]))
        return (file,), () if state is None else (state.file,)

    def _write(self, partition: bytes, bucket: int, hashes: Hashes) -> IndexFileMeta:
        name = f"index-{self._identity}-{len(self.paths)}"
        path = index_path(self.context, partition, bucket, name)
        data = hashes.astype(_STORED).tobytes()
        self.paths.append(path)
        self.file_io.write_bytes(path, data)
        return IndexFileMeta(
            index_type=HASH_INDEX, file_name=name, file_size=len(data), row_count=len(hashes)
        )


def index_path(context: WriteContext, partition: bytes, bucket: int, name: str) -> str:
    """Return the path of a bucket's index file."""
    if context.schema.typed_options.get(INDEX_FILE_IN_DATA_DIRECTORY):
        return f"{bucket_path(context, partition, bucket)}/{name}"
    return TablePaths(table=context.table_path).index(name)
