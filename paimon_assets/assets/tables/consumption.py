"""How far an input with a consumer was read, as the table that was made of it says.

    load_input ─▶ note(run, step, consumer, next snapshot) ─▶ the step ─▶ commit ─▶ advance
         ▲                                                                   │
         └───────── the newest snapshot of the output says how far ──────────┘

The position is committed with the rows that were made of the input, or of none where there were
none. So a process that dies before the consumer advances reads nothing twice, and a table that is
rolled back reads again what it lost. The consumer itself keeps snapshots from expiring; where no
snapshot of the output says anything, it says where to begin.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from paimon_assets.assets.metadata import snapshot_or_none
from paimon_assets.engine.control.commit.file_store_commit import Condition
from paimon_assets.engine.errors import CommitConflictError, InvalidInputError
from paimon_assets.engine.spec.metadata.snapshot import CONSUMED_PROPERTY_PREFIX, Snapshot
from paimon_assets.engine.table.table import Table


@dataclass(frozen=True, kw_only=True)
class Position:
    """Where a consumer goes on, and what it has read."""

    next_snapshot: int
    created_ms: int
    """When the table was created; one made anew begins from its first snapshot."""
    last: str
    """Name of the snapshot before, empty if there was none or it had expired."""

    def to_text(self) -> str:
        """Return the position as a property holds it."""
        return f"{self.next_snapshot} {self.created_ms} {self.last}".strip()

    @staticmethod
    def of_text(text: str) -> "Position":
        """Parse a property."""
        number, created_ms, *last = text.split(" ")
        return Position(
            next_snapshot=int(number), created_ms=int(created_ms), last=last[0] if last else ""
        )


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """What the output of a step says of one of its inputs, when that is read."""

    text: str | None = None
    """The newest position, None if there is none."""
    newest: str | None = None
    """Name of the output's newest snapshot."""


@dataclass(frozen=True, kw_only=True)
class Consumed:
    """The snapshots one input of a step has read."""

    table: Table
    consumer: str
    next_snapshot: int
    start: int | None
    """Where it began, None if at the table as it was."""
    recorded: Recorded

    @property
    def key(self) -> str:
        """The property of the step's snapshot that says how far."""
        return consumed_key(self.table, self.consumer)

    @property
    def has_moved(self) -> bool:
        """Whether there was anything to read."""
        return self.next_snapshot != self.start

    def position(self) -> Position:
        """Return how far it has read."""
        last = snapshot_or_none(self.table, self.next_snapshot - 1)
        return Position(
            next_snapshot=self.next_snapshot,
            created_ms=self.table.created_ms,
            last="" if last is None else last.name,
        )

    def unless_consumed(self, output: Table) -> Condition:
        """Return that nobody else has committed what was made of the same input meanwhile."""

        def check(latest: Snapshot | None) -> None:
            text = _newest_text(output, self.key, latest, until=self.recorded)
            if text != self.recorded.text:
                raise CommitConflictError(
                    f"Another run has read table '{self.table.name}' as consumer "
                    f"'{self.consumer}' and committed to table '{output.name}' meanwhile; its "
                    "commit stands and this one was dropped.",
                    kind="consumed-meanwhile",
                    details={"table": output.name, "consumer": self.consumer},
                )

        return check


def consumed_key(table: Table, consumer: str) -> str:
    """Return the property that says how far a consumer has read a table."""
    return f"{CONSUMED_PROPERTY_PREFIX}{table.name}.{consumer}"


def recorded_in(output: Table | None, table: Table, consumer: str) -> Recorded:
    """Return what a table says of how far it has read another.

    Cost:
        Its newest snapshot; of commits of others, each before is read.
    """
    newest = None if output is None else output.latest_snapshot()
    if output is None or newest is None:
        return Recorded()
    text = _newest_text(output, consumed_key(table, consumer), newest, until=Recorded())
    return Recorded(text=text, newest=newest.name)


def _newest_text(
    output: Table, key: str, snapshot: Snapshot | None, *, until: Recorded
) -> str | None:
    while snapshot is not None:
        if snapshot.name == until.newest:
            return until.text
        if key in snapshot.properties:
            return snapshot.properties[key]
        snapshot = snapshot_or_none(output, snapshot.id - 1)
    return None


def start_of(recorded: Recorded, table: Table, consumer: str) -> int | None:
    """Return the snapshot a consumer goes on with, None if the table shall be read as it is.

    Where the output knows less than the consumer's file, it was rolled back: the file follows, so
    that what is to be read again does not expire.
    """
    known = table.consumers.next_snapshot(consumer)
    if recorded.text is None:
        return known
    position = Position.of_text(recorded.text)
    if position.created_ms != table.created_ms:
        return known
    _refuse_rolled_back(position, table, consumer)
    if known is not None and known > position.next_snapshot:
        table.consumers.reset(consumer, position.next_snapshot)
    return position.next_snapshot


def _refuse_rolled_back(position: Position, table: Table, consumer: str) -> None:
    newest = table.latest_snapshot()
    last = snapshot_or_none(table, position.next_snapshot - 1)
    is_gone = position.next_snapshot > (0 if newest is None else newest.id) + 1
    if is_gone or (last is not None and position.last and last.name != position.last):
        raise InvalidInputError(
            f"Consumer '{consumer}' has read table '{table.name}' up to snapshot "
            f"{position.next_snapshot - 1}, which was rolled back since. Roll the table that was "
            "made of it back too, or read under another consumer's name.",
            kind="consumer-ahead",
            details={"table": table.name, "consumer": consumer},
        )


_Step = tuple[str, str]
"""Run id and step key."""

_READ: dict[_Step, dict[str, Consumed]] = {}
"""Inputs are loaded and outputs handled in one process, by IO managers that may differ."""


def note(run_id: str, step_key: str, consumed: Consumed) -> None:
    """Remember what an input has read; a retry replaces it."""
    _READ.setdefault((run_id, step_key), {})[consumed.key] = consumed


def take_consumed(run_id: str, step_key: str) -> tuple[Consumed, ...]:
    """Return what the inputs of a step have read, and forget it: a retry reads them again."""
    return tuple(_READ.pop((run_id, step_key), {}).values())


def as_properties(consumed: Sequence[Consumed]) -> dict[str, str]:
    """Return what the step's snapshot says of its inputs."""
    return {item.key: item.position().to_text() for item in consumed}


def advance(consumed: Sequence[Consumed], committed: Mapping[str, str]) -> None:
    """Let consumers go on, behind what was committed.

    `committed` are the properties of the step's snapshot, empty if there was nothing to commit.
    """
    for item in consumed:
        text = committed.get(item.key)
        following = item.next_snapshot if text is None else Position.of_text(text).next_snapshot
        item.table.consumers.advance(item.consumer, following)
