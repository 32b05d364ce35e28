"""Option: one typed table option; Options: a table's option texts, read through it.

The options themselves are named in `spec.options.all_options`.
Source: `org.apache.paimon.options.ConfigOption`, `MemorySize`, `TimeUtils`.
"""

import datetime as dt
import re
from collections.abc import Callable, Mapping
from enum import Enum, StrEnum
from functools import cache
from typing import Any, Generic, TypeVar
from zoneinfo import ZoneInfo

from msgspec import Struct
from msgspec.structs import replace

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.paths import plain_name, straight_path

_EPOCH = dt.datetime.fromtimestamp(0, dt.UTC)

T = TypeVar("T")
E = TypeVar("E", bound=Enum)

_PLACE = "<[a-z]+>"
_EXPECTED: dict[object, str] = {int: "expected a whole number", float: "expected a number"}


class Use(StrEnum):
    """The operations that an option changes; commits, compactions and expiry are writes."""

    READ = "read"
    WRITE = "write"
    BOTH = "both"


class Option(Struct, Generic[T], frozen=True):
    key: str
    default: T
    description: str
    fallback_keys: tuple[str, ...] = ()
    use: Use = Use.WRITE
    parse: Callable[[str], T] | None = None
    """Text → value; None: by the type of the default."""

    @property
    def parser(self) -> Callable[[str], T]:
        kind: Any = type(self.default)
        return self.parse or _parser_of(kind)

    def of(self, name: str) -> "Option[T]":
        """Return this option of one column, where the key is a pattern, as `fields.<column>.x`."""
        return replace(self, key=re.sub(_PLACE, lambda _: name, self.key))


class Options:
    """Typed view of a table's option texts."""

    __slots__ = ("values",)

    def __init__(self, values: Mapping[str, str]) -> None:
        self.values = values

    def text(self, option: Option[T]) -> str | None:
        """Return the stored text of `option`, looking at its fallback keys too."""
        for key in (option.key, *option.fallback_keys):
            if key in self.values:
                return self.values[key]
        return None

    def has(self, option: Option[T]) -> bool:
        """Whether the table sets `option` itself."""
        return self.text(option) is not None

    def get(self, option: Option[T]) -> T:
        """Return the value of `option`, or its default; InvalidInputError if it does not parse."""
        text = self.text(option)
        if text is None:
            return option.default
        try:
            return option.parser(text)
        except (ValueError, InvalidInputError) as error:
            problem = _EXPECTED.get(option.parser, str(error))
            message = f"Table option '{option.key}' has the value '{text}': {problem}"
            raise InvalidInputError(message, kind="option-value", option=option.key) from error


def parse_bool(text: str) -> bool:
    """Parse `true` or `false` in any letter case."""
    match text.strip().lower():
        case "true":
            return True
        case "false":
            return False
        case _:
            raise ValueError("expected true or false")


_MEMORY = r"(?i)^\s*(\d+)\s*([a-z]*)\s*$"
_MEMORY_UNITS = {
    "": 1, "b": 1, "bytes": 1, "k": 2**10, "kb": 2**10, "kibibytes": 2**10,
    "m": 2**20, "mb": 2**20, "mebibytes": 2**20, "g": 2**30, "gb": 2**30, "gibibytes": 2**30,
    "t": 2**40, "tb": 2**40, "tebibytes": 2**40,
}  # fmt: skip


def parse_memory(text: str) -> int:
    """Parse a memory size such as `128 mb` into bytes.

    >>> parse_memory("128 mb"), parse_memory("1g"), parse_memory("100")
    (134217728, 1073741824, 100)
    """
    match = re.match(_MEMORY, text)
    factor = _MEMORY_UNITS.get(match[2].lower()) if match else None
    if match is None or factor is None:
        raise ValueError("expected a size such as '128 mb'")
    return int(match[1]) * factor


_DURATION = r"(?i)^\s*(\d+)\s*([a-zµ]*)\s*$"
_DURATION_MILLIS = {
    "ms": 1, "milli": 1, "millis": 1, "millisecond": 1, "milliseconds": 1, "": 1,
    "s": 1000, "sec": 1000, "secs": 1000, "second": 1000, "seconds": 1000,
    "m": 60_000, "min": 60_000, "mins": 60_000, "minute": 60_000, "minutes": 60_000,
    "h": 3_600_000, "hour": 3_600_000, "hours": 3_600_000,
    "d": 86_400_000, "day": 86_400_000, "days": 86_400_000,
}  # fmt: skip


