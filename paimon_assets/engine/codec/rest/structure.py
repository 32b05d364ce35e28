"""Structures: classes whose attributes declare how JSON members are read and written.

    class RenameBranchRequest(Structure):
        to_branch: str = member(TEXT)

A member is called in JSON as in Python, in camel case. Members are written in the order of the
class, those of its bases behind its own, as Java's printer does. Unknown members are ignored.
Members are read as leniently as Java does: numbers and truth values may come as texts, numbers as
the values of texts. Null and absent are one: empty lists and objects, 0, false.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field
from enum import Enum
from threading import RLock
from typing import Any, ClassVar, Generic, Self, TypeVar, cast, dataclass_transform

from msgspec import Struct
from msgspec.structs import replace

from paimon_assets.engine.codec.json.metadata_json import (
    json_bytes,
    json_object,
    snapshot_from_members,
    snapshot_members,
)
from paimon_assets.engine.errors import FormatError, PaimonError, UnsupportedFeatureError
from paimon_assets.engine.spec.evolution import schema_change as sc
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.spec.types.data_types import DataField
from paimon_assets.engine.spec.types.type_text import Json, field_to_json, parse_field
from paimon_assets.engine.spec.words import camel_case

T = TypeVar("T")


class Absent(Enum):
    ABSENT = "absent"


ABSENT = Absent.ABSENT
"""The value of a member that is not in the document, where that is not the same as null."""


class Kind(Struct, Generic[T], frozen=True):
    """The kind of a member: how its value is read and written."""

    read: Callable[[Json], T]
    write: Callable[[T], Json]
    dlf: Callable[[T], Json] | None = None
    empty: Callable[[], T] | None = None


class _Member(Struct, frozen=True):
    kind: Kind[Any]
    name: str
    also: tuple[str, ...]
    omitted: object
    dlf: str | None
    dlf_as_text: bool

    def named(self, attribute: str) -> "_Member":
        name = camel_case(attribute)
        return replace(self, name=name, dlf=name if self.dlf == _SAME else self.dlf)


_MAKING = RLock()
_KEY = "member"
_SAME = "="
NEVER = object()
"""A member is never omitted."""


def member(
    kind: Kind[T],
    *,
    also: tuple[str, ...] = (),
    omitted: object = NEVER,
    dlf: str | None = _SAME,
    dlf_as_text: bool = False,
    default: Any = MISSING,
) -> Any:
    declared = _Member(kind, "", also, omitted, dlf, dlf_as_text)
    if isinstance(default, dict):
        return field(default_factory=lambda: dict(default), metadata={_KEY: declared})
    return field(default=default, metadata={_KEY: declared})


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(member,))
class Structure:
    """Base of all structures: frozen dataclasses whose attributes are members.

    They become dataclasses with their first object: most processes need few of them.
    """

    MEMBERS: ClassVar[Mapping[str, _Member]] = {}
    """Attribute → member, in the order of the document."""

    def __init_subclass__(cls) -> None:
        declared = ((name, each) for name, each in vars(cls).items() if isinstance(each, Field))
        members = {name: each.metadata[_KEY].named(name) for name, each in declared}
        for base in cls.__mro__[1:]:
            others = vars(base).get("MEMBERS", {}).items()
            members |= {name: each for name, each in others if name not in members}
        cls.MEMBERS = members

    def __new__(cls, **_: Any) -> Self:
        with _MAKING:
            for base in reversed(cls.__mro__):
                is_made = base is Structure or "__dataclass_fields__" in vars(base)
                if issubclass(base, Structure) and not is_made:
                    dataclass(frozen=True, kw_only=True)(base)
        return super().__new__(cls)

    @classmethod
    def from_json(cls, json: Json) -> Self:
        if not isinstance(json, dict):
            raise _wrong(cls.__name__, f"expected an object, not {_show(json)}")
        json = cls.reshaped(json)
        return cls(**{key: _read(cls, each, json) for key, each in cls.MEMBERS.items()})

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read a body; an empty one is an empty object."""
        return cls.from_json(json_object(data, cls.__name__) if data.strip() else {})

    @classmethod
    def reshaped(cls, json: dict[str, Json]) -> dict[str, Json]:
        """Return a document of an older shape in today's."""
        return json

    def to_json(self) -> dict[str, Json]:
        """Write the document as Java's printer does."""
        return {
            each.name: each.kind.write(value)
            for each, value in self._values()
            if value != each.omitted
        }

    def to_bytes(self) -> bytes:
        """Write the body, byte for byte Java's."""
        return json_bytes(self.to_json())

    def to_dlf(self) -> dict[str, Json]:
        """Write the document with DLF's own names."""
        written: dict[str, Json] = {}
        for each, value in self._values():
            if each.dlf is None or value == each.omitted:
                continue
            json = (each.kind.dlf or each.kind.write)(value)
            written[each.dlf] = str(json).lower() if each.dlf_as_text else json
        return written

    def _values(self) -> list[tuple[_Member, Any]]:
        return [(each, getattr(self, key)) for key, each in self.MEMBERS.items()]


