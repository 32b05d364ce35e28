"""Sequence numbers: one 64-bit number a record, by which records of one key are ordered.

    column → 64-bit number → padding steps, left to right → _SEQUENCE_NUMBER

    row-kind-flag     v → 2·v + (1 if the record adds, 0 if it retracts)
    second-to-micro   v → seconds·10⁶ + n rem 10⁶     (timestamps are milliseconds: first ÷ 1000)
    millis-to-micro   v → v·10³ + n rem 10³

`n` counts the records of one unit (a second, a millisecond) in a bucket, from the highest stored
number of the unit on: a coarse time gets the order of arrival in its low digits. Under
`sequence.padding.legacy-counter` it counts all records of the bucket, from its highest number, as
old Java did. Everything here is pure and works on whole columns. Source: Paimon before 0.8
(`SequenceGenerator`); which columns may be padded, and why, is in `spec.merge.sequence_padding`.
"""

from collections.abc import Callable
from typing import NoReturn, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field
from msgspec.structs import replace

from paimon_assets.engine.codec.arrow.arrow_values import first_failing, shown_rows
from paimon_assets.engine.codec.arrow.numpy_columns import (
    Array,
    Flags,
    Longs,
    changes,
    decimal_words,
    to_numpy,
)
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.merge.sequence_padding import PaddingConfig
from paimon_assets.engine.spec.options.all_options import SequencePadding
from paimon_assets.engine.spec.types import data_types as types
from paimon_assets.engine.spec.words import plain_sample, sample

_MIN, _MAX = -(2**63), 2**63 - 1
_INTEGER_TEXT = r"^[+-]?[0-9]+$"
_MILLIS_PER_SECOND = 1000
_PER_MILLI = {"us": 1000, "ns": 1_000_000}
_COUNTER_RANGE = {
    SequencePadding.SECOND_TO_MICRO: 1_000_000,
    SequencePadding.MILLIS_TO_MICRO: 1_000,
}
"""Padding step → how many records of one unit it distinguishes."""


def field_to_long(
    column: Array, source: types.DataField, keys: pa.RecordBatch | None = None
) -> Longs:
    """Return a sequence column as 64-bit numbers.

    Integers are themselves, DATE is days, timestamps are milliseconds (rounded down), floating
    point is cut toward zero and saturates (NaN is 0), DECIMAL is cut toward zero and keeps its low
    64 bits, texts are decimal integers with an optional sign.
    """
    if column.null_count:
        row = int(column.is_null().index(True).as_py())
        shown = {} if keys is None else shown_rows(keys.slice(row, 1))[0]
        first = ", ".join(f"{name} = {value}" for name, value in shown.items())
        raise InvalidInputError(
            f"Sequence column '{source.name}' is null in {column.null_count} of {len(column)} "
            f"rows{f', first where {first}' if first else ''}; such a record has no place in the "
            "order. Fill the column, or remove it from the padding options.",
            kind="sequence-null",
            column=source.name,
            rows=column.null_count,
            first=first,
        )
    root = source.type.root
    if root in types.INTEGER_ROOTS:
        return _longs(column)
    if root in types.TIMESTAMP_ROOTS:
        return _millis(column)
    if root in types.CHARACTER_ROOTS:
        return _parse(column, source)
    match root:
        case types.TypeRoot.DATE:
            return _longs(column.cast(pa.int32()))
        case types.TypeRoot.FLOAT | types.TypeRoot.DOUBLE:
            return _truncate(column)
        case types.TypeRoot.DECIMAL:
            return _low_64_bits(column)
        case _:
            raise InvalidInputError(
                f"Unsupported type: column '{source.name}' of type {source.type} has no sequence "
                "number.",
                kind="sequence-type",
                column=source.name,
                type=str(source.type),
            )


def _longs(column: Array) -> Longs:
    return to_numpy(column).astype(np.int64)


def _millis(column: Array) -> Longs:
    unit = column.type.unit
    stored = _longs(column.cast(pa.int64()))
    if unit == "s":
        return stored * _MILLIS_PER_SECOND
    return stored if unit == "ms" else np.floor_divide(stored, _PER_MILLI[unit])


def _parse(column: Array, source: types.DataField) -> Longs:
    well_formed = to_numpy(pc.match_substring_regex(column, _INTEGER_TEXT))
    if not well_formed.all():
        _refuse_text(column[int(np.argmin(well_formed))].as_py(), source)
    unsigned = pc.replace_substring_regex(column, r"^([+-]?)0*([0-9])", r"\1\2")
    plain = pc.replace_substring_regex(unsigned, r"^\+", "")
    try:
        return _longs(plain.cast(pa.int64()))
    except pa.ArrowInvalid:
        bad = first_failing(plain, lambda part: part.cast(pa.int64()))
        _refuse_text(column[bad].as_py(), source)


