"""The cast vectors of `golden/cast_vectors.csv`, as Arrow values; conventions in its PROVENANCE."""

import csv
import re
from decimal import Decimal
from pathlib import Path

import pyarrow as pa

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_type
from paimon_assets.engine.spec.types import data_types as types
from paimon_assets.engine.spec.types.literals import to_internal
from paimon_assets.engine.spec.types.type_text import parse_type

GOLDEN = Path(__file__).parents[1] / "golden" / "cast_vectors.csv"
VECTORS = list(csv.DictReader(GOLDEN.read_text(encoding="utf-8").splitlines()))
NANOS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
DAYS_OF_400_YEARS = 146_097


class NotInArrowError(Exception):
    """A value that the Arrow type of its Paimon type cannot hold."""


def type_of(text):
    """Parse a type of the vectors; they write TIMESTAMP_LTZ(p)."""
    zoned = text.replace("TIMESTAMP_LTZ", "TIMESTAMP") + " WITH LOCAL TIME ZONE"
    return parse_type(zoned if text.startswith("TIMESTAMP_LTZ") else text)


def days_of(text):
    """Return the days of `yyyy-mm-dd`, year 0000 included, or of `days:N`."""
    if text.startswith("days:"):
        return int(text.removeprefix("days:"))
    year, _, rest = text.partition("-")
    if year != "0000":
        return to_internal(text, parse_type("DATE"), "d")
    return to_internal(f"0400-{rest}", parse_type("DATE"), "d") - DAYS_OF_400_YEARS


def nanos_of(text):
    """Return the nanoseconds of a timestamp, as written in the vectors."""
    if text.startswith("epochsec:"):
        seconds, _, fraction = text.removeprefix("epochsec:").partition(".")
        return int(seconds) * 10**9 + int(fraction)  # the seconds are rounded down
    day, _, clock = text.partition(" ")
    hms, _, fraction = clock.partition(".")
    hour, minute, second = map(int, hms.split(":"))
    seconds = days_of(day) * 86_400 + (hour * 60 + minute) * 60 + second
    return seconds * 10**9 + int(fraction.ljust(9, "0") or 0)


def bytes_of(quoted):
    """Take the quotes off a text and decode `\\xNN` to a byte."""
    inner = quoted[1:-1]
    return re.sub(rb"\\x([0-9a-f]{2})", lambda m: bytes([int(m[1], 16)]), inner.encode())


def scalar_of(text, data_type):
    """Return the value a vector names as a column of one row."""
    arrow_type, root = to_arrow_type(data_type), data_type.root
    if text == "NULL":
        return pa.nulls(1, arrow_type)
    if root in types.TIMESTAMP_ROOTS:
        count, rest = divmod(nanos_of(text), NANOS[arrow_type.unit])
        if rest or not -(2**63) <= count < 2**63:
            raise NotInArrowError(text)
        return pa.array([count], pa.int64()).cast(arrow_type)
    value, plain_type = plain_value(text, root)
    return pa.array([value], plain_type or arrow_type).view(arrow_type)


def plain_value(text, root):
    """Return (value, Arrow type to write it as), None for the type of its root."""
    if root in types.CHARACTER_ROOTS:
        return bytes_of(text), pa.binary()
    if root in types.BINARY_ROOTS:
        return bytes.fromhex(text[2:]), None
    if root in types.INTEGER_ROOTS:
        return int(text), None
    match root:
        case types.TypeRoot.BOOLEAN:
            return {"true": True, "false": False}[text], None
        case types.TypeRoot.FLOAT | types.TypeRoot.DOUBLE:
            return float(text), None
        case types.TypeRoot.DECIMAL:
            return Decimal(text), None
        case types.TypeRoot.DATE:
            return days_of(text), pa.int32()
        case _:
            assert root is types.TypeRoot.TIME
            return nanos_of(f"1970-01-01 {text}") // 10**6, pa.int32()


def same_values(left, right):
    """Whether two columns hold the same values; texts by bytes, NaN equals NaN, -0.0 is not 0.0."""
    if left.type != right.type or left.null_count != right.null_count:
        return False
    if pa.types.is_string(left.type):
        left, right = left.view(pa.binary()), right.view(pa.binary())
    if pa.types.is_floating(left.type):
        pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
        return all(repr(one) == repr(other) for one, other in pairs)
    return left.equals(right)
