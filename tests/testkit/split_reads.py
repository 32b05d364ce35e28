"""Files that a test has written, and splits of them, read by the data plane alone."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema
from paimon_assets.engine.codec.bitmaps.deletion_vector import DeletionVector, write_index_file
from paimon_assets.engine.contract.context import ReadContext
from paimon_assets.engine.contract.split import DataSplit, DeletionFile
from paimon_assets.engine.data.format.base import FormatReader
from paimon_assets.engine.data.format.formats import open_reader
from paimon_assets.engine.data.read.split_read import read_split
from paimon_assets.engine.fileio.base import FileIOSpec
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.metadata.data_file import EMPTY_ROW, DataFileMeta
from paimon_assets.engine.spec.predicate.predicate import Predicate, bind
from paimon_assets.engine.spec.schema.schema import TableSchema

FILE_IO = LocalFileIO()


def file_entry(path: Path, row_count: int, **meta: Any) -> DataFileMeta:
    """Return the entry of a file, of schema 0 by default."""
    size = path.stat().st_size
    known = {"file_name": path.name, "file_size": size, "row_count": row_count, "schema_id": 0}
    return DataFileMeta(**{**known, **meta})


def parquet_file(path: Path, rows: pa.Table, rows_per_group: int = 1000, **meta: Any) -> Any:
    """Write rows as one file and return its entry."""
    pq.write_table(rows, path, row_group_size=rows_per_group)
    return file_entry(path, **{"row_count": rows.num_rows, **meta})


def deletion_files(
    directory: Path, deleted: Mapping[str, Iterable[int]], *, bitmap64: bool = False
) -> dict[str, DeletionFile]:
    """Write file name → deleted positions as one index file."""
    vectors = {name: DeletionVector.of(rows) for name, rows in deleted.items()}
    data, metas = write_index_file(vectors, bitmap64=bitmap64)
    path = directory / "index-1"
    path.write_bytes(data)
    return {
        name: DeletionFile(
            path=str(path), offset=meta.offset, length=meta.length, cardinality=meta.cardinality
        )
        for name, meta in zip(vectors, metas, strict=True)
    }


def context_of(
    schema: TableSchema,
    columns: Iterable[str] | None = None,
    predicate: Predicate | None = None,
    *,
    file_schemas: tuple[TableSchema, ...] = (),
    **options: str,
) -> ReadContext:
    """Return the read of some columns, or all, of a table."""
    return ReadContext(
        table="db.t",
        schema=schema.with_dynamic_options(options),
        file_schemas=file_schemas,
        columns=tuple(schema.field_names if columns is None else columns),
        predicate=None if predicate is None else bind(predicate, schema),
        file_io=FileIOSpec(),
    )


def split_of(directory: Path, files: Iterable[DataFileMeta], **more: Any) -> DataSplit:
    """Return a split of files in a directory, of the only bucket."""
    known = {"snapshot_id": 1, "partition": EMPTY_ROW, "bucket": 0, "bucket_path": str(directory)}
    return DataSplit(**{**known, "data_files": tuple(files), **more})


def read(context: ReadContext, split: DataSplit) -> list[dict[str, Any]]:
    """Return the rows; every batch must have rows, in the schema of the read."""
    batches = list(read_split(context, split, FILE_IO))
    schema = to_arrow_schema(context.fields)
    assert all(batch.schema.equals(schema) and batch.num_rows for batch in batches)
    return pa.Table.from_batches(batches, schema=schema).to_pylist()


def open_file(path: Path | str, **how: Any) -> FormatReader:
    """Open a file in the format of its suffix."""
    return open_reader(FILE_IO, str(path), file_format=str(path).rpartition(".")[2], **how)


def file_batches(
    path: Path | str, columns: Iterable[str] | None = None, batch_rows: int = 1000, **how: Any
) -> list[pa.RecordBatch]:
    """Return the batches of a file; of all columns by default."""
    with open_file(path, **how) as reader:
        names = reader.schema.names if columns is None else list(columns)
        return list(reader.batches(names, predicate=None, batch_rows=batch_rows))
