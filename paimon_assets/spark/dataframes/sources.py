"""Files → DataFrame, in the order of the paths and of the rows in each file.

Spark's own readers pack and cut files as they like. Here every file is read by one task, tasks take
files in order, and a position column remembers the order whatever is shuffled later, so that a
change log in files keeps its order up to the merge.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Literal, cast

import numpy as np
import pyarrow as pa
import pyarrow.types as pat
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StructField, StructType

from paimon_assets.engine.codec.arrow.arrow_types import from_arrow_type
from paimon_assets.engine.codec.arrow.numpy_columns import from_numpy
from paimon_assets.engine.data.format.external_files import (
    ExternalFormat,
    FileKind,
    open_external_file,
    open_fitted,
)
from paimon_assets.engine.data.write.input_check import is_lossless_family
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.fileio.opening import file_io_for
from paimon_assets.engine.spec.options.catalog_options import table_options
from paimon_assets.engine.spec.types.data_types import DataField
from paimon_assets.engine.spec.values import Value
from paimon_assets.spark.executor import parallelism
from paimon_assets.spark.failure import encoded_errors
from paimon_assets.spark.packing import POSITION_COLUMN, columns
from paimon_assets.spark.preflight import check_workers
from paimon_assets.spark.python_rows import PythonRows, remembering
from paimon_assets.spark.shuffle import partition_slots
from paimon_assets.spark.types import spark_arrow_schema, to_spark_batch, to_spark_schema

ROWS_PER_FILE_BITS = 40
"""position = file « 40 | row."""

_FILES_PER_CORE = 4
_TASK_SCHEMA = columns(slot=pa.int32(), first=pa.int64(), path=pa.string())


class _Reading(Value):
    """The settings a task needs to read its files."""

    kind: FileKind
    schema: pa.Schema
    """The schema of every file, as it is stored."""
    spark_schema: pa.Schema
    """The schema of the DataFrame, position column included."""
    options: Mapping[str, str]


def files_to_dataframe(
    session: SparkSession,
    paths: Sequence[str],
    format: str,
    schema: pa.Schema | None = None,
    *,
    options: Mapping[str, str] | None = None,
    text_options: Mapping[str, str] | None = None,
    others: Literal["", "error", "ignore"] = "",
) -> DataFrame:
    """Read files into one DataFrame whose rows remember their order.

    The DataFrame has the columns of the files and `packing.POSITION_COLUMN` (file number « 40 | row
    number), which a write through `SparkExecutor` uses and does not store. For `others` see
    `FileKind`.

    Cost:
        The first file's schema is read at once, all else when the DataFrame is used.
    """
    if not paths:
        raise InvalidInputError("No files to read: the list of paths is empty.", kind="no-files")
    kind = FileKind(
        format=cast("ExternalFormat", format.lower()), options=text_options or {}, others=others
    )
    check_workers(session)
    storage = table_options(options or {})  # tasks need no catalog
    if schema is None:
        with open_external_file(file_io_for(paths[0], storage), paths[0], kind) as opened:
            # Columns without a value in the first file are texts: later files may have values.
            texts = (f.with_type(pa.string()) if pat.is_null(f.type) else f for f in opened.schema)
            schema = pa.schema(list(texts))
    spark_schema = spark_schema_of(schema)
    reading = _Reading(
        kind=kind, schema=schema, spark_schema=spark_arrow_schema(spark_schema), options=storage
    )
    tasks = min(len(paths), _FILES_PER_CORE * parallelism(session))
    owner = np.arange(len(paths)) * tasks // len(paths)
    table = pa.table(
        [
            pa.array(np.asarray(partition_slots(tasks), dtype=np.int32)[owner]),
            pa.array(np.arange(len(paths), dtype=np.int64) << ROWS_PER_FILE_BITS),
            pa.array(list(paths)),
        ],
        schema=_TASK_SCHEMA,
    )
    files = session.createDataFrame(table).repartition(tasks, "slot").sortWithinPartitions("first")
    rows = PythonRows(tasks=files, read=partial(_read_files, reading))
    return remembering(rows.frame(spark_schema), rows)


def spark_schema_of(schema: pa.Schema) -> StructType:
    fields = []
    for number, field in enumerate(schema):
        if field.name == POSITION_COLUMN:
            message = f"The files have a column '{POSITION_COLUMN}', which is a name of ours."
            raise InvalidInputError(message, kind="file-schema")
        # Whether nulls occur may differ between files.
        data_type = from_arrow_type(field.type, nullable=True)
        fields.append(DataField(id=number, name=field.name, type=data_type))
    spark_schema = to_spark_schema(fields)
    position = StructField(POSITION_COLUMN, LongType(), nullable=False)
    return StructType([*spark_schema.fields, position])


def _read_files(reading: _Reading, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of files with their positions; errors name the file."""
    with encoded_errors():
        for batch in batches:
            for first, file in zip(batch["first"], batch["path"], strict=True):
                path = file.as_py()
                file_io = file_io_for(path, reading.options)
                with open_fitted(file_io, path, reading.kind, reading.schema) as opened:
                    rows = (_conform(path, stored, reading) for stored in opened.batches)
                    yield from number_rows(rows, first.as_py(), reading.spark_schema, path)


def number_rows(
    batches: Iterable[pa.RecordBatch], first: int, schema: pa.Schema, path: str = ""
) -> Iterator[pa.RecordBatch]:
    """Yield rows in the types of a DataFrame, with their positions from `first` on."""
    for rows in batches:
        positions = from_numpy(np.arange(first, first + rows.num_rows, dtype=np.int64))
        first += rows.num_rows
        yield to_spark_batch(rows.append_column(POSITION_COLUMN, positions), schema, path=path)


def _conform(path: str, batch: pa.RecordBatch, reading: _Reading) -> pa.RecordBatch:
    """Return a batch with the expected columns, in their order and types."""
    have, wanted = batch.schema, reading.schema
    if have.names == wanted.names and have.types == wanted.types:
        return batch
    fits = sorted(have.names) == sorted(wanted.names) and all(
        is_lossless_family(have.field(field.name).type, field.type) for field in wanted
    )
    if not fits:
        message = (
            f"File '{path}' has the columns {_show(have)}, but {_show(wanted)} are expected (the "
            "schema given, or that of the first file). Read it on its own, or give a schema."
        )
        raise InvalidInputError(message, kind="file-schema", path=path)
    arrays = [batch.column(field.name).cast(field.type) for field in wanted]
    return pa.RecordBatch.from_arrays(arrays, names=wanted.names)


def _show(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
