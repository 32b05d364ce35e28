"""The offsets of topics that one run takes: from the table's position to the end, exactly once.

ledger: topic → id, next offset of each partition ─▶ ranges ─▶ records ─▶ rows ─▶ one snapshot
▲                                                          + ledger
└──────────────────────────────────────────────────────────────┘
"""

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from typing import Any, TypeAlias

import dagster as dg
import pyarrow as pa
from msgspec import Struct, field
from msgspec.structs import replace

from paimon_assets.assets.files.dead_letters import DeadLetters, check_of
from paimon_assets.assets.files.ledger import Ledger
from paimon_assets.assets.metadata import Metadata, grid
from paimon_assets.assets.resource import PaimonCatalogResource
from paimon_assets.cdc.assets.topic_source import KafkaSource, Order, TopicConfig, check_config
from paimon_assets.cdc.kafka.fetching import HEADERS, VALUE, Fetched, fetch
from paimon_assets.cdc.kafka.messages import Extra, other_members, rows
from paimon_assets.cdc.kafka.topics import OffsetRange, TopicState
from paimon_assets.cdc.records.change_batch import CdcOptions, ChangeBatch
from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema
from paimon_assets.engine.data.format.text_lines import Place as RecordPlace
from paimon_assets.engine.errors import InvalidInputError, PaimonError
from paimon_assets.engine.executors import spark_module
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.spec.words import counted
from paimon_assets.engine.table.frames.frames import Frame
from paimon_assets.engine.table.table import Table

_SHOWN = 200
_ROW_BYTES = 200
"""Taken for the size of a record, to choose the executor."""
_ID, _NEXT = "id", "next"

Place: TypeAlias = tuple[str, int]
"""Topic, partition."""


