"""Positions in logs, as texts that sort: the number of the log among those of the table, its own.

Records without a position count in the order of files and lines. A row of a snapshot without one
follows the record before it: its position is that record's, and its own number behind it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import field
from msgspec.structs import asdict, replace

from paimon_assets.cdc.fold.change_fold import LogState, number_texts, position_texts
from paimon_assets.cdc.fold.change_images import ReadChanges
from paimon_assets.cdc.records.change_batch import (
    LOG,
    MADE,
    ORIGIN_SCHEMA,
    PLACE,
    ChangeBatch,
    EventKind,
)
from paimon_assets.cdc.records.connectors import ZERO
from paimon_assets.engine.codec.arrow.numpy_columns import Flags, from_numpy, to_numpy
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.types.data_types import DataField, DataType, string
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.spec.words import shorten

_OF_COLUMNS = ("columns", "types", "dropped")
_CLOCK_STEP = 60_000
"""Milliseconds that the clock of a source may be set back by, or connectors may be late by."""
_BEHIND, _BEFORE_DIGITS = "+", "!"
"""Sorts below digits, so that a position with a suffix precedes the next position."""


class LogHead(Value):
    """How far a table has applied its log; kept in the ledger."""

    logs: tuple[str, ...] = ()
    """Names of the logs, the oldest first; one without a name is empty. A server that came back
    has its name twice."""
    ends: tuple[str, ...] = ()
    """The highest position of each log; empty: not known."""
    began: tuple[int, ...] = ()
    """When each log began that is the one of before, gone back: since then changes of that name are
    its own. 0: it is another one."""
    made: int = 0
    """When the newest change of the last log was made, in milliseconds; 0: not known."""
    by_lsn: tuple[str, ...] = ()
    """The highest position of each log of Postgres that an older version has ordered by LSN alone,
    without the commits: up to it, that order stays."""
    state: LogState = field(default_factory=LogState)
    truncated: str = ""
    """Position of the last truncate that emptied the table."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Column → type, of the newest record with all columns of the source."""
    types: Mapping[str, str] = field(default_factory=dict)
    """Column → the type that the newest record with types has for it."""
    dropped: Mapping[str, str] = field(default_factory=dict)
    """Column → position at which the source did not have it; older values are null there."""
    repeats_deletes: bool = False
    """Whether tombstones repeat deletes."""
    source: str = ""
    """The source table, as its records name it."""

    @classmethod
    def of(cls, members: Mapping[str, Any]) -> "LogHead":
        """Parse the JSON members of a ledger."""
        known = {"forgotten": members.get("state", {}).get("deleted", ""), "deletes": {}}
        state = LogState(**{**known, **members.get("state", {})})
        texts = {name: str(members.get(name, "")) for name in ("truncated", "source")}
        logs = tuple(map(str, members.get("logs", ())))
        of_columns: Any = {name: dict(members.get(name, {})) for name in _OF_COLUMNS}
        ends = tuple(map(str, members.get("ends", ())))
        old = [text for text in (*ends, state.high) if _is_by_lsn(text, logs)]
        by_lsn = tuple(map(str, members.get("by_lsn", dict.fromkeys(old))))
        began, made = tuple(map(int, members.get("began", ()))), int(members.get("made", 0))
        return cls(
            logs=logs, ends=ends, began=began, made=made, by_lsn=by_lsn, state=state,
            repeats_deletes=bool(members.get("repeats_deletes")),
            **{**texts, **of_columns},
        )  # fmt: skip

    def members(self) -> Mapping[str, Any]:
        """Return the JSON members for the ledger."""
        state = asdict(self.state)
        more = {name: dict(of) for name in _OF_COLUMNS if (of := getattr(self, name))}
        texts = {"truncated": self.truncated, "source": self.source}
        lists = {name: [*getattr(self, name)] for name in ("logs", "ends", "began", "by_lsn")}
        return {
            **lists, "made": self.made, "state": state, **texts, **more,
            "repeats_deletes": self.repeats_deletes,
        }  # fmt: skip

    def with_log(
        self, table: str, name: str, *, accepted: bool, is_last: bool = False
    ) -> "LogHead":
        """Return the head that knows a log, too; `is_last`: as the last one, as it is by arrival.

        Raises:
            InvalidInputError: Kind `cdc-log`: the table is fed by another one, and that the new one
                follows it was not `accepted`.
        """
        logs = self.logs[-1:] if is_last else self.logs
        if name in logs or (logs and not name):
            return self
        if self.logs == ("",):  # whose name was not known
            return replace(self, logs=(name,))
        if self.logs and not accepted:
            message = (
                f"Table '{table}' has applied the log '{self.logs[-1]}', and the files are of the "
                f"log '{name}': their positions cannot be compared. If the new log continues "
                "the old one, such as after a failover, run with new_log=true once; else "
                "load the table again with reload=true."
            )
            raise InvalidInputError(message, kind="cdc-log", table=table, log=name)
        return replace(self, logs=(*self.logs, name))


