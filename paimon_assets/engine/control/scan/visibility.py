"""Which files of a primary-key bucket a batch read sees, and whether they share keys.

Where deletion vectors mark what newer files replace, or the first row of a key stays, a compaction
settles each key before its file leaves level 0: above it every key is live once, and level 0 is
not read.
Source: `org.apache.paimon.CoreOptions.batchScanSkipLevel0`, `MergeTreeSplitGenerator`.
"""

from collections.abc import Collection

from paimon_assets.engine.lsm.levels import num_levels
from paimon_assets.engine.spec.merge.engine_traits import EngineTraits
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.options.all_options import (
    DELETION_VECTORS_ENABLED,
    DELETION_VECTORS_MERGE_ON_READ,
)
from paimon_assets.engine.spec.schema.schema import BucketMode, TableSchema


def settles_keys(schema: TableSchema) -> bool:
    """Whether above level 0 every key of a bucket is live in one file only."""
    return schema.has_primary_key and (
        schema.typed_options.get(DELETION_VECTORS_ENABLED)
        or EngineTraits.of(schema).waits_for_compaction
    )


def skips_level_0(schema: TableSchema) -> bool:
    """Whether files of level 0 wait for a compaction before batch reads see them."""
    options = schema.typed_options
    merges = options.get(DELETION_VECTORS_ENABLED) and options.get(DELETION_VECTORS_MERGE_ON_READ)
    return settles_keys(schema) and not merges


def shows_rows_later(schema: TableSchema) -> bool:
    """Whether rows may wait for a compaction before batch reads see them."""
    return skips_level_0(schema) or schema.bucket_mode is BucketMode.POSTPONE


def top_level(schema: TableSchema) -> int:
    """Return the lowest level whose files can be read without merging.

    Source: `org.apache.paimon.table.system.ReadOptimizedTable`.
    """
    if not schema.has_primary_key:
        return 0
    if settles_keys(schema):
        return 1
    return num_levels(schema.typed_options) - 1


def needs_no_merge(schema: TableSchema, files: Collection[DataFileMeta]) -> bool:
    """Whether a bucket's files may be read one after the other: no shared keys, no retractions."""
    levels = {file.level for file in files}
    if 0 in levels or any(map(has_deletes, files)):
        return False
    return len(levels) == 1 or settles_keys(schema)


def has_deletes(file: DataFileMeta) -> bool:
    """Whether a file definitely holds deletes: a plan takes an unknown count as none."""
    return bool(file.delete_row_count)
