"""Source texts of JSON values → columns of the target's types: encodings, one for each form.

    Encoding    a type, how to decode its values, and the text for a value that did not arrive

A value that a type cannot hold is an error, never null and never another value.
"""

import base64
import hashlib
import json
import re
import uuid
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from msgspec import Raw, Struct
from msgspec.structs import replace

from paimon_assets.cdc.records.change_batch import BinaryMode, CdcOptions, TimeMode
from paimon_assets.cdc.records.json_columns import Values, kernels
from paimon_assets.engine.codec.arrow import numpy_columns
from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_type
from paimon_assets.engine.data.casting.cast import attempt
from paimon_assets.engine.data.casting.casting import cast_array
from paimon_assets.engine.data.casting.decimals import spare_digits
from paimon_assets.engine.data.format.text import parse_columns
from paimon_assets.engine.data.write.input_check import has_odd_times
from paimon_assets.engine.errors import PaimonError
from paimon_assets.engine.spec.segments.text_options import TextOptions
from paimon_assets.engine.spec.types import data_types as types

Array: TypeAlias = Any
Decode: TypeAlias = Callable[[Values], Array]

BYTES = types.AtomicType(root=types.TypeRoot.VARBINARY, length=types.MAX_LENGTH)
_AS_STRING = "declare the column as STRING"
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_MILLI_DIGITS, _NANO_DIGITS = 3, 9
_MORE_THAN = {"day": "[ T].*[1-9]", "s": r"\.[0-9]*[1-9]"} | {
    unit: rf"\.[0-9]{{{digits}}}[0-9]*[1-9]" for unit, digits in (("ms", 3), ("us", 6), ("ns", 9))
}
"""Unit → digits that times of it do not have."""
_REAL = r"^[-+]?(?P<whole>[0-9]*)\.?(?P<rest>[0-9]*?)0*(?:[eE][+]?(?P<power>-?[0-9]+))?$"
_WIDE, _DOUBLE_DIGITS = 76, (15, 17)
"""Of the widest decimal; those that every whole number of a DOUBLE, and every other one, keeps."""
_FAR = "^[+-]|infinity$"
"""ISO 8601 outside the years 0 to 9999, and PostgreSQL's infinities."""
_CLOCK = r"^-?[0-9]+:[0-5][0-9]:[0-5][0-9](\.[0-9]*)?$"
_HEX = np.full(256, 255, dtype=np.uint8)
for _digits in (b"0123456789abcdef", b"0123456789ABCDEF"):
    _HEX[list(_digits)] = range(16)


class Encoding(Struct, frozen=True):
    """How the values of a column stand in records."""

    type: types.DataType
    decode: Decode
    """Values → a column of the type; raises `pa.ArrowInvalid` or `PaimonError`."""
    unavailable: tuple[str, ...] = ()
    """Source texts that stand for a value that did not arrive."""
    has_default: bool = False
    """Whether the source gives rows a value that their statement does not name."""
    as_text: Decode = Values.texts
    """Values → texts, of a time that the source may have beyond a day or the years 0 to 9999."""
    is_iso: bool = False
    """Whether values are texts of times, which may have more digits than the type."""
    is_number: bool = False
    """Whether values are numbers of any size or scale, of type STRING unless one is declared."""

    def values(self, values: Values) -> tuple[Array, dict[int, str]]:
        """Return a column, with nulls for values that cannot be read: row → why."""
        try:
            return self._decode(values), {}
        except (pa.ArrowInvalid, PaimonError, ValueError, OverflowError) as error:
            if len(values) == 1:
                message = error.message if isinstance(error, PaimonError) else str(error)
                return nulls(1, self.type), {0: message}
        half = len(values) // 2
        parts, bad = [], {}
        for start, stop in ((0, half), (half, len(values))):
            column, failures = self.values(values.take(np.arange(start, stop)))
            parts.append(column)
            bad.update({row + start: reason for row, reason in failures.items()})
        return pa.concat_arrays(parts), bad

    def _decode(self, values: Values) -> Array:
        column = self.decode(values)
        column.validate(full=True)
        lost = numpy_columns.to_numpy(column.is_null()) & values.has_value
        if lost.any():
            text = values.take(lost).source()[0].as_py()
            raise pa.ArrowInvalid(f"{text} is no {self.type}; {_AS_STRING}")
        arrow_type: Any = to_arrow_type(self.type)
        return column if column.type == arrow_type else column.cast(arrow_type)

    def is_unavailable(self, values: Values) -> numpy_columns.Flags:
        """Return which values stand for one that did not arrive."""
        if values.kind not in (str, Raw) or not self.unavailable:
            return np.zeros(len(values), np.bool_)
        is_raw = values.kind is Raw
        forms = self.unavailable if is_raw else _texts_of(self.unavailable)
        lengths = _lengths_of(forms)
        flags: numpy_columns.Flags = lengths.take(values.sizes(), mode="clip")
        if flags.any():
            some = values.take(flags)
            texts = some.source() if is_raw else some.texts()
            known = pa.array(forms, pa.string())
            flags[flags] = numpy_columns.to_numpy(
                kernels.is_in(texts, value_set=known, skip_nulls=True)
            )
        if is_raw and (nested := values.starts_with("{[")).any():
            flags[nested] |= _has_only(values.take(nested).source(), _words_of(forms))
        return flags