class Positions(Value):
    """Positions of images as texts, and those of truncates."""

    head: LogHead
    """Knows the logs of the images."""
    texts: Any
    truncates: tuple[str, ...]


class SeenSchema(Value):
    """Columns of the source, as some of its records or a DDL event tell them."""

    position: str
    """The newest one that has them."""
    first: str
    """The oldest one."""
    fields: tuple[DataField, ...]
    is_whole: bool
    """Whether they are all columns, with the source's types."""
    has_types: bool = True
    """Whether the types are the source's."""
    texts: tuple[str, ...] = ()
    """Columns that are texts in the source, whatever type they have here."""
    is_event: bool = False
    defaults: tuple[str, ...] = ()
    """Columns that have a default in the source."""

    @property
    def names(self) -> frozenset[str]:
        """The columns."""
        return frozenset(each.name for each in self.fields)

    @property
    def types(self) -> Mapping[str, DataType]:
        """Column → its type in the source, where it is known."""
        if not self.has_types:
            return {}
        return {
            each.name: string() if each.name in self.texts else replace(each.type, nullable=True)
            for each in self.fields
        }


def in_order(seen: Iterable[SeenSchema]) -> list[tuple[str, SeenSchema]]:
    """Return schemas in the order of the log, each where its records begin and where they end."""
    ends = [(text, each) for each in seen for text in {each.first: 0, each.position: 0}]
    return sorted(ends, key=lambda end: (end[0], end[1].is_event))


def types_of(ordered: Sequence[tuple[str, SeenSchema]]) -> Iterator[tuple[str, str, DataType]]:
    """Yield positions, columns and their types; those of events where no record has types."""
    of_records = {name for _, each in ordered if not each.is_event for name in each.types}
    for position, each in ordered:
        for name, kind in each.types.items():
            if not each.is_event or name not in of_records:
                yield position, name, kind


def seen_schemas(batches: Iterable[ChangeBatch], positions: Any) -> Iterator[SeenSchema]:
    """Yield the schemas of batches, each behind its events; positions are texts."""
    start = 0
    for batch in batches:
        stop = start + len(batch)
        for event in batch.events:
            if event.fields:
                place = min(start + event.before_row, len(positions) - 1)
                text = positions[place].as_py() if place >= 0 else ""
                yield SeenSchema(
                    position=text, first=text, fields=event.fields, is_whole=True, is_event=True
                )
        ends: Any = pc.min_max(positions[start:stop])
        yield SeenSchema(
            position=ends["max"].as_py() or "",
            first=ends["min"].as_py() or "",
            fields=batch.fields,
            is_whole=stop > start and batch.has_all_columns,
            has_types=stop > start and batch.has_types,
            texts=tuple(batch.texts),
            defaults=tuple(batch.defaults),
        )
        start = stop


