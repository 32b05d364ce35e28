"""Checks JSON from outside before Arrow's reader: records are objects, in UTF-8.

Arrow's reader ends the process if a block begins with `null`, or nests deep. So `checked_records`
or `check_records` checks all JSON that it reads. Cost: 2 ns a byte; the reader takes 3 to 8.
"""

import codecs
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Bytes = npt.NDArray[np.uint8]
Longs = npt.NDArray[np.int64]

BLOCK_BYTES = 4 * 1024 * 1024
"""Of which Arrow's reader parses one after the other; each begins at a line or an object."""
MOST_LEVELS = 128
"""Of arrays and objects inside each other; Arrow's reader takes 1 KB of its stack for each."""
_MARKS = b'{}[]"n\n'
_NO_MARKS = bytes(set(range(256)) - set(_MARKS))
_QUOTE, _NEWLINE, _BACKSLASH, _BLANK = b'"\n\\ '
_STEPS = np.zeros(256, dtype=np.int8)
_STEPS[list(b"{[")], _STEPS[list(b"}]")] = 1, -1
_MAY_STAND = np.zeros(256, dtype=np.bool_)
_MAY_STAND[list(b"{\n")] = True
"""Marks outside of objects. Arrow's reader refuses those that are no marks here."""
_ROOTS = {"n": "null", "[": "an array", '"': "a text"}
_ONE_ARRAY = (
    "; write one object a line, or read the file with the option multiLine=true, which landing"
    " folders and segments take"
)


def check_records(block: bytes) -> None:
    """Check JSON objects one after the other.

    Raises:
        pa.ArrowInvalid: A record is no object or nests too deep, or the bytes are not UTF-8.
    """
    for _ in checked_records([block]):
        pass


def checked_records(blocks: Iterable[bytes], *, is_lines: bool = False) -> Iterator[bytes]:
    """Yield the blocks of a file, which may end anywhere, after the check of each.

    Args:
        blocks: JSON objects one after the other.
        is_lines: Whether Arrow's reader splits the file at its lines. Then no record of a file of
            several blocks has a line end.

    Raises:
        pa.ArrowInvalid: As of `check_records`.
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    in_text = depth = size = 0
    line, has_long, is_escaped = 1, False, False
    for block in blocks:
        try:
            decoder.decode(block)
        except UnicodeDecodeError as error:
            raise pa.ArrowInvalid(f"a text is not valid UTF-8: {error.reason}") from error
        data = np.frombuffer(block, dtype=np.uint8)
        places, is_escaped = escaped_places(data, is_escaped=is_escaped)
        if len(places):
            data = data.copy()
            data[places] = _BLANK
        plain = data.tobytes() if len(places) else block
        kinds = np.frombuffer(plain.translate(None, _NO_MARKS), dtype=np.uint8)
        # `kinds` are the bytes that matter; parity of quotes, depth and an open escape carry over
        # from block to block. `depths` has the depth before each of them, and the one after the
        # last.
        is_quote = kinds == _QUOTE
        texts = (np.cumsum(is_quote, dtype=np.uint8) + np.uint8(in_text)) & 1
        depths = np.empty(len(kinds) + 1, dtype=np.int32)
        depths[0] = depth
        np.cumsum(_STEPS[kinds] * (texts == 0), dtype=np.int32, out=depths[1:])
        depths[1:] += depth
        wrong = np.flatnonzero((depths[:-1] == 0) & ~_MAY_STAND[kinds])
        newlines = kinds == _NEWLINE
        if len(wrong):
            line += int(np.count_nonzero(newlines[: wrong[0]]))
            root = chr(kinds[wrong[0]])
            way_out = _ONE_ARRAY if root == "[" else ""
            shown = _ROOTS.get(root, f"'{root}'")
            raise pa.ArrowInvalid(f"line {line}: a record is an object, not {shown}{way_out}")
        if depths.max() > MOST_LEVELS:
            line += int(np.count_nonzero(newlines[: depths.argmax()]))
            raise pa.ArrowInvalid(f"line {line}: a value nests deeper than {MOST_LEVELS} levels")
        size += len(block)
        has_long = has_long or (is_lines and bool((newlines & (depths[1:] > 0)).any()))
        if has_long and size > BLOCK_BYTES:
            raise pa.ArrowInvalid(
                "a record has several lines; write one object a line, or set multiLine=true"
            )
        if len(kinds):
            in_text, depth = int(texts[-1]), int(depths[-1])
            line += int(np.count_nonzero(newlines))
        yield block
    try:
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise pa.ArrowInvalid("a text is not valid UTF-8: it ends in a character") from error


def escaped_places(
    data: Bytes, *, is_escaped: bool = False, escape: int = _BACKSLASH
) -> tuple[Longs, bool]:
    """Return the places after an odd number of backslashes, or of other escapes.

    Args:
        data: A block; the second result is whether the next one begins with such a place.
        is_escaped: Whether this one does.
        escape: The byte that escapes the next one.
    """
    escapes = np.flatnonzero(data == escape)
    if is_escaped:
        escapes = escapes[escapes > 0]
    numbers = np.arange(len(escapes))
    begins = np.where(np.diff(escapes, prepend=-2) != 1, numbers, 0)
    places = escapes[(numbers - np.maximum.accumulate(begins)) % 2 == 0] + 1
    if is_escaped:
        places = np.append(0, places)
    has_next = bool((places == len(data)).any())
    return places[places < len(data)], has_next
