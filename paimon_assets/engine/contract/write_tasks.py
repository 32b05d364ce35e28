"""The tasks that write: compactions, postponed rows that get a bucket, and changes of rows.

Tasks `compact` share a `ReadContext` of every column. Tasks `place-waiting` share a
`PostponeContext`; each is a `DataSplit` of the postponed files of one partition, in the order their
rows were written. Tasks `row-change` and `erase` (an add-on's) share a `RowChange`, tasks
`write-columns` a `WriteContext`.
"""

from typing import Literal

import pyarrow as pa
from msgspec import field

from paimon_assets.engine.contract.commit_message import WriteResult
from paimon_assets.engine.contract.context import ReadContext, WriteContext
from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.spec.metadata.manifest import IndexFileMeta
from paimon_assets.engine.spec.predicate.predicate import Assignment, Predicate
from paimon_assets.engine.spec.values import Value

COMPACT_TASK = "compact"
"""Name of the task in a `TaskBatch`; its result is a `WriteResult` of one message."""
POSTPONE_TASK = "place-waiting"
"""Its result is a `WriteResult` of compact increments."""


class CompactTask(Value):
    """A compaction of some files of one bucket."""

    split: DataSplit
    """The files, and the deletion vectors of theirs."""
    above: DataSplit | None = None
    """Files of higher levels in which keys of level 0 are looked up; None looks nothing up."""
    output_level: int = 0
    """Level of the new files of a primary-key table."""
    max_level: int = 0
    drops_deletes: bool = False
    """Whether records that retract are gone afterwards."""
    now_ms: int = 0
    delete_retention_ms: int = 0
    """With `drops_deletes`, how long such records are kept nevertheless."""
    rewrites_files: bool = False
    """Each file is rewritten by itself."""
    expired: Predicate | None = None
    """Rows that are left out because of their age; bound."""
    expired_files: tuple[str, ...] = ()
    """Names of files that hold such rows, and are rewritten therefore."""
    index_files: tuple[IndexFileMeta, ...] = ()
    """Index files of deletion vectors that the task may replace: no other task does."""
    index_directory: str = ""
    joins: tuple[int, ...] = ()
    """Of a data-evolution table, how many of the files, one after the other, become one each."""

    @property
    def keeps_deletes(self) -> bool:
        """Whether records that retract are kept for a time, and say since when."""
        return self.drops_deletes and self.delete_retention_ms > 0

    @property
    def input_bytes(self) -> int:
        """Bytes of the files to compact, and of those looked up in."""
        return self.split.file_bytes + (self.above.file_bytes if self.above else 0)


class PostponeContext(Value):
    """The context of tasks that give postponed rows a bucket."""

    read: ReadContext
    """The read of all columns and the kinds of rows."""
    write: WriteContext
    """The write of the same table, where rows get their bucket at once."""


ROW_CHANGE_TASK = "row-change"
"""Name of the task in a `TaskBatch`; its result is a `RowChangeResult`."""


class RowChange(Value):
    """The context that all tasks of a row change share."""

    read: ReadContext
    """Every column; its predicate selects the rows that change."""
    write: WriteContext
    assignments: tuple[Assignment, ...] | None = None
    """New values of the rows; None deletes them."""
    marks: bool = False
    """Rows of a table without primary key are marked as deleted; else their files are rewritten."""
    only_counts: bool = False
    """Nothing is written."""
    source: bytes | None = None
    """Rows to match, as an Arrow stream; of those the predicate lets pass, only they change."""
    on: tuple[str, ...] = ()
    """Columns in which a row and a source row are equal if they match; not null."""
    deletes: str | None = None
    """A column of the source, true for rows that are deleted instead."""


class RowChangeTask(Value):
    """Files of one bucket in which rows change."""

    splits: tuple[DataSplit, ...]
    """At least one; exactly one for a table without primary key."""
    index_files: tuple[IndexFileMeta, ...] = ()
    """Index files of deletion vectors that the task may replace: no other task does."""
    index_directory: str = ""

    @property
    def input_bytes(self) -> int:
        return sum(split.file_bytes for split in self.splits)


class RowChangeResult(Value):
    rows_matched: int = 0
    """Rows for which the predicate is true, and that match a source row if there are any."""
    result: WriteResult = field(default_factory=WriteResult)
    source_rows: bytes = b""
    """Numbers of the source rows that match, as int64 in the order of this machine's bytes."""


def dump_rows(rows: pa.Table, *, compression: Literal["lz4"] | None = None) -> bytes:
    """Return rows as an Arrow stream, such as `RowChange.source` holds."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, rows.schema, options=options) as writer:
        writer.write_table(rows)
    return sink.getvalue().to_pybytes()