def _refuse_text(text: str, source: types.DataField) -> NoReturn:
    raise InvalidInputError(
        f"Sequence column '{source.name}' holds {sample(text)}, which is not a 64-bit integer.",
        kind="sequence-value",
        column=source.name,
        value=plain_sample(text),
    )


def _truncate(column: Array) -> Longs:
    values = np.trunc(to_numpy(column).astype(np.float64))
    values[np.isnan(values)] = 0.0
    inside = np.abs(values) < 2.0**63
    result = np.where(values < 0, np.int64(_MIN), np.int64(_MAX))
    result[inside] = values[inside].astype(np.int64)
    return result


def _low_64_bits(column: Array) -> Longs:
    whole = pc.trunc(column).cast(pa.decimal128(38, 0))
    return decimal_words(whole)[:, 0].copy()


def pad(values: Longs, counters: Longs, is_add: Flags, *, config: PaddingConfig) -> Longs:
    """Pad 64-bit sequence values into sequence numbers."""
    result = values
    seconds_known = False
    for step in config.steps:
        if step is SequencePadding.ROW_KIND_FLAG:
            factor, low = 2, is_add.astype(np.int64)
        else:
            factor = _COUNTER_RANGE[step]
            low = np.fmod(counters, factor)  # keeps the counter's sign, as Java's % does
        if step is SequencePadding.SECOND_TO_MICRO and not seconds_known:
            seconds_known = True
            result = _to_seconds(result, config.field)
        if not config.legacy_overflow:
            _refuse_overflow(result, factor, low, values, config)
        result = result * np.int64(factor) + low
    return result


def _to_seconds(values: Longs, source: types.DataField) -> Longs:
    """Milliseconds → seconds, toward zero; columns that are no timestamps are seconds already."""
    if source.type.root not in types.TIMESTAMP_ROOTS:
        return values
    return (values - np.fmod(values, _MILLIS_PER_SECOND)) // _MILLIS_PER_SECOND


def _refuse_overflow(
    values: Longs, factor: int, low: Longs, originals: Longs, config: PaddingConfig
) -> None:
    """Raise if `values · factor + low` leaves 64 bits anywhere."""
    if not len(values):
        return
    surely_fits = _MAX // factor - 1
    if -surely_fits <= int(values.min()) and int(values.max()) <= surely_fits:
        return
    near = np.flatnonzero((values > surely_fits) | (values < -surely_fits))
    for row in near.tolist():  # ends at the first overflow; values that only just fit are rare
        if not _MIN <= int(values[row]) * factor + int(low[row]) <= _MAX:
            raise InvalidInputError(
                f"Sequence column '{config.field.name}': the value {int(originals[row])} does not "
                f"fit 64 bits once padded by {', '.join(config.steps)}. Use a coarser column, or "
                "check its unit.",
                kind="sequence-overflow",
                column=config.field.name,
                value=int(originals[row]),
            )


def _digits(config: PaddingConfig) -> int:
    """Return the number of records of one unit that the padding distinguishes."""
    return _COUNTER_RANGE[config.steps[config.counter_place]]


def _add_flags(values: Longs, is_add: Flags, config: PaddingConfig) -> Longs:
    """Apply the steps before the counter: row kind flags, or none."""
    steps = config.steps[: config.counter_place]
    return pad(values, values, is_add, config=replace(config, steps=steps, legacy_overflow=True))


def _units(flagged: Longs, config: PaddingConfig) -> Longs:
    """Return the unit of each record: its second or millisecond, and the flags before it."""
    is_second = config.steps[config.counter_place] is SequencePadding.SECOND_TO_MICRO
    return _to_seconds(flagged, config.field) if is_second else flagged


HighestStored: TypeAlias = Callable[[Longs, Longs], Longs]
"""Lowest and highest numbers of ranges, ascending → the highest number stored in each; the smallest
64-bit number where there is none."""


