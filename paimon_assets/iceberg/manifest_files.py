"""Iceberg's manifests and manifest lists ⇄ Avro, as records of plain values.

Source: https://iceberg.apache.org/spec/#manifests, #manifest-lists
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any
from uuid import uuid4

from msgspec import field

from paimon_assets.engine.codec.avro import avro
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.fileio.owned_deletion import delete_owned
from paimon_assets.engine.spec.values import Value
from paimon_assets.iceberg import options as ice
from paimon_assets.iceberg.table_schema import IcebergTable

_RECORDS_A_BLOCK = 1000
_ENTRIES_A_MANIFEST = 20_000
_CODECS: Mapping[str, tuple[str, Callable[[bytes], bytes]]] = {
    "deflate": ("deflate", avro.deflate),
    "snappy": ("snappy", avro.compress_snappy),
    "zstd": ("zstandard", avro.compress_zstd(3)),
    "null": ("null", bytes),
}


class Status(IntEnum):
    """State of a file in a manifest."""

    EXISTING = 0
    ADDED = 1
    DELETED = 2


class Content(IntEnum):
    """The kind of a manifest, and of the files it lists."""

    DATA = 0
    DELETES = 1


def _fields(text: str, **types: Any) -> list[dict[str, Any]]:
    """Return the fields of an Avro record that are written as `name id type`; `?` is for null."""
    fields = []
    for name, field_id, kind in (part.split() for part in text.split(",")):
        plain = types.get(kind.rstrip("?"), kind.rstrip("?"))
        optional = {"type": ["null", plain], "default": None} if kind.endswith("?") else {}
        fields.append({"name": name, "field-id": int(field_id), "type": plain, **optional})
    return fields


def _record(name: str, fields: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": fields}


def _map(key_id: int, value: str) -> dict[str, Any]:
    record = _record(
        f"k{key_id}_v{key_id + 1}", _fields(f"key {key_id} int, value {key_id + 1} {value}")
    )
    return {"type": "array", "logicalType": "map", "items": record}


def _entry_schema(table: IcebergTable) -> avro.RecordSchema:
    partition = [
        field
        for each in table.partition_fields
        for field in _fields(f"{each.name} {each.field_id} type?", type=each.avro_type)
    ]
    data_file = _fields(
        "content 134 int, file_path 100 string, file_format 101 string, partition 102 partition,"
        "record_count 103 long, file_size_in_bytes 104 long, value_counts 109 counts?,"
        "null_value_counts 110 nulls?, lower_bounds 125 lows?, upper_bounds 128 highs?",
        partition=_record("r102", partition),
        counts=_map(119, "long"), nulls=_map(121, "long"),
        lows=_map(126, "bytes"), highs=_map(129, "bytes"),
    )  # fmt: skip
    if table.format_version >= 3:
        data_file += _fields(
            "first_row_id 142 long?, referenced_data_file 143 string?, content_offset 144 long?,"
            "content_size_in_bytes 145 long?"
        )
    fields = _fields(
        "status 0 int, snapshot_id 1 long?, sequence_number 3 long?, file_sequence_number 4 long?,"
        "data_file 2 file",
        file=_record("r2", data_file),
    )
    return avro.RecordSchema.of(json.dumps(_record("manifest_entry", fields)).encode())


def _is_legacy(table: IcebergTable) -> bool:
    return table.schema.typed_options.get(ice.ICEBERG_LEGACY_MANIFESTS)


def _list_schema(table: IcebergTable) -> avro.RecordSchema:
    files = "data_files" if _is_legacy(table) else "files"
    summary = _fields(
        "contains_null 509 boolean, contains_nan 518 boolean?, lower_bound 510 bytes?,"
        "upper_bound 511 bytes?"
    )
    fields = _fields(
        "manifest_path 500 string, manifest_length 501 long, partition_spec_id 502 int,"
        "content 517 int, sequence_number 515 long, min_sequence_number 516 long,"
        f"added_snapshot_id 503 long, added_{files}_count 504 int, existing_{files}_count 505 int,"
        f"deleted_{files}_count 506 int, added_rows_count 512 long, existing_rows_count 513 long,"
        "deleted_rows_count 514 long, partitions 507 summaries?",
        summaries={"type": "array", "element-id": 508, "items": _record("r508", summary)},
    )
    if table.format_version >= 3:
        fields += _fields("first_row_id 520 long?")
    return avro.RecordSchema.of(json.dumps(_record("manifest_file", fields)).encode())


class ManifestFiles(Value):
    table: IcebergTable
    written: list[str] = field(default_factory=list)
    """Paths."""

    @property
    def file_io(self) -> FileIO:
        return self.table.store.file_io

    def write_new(
        self, files: Iterable[avro.Record], snapshot_id: int, content: Content = Content.DATA
    ) -> list[avro.Record]:
        """Write manifests of the files that a snapshot adds; return their records in a list."""
        entry = {"status": Status.ADDED, "snapshot_id": snapshot_id}
        entry |= dict.fromkeys(("sequence_number", "file_sequence_number"), snapshot_id)
        return self.write([{**entry, "data_file": file} for file in files], snapshot_id, content)

    def write(
        self, entries: Sequence[avro.Record], snapshot_id: int, content: Content = Content.DATA
    ) -> list[avro.Record]:
        """Write the manifests of a snapshot's entries; return their records in a list."""
        starts = range(0, len(entries), _ENTRIES_A_MANIFEST)
        parts = [entries[start : start + _ENTRIES_A_MANIFEST] for start in starts]
        return [self._write_one(part, snapshot_id, content) for part in parts]

    def _write_one(
        self, entries: Sequence[avro.Record], snapshot_id: int, content: Content
    ) -> avro.Record:
        table = self.table
        path = f"{table.metadata_directory}/{uuid4()}-m0.avro"
        headers = {
            "schema": json.dumps(table.current_schema).encode(),
            "schema-id": str(table.current_schema["schema-id"]).encode(),
            "partition-spec": json.dumps(table.partition_spec["fields"]).encode(),
            "partition-spec-id": b"0",
            "format-version": str(table.format_version).encode(),
            "content": content.name.lower().encode(),
        }
        size = self._store(path, _entry_schema(table), entries, headers)
        live = [entry for entry in entries if entry["status"] != Status.DELETED] or entries
        counts = dict[str, int]()
        for status in Status:
            some = [each["data_file"] for each in entries if each["status"] == status]
            counts[f"{status.name.lower()}_files_count"] = len(some)
            counts[f"{status.name.lower()}_rows_count"] = sum(each["record_count"] for each in some)
        return {
            "manifest_path": path,
            "manifest_length": size,
            "partition_spec_id": 0,
            "content": int(content),
            "sequence_number": snapshot_id,
            "min_sequence_number": min(entry["sequence_number"] for entry in live),
            "added_snapshot_id": snapshot_id,
            **counts,
            "partitions": table.partition_summaries(
                entry["data_file"]["partition"] for entry in entries
            ),
            "first_row_id": None,
        }

    def write_list(self, manifests: Iterable[avro.Record], snapshot_id: int) -> str:
        path = f"{self.table.metadata_directory}/snap-{snapshot_id}-1-{uuid4()}.avro"
        headers = {
            "snapshot-id": str(snapshot_id).encode(),
            "sequence-number": str(snapshot_id).encode(),
            "format-version": str(self.table.format_version).encode(),
        }
        renamed = [_with_names(each, "_files_", "_data_files_") for each in manifests]
        listed = renamed if _is_legacy(self.table) else list(manifests)
        self._store(path, _list_schema(self.table), listed, headers)
        return path

    def read_list(self, path: str) -> list[avro.Record]:
        return [
            {"first_row_id": None, **_with_names(each, "_data_files_", "_files_")}
            for each in avro.read_container(self.file_io.read_bytes(path), path)
        ]

    def read(self, manifest: avro.Record) -> list[avro.Record]:
        """Return the entries of a manifest; their partitions by the names of columns."""
        path = manifest["manifest_path"]
        entries = list(avro.read_container(self.file_io.read_bytes(path), path))
        if manifest["first_row_id"] is None or manifest["content"] != Content.DATA:
            return entries
        row_id = manifest["first_row_id"]
        for entry in entries:
            file = entry["data_file"]
            if entry["status"] != Status.DELETED and file["first_row_id"] is None:
                file["first_row_id"] = row_id
                row_id += file["record_count"]
        return entries

    def delete(self, paths: Iterable[str]) -> None:
        """Delete files of metadata; after a rename, documents name some in other folders."""
        directory = self.table.metadata_directory
        own = [path for path in paths if path.startswith(f"{directory}/")]
        delete_owned(self.file_io, (directory,), own)

    def _store(
        self,
        path: str,
        schema: avro.RecordSchema,
        records: Sequence[avro.Record],
        headers: Mapping[str, bytes],
    ) -> int:
        name, compress = _CODECS[
            self.table.schema.typed_options.get(ice.ICEBERG_MANIFEST_COMPRESSION)
        ]
        blocks = [
            avro.encode_block(schema, records[start : start + _RECORDS_A_BLOCK], compress)
            for start in range(0, len(records), _RECORDS_A_BLOCK)
        ]
        sync = hashlib.blake2b(b"".join((schema.text, *blocks)), digest_size=16).digest()
        header = avro.encode_header(schema, name, sync, headers)
        data = b"".join((header, *(part for block in blocks for part in (block, sync))))
        self.file_io.write_bytes(path, data)
        self.written.append(path)
        return len(data)


def _with_names(record: avro.Record, old: str, new: str) -> avro.Record:
    return {key.replace(old, new): value for key, value in record.items()}
