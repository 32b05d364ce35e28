"""RowChange and RowChangeTask: which rows change how, and in which files, as bytes for a worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, assert_never

import pyarrow as pa

from paimon_assets.engine.contract.commit_message import WriteResult
from paimon_assets.engine.contract.context import ReadContext, WriteContext
from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.contract.wire.wire import (
    dump_read_context,
    dump_split,
    dump_write_context,
    load_read_context,
    load_split,
    load_write_context,
)
from paimon_assets.engine.contract.wire.wire_frame import header, opened
from paimon_assets.engine.contract.wire.wire_messages import (
    dump_write_result,
    index_json,
    index_of,
    load_write_result,
)
from paimon_assets.engine.contract.wire.wire_predicate import literal_json, literal_of
from paimon_assets.engine.spec.metadata.index_file import IndexFileMeta
from paimon_assets.engine.spec.predicate.expression import (
    Assignment,
    ColumnValue,
    Expression,
    LiteralValue,
    Operation,
    Operator,
    SourceValue,
)

ROW_CHANGE_TASK = "row-change"
"""Name of the task in a `TaskBatch`; its result is a `RowChangeResult`."""


@dataclass(frozen=True, kw_only=True)
class RowChange:
    """The context that all tasks of a row change share."""

    read: ReadContext
    """Every column; its predicate says which rows change."""
    write: WriteContext
    assignments: tuple[Assignment, ...] | None = None
    """New values of the rows; None deletes them."""
    marks: bool = False
    """Rows of a table without primary key are marked as deleted; else their files are rewritten."""
    only_counts: bool = False
    """Nothing is written."""
    source: bytes | None = None
    """Rows to match, as an Arrow stream; of those the predicate lets pass, only they change."""
    on: tuple[str, ...] = ()
    """Columns in which a row and a source row are equal if they match; not null."""
    deletes: str | None = None
    """A column of the source, true for rows that are deleted instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChangeTask:
    """Files of one bucket in which rows change."""

    splits: tuple[DataSplit, ...]
    """At least one; of a table without primary key exactly one."""
    index_files: tuple[IndexFileMeta, ...] = ()
    """Index files of deletion vectors that the task may replace: no other task does."""
    index_directory: str = ""
    """Where index files lie."""

    @property
    def input_bytes(self) -> int:
        """Bytes of the files."""
        return sum(split.file_bytes for split in self.splits)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChangeResult:
    """The result of one task."""

    rows_matched: int = 0
    """Rows for which the predicate is true, and that match a source row if there are any."""
    result: WriteResult = field(default_factory=WriteResult)
    source_rows: bytes = b""
    """Numbers of the source rows that match, as int64 in the order of this machine's bytes."""


def dump_source(rows: pa.Table) -> bytes:
    """Return rows to match as `RowChange.source` holds them."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return sink.getvalue().to_pybytes()


def dump_row_change(change: RowChange) -> bytes:
    """Encode what tasks share."""
    assignments = change.assignments
    out = header(
        "row-change",
        {
            "assignments": None
            if assignments is None
            else [[each.column, _expression_json(each.expression)] for each in assignments],
            "marks": change.marks,
            "onlyCounts": change.only_counts,
            "hasSource": change.source is not None,
            "on": change.on,
            "deletes": change.deletes,
        },
    )
    out.write_bytes(dump_read_context(change.read))
    out.write_bytes(dump_write_context(change.write))
    out.write_bytes(change.source or b"")
    return out.to_bytes()


def load_row_change(data: bytes) -> RowChange:
    """Inverse of `dump_row_change`.

    Raises:
        FormatError: Damaged bytes, or written by another version.
    """
    with opened(data, "row-change") as (members, source):
        given = members["assignments"]
        read, write = source.read_bytes(), source.read_bytes()
        rows = source.read_bytes()
        return RowChange(
            read=load_read_context(read),
            write=load_write_context(write),
            assignments=None
            if given is None
            else tuple(Assignment(name, _expression_of(value)) for name, value in given),
            marks=bool(members["marks"]),
            only_counts=bool(members["onlyCounts"]),
            source=rows if members["hasSource"] else None,
            on=tuple(members["on"]),
            deletes=members["deletes"],
        )


def dump_row_change_task(task: RowChangeTask) -> bytes:
    """Encode a task."""
    out = header(
        "row-change-task",
        {
            "indexDirectory": task.index_directory,
            "indexFiles": [index_json(file) for file in task.index_files],
            "splits": len(task.splits),
        },
    )
    for split in task.splits:
        out.write_bytes(dump_split(split))
    return out.to_bytes()


def load_row_change_task(data: bytes) -> RowChangeTask:
    """Inverse of `dump_row_change_task`.

    Raises:
        FormatError: Damaged bytes, or written by another version.
    """
    with opened(data, "row-change-task") as (members, source):
        return RowChangeTask(
            splits=tuple(load_split(source.read_bytes()) for _ in range(members["splits"])),
            index_files=tuple(index_of(file) for file in members["indexFiles"]),
            index_directory=str(members["indexDirectory"]),
        )


def dump_row_change_result(result: RowChangeResult) -> bytes:
    """Encode what a task did."""
    out = header("row-change-result", {"matched": result.rows_matched})
    out.write_bytes(dump_write_result(result.result))
    out.write_bytes(result.source_rows)
    return out.to_bytes()


def load_row_change_result(data: bytes) -> RowChangeResult:
    """Inverse of `dump_row_change_result`.

    Raises:
        FormatError: Damaged bytes, or written by another version.
    """
    with opened(data, "row-change-result") as (members, source):
        return RowChangeResult(
            rows_matched=int(members["matched"]),
            result=load_write_result(source.read_bytes()),
            source_rows=source.read_bytes(),
        )


def _expression_json(expression: Expression) -> dict[str, Any]:
    match expression:
        case ColumnValue(name=name):
            return {"is": "column", "name": name}
        case SourceValue(name=name):
            return {"is": "source", "name": name}
        case LiteralValue(value=value):
            return {"is": "literal", "value": literal_json(value)}
        case Operation(operator=operator, operands=operands):
            return {"is": operator.value, "of": [_expression_json(each) for each in operands]}
        case _:
            assert_never(expression)


def _expression_of(json_: Mapping[str, Any]) -> Expression:
    match json_["is"]:
        case "column":
            return ColumnValue(json_["name"])
        case "source":
            return SourceValue(json_["name"])
        case "literal":
            return LiteralValue(literal_of(json_["value"]))
        case other:
            return Operation(Operator(other), tuple(map(_expression_of, json_["of"])))
