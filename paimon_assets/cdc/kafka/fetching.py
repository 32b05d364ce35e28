"""Ranges of offsets → records in Arrow, all of them in memory.

A range ends with a record at its end or after it, or with the end of its partition: offsets in
between may be marks of transactions, or were compacted away.
"""

import json
import time
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from paimon_assets.cdc.kafka.topics import Client, OffsetRange, library
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.values import Value

OFFSET, TIMESTAMP, KEY, VALUE, HEADERS = "offset", "timestamp", "key", "value", "headers"
_PLACE = "place"
_COLUMNS: dict[str, pa.DataType] = {
    _PLACE: pa.int32(),
    OFFSET: pa.int64(),
    TIMESTAMP: pa.timestamp("ms", "UTC"),
    KEY: pa.binary(),
    VALUE: pa.binary(),
    HEADERS: pa.string(),
}
_BATCH = 10_000
"""Most records that the client hands over at a time; it queues 64 MB."""
_PROGRESS_SECONDS = 10.0
_READING = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
}


class Fetched(Value):
    """The records of a range."""

    range: OffsetRange
    """As it was read: it ends earlier where `max_bytes` were reached."""
    records: pa.Table
    """`offset`, `timestamp`, `key`, `value`; `headers` as JSON, null unless asked for."""

    @property
    def sent_ms(self) -> tuple[int, int] | None:
        """The oldest and the newest time of a record, if there is one."""
        times = pc.min_max(self.records[TIMESTAMP].cast(pa.int64()))
        return (times["min"].as_py(), times["max"].as_py()) if times["min"].is_valid else None


def fetch(
    client: Client,
    ranges: Sequence[OffsetRange],
    *,
    max_bytes: int = 0,
    has_headers: bool = False,
    report: Callable[[int], None] = lambda _: None,
) -> list[Fetched]:
    """Return the records of ranges, of each partition one at most.

    Args:
        client: The cluster.
        ranges: The ranges to read.
        max_bytes: Most bytes of keys and values, but one record at least; 0: all.
        has_headers: Whether headers are read, too.
        report: Takes the number of records so far, now and then.

    Raises:
        InvalidInputError: Kind `kafka-position`: a range begins before the log does.
        StorageError: Kind `kafka`.
    """
    reading = _Reading(ranges, max_bytes=max_bytes, has_headers=has_headers)
    consumer = client.open(library().Consumer, _READING)
    reported = heard = time.monotonic()
    try:
        partition = library().TopicPartition
        consumer.assign([partition(each.topic, each.partition, each.start) for each in ranges])
        while not reading.is_done:
            with client.asking("its records"):
                first = consumer.poll(1.0)
                messages = [] if first is None else [first, *consumer.consume(_BATCH, 0)]
                client.check_connection()
            now = time.monotonic()
            if messages:
                heard = now
                ended = reading.take(client, messages)
                consumer.pause([partition(each.topic, each.partition) for each in ended])
            elif now - heard > client.seconds:
                raise client.silence(reading.open_names)
            if now - reported > _PROGRESS_SECONDS:
                reported = now
                report(reading.count)
    finally:
        consumer.close()
    return reading.results()