def positions_of(
    changes: ReadChanges,
    head: LogHead,
    table: str,
    *,
    generation: int,
    arrival: str,
    accepted: bool,
    reload: bool = False,
) -> Positions:
    """Return the positions of images, by the log or by arrival.

    Args:
        changes: The images.
        head: As the table has it.
        table: For messages.
        generation: Of the commit that will hold them.
        arrival: The name of the log where records have no position.
        accepted: Whether a log that the table does not know follows those it does, or one that it
            knows continues after them.
        reload: Whether all is read again, in the order of logs that the table knows.

    Raises:
        InvalidInputError: Kind `cdc-log`, as `LogHead.with_log`, or where the log went back, such
            as that of a restored database; or `cdc-position`: one cannot be
            read, only some have a position, or several new logs are mixed.
    """
    events = changes.events(EventKind.TRUNCATE)
    of_events = pa.Table.from_pylist([event.origin for _, event in events], schema=ORIGIN_SCHEMA)
    origin, count = pa.concat_tables([changes.origin, of_events]), len(changes)
    logs, places = origin[LOG].combine_chunks(), origin[PLACE].combine_chunks()
    row = pc.index(pc.and_(places.is_null(), logs.is_valid()), pa.scalar(value=True)).as_py()
    if row >= 0:
        raise InvalidInputError(
            f"The position of a change of '{changes.name}' in its log is not read: "
            f"'{origin['file'][row]}', line {origin['line'][row]}. Read the records from a topic, "
            "where their offset is the order: KafkaSource(order='offset').",
            kind="cdc-position",
            table=table,
            file=str(origin["file"][row]),
        )
    of_snapshot: Any = pc.equal(places, pa.scalar("")).fill_null(False)  # noqa: FBT003
    known = pc.and_not(places.is_valid(), of_snapshot)
    is_alone = pc.all(of_snapshot, min_count=0).as_py() and head.logs[-1:] != (arrival,)
    if not pc.any(known).as_py() and not is_alone:
        head = head.with_log(table, arrival, accepted=accepted or reload, is_last=True)
        epoch = len(head.logs) - 1
        starts = 2 * np.array([before for before, _ in events], dtype=np.int64)
        return Positions(
            head=head,
            texts=arrival_positions(changes.origin, epoch, generation),
            truncates=tuple(_by_arrival(epoch, generation, starts).to_pylist()),
        )
    row = pc.index(places.is_null(), pa.scalar(value=True)).as_py()
    if row >= 0:
        raise InvalidInputError(
            f"A change of '{changes.name}' has no position in its log, but other changes have one: "
            f"'{origin['file'][row]}', line {origin['line'][row]}. Ingest files without positions "
            "in runs of their own (max_files), with new_log=true.",
            kind="cdc-position",
            table=table,
            file=str(origin["file"][row]),
        )
    names = {*logs.unique().to_pylist()} - {None, *head.logs}
    unknown = sorted(map(str, names)) or [""]
    if len(unknown) > 1:
        message = (
            f"Changes of '{changes.name}' come from several logs ({shorten(unknown)}), whose "
            "positions cannot be compared. Ingest the files of one log before those of the next."
        )
        raise InvalidInputError(message, kind="cdc-position", table=table, log=unknown[0])
    high, known_logs = head.state.high or f"{0:03}", head.logs
    head = head.with_log(table, unknown[0], accepted=accepted or reload)
    places = pc.if_else(of_snapshot, pa.scalar(None, pa.string()), places)
    head, texts = _place_events(head, logs, places, table, accepted=accepted, reload=reload)
    if head.logs != known_logs:
        head = replace(head, made=0)
    befores = np.array([before for before, _ in events], dtype=np.int64)
    order = np.argsort(np.concatenate([2 * np.arange(count) + 1, 2 * befores]), kind="stable")
    made = origin[MADE].combine_chunks()
    row, head, texts = _gone_back(head, logs, places, texts, made, order, accepted=accepted)
    if row >= 0 and not reload:
        log, file = head.logs[-1], str(origin["file"][row])
        message = (
            f"The log '{log}' of table '{table}' went back: '{file}', line"
            f" {origin['line'][row]}, is below changes before it and was made later. Nothing "
            "was committed. If the source was restored, or its log was reset, run with "
            "new_log=true once: rows that a restore undid stay, unless a new snapshot is loaded. "
            "If a clock was wrong, and the change is only late, load the table again with "
            "reload=true."
        )
        raise InvalidInputError(message, kind="cdc-log", table=table, log=log, file=file)
    ends = [*head.ends, *[""] * len(head.logs)][: len(head.logs)]
    for epoch in range(len(ends)):
        inside = texts.filter(pc.starts_with(texts, f"{epoch:03}:"))
        ends[epoch] = max(ends[epoch], pc.max(inside).as_py() or "")
    head = replace(head, ends=tuple(ends))
    if pc.any(of_snapshot).as_py():
        texts = _with_neighbours(texts, origin["file"], befores.tolist(), high, generation)
    return Positions(head=head, texts=texts[:count], truncates=tuple(texts[count:].to_pylist()))


