"""A table's metadata as Arrow tables, columns named as Paimon's system tables name them.

Source: https://paimon.apache.org/docs/master/concepts/system-tables/
"""

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from paimon_assets.engine.codec.binary_row import deserialize_row
from paimon_assets.engine.spec.manifest import ManifestEntry
from paimon_assets.engine.spec.schema import TableSchema
from paimon_assets.engine.spec.snapshot import Snapshot
from paimon_assets.engine.spec.type_text import field_to_json
from paimon_assets.engine.table.table import Table

_MILLIS = pa.timestamp("ms")


def _schema(columns: Mapping[str, pa.DataType]) -> pa.Schema:
    return pa.schema(columns)


SNAPSHOTS = _schema(
    {
        "snapshot_id": pa.int64(),
        "schema_id": pa.int64(),
        "commit_user": pa.string(),
        "commit_identifier": pa.int64(),
        "commit_kind": pa.string(),
        "commit_time": _MILLIS,
        "base_manifest_list": pa.string(),
        "delta_manifest_list": pa.string(),
        "changelog_manifest_list": pa.string(),
        "total_record_count": pa.int64(),
        "delta_record_count": pa.int64(),
        "changelog_record_count": pa.int64(),
        "watermark": pa.int64(),
        "properties": pa.string(),
    }
)

SCHEMAS = _schema(
    {
        "schema_id": pa.int64(),
        "fields": pa.string(),
        "partition_keys": pa.string(),
        "primary_keys": pa.string(),
        "options": pa.string(),
        "comment": pa.string(),
        "update_time": _MILLIS,
    }
)

FILES = _schema(
    {
        "partition": pa.string(),
        "bucket": pa.int32(),
        "file_path": pa.string(),
        "file_format": pa.string(),
        "schema_id": pa.int64(),
        "level": pa.int32(),
        "record_count": pa.int64(),
        "file_size_in_bytes": pa.int64(),
        "min_key": pa.string(),
        "max_key": pa.string(),
        "min_sequence_number": pa.int64(),
        "max_sequence_number": pa.int64(),
        "creation_time": _MILLIS,
        "delete_row_count": pa.int64(),
        "file_source": pa.string(),
    }
)


def snapshots_table(table: Table) -> pa.Table:
    """Return one row a snapshot, oldest first."""
    rows: list[dict[str, Any]] = [
        {
            "snapshot_id": snapshot.id,
            "schema_id": snapshot.schema_id,
            "commit_user": snapshot.commit_user,
            "commit_identifier": snapshot.commit_identifier,
            "commit_kind": str(snapshot.commit_kind),
            "commit_time": snapshot.time_millis,
            "base_manifest_list": snapshot.base_manifest_list,
            "delta_manifest_list": snapshot.delta_manifest_list,
            "changelog_manifest_list": snapshot.changelog_manifest_list,
            "total_record_count": snapshot.total_record_count,
            "delta_record_count": snapshot.delta_record_count,
            "changelog_record_count": snapshot.changelog_record_count,
            "watermark": snapshot.watermark,
            "properties": _json_text(dict(snapshot.properties)),
        }
        for snapshot in table.snapshots()
    ]
    return pa.Table.from_pylist(rows, schema=SNAPSHOTS)


def schemas_table(table: Table) -> pa.Table:
    """Return one row a schema, oldest first; lists are JSON texts."""
    rows: list[dict[str, Any]] = [
        {
            "schema_id": schema.id,
            "fields": _json_text([field_to_json(field) for field in schema.fields]),
            "partition_keys": _json_text(list(schema.partition_keys)),
            "primary_keys": _json_text(list(schema.primary_keys)),
            "options": _json_text(dict(schema.options)),
            "comment": schema.comment,
            "update_time": schema.time_millis,
        }
        for schema in table.schemas()
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMAS)


def files_table(table: Table, snapshot: Snapshot | None) -> pa.Table:
    """Return one row a live data file of `snapshot`; none without a snapshot."""
    schema = table.schema
    rows = [_file_row(table, schema, entry) for entry in table.live_files(snapshot)]
    return pa.Table.from_pylist(rows, schema=FILES)


def _file_row(table: Table, schema: TableSchema, entry: ManifestEntry) -> dict[str, Any]:
    file = entry.file
    keys = [field.type for field in schema.key_fields]
    return {
        "partition": _partition_text(table, entry.partition),
        "bucket": entry.bucket,
        "file_path": table.file_path(entry),
        "file_format": file.file_format,
        "schema_id": file.schema_id,
        "level": file.level,
        "record_count": file.row_count,
        "file_size_in_bytes": file.file_size,
        "min_key": _json_text(list(deserialize_row(file.min_key, keys))) if keys else None,
        "max_key": _json_text(list(deserialize_row(file.max_key, keys))) if keys else None,
        "min_sequence_number": file.min_sequence_number,
        "max_sequence_number": file.max_sequence_number,
        "creation_time": file.creation_time,
        "delete_row_count": file.delete_row_count,
        "file_source": None if file.file_source is None else file.file_source.name,
    }


def _partition_text(table: Table, partition: bytes) -> str:
    spec = table.partition_text(partition)
    return "{" + ", ".join(f"{name}={text}" for name, text in spec.items()) + "}"


def _json_text(value: Any) -> str:
    return json.dumps(value, default=str, ensure_ascii=False)
