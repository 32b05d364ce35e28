"""Streams of text files for pyarrow's parsers: decompressed, in UTF-8, in a form they can parse.

The parsers know neither comments and Spark's escapes in CSV nor JSON in one array; these go from
the stream, a block at a time. Nor do they parse objects as maps, or numbers and objects as
texts: such members are rewritten.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_assets.engine.codec.arrow.numpy_columns import Bytes, Longs, flags_at
from paimon_assets.engine.codec.json.record_check import BLOCK_BYTES, escaped_places
from paimon_assets.engine.codec.row_files import MOST_COLUMNS, as_file
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.fileio.ranged import read_through
from paimon_assets.engine.spec.segments.text_options import TextOptions

_HEADER_BYTES = 64 * 1024
_CACHED_BYTES = 256 * 1024
"""Of which the flags stay in the cache of a core."""
_LONGEST_EMPTY = 1024
"""Longer files have rows, or are refused; no request is made to look."""
COMPRESSIONS: Mapping[str, Any] = {"gz": "gzip", "bz2": "bz2", "zst": "zstd", "lz4": "lz4"}
"""Suffix of a file's name → codec."""
_PACKED = {
    "gzip": rb"\x1f\x8b",
    "bzip2": rb"BZh\d1AY&SY",
    "zstd": rb"\x28\xb5\x2f\xfd",
    "lz4": rb"\x04\x22\x4d\x18",
    "xz": rb"\xfd7zXZ",
    "lzma": rb"(?s)\]\0\0..(\xff{8}|.{6}\0\0)",
    "7z": rb"7z\xbc\xaf\x27\x1c",
    "compress": rb"\x1f\x9d",
    "snappy": rb"\xff\x06\0\0sNaPpY",
    "zip": rb"PK\x03\x04",
}
"""Program → how its files begin."""
MAGIC_BYTES = 13
UNPACKED = (
    "Only CSV and JSON files are decompressed, and their names end in "
    f"{', '.join('.' + suffix for suffix in COMPRESSIONS)}."
)
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_WIDE = re.compile(
    rb"(?s)(?P<utf_32>\xff\xfe\0\0|\0\0\xfe\xff)|(?P<utf_16>\xff\xfe|\xfe\xff)"
    rb"|(?P<utf_32_le>.\0\0\0)|(?P<utf_32_be>\0\0\0)|(?P<utf_16_le>.\0.\0)|(?P<utf_16_be>\0.\0)"
)
"""How files of other encodings begin, of Latin text where they have no mark."""
_MARK_BYTES = 4
_OPEN, _CLOSE = b"[{", b"]}"
_CHANGED = re.compile(r"Column\(/([^/)]+)")


def open_text_stream(
    file_io: FileIO, path: str, options: TextOptions, size: int | None = None
) -> Any:
    """Open the bytes of a text file in UTF-8, decompressed by the suffix of its name."""
    source: Any = file_io.open_input(path, size)
    read_through(source)
    codec = COMPRESSIONS.get(path.rpartition(".")[2].lower())
    stream = source if codec is None else pa.CompressedInputStream(source, codec)
    if options.encoding == "utf-8":
        start = bytes(stream.read(_MARK_BYTES))
        if wide := _WIDE.match(start):
            encoding = str(wide.lastgroup).replace("_", "-")
            raise pa.ArrowInvalid(f"it begins as {encoding}, not as UTF-8")
        if codec is not None:
            rest = iter(lambda: bytes(stream.read(BLOCK_BYTES)), b"")
            return as_file(chain([start] if start else [], rest))
        source.seek(0)
        return source
    if codec is None:  # bytes that are no text would be letters of many encodings
        program = program_of(bytes(source.read(MAGIC_BYTES)))
        if program:
            raise pa.ArrowInvalid(f"it is compressed with {program}. {UNPACKED}")
        source.seek(0)
    return pa.transcoding_input_stream(stream, options.encoding, "utf-8")


def program_of(start: bytes) -> str:
    """Return the program that compresses files which begin so; empty if there is none."""
    return next((name for name, magic in _PACKED.items() if re.match(magic, start)), "")


