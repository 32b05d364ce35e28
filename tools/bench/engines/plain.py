"""Plain pyarrow: writes the same rows as one Parquet file, reads the files that our engine wrote.

On a primary-key table reading is decoding alone, without merging: the limit of a merged read.
"""

from importlib.metadata import version
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


class Peer:
    """A directory of Parquet files; `warehouse` of ours is beside it, named `ours`."""

    def __init__(self, warehouse: str) -> None:
        self._directory = Path(warehouse)
        self._ours = self._directory.parent / "ours"

    def version(self) -> str:
        return f"pyarrow {version('pyarrow')}, zstd level 1"

    def create_table(
        self,
        table: str,
        columns: dict[str, str],
        primary_keys: list[str],
        partition_keys: list[str],
        options: dict[str, str],
    ) -> None:
        """Make the directory; a Parquet file needs no declaration."""
        del table, columns, primary_keys, partition_keys, options
        self._directory.mkdir(parents=True, exist_ok=True)

    def write(self, table: str, rows: pa.Table) -> None:
        """Write one file, as our engine writes its own."""
        path = self._directory / f"{table}.parquet"
        pq.write_table(
            rows, str(path), compression="zstd", compression_level=1, store_decimal_as_integer=True
        )

    def read(self, table: str) -> pa.Table:
        """Decode all columns of all of our files of this table."""
        database, name = table.split(".", maxsplit=1)
        files = sorted((self._ours / f"{database}.db" / name).glob("bucket-*/*.parquet"))
        return pq.read_table([str(path) for path in files])
