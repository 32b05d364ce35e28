"""How old partitions are, by their values or their newest file, and which have expired.

The time a partition's values mean: pattern and format of the table → local time.
Source: `org.apache.paimon.partition.PartitionTimeExtractor`, `java.time.format.DateTimeFormatter`,
`org.apache.paimon.partition.PartitionExpireStrategy`.
"""

import datetime as dt
import re
from collections.abc import Iterable, Mapping, Sequence

from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.metadata.manifest import ManifestEntry
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.partition import partition_spec

_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001  # local, as files say theirs
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

    >>> options = opt.Options({"partition.timestamp-formatter": "yyyyMMdd"})
    >>> PartitionTime(options).of({"day": "20240131"})
    datetime.datetime(2024, 1, 31, 0, 0)
    """

    def __init__(self, options: opt.Options) -> None:
        self._pattern = options.get(opt.PARTITION_TIMESTAMP_PATTERN)
        formatter = options.get(opt.PARTITION_TIMESTAMP_FORMATTER)
        self._expected = _DEFAULT if formatter is None else _compile(formatter)

    def of(self, spec: Mapping[str, str]) -> dt.datetime | None:
        """Return the local time a partition means, None if its values mean none."""
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


def _compile(formatter: str) -> re.Pattern[str]:
    expression = ""
    for token in _TOKEN.finditer(formatter):
        text = token[0]
        if token[2] is None:
            expression += re.escape(token[1] if token[1] is not None else text)
            continue
        if text not in _LETTERS:
            raise InvalidInputError(
                f"'{opt.PARTITION_TIMESTAMP_FORMATTER.key}' = '{formatter}': '{text}' is not "
                f"known; use {', '.join(_LETTERS)}, and quotes around other letters.",
                kind="partition-time",
            )
        expression += _LETTERS[text]
    try:
        return re.compile(expression)
    except re.error as error:
        message = f"'{opt.PARTITION_TIMESTAMP_FORMATTER.key}' = '{formatter}' names a part twice."
        raise InvalidInputError(message, kind="partition-time") from error


def expired_partitions(
    store: FileStore, entries: Sequence[ManifestEntry], now_ms: int
) -> list[bytes]:
    """Return the partitions of live files that are older than the table's options allow.

    The oldest is first. Partitions whose values mean no time, such as the one of null, stay;
    without `partition.expiration-time` all do.
    """
    time_ms = store.schema.typed_options.get(opt.PARTITION_EXPIRATION_TIME)
    if time_ms is None or not store.schema.partition_keys:
        return []
    now = dt.datetime.fromtimestamp(now_ms / 1000)  # noqa: DTZ006  # values say the local time
    before = now - dt.timedelta(milliseconds=time_ms)
    times = _times(store, entries)
    return sorted(
        (partition for partition, time in times.items() if time < before),
        key=lambda partition: (times[partition], partition),
    )


def newest_files(live: Iterable[ManifestEntry]) -> dict[bytes, int]:
    """Return partition → the creation time of its newest file, 0 if none is known."""
    newest: dict[bytes, int] = {}
    for entry in live:
        created = entry.file.creation_time or 0
        newest[entry.partition] = max(newest.get(entry.partition, 0), created)
    return newest


def _times(store: FileStore, live: Sequence[ManifestEntry]) -> dict[bytes, dt.datetime]:
    """Return partition → its local time, of those that have one."""
    options = store.schema.typed_options
    times: dict[bytes, dt.datetime] = {}
    if options.get(opt.PARTITION_EXPIRATION_STRATEGY) is opt.PartitionExpiration.UPDATE_TIME:
        unknown = {entry.partition for entry in live if entry.file.creation_time is None}
        return {
            partition: _EPOCH + dt.timedelta(milliseconds=created)
            for partition, created in newest_files(live).items()
            if partition not in unknown
        }
    reader = PartitionTime(options)
    for partition in {entry.partition for entry in live}:
        values = store.partitions.values(partition)
        spec = partition_spec(store.partitions.fields, values, default_name="", legacy=False)
        time = reader.of(spec)
        if time is not None:
            times[partition] = time
    return times