@cache
def unavailable_texts(placeholder: str) -> tuple[str, ...]:
    """Return the forms in which Debezium writes that it does not know a value.

    As text, bytes (base64, hex), numbers of bytes, and in JSON, by the column's type.
    """
    data = placeholder.encode()
    digest = hashlib.md5(data, usedforsecurity=False).digest()
    by_name = str(uuid.UUID(bytes=digest, version=3))
    texts = [base64.b64encode(data).decode(), base64.urlsafe_b64encode(data).decode(), data.hex()]
    texts = list(dict.fromkeys([placeholder, *texts, by_name]))
    pair = {placeholder: placeholder}
    values: list[Any] = [*texts, json.dumps(pair), json.dumps(pair, separators=(",", ":"))]
    values += [list(data), [float(byte) for byte in data]]
    forms = [
        json.dumps(value, separators=marks) for value in values for marks in ((",", ":"), None)
    ]
    return tuple(dict.fromkeys(forms))


@cache
def _words_of(forms: tuple[str, ...]) -> str:
    """Return a regular expression of the texts among source texts."""
    return "|".join(re.escape(form) for form in forms if form.startswith('"'))


def _has_only(texts: Array, words: str) -> numpy_columns.Flags:
    """Return which arrays and objects have some words, and no other text beside names."""
    without = kernels.replace_substring_regex(texts, words, "")
    flags = numpy_columns.to_numpy(kernels.not_equal(without, texts))
    if flags.any():
        rest = kernels.replace_substring_regex(without, r'"[^"]*"\s*:', "")
        flags &= ~numpy_columns.to_numpy(kernels.match_substring(rest, '"'))
    return flags


@cache
def _texts_of(forms: tuple[str, ...]) -> tuple[str, ...]:
    values = map(json.loads, forms)
    return tuple({value: None for value in values if isinstance(value, str)})


@cache
def _lengths_of(texts: tuple[str, ...]) -> numpy_columns.Flags:
    """Return whether a text has a length, and of all that are longer that none has."""
    lengths = [len(text.encode()) for text in texts]
    flags = np.zeros(max(lengths, default=0) + 2, dtype=np.bool_)
    flags[lengths] = True
    return flags


def nulls(count: int, data_type: types.DataType) -> Array:
    arrow_type: Any = to_arrow_type(data_type)
    return pa.nulls(count, arrow_type)


def encoding_of(data_type: types.DataType, options: CdcOptions) -> Encoding:
    """Return the encoding of a declared type: texts, or numbers as the options say."""
    forms = unavailable_texts(options.unavailable) if options.unavailable else ()
    return Encoding(data_type, decoder_of(data_type, options), forms)