def parse_duration_ms(text: str) -> int:
    """Parse a duration such as `10 s` or `1 h` into milliseconds.

    >>> parse_duration_ms("10 s"), parse_duration_ms("1 h")
    (10000, 3600000)
    """
    match = re.match(_DURATION, text)
    factor = _DURATION_MILLIS.get(match[2].lower()) if match else None
    if match is None or factor is None:
        raise ValueError("expected a duration such as '10 s'")
    return int(match[1]) * factor


def parse_ratio(text: str) -> float:
    """Parse a part of a whole, from 0 to 1."""
    ratio = float(text)
    if not 0 <= ratio <= 1:
        raise ValueError("expected a number from 0 to 1")
    return ratio


def parse_zone(text: str) -> str:
    """Parse the name of a time zone, such as `Europe/Berlin`."""
    try:
        return ZoneInfo(text).key
    except (OSError, ValueError, KeyError) as error:
        raise ValueError("expected the name of a time zone, such as Europe/Berlin") from error


def parse_instant_ms(text: str) -> int:
    """Parse epoch milliseconds, or a time such as `2024-01-31 12:00:00.5`, into milliseconds.

    A time without an offset is UTC.

    >>> parse_instant_ms("1970-01-01 00:00:01.5"), parse_instant_ms("1500")
    (1500, 1500)
    """
    stripped = text.strip()
    if stripped.lstrip("-").isdecimal():
        return int(stripped)
    try:
        time = dt.datetime.fromisoformat(stripped)
    except ValueError as error:
        raise ValueError("expected milliseconds, or a time such as 2024-01-31 12:00:00") from error
    aware = time if time.tzinfo else time.replace(tzinfo=dt.UTC)
    return (aware - _EPOCH) // dt.timedelta(milliseconds=1)


def parse_part(text: str) -> str:
    """Parse one part of a path, or the beginning of one; may be empty."""
    return text if not text else plain_name(text)


def parse_folder(text: str) -> str:
    """Parse a path below another one, such as `data/files`, without slashes around; may be empty.

    >>> parse_folder("/data/files/")
    'data/files'
    """
    return "/".join(part for part in straight_path(text).split("/") if part)


def parse_folders(text: str) -> tuple[str, ...]:
    """Parse a comma-separated list of paths without `..`."""
    return tuple(map(straight_path, parse_names(text)))


def parse_pair(text: str) -> tuple[str, str]:
    """Parse two texts with a comma between them; blanks are trimmed."""
    first, comma, second = text.partition(",")
    if not comma or "," in second or not first.strip() or not second.strip():
        raise ValueError("expected two values with a comma between them")
    return first.strip(), second.strip()


def parse_instants_ms(text: str) -> tuple[int, int]:
    """Parse two times with a comma between them; see `parse_instant_ms`."""
    first, second = parse_pair(text)
    return parse_instant_ms(first), parse_instant_ms(second)


def parse_names(text: str) -> tuple[str, ...]:
    """Parse a comma list of names; blanks around commas are trimmed, empty items dropped."""
    return tuple(name for item in text.split(",") if (name := item.strip()))


def parse_enum(enum: type[E]) -> Callable[[str], E]:
    """Return a parser that accepts the enum's values in any letter case."""

    def parse(text: str) -> E:
        for member in enum:
            if str(member.value).lower() == text.strip().lower():
                return member
        raise ValueError(f"expected one of {', '.join(str(member.value) for member in enum)}")

    return parse


@cache
def _parser_of(kind: Any) -> Callable[[str], Any]:
    if issubclass(kind, Enum):
        return parse_enum(kind)
    parsers: Mapping[type, Callable[[str], Any]] = {bool: parse_bool, tuple: parse_names}
    return parsers.get(kind, kind)


def unset(
    key: str,
    parse: Callable[[str], T],
    description: str,
    fallback_keys: tuple[str, ...] = (),
    use: Use = Use.WRITE,
) -> Option[T | None]:
    """Declare an option without a default."""
    return Option(key, None, description, fallback_keys, use, parse)


def names(key: str, description: str, *, use: Use = Use.WRITE) -> Option[tuple[str, ...]]:
    """Declare an option of names, none by default."""
    return Option(key, (), description, use=use)


def size(key: str, default: int, description: str, *, use: Use = Use.WRITE) -> Option[int]:
    """Declare an option of bytes, such as `128 mb`."""
    return Option(key, default, description, use=use, parse=parse_memory)


def duration(key: str, default: int, description: str, *, use: Use = Use.WRITE) -> Option[int]:
    """Declare an option of milliseconds, such as `10 s`."""
    return Option(key, default, description, use=use, parse=parse_duration_ms)


def word(key: str, default: str, description: str, *, use: Use = Use.WRITE) -> Option[str]:
    """Declare an option of a text that is the same in any letter case."""
    return Option(key, default, description, use=use, parse=str.lower)