class TopicIntake(Struct, kw_only=True):
    """The records that one run takes of topics; see `sources.Intake`."""

    paimon: PaimonCatalogResource
    table: Table | None
    """None for one that is not there yet."""
    source: KafkaSource
    ledger: Ledger
    log: Any
    """Takes lines for the log of the run."""
    is_change_log: bool
    topics: Sequence[TopicState] = ()
    positions: dict[Place, int] = field(default_factory=dict)
    """The first offset that the run may read."""
    ranges: Sequence[OffsetRange] = ()
    """The ranges to read; after reading, the ranges as they were read."""
    max_bytes: int = 0
    sent_ms: Mapping[Place, tuple[int, int]] = field(default_factory=dict)
    """The oldest and the newest time of a record that was read."""
    empty_records: int = 0
    """Records without a value, which are no rows."""
    has_moved_keys: bool = False
    """Whether changes of a key may be in several partitions."""
    arrival: str = "order of offsets"
    remembered: int | None = None
    dead_letters: DeadLetters = field(default_factory=lambda: DeadLetters(table=None))
    """Of rows."""

    def __post_init__(self) -> None:
        self.dead_letters = DeadLetters(
            table=self.source.dead_letters,
            place=RecordPlace.OFFSET,
            shows_values=self.paimon.show_values,
        )

    @property
    def place(self) -> str:
        return self.source.place

    @property
    def is_empty(self) -> bool:
        return not self.ranges and self._offsets(self.positions) == self.ledger.offsets

    def choose(self, config: TopicConfig, *, again: bool = False) -> None:
        """Choose the offsets that the run reads; `again`: from the beginning."""
        check_config(config)
        if again:
            self.ledger = self.ledger.without_files()
        client = self.source.client()
        names = [] if self.source.topic is None else [self.source.topic]
        self.topics = client.topics(names, self.source.pattern)
        for topic in self.topics:
            begins = self._begins(topic, config, again=again)
            self.positions |= {(topic.name, part): at for part, at in begins.items()}
        self.ranges = shares(
            [
                OffsetRange(topic=topic.name, partition=part, start=start, end=end)
                for topic in self.topics
                for part, (_, end) in topic.bounds.items()
                if end > (start := self.positions[topic.name, part])
            ],
            config.max_records,
        )
        self.max_bytes = config.max_bytes

    def _begins(self, topic: TopicState, config: TopicConfig, *, again: bool) -> dict[int, int]:
        """Return where to begin, by partition."""
        stored = self.ledger.offsets.get(topic.name)
        if stored is None:
            return self._first_begins(topic, again=again)
        known = {int(part): int(at) for part, at in stored[_NEXT].items()}
        if stored[_ID] and topic.id and stored[_ID] != topic.id:
            lost = dict.fromkeys(topic.bounds, "the topic was deleted and made again")
        else:
            lost = _lost_offsets(topic, known)
            if added := sorted(topic.bounds.keys() - known.keys()):
                self._accept(topic, added, config)
        if lost and config.lost_position == "error":
            part, why = next(iter(lost.items()))
            raise InvalidInputError(
                f"Table '{self._name}' cannot continue with partition {topic.name}[{part}] at "
                f"offset {known.get(part, 0)}: {why}. Nothing was committed. Run with "
                "lost_position='earliest' (or 'latest') to continue there without the records "
                "in between; a change log may be loaded again (reload=true).",
                kind="kafka-position",
                table=self._name,
                source=topic.name,
            )
        for part, why in lost.items():
            self.log.warning(
                "%s[%s] continues at %s: %s.", topic.name, part, config.lost_position, why
            )
        side = 1 if config.lost_position == "latest" else 0
        return {
            part: bounds[side] if part in lost else known.get(part, bounds[0])
            for part, bounds in topic.bounds.items()
        }

    @property
    def _name(self) -> str:
        return "" if self.table is None else self.table.name

    def _first_begins(self, topic: TopicState, *, again: bool) -> dict[int, int]:
        start = self.source.start
        if isinstance(start, dt.datetime):
            return self.source.client().offsets_at(topic, int(start.timestamp() * 1000))
        offsets = start if isinstance(start, Mapping) else {}
        for part, at in offsets.items():
            first, end = topic.bounds.get(part, (0, -1))
            if not first <= at <= end:
                message = (
                    f"KafkaSource(start=…) names offset {at} of partition {topic.name}[{part}], "
                    f"which has {topic.bounds.get(part, 'no record')}. Correct it."
                )
                raise InvalidInputError(message, kind="kafka-position", source=topic.name)
        side = 1 if start == "latest" and not again else 0
        return {part: offsets.get(part, bounds[side]) for part, bounds in topic.bounds.items()}

    def _accept(self, topic: TopicState, added: Sequence[int], config: TopicConfig) -> None:
        """Refuse partitions that were added where the order of a key's changes hangs on them."""
        schema = None if self.table is None else self.table.schema
        if schema is None or not schema.has_primary_key:
            return
        has_order = opt.SEQUENCE_FIELD.key in schema.options
        if self.is_change_log:
            has_order = self.source.order == Order.RECORD
        if has_order or config.new_partitions:
            self.has_moved_keys = True
            self.log.info("Topic '%s' has new partitions: %s.", topic.name, added)
            return
        parts = ", ".join(map(str, added))
        way_out = "KafkaSource(order='record')" if self.is_change_log else "'sequence.field'"
        raise InvalidInputError(
            f"Topic '{topic.name}' of table '{self._name}' has new partitions ({parts}), so "
            "changes of one key may be in two of them, and offsets do not say which is newer. "
            f"Nothing was committed. Let the records' own order decide ({way_out}); or, once all "
            "that was sent before is in the table, run with new_partitions=true.",
            kind="kafka-partitions",
            table=self._name,
            source=topic.name,
        )

    def news(self) -> str:
        count, parts = sum(map(len, self.ranges)), counted(len(self.ranges), "partition")
        return f"{counted(count, 'offset')} of {parts} of {self.place}."

    def nothing_note(self, *, dry_run: bool) -> str:
        if dry_run:
            return f"Dry run: {self.news()[:-1]} would be read; nothing was written."
        return f"No new records in {self.place}; nothing was committed."

    def metadata(self) -> Metadata:
        """Return the ranges of the run, and the lag of the table behind the topic."""
        after = self._positions_after()
        ends = {(topic.name, part): end for topic in self.topics
                for part, (_, end) in topic.bounds.items()}  # fmt: skip
        behind = {place: end - after[place] for place, end in ends.items()}
        left = sum(behind.values())
        now = dt.datetime.now(dt.UTC).timestamp()
        times = [newest for place, (_, newest) in self.sent_ms.items() if behind[place]]
        metadata: Metadata = {
            "paimon/source": self.place,
            "paimon/offsets_read": sum(map(len, self.ranges)),
            "paimon/lag_records": left,
            "paimon/partitions_read": len(self.ranges),
        }
        if not left or times:
            age = now - min(times) / 1000 if left else 0.0
            metadata["paimon/lag_seconds"] = round(age, 3)
        if behind:
            metadata["paimon/offsets"] = grid(
                {
                    "topic": place[0],
                    "partition": place[1],
                    "from": self.positions[place],
                    "to": after[place],
                    "left": count,
                }
                for place, count in islice(behind.items(), _SHOWN)
            )
        if self.sent_ms:
            oldest = min(oldest for oldest, _ in self.sent_ms.values()) / 1000
            newest = max(newest for _, newest in self.sent_ms.values()) / 1000
            metadata["paimon/delay_seconds"] = round(now - oldest, 3)
            metadata["paimon/newest_record"] = dg.TimestampMetadataValue(newest)
        if self.source.dead_letters is not None and not self.is_change_log:
            metadata |= self.dead_letters.metadata()
        if self.empty_records:
            metadata["paimon/records_without_value"] = self.empty_records
        return metadata

    def frame(self, expected: Schema | None, executor: str | None) -> Frame:
        """Return a row of each record that has a value."""
        declared = self.source.schema or expected
        if declared is None:
            text = f"Records of {self.place} do not say their types; declare KafkaSource(schema=…)."
            raise InvalidInputError(text, kind="kafka-source")
        schema = to_arrow_schema(declared.fields)
        for name in self.source.metadata.keys() - {*schema.names}:
            message = f"KafkaSource(metadata=…) names column '{name}': declare it, or leave it out."
            raise InvalidInputError(message, kind="kafka-source")
        metadata, extra = self.source.metadata, self.source.extra_columns
        extra_members: Extra = "error" if extra == "error" else "ignore"
        self.dead_letters.tables.clear()
        is_alone = extra == "add" or self.source.dead_letters is not None
        if not is_alone and self.has_tasks(executor):
            client = self.source.client()
            on_spark = spark_module("paimon_assets.cdc.spark_topics")
            session = self.paimon.spark.session()
            return on_spark.topics_to_dataframe(
                session, client, self.ranges, schema, metadata, extra_members
            )
        fetched = self._fetch(has_headers=HEADERS in metadata.values())
        self.empty_records = sum(each.records[VALUE].null_count for each in fetched)
        if extra == "add":
            stored = () if expected is None or self.table is None else self.table.schema.fields
            added = to_arrow_schema([each for each in stored if each.name not in schema.names])
            schema = pa.schema([*schema, *added])
            schema = pa.schema([*schema, *other_members(fetched, schema.names)])
        check = check_of(self.table, schema) if expected is not None and self.table else None
        parts = (
            rows(
                each, schema, metadata, extra_members, check=check,
                reject=partial(self.dead_letters.add, each.range.name),
            )
            for each in fetched
            if len(each.records)
        )  # fmt: skip
        return pa.RecordBatchReader.from_batches(schema, chain.from_iterable(parts))

    def has_tasks(self, executor: str | None) -> bool:
        """Whether Spark's tasks read the ranges."""
        size = _ROW_BYTES * sum(map(len, self.ranges))
        return bool(self.ranges) and self.paimon.executor_for(size, executor) != "embedded"

    def changes(self, options: CdcOptions) -> list[ChangeBatch]:
        """Return the records as changes, in the order of their partitions and offsets."""
        changes = self.source.changes()
        return [
            batch for each in self._fetch(has_headers=True) for batch in changes.of(each, options)
        ]

    def _fetch(self, *, has_headers: bool) -> list[Fetched]:
        if not self.ranges:
            return []
        fetched = fetch(
            self.source.client(),
            self.ranges,
            max_bytes=self.max_bytes,
            has_headers=has_headers,
            report=lambda count: self.log.info("%s so far.", counted(count, "record")),
        )
        self.accept((each.range, each.sent_ms) for each in fetched)
        return fetched

    def accept(self, ranges: Iterable[tuple[OffsetRange, tuple[int, int] | None]]) -> None:
        """Take ranges as they were read, each with the times of its records."""
        read = [(span, sent_ms) for span, sent_ms in ranges if len(span)]
        self.ranges = [span for span, _ in read]
        self.sent_ms = {
            (span.topic, span.partition): sent_ms for span, sent_ms in read if sent_ms is not None
        }

    def can_leave_out(self, error: PaimonError) -> bool:
        """Whether the run may skip a record that cannot be read: no."""
        return False

    def _positions_after(self) -> dict[Place, int]:
        return self.positions | {(each.topic, each.partition): each.end for each in self.ranges}

    def _offsets(self, positions: Mapping[Place, int]) -> Mapping[str, Any]:
        """Return positions as the ledger keeps them; topics that are gone keep theirs."""
        own = {
            topic.name: {
                _ID: topic.id,
                _NEXT: {str(part): positions[topic.name, part] for part in topic.bounds},
            }
            for topic in self.topics
        }
        return {**self.ledger.offsets, **own}

    def next_ledger(self) -> Ledger:
        offsets = self._offsets(self._positions_after())
        return replace(self.ledger.with_files(()), offsets=offsets)

    def check_unchanged(self) -> None:
        """Keep records that are no rows; a run that fails is repeated. Records do not change."""
        self.dead_letters.write(self.paimon.catalog())

    def name_record(self, error: PaimonError) -> PaimonError:
        return error


def _lost_offsets(topic: TopicState, known: Mapping[int, int]) -> dict[int, str]:
    """Return partitions whose position is outside of them → why."""
    lost = {}
    for part, (first, end) in topic.bounds.items():
        if known.get(part, first) < first:
            lost[part] = f"its first record is {first}: the retention has deleted earlier ones"
        elif known.get(part, first) > end:
            lost[part] = f"it ends at {end}: it was made again, or lost records"
    return lost


def shares(ranges: Sequence[OffsetRange], most: int) -> list[OffsetRange]:
    """Return ranges of so many offsets at most, the short ones whole.

    >>> a, b = (OffsetRange(topic="t", partition=0, start=0, end=end) for end in (9, 2))
    >>> [len(each) for each in shares([a, replace(b, partition=1)], 6)]
    [4, 2]
    """
    if not most:
        return list(ranges)
    cut, left = [*ranges], most
    order = sorted(range(len(cut)), key=lambda at: len(cut[at]))
    for number, at in enumerate(order):
        count = min(len(cut[at]), max(1, left // (len(cut) - number)) if left else 0)
        cut[at] = replace(cut[at], end=cut[at].start + count)
        left -= count
    return [each for each in cut if len(each)]
