"""The position of an input with a consumer, kept by the table that the step writes.

    load_input ─▶ READS ─▶ the step ─▶ commit ─▶ consumer advances
         ▲                               │
         └─ position, in the output's newest snapshot

The position is committed with the rows made of the input, or alone where there are none. So a
process that dies before the consumer advances reads nothing twice, and a table that is rolled back
reads its lost changes again. The consumer keeps snapshots from expiring; without a position in the
output it is the starting point.
"""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from paimon_assets.assets.metadata import snapshot_or_none
from paimon_assets.assets.provenance import StepMemory
from paimon_assets.engine.control.commit.file_store_commit import Condition
from paimon_assets.engine.errors import CommitConflictError, InvalidInputError
from paimon_assets.engine.spec.metadata.snapshot import CONSUMED_PROPERTY_PREFIX, Snapshot
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.table.table import Table


class Position(Value):
    """The next snapshot of a consumer."""

    next_snapshot: int
    created_ms: int
    """Creation time of the table; a table created again begins from its first snapshot."""
    last: str
    """Name of the snapshot before, empty if there was none or it had expired."""

    def to_text(self) -> str:
        return f"{self.next_snapshot} {self.created_ms} {self.last}".strip()

    @staticmethod
    def of_text(text: str) -> "Position":
        number, created_ms, *last = text.split(" ")
        return Position(
            next_snapshot=int(number), created_ms=int(created_ms), last=last[0] if last else ""
        )


class Consumed(Value):
    """The snapshots one input of a step reads."""

    table: Table
    consumer: str
    start: int | None
    """The first snapshot, None for the table as it is."""
    recorded: str | None = None
    """The position that the output held when the input was read, as text."""
    output_newest: str | None = None
    """Name of the output's newest snapshot then."""
    next_snapshot: int = 0

    @property
    def key(self) -> str:
        """The property of the output's snapshots that holds the position."""
        return f"{CONSUMED_PROPERTY_PREFIX}{self.table.name}.{self.consumer}"

    @property
    def has_moved(self) -> bool:
        return self.next_snapshot != self.start

    @property
    def position(self) -> Position:
        """The position after the read."""
        last = snapshot_or_none(self.table, self.next_snapshot - 1)
        return Position(
            next_snapshot=self.next_snapshot,
            created_ms=self.table.state.store.created_ms,
            last="" if last is None else last.name,
        )

    def unless_consumed(self, output: Table) -> Condition:
        """Return a commit condition: no other run has read this input meanwhile."""

        def check(latest: Snapshot | None) -> None:
            if self.recorded_in(output, latest) != self.recorded:
                raise CommitConflictError(
                    f"Another run has read table '{self.table.name}' as consumer "
                    f"'{self.consumer}' and committed to table '{output.name}' meanwhile; its "
                    "commit counts and this one was dropped.",
                    kind="consumed-meanwhile",
                    table=output.name,
                    consumer=self.consumer,
                )

        return check

    def recorded_in(self, output: Table, snapshot: Snapshot | None) -> str | None:
        """Return the newest position in the output, up to a snapshot."""
        while snapshot is not None:
            if snapshot.name == self.output_newest:
                return self.recorded
            if self.key in snapshot.properties:
                return snapshot.properties[self.key]
            snapshot = snapshot_or_none(output, snapshot.id - 1)
        return None


def begin_to_consume(table: Table, consumer: str, output: Table | None) -> Consumed:
    """Return the read of a consumer, from the position in the output.

    An output behind the consumer's file was rolled back: the file follows, so that the snapshots to
    read again do not expire.

    Cost:
        The output's newest snapshot; after foreign commits, each snapshot back to an own one.
    """
    start = known = table.consumers.next_snapshot(consumer)
    consumed = Consumed(table=table, consumer=consumer, start=start)
    newest = None if output is None else output.latest_snapshot()
    if output is None or newest is None:
        return consumed
    text = consumed.recorded_in(output, newest)
    position = None if text is None else Position.of_text(text)
    if position is not None and position.created_ms == table.state.store.created_ms:
        _refuse_rolled_back(position, table, consumer)
        start = position.next_snapshot
        if known is not None and known > start:
            table.consumers.reset(consumer, start)
    return replace(consumed, start=start, recorded=text, output_newest=newest.name)


def _refuse_rolled_back(position: Position, table: Table, consumer: str) -> None:
    newest = table.latest_snapshot()
    last = snapshot_or_none(table, position.next_snapshot - 1)
    is_gone = position.next_snapshot > (0 if newest is None else newest.id) + 1
    if is_gone or (last is not None and position.last and last.name != position.last):
        message = (
            f"Consumer '{consumer}' has read table '{table.name}' up to snapshot "
            f"{position.next_snapshot - 1}, which was rolled back since. Roll the table that was "
            "made of it back too, or read under another consumer's name."
        )
        raise InvalidInputError(message, kind="consumer-ahead", table=table.name, consumer=consumer)


READS = StepMemory[Consumed]()


def take_consumed(run_id: str, step_key: str) -> tuple[Consumed, ...]:
    """Return the reads of a step's inputs, those of its last try, and remove them."""
    return tuple({each.key: each for each in READS.take(run_id, step_key)}.values())


def advance(consumed: Sequence[Consumed], committed: Mapping[str, str]) -> None:
    """Move consumers to the committed position.

    `committed` are the properties of the step's snapshot, empty if there was nothing to commit.
    """
    for item in consumed:
        text = committed.get(item.key)
        following = item.next_snapshot if text is None else Position.of_text(text).next_snapshot
        item.table.consumers.advance(item.consumer, following)
