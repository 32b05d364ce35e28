"""The task `erase`: a data file is written again without the rows that match.

    file ─▶ positions of rows that match ─┬─ none, or only counted: nothing is written
                                          ├─ all: nothing is written, no file is left
                                          └─ some: a new file of the other rows

All rows of the file are looked at, whatever deletion vectors, newer records or kinds say of them.
The new file has the schema, format, level, order, sequence numbers and row ids of the old one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from paimon_assets.engine.codec.arrow.numpy_columns import Longs, from_numpy, to_numpy
from paimon_assets.engine.contract.wire import dump, load
from paimon_assets.engine.contract.write_tasks import RowChange, dump_rows
from paimon_assets.engine.data.compact.compact import write_records
from paimon_assets.engine.data.compact.record_read import RecordRead
from paimon_assets.engine.data.read.data_files import POSITION
from paimon_assets.engine.data.row_update import Matcher
from paimon_assets.engine.data.threads import Threads
from paimon_assets.engine.data.write.rolling_file import ONE_FILE, FileFactory, delete_unfinished
from paimon_assets.engine.data.write.row_output import RowOutput, tracked_columns, write_stored
from paimon_assets.engine.data.write.write_support import changelog_schema, postpone_schema
from paimon_assets.engine.errors import NotFoundError
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.merge.merge_rules import delete_retention_ms
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta, FileOrigin
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.paths import POSTPONE_BUCKET
from paimon_assets.engine.spec.schema.schema import (
    KEPT_SINCE,
    SEQUENCE_NUMBER,
    VALUE_KIND,
    TableSchema,
)
from paimon_assets.erasure.task import ErasedFile, EraseTask

_UUID = re.compile("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def erase_rows(shared: bytes, payload: bytes, file_io: FileIO, threads: Threads) -> bytes:
    """Look for the rows of one file, and write the file again without them.

    Cost:
        Reads the columns of the predicate, or of the key; with a match all columns. The positions
        of the rows that match are in memory.
    """
    change, task = load(RowChange, shared), load(EraseTask, payload)
    split, matcher = task.split, Matcher(change)
    (file,) = split.data_files
    keys = change.read.schema.primary_keys if task.returns_keys else ()
    read = _read(change, task, tuple({*matcher.columns, *keys}), file_io, threads)
    positions: list[Longs] = [np.empty(0, dtype=np.int64)]
    matching: list[pa.RecordBatch] = []
    try:
        for rows in matcher.join_batches(read.rows([file])):
            mask, _ = matcher.matches(rows)
            positions.append(to_numpy(rows.column(POSITION))[mask])
            if keys:
                matching.append(rows.select(list(keys)).filter(from_numpy(mask)))
    except NotFoundError:
        if file_io.exists(split.path_of(file)):
            raise
        return dump(ErasedFile(is_missing=True))
    found: Longs = np.concatenate(positions)
    result = ErasedFile(positions=found.tobytes())
    if keys and len(found):
        distinct = pa.Table.from_batches(matching).group_by(list(keys)).aggregate([])
        result = replace(result, keys=dump_rows(distinct))
    elif not change.only_counts and 0 < len(found) < file.row_count:
        result = replace(result, file=_rewritten(change, task, found, file_io, threads))
    return dump(result)


_RECORD = (SEQUENCE_NUMBER.name, VALUE_KIND.name)


def _write(
    batches: Iterator[pa.RecordBatch],
    factory: FileFactory,
    directory: str,
    threads: Threads,
    names: list[str],
) -> DataFileMeta:
    """Write records of a primary-key table, in their order, to one file."""
    output = RowOutput(factory, directory, threads, write_records)
    try:
        for batch in batches:
            output.write(batch.select(names))
        (file,) = output.finish()
    except BaseException:
        output.abort()
        raise
    return file


def _read(
    change: RowChange,
    task: EraseTask,
    names: tuple[str, ...],
    file_io: FileIO,
    threads: Threads,
    *,
    tracked: bool = False,
) -> RecordRead:
    return RecordRead(
        context=change.read,
        split=task.split,
        file_io=file_io,
        names=names,
        numbers={task.split.data_files[0].file_name: 0},
        predicate=change.read.predicate,
        tracked=tracked,
        threads=threads,
    )


def _schema_of(change: RowChange, task: EraseTask) -> TableSchema:
    """Return the schema by which a file was written, so that the same is done once more."""
    (file,) = task.split.data_files
    schema = change.read.schemas_by_id[file.schema_id]
    is_postponed = task.split.bucket == POSTPONE_BUCKET
    if task.is_changelog or is_postponed:
        schema = changelog_schema(schema) if task.is_changelog else postpone_schema(schema)
    *_, unique = _UUID.finditer(file.file_name)
    options = {
        **{key: v for key, v in schema.options.items() if key != opt.FILE_FORMAT_PER_LEVEL.key},
        opt.DATA_FILE_PREFIX.key: file.file_name[: unique.start()],
        opt.FILE_FORMAT.key: file.file_format,
    }
    return replace(schema, options=options)


def _rewritten(
    change: RowChange, task: EraseTask, gone: Longs, file_io: FileIO, threads: Threads
) -> DataFileMeta:
    split = task.split
    (file,) = split.data_files
    path, schema = split.path_of(file), _schema_of(change, task)
    is_keyed = schema.has_primary_key
    kept = (KEPT_SINCE.name,) if is_keyed and delete_retention_ms(change.read.schema) else ()
    factory = FileFactory(
        schema=schema,
        file_io=file_io,
        level=file.level,
        file_source=file.file_source or FileOrigin.APPEND,
        write_cols=None if is_keyed else tracked_columns(schema),
        keeps_deletes=bool(kept),
    )
    factory.target_bytes = ONE_FILE
    context = replace(change.read, schema=schema, file_schemas=(), predicate=None)
    names = (*schema.field_names, *kept)
    tracked = factory.write_cols is not None
    read = _read(replace(change, read=context), task, names, file_io, threads, tracked=tracked)

    def rows() -> Iterator[pa.RecordBatch]:
        for batch in read.rows([file]):
            stays = ~np.isin(to_numpy(batch.column(POSITION)), gone)
            yield batch.filter(from_numpy(stays))

    directory = path.rpartition("/")[0]
    try:
        if is_keyed:
            new = _write(rows(), factory, directory, threads, [*names, *_RECORD])
        else:
            number = None if tracked else file.min_sequence_number
            (new,) = write_stored(rows(), factory, directory, threads, first_number=number)
    except BaseException:
        delete_unfinished(file_io, factory.paths, change.read.table)
        raise
    is_elsewhere = file.external_path is not None
    return new._replace(
        min_sequence_number=file.min_sequence_number,
        max_sequence_number=file.max_sequence_number,
        creation_time=file.creation_time,
        file_source=file.file_source,
        first_row_id=None if tracked else file.first_row_id,
        external_path=f"{directory}/{new.file_name}" if is_elsewhere else None,
    )
