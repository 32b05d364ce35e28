"""Deletion vectors of a bucket's files: those to read, and the index files that a task replaces.

Index files are replaced as wholes: all of a task's are read if one changes, and the vectors that
are left are written to one new file.
Source: `org.apache.paimon.deletionvectors.BucketedDvMaintainer`, `DeletionVectorsIndexFile`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from paimon_assets.engine.codec.bitmaps import deletion_vector
from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.contract.write_tasks import CompactTask, RowChangeTask
from paimon_assets.engine.data.read.data_files import read_deletion_vector
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta, anchor_file
from paimon_assets.engine.spec.metadata.manifest import DELETION_VECTORS_INDEX, IndexFileMeta
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.schema.schema import TableSchema


class BucketVectors:
    """The vectors of the index files that a task may replace."""

    def __init__(
        self, task: CompactTask | RowChangeTask, schema: TableSchema, file_io: FileIO
    ) -> None:
        self._index_files, self._directory = task.index_files, task.index_directory
        self._file_io = file_io
        self._bitmap64 = schema.typed_options.get(opt.DELETION_VECTORS_BITMAP64)
        self._marked: dict[str, list[npt.NDArray[np.int64]]] = {}
        self._dropped: set[str] = set()
        self.paths: list[str] = []
        """Files that were created; an aborted task deletes them."""

    def mark(self, name: str, positions: npt.NDArray[np.int64]) -> None:
        if len(positions):
            self._marked.setdefault(name, []).append(positions)

    def drop(self, names: Iterable[str]) -> None:
        self._dropped.update(names)

    def finish(self) -> tuple[tuple[IndexFileMeta, ...], tuple[IndexFileMeta, ...]]:
        """Return (new index files, those they replace)."""
        listed = {
            vector.data_file_name
            for file in self._index_files
            for vector in file.deletion_vectors or ()
        }
        if not self._marked and not listed & self._dropped:
            return (), ()
        rows: dict[str, list[npt.NDArray[np.int64]]] = {}
        for file in self._index_files:
            path = file.external_path or f"{self._directory}/{file.file_name}"
            data = self._file_io.read_bytes(path)
            for meta in file.deletion_vectors or ():
                if meta.data_file_name not in self._dropped:
                    vector = deletion_vector.decode_vector(
                        data[meta.offset : meta.offset + meta.length + deletion_vector.FRAME_BYTES],
                        path,
                        length=meta.length,
                        cardinality=meta.cardinality,
                    )
                    rows[meta.data_file_name] = [vector.rows.astype(np.int64)]
        for name, positions in self._marked.items():
            rows.setdefault(name, []).extend(positions)
        if not rows:
            return (), self._index_files
        vectors = {
            name: deletion_vector.DeletionVector.of_sorted(np.unique(np.concatenate(parts)))
            for name, parts in rows.items()
        }
        new, metas = deletion_vector.write_index_file(vectors, bitmap64=self._bitmap64)
        name = f"index-{uuid.uuid4()}-0"
        path = f"{self._directory}/{name}"
        self.paths.append(path)
        self._file_io.write_bytes(path, new)
        index = IndexFileMeta(
            index_type=DELETION_VECTORS_INDEX,
            file_name=name,
            file_size=len(new),
            row_count=len(metas),
            deletion_vectors=metas,
        )
        return (index,), self._index_files


def deleted_rows(
    split: DataSplit, file_io: FileIO
) -> Callable[[Sequence[DataFileMeta]], npt.NDArray[np.int64]]:
    """Return a reader of the positions of the deleted rows of a range of row ids, ascending."""
    files = split.data_files
    deletions = dict(zip((f.file_name for f in files), split.deletion_files or (), strict=False))

    def positions(group: Sequence[DataFileMeta]) -> npt.NDArray[np.int64]:
        anchor = anchor_file(group)
        deletion = deletions.get(anchor.file_name)
        if deletion is None:
            return np.empty(0, dtype=np.int64)
        return read_deletion_vector(file_io, deletion, anchor).rows.astype(np.int64)

    return positions
