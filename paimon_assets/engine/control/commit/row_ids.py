"""Row ids of new files, assigned again in each try of a commit.

    file                                     first row id           sequence numbers
    new rows                                 the table's next       the snapshot's
    some columns of stored rows              that of their group    the snapshot's
    stored and changed rows (physical ids)   none                   the largest is the snapshot's
    stored rows, compacted                   none                   as they are
    rows from before the table had ids       the table's next       the snapshot's

Writers leave 0 where a commit is to put the snapshot.
Source: `org.apache.paimon.operation.commit.RowTrackingCommitUtils`.
"""

from collections.abc import Iterable

from paimon_assets.engine.spec.metadata.data_file import DataFileMeta, FileOrigin
from paimon_assets.engine.spec.metadata.manifest import FileKind, ManifestEntry
from paimon_assets.engine.spec.schema.schema import ROW_ID


def with_row_ids(
    entries: Iterable[ManifestEntry], *, snapshot_id: int, next_row_id: int
) -> tuple[tuple[ManifestEntry, ...], int]:
    """Return the entries as snapshot `snapshot_id` has them, and the row id after it."""
    numbered = []
    for entry in entries:
        file = entry.file
        if entry.kind is FileKind.ADD:
            is_new = lacks_ids(file) and file.file_source is not FileOrigin.COMPACT
            lowest, highest = file.min_sequence_number, file.max_sequence_number
            if is_new or lowest == 0:
                lowest = highest = snapshot_id
            elif highest == 0:
                highest = snapshot_id
            file = file._replace(min_sequence_number=lowest, max_sequence_number=highest)
            if is_new:
                file = file._replace(first_row_id=next_row_id)
                next_row_id += file.row_count
            entry = entry._replace(file=file)  # noqa: PLW2901
        numbered.append(entry)
    return tuple(numbered), next_row_id


def with_ids_of_all(
    live: Iterable[ManifestEntry], *, snapshot_id: int, next_row_id: int
) -> tuple[tuple[ManifestEntry, ...], int]:
    """Return live entries, in which all rows have ids, and the row id after them.

    Files that had none get the snapshot's number: theirs may count rows, and would be above those
    of columns that are written later.
    """
    entries = list(live)
    known = (entry.file for entry in entries if entry.file.first_row_id is not None)
    next_row_id = max(next_row_id, *((f.first_row_id or 0) + f.row_count for f in known), 0)
    numbered = []
    for entry in entries:
        file = entry.file
        if lacks_ids(file):
            file = file._replace(
                first_row_id=next_row_id,
                min_sequence_number=snapshot_id,
                max_sequence_number=snapshot_id,
            )
            next_row_id += file.row_count
        numbered.append(entry._replace(file=file))
    return tuple(numbered), next_row_id


def stores_ids(file: DataFileMeta) -> bool:
    """Whether a file has a column of row ids."""
    return ROW_ID.name in (file.write_cols or ())


def lacks_ids(file: DataFileMeta) -> bool:
    """Whether rows of a file have no ids."""
    return file.first_row_id is None and not stores_ids(file)
