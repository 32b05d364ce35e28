"""Writers of one bucket: their base, and the one of tables without primary key.

Source: `org.apache.paimon.utils.RecordWriter`, `org.apache.paimon.append.AppendOnlyWriter`.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import pyarrow as pa

from paimon_assets.engine.data.write.files.rolling_file import Chunk, RollingFile
from paimon_assets.engine.data.write.row_buffer import RouteRows
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta


@dataclass(slots=True, kw_only=True)
class BucketWriter(ABC):
    """Writer of one bucket."""

    files: RollingFile
    rows_written: int = 0

    @abstractmethod
    def write(self, part: RouteRows) -> None:
        """Write rows, in order of arrival."""

    def finish(self) -> tuple[DataFileMeta, ...]:
        """Finish and return all data files, oldest first."""
        return self.files.finish()

    def finish_changelog(self) -> tuple[DataFileMeta, ...]:
        """Finish and return all changelog files, oldest first: none, if not overridden."""
        return ()

    def abort(self) -> None:
        """Close open files unfinished."""
        self.files.abort()


@dataclass(slots=True, kw_only=True)
class AppendOnlyWriter(BucketWriter):
    """Writes rows in order of arrival, within and across its files."""

    next_sequence: int
    """Number of the next row; append files count their rows."""

    def write(self, part: RouteRows) -> None:
        """Append rows to the current file, or to a new one at the target size."""
        factory = self.files.factory
        step = factory.rows_at_once(part.row_count, part.total_bytes)
        for rows in part.slices(step):
            self.files.write(
                Chunk(
                    rows=pa.Table.from_arrays(rows.columns, schema=factory.arrow_schema),
                    min_sequence_number=self.next_sequence,
                    max_sequence_number=self.next_sequence + rows.num_rows - 1,
                    delete_rows=0,
                )
            )
            self.next_sequence += rows.num_rows
            self.rows_written += rows.num_rows
