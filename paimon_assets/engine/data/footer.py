"""The task `segment-footers`: external files → rows, columns and statistics; see `contract`.

    parquet                 footer: everything, bounds of every row group
    orc                     footer: everything; no bounds of timestamps and floating-point columns
    avro, csv, json, text   every row is read; rows and columns

Statistics that a footer lacks, or that would be wrong for pruning, stay unknown. Columns are
decoded whose values a read might refuse, if the footer does not bound them: all of text and Avro
files; of other formats times, and timestamps in a coarser unit than declared.
"""

from collections.abc import Callable
from decimal import Decimal
from functools import cache, lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.types as pat
from msgspec.structs import replace

from paimon_assets.engine.codec.arrow.arrow_types import from_arrow_type, to_arrow_type
from paimon_assets.engine.codec.arrow.arrow_values import UNIT_NANOS
from paimon_assets.engine.codec.rows.binary_row import serialize_row
from paimon_assets.engine.contract import report_tasks as tasks
from paimon_assets.engine.contract.wire import load
from paimon_assets.engine.data.field_mapping import FieldMapping
from paimon_assets.engine.data.format.base import DeclaredText, FormatReader
from paimon_assets.engine.data.format.formats import open_reader
from paimon_assets.engine.data.threads import Threads
from paimon_assets.engine.data.write.column_stats import StatsMode, stats_modes, stored_bounds
from paimon_assets.engine.errors import FormatError, InvalidInputError
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.metadata.data_file import EMPTY_STATS, SimpleStats
from paimon_assets.engine.spec.predicate.prune import Bounds
from paimon_assets.engine.spec.segments import segment as seg
from paimon_assets.engine.spec.segments.text_options import text_options_of
from paimon_assets.engine.spec.types.data_types import (
    CHARACTER_ROOTS,
    TIMESTAMP_ROOTS,
    AtomicType,
    DataField,
    TypeRoot,
)
from paimon_assets.engine.spec.types.literals import Internal

_BATCH_ROWS = 1 << 16
_DAY_MILLIS = 86_400_000
_WITH_FOOTER = ("parquet", "orc")
_UNORDERED = frozenset({TypeRoot.FLOAT, TypeRoot.DOUBLE, TypeRoot.VARIANT, TypeRoot.BLOB})

BoundsOf = Callable[[str], Bounds]


def read_footers(shared: bytes, payload: bytes, file_io: FileIO, _threads: Threads) -> bytes:
    context, request = load(tasks.FooterContext, shared), load(tasks.FooterRequest, payload)
    modes = stats_modes(context.schema.fields, context.schema.typed_options)
    text = text_options_of(context.format, context.options, context.schema)
    declared = DeclaredText(fields=context.schema.fields, options=text)
    layouts: dict[tuple[seg.FileColumn, ...], tuple[seg.FileColumn, ...]] = {}
    footers = []
    for path, size in zip(request.paths, request.sizes, strict=True):
        with open_reader(
            file_io, path, file_format=context.format, file_bytes=size, declared=declared
        ) as reader:
            footer = _footer(context, modes, reader, path)
        # Files of one layout share one tuple.
        columns = layouts.setdefault(footer.columns, footer.columns)
        footers.append(replace(footer, columns=columns))
    return tasks.dump_footers(footers)


def _footer(
    context: tasks.FooterContext, modes: tuple[StatsMode, ...], reader: FormatReader, path: str
) -> tasks.FileFooter:
    vague, bounds_of = reader.vague_timestamps(), cache(reader.column_bounds)
    columns = tuple(
        seg.FileColumn(
            name=field.name,
            type_text=seg.TIMESTAMP_OF_ANY_KIND if field.name in vague else _type_text(field.type),
            may_be_null=field.nullable and not bounds_of(field.name).no_null,
        )
        for field in reader.schema
    )
    read_rows = _check_values(context, reader, columns, bounds_of, path)
    if context.format not in _WITH_FOOTER:
        return tasks.FileFooter(rows=read_rows, columns=columns)
    rows = sum(stop - start for start, stop in reader.row_ranges(None))
    names, stats = _statistics(context, modes, columns, bounds_of, path)
    return tasks.FileFooter(rows=rows, columns=columns, stats_columns=names, stats=stats)


@lru_cache(maxsize=1024)
def _type_text(arrow_type: pa.DataType) -> str:
    if pat.is_unsigned_integer(arrow_type):  # Paimon's readers would take it as signed
        return str(arrow_type)
    try:
        return str(from_arrow_type(arrow_type))
    except InvalidInputError:
        return str(arrow_type)


def _check_values(
    context: tasks.FooterContext,
    reader: FormatReader,
    columns: tuple[seg.FileColumn, ...],
    bounds_of: BoundsOf,
    path: str,
) -> int:
    """Read values that a read might refuse, so that none fails later; return the row count."""
    schema = context.schema
    if seg.column_differences(schema, columns, partitioned=bool(schema.partition_keys)):
        return 0  # the columns are the error to report
    held = {column.name for column in columns} - {*schema.partition_keys}
    reader.check_encodings([field.name for field in schema.fields if field.name in held])
    fields = [
        field
        for field in schema.fields
        if field.name in held and _may_fail(context.format, reader, field, bounds_of(field.name))
    ]
    if not fields and context.format in _WITH_FOOTER:
        return 0
    mapping = FieldMapping.of(fields, (), schema, path, cuts_times=True)
    rows = 0
    names = [field.name for field in fields]
    for batch in reader.batches(names, predicate=None, batch_rows=_BATCH_ROWS):
        rows += batch.num_rows
        for name, column in zip(names, batch.columns, strict=True):
            try:
                if pat.is_decimal(column.type):
                    column.validate(full=True)
            except pa.ArrowInvalid as error:
                raise _too_long(name, column.type, path) from error
        mapping.apply(batch)
    return rows