def decoder_of(data_type: types.DataType, options: CdcOptions) -> Decode:
    match data_type:
        case types.ArrayType(element=element):
            return array_decoder(decoder_of(element, options), data_type)
        case types.MapType(value=value):
            return map_decoder(decoder_of(value, options), data_type)
        case types.RowType(fields=fields):
            return row_decoder([decoder_of(inner.type, options) for inner in fields], data_type)
        case types.AtomicType(root=root) if root in types.CHARACTER_ROOTS:
            return Values.texts
        case types.AtomicType(root=root) if root in types.BINARY_ROOTS:
            return lambda values: binary(values.texts(), options.binary)
        case types.AtomicType(root=types.TypeRoot.DATE | types.TypeRoot.TIME):
            unit = "s" if data_type.root is types.TypeRoot.DATE else time_unit(data_type, options)
            return lambda values: _times(values, data_type, unit)
        case types.AtomicType(root=root) if root in types.TIMESTAMP_ROOTS:
            return lambda values: _times(values, data_type, time_unit(data_type, options))
        case _:
            return lambda values: numbers(values, data_type)


def numbers(values: Values, data_type: types.DataType) -> Array:
    """Parse numbers and booleans, with quotes or without.

    Without, Arrow's parsers read them, in a third of the time. NaN and the infinities are in
    quotes, as Debezium writes them: JSON has none.
    """
    if values.starts_with('"').any():
        return from_texts(values.texts(), data_type)
    arrow_type: Any = to_arrow_type(data_type)
    texts = values.numbers() if pa.types.is_integer(arrow_type) else values.texts()
    try:
        column = texts.cast(arrow_type)
    except pa.ArrowInvalid:
        column = from_texts(values.texts(), data_type)
    if pa.types.is_floating(arrow_type):
        if not _all(kernels.is_finite(column)):
            raise pa.ArrowInvalid(f"it is no finite {data_type}; {_AS_STRING}")
        rows = kernels.indices_nonzero(_may_lose_digits(texts, column))
        texts, some = texts.take(rows), column.take(rows)
        _refuse_losses(texts, _has_digits(texts, some), data_type)
    return column


def from_texts(texts: Array, data_type: types.DataType) -> Array:
    """Parse texts as Paimon casts them; a number that would become another one is an error."""
    if data_type.root is types.TypeRoot.TIME:
        is_long = kernels.and_not(
            kernels.match_substring_regex(texts, _CLOCK),
            kernels.match_substring_regex(texts, "^([01]?[0-9]|2[0-3]):"),
        )
        if kernels.any(is_long).as_py():
            raise pa.ArrowInvalid(f"it is no time of a day; {_AS_STRING}")
    if data_type.root is types.TypeRoot.DECIMAL:
        if (column := _exact_decimals(texts, data_type)) is not None:
            return column
        is_no_number = kernels.match_substring_regex(texts, "NaN|Infinity")
        if kernels.any(is_no_number).as_py():
            raise pa.ArrowInvalid(f"it is no {data_type}; declare the column as DOUBLE or STRING")
    arrow_type: Any = to_arrow_type(data_type)
    if pa.types.is_temporal(arrow_type):  # the cast may round
        more = _MORE_THAN[getattr(arrow_type, "unit", "day")]
        is_same = kernels.invert(kernels.match_substring_regex(texts, more))
        _refuse_losses(texts, is_same, data_type)
    try:
        column = cast_array(texts, types.string(), data_type)
    except PaimonError as error:
        raise pa.ArrowInvalid(f"{error.message.rstrip('.')}; {_AS_STRING}") from None
    if pa.types.is_floating(column.type):
        is_word = kernels.match_substring_regex(texts, "NaN|Infinity")
        is_same = kernels.or_(is_word, _has_digits(texts, column))
    elif pa.types.is_integer(column.type):
        is_same = kernels.invert(kernels.match_substring_regex(texts, r"\.0*[1-9]"))
    elif pa.types.is_decimal(column.type):
        wide: Any = pa.decimal256(2 * types.MAX_DECIMAL_PRECISION, types.MAX_DECIMAL_PRECISION)
        fitting = kernels.if_else(column.is_valid(), texts, None)
        try:
            is_same = kernels.equal(fitting.cast(wide), column.cast(wide))
        except pa.ArrowInvalid:
            text = f"it is no {data_type}: digits would be lost; {_AS_STRING}"
            raise pa.ArrowInvalid(text) from None
    else:
        return column
    _refuse_losses(texts, is_same, data_type)
    return column


