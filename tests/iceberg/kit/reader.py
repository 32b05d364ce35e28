"""A small reader of Iceberg tables: documents, manifest lists, manifests by fastavro, Parquet.

It follows the specification, not the writer of the metadata.
"""

import json
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

_LIVE = (0, 1)


def newest(folder: Path | str) -> dict[str, Any]:
    """Return the document that the hint of a folder of metadata leads to."""
    folder = Path(folder)
    version = folder.joinpath("version-hint.text").read_text(encoding="utf-8")
    document: dict[str, Any] = json.loads(folder.joinpath(f"v{version}.metadata.json").read_bytes())
    return document


def records(path: str) -> list[dict[str, Any]]:
    with Path(path).open("rb") as file:
        return list(fastavro.reader(file))  # type: ignore[arg-type]


def snapshot(document: Mapping[str, Any], number: int | None = None) -> dict[str, Any]:
    wanted = document["current-snapshot-id"] if number is None else number
    (found,) = [each for each in document["snapshots"] if each["snapshot-id"] == wanted]
    return found  # type: ignore[no-any-return]


def manifests(document: Mapping[str, Any], number: int | None = None) -> list[dict[str, Any]]:
    return records(snapshot(document, number)["manifest-list"])


def live_files(
    document: Mapping[str, Any], number: int | None = None, *, content: int = 0
) -> Iterator[dict[str, Any]]:
    """Yield data files, or with content 1 the deletion vectors."""
    for manifest in manifests(document, number):
        if manifest["content"] != content:
            continue
        counts = dict.fromkeys(range(3), 0)
        for entry in records(manifest["manifest_path"]):
            counts[entry["status"]] += 1
            if entry["status"] in _LIVE:
                yield entry["data_file"]
        names = ("existing_files_count", "added_files_count", "deleted_files_count")
        assert [manifest[name] for name in names] == [counts[status] for status in range(3)]


def rows(document: Mapping[str, Any], number: int | None = None) -> list[tuple[Any, ...]]:
    """Return the rows of a snapshot, in order, by the ids of top-level columns."""
    schema_id = document["current-schema-id"]
    if number is not None:
        schema_id = snapshot(document, number)["schema-id"]
    (schema,) = [each for each in document["schemas"] if each["schema-id"] == schema_id]
    found = []
    deleted = {
        file["referenced_data_file"]: _deleted_positions(file)
        for file in live_files(document, number, content=1)
    }
    for file in live_files(document, number):
        data = pq.read_table(file["file_path"])
        assert (data.num_rows, Path(file["file_path"]).stat().st_size) == (
            file["record_count"],
            file["file_size_in_bytes"],
        )
        ids = {
            int((field.metadata or {})[b"PARQUET:field_id"]): field.name for field in data.schema
        }
        columns = [
            data[ids[field["id"]]].to_pylist() if field["id"] in ids else [None] * data.num_rows
            for field in schema["fields"]
        ]
        gone = deleted.get(file["file_path"], frozenset())
        found += [row for n, row in enumerate(zip(*columns, strict=True)) if n not in gone]
    return sorted(found, key=repr)


def _deleted_positions(file: Mapping[str, Any]) -> frozenset[int]:
    """Return the positions of a deletion vector: a length, magic, a bitmap, a checksum."""
    whole = Path(file["file_path"]).read_bytes()
    assert whole[:4] == whole[-4:] == b"PFA1"
    start, size = file["content_offset"], file["content_size_in_bytes"]
    blob = whole[start : start + size]
    assert int.from_bytes(blob[:4], "big") == size - 8
    assert blob[4:8] == bytes.fromhex("d1d33964")
    assert int.from_bytes(blob[-4:], "big") == zlib.crc32(blob[4:-4])
    positions = frozenset(BitMap64.deserialize(blob[8:-4]))
    assert len(positions) == file["record_count"]
    return positions


def ours(table: pa.Table) -> list[tuple[Any, ...]]:
    """Return rows of a read in the order of `rows`."""
    return sorted(zip(*table.to_pydict().values(), strict=True), key=repr)
