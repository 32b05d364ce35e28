"""What a Parquet footer says of column chunks, asked for so that a damaged one raises.

pyarrow asks Arrow for a chunk, and for its statistics, where nothing catches what Arrow raises: the
process ends. A read of no rows looks at the same chunks where it is caught, and reads no byte.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

_PIECE_BYTES = 64 * 1024
"""Without pieces, a read fetches whole chunks before it is asked for a row."""


class ColumnChunks:
    """The column chunks of one file.

    Args:
        source: The file; nothing is read from it.
        metadata: Its footer.
    """

    def __init__(self, source: pa.NativeFile, metadata: Any) -> None:
        self._source, self._metadata = source, metadata

    def of(self, group: int, leaves: Sequence[int]) -> list[Any]:
        """Return what the footer says of some leaves in one row group.

        A statistics value that is shorter than its type still ends the process where it is asked
        for.

        Raises:
            OSError, pyarrow.ArrowException: The footer is damaged.

        Cost:
            Some microseconds a chunk.
        """
        if not leaves:
            return []
        # A reader of its own: what one looked at it keeps, 64 KiB a chunk and more.
        file = pq.ParquetFile(self._source, metadata=self._metadata, buffer_size=_PIECE_BYTES)
        for _ in file.reader.iter_batches(0, [group], list(leaves), False):  # noqa: FBT003
            pass
        row_group = self._metadata.row_group(group)
        chunks = [row_group.column(leaf) for leaf in leaves]
        for chunk, leaf in zip(chunks, leaves, strict=True):
            if chunk.physical_type != (expected := file.schema.column(leaf).physical_type):
                raise pa.ArrowInvalid(
                    f"column {leaf} is {chunk.physical_type} in row group {group}, and {expected} "
                    "in the schema"
                )
        return chunks
