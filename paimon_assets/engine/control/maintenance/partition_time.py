"""The time a partition's values mean: pattern and format of the table → local time.

Source: `org.apache.paimon.partition.PartitionTimeExtractor`, `java.time.format.DateTimeFormatter`.
"""

import datetime as dt
import re
from collections.abc import Mapping

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.options.maintenance_options import (
    PARTITION_TIMESTAMP_FORMATTER,
    PARTITION_TIMESTAMP_PATTERN,
)
from paimon_assets.engine.spec.options.option import Options

_LETTERS = {
    "yyyy": r"(?P<year>\d{4})",
    "MM": r"(?P<month>\d{2})",
    "M": r"(?P<month>\d{1,2})",
    "dd": r"(?P<day>\d{2})",
    "d": r"(?P<day>\d{1,2})",
    "HH": r"(?P<hour>\d{2})",
    "H": r"(?P<hour>\d{1,2})",
    "mm": r"(?P<minute>\d{2})",
    "m": r"(?P<minute>\d{1,2})",
    "ss": r"(?P<second>\d{2})",
    "s": r"(?P<second>\d{1,2})",
}
_TOKEN = re.compile(r"'([^']*)'|([A-Za-z])\2*|.", re.DOTALL)
_DEFAULT = re.compile(
    r"(?P<year>\d{4})-(?P<month>\d{1,2})-(?P<day>\d{1,2})"
    r"(?: (?P<hour>\d{1,2}):(?P<minute>\d{1,2}):(?P<second>\d{1,2})(?:\.\d{1,9})?)?"
)


class PartitionTime:
    """Reads the time of partitions of one table.

    Raises:
        InvalidInputError: Kind `partition-time`; the format has a letter that is none of these.

    >>> options = Options({"partition.timestamp-formatter": "yyyyMMdd"})
    >>> PartitionTime(options).of({"day": "20240131"})
    datetime.datetime(2024, 1, 31, 0, 0)
    """

    def __init__(self, options: Options) -> None:
        self._pattern = options.get(PARTITION_TIMESTAMP_PATTERN)
        formatter = options.get(PARTITION_TIMESTAMP_FORMATTER)
        self._expected = _DEFAULT if formatter is None else _compiled(formatter)

    def of(self, spec: Mapping[str, str]) -> dt.datetime | None:
        """Return the local time a partition means, None if its values mean none.

        Args:
            spec: Partition column → text, in the order of the keys.
        """
        if self._pattern is None:
            text = next(iter(spec.values()), "")
        else:
            text = self._pattern
            for name in sorted(spec, key=len, reverse=True):  # `$hour` before `$h`
                text = text.replace(f"${name}", spec[name])
        match = self._expected.fullmatch(text)
        if match is None:
            return None
        parts = {name: int(digits) for name, digits in match.groupdict().items() if digits}
        try:
            return dt.datetime(**{"month": 1, "day": 1, **parts})  # type: ignore[arg-type]  # noqa: DTZ001  # local, as values are
        except (ValueError, TypeError):
            return None


def _compiled(formatter: str) -> re.Pattern[str]:
    expression = ""
    for token in _TOKEN.finditer(formatter):
        text = token[0]
        if token[2] is None:
            expression += re.escape(token[1] if token[1] is not None else text)
            continue
        if text not in _LETTERS:
            raise InvalidInputError(
                f"'{PARTITION_TIMESTAMP_FORMATTER.key}' = '{formatter}': '{text}' is not known; "
                f"use {', '.join(_LETTERS)}, and quotes around other letters.",
                kind="partition-time",
            )
        expression += _LETTERS[text]
    try:
        return re.compile(expression)
    except re.error as error:
        raise InvalidInputError(
            f"'{PARTITION_TIMESTAMP_FORMATTER.key}' = '{formatter}' names a part twice.",
            kind="partition-time",
        ) from error
