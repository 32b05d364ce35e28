"""How far an input with a consumer was read, until what was made of it is committed.

    load_input ─▶ note(run, step, consumer, next snapshot) ─▶ the step ─▶ commit ─▶ advance

A consumer advances only after the step's own commit, and the commit's snapshot says how far: a
retry that finds it advances to what was written, not to what it read this time. A process that
dies in between reads the same changes again in its next run: at least once, never lost.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from paimon_assets.engine.table.table import Table

_PROPERTY = "dagster.consumed"


@dataclass(frozen=True, kw_only=True)
class Consumed:
    """The snapshots one input of a step has read."""

    table: Table
    consumer: str
    next_snapshot: int

    @property
    def key(self) -> str:
        """The property of the step's snapshot that says how far."""
        return f"{_PROPERTY}.{self.table.name}.{self.consumer}"


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
    return {item.key: str(item.next_snapshot) for item in consumed}


def advance(consumed: Sequence[Consumed], committed: Mapping[str, str]) -> None:
    """Let consumers go on, behind what was committed.

    Args:
        consumed: What the step has read.
        committed: Properties of the step's snapshot, empty if there was nothing to commit.
    """
    for item in consumed:
        position = committed.get(item.key)
        following = item.next_snapshot if position is None else int(position)
        item.table.consumers.advance(item.consumer, following)
