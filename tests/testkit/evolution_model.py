"""EvolvingModel: the expected rows of a table whose schema changes between its writes.

It keeps every record as it was written, by field id, with the type of that time. A read casts
each value from the type it was written with to the newest one (`cast_value`, plain Python, after
Java's rules), and then lets the records of one key compete. Only a commit's own records compete
before they are stored.
"""

import datetime as dt
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types.cast_fit import integer_range
from paimon_assets.engine.spec.types.cast_rules import same_type
from paimon_assets.engine.spec.types.data_types import INTEGER_ROOTS, AtomicType, DataType, TypeRoot

Row = Mapping[str, Any]
Cells = dict[int, tuple[Any, DataType]]
"""Field id → value, and the type it was written with."""

_EPOCH = dt.date(1970, 1, 1)
_MILLIS_OF_DAY = 86_400_000
_TRUE, _FALSE = {"t", "true", "y", "yes", "1"}, {"f", "false", "n", "no", "0"}


class NoSuchValueError(Exception):
    """A value that cannot be cast: a read of it fails."""


@dataclass(slots=True)
class EvolvingModel:
    """A table on paper; every record with the types it was written with."""

    commits: list[list[Cells]] = field(default_factory=list)

    def write(self, schema: TableSchema, rows: Iterable[Row]) -> None:
        cells = [{f.id: (row[f.name], f.type) for f in schema.fields} for row in rows]
        if schema.has_primary_key and cells:
            cells = list(self._merge(schema, cells).values())
        if cells:
            self.commits.append(cells)

    def rows(self, schema: TableSchema) -> list[dict[str, Any]]:
        """Return the rows a reader of `schema` gets."""
        every = [self._cast(schema, cells) for commit in self.commits for cells in commit]
        if schema.has_primary_key:
            every = list(self._merge(schema, every).values())
        kind = schema.by_name.get(schema.typed_options.get(opt.ROWKIND_FIELD))
        kept = [cells for cells in every if kind is None or cells[kind.id][0] in ("+I", "+U")]
        return [{f.name: cells[f.id][0] for f in schema.fields} for cells in kept]

    def stored_types(self, field_id: int) -> set[DataType]:
        every = (cells for commit in self.commits for cells in commit)
        return {cells[field_id][1] for cells in every if field_id in cells}

    def _cast(self, schema: TableSchema, cells: Cells) -> Cells:
        read: Cells = {}
        for column in schema.fields:
            value, data_type = cells.get(column.id, (None, column.type))
            read[column.id] = (cast_value(value, data_type, column.type), column.type)
        return read

    def _merge(self, schema: TableSchema, every: list[Cells]) -> dict[Any, Cells]:
        engine = schema.typed_options.get(opt.MERGE_ENGINE)
        sequence = [schema.column(n).id for n in schema.typed_options.get(opt.SEQUENCE_FIELD)]
        best: dict[Any, tuple[Any, Cells]] = {}
        for arrival, cells in enumerate(every):
            key = tuple(cells[schema.column(name).id][0] for name in schema.primary_keys)
            order = ([_null_first(cells[number][0]) for number in sequence], arrival)
            found = best.get(key)
            if found is None:
                best[key] = (order, cells)
            elif engine is opt.MergeEngine.PARTIAL_UPDATE:
                newer = {number: cell for number, cell in cells.items() if cell[0] is not None}
                best[key] = (order, {**found[1], **newer})
            elif order >= found[0]:
                best[key] = (order, cells)
        return {key: cells for key, (_, cells) in best.items()}


def _null_first(value: Any) -> tuple[bool, Any]:
    return (value is not None, value)


def cast_value(value: Any, source: DataType, target: DataType) -> Any:
    """Cast one value as Java does."""
    if value is None or same_type(source, target):
        return value
    assert isinstance(source, AtomicType)
    assert isinstance(target, AtomicType)
    if target.root in INTEGER_ROOTS:
        return _wrap(_whole(value, target.root), target.root)
    match target.root:
        case TypeRoot.DOUBLE:
            return _real(value)
        case TypeRoot.BOOLEAN:
            return _truth(value)
        case TypeRoot.DECIMAL:
            return _decimal(value, target)
        case TypeRoot.VARCHAR:
            return _text(value)[: target.length]
        case TypeRoot.DATE:
            return _date(value)
        case TypeRoot.TIMESTAMP:
            return dt.datetime.combine(value, dt.time())
        case _:
            raise TypeError(f"{source} to {target}")


def _wrap(number: int, root: TypeRoot) -> int:
    low, high = integer_range(root)
    return (number - low) % (high - low + 1) + low


def _whole(value: Any, root: TypeRoot) -> int:
    match value:
        case str():
            if not re.fullmatch(r"[+-]?(\d+(\.\d*)?|\.\d+)", value):
                raise NoSuchValueError(value)
            number = int(value.partition(".")[0] or 0)
            if _wrap(number, root) != number:
                raise NoSuchValueError(value)
            return number
        case float():
            wide = TypeRoot.BIGINT if root is TypeRoot.BIGINT else TypeRoot.INT
            low, high = integer_range(wide)
            return max(low, min(high, math.trunc(value)))
        case _:
            return int(value)


def _real(value: Any) -> float:
    if isinstance(value, str) and not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)", value.strip()):
        raise NoSuchValueError(value)
    return float(value)


def _truth(value: Any) -> bool:
    if not isinstance(value, str):
        return bool(value != 0)
    if value.lower() not in _TRUE | _FALSE:
        raise NoSuchValueError(value)
    return value.lower() in _TRUE


def _decimal(value: Any, target: AtomicType) -> Decimal | None:
    if isinstance(value, str) and not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)", value):
        raise NoSuchValueError(value)
    exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    fitted = exact.quantize(Decimal(1).scaleb(-(target.scale or 0)), ROUND_HALF_UP)
    room = (target.precision or 0) - (target.scale or 0)
    return fitted if abs(fitted) < 10**room else None


def _text(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case dt.datetime():
            return value.isoformat(sep=" ", timespec="milliseconds")
        case dt.date():
            return value.isoformat()
        case Decimal():
            return f"{value:f}"
        case _:
            return str(value)


def _date(value: Any) -> dt.date:
    if isinstance(value, dt.datetime):
        millis = (value - dt.datetime.combine(_EPOCH, dt.time())) // dt.timedelta(milliseconds=1)
        return _EPOCH + dt.timedelta(days=math.trunc(millis / _MILLIS_OF_DAY))
    if re.fullmatch(r"-?\d+", value):
        days = int(value)
        if _wrap(days, TypeRoot.INT) != days:
            raise NoSuchValueError(value)
        return _EPOCH + dt.timedelta(days=days)
    try:
        return dt.date.fromisoformat(value.strip().partition(" ")[0])
    except ValueError as error:
        raise NoSuchValueError(value) from error
