"""Changes of one source table, in columns, as readers of change logs yield them.

     file ─▶ changes_of ─▶ ChangeBatch, ChangeBatch, …      order: of the records in the file

One row is one row image. A value that did not arrive is neither null nor text: the column has null
there, and `missing` has the flag. Sort by the position to get the order of the log, and only within
one `log` (see `connectors`); rows without a position keep the order of file and line.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import field

from paimon_assets.engine.codec.arrow.numpy_columns import Flags
from paimon_assets.engine.spec.types.data_types import DataField, DataType, RowKind
from paimon_assets.engine.spec.values import Value

Kinds: TypeAlias = npt.NDArray[np.int8]

LOG, PLACE, MADE = "log", "position", "made"
_ORIGIN: dict[str, pa.DataType] = {
    LOG: pa.string(),
    PLACE: pa.string(),
    "op_time": pa.timestamp("ms", "UTC"),
    MADE: pa.int64(),
    "file": pa.string(),
    "line": pa.int64(),
}
ORIGIN_SCHEMA = pa.schema(_ORIGIN)
"""Columns of `ChangeBatch.origin`.

    log         server and log whose positions can be compared, as `mysql:1:binlog`; null: unknown
    position    sorts as the log does; null: none, or with a log one that cannot be read; empty:
                a row of a snapshot, which follows the record before it
    op_time     when the source database made the change
    made        the same in milliseconds, where that rises with the log; null for rows that an
                incremental snapshot has read
    line        of the record in its file, from 1; a record of several rows has them in order
"""


class EventKind(StrEnum):
    """Kinds of changes of a whole table."""

    CREATE = "create"
    ALTER = "alter"
    RENAME = "rename"
    DROP = "drop"
    TRUNCATE = "truncate"
    OTHER = "other"
    """Such as a grant or an index; no column changes."""


class TableEvent(Value):
    """A change of a whole table: its columns (DDL), or all its rows (truncate)."""

    kind: EventKind
    statement: str | None = None
    """The SQL text, if the log has it."""
    fields: tuple[DataField, ...] | None = None
    """All columns after the event, if the log has them; ids count from 0."""
    before_row: int = 0
    """The event precedes this row of its batch; it may be the number of rows."""
    origin: Mapping[str, Any] = field(default_factory=dict)
    """Values of `ORIGIN_SCHEMA`."""


class ChangeBatch(Value):
    """Changes of one source table in the order of the file; see the module."""

    database: str | None
    schema: str | None
    """The schema of a database that has them, such as `public`."""
    table: str | None
    rows: pa.Table
    """The source's columns, in the Arrow types of `fields`."""
    fields: tuple[DataField, ...]
    """Columns with the types of the records, or the declared ones; the rest are texts. Ids count
    from 0."""
    kinds: Kinds
    """Row kinds by Paimon's codes: 0 +I, 1 -U, 2 +U, 3 -D; a -U, if it is read, is right before
    its +U (see `CdcOptions.keys`).

    An update that changed the key (of `keys`) is a -D and a +I.
    """
    missing: Mapping[str, Flags] = field(default_factory=dict)
    """Column → rows whose value did not arrive. A column with all values is not listed."""
    keys: tuple[str, ...] = ()
    """Key columns, if the records or the options tell them."""
    origin: pa.Table
    """Positions, times, files and lines; columns of `ORIGIN_SCHEMA`."""
    metadata: pa.Table
    """More of the records as texts, such as topic, partition and offset; may have no column."""
    events: tuple[TableEvent, ...] = ()
    defaults: frozenset[str] = frozenset()
    """Columns that have a default in the source."""
    has_all_columns: bool = False
    """Whether `fields` are all columns of the source, with its types."""
    has_types: bool = False
    """Whether the records say types."""
    repeats_deletes: bool = False
    """Whether tombstones after its records repeat deletes."""
    texts: frozenset[str] = frozenset()
    """Columns of which the records say that they are texts, read as the type that is declared."""

    @property
    def name(self) -> str:
        """The table's full name, as messages show it."""
        return ".".join(part for part in (self.database, self.schema, self.table) if part)

    @property
    def place(self) -> str:
        """The file, or the partition of a topic."""
        files: Any = self.origin["file"]
        return str(files[0]) if len(files) else str(self.events[0].origin["file"])

    @property
    def is_bare(self) -> bool:
        """Whether it only has tombstones, which name no table and no position."""
        has_log = self.origin[LOG].null_count < len(self)
        return self.table is None and not has_log and bool((self.kinds == RowKind.DELETE).all())

    def __len__(self) -> int:
        return len(self.kinds)


