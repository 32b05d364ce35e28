"""Which files of a table without primary key to compact together.

    any order    small files by size into bins of about twice the target size
    in order     neighbouring small files of a bucket whose rows stay in order

Files are joined when there are enough and none is larger than the others together. So each time a
row is written anew its file doubles at least: a log of n equal files costs log2(n) rewrites of it,
and not one for every few files; about as many small files as that, and a few, are left.
Source: `org.apache.paimon.append.AppendCompactCoordinator`, `BucketedAppendCompactManager`, which
join a small file with every few that follow.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass

from paimon_assets.engine.spec.metadata.data_file import DataFileMeta

_FEWEST_FILES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendCompaction:
    """The numbers of a table."""

    target_bytes: int
    """Size of full files."""
    open_file_bytes: int
    """What one more file counts at least."""
    min_files: int
    """Small files that are worth it, where they do not fill a file."""
    is_full: bool = False
    """Whether a file is rewritten for smaller ones."""

    def in_any_order(
        self, files: Iterable[DataFileMeta], group_of: Callable[[DataFileMeta], Hashable | None]
    ) -> list[list[DataFileMeta]]:
        """Pack files into bins."""
        groups: dict[Hashable, list[DataFileMeta]] = {}
        free: list[DataFileMeta] = []
        for file in sorted(files, key=lambda file: file.file_size):
            group = group_of(file)
            if group is None:
                free.append(file)
            else:
                groups.setdefault(group, []).append(file)
        bins = self._bins(sorted(groups.values(), key=_bytes_of), fewest=1)
        for part in self._parts(free):
            bins += self._bins([[file] for file in part], fewest=self.min_files)
        return bins

    def _bins(
        self, groups: Iterable[list[DataFileMeta]], *, fewest: int
    ) -> list[list[DataFileMeta]]:
        bins: list[list[DataFileMeta]] = []
        current: list[DataFileMeta] = []
        for group in groups:
            current = current + group
            weight = _bytes_of(current) + self.open_file_bytes * len(current)
            if len(current) >= _FEWEST_FILES and weight >= 2 * self.target_bytes:
                bins.append(current)
                current = []
        if current and len(current) >= fewest:
            bins.append(current)
        return bins

    def in_order(
        self,
        files: Sequence[DataFileMeta],
        is_candidate: Callable[[DataFileMeta], bool],
        is_urgent: Callable[[DataFileMeta], bool],
    ) -> list[list[DataFileMeta]]:
        """Return stretches of neighbouring candidates."""
        stretches: list[list[DataFileMeta]] = [[]]
        for file in files:
            if is_candidate(file):
                stretches[-1].append(file)
            elif stretches[-1]:
                stretches.append([])
        return [
            part
            for stretch in stretches
            for part in ([stretch] if any(map(is_urgent, stretch)) else self._parts(stretch))
        ]

    def _parts(self, files: list[DataFileMeta]) -> list[list[DataFileMeta]]:
        """Return the parts of a stretch of small files that are worth it.

        Cost:
            As many looks at a file as its size doubles: what is left out is more than all the rest.
        """
        total = _bytes_of(files)
        fills_files = total >= 2 * self.target_bytes
        if len(files) < (_FEWEST_FILES if fills_files else self.min_files):
            return []
        largest = max(range(len(files)), key=lambda number: files[number].file_size)
        if self.is_full or 2 * files[largest].file_size <= total:
            return [files]
        return self._parts(files[:largest]) + self._parts(files[largest + 1 :])


def _bytes_of(files: Iterable[DataFileMeta]) -> int:
    return sum(file.file_size for file in files)
