"""sum and product, as exact as Java's: integers that overflow wrap around, decimals become null.

Whole columns are added in 64 bits (decimals in 128). Only groups of decimals near the limits of
their type, by a floating-point estimate, are added again number by number: their result depends on
the order of the records. Floating-point numbers are always added in order, for the same rounding.
Source: `org.apache.paimon.mergetree.compact.aggregate.FieldSumAgg`, `FieldProductAgg`.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat
from msgspec import Struct

from paimon_assets.engine.codec.arrow import numpy_columns as arrays
from paimon_assets.engine.data.key_order import Order
from paimon_assets.engine.data.merge.records import Grouped, run_starts
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.merge.merge_rules import FieldAggregation

_STEPS_AT_ONCE = 32
_MARGIN = 1 - 1e-6
"""Estimates below this part of a limit are reliable."""
_MAX_INT_DIGITS = 9
_MAX_LONG_DIGITS = 18
_LIMB = np.int64(32)
_LOW = np.int64(2**32 - 1)

Number = Any
"""An int (decimals: unscaled), or a numpy float."""
First = Callable[[Number, int], Number | None]
"""(the first number, its sign: -1 if it retracts) → result."""
Step = Callable[[Number, Number, int], Number | None]
"""(result, the next number, its sign) → result."""


class _Groups(Struct, frozen=True):
    """Numbers of the groups that have any, group by group."""

    grouped: Grouped
    numbers: npt.NDArray[Any]
    """One item a record; decimals have two columns, low and high word."""
    starts: Order

    @property
    def present(self) -> Order:
        """The groups that have numbers."""
        return self.grouped.groups[self.starts]

    @property
    def lengths(self) -> Order:
        return np.diff(np.append(self.starts, len(self.numbers)))

    @property
    def signs(self) -> npt.NDArray[np.int64]:
        """-1 for records that retract, else 1."""
        retracts = self.grouped.retracts
        if retracts is None:
            return np.ones(len(self.numbers), dtype=np.int64)
        return np.where(retracts, np.int64(-1), np.int64(1))

    def fold(self, group: int, first: First, step: Step) -> Number | None:
        """Fold one group number by number; after a null, the next number is the first again."""
        part = slice(int(self.starts[group]), int(self.starts[group] + self.lengths[group]))
        result: Number | None = None
        numbers, signs = _integers(self.numbers[part]), self.signs[part].tolist()
        for number, sign in zip(numbers, signs, strict=True):
            result = first(number, sign) if result is None else step(result, number, sign)
        return result


def _integers(numbers: npt.NDArray[Any]) -> Iterable[Number]:
    if numbers.ndim == 1:
        return numbers.tolist() if numbers.dtype.kind == "i" else list(numbers)
    return [(high << 64) + (low % 2**64) for low, high in numbers.tolist()]


def _groups(values: arrays.Array, grouped: Grouped) -> _Groups:
    present = grouped.valid(values).by_arrival()
    numbers = (
        arrays.decimal_words(values) if pat.is_decimal128(values.type) else arrays.to_numpy(values)
    )
    return _Groups(present, numbers[present.rows], run_starts(present.groups))


def sum_values(values: arrays.Array, grouped: Grouped) -> arrays.Array:
    """Add the values of each group; records that retract are subtracted; nulls do not count.

    Cost:
        A few passes; a Python loop over the decimals of groups whose sum is near the limit.
    """
    data_type: Any = values.type
    groups = _groups(values, grouped)
    if not len(groups.numbers):
        return pa.nulls(grouped.count, data_type)  # type: ignore[no-any-return]  # an array
    if pat.is_floating(data_type):
        signed = groups.numbers * groups.signs.astype(groups.numbers.dtype)
        return _scatter(_fold_left(np.add, signed, groups), groups, data_type)
    if pat.is_decimal128(data_type):
        return _decimal_sums(groups, data_type)
    totals = np.add.reduceat(groups.numbers.astype(np.int64) * groups.signs, groups.starts)
    return _scatter(totals.astype(groups.numbers.dtype), groups, data_type)


def _fold_left(ufunc: np.ufunc, numbers: npt.NDArray[Any], groups: _Groups) -> npt.NDArray[Any]:
    """Fold floating-point numbers from left to right, each step rounded as in Java.

    Cost:
        A numpy step for each record of the longest group, at most `_STEPS_AT_ONCE`; longer groups
        need one numpy call each.
    """
    starts, lengths = groups.starts, groups.lengths
    with np.errstate(all="ignore"):
        result = numbers[starts]
        for step in range(1, min(_STEPS_AT_ONCE, int(lengths.max()))):
            longer = np.flatnonzero(lengths > step)
            result[longer] = ufunc(result[longer], numbers[starts[longer] + step])
        for group in np.flatnonzero(lengths > _STEPS_AT_ONCE).tolist():
            part = numbers[starts[group] : starts[group] + lengths[group]]
            result[group] = ufunc.accumulate(part)[-1]
    return result


def _decimal_sums(groups: _Groups, data_type: Any) -> arrays.Array:
    """Add 128-bit numbers as four limbs of 32 bits; a sum that does not fit is null.

    As in Java, the limit of a decimal of up to 18 digits is that of the integer that files store.
    (Java's integer has 64 bits, and wraps when 9 digits are written.)
    """
    precision = data_type.precision
    low, high = 1 - 10**precision, 10**precision
    if precision <= _MAX_LONG_DIGITS:
        high = 2**31 if precision <= _MAX_INT_DIGITS else 2**63
        low = -high
    # Limbs have 32 bits in 64, so that sums of 2**31 of them fit; the highest has the sign. If the
    # sizes of a group's numbers add up to less than the limit, no sum on the way reaches it either.
    words, signs = groups.numbers, groups.signs
    limbs = [words[:, 0] & _LOW, words[:, 0] >> _LIMB & _LOW, words[:, 1] & _LOW]
    limbs.append(words[:, 1] >> _LIMB)
    sums = [np.add.reduceat(limb * signs, groups.starts) for limb in limbs]
    for lower in range(3):
        sums[lower + 1] += sums[lower] >> _LIMB
        sums[lower] &= _LOW
    totals = np.stack([sums[1] << _LIMB | sums[0], sums[3] << _LIMB | sums[2]], axis=1)
    sizes = np.abs(words[:, 1] * 2.0**64 + words[:, 0].view(np.uint64).astype(np.float64))
    bounds = np.add.reduceat(sizes, groups.starts)

    def first(number: int, sign: int) -> int:
        return sign * number

    def step(result: int, number: int, sign: int) -> int | None:
        total = result + sign * number
        return total if low <= total < high else None

    valid = np.ones(len(totals), dtype=np.bool_)
    for group in np.flatnonzero(bounds >= high * _MARGIN).tolist():
        _store(totals, valid, group, groups.fold(group, first, step))
    return _scatter(totals, groups, data_type, valid)


def _store(totals: npt.NDArray[Any], valid: arrays.Flags, group: int, number: int | None) -> None:
    valid[group] = number is not None
    unscaled = number or 0
    totals[group] = ((unscaled & 2**64 - 1) - ((unscaled & 2**63) << 1), unscaled >> 64)


def multiply_values(
    values: arrays.Array, grouped: Grouped, settings: FieldAggregation
) -> arrays.Array:
    """Multiply the values of each group; records that retract divide; nulls do not count.

    Cost:
        A few passes; a Python loop over the numbers if they are decimals or some record retracts.
    """
    data_type: Any = values.type
    groups = _groups(values, grouped)
    if not len(groups.numbers):
        return pa.nulls(grouped.count, data_type)  # type: ignore[no-any-return]  # an array
    retracts = grouped.retracts is not None and bool(grouped.retracts.any())
    if pat.is_floating(data_type) and not retracts:
        products = _fold_left(np.multiply, groups.numbers, groups)
        return _scatter(products, groups, data_type)
    if pat.is_integer(data_type) and not retracts:
        wide = np.multiply.reduceat(groups.numbers.astype(np.int64), groups.starts)
        return _scatter(wide.astype(groups.numbers.dtype), groups, data_type)
    first, step = _product_steps(data_type, settings.column)
    products = groups.numbers[groups.starts]
    valid = np.ones(len(products), dtype=np.bool_)
    for group in range(len(products)):
        product = groups.fold(group, first, step)
        if products.ndim > 1:
            _store(products, valid, group, product)
        else:
            valid[group] = product is not None
            products[group] = 0 if product is None else product
    return _scatter(products, groups, data_type, valid)


def _product_steps(data_type: Any, column: str) -> tuple[First, Step]:
    def first(number: Number, sign: int) -> Number | None:
        return number if sign > 0 else None

    def refuse(result: Number, number: Number) -> InvalidInputError:
        message = (
            f"The product of column '{column}' cannot retract {number} from {result}: the quotient"
            f" has no exact value. Set 'fields.{column}.ignore-retract' to true."
        )
        return InvalidInputError(message, kind="aggregate-division", column=column)

    def of_floats(result: Number, number: Number, sign: int) -> Number:
        with np.errstate(all="ignore"):
            return result * number if sign > 0 else result / number

    if pat.is_floating(data_type):
        return first, of_floats
    if pat.is_integer(data_type):
        half = 1 << int(data_type.bit_width) - 1

        def of_integers(result: int, number: int, sign: int) -> int:
            if sign < 0 and number == 0:
                raise refuse(result, number)
            exact = result * number if sign > 0 else _divide(result, number)
            return (exact + half) % (2 * half) - half

        return first, of_integers
    unit, largest = 10**data_type.scale, 10**data_type.precision

    def of_decimals(result: int, number: int, sign: int) -> int | None:
        if sign > 0:
            product = _round(result * number, unit)
        elif number == 0 or not _terminates(result, number):
            raise refuse(result, number)
        else:
            product = _round(result * unit, number)
        return product if -largest < product < largest else None

    return first, of_decimals


def _divide(number: int, divisor: int) -> int:
    """Divide, cutting toward zero."""
    quotient = abs(number) // abs(divisor)
    return quotient if (number < 0) == (divisor < 0) else -quotient


def _round(number: int, divisor: int) -> int:
    """Divide, rounding half away from zero."""
    quotient = (abs(number) + abs(divisor) // 2) // abs(divisor)
    return quotient if (number < 0) == (divisor < 0) else -quotient


def _terminates(number: int, divisor: int) -> bool:
    """Whether a quotient has finitely many decimal digits."""
    rest = abs(divisor) // math.gcd(number, divisor)
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    return rest == 1


def _scatter(
    numbers: npt.NDArray[Any], groups: _Groups, data_type: Any, valid: arrays.Flags | None = None
) -> arrays.Array:
    """Return a value for every group, null for those without numbers."""
    count = groups.grouped.count
    content = np.zeros((count, *numbers.shape[1:]), dtype=numbers.dtype)
    content[groups.present] = numbers
    present = groups.present if valid is None else groups.present[valid]
    is_valid = arrays.flags_at(present, count)
    return pa.Array.from_buffers(
        data_type, count, [arrays.buffer_of(is_valid), arrays.buffer_of(content)]
    )
