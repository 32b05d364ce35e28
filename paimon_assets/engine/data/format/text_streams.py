"""Bytes of text files on their way to a parser: decompressed, in UTF-8, in the parser's own form.

pyarrow knows neither comments in CSV nor JSON in one array; both are taken out of the stream here,
a block at a time, without a copy of the file.
"""

import io
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.segments.text_options import TextOptions

BLOCK_BYTES = 4 * 1024 * 1024
_MOST_COLUMNS = 20_480
"""Of a CSV, as for Spark's reader; pyarrow would make a converter for each of a million."""
_HEADER_BYTES = 64 * 1024
COMPRESSIONS: Mapping[str, Any] = {"gz": "gzip", "bz2": "bz2", "zst": "zstd", "lz4": "lz4"}
"""Suffix of a file's name → codec."""
_OPEN, _CLOSE = b"[{", b"]}"

Bytes = npt.NDArray[np.uint8]


def open_text_stream(file_io: FileIO, path: str, options: TextOptions) -> Any:
    """Open the bytes of a text file in UTF-8, decompressed by the suffix of its name."""
    source: Any = file_io.open_input(path)
    codec = COMPRESSIONS.get(path.rpartition(".")[2].lower())
    stream = source if codec is None else pa.CompressedInputStream(source, codec)
    if options.encoding == "utf-8":
        return stream
    return pa.transcoding_input_stream(stream, options.encoding, "utf-8")


def check_width(stream: Any, delimiter: str) -> None:
    """Refuse a CSV whose first line names too many columns, before a parser sees it.

    Cost:
        The first line, 64 KiB at a time.
    """
    columns, mark = 1, delimiter.encode()
    while columns <= _MOST_COLUMNS and (block := bytes(stream.read(_HEADER_BYTES))):
        line, end, _ = block.replace(b"\r", b"\n").partition(b"\n")
        columns += line.count(mark)
        if end:
            break
    if columns > _MOST_COLUMNS:
        raise pa.ArrowInvalid(f"its first line names more than {_MOST_COLUMNS:,} columns")


class _Blocks(io.RawIOBase):
    """A file of blocks that are made as they are read."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks, self._rest = blocks, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            block = next(self._blocks, None)
            if block is None:
                return 0
            self._rest = memoryview(block)
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count


def without_comments(stream: Any, options: TextOptions) -> Any:
    """Return a CSV without the lines that begin with a comment; lines inside quotes stay."""
    return pa.PythonFile(io.BufferedReader(_Blocks(_uncommented(stream, options))), mode="r")


def _uncommented(stream: Any, options: TextOptions) -> Iterator[bytes]:
    quoted = 0
    for lines in _whole_lines(stream):
        data = np.frombuffer(lines, dtype=np.uint8)
        starts = np.concatenate([[0], np.flatnonzero(data == ord("\n")) + 1])
        starts = starts[starts < len(data)]
        lengths = np.diff(np.append(starts, len(data)))
        quotes = np.zeros(len(data) + 1, dtype=np.int64)
        if options.quote:
            np.cumsum(data == ord(options.quote), out=quotes[1:])
        kept = np.ones(len(starts), dtype=np.bool_)
        for line in np.flatnonzero(data[starts] == ord(options.comment)).tolist():
            start, end = starts[line], starts[line] + lengths[line]
            if (quotes[start] + quoted) % 2 == 0:
                kept[line] = False
                quoted += int(quotes[end] - quotes[start])  # those of a comment quote nothing
        quoted = int(quotes[-1] + quoted) % 2
        if kept.all():
            yield lines
        else:
            yield data[np.repeat(kept, lengths)].tobytes()


def _whole_lines(stream: Any) -> Iterator[bytes]:
    rest = b""
    while block := stream.read(BLOCK_BYTES):
        whole, newline, rest = (rest + bytes(block)).rpartition(b"\n")
        if newline:
            yield whole + newline
    if rest:
        yield rest


def without_array(stream: Any) -> Any:
    """Return JSON in one array as objects one after another; objects alone stay as they are."""
    return pa.PythonFile(io.BufferedReader(_Blocks(_objects(stream))), mode="r")


def _objects(stream: Any) -> Iterator[bytes]:
    """Blank the brackets of the outer array, and end lines at its commas."""
    in_text, escapes, depth, is_array = 0, 0, 0, None
    while block := stream.read(BLOCK_BYTES):
        data = np.frombuffer(block, dtype=np.uint8).copy()
        if is_array is None:
            begun = bytes(block).lstrip(b"\xef\xbb\xbf \t\r\n")
            is_array = begun.startswith(b"[") if begun else None
        if is_array:
            escaped, escapes = _escaped(data, escapes)
            quotes = np.cumsum((data == ord('"')) & ~escaped) + in_text
            in_text = int(quotes[-1]) % 2
            outside = (quotes % 2 == 0) & (data != ord('"'))
            opens = outside & np.isin(data, np.frombuffer(_OPEN, dtype=np.uint8))
            closes = outside & np.isin(data, np.frombuffer(_CLOSE, dtype=np.uint8))
            depths = np.cumsum(opens.astype(np.int64) - closes) + depth
            depth = int(depths[-1])
            data[(opens & (depths == 1)) | (closes & (depths == 0))] = ord(" ")
            data[outside & (depths == 1) & (data == ord(","))] = ord("\n")
        yield data.tobytes()


def _escaped(data: Bytes, before: int) -> tuple[npt.NDArray[np.bool_], int]:
    """Return which bytes follow an odd number of backslashes, and how many end the block."""
    places = np.arange(len(data))
    others = np.maximum.accumulate(np.where(data == ord("\\"), -1 - before, places))
    runs = places - np.concatenate([[-1 - before], others[:-1]]) - 1
    return runs % 2 == 1, int(len(data) - 1 - others[-1])
