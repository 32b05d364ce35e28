"""The values of the contract as versioned bytes, by their annotations; errors too.

    bytes    length · JSON {"what": class, "version", "value"} · the parts, each behind its length
    value    null, truth values, integers and texts as they are; tuples as lists
             all else is {name: content}: an object's class and its members in their order;
             float, map; bytes, and what has another form of its own, as {name: number of a part}

A class is read where the annotations of the value asked for name it, and no other.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from decimal import Decimal
from enum import Enum
from functools import cache, partial
from typing import Any, TypeVar, cast, get_args, get_type_hints

from paimon_assets.engine.codec.json.metadata_json import schema_from_json, schema_to_json
from paimon_assets.engine.codec.rows.data_file_row import file_from_row, file_to_row
from paimon_assets.engine.codec.rows.java_stream import DataInput, DataOutput
from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.contract.wire.wire import dump_split, load_split
from paimon_assets.engine.errors import (
    ERROR_CLASSES,
    Detail,
    FormatError,
    InvalidInputError,
    PaimonError,
)
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.metadata.index_file import IndexFileMeta
from paimon_assets.engine.spec.paths import plain_name, straight_path
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types.data_types import DataField
from paimon_assets.engine.spec.types.type_text import field_to_json, parse_field

T = TypeVar("T")

WIRE_VERSION = 2
"""Version of these encodings; both sides of a job run the same one."""

_PLAIN = frozenset({type(None), bool, int, str})
_OWN_FORMS: Mapping[type, tuple[Callable[[Any], bytes], Callable[[bytes], Any]]] = {
    bytes: (bytes, bytes),
    Decimal: (lambda number: str(number).encode(), lambda data: Decimal(data.decode())),
    DataSplit: (dump_split, load_split),
    DataFileMeta: (file_to_row, file_from_row),
    TableSchema: (schema_to_json, partial(schema_from_json, path="schema of a context")),
    DataField: (
        lambda field: json.dumps(field_to_json(field)).encode(),
        lambda data: parse_field(json.loads(data)),
    ),
}
_BY_NAME = {kind.__name__: load for kind, (_, load) in _OWN_FORMS.items()}


def dump(value: Any) -> bytes:
    """Encode a value of the contract; storage options, credentials included, are in the bytes."""
    parts: list[bytes] = []
    header = {"what": type(value).__name__, "version": WIRE_VERSION, "value": _json(value, parts)}
    out = DataOutput()
    out.write_bytes(json.dumps(header, separators=(",", ":")).encode())
    for part in parts:
        out.write_bytes(part)
    return out.to_bytes()


def load(kind: type[T], data: bytes) -> T:
    """Inverse of `dump`."""
    source, what, asked = DataInput(data), kind.__name__, cast("Any", kind)
    try:
        members = json.loads(source.read_bytes())
    except ValueError as error:
        raise FormatError(f"The header of a {what} is damaged: {error}.", kind="wire") from error
    found = (members.get("what"), members.get("version")) if isinstance(members, dict) else None
    if found != (what, WIRE_VERSION):
        raise FormatError(
            f"Expected a {what} of version {WIRE_VERSION}, got {found}; driver and workers must "
            "run the same version of paimon-assets.",
            kind="wire",
        )
    parts = []
    while not source.at_end():
        parts.append(source.read_bytes())
    try:
        value: T = _value(members["value"], _classes(asked), parts)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise FormatError(f"A {what} is damaged: {error!r}.", kind="wire") from error
    return value


def _json(value: Any, parts: list[bytes]) -> Any:
    kind: Any = type(value)
    if kind in _PLAIN:
        return value
    if kind is tuple or kind is list:
        plain = _PLAIN.issuperset(map(type, value))
        return value if plain else [_json(item, parts) for item in value]
    if kind in _OWN_FORMS:
        parts.append(_OWN_FORMS[kind][0](value))
        return {kind.__name__: len(parts) - 1}
    names = _members(kind)
    if names is not None:
        return {kind.__name__: [_json(getattr(value, name), parts) for name in names]}
    match value:
        case Enum():
            return {kind.__name__: [value.value]}
        case str():
            return str(value)  # numpy's texts
        case float():
            return {"float": value.hex()}  # exact, and knows NaN
        case Mapping():
            return {"map": [[_json(key, parts), _json(held, parts)] for key, held in value.items()]}
        case _:
            raise InvalidInputError(
                f"{value!r} is no internal value; bind the predicate first.", kind="literal"
            )


def _value(json_: Any, classes: Mapping[str, Any], parts: Sequence[bytes]) -> Any:
    if type(json_) in _PLAIN:
        return json_
    if isinstance(json_, list):
        plain = _PLAIN.issuperset(map(type, json_))
        return tuple(json_ if plain else [_value(item, classes, parts) for item in json_])
    [(name, content)] = json_.items()
    match name:
        case "float":
            return float.fromhex(content)
        case "map":
            return dict(_value(content, classes, parts))
        case _ if name in _BY_NAME:
            return _BY_NAME[name](parts[content])
        case _:
            kind, members = classes[name], _value(content, classes, parts)
    names = _members(kind)
    value = kind(*members) if names is None else kind(**dict(zip(names, members, strict=True)))
    if isinstance(value, IndexFileMeta):
        plain_name(value.file_name)
        straight_path(value.external_path or "")
    return value


@cache
def _members(kind: Any) -> tuple[str, ...] | None:
    """Return the member names of an object; None if it has none."""
    if is_dataclass(kind):
        return tuple(field.name for field in fields(kind))
    return getattr(kind, "_fields", None)


@cache
def _classes(kind: Any) -> Mapping[str, Any]:
    """Return the classes that a value may hold by their names, itself among them."""
    found: dict[str, Any] = {}
    waiting: list[Any] = [kind]
    while waiting:
        hint = waiting.pop()
        waiting += get_args(hint)
        if isinstance(hint, type) and hint not in _OWN_FORMS and hint.__name__ not in found:
            if _members(hint) is not None:
                waiting += get_type_hints(hint).values()
            elif not issubclass(hint, Enum):
                continue
            found[hint.__name__] = hint
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class RaisedError:
    """An error by its parts."""

    name: str
    message: str
    kind: str
    details: Mapping[str, Detail]


def dump_error(error: PaimonError) -> bytes:
    """Encode an error as its class, message, kind and details."""
    name, details = type(error).__name__, json.loads(json.dumps(error.details))
    return dump(RaisedError(name=name, message=error.message, kind=error.kind, details=details))


def load_error(data: bytes) -> PaimonError:
    """Inverse of `dump_error`; an unknown class becomes a plain PaimonError."""
    found = load(RaisedError, data)
    error_class = ERROR_CLASSES.get(found.name, PaimonError)
    return error_class.of_parts(found.message, found.kind, found.details)
