"""The task `overflow`: the losses of casts of one data file's columns, as values and bytes.

Shared by all tasks is how the table casts; a task is one file with the columns to judge.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.types.cast_fit import Loss
from paimon_assets.engine.spec.types.data_types import DataField

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
    """One column of a file, and its new type."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class OverflowResult:
    """The losses of one file, column by column: the result of one task."""

    columns: tuple[ColumnLosses, ...]
