"""Iceberg's manifests and manifest lists ⇄ Avro, as records of plain values.

Source: https://iceberg.apache.org/spec/#manifests, #manifest-lists
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any
from uuid import uuid4

from paimon_assets.engine.codec.avro.avro import (
    Record,
    RecordSchema,
    compress_snappy,
    compress_zstd,
    deflate,
    encode_block,
    encode_header,
    read_container,
)
from paimon_assets.engine.control.iceberg.table_schema import IcebergTable
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.fileio.owned_deletion import delete_owned

_RECORDS_A_BLOCK = 1000
_ENTRIES_A_MANIFEST = 20_000
_CODECS: Mapping[str, tuple[str, Callable[[bytes], bytes]]] = {
    "deflate": ("deflate", deflate),
    "snappy": ("snappy", compress_snappy),
    "zstd": ("zstandard", compress_zstd(3)),
    "null": ("null", bytes),
}


class Status(IntEnum):
    """What a manifest says of a file."""

    EXISTING = 0
    ADDED = 1
    DELETED = 2


class Content(IntEnum):
    """The kind of a manifest, and of the files it lists."""

    DATA = 0
    DELETES = 1


def _field(name: str, field_id: int, data_type: Any, *, optional: bool = False) -> dict[str, Any]:
    if optional:
        return {
            "name": name, "field-id": field_id, "type": ["null", data_type], "default": None
        }  # fmt: skip
    return {"name": name, "field-id": field_id, "type": data_type}


def _map(key_id: int, value_id: int, value: str) -> dict[str, Any]:
    fields = [_field("key", key_id, "int"), _field("value", value_id, value)]
    record = {"type": "record", "name": f"k{key_id}_v{value_id}", "fields": fields}
    return {"type": "array", "logicalType": "map", "items": record}


def _entry_schema(table: IcebergTable) -> RecordSchema:
    partition = {
        "type": "record",
        "name": "r102",
        "fields": [
            _field(field.name, field.field_id, field.avro_type, optional=True)
            for field in table.partition_fields
        ],
    }
    data_file = [
        _field("content", 134, "int"),
        _field("file_path", 100, "string"),
        _field("file_format", 101, "string"),
        _field("partition", 102, partition),
        _field("record_count", 103, "long"),
        _field("file_size_in_bytes", 104, "long"),
        _field("value_counts", 109, _map(119, 120, "long"), optional=True),
        _field("null_value_counts", 110, _map(121, 122, "long"), optional=True),
        _field("lower_bounds", 125, _map(126, 127, "bytes"), optional=True),
        _field("upper_bounds", 128, _map(129, 130, "bytes"), optional=True),
    ]
    if table.format_version >= 3:
        data_file += [
            _field("first_row_id", 142, "long", optional=True),
            _field("referenced_data_file", 143, "string", optional=True),
            _field("content_offset", 144, "long", optional=True),
            _field("content_size_in_bytes", 145, "long", optional=True),
        ]
    fields = [
        _field("status", 0, "int"),
        _field("snapshot_id", 1, "long", optional=True),
        _field("sequence_number", 3, "long", optional=True),
        _field("file_sequence_number", 4, "long", optional=True),
        _field("data_file", 2, {"type": "record", "name": "r2", "fields": data_file}),
    ]
    schema = {"type": "record", "name": "manifest_entry", "fields": fields}
    return RecordSchema.of(json.dumps(schema).encode())


def _list_schema(table: IcebergTable) -> RecordSchema:
    summary = [
        _field("contains_null", 509, "boolean"),
        _field("contains_nan", 518, "boolean", optional=True),
        _field("lower_bound", 510, "bytes", optional=True),
        _field("upper_bound", 511, "bytes", optional=True),
    ]
    files = "data_files" if table.legacy_manifests else "files"
    partitions = {
        "type": "array",
        "element-id": 508,
        "items": {"type": "record", "name": "r508", "fields": summary},
    }
    fields = [
        _field("manifest_path", 500, "string"),
        _field("manifest_length", 501, "long"),
        _field("partition_spec_id", 502, "int"),
        _field("content", 517, "int"),
        _field("sequence_number", 515, "long"),
        _field("min_sequence_number", 516, "long"),
        _field("added_snapshot_id", 503, "long"),
        _field(f"added_{files}_count", 504, "int"),
        _field(f"existing_{files}_count", 505, "int"),
        _field(f"deleted_{files}_count", 506, "int"),
        _field("added_rows_count", 512, "long"),
        _field("existing_rows_count", 513, "long"),
        _field("deleted_rows_count", 514, "long"),
        _field("partitions", 507, partitions, optional=True),
    ]
    if table.format_version >= 3:
        fields.append(_field("first_row_id", 520, "long", optional=True))
    return RecordSchema.of(
        json.dumps({"type": "record", "name": "manifest_file", "fields": fields}).encode()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFiles:
    """Reads and writes the manifests and lists of one table."""

    table: IcebergTable
    written: list[str] = field(default_factory=list)
    """Paths."""

    @property
    def file_io(self) -> FileIO:
        return self.table.store.file_io

    def write_new(
        self, files: Iterable[Record], snapshot_id: int, content: Content = Content.DATA
    ) -> list[Record]:
        """Write manifests of the files that a snapshot adds; return their records in a list."""
        entry = {"status": Status.ADDED, "snapshot_id": snapshot_id}
        entry |= dict.fromkeys(("sequence_number", "file_sequence_number"), snapshot_id)
        return self.write([{**entry, "data_file": file} for file in files], snapshot_id, content)

    def write(
        self, entries: Sequence[Record], snapshot_id: int, content: Content = Content.DATA
    ) -> list[Record]:
        """Write the manifests of a snapshot's entries; return their records in a list."""
        starts = range(0, len(entries), _ENTRIES_A_MANIFEST)
        parts = [entries[start : start + _ENTRIES_A_MANIFEST] for start in starts]
        return [self._write_one(part, snapshot_id, content) for part in parts]

    def _write_one(self, entries: Sequence[Record], snapshot_id: int, content: Content) -> Record:
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
        files, rows = dict.fromkeys(Status, 0), dict.fromkeys(Status, 0)
        for entry in entries:
            files[Status(entry["status"])] += 1
            rows[Status(entry["status"])] += entry["data_file"]["record_count"]
        live = [entry for entry in entries if entry["status"] != Status.DELETED] or entries
        return {
            "manifest_path": path,
            "manifest_length": size,
            "partition_spec_id": 0,
            "content": int(content),
            "sequence_number": snapshot_id,
            "min_sequence_number": min(entry["sequence_number"] for entry in live),
            "added_snapshot_id": snapshot_id,
            "added_files_count": files[Status.ADDED],
            "existing_files_count": files[Status.EXISTING],
            "deleted_files_count": files[Status.DELETED],
            "added_rows_count": rows[Status.ADDED],
            "existing_rows_count": rows[Status.EXISTING],
            "deleted_rows_count": rows[Status.DELETED],
            "partitions": table.partition_summaries(
                entry["data_file"]["partition"] for entry in entries
            ),
            "first_row_id": None,
        }

    def write_list(self, manifests: Iterable[Record], snapshot_id: int) -> str:
        """Write a manifest list; return its path."""
        path = f"{self.table.metadata_directory}/snap-{snapshot_id}-1-{uuid4()}.avro"
        headers = {
            "snapshot-id": str(snapshot_id).encode(),
            "sequence-number": str(snapshot_id).encode(),
            "format-version": str(self.table.format_version).encode(),
        }
        renamed = [_with_names(each, "_files_", "_data_files_") for each in manifests]
        listed = renamed if self.table.legacy_manifests else list(manifests)
        self._store(path, _list_schema(self.table), listed, headers)
        return path

    def read_list(self, path: str) -> list[Record]:
        return [
            {"first_row_id": None, **_with_names(each, "_data_files_", "_files_")}
            for each in read_container(self.file_io.read_bytes(path), path)
        ]

    def read(self, manifest: Record) -> list[Record]:
        """Return the entries of a manifest; their partitions by the names of columns."""
        path = manifest["manifest_path"]
        entries = list(read_container(self.file_io.read_bytes(path), path))
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
        schema: RecordSchema,
        records: Sequence[Record],
        headers: Mapping[str, bytes],
    ) -> int:
        """Write a file of records; return its size."""
        name, compress = _CODECS[self.table.codec]
        blocks = [
            encode_block(schema, records[start : start + _RECORDS_A_BLOCK], compress)
            for start in range(0, len(records), _RECORDS_A_BLOCK)
        ]
        sync = hashlib.blake2b(b"".join((schema.text, *blocks)), digest_size=16).digest()
        header = encode_header(schema, name, sync, headers)
        data = b"".join((header, *(part for block in blocks for part in (block, sync))))
        self.file_io.write_bytes(path, data)
        self.written.append(path)
        return len(data)


def _with_names(record: Record, old: str, new: str) -> Record:
    return {key.replace(old, new): value for key, value in record.items()}