def _with_neighbours(
    texts: Any, files: Any, befores: Sequence[int], high: str, generation: int
) -> Any:
    """Place rows of a snapshot, whose positions are null, beside their neighbours in the file.

    They are behind the record or event before them. If their file has none before them, they are
    right before the next one. If it has no other record at all, they are behind the changes that
    the run has read before, or behind `high`.
    """
    count = len(texts) - len(befores)
    at = np.concatenate([2 * np.arange(count) + 1, 2 * np.array(befores, dtype=np.int64)])
    order, places = np.argsort(at, kind="stable"), np.arange(len(at))
    texts = texts.take(from_numpy(order))
    files = files.combine_chunks().dictionary_encode().indices.to_numpy()[order]
    known = to_numpy(texts.is_valid())
    before = np.maximum.accumulate(np.where(known, places, -1))
    after = np.minimum.accumulate(np.where(known, places, len(at))[::-1])[::-1]
    is_after = (after < len(at)) & (files[np.minimum(after, len(at) - 1)] == files)
    is_after &= (before < 0) | (files[before] != files)
    last = pc.utf8_slice_codeunits(texts, 0, -1).take(pa.array(after, mask=~is_after))
    base = pc.if_else(
        from_numpy(is_after),
        pc.binary_join_element_wise(last, _BEFORE_DIGITS, ""),
        texts.take(pa.array(before, mask=before < 0)).fill_null(high.partition(_BEHIND)[0]),
    )
    own = number_texts([pa.repeat(pa.scalar(generation), len(at)), pa.array(places)])
    filled = pc.coalesce(texts, pc.binary_join_element_wise(base, own, _BEHIND))
    return filled.take(from_numpy(np.argsort(order)))


def _place_events(
    head: LogHead, logs: Any, places: Any, table: str, *, accepted: bool, reload: bool
) -> tuple[LogHead, Any]:
    """Return positions as texts, and the head with the log that continues and the ends of all.

    A record of a log that later logs have followed belongs to the first part of it that ended no
    earlier. One after all of these was made when its server was the source again, or before the
    later logs and is late: positions do not distinguish the two.
    """
    newest = len(head.logs) - 1  # such as a snapshot, whose log has no name
    ends = [*head.ends, *[""] * len(head.logs)][: len(head.logs)]
    ends[newest] = max(ends[newest], head.state.high)
    names = head.logs

    def texts_of(epoch: int) -> Any:
        texts: Any = pc.binary_join_element_wise(f"{epoch:03}", places, ":")
        for end in head.by_lsn:
            if end.startswith(f"{epoch:03}:"):
                rest = pc.utf8_slice_codeunits(places, len(ZERO) + 1)
                by_lsn: Any = pc.binary_join_element_wise(f"{epoch:03}", ZERO, rest, ":")
                texts = pc.if_else(pc.less_equal(by_lsn, pa.scalar(end)), by_lsn, texts)
        return texts

    texts = texts_of(newest)
    for name in {*names[:newest]}:
        is_own = pc.fill_null(pc.equal(logs, pa.scalar(name)), pa.scalar(value=False))
        if not pc.any(is_own).as_py():
            continue
        first, *later = [epoch for epoch, known in enumerate(names) if known == name]
        own, last = texts_of(first), first
        for epoch in later:
            is_before = pc.less_equal(own, pa.scalar(ends[last]))
            own, last = pc.if_else(is_before, own, texts_of(epoch)), epoch
        continues = pc.and_(is_own, pc.greater(own, pa.scalar(ends[last])))
        if last < newest and pc.any(continues).as_py() and not (reload and not accepted):
            if not accepted or head.logs != names:
                message = (
                    f"Table '{table}' has applied the log '{head.logs[-1]}', and the files have "
                    f"changes of the log '{name}' after the last one that it had of that before. "
                    "If the source went back to that log, such as after a failback, run with "
                    "new_log=true once; if they were made before the other log, load the table "
                    "again with reload=true."
                )
                raise InvalidInputError(message, kind="cdc-log", table=table, log=name)
            head = replace(head, logs=(*names, name))
            own = pc.if_else(continues, texts_of(newest + 1), own)
            ends.append("")
        texts = pc.if_else(is_own, own, texts)
    return replace(head, ends=tuple(ends)), texts