def _may_fail(file_format: str, reader: FormatReader, field: DataField, bounds: Bounds) -> bool:
    """Whether a read may refuse values of a column, as far as the footer tells."""
    if file_format not in _WITH_FOOTER:
        return True
    kind: Any = reader.schema.field(field.name).type
    if pat.is_nested(kind):
        return "time" in str(kind)  # times and timestamps inside, or a field of such a name
    target: Any = to_arrow_type(field.type)
    if bounds.minimum is not None or not pat.is_timestamp(kind):
        return bounds.minimum is None and (pat.is_time(kind) or pat.is_decimal(kind))
    if file_format == "orc":  # whose timestamps have microseconds if some year needs them
        return target.unit == "ns" or bounds.null_count is None
    is_vague = field.name in reader.vague_timestamps()
    return is_vague or UNIT_NANOS[kind.unit] > UNIT_NANOS[target.unit]


def _statistics(
    context: tasks.FooterContext,
    modes: tuple[StatsMode, ...],
    columns: tuple[seg.FileColumn, ...],
    bounds_of: BoundsOf,
    path: str,
) -> tuple[tuple[str, ...], SimpleStats]:
    """Return the columns with a null count in the footer, and their statistics.

    Partition columns have none: the folder, not the file, gives their values.
    """
    partition_keys = context.schema.partition_keys
    held = {column.name: column for column in columns if column.name not in partition_keys}
    entries = []
    for field, mode in zip(context.schema.fields, modes, strict=True):
        if field.name not in held or not isinstance(field.type, AtomicType):
            continue
        bounds = bounds_of(field.name)
        _check_range(field, held[field.name], bounds, path)
        if bounds.null_count is not None:
            low, high = _internal_bounds(field, held[field.name], bounds)
            entries.append((field, *stored_bounds(low, high, mode), bounds.null_count))
    if not entries:
        return (), EMPTY_STATS
    fields, lows, highs, nulls = zip(*entries, strict=True)
    types = [field.type for field in fields]
    stats = SimpleStats(
        min_values=serialize_row(lows, types),
        max_values=serialize_row(highs, types),
        null_counts=nulls,
    )
    return tuple(field.name for field in fields), stats


def _check_range(field: DataField, column: seg.FileColumn, bounds: Bounds, path: str) -> None:
    """Refuse times beyond a day, timestamps beyond 64 bits, and decimals beyond their digits."""
    kind, is_time = field.type, field.type.root is TypeRoot.TIME
    is_same = column.type is not None and seg.same_kind(column.type, kind)
    if is_same and isinstance(kind, AtomicType) and kind.root is TypeRoot.DECIMAL:
        most = Decimal(10) ** ((kind.precision or 0) - (kind.scale or 0))
        numbers = (bounds.minimum, bounds.maximum)
        if any(isinstance(each, Decimal) and each.copy_abs() >= most for each in numbers):
            raise _too_long(field.name, kind, path)
    is_known = is_time or (kind.root in TIMESTAMP_ROOTS and column.type is not None)
    if not is_known or not isinstance(kind, AtomicType):
        return
    unit = 1 if is_time else 10 ** (9 - -(-(kind.precision or 0) // 3) * 3)
    least, end = (0, _DAY_MILLIS) if is_time else (-(2**63), 2**63)
    ends = (bounds.minimum, bounds.maximum)
    if any(isinstance(each, int) and not least <= each // unit < end for each in ends):
        held = "times beyond a day" if is_time else f"timestamps that 64 bits do not hold as {kind}"
        way_out = "Leave the column out" if is_time else "Declare the column with fewer digits"
        message = f"Column '{field.name}' of file '{path}' holds {held}. {way_out}."
        raise FormatError(message, kind="timestamp-range", path=path, column=field.name)


def _too_long(name: str, kind: object, path: str) -> FormatError:
    message = (
        f"Column '{name}' of file '{path}' holds decimals of more digits than {kind}. Leave the"
        " column out, or write the file again with the precision that it has."
    )
    return FormatError(message, kind="column-type", path=path, column=name)


def _internal_bounds(
    field: DataField, column: seg.FileColumn, bounds: Bounds
) -> tuple[Internal, Internal]:
    """Convert a footer's bounds to the table's type; both None if they do not bound its values."""
    file_type, low, high = column.type, bounds.minimum, bounds.maximum
    unknown = low is None or high is None or field.type.root in _UNORDERED
    if unknown or file_type is None or not seg.same_kind(file_type, field.type):
        return None, None
    if field.type.root in TIMESTAMP_ROOTS and isinstance(field.type, AtomicType):
        # Reads cut values to the column's precision, so the bounds are cut, too.
        unit = 10 ** (9 - (field.type.precision or 0))
        return low // unit * unit, high // unit * unit
    if field.type.root in CHARACTER_ROOTS and not isinstance(low, str):
        return None, None
    return low, high
