"""CompactTask: files of one bucket that are compacted together, as bytes for a worker.

What all tasks of a compaction share is a `ReadContext` of every column.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.contract.wire.wire import dump_split, load_split
from paimon_assets.engine.contract.wire.wire_frame import header, opened
from paimon_assets.engine.contract.wire.wire_messages import index_json, index_of
from paimon_assets.engine.spec.metadata.index_file import IndexFileMeta

COMPACT_TASK = "compact"
"""Name of the task in a `TaskBatch`; its result is a `WriteResult` of one message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactTask:
    """A compaction of some files of one bucket."""

    split: DataSplit
    """The files, and the deletion vectors of theirs."""
    above: DataSplit | None = None
    """Files of higher levels in which keys of level 0 are looked up; None looks nothing up."""
    output_level: int = 0
    """Level of the new files of a primary-key table."""
    max_level: int = 0
    """Highest level of the bucket."""
    drops_deletes: bool = False
    """Whether records that retract are gone afterwards."""
    rewrites_files: bool = False
    """Each file is rewritten by itself."""
    index_files: tuple[IndexFileMeta, ...] = ()
    """Index files of deletion vectors that the task may replace: no other task does."""
    index_directory: str = ""
    """Where index files lie."""

    @property
    def input_bytes(self) -> int:
        """Bytes of the files to compact, and of those looked up in."""
        return self.split.file_bytes + (self.above.file_bytes if self.above else 0)


def dump_compact_task(task: CompactTask) -> bytes:
    """Encode a task."""
    out = header(
        "compact-task",
        {
            "outputLevel": task.output_level,
            "maxLevel": task.max_level,
            "dropsDeletes": task.drops_deletes,
            "rewritesFiles": task.rewrites_files,
            "indexDirectory": task.index_directory,
            "hasAbove": task.above is not None,
        },
    )
    out.write_bytes(json.dumps([index_json(file) for file in task.index_files]).encode())
    out.write_bytes(dump_split(task.split))
    if task.above is not None:
        out.write_bytes(dump_split(task.above))
    return out.to_bytes()


def load_compact_task(data: bytes) -> CompactTask:
    """Inverse of `dump_compact_task`.

    Raises:
        FormatError: Damaged bytes, or written by another version.
    """
    with opened(data, "compact-task") as (members, source):
        indexes = tuple(index_of(file) for file in json.loads(source.read_bytes()))
        split = load_split(source.read_bytes())
        above = load_split(source.read_bytes()) if members["hasAbove"] else None
        return _task_of(members, indexes, split, above)


def _task_of(
    members: Mapping[str, object],
    indexes: tuple[IndexFileMeta, ...],
    split: DataSplit,
    above: DataSplit | None,
) -> CompactTask:
    return CompactTask(
        split=split,
        above=above,
        output_level=int(str(members["outputLevel"])),
        max_level=int(str(members["maxLevel"])),
        drops_deletes=bool(members["dropsDeletes"]),
        rewrites_files=bool(members["rewritesFiles"]),
        index_files=indexes,
        index_directory=str(members["indexDirectory"]),
    )
