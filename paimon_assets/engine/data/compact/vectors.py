"""Deletion vectors of one bucket: new deletions, and vectors of deleted files.

Index files are replaced as wholes: all of a task's are read if a vector changes, and the vectors
that are left are written to one new file.
Source: `org.apache.paimon.deletionvectors.BucketedDvMaintainer`, `DeletionVectorsIndexFile`.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from paimon_assets.engine.codec.bitmaps.deletion_vector import (
    FRAME_BYTES,
    DeletionVector,
    decode_vector,
    write_index_file,
)
from paimon_assets.engine.contract.tasks.compact_task import CompactTask
from paimon_assets.engine.contract.tasks.row_change_task import RowChangeTask
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.metadata.index_file import DELETION_VECTORS_INDEX, IndexFileMeta
from paimon_assets.engine.spec.options.compaction_options import DELETION_VECTORS_BITMAP64
from paimon_assets.engine.spec.schema.schema import TableSchema


@dataclass(slots=True, kw_only=True)
class BucketVectors:
    """The vectors of the index files that a task may replace."""

    index_files: tuple[IndexFileMeta, ...]
    index_directory: str
    file_io: FileIO
    bitmap64: bool
    paths: list[str] = field(default_factory=list)
    """Files that were created; an aborted task deletes them."""
    _marked: dict[str, list[npt.NDArray[np.int64]]] = field(default_factory=dict)
    _dropped: set[str] = field(default_factory=set)

    @staticmethod
    def of(
        task: CompactTask | RowChangeTask, schema: TableSchema, file_io: FileIO
    ) -> BucketVectors:
        """Return the vectors of a task's bucket."""
        return BucketVectors(
            index_files=task.index_files,
            index_directory=task.index_directory,
            file_io=file_io,
            bitmap64=schema.typed_options.get(DELETION_VECTORS_BITMAP64),
        )

    def mark(self, name: str, positions: npt.NDArray[np.int64]) -> None:
        """Add deleted rows of a data file."""
        if len(positions):
            self._marked.setdefault(name, []).append(positions)

    def drop(self, names: Iterable[str]) -> None:
        """Remove the vectors of deleted data files."""
        self._dropped.update(names)

    def finish(self) -> tuple[tuple[IndexFileMeta, ...], tuple[IndexFileMeta, ...]]:
        """Return (new index files, those they replace)."""
        listed = {
            vector.data_file_name
            for file in self.index_files
            for vector in file.deletion_vectors or ()
        }
        if not self._marked and not listed & self._dropped:
            return (), ()
        vectors = self._new_vectors()
        if not vectors:
            return (), self.index_files
        return (self._write(vectors),), self.index_files

    def _new_vectors(self) -> Mapping[str, DeletionVector]:
        rows: dict[str, list[npt.NDArray[np.int64]]] = {}
        for file in self.index_files:
            for name, vector in self._read(file).items():
                if name not in self._dropped:
                    rows[name] = [vector.rows.astype(np.int64)]
        for name, positions in self._marked.items():
            rows.setdefault(name, []).extend(positions)
        return {
            name: DeletionVector.of_sorted(np.unique(np.concatenate(parts)))
            for name, parts in rows.items()
        }

    def _read(self, file: IndexFileMeta) -> Mapping[str, DeletionVector]:
        path = file.external_path or f"{self.index_directory}/{file.file_name}"
        data = self.file_io.read_bytes(path)
        return {
            meta.data_file_name: decode_vector(
                data[meta.offset : meta.offset + meta.length + FRAME_BYTES],
                path,
                length=meta.length,
                cardinality=meta.cardinality,
            )
            for meta in file.deletion_vectors or ()
        }

    def _write(self, vectors: Mapping[str, DeletionVector]) -> IndexFileMeta:
        data, metas = write_index_file(vectors, bitmap64=self.bitmap64)
        name = f"index-{uuid.uuid4()}-0"
        path = f"{self.index_directory}/{name}"
        self.paths.append(path)
        self.file_io.write_bytes(path, data)
        return IndexFileMeta(
            index_type=DELETION_VECTORS_INDEX,
            file_name=name,
            file_size=len(data),
            row_count=len(metas),
            deletion_vectors=metas,
        )
