"""Merging record by record: the results that the columnar merge functions must equal.

A record is (kind, row), a row a dict of plain Python values: lists, and dicts for maps and nested
rows. Everything is as plain as the rules: one record after the other, one column after the other.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal, localcontext
from fractions import Fraction
from typing import Any, assert_never

from pyroaring import BitMap

from paimon_assets.engine.codec.bitmaps.roaring import read_java_bitmap64, write_java_bitmap64
from paimon_assets.engine.spec.merge.merge_rules import (
    AggregateFunction,
    FieldAggregation,
    MergeRules,
    SequenceGroup,
)
from paimon_assets.engine.spec.options.all_options import MergeEngine, NestedKeyNulls
from paimon_assets.engine.spec.types.data_types import AtomicType, DataField, DataType, RowKind

Row = dict[str, Any]
Record = tuple[RowKind, Row]


class NotRetractableError(Exception):
    """A record retracts where that is not allowed."""


@dataclass(frozen=True)
class MergeModel:
    """The records of one key become one record."""

    rules: MergeRules
    fields: Sequence[DataField]

    def merge(self, records: Sequence[Record]) -> Record | None:
        """Merge the records of a key, oldest first; None if nothing is left of them."""
        if len(records) == 1:
            kind, _ = records[0]
            skipped = self.rules.traits.engine is MergeEngine.FIRST_ROW and self.rules.ignore_delete
            return None if skipped and not kind.is_add else records[0]
        match self.rules.traits.engine:
            case MergeEngine.DEDUPLICATE:
                return records[-1]
            case MergeEngine.FIRST_ROW:
                return self._first_row(records)
            case MergeEngine.AGGREGATION:
                return self._aggregate(records)
            case MergeEngine.PARTIAL_UPDATE:
                return _PartialUpdate(self).merge(records)
            case _:
                assert_never(self.rules.traits.engine)

    def _first_row(self, records: Iterable[Record]) -> Record | None:
        first = None
        for kind, row in records:
            if kind.is_add:
                first = first or (kind, row)
            elif not self.rules.ignore_delete:
                raise NotRetractableError
        return first

    def _aggregate(self, records: Iterable[Record]) -> Record:
        functions = {
            field.name: Function(self.rules.aggregations[field.name], field.type)
            for field in self.fields
        }
        row: Row = dict.fromkeys(functions)
        deleted = False
        for kind, given in records:
            deleted = self.rules.remove_on_delete and kind is RowKind.DELETE
            if deleted:
                row = dict(given)
                continue
            for name, function in functions.items():
                apply = function.add if kind.is_add else function.retract
                row[name] = apply(row[name], given[name])
        return (RowKind.DELETE if deleted else RowKind.INSERT), row


class _PartialUpdate:
    def __init__(self, model: MergeModel) -> None:
        self.rules = model.rules
        self.names = [field.name for field in model.fields]
        self.row: Row = dict.fromkeys(self.names)
        self.deleted = self.has_add = self.seeded = False
        types = {field.name: field.type for field in model.fields}
        self.functions = {
            name: Function(settings, types[name])
            for name, settings in model.rules.aggregations.items()
        }
        grouped = {name for group in self.rules.groups for name in (*group.fields, *group.columns)}
        self.free = [name for name in self.names if name not in grouped]

    def merge(self, records: Iterable[Record]) -> Record:
        for kind, given in records:
            self.deleted = False
            if kind.is_add:
                self._add(given)
            else:
                self._retract(kind, given)
        gone = self.deleted or not self.has_add
        return (RowKind.DELETE if gone else RowKind.INSERT), self.row

    def _add(self, given: Row) -> None:
        self.has_add = self.seeded = True
        for name in self.free:
            if given[name] is not None:
                self.row[name] = given[name]
        for group in self.rules.groups:
            newer = self._compare(group, given)
            if newer is None:
                continue
            for name in group.columns:
                function = self.functions.get(name)
                if function is not None:
                    apply = function.add if newer else function.add_late
                    self.row[name] = apply(self.row[name], given[name])
                elif newer:
                    self.row[name] = given[name]
            if newer:
                self.row.update({name: given[name] for name in group.fields})

    def _compare(self, group: SequenceGroup, given: Row) -> bool | None:
        """Whether a record is not older than the row; None if it does not take part."""
        if all(given[name] is None for name in group.fields):
            return None
        pairs = zip(_sequence(given, group.fields), _sequence(self.row, group.fields), strict=True)
        # Neither is larger nor smaller: a tie, as of NaN with every number.
        return next((new > old for new, old in pairs if new > old or new < old), True)

    def _retract(self, kind: RowKind, given: Row) -> None:
        if not self.seeded:
            self._seed(given)
        if self.rules.ignore_delete:
            return
        if self.rules.groups:
            self._retract_groups(kind, given)
        elif not self.rules.remove_on_delete:
            raise NotRetractableError
        elif kind is RowKind.DELETE:
            self._seed(given)
            self.deleted = True

    def _seed(self, given: Row) -> None:
        self.row, self.seeded = dict(given), True

    def _retract_groups(self, kind: RowKind, given: Row) -> None:
        newer = {group: self._compare(group, given) for group in self.rules.groups}
        if kind is RowKind.DELETE and any(newer[g] for g in self.rules.groups if g.removes_record):
            self._seed(given)
            self.deleted = True
            return
        for group, is_newer in newer.items():
            for name in group.columns if is_newer is not None else ():
                function = self.functions.get(name)
                if function is not None:
                    self.row[name] = function.retract(self.row[name], given[name])
                elif is_newer:
                    self.row[name] = None
            if is_newer:
                self.row.update({name: given[name] for name in group.fields})


def _sequence(row: Row, fields: Sequence[str]) -> list[tuple[bool, Any]]:
    return [(row[name] is not None, row[name]) for name in fields]


class Function:
    """One aggregate function: (present value, new value) → the value then."""

    def __init__(self, settings: FieldAggregation, data_type: DataType) -> None:
        self.settings = settings
        self.type = data_type
        self.seen = False

    def add(self, there: Any, given: Any) -> Any:
        function = self.settings.function
        if function in (AggregateFunction.FIRST_VALUE, AggregateFunction.FIRST_NON_NULL_VALUE):
            if self.seen or (given is None and function is not AggregateFunction.FIRST_VALUE):
                return there
            self.seen = True
            return given
        return _ADD[function](self, there, given)

    def add_late(self, there: Any, given: Any) -> Any:
        if self.settings.function is AggregateFunction.COLLECT:
            return self.add(there, given)
        return self.add(given, there)

    def retract(self, there: Any, given: Any) -> Any:
        if self.settings.ignore_retract:
            return there
        function = _RETRACT.get(self.settings.function)
        if function is None:
            raise NotRetractableError
        return function(self, there, given)

    def total(self, value: Any) -> Any:
        """Return a sum; one of decimals is null where neither its type nor its integer hold it."""
        if not isinstance(value, Fraction):
            return value
        precision, scale = decimal_of(self.type)
        unscaled = int(value * 10**scale)
        if precision <= 18:
            room = 2**31 if precision <= 9 else 2**63
            fits = -room <= unscaled < room
        else:
            fits = abs(unscaled) < 10**precision
        with localcontext(prec=100):
            return Decimal(unscaled).scaleb(-scale) if fits else None

    def number(self, value: Any) -> Any:
        """Round as the column's type does; a decimal that is too large is null."""
        if not isinstance(value, Decimal | Fraction):
            return value
        precision, scale = decimal_of(self.type)
        with localcontext(prec=100):
            if isinstance(value, Fraction):
                value = Decimal(value.numerator) / value.denominator
            value = value.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)
            return value if abs(value) < Decimal(10) ** (precision - scale) else None


