"""Bytes of text files on their way to a parser: decompressed, in UTF-8, in the parser's own form.

pyarrow knows neither comments in CSV nor JSON in one array; both are taken out of the stream here,
a block at a time, without a copy of the file. Nor does it take objects as maps, or numbers and
objects as texts: members are written another way.
"""

import io
from collections.abc import Collection, Iterator, Mapping
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
Longs = npt.NDArray[np.int64]


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
            escaped, escapes = _escape(data, escapes)
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


def _escape(data: Bytes, before: int) -> tuple[npt.NDArray[np.bool_], int]:
    """Return which bytes follow an odd number of backslashes, and how many end the block."""
    places = np.arange(len(data))
    others = np.maximum.accumulate(np.where(data == ord("\\"), -1 - before, places))
    runs = places - np.concatenate([[-1 - before], others[:-1]]) - 1
    return runs % 2 == 1, int(len(data) - 1 - others[-1])


def with_plain_members(stream: Any, texts: Collection[str], maps: Collection[str]) -> Any:
    """Return JSON lines whose members a parser of columns takes: texts as texts, maps as lists."""
    lines = (_plain_members(block, texts, maps) for block in _whole_lines(stream))
    return pa.PythonFile(io.BufferedReader(_Blocks(lines)), mode="r")


def _plain_members(lines: bytes, texts: Collection[str], maps: Collection[str]) -> bytes:
    """Insert what is missing; what is no JSON stays as it is, for the parser to refuse."""
    data = np.frombuffer(lines, dtype=np.uint8).copy()
    quote = (data == ord('"')) & ~_escape(data, 0)[0]
    outside = (np.cumsum(quote) % 2 == 0) & ~quote
    opens, closes = (outside & _among(data, marks) for marks in (_OPEN, _CLOSE))
    depth = np.cumsum(opens.astype(np.int64) - closes)
    comma, colon = outside & (data == ord(",")), outside & (data == ord(":"))
    quotes, shown = np.flatnonzero(quote), np.flatnonzero(~_among(data, b" \t\r\n"))
    ends = np.flatnonzero((comma & (depth == 1)) | (closes & (depth == 0)))
    members = np.flatnonzero(colon & (depth == 1))
    names = np.searchsorted(quotes, members) - 1
    if not len(members) or names.min() < 1 or not len(ends) or members[-1] > ends[-1]:
        return lines
    first = shown[np.searchsorted(shown, members + 1)]
    last = shown[np.searchsorted(shown, ends[np.searchsorted(ends, members)]) - 1]
    spans = (quotes[names - 1] + 1, quotes[names])

    bare = _is_named(data, *spans, texts) & ~_among(data[first], b'"n')
    inside = _within(len(data), first[bare], last[bare])
    tabs = inside & (data == ord("\t"))
    escaped = np.flatnonzero(tabs | (inside & _among(data, b'"\\')))
    data[tabs] = ord("t")

    is_map = _is_named(data, *spans, maps) & (data[first] == ord("{"))
    empty = is_map & (shown[np.searchsorted(shown, first) + 1 - len(shown)] == last)
    data[first[empty]], data[last[empty]] = ord("["), ord("]")
    is_map &= ~empty
    entries = _within(len(data), first[is_map], last[is_map]) & (depth == 2)
    commas = np.flatnonzero(entries & comma)
    return _insert(
        data,
        (first[bare], b'"'),
        (last[bare] + 1, b'"'),
        (escaped, b"\\"),
        (first[is_map], b"["),
        (first[is_map] + 1, b'"key":'),
        (np.flatnonzero(entries & colon), b',"value"'),
        (commas, b"}"),
        (commas + 1, b'{"key":'),
        (last[is_map] + 1, b"]"),
    )


def _among(data: Bytes, marks: bytes) -> npt.NDArray[np.bool_]:
    flags = np.zeros(256, dtype=np.bool_)
    flags[list(marks)] = True
    return flags[data]


def _is_named(
    data: Bytes, starts: Longs, ends: Longs, names: Collection[str]
) -> npt.NDArray[np.bool_]:
    """Return which stretches of text are one of some names."""
    found = np.zeros(len(starts), dtype=np.bool_)
    for name in names:
        text = np.frombuffer(name.encode(), dtype=np.uint8)
        alike = np.flatnonzero(ends - starts == len(text))
        same = data[starts[alike, np.newaxis] + np.arange(len(text))] == text
        found[alike[same.all(axis=1)]] = True
    return found


def _within(length: int, first: Longs, last: Longs) -> npt.NDArray[np.bool_]:
    """Return which places lie in stretches; `last` is the last of each."""
    steps = np.zeros(length + 1, dtype=np.int64)
    steps[first] += 1
    steps[last + 1] -= 1
    return np.cumsum(steps)[:-1] > 0


def _insert(data: Bytes, *insertions: tuple[Longs, bytes]) -> bytes:
    """Return data with texts before some places, at most one before each."""
    added = np.zeros(len(data) + 1, dtype=np.int64)
    for places, text in insertions:
        added[places] = len(text)
    moved = np.arange(len(data) + 1) + np.cumsum(added)
    result = np.empty(moved[-1], dtype=np.uint8)
    result[moved[:-1]] = data
    for places, text in insertions:
        starts = moved[places] - len(text)
        result[starts[:, np.newaxis] + np.arange(len(text))] = np.frombuffer(text, dtype=np.uint8)
    return result.tobytes()