def _exact_decimals(texts: Array, data_type: types.DataType) -> Array | None:
    """Return decimals if Arrow's parser takes all texts, which then lose no digit."""
    is_safe = spare_digits(texts, getattr(data_type, "scale", 0) or 0) >= 0
    return attempt(texts, to_arrow_type(data_type)) if is_safe else None


def _refuse_losses(texts: Array, is_same: Array, data_type: types.DataType) -> None:
    if not _all(is_same):
        first = texts.filter(kernels.invert(is_same))[0].as_py()
        raise pa.ArrowInvalid(f"'{first}' is no {data_type}: digits would be lost; {_AS_STRING}")


def _may_lose_digits(texts: Array, reals: Array) -> Array:
    """Return which numbers of JSON may have more digits than a real number, by their lengths."""
    if reals.type != pa.float64():
        return texts.is_valid()
    is_long = kernels.greater(kernels.binary_length(texts), _DOUBLE_DIGITS[0])
    is_long = kernels.or_(is_long, kernels.equal(reals, 0.0))
    return kernels.fill_null(is_long, False)  # noqa: FBT003


def _has_digits(texts: Array, reals: Array) -> Array:
    """Return which texts are their number, rounded to the digits that they have."""
    whole, rest, power = kernels.extract_regex(texts, _REAL).flatten()
    digits = kernels.utf8_ltrim(kernels.binary_join_element_wise(whole, rest, ""), "0")
    is_whole = kernels.equal(kernels.binary_join_element_wise(rest, power, ""), "")
    length, wide = kernels.utf8_length(digits), reals.cast(pa.float64())
    is_short = kernels.less_equal(length, kernels.if_else(is_whole, *_DOUBLE_DIGITS))
    is_long = kernels.and_(is_whole, kernels.and_not(kernels.less(length, _WIDE), is_short))
    kind: Any = pa.decimal256(_WIDE, 0)
    exact = (kernels.if_else(is_long, each, None).cast(kind) for each in (texts, wide))
    if reals.type == pa.float32():
        exponent = kernels.if_else(kernels.equal(power, ""), "0", power).cast(pa.int64())
        place = kernels.subtract(exponent, kernels.utf8_length(rest)).cast(pa.float64())
        gap = kernels.abs(kernels.subtract(texts.cast(pa.float64()), wide))
        # Java's texts may be off by a little more than half of their last digit.
        is_near = kernels.less_equal(gap, kernels.multiply(0.75, kernels.power(10.0, place)))
    else:
        is_zero = kernels.and_(kernels.equal(reals, 0.0), kernels.not_equal(digits, ""))
        is_near = kernels.and_not(is_short, is_zero)
    is_same = kernels.coalesce(kernels.equal(*exact), is_near)
    return kernels.if_else(texts.is_valid(), is_same.fill_null(False), None)  # noqa: FBT003


def _all(flags: Array) -> bool:
    return bool(kernels.all(flags, min_count=0).as_py())


