"""Pieces of a Parquet file: wherever it is cut, each row group is in one of them."""

from itertools import pairwise

import pyarrow as pa
import pyarrow.parquet as pq

from paimon_assets.engine.data.format.base import FileToRead
from paimon_assets.engine.data.format.parquet import ParquetPiece
from paimon_assets.engine.fileio.local import LocalFileIO


def test_each_row_group_is_in_one_piece(tmp_path):
    path = str(tmp_path / "rows.parquet")
    pq.write_table(
        pa.table({"n": range(1000), "text": ["x" * (n % 90) for n in range(1000)]}),
        path,
        row_group_size=70,
    )
    with ParquetPiece(FileToRead(file_io=LocalFileIO(), path=path), 0, 1) as whole:
        size, groups = whole.file_bytes, whole.footer.num_row_groups
    for step in (127, 1000, size // 2, size - 1, size):
        cuts = [*range(0, size, step), size]
        found, taken = [], []
        for start, end in pairwise(cuts):
            with ParquetPiece(FileToRead(file_io=LocalFileIO(), path=path), start, end) as piece:
                taken += piece.matching_row_groups(None)
                for batch in piece.batches(["n"], predicate=None, batch_rows=64):
                    found += batch.column("n").to_pylist()
        assert found == [*range(1000)]
        assert taken == [*range(groups)]