def _read(cls: type[Structure], each: _Member, json: Mapping[str, Json]) -> Any:
    name = next((name for name in (each.name, *each.also) if json.get(name) is not None), None)
    if name is None:
        if each.omitted is ABSENT and each.name not in json:
            return ABSENT
        if each.kind.empty is None:
            raise _wrong(cls.__name__, f"member '{each.name}' is missing")
        return each.kind.empty()
    try:
        return each.kind.read(json[name])
    except PaimonError as error:
        raise _wrong(cls.__name__, f"member '{name}': {error.message}") from error
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        shown = _show(json[name])
        raise _wrong(cls.__name__, f"member '{name}' cannot be {shown} ({error})") from error


def _show(json: Json) -> str:
    """Return the kind of a JSON value; the value itself may be a secret, or long."""
    return {dict: "an object", list: "a list", str: "a text", type(None): "null"}.get(
        type(json), f"a {type(json).__name__}"
    )


def _wrong(name: str, what: str) -> FormatError:
    return FormatError(f"{name}: {what.rstrip('.')}.", kind="rest-json")


def nested(cls: type[Any]) -> Kind[Any]:
    """Return the kind of a member that is a structure."""
    return Kind(
        read=cls.from_json,
        write=lambda value: cast("Structure", value).to_json(),
        dlf=lambda value: cast("Structure", value).to_dlf(),
    )


def one_of(
    tag: str, kinds: Mapping[str, type[Any]], *, also: Mapping[str, str] | None = None
) -> Kind[Any]:
    """Return the kind of a member whose structure is said by its member `tag`."""
    names = {cls: name for name, cls in kinds.items()}

    def read(json: Json) -> Any:
        if not isinstance(json, dict):
            raise TypeError(f"expected an object with '{tag}'")
        said = str(json.get(tag))
        cls = kinds.get((also or {}).get(said, said))
        if cls is None:
            raise ValueError(f"'{tag}' must be one of {', '.join(kinds)}")
        return cls.from_json(json)

    def write(value: Any) -> Json:
        return {tag: names[type(value)], **value.to_json()}

    return Kind(read=read, write=write)


_FIELD_MEMBERS = frozenset({"id", "name", "type"})
_COUNTS = ("totalRecordCount", "deltaRecordCount")
_NUMBERS = frozenset({*_COUNTS, "id", "schemaId", "commitIdentifier", "timeMillis", "watermark"})


def _same(value: Any) -> Json:
    return cast("Json", value)


def _text(json: Json) -> str:
    if isinstance(json, bool):
        return str(json).lower()
    if not isinstance(json, str | int):
        raise TypeError("expected a text")
    return str(json)


def _integer(json: Json) -> int:
    if isinstance(json, bool) or not isinstance(json, str | int):
        raise TypeError("expected a whole number")
    number = int(json)
    if not -(2**63) <= number < 2**63:
        raise ValueError("expected a number of 64 bits")
    return number


def _boolean(json: Json) -> bool:
    match str(json).lower():
        case "true":
            return True
        case "false":
            return False
        case _:
            raise TypeError("expected true or false")


def _object(json: Json) -> dict[str, Json]:
    if not isinstance(json, dict):
        raise TypeError("expected an object")
    return json


def _texts(json: Json) -> dict[str, str]:
    return {key: _text(value) for key, value in _object(json).items() if value is not None}


