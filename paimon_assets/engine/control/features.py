"""The tables that this engine reads and writes; others are refused by name, before any work.

Ignoring one of these features would not fail but return wrong rows.
"""

from collections.abc import Iterable
from typing import NoReturn

from paimon_assets.engine.errors import UnsupportedFeatureError
from paimon_assets.engine.spec.metadata.manifest import ManifestEntry
from paimon_assets.engine.spec.options.all_options import (
    BLOB_VIEW_FIELD,
    CHAIN_TABLE_ENABLED,
    DATA_EVOLUTION_ENABLED,
    ICEBERG_STORAGE,
    MANIFEST_FORMAT,
    PK_CLUSTERING_OVERRIDE,
    POSTPONE_MERGE_ON_READ,
    PRIMARY_KEY_INDEXES,
    QUERY_AUTH_ENABLED,
    ROW_TRACKING_ENABLED,
    SCAN_BUCKET,
    SCAN_PRIMARY_BRANCH,
    SNAPSHOT_ORDERING,
    TABLE_TYPE,
    Option,
)
from paimon_assets.engine.spec.paths import POSTPONE_BUCKET
from paimon_assets.engine.spec.schema.schema import BucketMode, TableSchema
from paimon_assets.engine.spec.types.cast_rules import first_retyped
from paimon_assets.engine.spec.types.data_types import DataType, TypeRoot, nested_fields

_PLAIN_TABLES = frozenset({"table", "materialized-table"})
_UNREADABLE_ROOTS = frozenset({TypeRoot.BLOB, TypeRoot.VECTOR})
_UNREADABLE_SWITCHES: tuple[tuple[Option[bool], str, str], ...] = (
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
    """Refuse tables whose schema or options need more than the reader has."""
    options = schema.typed_options
    if options.get(TABLE_TYPE) not in _PLAIN_TABLES:
        _refuse(table, "read", "table-type", f"it is a {options.get(TABLE_TYPE)}.")
    for switch, feature, reason in _UNREADABLE_SWITCHES:
        if options.get(switch):
            _refuse(table, "read", feature, f"{reason} ('{switch.key}').")
    _check_branches(table, schema)
    if options.has(SCAN_BUCKET):
        _refuse(table, "read", "scan-bucket", f"one bucket only is read ('{SCAN_BUCKET.key}').")
    for key, value in schema.options.items():
        if key.endswith(_STORAGE_LAYOUT_SUFFIX) and value.strip().lower() != "default":
            _refuse(table, "read", "map-layout", f"a MAP column is stored in pieces ('{key}').")
    for field in schema.fields:
        root = _unreadable_root(field.type)
        if root is TypeRoot.BLOB is field.type.root and options.get(DATA_EVOLUTION_ENABLED):
            continue  # the values lie in blob files
        if root is not None:
            _refuse(table, "read", "column-type", f"column '{field.name}' is of type {root}.")
    for column in options.get(BLOB_VIEW_FIELD):
        _refuse(
            table, "read", "blob-view", f"values of column '{column}' lie in other tables"
            f" ('{BLOB_VIEW_FIELD.key}')."
        )  # fmt: skip
    if schema.has_primary_key:
        _check_merging(table, schema)


def _check_branches(table: str, schema: TableSchema) -> None:
    options = schema.typed_options
    branch = options.get(SCAN_PRIMARY_BRANCH)
    if branch:
        _refuse(
            table, "read", "branch", f"partitions come first from branch '{branch}' "
            f"('{SCAN_PRIMARY_BRANCH.key}')."
        )  # fmt: skip


def _check_merging(table: str, schema: TableSchema) -> None:
    options = schema.typed_options
    if options.get(PK_CLUSTERING_OVERRIDE):
        _refuse(
            table, "read", "key-clustering", "its files are not in key order "
            "('pk-clustering-override')."
        )  # fmt: skip
    if options.get(SNAPSHOT_ORDERING):
        _refuse(
            table, "read", "snapshot-ordering", "records of one key are ordered by their snapshot"
            f" ('{SNAPSHOT_ORDERING.key}')."
        )  # fmt: skip
    if options.get(POSTPONE_MERGE_ON_READ) and schema.bucket_mode is BucketMode.POSTPONE:
        _refuse(
            table, "read", "postpone-merge", "reads are to see rows that wait for a bucket"
            f" ('{POSTPONE_MERGE_ON_READ.key}'). Set it to false to read compacted rows only."
        )  # fmt: skip


def _unreadable_root(data_type: DataType) -> TypeRoot | None:
    roots = [data_type.root, *(field.type.root for field in nested_fields(data_type))]
    return next((root for root in roots if root in _UNREADABLE_ROOTS), None)


def visible_entries(
    table: str, schema: TableSchema, entries: Iterable[ManifestEntry]
) -> list[ManifestEntry]:
    """Return live files without those that wait for a compaction to give their rows a bucket."""
    found = []
    for entry in entries:
        if entry.bucket != POSTPONE_BUCKET:
            found.append(entry)
        elif schema.bucket_mode is not BucketMode.POSTPONE:
            _refuse(
                table, "read", "postpone-bucket", f"file '{entry.file.file_name}' waits in "
                "bucket-postpone for a compaction to give its rows a bucket."
            )  # fmt: skip
    return found


def check_key_types(
    table: str, schema: TableSchema, file_schema: TableSchema, verb: str = "read"
) -> None:
    """Refuse operations on files that hold a key column in another type.

    Such files are in the order of the old type, and lie in the buckets of its values.
    """
    column = first_retyped(schema.key_fields, file_schema.by_id)
    if column is not None:
        old = file_schema.by_id[column.id].type
        _refuse(
            table, verb, "key-type-change", f"key column '{column.name}' is {column.type}, but "
            f"{old} in files of schema {file_schema.id}. Rewrite them by Table.rescale, or "
            "overwrite the table."
        )  # fmt: skip


def check_writable(table: str, schema: TableSchema) -> None:
    """Refuse tables this engine would damage, or leave unreadable, by writing."""
    check_readable(table, schema)
    options = schema.typed_options
    if options.get(DATA_EVOLUTION_ENABLED):
        _refuse(
            table, "write", "data-evolution", "its files may hold some of the columns each "
            "('data-evolution.enabled')."
        )  # fmt: skip
    if options.get(ROW_TRACKING_ENABLED):
        _refuse(table, "write", "row-tracking", "its rows carry row ids ('row-tracking.enabled').")
    iceberg, manifests = options.get(ICEBERG_STORAGE), options.get(MANIFEST_FORMAT)
    if iceberg != ICEBERG_STORAGE.default:
        _refuse(
            table, "write", "iceberg-metadata", "its readers through Iceberg would not see the"
            f" commit: metadata of Iceberg is not written ('{ICEBERG_STORAGE.key}' = {iceberg})."
            " Write it by Java, or set the option to disabled."
        )  # fmt: skip
    for option in PRIMARY_KEY_INDEXES:
        if options.get(option):
            _refuse(
                table, "write", "key-index", "searches would leave out the new files: entries of "
                f"its index are not written ('{option.key}'). Write and compact it by Java."
            )  # fmt: skip
    if manifests != MANIFEST_FORMAT.default:
        _refuse(
            table, "write", "manifest-format", f"Java would take the new manifests for {manifests}"
            f" ('{MANIFEST_FORMAT.key}'), but they are written as avro. Write it by Java."
        )  # fmt: skip