def has_rows(
    file_io: FileIO, path: str, size: int, options: TextOptions, *, is_json: bool = False
) -> bool:
    """Whether a CSV or JSON file holds more than blanks and, as JSON, an empty array."""
    if size > _LONGEST_EMPTY:
        return True
    with open_text_stream(file_io, path, options, size) as stream:
        # A line of blanks may be a row of a CSV, but holds no names.
        blanks = b" \t\r\n" if is_json or options.has_header else b"\r\n"
        text = bytes(stream.read(_HEADER_BYTES)).translate(None, blanks)
    return text.removeprefix(BYTE_ORDER_MARK) not in ((b"", b"[]") if is_json else (b"",))


def check_width(stream: Any, delimiter: str) -> None:
    """Refuse a CSV whose first line names too many columns, before it is parsed."""
    columns, mark = 1, delimiter.encode()
    while columns <= MOST_COLUMNS and (block := bytes(stream.read(_HEADER_BYTES))):
        line, end, _ = block.replace(b"\r", b"\n").partition(b"\n")
        columns += line.count(mark)
        if end:
            break
    if columns > MOST_COLUMNS:
        raise pa.ArrowInvalid(f"its first line names more than {MOST_COLUMNS:,} columns")


def without_escapes(stream: Any, options: TextOptions) -> Iterator[bytes]:
    """Yield a CSV whose quotes are doubled, not escaped: in quoted values, as Spark reads them."""
    quote, escape = options.quote.encode()[0], options.escape.encode()[0]
    edges = f"{options.delimiter}\r\n".encode()
    in_quotes = False
    for lines in whole_lines(stream):
        data = np.frombuffer(lines, dtype=np.uint8).copy()
        escaped, _ = escaped_places(data, escape=escape)
        is_quote = data == quote
        is_quote[escaped] = False
        # A value begins and ends with an odd number of quotes at its edge; further ones are text.
        quotes = np.flatnonzero(is_quote)
        is_first = np.diff(quotes, prepend=-2) != 1
        starts, ends = quotes[is_first], quotes[np.append(is_first[1:], True)[: len(quotes)]]
        at_edge = np.concatenate([[True], _is_one_of(data, edges), [True]])
        is_odd = (ends - starts) % 2 == 0
        may_begin, may_end = is_odd & at_edge[starts], is_odd & at_edge[ends + 2]
        numbers = np.arange(len(starts))
        last = np.maximum.accumulate(np.where(may_begin ^ may_end, numbers, -1))
        turns = np.cumsum(np.append(0, may_begin & may_end))
        turned = turns[1:] - turns[last + 1]
        states = np.where(last < 0, in_quotes, may_begin[last]) ^ (turned % 2 == 1)
        states = np.append(in_quotes, states)
        in_quotes = bool(states[-1])
        inside = escaped[states[np.searchsorted(ends, escaped)]]
        data[inside[data[inside] == quote] - 1] = quote
        stays = np.ones(len(data), dtype=np.bool_)
        stays[inside[data[inside] == escape] - 1] = False
        yield data[stays].tobytes()


def without_comments(stream: Any, options: TextOptions) -> Iterator[bytes]:
    """Yield a CSV without the lines that begin with a comment; lines inside quotes stay."""
    quoted, line_end = 0, b""
    for lines in whole_lines(stream):
        data, line_end = np.frombuffer(lines, dtype=np.uint8), line_end or _line_end(lines)
        starts = np.concatenate([[0], np.flatnonzero(data == ord(line_end)) + 1])
        starts = starts[starts < len(data)]
        lengths = np.diff(np.append(starts, len(data)))
        quotes = np.zeros(len(data) + 1, dtype=np.int64)
        if options.quote:
            np.cumsum(data == ord(options.quote), out=quotes[1:])
        stays = np.ones(len(starts), dtype=np.bool_)
        for line in np.flatnonzero(data[starts] == ord(options.comment)).tolist():
            start, end = starts[line], starts[line] + lengths[line]
            if (quotes[start] + quoted) % 2 == 0:
                stays[line] = False
                quoted += int(quotes[end] - quotes[start])  # quotes inside a comment do not count
        quoted = int(quotes[-1] + quoted) % 2
        yield lines if stays.all() else data[np.repeat(stays, lengths)].tobytes()