TEXT: Kind[str] = Kind(_text, _same)
INTEGER: Kind[int] = Kind(_integer, _same, empty=int)
"""Absent is 0."""
REQUIRED_INTEGER: Kind[int] = Kind(_integer, _same)
BOOLEAN: Kind[bool] = Kind(_boolean, _same, empty=bool)
"""Absent is false."""
REQUIRED_BOOLEAN: Kind[bool] = Kind(_boolean, _same)
TEXT_MAP: Kind[Mapping[str, str]] = Kind(_texts, _same, empty=dict)
"""Absent is empty; members that are null are left out."""
OBJECTS: Kind[Mapping[str, Json]] = Kind(_object, _same, empty=dict)
"""An object of anything."""


def optional(kind: Kind[T]) -> Kind[T | None]:
    def written(value: T | None) -> Json:
        return None if value is None else kind.write(value)

    def dlf(value: T | None) -> Json:
        return None if value is None else (kind.dlf or kind.write)(value)

    return Kind(kind.read, written, dlf, empty=lambda: None)


def list_of(kind: Kind[T]) -> Kind[tuple[T, ...]]:
    """Return the kind of a list; absent is empty."""

    def read(json: Json) -> tuple[T, ...]:
        if not isinstance(json, list):
            raise TypeError("expected a list")
        return tuple(kind.read(item) for item in json)

    return Kind(
        read,
        lambda values: [kind.write(value) for value in values],
        lambda values: [(kind.dlf or kind.write)(value) for value in values],
        empty=tuple,
    )


OPTIONAL_TEXT = optional(TEXT)
OPTIONAL_INTEGER = optional(REQUIRED_INTEGER)
TEXTS = list_of(TEXT)


def _plain_fields(json: Json) -> Json:
    """Remove the members of fields that DLF's fields do not have."""
    if isinstance(json, list):
        return [_plain_fields(item) for item in json]
    if not isinstance(json, dict):
        return json
    is_field = _FIELD_MEMBERS.issubset(json)
    return {
        key: _plain_fields(value)
        for key, value in json.items()
        if not is_field or key in _FIELD_MEMBERS
    }


_FIELDS = list_of(Kind(lambda json: parse_field(_object(json)), field_to_json))
FIELDS: Kind[tuple[DataField, ...]] = replace(
    _FIELDS, dlf=lambda fields: _plain_fields(_FIELDS.write(fields))
)


def _schema(json: Json) -> Schema:
    members = {key: value for key, value in _object(json).items() if value is not None}
    comment = members.get("comment")
    return Schema(
        fields=FIELDS.read(members.get("fields", [])),
        partition_keys=TEXTS.read(members.get("partitionKeys", [])),
        primary_keys=TEXTS.read(members.get("primaryKeys", [])),
        options=_texts(members.get("options", {})),
        comment=None if comment is None else _text(comment),
    )


def _written_schema(schema: Schema, *, fields: Json) -> Json:
    members: dict[str, Json] = {
        "fields": fields,
        "partitionKeys": list(schema.partition_keys),
        "primaryKeys": list(schema.primary_keys),
        "options": dict(schema.options),
    }
    return members if schema.comment is None else {**members, "comment": schema.comment}


SCHEMA: Kind[Schema] = Kind(
    _schema,
    lambda schema: _written_schema(schema, fields=FIELDS.write(schema.fields)),
    lambda schema: _written_schema(schema, fields=cast("Any", FIELDS.dlf)(schema.fields)),
)


def _snapshot(json: Json) -> Snapshot:
    members: dict[str, Json] = dict.fromkeys(_COUNTS, 0)
    for key, value in _object(json).items():
        if value is not None:
            members[key] = _integer(value) if key in _NUMBERS else value
    return snapshot_from_members(members, "snapshot")


SNAPSHOT: Kind[Snapshot] = Kind(
    _snapshot, snapshot_members, lambda snapshot: snapshot_members(replace(snapshot, uuid=None))
)


def _dlf_change(change: sc.SchemaChange) -> Json:
    written = sc.change_to_json(change)
    action = written.pop("action")
    if isinstance(change, sc.UpdateColumnDefaultValue | sc.DropPrimaryKey):
        raise UnsupportedFeatureError(
            f"DLF has no schema change '{action}'.", kind="dlf-schema-change"
        )
    if isinstance(change, sc.UpdateColumnPosition):
        return {"type": action, "fieldNames": [change.move.field_name], **written}
    return {"type": action, **written}


SCHEMA_CHANGE: Kind[sc.SchemaChange] = Kind(sc.change_from_json, sc.change_to_json, _dlf_change)
