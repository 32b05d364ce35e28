"""Damage by chance: tables with one of every file, mutations of bytes, an overlay to read them."""

import io
import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from paimon_assets import EmbeddedExecutor, PaimonError, Schema, open_catalog
from paimon_assets.engine.codec.avro.avro import RecordSchema, _Blocks, encode_header, frame_block
from paimon_assets.engine.control.manifests import SHARED_CACHE
from paimon_assets.engine.fileio.local import LocalFileIO, local_path

EXECUTOR = EmbeddedExecutor(1)
_INTERESTING = (
    b"\xff" * 8, b"\x00" * 8, b"\x7f" + b"\xff" * 7, b"\x80" + b"\x00" * 7, b"\xff\xff\xff\x7f",
    b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f", b"9" * 40, b"-1", b"null", b'"\\ud800"', b"\\u0000",
    b"[" * 30, b"1e999", b"NaN", b"../", b"true", b"{}", b"[]", b"\x00", b'""',
)  # fmt: skip
_SECONDS = 20


class Overlay(LocalFileIO):
    """A disk on which one file holds other bytes.

    Args:
        path: Of the file.
        data: Its content.
    """

    def __init__(self, path: Path, data: bytes) -> None:
        self._path = str(path)
        self._data = data

    def read_bytes(self, path: str) -> bytes:
        return self._data if local_path(path) == self._path else super().read_bytes(path)

    def open_input(self, path: str, size: int | None = None) -> pa.NativeFile:
        if local_path(path) == self._path:
            return pa.BufferReader(self._data)
        return super().open_input(path)

    def file_size(self, path: str) -> int:
        return len(self._data) if local_path(path) == self._path else super().file_size(path)


def mutate(rng: random.Random, data: bytes, *, same_size: bool = False) -> bytes:
    """Return bytes with one to four damages."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at = rng.randrange(len(out)) if out else 0
        kind = rng.randrange(3 if same_size else 8)
        if kind == 0 and out:
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 1 and out:
            out[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        elif kind == 2:
            new = rng.choice(_INTERESTING)[: len(out) - at]
            out[at : at + len(new)] = new
        elif kind == 3:
            del out[at:]
        elif kind == 4:
            out[at:at] = rng.choice(_INTERESTING)
        elif kind == 5:
            del out[at : at + rng.randrange(1, 16)]
        elif kind == 6:
            out[at:at] = out[at : at + rng.randrange(1, 64)] * rng.choice((1, 1, 20))
        else:
            # A number of a JSON text, or a digit of anything.
            digits = [place for place, byte in enumerate(out) if 48 <= byte < 58]
            if digits:
                out[rng.choice(digits)] = rng.choice(b"0123456789-.e")
    return bytes(out)


def uncompress(data: bytes) -> bytes:
    """Return an Avro file with its blocks as they are, so that damage meets the records."""
    blocks = _Blocks.of(io.BytesIO(data), len(data))
    parts = [encode_header(RecordSchema.of(blocks.schema), "null", blocks.sync)]
    for count, payload in blocks.payloads():
        parts += [frame_block(count, payload, bytes), blocks.sync]
    return b"".join(parts)


def forget_manifests() -> None:
    """Let manifests be read again, though their names say that they never change."""
    for key in list(SHARED_CACHE._items):
        SHARED_CACHE.forget(key)


@contextmanager
def only_typed(subject: str) -> Iterator[None]:
    """Let typed errors pass, and name whatever else is raised, or takes too long."""

    def stop(_signal: int, _frame: object) -> None:
        raise TimeoutError(f"{subject}: more than {_SECONDS} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, _SECONDS)
    try:
        yield
    except PaimonError:
        pass
    except BaseException as error:
        error.add_note(subject)
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def make_tables(root: Path) -> list[Path]:
    """Make a table of each file format that has one of every kind of metadata; return the paths."""
    catalog = open_catalog(str(root))
    catalog.create_database("db", ignore_if_exists=True)
    paths = []
    for file_format, has_key in (("parquet", False), ("orc", False), ("avro", True)):
        schema = Schema.of(
            {
                "id": "BIGINT",
                "p": "STRING",
                "v": "STRING",
                "d": "DECIMAL(10, 2)",
                "a": "ARRAY<INT>",
            },
            primary_keys=["id", "p"] if has_key else [],
            partition_keys=["p"],
            options={
                "bucket": "1" if has_key else "-1",
                "file.format": file_format,
                "file.compression": "none",
                "deletion-vectors.enabled": "true",
                "file-index.bloom-filter.columns": "v",
                "file-index.bitmap.columns": "v",
            },
        )
        table = catalog.create_table(f"db.{file_format}", schema)
        for low in (0, 20):
            ids = range(low, low + 40)
            rows = {
                "id": ids, "p": ["a"] * 40, "v": [f"v{i % 7}" for i in ids],
                "d": [None] * 40, "a": [[1, 2]] * 40,
            }  # fmt: skip
            given = pa.table(rows).set_column(3, "d", pa.nulls(40, pa.decimal128(10, 2)))
            table.new_write_builder().write(given, EXECUTOR)
            if has_key:
                table.new_compaction_builder().run(EXECUTOR)
        if not has_key:
            table.new_row_change_builder().delete("id < 5")
        table.tags.create("kept")
        table.analyze()
        paths.append(Path(table.path))
        for path in paths[-1].glob("manifest/*"):
            path.write_bytes(uncompress(path.read_bytes()))
    return paths