class LineCount:
    """The number of lines of a CSV that are not blank."""

    def __init__(self) -> None:
        self.lines = 0

    def count(self, blocks: Iterable[bytes]) -> Iterator[bytes]:
        was_end = True
        for block in blocks:
            data, has_cr = np.frombuffer(block, dtype=np.uint8), b"\r" in block
            for start in range(0, len(data), _CACHED_BYTES):
                some = data[start : start + _CACHED_BYTES]
                is_end = some == ord("\n")
                if has_cr:
                    is_end |= some == ord("\r")
                self.lines += int(np.count_nonzero(is_end[:-1] > is_end[1:]))
                self.lines += was_end and not is_end[0]
                was_end = bool(is_end[-1])
            yield block


def whole_lines(stream: Any) -> Iterator[bytes]:
    """Yield blocks that end where a line ends: at LF, or at CR in a file without LF."""
    rest, end = bytes(stream.read(len(BYTE_ORDER_MARK))).removeprefix(BYTE_ORDER_MARK), b""
    while more := stream.read(BLOCK_BYTES):
        block = rest + bytes(more)
        end = end or _line_end(block)
        whole, newline, rest = block.rpartition(end)
        if newline:
            yield whole + newline
    if rest:
        yield rest


def _line_end(block: bytes) -> bytes:
    return b"\r" if b"\r" in block[:-1] and b"\n" not in block else b"\n"


def without_array(stream: Any) -> Iterator[bytes]:
    """Yield the objects of an array, or of JSON without one: each in one line, if texts are valid.

    Raises:
        pa.ArrowInvalid: The array does not end.
    """
    in_text, is_escaped, depth, is_array = 0, False, 0, None
    while block := stream.read(BLOCK_BYTES):
        data = np.frombuffer(block, dtype=np.uint8).copy()
        if is_array is None:
            head = bytes(block).lstrip(BYTE_ORDER_MARK + b" \t\r\n")
            is_array = head.startswith(b"[") if head else None
        # A byte is outside of texts if the quotes up to it are even in number. Parity, depth and a
        # backslash at the end carry over to the next block.
        quote = data == ord('"')
        escaped, is_escaped = escaped_places(data, is_escaped=is_escaped)
        quote[escaped] = False
        quotes = np.cumsum(quote) + in_text
        in_text = int(quotes[-1]) % 2
        outside = (quotes % 2 == 0) & (data != ord('"'))
        opens, closes = (outside & _is_one_of(data, marks) for marks in (_OPEN, _CLOSE))
        depths = np.cumsum(opens.astype(np.int64) - closes) + depth
        depth = int(depths[-1])
        data[outside & (depths > bool(is_array)) & _is_one_of(data, b"\r\n")] = ord(" ")
        if is_array:
            data[(opens & (depths == 1)) | (closes & (depths == 0))] = ord(" ")
            data[outside & (depths == 1) & (data == ord(","))] = ord("\n")
        yield data.tobytes()
    if is_array and depth > 0:
        raise pa.ArrowInvalid("its array does not end: the file is cut short")


def has_object_a_line(lines: bytes) -> bool:
    """Whether each line of JSON is one object, and no line is blank."""
    data = np.frombuffer(lines, dtype=np.uint8)
    quote = data == ord('"')
    quote[escaped_places(data)[0]] = False
    outside = (np.cumsum(quote) % 2 == 0) & ~quote
    opens, closes = (outside & _is_one_of(data, marks) for marks in (_OPEN, _CLOSE))
    ends = np.flatnonzero(closes & (np.cumsum(opens.astype(np.int64) - closes) == 0))
    bounds = np.append(
        np.flatnonzero(data == ord("\n")), [] if data[-1] == ord("\n") else len(data)
    )
    return bool((np.diff(np.searchsorted(ends, bounds), prepend=0) == 1).all())


def changed_member(error: pa.ArrowInvalid) -> str:
    """Return the member whose values had several types; empty if that is not the fault."""
    found = _CHANGED.search(str(error))
    return found[1] if found else ""


def with_plain_members(
    stream: Any, texts: Collection[str], maps: Collection[str]
) -> Iterator[bytes]:
    """Yield JSON lines with some members as texts, and some maps as lists of entries."""
    return (_plain_members(block, texts, maps) for block in whole_lines(stream))


