"""TaskBatch: work that is neither a read of splits nor a write of rows, such as a compaction.

A task is a name, which `data.worker` knows, and bytes. What the bytes mean is between the module
that makes the tasks and the one that runs them; both sides encode with `contract.wire_frame`.
"""

from dataclasses import dataclass

from paimon_assets.engine.fileio.base import FileIOSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskBatch:
    """Tasks of one kind that may run in any order and at once."""

    name: str
    """What to run: a key of `data.worker.TASKS`."""
    shared: bytes = b""
    """What all tasks must know, such as the context of a write."""
    payloads: tuple[bytes, ...]
    """One for each task."""
    weights: tuple[int, ...] = ()
    """Cost of each task, such as the bytes it reads, to deal them evenly; empty is all alike."""
    file_io: FileIOSpec

    @property
    def costs(self) -> tuple[int, ...]:
        """Cost of each task, at least 1."""
        return tuple(max(1, w) for w in self.weights) or (1,) * len(self.payloads)