def _gone_back(
    head: LogHead, logs: Any, places: Any, texts: Any, made: Any, order: Any, *, accepted: bool
) -> tuple[int, LogHead, Any]:
    """Find where the last log went back: to a lower position at a later time.

    Args:
        head: Knows the logs.
        logs: Of the changes.
        places: Their positions in the logs.
        texts: The same, with the numbers of the logs.
        made: When they were made, if that is known.
        order: In which they have come.
        accepted: Whether changes made since then are a new log of that name.

    Returns:
        The first change, -1 if there is none or it was accepted; head and positions.
    """
    names, began = [*head.logs], [*head.began, *[0] * len(head.logs)][: len(head.logs)]
    times = to_numpy(made.fill_null(-1))
    newest, last = len(names) - 1, head.made
    high = head.state.high if last else ""

    def texts_of(epoch: int, flags: Flags) -> Any:
        is_own = pc.fill_null(pc.equal(logs, pa.scalar(names[epoch])), names[epoch] == names[-1])
        moved: Any = pc.binary_join_element_wise(f"{epoch:03}", places, ":")
        return pc.if_else(pc.and_(is_own, from_numpy(flags)), moved, texts)

    for epoch in range(newest, 0, -1):
        if since := began[epoch]:
            inside = to_numpy(pc.starts_with(texts, f"{epoch:03}:").fill_null(False))  # noqa: FBT003
            before = max(each for each in range(epoch) if names[each] == names[epoch])
            texts = texts_of(before, inside & (times >= 0) & (times < since))
    for epoch, since in enumerate(began):
        texts = texts_of(epoch, times >= since) if since else texts
    while True:
        inside = to_numpy(pc.starts_with(texts, f"{newest:03}:").fill_null(False))  # noqa: FBT003
        rows = order[(inside & (times >= 0))[order]]
        if not len(rows):
            break
        ranks: Any = pc.rank(
            pa.concat_arrays([pa.array([high], pa.string()), texts.take(from_numpy(rows))]),
            tiebreaker="dense",
        )
        highest = np.maximum.accumulate(to_numpy(ranks))
        latest = np.maximum.accumulate(np.concatenate([[last], times[rows]]))
        is_back = to_numpy(ranks)[1:] < highest[:-1]
        is_back &= times[rows] > latest[:-1] + _CLOCK_STEP
        if not is_back.any():
            last = int(latest[-1])
            break
        row = int(rows[np.argmax(is_back)])
        if not accepted:
            return row, head, texts
        names, began, newest = [*names, names[-1]], [*began, int(times[row])], newest + 1
        texts = texts_of(newest, times >= began[-1])
        high, last = "", 0
    return -1, replace(head, logs=tuple(names), began=tuple(began), made=last), texts


def _is_by_lsn(text: str, logs: Sequence[str]) -> bool:
    epoch, _, rest = text.partition(":")
    is_old = rest.startswith(f"{ZERO}:") and rest.endswith(f":{ZERO}")
    return is_old and logs[int(epoch)].startswith(("postgresql:", ":"))


def arrival_positions(origin: pa.Table, epoch: int, generation: int, first: int = 0) -> Any:
    """Return the positions of images by arrival, counted from `first`; those of a record are equal.

    Args:
        origin: Of the images.
        epoch: Number of the order of arrival among the table's logs.
        generation: Of the commit that will hold the images.
        first: The first number; concurrent tasks take numbers far enough from each other.
    """
    numbers = np.arange(len(origin), dtype=np.int64)
    files = origin["file"].combine_chunks().dictionary_encode().indices.to_numpy()
    is_first = np.diff(origin["line"].to_numpy(), prepend=-1) != 0
    is_first |= np.diff(files, prepend=-1) != 0
    first_of_record = np.maximum.accumulate(np.where(is_first, numbers, 0))
    return _by_arrival(epoch, generation, first + 2 * first_of_record + 1)


def _by_arrival(epoch: int, generation: int, rows: Any) -> Any:
    count = pa.repeat(pa.scalar(generation, pa.int64()), len(rows))
    return position_texts(epoch, [count, pa.array(rows, pa.int64())])
