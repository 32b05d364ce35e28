"""How a writer finds the keys a table holds, where a key may change its partition.

Source: `org.apache.paimon.crosspartition.IndexBootstrap`.
"""

from paimon_assets.engine.contract.context import KeyRead, ReadContext
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.scan.table_scan import scan_table
from paimon_assets.engine.spec.merge.engine_traits import AS_NEWEST_WINS, EngineTraits
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.options.all_options import (
    DELETION_VECTORS_MERGE_ON_READ,
    SCAN_FALLBACK_BRANCH,
)
from paimon_assets.engine.spec.schema.schema import BucketMode


def key_bootstrap(store: FileStore, snapshot: Snapshot | None) -> KeyRead | None:
    """Return how to read the keys of a snapshot; None if the table needs no such index."""
    if snapshot is None or store.schema.bucket_mode is not BucketMode.KEY_DYNAMIC:
        return None
    # Keys that wait for a compaction are there, too.
    options = {DELETION_VECTORS_MERGE_ON_READ.key: "true", SCAN_FALLBACK_BRANCH.key: ""}
    if EngineTraits.of(store.schema).waits_for_compaction:
        options |= AS_NEWEST_WINS
    schema = store.schema.with_dynamic_options(options)
    scan = scan_table(store.with_schema(schema), snapshot, None)
    context = ReadContext(
        table=store.label,
        schema=schema,
        file_schemas=tuple(each for each in scan.file_schemas if each.id != schema.id),
        columns=schema.lookup_keys,
        file_io=store.file_io.spec,
    )
    return KeyRead(context=context, splits=scan.splits)
