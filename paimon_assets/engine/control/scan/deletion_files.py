"""Where the deletion vectors of a snapshot's data files lie.

The vectors of a snapshot count whatever the options of the table are: a deleted row stays deleted.
Source: `org.apache.paimon.index.IndexFileHandler`, `IndexFilePathFactories`.
"""

from collections.abc import Container, Mapping

from paimon_assets.engine.contract.split import DeletionFile
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.errors import FormatError
from paimon_assets.engine.spec.metadata.index_file import DELETION_VECTORS_INDEX, IndexManifestEntry
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.options.all_options import INDEX_FILE_IN_DATA_DIRECTORY

_ARITY_BYTES = 4
DeletionFiles = Mapping[tuple[bytes, int, str], DeletionFile]
"""(partition, bucket, data file name) → its deletion vector."""


def deletion_files(
    store: FileStore, snapshot: Snapshot, buckets: Container[tuple[bytes, int]]
) -> DeletionFiles:
    """Return the deletion vectors of a snapshot's data files in some buckets."""
    found: dict[tuple[bytes, int, str], DeletionFile] = {}
    if snapshot.index_manifest is None:
        return found
    fields = len(store.schema.partition_keys)
    for entry in store.manifests.read_index(snapshot.index_manifest):
        if int.from_bytes(entry.partition[:_ARITY_BYTES], "big") != fields:
            raise FormatError(  # its vectors would be passed over
                f"Index manifest '{snapshot.index_manifest}' of table '{store.label}' has an entry"
                f" of a partition that has not {fields} columns.",
                kind="index-manifest",
                details={"table": store.label},
            )
        is_needed = (entry.partition, entry.bucket) in buckets
        if entry.file.index_type != DELETION_VECTORS_INDEX or not is_needed:
            continue
        path = index_path(store, entry)
        for vector in entry.file.deletion_vectors or ():
            key = (entry.partition, entry.bucket, vector.data_file_name)
            if key in found:
                raise FormatError(
                    f"Index manifest '{snapshot.index_manifest}' of table '{store.label}' gives"
                    f" data file '{vector.data_file_name}' two deletion vectors.",
                    kind="index-manifest",
                    details={"table": store.label, "file": vector.data_file_name},
                )
            found[key] = DeletionFile(
                path=path,
                offset=vector.offset,
                length=vector.length,
                cardinality=vector.cardinality,
            )
    return found


def index_path(store: FileStore, entry: IndexManifestEntry) -> str:
    """Return the path of an index file."""
    if entry.file.external_path is not None:
        return entry.file.external_path
    if store.schema.typed_options.get(INDEX_FILE_IN_DATA_DIRECTORY):
        directory = store.partitions.bucket_path(store.paths, entry.partition, entry.bucket)
        return f"{directory}/{entry.file.file_name}"
    return store.paths.index(entry.file.file_name)
