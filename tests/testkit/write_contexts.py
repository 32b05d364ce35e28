"""Fixtures of the tests of writing: a context on a real disk, and rows read back from the files."""

import pyarrow as pa
import pyarrow.parquet as pq

from paimon_assets.engine.contract.context import BucketState, NumberedFile, WriteContext
from paimon_assets.engine.data.write.table_write import write_rows
from paimon_assets.engine.fileio.base import FileIOSpec
from paimon_assets.engine.fileio.local import LocalFileIO
from tests.testkit.tables import table_schema

FILE_IO = LocalFileIO()


def key_schema(columns=None, **options):
    columns = columns or {"k": "INT", "seq": "BIGINT", "v": "STRING"}
    return table_schema(columns, primary_keys=["k"], options={"bucket": "1", **options})


def context_of(path, schema, **changes):
    return WriteContext(
        table="db.t", table_path=str(path), schema=schema, file_io=FileIOSpec(), **changes
    )


def write(path, schema, rows, *, file_io=FILE_IO, **changes):
    batches = rows.to_batches() if isinstance(rows, pa.Table) else rows
    return write_rows(context_of(path, schema, **changes), batches, file_io)


def states(*results):
    """Return the states of the buckets that a planner would find after these writes."""
    buckets = {}
    for result in results:
        for message in result.messages:
            files = buckets.setdefault((message.partition, message.bucket), [])
            files.extend(message.data_increment.new_files)
    return tuple(
        BucketState(
            partition=partition,
            bucket=bucket,
            max_sequence_number=max(file.max_sequence_number for file in files),
            files=tuple(
                NumberedFile(
                    location=file.file_name,
                    file_format=file.file_format,
                    file_size=file.file_size,
                    min_sequence_number=file.min_sequence_number,
                    max_sequence_number=file.max_sequence_number,
                )
                for file in files
            ),
        )
        for (partition, bucket), files in buckets.items()
    )


def files_of(result):
    return [file for message in result.messages for file in message.data_increment.new_files]


def paths_below(path):
    return sorted(path.rglob("*.parquet"))


def read_file(path, name):
    (found,) = path.rglob(name)
    return pq.read_table(found)


def read_all(path, result):
    """All rows of the result's files, in the order of its messages and files."""
    tables = [read_file(path, file.file_name) for file in files_of(result)]
    return pa.concat_tables(tables) if tables else None
