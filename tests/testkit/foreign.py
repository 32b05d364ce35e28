"""Folders of foreign files for segments, and proof that they are unchanged."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.orc as orc
import pyarrow.parquet as pq

from paimon_assets import SegmentSource, Table
from paimon_assets.engine.codec.avro.avro import RecordSchema, deflate, encode_block, encode_header
from paimon_assets.engine.table.segments.segments import SegmentOutcome

_FIELDS: dict[str, Any] = {"a": pa.int32(), "b": pa.string()}
AB = pa.schema(_FIELDS)
FileState = tuple[int, int, str]
"""(inode, mtime in nanoseconds, digest)."""


def rows(*pairs: tuple[int | None, str | None]) -> pa.Table:
    """Return a table of columns a INT and b STRING."""
    return pa.table({"a": [a for a, _ in pairs], "b": [b for _, b in pairs]}, schema=AB)


def write(path: Path, table: pa.Table) -> Path:
    """Write a file in the format of its extension, with its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    match path.suffix:
        case ".parquet":
            pq.write_table(table, path)
        case ".orc":
            orc.write_table(table, path)
        case ".avro":
            path.write_bytes(_avro(table))
        case ".csv":
            pa_csv.write_csv(table, path)
        case ".json":
            path.write_text("\n".join(json.dumps(row) for row in table.to_pylist()))
        case ".txt":
            path.write_text("\n".join(map(str, table.column("value").to_pylist())))
        case other:
            raise ValueError(other)
    return path


def add_segment(
    table: Table, path: object, format_name: str = "parquet", **more: Any
) -> SegmentOutcome:
    """Make files a segment of a table; `more` are arguments of `SegmentSource`."""
    place = None if path is None else str(path)
    return table.segments().add(SegmentSource(path=place, format=format_name, **more))


def _avro(table: pa.Table) -> bytes:
    names = {pa.int32(): "int", pa.int64(): "long", pa.string(): "string", pa.float64(): "double"}
    fields = ",".join(
        f'{{"name":"{field.name}","type":["null","{names[field.type]}"]}}' for field in table.schema
    )
    schema = RecordSchema.of(f'{{"type":"record","name":"r","fields":[{fields}]}}'.encode())
    sync = bytes(range(16))
    block = encode_block(schema, table.to_pylist(), deflate)
    return encode_header(schema, "deflate", sync) + block + sync


def states(folder: Path) -> Mapping[str, FileState]:
    """Return inode, time and digest of every file below a folder."""
    return {
        str(path.relative_to(folder)): (
            path.stat().st_ino,
            path.stat().st_mtime_ns,
            hashlib.sha256(path.read_bytes()).hexdigest(),
        )
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
