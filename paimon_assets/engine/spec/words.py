"""Words of messages: numbers with nouns, lists, names that are nearly right, samples of values."""

import datetime as dt
from collections.abc import Iterable, Sequence


def counted(count: int, noun: str) -> str:
    """Return a number with its noun, whose plural ends in s.

    >>> counted(1, "row"), counted(1234, "new file")
    ('1 row', '1,234 new files')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def utc_text(millis: int) -> str:
    """Return epoch milliseconds as people read them.

    >>> utc_text(1795435404462)
    '2026-11-23 12:03:24.462 UTC'
    """
    try:
        time = dt.datetime.fromtimestamp(millis / 1000, tz=dt.UTC)
    except (ValueError, OverflowError, OSError):  # beyond the years of Python
        return f"{millis} ms since 1970"
    return f"{time.replace(tzinfo=None).isoformat(' ', 'milliseconds')} UTC"


def printable(text: str) -> str:
    r"""Return a text in which bytes that are no UTF-8 are spelt out: local names may have some.

    >>> printable("ö-\udce9")
    'ö-\\udce9'
    """
    return text.encode(errors="backslashreplace").decode()


def duration_text(duration: dt.timedelta) -> str:
    """Return a duration as Java writes it.

    >>> duration_text(dt.timedelta(days=1, hours=12, milliseconds=5))
    'PT36H0.005S'
    """
    micros = duration // dt.timedelta(microseconds=1)
    hours, micros = divmod(micros, 3_600_000_000)
    minutes, micros = divmod(micros, 60_000_000)
    seconds = f"{micros / 1_000_000:.6f}".rstrip("0").rstrip(".")
    parts = [f"{hours}H" if hours else "", f"{minutes}M" if minutes else ""]
    text = "".join([*parts, f"{seconds}S" if micros else ""])
    return f"PT{text or '0S'}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a question for the nearest known name, an empty text if none is near.

    >>> did_you_mean("STATU", ["status", "id"]), did_you_mean("x", ["status"])
    (" Did you mean 'status'?", '')
    """
    from difflib import get_close_matches

    lower = {each.lower(): each for each in known}
    near = get_close_matches(name.lower(), lower, n=1)
    return f" Did you mean '{lower[near[0]]}'?" if near else ""


def separator_of(names: Sequence[str], expected: Iterable[str]) -> str | None:
    """Return the character between columns, if a CSV's line of names was read as one name.

    >>> separator_of(["id;amount"], ["id", "amount"]), separator_of(["id"], ["id"])
    (';', None)
    """
    line, known = names[0] if len(names) == 1 else "", {*expected}
    marks = (mark for mark in ";\t|," if mark in line and known.intersection(line.split(mark)))
    return next(marks, None)


_MOST_NAMES = 8


def shorten(texts: Sequence[str]) -> str:
    """Return texts as a list of people, of many the first.

    >>> shorten(["a", "b"]), shorten([str(number) for number in range(10)])
    ('a, b', '0, 1, 2, 3, 4, 5, 6, 7, … 2 more')
    """
    more = len(texts) - _MOST_NAMES
    return ", ".join(texts[:_MOST_NAMES]) + (f", … {more:,} more" if more > 0 else "")


SHOWN_CHARACTERS = 60
MASKED = "(not shown)"


def sample(value: object, *, show: bool = True) -> str:
    """Return a value as text of bounded length; the rows of a table hold people's data.

    >>> sample("x" * 1_000_000) == "'" + "x" * 59 + "…"
    True
    >>> sample(4711, show=False)
    '(not shown)'
    """
    return _cut(value, quoted=True) if show else MASKED


def plain_sample(value: object, *, show: bool = True) -> str:
    """Return a value as `sample` does, without quotes around texts.

    >>> plain_sample("air"), plain_sample(None)
    ('air', 'null')
    """
    if not show:
        return MASKED
    return "null" if value is None else _cut(value, quoted=False)


def _cut(value: object, *, quoted: bool) -> str:
    if isinstance(value, str | bytes | bytearray):
        value = value[: SHOWN_CHARACTERS + 1]  # a text of gigabytes is not copied
    text = repr(value) if quoted else str(value)
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…"
