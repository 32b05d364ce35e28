"""Structures: classes whose attributes declare how JSON members are read and written.

    class RenameBranchRequest(Structure):
        to_branch: str = member(TEXT)

A member is called in JSON as in Python, in camel case. Members are written in the order of the
class, those of its bases behind its own, as Java's printer does. Unknown members are ignored.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from enum import Enum
from inspect import get_annotations
from typing import Any, ClassVar, Generic, Self, TypeVar, cast, dataclass_transform

from paimon_assets.engine.codec.json.metadata_json import json_bytes, json_object
from paimon_assets.engine.errors import FormatError, PaimonError
from paimon_assets.engine.spec.types.type_text import Json

T = TypeVar("T")


class Absent(Enum):
    """The type of `ABSENT`."""

    ABSENT = "absent"


ABSENT = Absent.ABSENT
"""The value of a member that is not in the document, where that is not the same as null."""


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """The kind of a member: how its value is read and written."""

    read: Callable[[Json], T]
    write: Callable[[T], Json]
    dlf: Callable[[T], Json] | None = None
    empty: Callable[[], T] | None = None


@dataclass(frozen=True, slots=True)
class _Member:
    kind: Kind[Any]
    name: str
    also: tuple[str, ...]
    omitted: object
    dlf: str | None
    dlf_as_text: bool


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
    """Declare a member of a structure."""
    declared = _Member(kind, "", also, omitted, dlf, dlf_as_text)
    if isinstance(default, dict):
        return field(default_factory=lambda: dict(default), metadata={_KEY: declared})
    return field(default=default, metadata={_KEY: declared})


def _named(attribute: str, declared: _Member) -> _Member:
    head, *rest = attribute.split("_")
    name = head + "".join(part.capitalize() for part in rest)
    dlf = name if declared.dlf == _SAME else declared.dlf
    return _Member(declared.kind, name, declared.also, declared.omitted, dlf, declared.dlf_as_text)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(member,))
class Structure:
    """Base of all structures: frozen dataclasses whose attributes are members."""

    MEMBERS: ClassVar[Mapping[str, _Member]]
    """Attribute → member, in the order of the document."""

    def __init_subclass__(cls) -> None:
        made: type[Any] = dataclass(frozen=True, kw_only=True)(cls)
        declared = {each.name: each.metadata[_KEY] for each in fields(made)}
        order = (name for base in cls.__mro__ for name in get_annotations(base))
        cls.MEMBERS = {name: _named(name, declared[name]) for name in order if name in declared}

    @classmethod
    def from_json(cls, json: Json) -> Self:
        """Read a document."""
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