class UnitCounter(Struct, kw_only=True):
    """Counts the records of each second or millisecond of one bucket, in order of arrival.

    A unit begins above the highest number that the bucket holds of it. Memory: 16 bytes a unit.
    """

    config: PaddingConfig
    """With a counter in its steps."""
    highest_stored: HighestStored
    _units: Longs = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """Seen before, ascending."""
    _next: Longs = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """Unit → the counter of its next record."""

    def count(self, values: Longs, is_add: Flags) -> tuple[Longs, int]:
        """Return each record's counter, and how many of them the padding has no digits for.

        Args:
            values: As for `pad`, in order of arrival, as the other arguments.
            is_add: Whether the record's effective kind adds a row.
        """
        flagged = _add_flags(values, is_add, self.config)
        every = _units(flagged, self.config)
        # Records of one unit are counted up in order of arrival, from the unit's first counter on.
        order = np.argsort(every, kind="stable")
        ordered = every[order]
        starts = np.flatnonzero(changes(ordered))
        units, lengths = ordered[starts], np.diff(starts, append=len(ordered))
        firsts = self._first(units, flagged[order[starts]])
        counters = np.empty_like(every)
        counters[order] = np.arange(len(every)) + np.repeat(firsts - starts, lengths)
        self._remember(units, firsts + lengths)
        return counters, int(np.count_nonzero(counters >= _digits(self.config)))

    def _first(self, units: Longs, flagged: Longs) -> Longs:
        """Return the counter of the first record of each unit, given one value of each."""
        firsts = np.zeros(len(units), dtype=np.int64)
        is_new = ~np.isin(units, self._units)
        firsts[~is_new] = self._next[np.searchsorted(self._units, units[~is_new])]
        firsts[is_new] = self._above_stored(flagged[is_new])
        return firsts

    def _above_stored(self, flagged: Longs) -> Longs:
        """Return the smallest counters that give numbers above the stored ones of their units."""
        steps, digits = self.config.steps[self.config.counter_place :], _digits(self.config)
        config = replace(self.config, steps=steps, legacy_overflow=True)

        def number(values: Longs, counters: Longs, *, adds: bool = False) -> Longs:
            return pad(values, counters, np.full(len(values), adds), config=config)

        low = np.zeros(len(flagged), dtype=np.int64)
        lowest, highest = number(flagged, low), number(flagged, low + digits - 1, adds=True)
        stored = self.highest_stored(lowest, np.where(highest < lowest, _MAX, highest))
        # Counters up to `below` give no number above the stored one; those from `above` on do, or
        # there are none.
        held = np.flatnonzero(stored >= lowest)
        below, above = low[held] - 1, low[held] + digits
        while (above - below > 1).any():
            middle = (below + above) // 2
            rises = number(flagged[held], middle) > stored[held]
            below, above = np.where(rises, below, middle), np.where(rises, middle, above)
        low[held] = above
        return low

    def _remember(self, units: Longs, following: Longs) -> None:
        untouched = ~np.isin(self._units, units)
        every = np.append(self._units[untouched], units)
        order = np.argsort(every, kind="stable")
        self._units = every[order]
        self._next = np.append(self._next[untouched], following)[order]


def _rounds(counter: int, modulus: int) -> int:
    """How often the low digits have started again, toward zero."""
    return counter // modulus if counter >= 0 else -(-counter // modulus)


class WrapCounter(Struct, kw_only=True):
    """Counts records of one bucket whose legacy counter wrapped inside one second or millisecond.

    After 10⁶ (or 10³) records the low digits start again at 0, and a record of a unit that was seen
    with higher digits gets a number that is not above its predecessors'. Nothing is sorted before
    the counter wraps. Memory: 16 bytes for each record until then, for each unit afterwards.
    """

    config: PaddingConfig
    _first: int | None = None
    _seen: list[tuple[Longs, Longs]] = field(default_factory=list)

    def count(self, values: Longs, counters: Longs, is_add: Flags) -> int:
        """Return how many of these records did not rise above an earlier one of their unit."""
        if not self.config.has_counter or not len(values):
            return 0
        units = _units(_add_flags(values, is_add, self.config), self.config)
        modulus = _digits(self.config)
        self._seen.append((units, np.fmod(counters, modulus)))
        if self._first is None:
            self._first = int(counters[0])
        if _rounds(self._first, modulus) == _rounds(int(counters[-1]), modulus):
            return 0
        return self._sort_seen(len(units), modulus)

    def _sort_seen(self, newest: int, modulus: int) -> int:
        units = np.concatenate([units for units, _ in self._seen])
        digits = np.concatenate([digits for _, digits in self._seen])
        order = np.argsort(units, kind="stable")
        units = units[order]
        starts = changes(units)
        # Lifting each unit's digits above the former unit's lets one running maximum serve all.
        lift = np.cumsum(starts) * (2 * modulus)
        lifted = digits[order] + lift
        highest = np.maximum.accumulate(lifted)
        wrapped = np.zeros(len(units), dtype=np.bool_)
        wrapped[1:] = ~starts[1:] & (lifted[1:] <= highest[:-1])
        wrapped &= order >= len(units) - newest
        ends = np.append(np.flatnonzero(starts)[1:] - 1, len(units) - 1)
        self._seen = [(units[ends], (highest - lift)[ends])]
        return int(np.count_nonzero(wrapped))
