"""Partition values ⇄ directory names.

Source: `org.apache.paimon.utils.PartitionPathUtils`.
"""

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.java_float_text import java_float_text
from paimon_assets.engine.spec.types.data_types import AtomicType, DataField, DataType, TypeRoot
from paimon_assets.engine.spec.types.literals import Internal

_ESCAPED = re.compile("[\x00-\x1f\x7f\"#%'*/:=?\\\\{}\\[\\]^]")
_HEX = re.compile("%([0-9A-Fa-f]{2})")


def escape(text: str) -> str:
    """Escape a partition name or value for a path.

    >>> escape("a/b c=%:")
    'a%2Fb c%3D%25%3A'
    """
    return _ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", text)


def unescape(text: str) -> str:
    """Inverse of `escape`."""
    return _HEX.sub(lambda match: chr(int(match[1], 16)), text)


def value_text(value: Internal, data_type: DataType, *, legacy: bool) -> str | None:
    """Return the directory text of a partition value, None for null."""
    if value is None:
        return None
    match data_type.root:
        case TypeRoot.BOOLEAN:
            return "true" if value else "false"
        case TypeRoot.DATE | TypeRoot.TIME if not legacy and isinstance(data_type, AtomicType):
            return _date_or_time_text(int(value), data_type)
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ if isinstance(data_type, AtomicType):
            return _timestamp_text(int(value), data_type, legacy=legacy)
        case TypeRoot.DECIMAL if isinstance(value, Decimal):
            return f"{value:f}"
        case TypeRoot.FLOAT | TypeRoot.DOUBLE:
            return java_float_text(float(value), single=data_type.root is TypeRoot.FLOAT)
        case TypeRoot.BINARY | TypeRoot.VARBINARY:
            if legacy or not isinstance(value, bytes):
                raise InvalidInputError(
                    "A binary partition column has no usable directory name under "
                    "'partition.legacy-name' = true; set it to false.",
                    kind="partition-value",
                )
            return value.decode(errors="replace")
        case _:
            return str(value)


def _date_or_time_text(value: int, data_type: AtomicType) -> str:
    """Write `yyyy-mm-dd`, or `hh:mm:ss` and, if the precision is not 0, a digit of it or more."""
    if data_type.root is TypeRoot.DATE:
        return str(dt.date(1970, 1, 1) + dt.timedelta(days=value))
    seconds, fraction = divmod(value, 1000)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    digits = f"{fraction:03d}"[: data_type.precision or 0].rstrip("0") or "0"
    return f"{clock}.{digits}" if data_type.precision else clock


def _timestamp_text(nanos: int, data_type: AtomicType, *, legacy: bool) -> str:
    seconds, fraction = divmod(nanos, 1_000_000_000)
    moment = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=seconds)
    day, clock = str(moment.date()), str(moment.time())
    digits = f"{fraction:09d}"
    if legacy:
        # Java's LocalDateTime.toString: seconds only if needed, fraction in groups of three.
        if fraction:
            keep = 3 if digits[3:] == "000000" else 6 if digits[6:] == "000" else 9
            return f"{day}T{clock}.{digits[:keep]}"
        return f"{day}T{clock[:5] if clock.endswith(':00') else clock}"
    precision = data_type.precision or 0
    return f"{day} {clock}" + (f".{digits[:precision]}" if precision else "")


def partition_path(
    fields: Sequence[DataField], values: Sequence[Internal], *, default_name: str, legacy: bool
) -> str:
    """Return `name=value/name=value`, without slashes around; empty if unpartitioned."""
    spec = partition_spec(fields, values, default_name=default_name, legacy=legacy)
    return "/".join(
        f"{escape(name)}={escape(text if text.strip() else default_name)}"
        for name, text in spec.items()
    )


def partition_spec(
    fields: Sequence[DataField], values: Sequence[Internal], *, default_name: str, legacy: bool
) -> Mapping[str, str]:
    """Return column → text, as people read it in logs, metadata and system tables."""
    spec = {}
    for field, value in zip(fields, values, strict=True):
        text = value_text(value, field.type, legacy=legacy)
        spec[field.name] = default_name if text is None else text
    return spec
