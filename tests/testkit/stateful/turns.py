"""Somebody else's turn in the middle of a step: between plan and commit, or at the publish."""

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from paimon_assets import DataSplit, EmbeddedExecutor
from paimon_assets.engine.contract.commit_message import WriteResult
from paimon_assets.engine.contract.context import ReadContext, WriteContext
from paimon_assets.engine.contract.tasks.task_batch import TaskBatch
from paimon_assets.engine.data.worker import run_task
from paimon_assets.engine.embedded import ArrowRows
from paimon_assets.engine.fileio.local import LocalFileIO

Turn = Callable[[], None]


class Once:
    def __init__(self, turn: Turn) -> None:
        self._turn: Turn | None = turn

    def __call__(self) -> None:
        turn, self._turn = self._turn, None
        if turn is not None:
            turn()

    def at_publish(self, _number: int, method: str, path: str) -> None:
        """Take the turn before a snapshot is published, so that this race is lost."""
        if method == "publish" and "/snapshot/snapshot-" in path:
            self()


class PatientExecutor:
    """The embedded executor in one thread; lets others do something when its work is done."""

    def __init__(self, turn: Turn) -> None:
        self._inner = EmbeddedExecutor(threads=1)
        self._turn = turn

    def map_splits(
        self, context: ReadContext, splits: Sequence[DataSplit]
    ) -> Iterator[pa.RecordBatch]:
        self._turn()
        yield from self._inner.map_splits(context, splits)

    def row_schema(self, rows: ArrowRows) -> pa.Schema:
        return rows.schema

    def map_rows(self, context: WriteContext, rows: ArrowRows) -> WriteResult:
        result = self._inner.map_rows(context, rows)
        self._turn()
        return result

    def rewrite(
        self, read: ReadContext, splits: Sequence[DataSplit], write: WriteContext
    ) -> WriteResult:
        result = self._inner.rewrite(read, splits, write)
        self._turn()
        return result

    def map_tasks(self, batch: TaskBatch) -> Iterator[tuple[int, bytes]]:
        file_io = LocalFileIO()
        for number, payload in enumerate(batch.payloads):
            yield number, run_task(batch.name, batch.shared, payload, file_io)
        self._turn()
