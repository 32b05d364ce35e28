"""Do the values of files that wait to be written fit the table's columns? Asked before a write.

The task that judges changes of schema reads the columns whose types differ, and no others.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from paimon_assets.engine.codec.arrow.arrow_types import from_arrow_type
from paimon_assets.engine.contract.tasks.overflow_task import (
    CastColumn,
    ColumnLosses,
    LostValue,
    OverflowRequest,
)
from paimon_assets.engine.control.overflow import overflow_tasks
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types.cast_fit import Loss, keeps_all
from paimon_assets.engine.spec.types.cast_rules import same_type, supports_cast
from paimon_assets.engine.spec.types.data_types import AtomicType, DataField
from paimon_assets.engine.table.schema.schema_changes import (
    ColumnReport,
    ExecutorChoice,
    cast_kind,
    read_losses,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingFiles:
    """Parquet or ORC files whose rows will be written."""

    file_io: FileIO
    paths: Sequence[str]
    sizes: Sequence[int]
    """Bytes of each."""
    schema: pa.Schema
    """The schema of all files."""


def judge_pending_files(
    table: str, schema: TableSchema, waiting: PendingFiles, *, executor: ExecutorChoice = None
) -> tuple[ColumnReport, ...]:
    """Return the losses of each column that the files hold in another type.

    Cost:
        The columns of other types, once; none where the table's type keeps all values.
    """
    reports: dict[str, ColumnReport] = {}
    asked: list[CastColumn] = []
    for held, wanted in _retype(schema, waiting.schema):
        report = ColumnReport(
            column=wanted.name,
            field_id=wanted.id,
            before=str(held.type),
            after=str(wanted.type),
            cast=cast_kind(held.type, wanted.type),
        )
        reports[wanted.name] = report
        if not isinstance(held.type, AtomicType) or not supports_cast(held.type, wanted.type):
            report.files_lost = len(waiting.paths)
            lost = LostValue(loss=Loss.FAILED, value=f"any {held.type}")
            losses = ColumnLosses(
                column=wanted.name, rows=0, counts={Loss.FAILED: 1}, examples=(lost,)
            )
            report.add(waiting.paths[0], losses)
        elif keeps_all(held.type, wanted.type):
            report.files_kept = len(waiting.paths)
        else:
            asked.append(CastColumn(held=held, wanted=wanted))
    requests = [
        OverflowRequest(path=path, file=_file(path, size), columns=tuple(asked))
        for path, size in zip(waiting.paths, waiting.sizes, strict=True)
        if asked
    ]
    tasks = overflow_tasks(table, schema, requests, waiting.file_io.spec)
    read_losses(reports, requests, tasks, executor)
    return tuple(reports.values())


def _file(path: str, size: int) -> DataFileMeta:
    name = path.rpartition("/")[2]
    return DataFileMeta(file_name=name, file_size=size, row_count=0, schema_id=0)


def _retype(schema: TableSchema, files: pa.Schema) -> Iterator[tuple[DataField, DataField]]:
    for wanted in schema.fields:
        if wanted.name in files.names:
            data_type = from_arrow_type(files.field(wanted.name).type)
            if not same_type(data_type, wanted.type):
                yield DataField(id=wanted.id, name=wanted.name, type=data_type), wanted
