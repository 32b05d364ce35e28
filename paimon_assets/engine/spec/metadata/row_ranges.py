"""Files of one row range: on data-evolution tables a row's columns may lie in several files.

An update of some columns writes a file of the same row ids with these columns only; the files of a
range are read side by side and joined by position.
Source: `org.apache.paimon.operation.DataEvolutionSplitRead`.
"""

from collections.abc import Iterable

from paimon_assets.engine.spec.metadata.data_file import DataFileMeta

BLOB_FORMAT = "blob"
"""Format of files that hold one BLOB column, perhaps of a part of the range's rows."""


def group_by_row_range(files: Iterable[DataFileMeta]) -> list[list[DataFileMeta]]:
    """Group the files of a bucket whose ranges of row ids overlap.

    Cost:
        O(n log n) for n files.

    >>> def file(name, first, rows):
    ...     return DataFileMeta(
    ...         file_name=name, file_size=1, row_count=rows, schema_id=0, first_row_id=first
    ...     )
    >>> files = [file("a", 0, 5), file("b", 5, 5), file("a2", 0, 5), file("c", None, 5)]
    >>> [[file.file_name for file in group] for group in group_by_row_range(files)]
    [['a', 'a2'], ['b'], ['c']]
    """
    listed = list(files)
    tracked = sorted(
        (file.first_row_id, number)
        for number, file in enumerate(listed)
        if file.first_row_id is not None and file.row_count
    )
    group_of = list(range(len(listed)))
    leader, end = -1, -1
    for first, number in tracked:
        if first >= end:
            leader, end = number, first
        group_of[number] = leader
        end = max(end, first + listed[number].row_count)
    groups: dict[int, list[DataFileMeta]] = {}
    for number, file in enumerate(listed):
        groups.setdefault(group_of[number], []).append(file)
    return list(groups.values())
