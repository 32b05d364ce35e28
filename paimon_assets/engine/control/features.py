"""The tables that this engine reads and writes; refuses all else by name, before any work.

Ignoring one of these features would not fail but return wrong rows.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, NoReturn

from paimon_assets.engine.errors import UnsupportedFeatureError
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.metadata.manifest import ManifestEntry
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.paths import POSTPONE_BUCKET
from paimon_assets.engine.spec.schema.add_on_rules import schema_rules
from paimon_assets.engine.spec.schema.schema import BucketMode, TableSchema
from paimon_assets.engine.spec.segments.segment import PAIMON_FORMATS
from paimon_assets.engine.spec.types.cast_rules import first_retyped
from paimon_assets.engine.spec.types.data_types import TypeRoot, nested_fields

_PLAIN_TABLES = frozenset({"table", "materialized-table"})
_UNREADABLE_ROOTS = frozenset({TypeRoot.BLOB, TypeRoot.VECTOR})
_STORAGE_LAYOUT_SUFFIX = ".map.storage-layout"


def _refuse(table: str, verb: str, feature: str, reason: str) -> NoReturn:
    raise UnsupportedFeatureError(
        f"Cannot {verb} table '{table}': {reason}",
        kind=f"unsupported-{feature}",
        table=table,
        feature=feature,
    )


def check_readable(table: str, schema: TableSchema) -> None:
    """Refuse tables whose schema or options need more than the reader has."""
    options, refuse = schema.typed_options, partial(_refuse, table, "read")
    if options.get(opt.TABLE_TYPE) not in _PLAIN_TABLES:
        refuse("table-type", f"it is a {options.get(opt.TABLE_TYPE)}.")
    branch = options.get(opt.SCAN_PRIMARY_BRANCH)
    switches: tuple[tuple[opt.Option[Any], str, str], ...] = (
        (opt.CHAIN_TABLE_ENABLED, "chain-table", "it is a chain table"),
        (opt.QUERY_AUTH_ENABLED, "query-auth", "only its catalog knows which rows may be seen"),
        (opt.SCAN_PRIMARY_BRANCH, "branch", f"partitions come first from branch '{branch}'"),
    )
    for option, feature, reason in switches:
        if options.get(option):
            refuse(feature, f"{reason} ('{option.key}').")
    if options.has(opt.SCAN_BUCKET):
        refuse("scan-bucket", f"one bucket only is read ('{opt.SCAN_BUCKET.key}').")
    for key, value in schema.options.items():
        if key.endswith(_STORAGE_LAYOUT_SUFFIX) and value.strip().lower() != "default":
            refuse("map-layout", f"a MAP column is stored in pieces ('{key}').")
    for field in schema.fields:
        roots = [field.type.root, *(nested.type.root for nested in nested_fields(field.type))]
        root = next((root for root in roots if root in _UNREADABLE_ROOTS), None)
        if root is TypeRoot.BLOB is field.type.root and options.get(opt.DATA_EVOLUTION_ENABLED):
            continue  # the values lie in blob files
        if root is not None:
            refuse("column-type", f"column '{field.name}' is of type {root}.")
    for column in options.get(opt.BLOB_VIEW_FIELD):
        key = opt.BLOB_VIEW_FIELD.key
        refuse("blob-view", f"values of column '{column}' lie in other tables ('{key}').")
    if schema.has_primary_key:
        _check_merging(table, schema)


def _check_merging(table: str, schema: TableSchema) -> None:
    options, refuse = schema.typed_options, partial(_refuse, table, "read")
    if options.get(opt.PK_CLUSTERING_OVERRIDE):
        refuse("key-clustering", "its files are not in key order ('pk-clustering-override').")
    if options.get(opt.SNAPSHOT_ORDERING):
        key = opt.SNAPSHOT_ORDERING.key
        reason = f"records of one key are ordered by their snapshot ('{key}')."
        refuse("snapshot-ordering", reason)
    if options.get(opt.POSTPONE_MERGE_ON_READ) and schema.bucket_mode is BucketMode.POSTPONE:
        reason = (
            f"reads are to see rows that wait for a bucket ('{opt.POSTPONE_MERGE_ON_READ.key}')."
        )
        refuse("postpone-merge", f"{reason} Set it to false to read compacted rows only.")


def visible_entries(
    table: str, schema: TableSchema, entries: Iterable[ManifestEntry]
) -> list[ManifestEntry]:
    """Return live files without the postponed ones."""
    visible = []
    for entry in entries:
        if entry.bucket != POSTPONE_BUCKET:
            visible.append(entry)
        elif schema.bucket_mode is not BucketMode.POSTPONE:
            _refuse(
                table, "read", "postpone-bucket", f"file '{entry.file.file_name}' waits in "
                "bucket-postpone for a compaction to give its rows a bucket."
            )  # fmt: skip
    return visible


def check_key_types(
    table: str, schema: TableSchema, file_schema: TableSchema, verb: str = "read"
) -> None:
    """Refuse files whose key column has another type: their order and buckets are those of it."""
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
    manifests = options.get(opt.MANIFEST_FORMAT)
    for rules in schema_rules(schema):
        rules.check_writable(table, schema)
    for option in opt.PRIMARY_KEY_INDEXES:
        if options.get(option):
            _refuse(
                table, "write", "key-index", "searches would leave out the new files: entries of "
                f"its index are not written ('{option.key}'). Write and compact it by Java."
            )  # fmt: skip
    if manifests != opt.MANIFEST_FORMAT.default:
        _refuse(
            table, "write", "manifest-format", f"Java would take the new manifests for {manifests}"
            f" ('{opt.MANIFEST_FORMAT.key}'), but they are written as avro. Write it by Java."
        )  # fmt: skip


_FORMAT_OPTIONS: tuple[tuple[opt.Option[Any], frozenset[str]], ...] = (
    (opt.MANIFEST_FORMAT, frozenset({opt.MANIFEST_FORMAT.default})),
    (opt.FILE_FORMAT, PAIMON_FORMATS),
    (opt.CHANGELOG_FILE_FORMAT, PAIMON_FORMATS),
    (opt.FILE_FORMAT_PER_LEVEL, PAIMON_FORMATS),
)
"""Option → the formats that are written."""


def check_formats(table: str, schema: TableSchema, old: TableSchema | None = None) -> None:
    """Refuse a table that takes no rows: its files or manifests have a format without a writer.

    Options of an old schema stay: another engine may have set them.
    """
    for option, formats in _FORMAT_OPTIONS:
        value = schema.typed_options.get(option)
        if old is not None and old.typed_options.get(option) == value:
            continue
        for name in value.values() if isinstance(value, Mapping) else [value]:
            if name not in formats and name != option.default:
                known = ", ".join(sorted(formats))
                reason = f"'{option.key}' is '{name}', which is not written; it can be {known}."
                _refuse(table, "write", "format", reason)


def check_compactable(table: str, schema: TableSchema) -> None:
    """Refuse tables whose files this engine cannot write again."""
    check_writable(table, schema)
    if any(field.type.root is TypeRoot.BLOB for field in schema.fields):
        reason = "values of BLOB columns lie in blob files, which are not written."
        _refuse(table, "compact", "blob-compaction", reason)


def check_deletable_rows(table: str, schema: TableSchema) -> None:
    """Refuse deletes of rows whose columns lie in several files, but by deletion vectors."""
    options = schema.typed_options
    if options.get(opt.DATA_EVOLUTION_ENABLED) and not options.get(opt.DELETION_VECTORS_ENABLED):
        reason = (
            "its files may hold some of the columns each, so rows are marked as deleted. Set"
            f" '{opt.DELETION_VECTORS_MODIFIABLE.key}' and '{opt.DELETION_VECTORS_ENABLED.key}' to"
            " true, or drop whole partitions."
        )
        _refuse(table, "delete rows of", "data-evolution", reason)


def refuse_ranges(table: str, files: Iterable[DataFileMeta]) -> None:
    """Refuse to write columns of rows without ids."""
    for file in files:
        if file.first_row_id is None:
            reason = (
                f"rows of file '{file.file_name}' have no ids; 'Table.enable_row_ids' gives some."
            )
            _refuse(table, "write columns of", "rows-without-ids", reason)


def check_sortable(table: str, schema: TableSchema) -> None:
    """Refuse to sort rows that have ids: the sort does not carry them along."""
    if schema.typed_options.get(opt.ROW_TRACKING_ENABLED):
        _refuse(table, "sort", "row-tracking", "its rows carry row ids ('row-tracking.enabled').")