class AbsentValue(StrEnum):
    """The meaning of a member that a row does not have."""

    MISSING = "missing"
    """It did not arrive: the stored value stays (`binlog_row_image=MINIMAL`); null in an insert."""
    NULL = "null"
    """Its value is null: the producer leaves nulls out."""


class TypeMapping(StrEnum):
    """Choices of the types of MySQL's columns; names and meaning as in Paimon's Flink actions."""

    TINYINT1_NOT_BOOL = "tinyint1-not-bool"
    TO_NULLABLE = "to-nullable"
    TO_STRING = "to-string"
    CHAR_TO_STRING = "char-to-string"
    LONGTEXT_TO_BYTES = "longtext-to-bytes"
    BIGINT_UNSIGNED_TO_BIGINT = "bigint-unsigned-to-bigint"


class BinaryMode(StrEnum):
    """Texts of bytes, where the records do not say it; Debezium's `binary.handling.mode`."""

    BASE64 = "base64"
    """Mode `bytes` gives the same in JSON."""
    BASE64_URL_SAFE = "base64-url-safe"
    HEX = "hex"


class TimeMode(StrEnum):
    """Numbers of times in records that do not name their unit; Debezium's `time.precision.mode`.

    Texts of ISO 8601 (`isostring`) are recognized by their quotes.
    """

    ADAPTIVE = "adaptive"
    """Milliseconds up to precision 3, then microseconds."""
    ADAPTIVE_TIME_MICROSECONDS = "adaptive_time_microseconds"
    """The same, but times of a day in microseconds."""
    CONNECT = "connect"
    """Milliseconds."""
    MICROSECONDS = "microseconds"
    NANOSECONDS = "nanoseconds"


SourceName: TypeAlias = tuple[str | None, str | None, str | None]
"""Database, schema, table."""


class SourceTable(Value):
    """The declared or stored facts of a source table, beside its records."""

    keys: tuple[str, ...] = ()
    """Key columns; they win over those of the records."""
    columns: Mapping[str, DataType] = field(default_factory=dict)
    """Types of columns whose records do not name theirs, or name text; the rest are texts."""
    plain: frozenset[str] = frozenset()
    """Columns that stay texts where records have texts, though other records have other types."""
    omitted: frozenset[str] = frozenset()
    """Columns that are not read."""
    checks_times: bool = True
    """Whether times outside the years 0 to 9999 are refused."""


class CdcOptions(Value):
    """How records are read.

    >>> CdcOptions(absent=AbsentValue.NULL, type_mapping=frozenset({TypeMapping.TO_STRING})).time
    <TimeMode.ADAPTIVE_TIME_MICROSECONDS: 'adaptive_time_microseconds'>
    >>> CdcOptions(binary=BinaryMode.HEX, time=TimeMode.CONNECT).absent
    <AbsentValue.MISSING: 'missing'>
    """

    table_of: Callable[[SourceName], SourceTable | None] = lambda _: SourceTable()
    """Returns the facts of a table; None: its records are left out."""
    type_mapping: frozenset[TypeMapping] = frozenset()
    absent: AbsentValue = AbsentValue.MISSING
    unavailable: str = "__debezium_unavailable_value"
    """Debezium's `unavailable.value.placeholder`."""
    binary: BinaryMode = BinaryMode.BASE64
    time: TimeMode = TimeMode.ADAPTIVE_TIME_MICROSECONDS
    keys: tuple[str, ...] = ()
    """Key columns: the row before an update may be left out if it has the same. None: never."""
    metadata: frozenset[str] = frozenset()
    """Metadata of messages to read into `ChangeBatch.metadata`; see `messages.METADATA`."""
    on_rejected: Callable[[pa.Table], None] | None = None
    """Takes records that cannot be read (`REJECTED_SCHEMA`); without it the first is an error."""
    block_bytes: int = 4 << 20
    """Bytes of a file that are parsed at a time; a longer record is parsed whole."""
