"""The task `overflow`: what casts would lose of one data file's columns, as values and bytes.

Shared by all tasks is how the table casts; a task is one file with the columns to judge.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from paimon_assets.engine.contract.wire.wire_frame import (
    FILE_ARITY,
    header,
    opened,
    read_files,
    write_files,
)
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.types.cast_fit import Loss
from paimon_assets.engine.spec.types.data_types import DataField
from paimon_assets.engine.spec.types.type_text import field_to_json, parse_field

OVERFLOW_TASK = "overflow"


@dataclass(frozen=True, slots=True, kw_only=True)
class OverflowContext:
    """The context that all tasks of one overflow report share."""

    table: str
    """For messages."""
    options: Mapping[str, str]
    """The table's: they say how it casts."""
    batch_rows: int
    examples: int
    """Values to show of each kind of loss, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CastColumn:
    """One column of a file, and what it shall become."""

    held: DataField
    """As the file has it."""
    wanted: DataField
    """As it will be read."""
    forbids_null: bool = False
    """Whether nulls are a loss: the column becomes NOT NULL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverflowRequest:
    """One file to read."""

    path: str
    file: DataFileMeta
    columns: tuple[CastColumn, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LostValue:
    """An example of a value that is not kept."""

    loss: Loss
    value: str | None
    becomes: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnLosses:
    """The losses of one column in one file."""

    column: str
    """Name it will be read by."""
    rows: int
    counts: Mapping[Loss, int] = field(default_factory=dict)
    unjudged: int = 0
    """Rows that were not looked at, because so many before them could not be cast."""
    examples: tuple[LostValue, ...] = ()


def dump_overflow_context(context: OverflowContext) -> bytes:
    """Encode what tasks share."""
    members = {
        "table": context.table,
        "options": dict(context.options),
        "batch_rows": context.batch_rows,
        "examples": context.examples,
    }
    return header("overflow context", members).to_bytes()


def load_overflow_context(data: bytes) -> OverflowContext:
    """Inverse of `dump_overflow_context`."""
    with opened(data, "overflow context") as (members, _):
        return OverflowContext(
            table=members["table"],
            options=members["options"],
            batch_rows=members["batch_rows"],
            examples=members["examples"],
        )


def dump_overflow_request(request: OverflowRequest) -> bytes:
    """Encode the file of one task."""
    columns = [
        [field_to_json(column.held), field_to_json(column.wanted), column.forbids_null]
        for column in request.columns
    ]
    out = header("overflow request", {"path": request.path, "columns": columns})
    write_files(out, [request.file])
    return out.to_bytes()


def load_overflow_request(data: bytes) -> OverflowRequest:
    """Inverse of `dump_overflow_request`."""
    with opened(data, "overflow request") as (members, source):
        columns = tuple(
            CastColumn(held=parse_field(held), wanted=parse_field(wanted), forbids_null=forbids)
            for held, wanted, forbids in members["columns"]
        )
        (file,) = read_files(source, FILE_ARITY)
        return OverflowRequest(path=members["path"], file=file, columns=columns)


def dump_losses(losses: tuple[ColumnLosses, ...]) -> bytes:
    """Encode the result of one task."""
    return header("losses", {"columns": [_losses_json(column) for column in losses]}).to_bytes()


def load_losses(data: bytes) -> tuple[ColumnLosses, ...]:
    """Inverse of `dump_losses`."""
    with opened(data, "losses") as (members, _):
        return tuple(_losses_of(column) for column in members["columns"])


def _losses_json(column: ColumnLosses) -> dict[str, Any]:
    return {
        "column": column.column,
        "rows": column.rows,
        "counts": {loss.name: count for loss, count in column.counts.items()},
        "unjudged": column.unjudged,
        "examples": [[item.loss.name, item.value, item.becomes] for item in column.examples],
    }


def _losses_of(json: Mapping[str, Any]) -> ColumnLosses:
    return ColumnLosses(
        column=json["column"],
        rows=json["rows"],
        counts={Loss[name]: count for name, count in json["counts"].items()},
        unjudged=json["unjudged"],
        examples=tuple(
            LostValue(loss=Loss[name], value=value, becomes=becomes)
            for name, value, becomes in json["examples"]
        ),
    )
