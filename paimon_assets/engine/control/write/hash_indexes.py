"""The hash indexes of a table's dynamic buckets, for a writer to continue.

Source: `org.apache.paimon.index.IndexFileHandler`.
"""

from paimon_assets.engine.contract.context import HashIndexState
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.scan.deletion_files import index_path
from paimon_assets.engine.spec.metadata.index_file import HASH_INDEX
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.schema.schema import BucketMode


def hash_indexes(store: FileStore, snapshot: Snapshot | None) -> tuple[HashIndexState, ...]:
    """Return the live hash index of each bucket; nothing, if the table's buckets are not dynamic.

    Cost:
        One entry a bucket; the index manifest is decoded once a process.
    """
    dynamic = store.schema.bucket_mode is BucketMode.HASH_DYNAMIC
    if not dynamic or snapshot is None or snapshot.index_manifest is None:
        return ()
    return tuple(
        HashIndexState(
            partition=entry.partition,
            bucket=entry.bucket,
            path=index_path(store, entry),
            file=entry.file,
        )
        for entry in store.manifests.read_index(snapshot.index_manifest)
        if entry.file.index_type == HASH_INDEX
    )
