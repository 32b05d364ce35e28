"""How the files of a text segment are read: options named as those of Spark's readers.

    csv    sep (delimiter), header, fileheader, quote, escape, comment, multiLine, locale
    json   multiLine: one array, or objects over several lines
    text   lineSep
    csv and json   dateFormat, timestampFormat, timeZone; csv   nullValue
    all    encoding (charset)

Two defaults are not Spark's: a CSV has a line of names, and its values may hold line ends. And a
quote inside of a quoted value may also be doubled, which Spark reads with `escape` = `"` alone.
"""

import codecs
import re
from collections.abc import Mapping, Sequence
from zoneinfo import ZoneInfo

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.values import Value

_NOTATIONS = ("idna", "punycode", "raw-unicode-escape", "unicode-escape")
"""Python's codecs of domain names and of its own literals; files of text have none."""
_ALIASES = {"delimiter": "sep", "charset": "encoding"}
_TIMES = ("dateformat", "timestampformat", "timezone")
_CSV = ("sep", "header", "fileheader", "quote", "escape", "comment", "multiline", "locale")
_KNOWN: Mapping[str, tuple[str, ...]] = {
    "csv": (*_CSV, "nullvalue", "encoding", *_TIMES),
    "json": ("multiline", "encoding", *_TIMES),
    "text": ("linesep", "encoding"),
}
_ESCAPED = {"\\t": "\t", "\\n": "\n", "\\r": "\r", "\\r\\n": "\r\n", "\\u0000": ""}
_COMMA_LANGUAGES = ("cs", "da", "de", "es", "fi", "fr", "it", "nb", "nl", "pl", "pt", "sv")
_PATTERN = r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']"
_FIELDS = {
    "yyyy": "%Y", "uuuu": "%Y", "yy": "%y", "MM": "%m", "M": "%m", "dd": "%d", "d": "%d",
    "HH": "%H", "H": "%H", "mm": "%M", "ss": "%S",
}  # fmt: skip
_FRACTION = r"([.,])(S{1,9})$"


class TimePattern(Value):
    """A pattern of dates or times: Java's, in the words of C."""

    format: str
    """`strptime` format of the text before the fraction."""
    fraction_mark: str = ""
    """Mark before the digits of the fraction; empty if there is none."""
    fraction_digits: int = 0

    @staticmethod
    def of(pattern: str) -> "TimePattern":
        """Translate a pattern such as `dd.MM.yyyy HH:mm:ss.SSS`.

        >>> TimePattern.of("yyyy-MM-dd'T'HH:mm")
        TimePattern(format='%Y-%m-%dT%H:%M', fraction_mark='', fraction_digits=0)
        """
        fraction = re.search(_FRACTION, pattern)
        whole = pattern if fraction is None else pattern[: fraction.start()]
        parts, end = [], 0
        for found in re.finditer(_PATTERN, whole):
            if found.start() != end:
                break
            quoted, letter = found.group(1), found.group(2)
            end = found.end()
            if quoted is not None:
                parts.append((quoted.replace("''", "'") or "'").replace("%", "%%"))
            elif letter is None:
                parts.append(found.group().replace("%", "%%"))
            elif found.group() in _FIELDS:
                parts.append(_FIELDS[found.group()])
            else:
                raise ValueError(f"'{found.group()}'; known are {', '.join(_FIELDS)}, S at the end")
        if end != len(whole):
            raise ValueError("a quote that does not end")
        if fraction is None:
            return TimePattern(format="".join(parts))
        mark, digits = fraction.groups()
        return TimePattern(format="".join(parts), fraction_mark=mark, fraction_digits=len(digits))