def time_unit(data_type: types.DataType, options: CdcOptions) -> str:
    """Return the unit of numbers that are times, by the connector's mode and the precision."""
    mode = options.time
    is_coarse = (getattr(data_type, "precision", 0) or 0) <= _MILLI_DIGITS
    if mode is TimeMode.CONNECT:
        return "ms"
    if mode is TimeMode.NANOSECONDS:
        return "ns"
    is_adaptive = mode is TimeMode.ADAPTIVE or (
        mode is TimeMode.ADAPTIVE_TIME_MICROSECONDS and data_type.root is not types.TypeRoot.TIME
    )
    return "ms" if is_adaptive and is_coarse else "us"


def _times(values: Values, data_type: types.DataType, unit: str) -> Array:
    """Decode times: numbers in a unit (dates in days), or ISO 8601."""
    if values.starts_with('"').any():
        return iso(values.texts(), data_type)
    return numbers_as(values.numbers(), data_type, unit)


def iso(texts: Array, data_type: types.DataType) -> Array:
    """Parse dates and times of ISO 8601, with a zone or, in UTC, without."""
    arrow_type: Any = to_arrow_type(data_type)
    is_time = data_type.root is types.TypeRoot.TIME
    if not is_time and kernels.any(kernels.match_substring_regex(texts, _FAR)).as_py():
        raise pa.ArrowInvalid(f"it is infinite, or outside the years 0 to 9999; {_AS_STRING}")
    if is_time or data_type.root is types.TypeRoot.DATE:
        plain = kernels.replace_substring_regex(texts, "(Z|[+-]00:?00)$", "")
        return plain.cast(arrow_type) if arrow_type == pa.date32() else from_texts(plain, data_type)
    if kernels.any(kernels.match_substring_regex(texts, _MORE_THAN[arrow_type.unit])).as_py():
        raise _lost_digits(data_type)
    if arrow_type.unit != "ns":
        texts = kernels.replace_substring_regex(texts, r"(\.[0-9]{6})0+", r"\1")
    return _parse_numbers(texts, arrow_type)


def iso_texts(texts: Array, data_type: types.DataType) -> Array:
    """Return ISO 8601 as Paimon casts it to texts; values beyond the type are as they came."""
    if data_type.root is types.TypeRoot.TIME:
        return texts
    is_held = kernels.invert(kernels.match_substring_regex(texts, f"{_FAR}|{_MORE_THAN['us']}"))
    near = iso(kernels.if_else(is_held, texts, None), data_type)
    return kernels.coalesce(cast_array(near, data_type, types.string()), texts)


def with_calendar(encoding: Encoding, fault: str) -> Encoding:
    """Return an encoding that refuses times outside the years 0 to 9999."""

    def decode(values: Values) -> Array:
        column = encoding.decode(values)
        if has_odd_times(column):
            raise pa.ArrowInvalid(f"it is infinite, or outside the years 0 to 9999, and {fault}")
        return column

    return replace(encoding, decode=decode)


def _lost_digits(data_type: types.DataType) -> pa.ArrowInvalid:
    if data_type.root is types.TypeRoot.TIME:
        return pa.ArrowInvalid("a TIME has milliseconds; declare the column as STRING or BIGINT")
    wide = replace(data_type, precision=_NANO_DIGITS)
    return pa.ArrowInvalid(f"{data_type} has fewer digits; declare the column as {wide}")


def _parse_numbers(texts: Array, arrow_type: Any) -> Array:
    batch = pa.RecordBatch.from_arrays([texts], names=["v"])
    schema = pa.schema([pa.field("v", arrow_type)])
    return parse_columns(batch, schema, TextOptions(), zone="UTC").column(0)


def numbers_as(texts: Array, data_type: types.DataType, unit: str) -> Array:
    """Return numbers of a unit as times, those of dates as days."""
    numbers = texts.cast(pa.int64())
    arrow_type: Any = to_arrow_type(data_type)
    if data_type.root is types.TypeRoot.DATE:
        return numbers.cast(pa.int32()).cast(pa.date32())
    if data_type.root is types.TypeRoot.TIME:
        millis = _scale(numbers, unit, "ms", data_type)
        day: Any = 86_400_000
        outside = kernels.or_kleene(kernels.less(millis, 0), kernels.greater_equal(millis, day))
        if kernels.any(outside).as_py():
            raise pa.ArrowInvalid("it is no time of a day; declare the column as STRING or BIGINT")
        return millis.cast(pa.int32()).cast(pa.time32("ms"))
    return _scale(numbers, unit, arrow_type.unit, data_type).cast(arrow_type)


