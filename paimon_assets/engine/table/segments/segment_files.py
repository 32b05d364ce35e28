"""Files of a segment → names for their entries, and the entries themselves."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace

from paimon_assets.engine.contract.tasks.footer_task import FileFooter
from paimon_assets.engine.control.segments.segment_folder import FolderFile, PartitionFolder
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta, FileOrigin
from paimon_assets.engine.spec.segments.segment import Segment, SegmentFile


def files_of(
    segment_id: int, name: str, folder: PartitionFolder, footers: Mapping[str, FileFooter]
) -> tuple[SegmentFile, ...]:
    """Return the files of one partition folder, named from that folder."""
    prefix = f"{folder.name}/" if folder.name else ""
    inner = [replace(file, name=file.name.removeprefix(prefix)) for file in folder.files]
    return segment_files(segment_id, name, inner, folder.files, footers)


def segment_files(
    segment_id: int,
    format_name: str,
    inner: Sequence[FolderFile],
    files: Sequence[FolderFile],
    footers: Mapping[str, FileFooter],
) -> tuple[SegmentFile, ...]:
    """Return files with names for their entries: never given twice, with the format at the end."""
    token = uuid.uuid4().hex[:8]
    return tuple(
        SegmentFile(
            name=below.name,
            size=file.size,
            modified_ms=file.modified_ms,
            rows=footers[file.name].rows,
            file_name=f"segment-{segment_id}-{token}-{number}.{format_name}",
        )
        for number, (below, file) in enumerate(zip(inner, files, strict=True))
    )


def data_file(
    segment: Segment, file: SegmentFile, footer: FileFooter, created_ms: int
) -> DataFileMeta:
    """Return a file's entry, with the statistics of its footer."""
    return DataFileMeta(
        file_name=file.file_name,
        file_size=file.size,
        row_count=file.rows,
        value_stats=footer.stats,
        value_stats_cols=footer.stats_columns,
        schema_id=segment.schema_id,
        creation_time=created_ms,
        delete_row_count=0,
        file_source=FileOrigin.APPEND,
        external_path=segment.path_of(file),
    )