def decimal_of(data_type: DataType) -> tuple[int, int]:
    assert isinstance(data_type, AtomicType)
    return data_type.precision or 0, data_type.scale or 0


def _either(combine: Callable[[Any, Any], Any]) -> Callable[[Function, Any, Any], Any]:
    def add(function: Function, there: Any, given: Any) -> Any:
        if there is None or given is None:
            return given if there is None else there
        return function.number(combine(there, given))

    return add


def _listagg(function: Function, there: Any, given: Any) -> Any:
    if given is None or not given.strip():
        return there
    if there is None or not there.strip():
        return given
    delimiter = function.settings.delimiter
    if not function.settings.distinct:
        return there + delimiter + given
    seen, result = set(there.split(delimiter)), there
    for piece in given.split(delimiter):
        if piece.strip() and piece not in seen:
            seen.add(piece)
            result += delimiter + piece
    return result


def _collect(function: Function, there: Any, given: Any) -> Any:
    if there is None and given is None:
        return None
    both = [*(there or []), *(given or [])]
    if not function.settings.distinct:
        return both
    return [item for place, item in enumerate(both) if item not in both[:place]]


def _uncollect(function: Function, there: Any, given: Any) -> Any:
    if there is None or not given:
        return there
    gone, left = list(given), []
    for item in there:
        if item in gone:
            gone.remove(item)
        else:
            left.append(item)
    return left


def _merge_map_by_time(function: Function, there: Any, given: Any) -> Any:
    if there is None or given is None:
        return given if there is None else there
    result, time = dict(there), function.settings.time_field or "ts"
    for key, value in given.items():
        if value is None:
            result.pop(key, None)
            continue
        known = result.get(key)
        if value[time] is None:
            continue
        if known is None or known[time] is None or value[time] > known[time]:
            result[key] = value
    return result