def _plain_members(lines: bytes, texts: Collection[str], maps: Collection[str]) -> bytes:
    """Insert quotes and brackets; invalid JSON stays unchanged, so that the parser refuses it."""
    data = np.frombuffer(lines, dtype=np.uint8).copy()
    # Member i of all objects has the name between the quotes before its colon, and the value from
    # `first` to `last`; both are visible bytes.
    quote = data == ord('"')
    quote[escaped_places(data)[0]] = False
    outside = (np.cumsum(quote) % 2 == 0) & ~quote
    opens, closes = (outside & _is_one_of(data, marks) for marks in (_OPEN, _CLOSE))
    depth = np.cumsum(opens.astype(np.int64) - closes)
    comma, colon = outside & (data == ord(",")), outside & (data == ord(":"))
    quotes, visible = np.flatnonzero(quote), np.flatnonzero(~_is_one_of(data, b" \t\r\n"))
    ends = np.flatnonzero((comma & (depth == 1)) | (closes & (depth == 0)))
    members = np.flatnonzero(colon & (depth == 1))
    names = np.searchsorted(quotes, members) - 1
    if not len(members) or names.min() < 1 or not len(ends) or members[-1] > ends[-1]:
        return lines
    first = visible[np.searchsorted(visible, members + 1)]
    last = visible[np.searchsorted(visible, ends[np.searchsorted(ends, members)]) - 1]
    spans = (quotes[names - 1] + 1, quotes[names])
    text_names, map_names = (_spellings(data, *spans, each) for each in (texts, maps))

    bare = _is_named(data, *spans, text_names) & ~_is_one_of(data[first], b'"n')
    inside = _within(len(data), first[bare], last[bare])
    tabs = inside & (data == ord("\t"))
    escaped = np.flatnonzero(tabs | (inside & _is_one_of(data, b'"\\')))
    data[tabs] = ord("t")

    is_map = _is_named(data, *spans, map_names) & (data[first] == ord("{"))
    empty = is_map & (visible[np.searchsorted(visible, first) + 1 - len(visible)] == last)
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


def _is_one_of(data: Bytes, marks: bytes) -> npt.NDArray[np.bool_]:
    return flags_at(np.array([*marks]), 256)[data]


def _spellings(
    data: Bytes, starts: Longs, ends: Longs, names: Collection[str]
) -> Collection[bytes]:
    """Return names as bytes, and as those that have escapes are spelt in the data."""
    escapes = np.append(0, np.cumsum(data == ord("\\")))
    escaped = escapes[ends] > escapes[starts]
    first, end = starts[escaped], ends[escaped]
    letters = data[_within(len(data), first, end - 1)].tobytes()
    bounds = np.append(0, np.cumsum(end - first)).astype(np.int64)
    buffers = [None, pa.py_buffer(bounds.tobytes()), pa.py_buffer(letters)]
    spelt: list[Any] = (
        pa.Array.from_buffers(pa.large_binary(), len(first), buffers).unique().to_pylist()
    )
    return [*(name.encode() for name in names), *(each for each in spelt if _name(each) in names)]


def _name(spelling: bytes) -> str | None:
    try:
        return str(json.loads(b'"%s"' % spelling))
    except ValueError:
        return None


def _is_named(
    data: Bytes, starts: Longs, ends: Longs, names: Collection[bytes]
) -> npt.NDArray[np.bool_]:
    mask = np.zeros(len(starts), dtype=np.bool_)
    for name in names:
        text = np.frombuffer(name, dtype=np.uint8)
        candidates = np.flatnonzero(ends - starts == len(text))
        same = data[starts[candidates, np.newaxis] + np.arange(len(text))] == text
        mask[candidates[same.all(axis=1)]] = True
    return mask


def _within(length: int, first: Longs, last: Longs) -> npt.NDArray[np.bool_]:
    """Return which positions are in ranges; `last` is the last position of each."""
    steps = np.zeros(length + 1, dtype=np.int64)
    steps[first] += 1
    steps[last + 1] -= 1
    return np.cumsum(steps)[:-1] > 0


def _insert(data: Bytes, *insertions: tuple[Longs, bytes]) -> bytes:
    """Return data with texts before some positions, at most one before each."""
    added = np.zeros(len(data) + 1, dtype=np.int64)
    for positions, text in insertions:
        added[positions] = len(text)
    moved = np.arange(len(data) + 1) + np.cumsum(added)
    result = np.empty(moved[-1], dtype=np.uint8)
    result[moved[:-1]] = data
    for positions, text in insertions:
        starts = moved[positions] - len(text)
        result[starts[:, np.newaxis] + np.arange(len(text))] = np.frombuffer(text, dtype=np.uint8)
    return result.tobytes()