class TextOptions(Value):
    """The options of one text segment, understood; the defaults are those of no option."""

    names: tuple[str, ...] | None = None
    """Names of a CSV's columns, in order; None if its first line has them."""
    has_header: bool = True
    """Whether the first line of a CSV is no row."""
    delimiter: str = ","
    quote: str = '"'
    """Empty: nothing is quoted."""
    escape: str = "\\"
    """Before a quote, or itself, in a quoted value. Empty or the quote: quotes are doubled only."""
    comment: str = ""
    """Lines of a CSV that begin with it are no rows."""
    null_text: str = ""
    """Null in a CSV, beside the empty field."""
    encoding: str = "utf-8"
    multi_line: bool | None = None
    """None is the format's default."""
    line_end: str = ""
    """End of a line of text; empty is LF or CRLF."""
    decimal_point: str = "."
    date_format: str = ""
    """Java's pattern; empty is ISO 8601."""
    timestamp_format: str = ""
    time_zone: str = ""
    """In which instants are meant that do not say their zone."""

    @staticmethod
    def of(file_format: str, options: Mapping[str, str], columns: Sequence[str]) -> "TextOptions":
        """Understand the options of a segment; their names may have any letter case."""
        given = _known_options(file_format, options)

        def one(key: str, default: str) -> str:
            text = given.get(key, default)
            value = _ESCAPED.get(text, text)
            if len(value.encode()) > 1:
                raise _refusal(key, text, "it is one ASCII character")
            return value

        has_header = _flag(given, "header", default=True)
        listed = given.get("fileheader", "")
        names = tuple(name.strip() for name in listed.split(",")) if listed else None
        if names is None and not has_header:
            names = tuple(columns)
        try:
            encoding = codecs.lookup(given.get("encoding", "utf-8")).name
            "a".encode("" if encoding in _NOTATIONS else encoding)  # some codecs are of bytes
        except (LookupError, ValueError):
            raise _refusal("encoding", given["encoding"], "there is no such encoding") from None
        try:
            zone = ZoneInfo(given["timezone"]).key if given.get("timezone") else ""
        except (ValueError, OSError, KeyError):
            raise _refusal("timeZone", given["timezone"], "there is no such zone") from None
        multi_line = _flag(given, "multiline", default=False) if "multiline" in given else None
        line_end = given.get("linesep", "")
        return TextOptions(
            names=names,
            has_header=has_header,
            delimiter=one("sep", ",") or ",",
            quote=one("quote", '"'),
            escape=one("escape", "\\"),
            comment=one("comment", ""),
            null_text=given.get("nullvalue", ""),
            encoding=encoding,
            multi_line=multi_line,
            line_end=_ESCAPED.get(line_end, line_end),
            decimal_point=_decimal_point(given.get("locale", "en")),
            date_format=_checked_pattern(given, "dateformat"),
            timestamp_format=_checked_pattern(given, "timestampformat"),
            time_zone=zone,
        )


def text_options_of(
    file_format: str, options: Mapping[str, str], schema: TableSchema
) -> TextOptions | None:
    """Return how the files of a segment are written, None for formats that say so themselves."""
    if file_format not in _KNOWN:
        return None
    columns = [name for name in schema.field_names if name not in schema.partition_keys]
    return TextOptions.of(file_format, options, columns)


def _known_options(file_format: str, options: Mapping[str, str]) -> dict[str, str]:
    given = {}
    for key, value in options.items():
        name = _ALIASES.get(key.lower(), key.lower())
        if name not in _KNOWN[file_format]:
            known = ", ".join(_KNOWN[file_format])
            message = f"A segment of format {file_format} has no option '{key}'; it has {known}."
            raise InvalidInputError(message, kind="segment-option", option=key, format=file_format)
        given[name] = value
    return given


def _refusal(key: str, value: str, reason: str) -> InvalidInputError:
    message = f"Segment option '{key}' cannot be '{value}': {reason}."
    return InvalidInputError(message, kind="segment-option", option=key, value=value)


def _flag(given: Mapping[str, str], key: str, *, default: bool) -> bool:
    text = given.get(key, str(default)).strip().lower()
    if text not in ("true", "false"):
        raise _refusal(key, text, "it is true or false")
    return text == "true"


def _decimal_point(locale: str) -> str:
    language = re.split(r"[-_]", locale.strip().lower())[0]
    if language in _COMMA_LANGUAGES:
        return ","
    if language == "en":
        return "."
    known = ", ".join(("en", *_COMMA_LANGUAGES))
    raise _refusal("locale", locale, f"known languages are {known}")


def _checked_pattern(given: Mapping[str, str], key: str) -> str:
    pattern = given.get(key, "")
    try:
        TimePattern.of(pattern)
    except ValueError as error:
        raise _refusal(key, pattern, f"the pattern has {error}") from None
    return pattern