def clock_texts(texts: Array, unit: str) -> Array:
    """Return numbers of a unit as `-838:59:59.0`: hours of any number, and signs."""
    numbers = texts.cast(pa.int64())
    left, second = kernels.abs_checked(numbers), _PER_SECOND[unit]
    parts = []
    for size, digits in ((second, len(str(second)) - 1), (60, 2), (60, 2)):
        rest = kernels.divide(left, size)
        part = kernels.subtract(left, kernels.multiply(rest, size)).cast(pa.string())
        parts.append(kernels.utf8_lpad(part, digits, "0"))
        left = rest
    fraction = kernels.utf8_rtrim(parts[0], "0")
    parts[0] = kernels.if_else(kernels.equal(fraction, ""), "0", fraction)
    hours = kernels.utf8_lpad(left.cast(pa.string()), 2, "0")
    clock = kernels.binary_join_element_wise(hours, parts[2], parts[1], ":")
    sign = kernels.if_else(kernels.less(numbers, 0), "-", "")
    return kernels.binary_join_element_wise(
        kernels.binary_join_element_wise(sign, clock, ""), parts[0], "."
    )


def _scale(numbers: Array, unit: str, wanted: str, data_type: types.DataType) -> Array:
    held, per_second = _PER_SECOND[unit], _PER_SECOND[wanted]
    if held <= per_second:
        return kernels.multiply_checked(numbers, per_second // held)
    step: Any = held // per_second
    quotient = kernels.divide(numbers, step)
    if not _all(kernels.equal(kernels.multiply(quotient, step), numbers)):
        raise _lost_digits(data_type)
    return quotient


def binary(texts: Array, mode: BinaryMode) -> Array:
    """Decode texts of bytes."""
    if mode is BinaryMode.HEX:
        return _from_hex(texts)
    if mode is BinaryMode.BASE64_URL_SAFE:
        texts = kernels.replace_substring(kernels.replace_substring(texts, "-", "+"), "_", "/")
    return _parse_numbers(texts, pa.binary())


def _from_hex(texts: Array) -> Array:
    ends, data = numpy_columns.parts_of_texts(texts)
    digits = _HEX[data]
    if (digits > 15).any() or (np.diff(ends) % 2).any():
        raise pa.ArrowInvalid("it is no hexadecimal text of bytes")
    values = (digits[0::2] << 4) | digits[1::2]
    return numpy_columns.binary_of(ends // 2, values, texts)


def reversed_bytes(column: Array) -> Array:
    """Return bytes in the opposite order: Debezium writes bits from the lowest on."""
    ends, data = numpy_columns.parts_of_texts(column)
    lengths = np.diff(ends)
    places = np.repeat(ends[:-1] + ends[1:] - 1, lengths) - np.arange(len(data))
    return numpy_columns.binary_of(ends, data[places], column)


def too_many_digits(most: int) -> pa.ArrowInvalid:
    return pa.ArrowInvalid(
        f"the number has more than {most} digits; let the connector write decimals as texts "
        "(decimal.handling.mode=string)"
    )


def unscale(column: Array, scale: int, *, precision: int = 38, width: int = 16) -> Array:
    """Return big-endian two's complements of any length as decimals; 32 bytes wide: decimal256.

    Raises:
        pa.ArrowInvalid: A number has more digits.
    """
    ends, data = numpy_columns.parts_of_texts(column)
    lengths = np.diff(ends)
    # Words are big-endian and filled with the sign; bytes beyond the width must repeat it.
    words = np.zeros((len(column), width), dtype=np.uint8)
    for length in np.unique(lengths[lengths > 0]).tolist():
        rows = np.flatnonzero(lengths == length)
        held = data[ends[rows][:, np.newaxis] + np.arange(length)]
        signs = np.where(held[:, :1] > 127, 255, 0).astype(np.uint8)
        if length > width:
            extra = length - width
            if (held[:, :extra] != signs).any() or ((held[:, extra] ^ signs[:, 0]) > 127).any():
                raise too_many_digits(precision)
            held = held[:, extra:]
        words[rows, : width - held.shape[1]] = signs
        words[rows, width - held.shape[1] :] = held
    kind: Any = pa.decimal128(precision, scale) if width == 16 else pa.decimal256(precision, scale)
    made: Array = pa.Array.from_buffers(
        kind, len(column), [None, numpy_columns.buffer_of(words[:, ::-1])]
    )
    try:
        made.validate(full=True)
    except pa.ArrowInvalid:
        raise too_many_digits(precision) from None
    return kernels.if_else(column.is_valid(), made, None) if column.null_count else made


def array_decoder(element: Decode, data_type: types.ArrayType) -> Decode:
    """Return how to decode arrays; of texts also a SET of MySQL, as its members with commas."""
    is_set = data_type.element.root in types.CHARACTER_ROOTS

    def decode(values: Values) -> Array:
        if is_set and (values.starts_with('"') == values.has_value).all():
            return _set_members(values.texts())
        owners, elements = values.elements()
        return _lists(values, owners, (element(elements),), data_type)

    return decode


def _set_members(texts: Array) -> Array:
    if kernels.any(kernels.match_substring_regex(texts, r"^[{\[]")).as_py():
        raise pa.ArrowInvalid("it is no SET, but the text of an array")
    members = kernels.split_pattern(texts, ",")
    return kernels.if_else(kernels.equal(texts, ""), pa.scalar([], members.type), members)


def map_decoder(value: Decode, data_type: types.MapType) -> Decode:
    """Return how to decode objects whose names are the keys of a map."""

    def decode(values: Values) -> Array:
        owners, names, members = values.entries()
        keys = (
            names
            if data_type.key.root in types.CHARACTER_ROOTS
            else from_texts(names, data_type.key)
        )
        return _lists(values, owners, (keys, value(members)), data_type)

    return decode


def _lists(
    values: Values, owners: Any, parts: tuple[Array, ...], data_type: types.DataType
) -> Array:
    arrow_type: Any = to_arrow_type(data_type)
    mark = "{" if isinstance(data_type, types.MapType) else "["
    if (values.has_value & ~values.starts_with(mark)).any():
        raise pa.ArrowInvalid(f"it is no {data_type}")
    bounds = np.zeros(len(values) + 1, dtype=np.int32)
    np.cumsum(np.bincount(owners, minlength=len(values)), out=bounds[1:])
    kind: Any = pa.MapArray if isinstance(data_type, types.MapType) else pa.ListArray
    mask = numpy_columns.from_numpy(~values.has_value)
    return kind.from_arrays(numpy_columns.from_numpy(bounds), *parts, type=arrow_type, mask=mask)


def row_decoder(fields: Sequence[Decode], data_type: types.RowType) -> Decode:
    """Return how to decode objects of known members; further members are left out."""

    def decode(values: Values) -> Array:
        if (values.has_value & ~values.starts_with("{")).any():
            raise pa.ArrowInvalid(f"it is no {data_type}")
        members = values.members()
        columns = [
            inner(members[known.name])
            for inner, known in zip(fields, data_type.fields, strict=True)
        ]
        arrow_type: Any = to_arrow_type(data_type)
        mask = numpy_columns.from_numpy(~values.has_value)
        return pa.StructArray.from_arrays(columns, fields=list(arrow_type), mask=mask)

    return decode


def fields_of(by_name: dict[str, types.DataType]) -> tuple[types.DataField, ...]:
    return tuple(
        types.DataField(id=number, name=name, type=data_type)
        for number, (name, data_type) in enumerate(by_name.items())
    )
