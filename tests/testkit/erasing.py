"""Whether a marked value is left in any file of a folder: in its bytes, or when they are decoded.

>>> from tempfile import TemporaryDirectory
>>> with TemporaryDirectory() as folder:
...     _ = (Path(folder) / "a").write_bytes(b"some marked value")
...     files_with(folder, "marked"), files_with(folder, "other")
(['a'], [])
"""

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.orc
import pyarrow.parquet


def files_with(folder: str | Path, text: str) -> list[str]:
    """Return the files whose path, bytes or decoded rows and metadata hold a text."""
    paths = sorted(path for path in Path(folder).rglob("*") if path.is_file())
    names = [path.relative_to(folder) for path in paths]
    return [
        str(name)
        for name, path in zip(names, paths, strict=True)
        if text in str(name) or any(text.encode() in part for part in _parts(path))
    ]


def rows_of(data: bytes) -> list[Any]:
    """Return the rows or records of a file of Parquet, ORC or Avro, else none."""
    source: Any = BytesIO(data)
    match data[:3]:
        case b"PAR":
            return pyarrow.parquet.ParquetFile(source).read().to_pylist()
        case b"ORC":
            return pyarrow.orc.ORCFile(source).read().to_pylist()
        case b"Obj":
            return list(fastavro.reader(source))
        case _:
            return []


def stored_rows(folder: str | Path) -> list[Any]:
    """Return the rows of all data files below a folder."""
    return [row for path in Path(folder).rglob("bucket-*/*") for row in rows_of(path.read_bytes())]


def _parts(path: Path) -> Iterator[bytes]:
    data = path.read_bytes()
    yield data
    yield from _bytes_of(rows_of(data))
    if data[:3] == b"PAR":
        yield repr(pyarrow.parquet.ParquetFile(BytesIO(data)).metadata.to_dict()).encode()


def _bytes_of(value: Any) -> Iterator[bytes]:
    """Yield the bytes of all values inside a record: statistics are encoded rows."""
    match value:
        case bytes():
            yield value
        case dict():
            for each in value.values():
                yield from _bytes_of(each)
        case list():
            for each in value:
                yield from _bytes_of(each)
        case _:
            yield repr(value).encode()