def _nested_update(function: Function, there: Any, given: Any) -> Any:
    if given is None:
        return there
    settings = function.settings
    rows = [row for row in there or [] if row is not None]
    new = [row for row in given if row is not None]
    if not settings.nested_key:
        return [*rows, *new[: max(0, settings.count_limit - len(rows))]]
    table: dict[Any, Row] = {}
    for limited, part in ((False, rows), (True, new)):
        for row in part:
            key = tuple(row[name] for name in settings.nested_key)
            if None in key and settings.nested_key_nulls is NestedKeyNulls.IGNORE:
                continue
            if key in table:
                known = _sequence(table[key], settings.nested_sequence)
                if _sequence(row, settings.nested_sequence) >= known:
                    table[key] = row
            elif not limited or len(table) < settings.count_limit:
                table[key] = row
    return list(table.values())


def _nested_retract(function: Function, there: Any, given: Any) -> Any:
    if there is None or given is None:
        return there
    names = function.settings.nested_key
    gone = [_identity(row, names) for row in given if row is not None]
    left = [row for row in there if row is not None and _identity(row, names) not in gone]
    if function.settings.nested_key_nulls is NestedKeyNulls.IGNORE:
        left = [row for row in left if None not in _identity(row, names)]
    return left


def _identity(row: Row, names: Sequence[str]) -> Any:
    return tuple(row[name] for name in names) if names else row


def _nested_partial_update(function: Function, there: Any, given: Any) -> Any:
    if given is None:
        return there
    table: dict[Any, Row] = {}
    for row in [*(there or []), *given]:
        if row is not None:
            known = table.setdefault(
                tuple(row[name] for name in function.settings.nested_key), dict.fromkeys(row)
            )
            known.update({name: value for name, value in row.items() if value is not None})
    return list(table.values())


def _sum(function: Function, there: Any, given: Any) -> Any:
    if there is None or given is None:
        return given if there is None else there
    return function.total(_exact(there) + _exact(given))


def _sum_retract(function: Function, there: Any, given: Any) -> Any:
    if there is None or given is None:
        return there if there is not None or given is None else function.total(-_exact(given))
    return function.total(_exact(there) - _exact(given))


def _product_retract(function: Function, there: Any, given: Any) -> Any:
    if there is None or given is None:
        return there
    if isinstance(there, int):
        quotient = abs(there) // abs(given)
        return quotient if (there < 0) == (given < 0) else -quotient
    return function.number(Fraction(there) / Fraction(given))


def _unite(there: bytes, given: bytes) -> bytes:
    union = BitMap.deserialize(there) | BitMap.deserialize(given)
    union.run_optimize()
    return union.serialize()


def _unite64(there: bytes, given: bytes) -> bytes:
    return write_java_bitmap64(read_java_bitmap64(there) | read_java_bitmap64(given))


_A = AggregateFunction
_ADD: dict[AggregateFunction, Callable[[Function, Any, Any], Any]] = {
    _A.SUM: _sum,
    _A.PRODUCT: _either(lambda there, given: _exact(there) * _exact(given)),
    _A.MAX: _either(max),
    _A.MIN: _either(min),
    _A.BOOL_AND: _either(lambda there, given: there and given),
    _A.BOOL_OR: _either(lambda there, given: there or given),
    _A.LAST_VALUE: lambda _, there, given: given,
    _A.PRIMARY_KEY: lambda _, there, given: given,
    _A.LAST_NON_NULL_VALUE: lambda _, there, given: there if given is None else given,
    _A.LISTAGG: _listagg,
    _A.COLLECT: _collect,
    _A.MERGE_MAP: _either(lambda there, given: {**there, **given}),
    _A.MERGE_MAP_WITH_KEYTIME: _merge_map_by_time,
    _A.NESTED_UPDATE: _nested_update,
    _A.NESTED_PARTIAL_UPDATE: _nested_partial_update,
    _A.RBM32: _either(_unite),
    _A.RBM64: _either(_unite64),
}
_RETRACT: dict[AggregateFunction, Callable[[Function, Any, Any], Any]] = {
    _A.SUM: _sum_retract,
    _A.PRODUCT: _product_retract,
    _A.LAST_VALUE: lambda _, there, given: None,
    _A.PRIMARY_KEY: lambda _, there, given: given,
    _A.LAST_NON_NULL_VALUE: lambda _, there, given: there if given is None else None,
    _A.COLLECT: _uncollect,
    _A.MERGE_MAP: lambda _, there, given: (
        {key: value for key, value in there.items() if key not in given}
        if there is not None and given
        else there
    ),
    _A.NESTED_UPDATE: _nested_retract,
}


def _exact(value: Any) -> Any:
    return Fraction(value) if isinstance(value, Decimal) else value