class _Reading:
    """The records read so far."""

    def __init__(self, ranges: Sequence[OffsetRange], *, max_bytes: int, has_headers: bool) -> None:
        self._ranges = ranges
        self._places = {(each.topic, each.partition): at for at, each in enumerate(ranges)}
        self._topics = {each.topic for each in ranges}
        parts = [each.partition for each in ranges]
        self._place_of_part = np.zeros(max(parts) + 1, np.int32)
        self._place_of_part[parts] = np.arange(len(parts))
        self._ends = np.array([each.end for each in ranges], dtype=np.int64)
        self._reached = np.array([each.start for each in ranges], dtype=np.int64)
        self._budget = max_bytes or None
        self._has_headers = has_headers
        self._batches: list[pa.Table] = []
        self.count = 0

    @property
    def is_done(self) -> bool:
        is_full = self._budget is not None and self._budget <= 0
        return is_full or bool((self._reached >= self._ends).all())

    @property
    def open_names(self) -> list[str]:
        return [each.name for each in self._where(self._reached < self._ends)]

    def _where(self, flags: Any) -> list[OffsetRange]:
        return [self._ranges[int(at)] for at in np.flatnonzero(flags)]

    def take(self, client: Client, messages: Sequence[Any]) -> list[OffsetRange]:
        """Take messages; return the ranges that end with them."""
        was_open = self._reached < self._ends
        errors = [*map(library().Message.error, messages)]  # objects: each call is one of C
        if any(errors):
            pairs = [*zip(messages, errors, strict=True)]
            for message, error in pairs:
                if error is not None:
                    self._hear(client, message, error)
            messages = [message for message, error in pairs if error is None]
        if messages:
            self._add(messages)
        return self._where(was_open & (self._reached >= self._ends))

    def _hear(self, client: Client, message: Any, error: Any) -> None:
        name = error.name()
        if name == "_PARTITION_EOF":
            at = self._places[message.topic(), message.partition()]
            self._reached[at] = max(self._reached[at], message.offset())
        elif name == "_AUTO_OFFSET_RESET":
            text = (
                f"Partition {message.topic()}[{message.partition()}] has no record at the position "
                f"any more: {error.str()}. Nothing was committed. Run again for the range "
                "that was lost, and the ways to continue."
            )
            raise InvalidInputError(text, kind="kafka-position", source=str(message.topic()))
        elif error.fatal() or not error.retriable():
            raise client.failure(error, f"topic '{message.topic()}'")

    def _add(self, messages: Sequence[Any]) -> None:
        kind, count = library().Message, len(messages)
        places = self._places_of(messages)
        reached = np.fromiter(map(kind.offset, messages), np.int64, count) + 1
        texts: Any = pa.nulls(count, pa.string())
        if self._has_headers:
            texts = pa.array([*map(_header_text, map(kind.headers, messages))], pa.string())
        columns: list[Any] = [
            places,
            reached - 1,
            pa.array([*map(itemgetter(1), map(kind.timestamp, messages))], _COLUMNS[TIMESTAMP]),
            pa.array([*map(kind.key, messages)], pa.binary()),
            pa.array([*map(kind.value, messages)], pa.binary()),
            texts,
        ]
        batch = pa.table(columns, schema=pa.schema(_COLUMNS))
        wanted = reached <= self._ends[places]
        if self._budget is not None:
            lengths = (pc.binary_length(batch[name]).fill_null(0) for name in (KEY, VALUE))
            sizes = pc.add(*lengths).to_numpy() * wanted
            fits = np.cumsum(sizes) - sizes < self._budget
            self._budget -= int(sizes[fits].sum())
            wanted &= fits
            reached, places = reached[fits], places[fits]
        np.maximum.at(self._reached, places, reached)
        if not wanted.all():
            batch = batch.filter(pa.array(wanted))
        self.count += len(batch)
        self._batches.append(batch)

    def _places_of(self, messages: Sequence[Any]) -> Any:
        kind, count = library().Message, len(messages)
        parts = map(kind.partition, messages)
        if len(self._ranges) == 1:
            return np.zeros(count, np.int32)
        if len(self._topics) == 1:
            return self._place_of_part[np.fromiter(parts, np.int32, count)]
        names = zip(map(kind.topic, messages), parts, strict=True)
        return np.fromiter(map(self._places.__getitem__, names), np.int32, count)

    def results(self) -> list[Fetched]:
        everything = pa.concat_tables([pa.schema(_COLUMNS).empty_table(), *self._batches])
        results = []
        for at, each in enumerate(self._ranges):
            end = int(min(self._reached[at], self._ends[at]))
            records = everything
            if len(self._ranges) > 1:
                records = everything.filter(pc.equal(everything[_PLACE], pa.scalar(at, pa.int32())))
            records = records.drop_columns([_PLACE])
            results.append(Fetched(range=replace(each, end=end), records=records))
        return results


def _header_text(headers: Any) -> str | None:
    if not headers:
        return None
    pairs = [
        [name, value.decode(errors="replace") if isinstance(value, bytes) else value]
        for name, value in headers
    ]
    return json.dumps(pairs, ensure_ascii=False)
