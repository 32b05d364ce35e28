"""Which tables this engine reads and writes; the others are refused by name, before any work.

Ignoring one of these features would not fail but return wrong rows.
Source: paimon-format, "Features a first engine should detect and refuse".
"""

from collections.abc import Iterable
from typing import NoReturn

from paimon_assets.engine.control.manifest_store import ManifestStore
from paimon_assets.engine.errors import UnsupportedFeatureError
from paimon_assets.engine.spec.manifest import ManifestEntry
from paimon_assets.engine.spec.options import (
    BRANCH,
    CHAIN_TABLE_ENABLED,
    CHANGELOG_PRODUCER,
    DATA_EVOLUTION_ENABLED,
    DELETION_VECTORS_ENABLED,
    MERGE_ENGINE,
    PK_CLUSTERING_OVERRIDE,
    QUERY_AUTH_ENABLED,
    ROW_TRACKING_ENABLED,
    SCAN_FALLBACK_BRANCH,
    SCAN_PRIMARY_BRANCH,
    TABLE_TYPE,
    ChangelogProducer,
    MergeEngine,
    Option,
)
from paimon_assets.engine.spec.schema import BucketMode, TableSchema
from paimon_assets.engine.spec.snapshot import Snapshot
from paimon_assets.engine.spec.types import DataType, TypeRoot, nested_fields

POSTPONE_BUCKET = -2
_DELETION_VECTORS = "DELETION_VECTORS"
_PLAIN_TABLES = frozenset({"table", "materialized-table"})
_UNREADABLE_ROOTS = frozenset({TypeRoot.BLOB, TypeRoot.VECTOR})
_UNREADABLE_SWITCHES: tuple[tuple[Option[bool], str, str], ...] = (
    (DATA_EVOLUTION_ENABLED, "data-evolution", "its files may hold some of the columns each"),
    (CHAIN_TABLE_ENABLED, "chain-table", "it is a chain table"),
    (QUERY_AUTH_ENABLED, "query-auth", "only its catalog knows which rows may be seen"),
)
_STORAGE_LAYOUT_SUFFIX = ".map.storage-layout"


def _refuse(table: str, verb: str, feature: str, reason: str) -> NoReturn:
    raise UnsupportedFeatureError(
        f"Cannot {verb} table '{table}': {reason}",
        kind=f"unsupported-{feature}",
        details={"table": table, "feature": feature},
    )


def check_readable(table: str, schema: TableSchema) -> None:
    """Refuse tables whose schema or options ask for what the reader does not do.

    Args:
        table: Its name, for messages.
        schema: The schema to read as.

    Raises:
        UnsupportedFeatureError: Names the feature.
    """
    options = schema.typed_options
    if options.get(TABLE_TYPE) not in _PLAIN_TABLES:
        _refuse(table, "read", "table-type", f"it is a {options.get(TABLE_TYPE)}.")
    for switch, feature, reason in _UNREADABLE_SWITCHES:
        if options.get(switch):
            _refuse(table, "read", feature, f"{reason} ('{switch.key}').")
    _check_branches(table, schema)
    for key, value in schema.options.items():
        if key.endswith(_STORAGE_LAYOUT_SUFFIX) and value.strip().lower() != "default":
            _refuse(table, "read", "map-layout", f"a MAP column is stored in pieces ('{key}').")
    for field in schema.fields:
        root = _unreadable_root(field.type)
        if root is not None:
            _refuse(table, "read", "column-type", f"column '{field.name}' is of type {root}.")
    if schema.has_primary_key:
        _check_merging(table, schema)


def _check_branches(table: str, schema: TableSchema) -> None:
    options = schema.typed_options
    if options.get(BRANCH) != BRANCH.default:
        _refuse(table, "read", "branch", f"it is branch '{options.get(BRANCH)}' of a table.")
    for option in (SCAN_FALLBACK_BRANCH, SCAN_PRIMARY_BRANCH):
        branch = options.get(option)
        if branch:
            _refuse(
                table, "read", "branch", f"partitions come from branch '{branch}' "
                f"('{option.key}')."
            )  # fmt: skip


def _check_merging(table: str, schema: TableSchema) -> None:
    options = schema.typed_options
    engine = options.get(MERGE_ENGINE)
    if engine is not MergeEngine.DEDUPLICATE:
        _refuse(table, "read", f"merge-engine-{engine}", f"its merge engine is {engine}.")
    if options.get(PK_CLUSTERING_OVERRIDE):
        _refuse(
            table, "read", "key-clustering", "its files are not in key order "
            "('pk-clustering-override')."
        )  # fmt: skip
    if options.get(DELETION_VECTORS_ENABLED):
        _refuse(
            table, "read", "deletion-vectors", "its deleted rows lie in deletion vectors "
            "('deletion-vectors.enabled'), and new files count only after a compaction."
        )  # fmt: skip


def _unreadable_root(data_type: DataType) -> TypeRoot | None:
    roots = [data_type.root, *(field.type.root for field in nested_fields(data_type))]
    return next((root for root in roots if root in _UNREADABLE_ROOTS), None)


def check_snapshot(table: str, snapshot: Snapshot, manifests: ManifestStore) -> None:
    """Refuse snapshots with deletion vectors, whatever the options say now.

    Raises:
        UnsupportedFeatureError: Names the snapshot.
    """
    name = snapshot.index_manifest
    if name is not None and _DELETION_VECTORS in manifests.read_index_types(name):
        _refuse(table, "read", "deletion-vectors", f"snapshot {snapshot.id} has deletion vectors.")


def check_entries(table: str, entries: Iterable[ManifestEntry]) -> None:
    """Refuse live files that a reader must not take as they are.

    Raises:
        UnsupportedFeatureError: Names a file.
    """
    for entry in entries:
        if entry.bucket == POSTPONE_BUCKET:
            _refuse(
                table, "read", "postpone-bucket", f"file '{entry.file.file_name}' waits in "
                "bucket-postpone for a compaction to give its rows a bucket."
            )  # fmt: skip
        if entry.file.write_cols is not None and entry.file.first_row_id is not None:
            _refuse(
                table, "read", "data-evolution", f"file '{entry.file.file_name}' holds some of "
                "the columns only."
            )  # fmt: skip


def check_writable(table: str, schema: TableSchema) -> None:
    """Refuse tables this engine would damage, or leave unreadable, by writing.

    Raises:
        UnsupportedFeatureError: Names the feature.
    """
    check_readable(table, schema)
    options = schema.typed_options
    if options.get(ROW_TRACKING_ENABLED):
        _refuse(table, "write", "row-tracking", "its rows carry row ids ('row-tracking.enabled').")
    if options.get(DELETION_VECTORS_ENABLED):
        _refuse(
            table, "write", "deletion-vectors", "it keeps deletion vectors "
            "('deletion-vectors.enabled')."
        )  # fmt: skip
    if options.get(CHANGELOG_PRODUCER) is ChangelogProducer.INPUT:
        _refuse(
            table, "write", "changelog-producer-input", "each write must also write changelog "
            "files ('changelog-producer' = input)."
        )  # fmt: skip
    if schema.has_primary_key and schema.bucket_mode is not BucketMode.HASH_FIXED:
        _refuse(
            table, "write", f"bucket-mode-{schema.bucket_mode}", "its rows find their bucket "
            f"by the mode '{schema.bucket_mode}'; set 'bucket' to 1 or more."
        )  # fmt: skip
