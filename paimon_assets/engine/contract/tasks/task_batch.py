"""TaskBatch: work that is neither a read of splits nor a write of rows, such as a compaction.

A task is a name, which `data.worker` knows, and bytes. What the bytes mean is between the module
that makes the tasks and the one that runs them; both sides encode with `contract.wire`.
"""

from collections.abc import Collection, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Protocol, TypeVar

from paimon_assets.engine.fileio.base import FileIOSpec

T = TypeVar("T")


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
    parallelism: int | None = None
    """Most tasks at a time; None leaves it to the executor."""
    file_io: FileIOSpec
    subject: str = ""
    """The table, and its snapshot: for what people see of the tasks."""

    @property
    def costs(self) -> tuple[int, ...]:
        """Cost of each task, at least 1."""
        return tuple(max(1, w) for w in self.weights) or (1,) * len(self.payloads)

    def at_a_time(self, cores: int) -> int:
        """Return how many tasks an executor of so many cores runs at a time."""
        return max(1, min(cores, self.parallelism or cores))


class TaskRunner(Protocol):
    """The part of an `Executor` that runs tasks."""

    def map_tasks(self, batch: TaskBatch) -> Iterator[tuple[int, bytes]]:
        """Run tasks; see `contract.executor`."""
        ...


def as_ended(futures: Collection[Future[T]]) -> Iterator[Future[T]]:
    """Yield futures as they end, those that were cancelled too.

    `as_completed` waits for ever for futures that the shutdown of their pool cancelled.
    """
    ended: SimpleQueue[Future[T]] = SimpleQueue()
    for future in futures:
        future.add_done_callback(ended.put)
    for _ in futures:
        yield ended.get()
