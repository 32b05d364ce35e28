"""Index files and the entries of index manifests that list them.

Source: `org.apache.paimon.manifest.IndexManifestEntry`, `org.apache.paimon.index.IndexFileMeta`.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from paimon_assets.engine.spec.metadata.manifest import FileKind

DELETION_VECTORS_INDEX = "DELETION_VECTORS"
"""Type of index files that hold deletion vectors."""
HASH_INDEX = "HASH"
"""Type of index files that hold the key hashes of a dynamic bucket; readers do without."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionVectorMeta:
    """The place of one data file's deletion vector in its index file."""

    data_file_name: str
    offset: int
    """Byte at which the length field of the vector begins."""
    length: int
    """Bytes of the body for 32-bit vectors; 64-bit vectors count length field and checksum too."""
    cardinality: int | None = None
    """Deleted rows; None is unknown (before 1.0)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalIndexMeta:
    """The coverage of a global index; readers may ignore such indexes."""

    row_range_start: int
    row_range_end: int
    """Last row id, inclusive."""
    index_field_id: int
    extra_field_ids: tuple[int, ...] | None = None
    index_meta: bytes | None = None
    source_meta: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFileMeta:
    """One index file."""

    index_type: str
    """`DELETION_VECTORS`, `HASH`, or the name of a global index."""
    file_name: str
    file_size: int
    row_count: int
    """Number of deletion vectors or of hashes."""
    deletion_vectors: tuple[DeletionVectorMeta, ...] | None = None
    """The vectors inside; None if the file holds none."""
    external_path: str | None = None
    global_index: GlobalIndexMeta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexManifestEntry:
    """One record of an index manifest."""

    kind: FileKind
    partition: bytes
    """Serialized BinaryRow of the partition values."""
    bucket: int
    file: IndexFileMeta


def live_index_entries(entries: Iterable[IndexManifestEntry]) -> list[IndexManifestEntry]:
    """Return the ADD entries that no DELETE names, in order.

    Index manifests are written whole, so a DELETE in them is rare; names are unique over time.
    """
    listed = list(entries)
    deleted = {entry.file.file_name for entry in listed if entry.kind is FileKind.DELETE}
    return [
        entry
        for entry in listed
        if entry.kind is FileKind.ADD and entry.file.file_name not in deleted
    ]
