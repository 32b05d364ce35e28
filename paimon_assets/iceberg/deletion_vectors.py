"""Deletion vectors as Iceberg's readers take them: in Puffin files, one for each index file.

Paimon's 64-bit vectors are those of Iceberg, but its index files are no Puffin files, which some
readers open from their end. A file is written once, under a name that the index file and its folder
give.
Source: https://iceberg.apache.org/puffin-spec/, `org.apache.paimon.deletionvectors`.
"""

import json
from collections.abc import Sequence
from zlib import crc32

from paimon_assets.engine.codec.avro.avro import Record
from paimon_assets.engine.codec.bitmaps.deletion_vector import decode_vector, encode_vector
from paimon_assets.engine.control.scan.split_generator import index_path
from paimon_assets.engine.spec.metadata.manifest import (
    DELETION_VECTORS_INDEX,
    DeletionVectorMeta,
    IndexManifestEntry,
)
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.iceberg.table_schema import IcebergTable

_MAGIC = b"PFA1"
_FRAME_BYTES = 8
_BLOB = "deletion-vector-v1"
_ROW_POSITION = 2_147_483_645
"""Id of the column of positions, which the specification asks for."""


def puffin_records(table: IcebergTable, snapshot: Snapshot) -> list[Record]:
    """Return all vectors of a snapshot as files in manifests; writes those that lack."""
    if snapshot.index_manifest is None:
        return []
    found = list[Record]()
    for entry in table.store.manifests.read_index(snapshot.index_manifest):
        vectors = entry.file.deletion_vectors or ()
        if entry.file.index_type == DELETION_VECTORS_INDEX and vectors:
            found += _of_file(table, entry, vectors)
    return found


def _of_file(
    table: IcebergTable, entry: IndexManifestEntry, vectors: Sequence[DeletionVectorMeta]
) -> list[Record]:
    store, source = table.store, index_path(table.store, entry)
    folder = store.bucket_path(entry.partition, entry.bucket)
    place = f"{crc32(folder.encode()):08x}"  # the file names data files, whose paths a rename moves
    path = f"{table.metadata_directory}/{entry.file.file_name}-{place}.puffin"
    data, parts, blobs = store.file_io.read_bytes(source), [_MAGIC], list[dict[str, object]]()
    offset, found = len(_MAGIC), list[Record]()
    for meta in vectors:
        # The length of 32-bit vectors leaves out their frame.
        end = meta.offset + meta.length + _FRAME_BYTES
        framed = data[meta.offset : end]
        vector = decode_vector(framed, source, cardinality=meta.cardinality)
        encoded = encode_vector(vector, bitmap64=True)
        file = f"{folder}/{meta.data_file_name}"
        blobs.append(
            {
                "type": _BLOB,
                "fields": [_ROW_POSITION],
                "snapshot-id": -1,
                "sequence-number": -1,
                "offset": offset,
                "length": len(encoded),
                "properties": {"referenced-data-file": file, "cardinality": str(len(vector))},
            }
        )
        found.append(
            {
                "content": 1,
                "file_path": path,
                "file_format": "PUFFIN",
                "partition": table.partition_record(entry.partition),
                "record_count": len(vector),
                "referenced_data_file": file,
                "content_offset": offset,
                "content_size_in_bytes": len(encoded),
            }
        )
        parts.append(encoded)
        offset += len(encoded)
    footer = json.dumps({"blobs": blobs, "properties": {}}).encode()
    size = len(footer).to_bytes(4, "little")
    content = b"".join((*parts, _MAGIC, footer, size, bytes(4), _MAGIC))
    if not store.file_io.exists(path):
        store.file_io.replace(path, content)  # a killed process leaves no half of one
    return [{**each, "file_size_in_bytes": len(content)} for each in found]
