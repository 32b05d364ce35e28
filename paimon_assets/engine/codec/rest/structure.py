"""Structures: structs whose annotations say how JSON members are read and written.

    class RenameBranchRequest(Structure):
        to_branch: str

A member is called in JSON as in Python, in camel case. Members are written in the order of the
class, those of its bases, which are keyword-only, behind its own: as Java's printer does. Unknown
members are ignored. Numbers and truth values may come as texts, numbers as the values of texts.
Null and absent are one, where `UNSET` is not allowed: empty lists and objects, 0, false.
`msgspec.convert` takes no number for a text as Java does, but 1.0 for 1, 1 for true, "null" for
null, and its errors do not name the fault in a value of the format: so members are read here.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import cache, partial
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    NamedTuple,
    Self,
    TypeVar,
    Union,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
)

from msgspec import UNSET, Struct, UnsetType, convert, field
from msgspec.structs import fields

from paimon_assets.engine import errors
from paimon_assets.engine.codec.json import metadata_json
from paimon_assets.engine.spec.evolution import schema_change as sc
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.spec.types.data_types import DataField, DataType
from paimon_assets.engine.spec.types.type_text import (
    Json,
    field_to_json,
    parse_field,
    parse_type,
    type_to_json,
)

T = TypeVar("T")
Reader = Callable[[Any], Any]


class Rules(NamedTuple):
    """Rules of a member in its annotation, besides its type."""

    also: tuple[str, ...] = ()
    """Its names in older documents."""
    dlf: str | None = ""
    """Its name in DLF's documents, empty if it is the same; None: they do not have it."""
    dlf_as_text: bool = False
    is_needed: bool = False
    """Whether a document without it is refused, where absent is 0 or false otherwise."""
    is_omitted: bool = False
    """Whether it is not written where it is None or false."""


Needed = Annotated[T, Rules(is_needed=True)]
Omitted = Annotated[T | None, Rules(is_omitted=True)]


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Structure(Struct, frozen=True, rename="camel"):
    """Base of all structures."""

    @classmethod
    def from_json(cls, json: Json) -> Self:
        return read_members(cls, json)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read a body; an empty one is an empty object."""
        return cls.from_json(metadata_json.json_object(data, cls.__name__) if data.strip() else {})

    def to_json(self) -> dict[str, Json]:
        """Write the document as Java's printer does."""
        return write_members(self)

    def to_bytes(self) -> bytes:
        """Write the body, byte for byte Java's."""
        return metadata_json.json_bytes(self.to_json())

    def to_dlf(self) -> dict[str, Json]:
        """Write the document with DLF's own names."""
        return write_members(self, dlf=True)


class _Member(NamedTuple):
    attribute: str
    name: str
    read: Reader
    empty: Callable[[], Any] | None
    """Value of an absent or null member; None refuses it."""
    is_absent: bool
    """Whether absent is not null."""
    rules: Rules


@cache
def _members(cls: type[Any]) -> tuple[_Member, ...]:
    members = []
    for each in fields(cls):
        rules = next(iter(getattr(each.type, "__metadata__", ())), Rules())
        read, empty = _form(each.type)
        empty, is_absent = None if rules.is_needed else empty, UnsetType in get_args(each.type)
        members.append(_Member(each.name, each.encode_name, read, empty, is_absent, rules))
    return tuple(members)


def _form(hint: Any) -> tuple[Reader, Callable[[], Any] | None]:
    """Return the reader of a type, and the value of an absent or null member."""
    kind, args = get_origin(hint) or hint, get_args(hint)
    if hint in READERS:
        return READERS[hint], _EMPTY.get(hint)
    if kind is Annotated:
        return _form(args[0])
    if kind in (Union, UnionType):
        (inner,) = (each for each in args if each not in (NoneType, UnsetType))
        return _form(inner)[0], NoneType
    if kind is tuple:
        return partial(_list, _form(args[0])[0]), tuple
    if kind is Mapping:
        return (_texts if args[1] is str else _object), dict
    return partial(_word if issubclass(kind, Enum) else read_members, kind), None


def read_members(cls: type[T], json: Json) -> T:
    """Read an object of a structure, or of another class whose annotations are as theirs."""
    if not isinstance(json, dict):
        raise _wrong(cls, f"expected an object, not {_show(json)}")
    values = {}
    for each in _members(cast("Any", cls)):
        names = (each.name, *each.rules.also)
        name = next((name for name in names if json.get(name) is not None), None)
        if name is not None:
            try:
                values[each.attribute] = each.read(json[name])
            except errors.PaimonError as error:
                raise _wrong(cls, f"member '{name}': {error.message}") from error
            except metadata_json.UNREADABLE as error:
                shown = _show(json[name])
                raise _wrong(cls, f"member '{name}' cannot be {shown} ({error})") from error
        elif not each.is_absent or each.name in json:
            if each.empty is None:
                raise _wrong(cls, f"member '{each.name}' is missing")
            values[each.attribute] = each.empty()
    return cls(**values)


def _show(json: Json) -> str:
    """Return the kind of a JSON value; the value itself may be a secret, or long."""
    return {dict: "an object", list: "a list", str: "a text", NoneType: "null"}.get(
        type(json), f"a {type(json).__name__}"
    )


def _wrong(cls: type[Any], reason: str) -> errors.FormatError:
    return errors.FormatError(f"{cls.__name__}: {reason.rstrip('.')}.", kind="rest-json")


def write_members(value: Any, *, dlf: bool = False) -> dict[str, Json]:
    """Return the members of an object that `read_members` reads."""
    config = getattr(value, "__struct_config__", None)
    written = {config.tag_field: config.tag} if config is not None and config.tag else {}
    for each in _members(cast("Any", type(value))):
        held, rules = getattr(value, each.attribute), each.rules
        is_omitted = rules.is_omitted and (held is None or held is False)
        name = (each.name if rules.dlf == "" else rules.dlf) if dlf else each.name
        if name is not None and held is not UNSET and not is_omitted:
            json = write_value(held, dlf=dlf)
            written[name] = str(json).lower() if dlf and rules.dlf_as_text else json
    return written


def write_value(value: Any, *, dlf: bool = False) -> Any:
    match value:
        case DataField():
            return _plain_fields(field_to_json(value)) if dlf else field_to_json(value)
        case Enum():
            return value.value
        case None | str() | int() | Mapping():
            return value
        case tuple():
            return [write_value(each, dlf=dlf) for each in value]
        case DataType():
            return type_to_json(value)
        case Snapshot():
            members = metadata_json.snapshot_members(value)
            return {key: held for key, held in members.items() if not dlf or key != "uuid"}
        case Schema():
            members = write_members(value, dlf=dlf)
            return {key: held for key, held in members.items() if held is not None}
        case Structure():
            return value.to_dlf() if dlf else value.to_json()
        case _ if isinstance(value, sc.SchemaChange):
            return _dlf_change(value) if dlf else change_to_json(value)
        case _:
            return write_members(value, dlf=dlf)


def one_of(json: Json, kinds: Mapping[str, type[Structure]], tag: str) -> Any:
    """Read a structure whose member `tag` names its class."""
    cls = kinds.get(str(_object(json).get(tag)))
    if cls is None:
        raise ValueError(f"'{tag}' must be one of {', '.join(kinds)}")
    return cls.from_json(json)


_object: Reader = partial(convert, type=dict[str, Any])


def _text(json: Json) -> str:
    if isinstance(json, bool):
        return str(json).lower()
    if not isinstance(json, str | int):
        raise TypeError("expected a text")
    return str(json)


def _integer(json: Json) -> int:
    if isinstance(json, bool) or not isinstance(json, str | int):
        raise TypeError("expected a whole number")
    return convert(int(json), metadata_json.LONG)


def _boolean(json: Json) -> bool:
    text = str(json).lower()
    if text not in ("true", "false"):
        raise TypeError("expected true or false")
    return text == "true"


def _word(kind: type[Enum], json: Json) -> Enum:
    text = _text(json).upper()
    if text not in kind.__members__:
        raise ValueError(f"expected one of {', '.join(kind.__members__)}")
    return kind[text]


def _texts(json: Json) -> dict[str, str]:
    """Read an object of texts; members that are null are left out."""
    return {key: _text(value) for key, value in _object(json).items() if value is not None}


def _list(read: Reader, json: Json) -> tuple[Any, ...]:
    return tuple(map(read, convert(json, list[Any])))


def _plain_fields(json: Any) -> Any:
    """Remove the members of fields that DLF's fields do not have."""
    match json:
        case {"id": number, "name": name, "type": inner}:
            return {"id": number, "name": name, "type": _plain_fields(inner)}
        case dict():
            return {key: _plain_fields(value) for key, value in json.items()}
        case _:
            return list(map(_plain_fields, json)) if isinstance(json, list) else json


_COUNTS = ("totalRecordCount", "deltaRecordCount")
_NUMBERS = frozenset({*_COUNTS, "id", "schemaId", "commitIdentifier", "timeMillis", "watermark"})


def _snapshot(json: Json) -> Snapshot:
    members: dict[str, Json] = dict.fromkeys(_COUNTS, 0)
    for key, value in _object(json).items():
        if value is not None:
            members[key] = _integer(value) if key in _NUMBERS else value
    return metadata_json.snapshot_from_members(members, "snapshot")


def action_of(kind: type[Any]) -> str:
    """Return the `action` of a change in JSON."""
    return kind.__name__[0].lower() + kind.__name__[1:]


_CHANGES: Mapping[str, type[Any]] = {action_of(kind): kind for kind in get_args(sc.SchemaChange)}


def change_to_json(change: sc.SchemaChange) -> dict[str, Json]:
    """Write a change as REST catalogs take it.

    >>> change_to_json(sc.rename_column("a", "b"))
    {'action': 'renameColumn', 'fieldNames': ['a'], 'newName': 'b'}
    """
    return {"action": action_of(type(change)), **write_members(change)}


def changes_to_json(changes: Iterable[sc.SchemaChange]) -> list[Json]:
    return [change_to_json(change) for change in changes]


def _dlf_change(change: sc.SchemaChange) -> Json:
    action, members = action_of(type(change)), write_members(change)
    if isinstance(change, sc.UpdateColumnDefaultValue | sc.DropPrimaryKey):
        raise errors.UnsupportedFeatureError(
            f"DLF has no schema change '{action}'.", kind="dlf-schema-change"
        )
    if isinstance(change, sc.UpdateColumnPosition):
        return {"type": action, "fieldNames": [change.move.field_name], **members}
    return {"type": action, **members}


def changes_from_json(json: object) -> tuple[sc.SchemaChange, ...]:
    """Read a list of changes, or the body of a request: `{"changes": [...]}`."""
    listed = json.get("changes") if isinstance(json, Mapping) else json
    if not isinstance(listed, list | tuple):
        raise _no_change(f"expected a list of changes, got {json!r}")
    changes = []
    for number, item in enumerate(listed, start=1):
        try:
            changes.append(change_from_json(item))
        except errors.InvalidInputError as error:
            message = f"Change {number} of {len(listed)}: {error.message}"
            raise error.with_message(message, change=number) from error
    return tuple(changes)


def changes_of(
    changes: Iterable[sc.SchemaChange | Mapping[str, Any]],
) -> tuple[sc.SchemaChange, ...]:
    """Return changes, of which some may be documents: the members of their JSON."""
    return tuple(change_from_json(each) if isinstance(each, Mapping) else each for each in changes)


def change_from_json(json: object) -> sc.SchemaChange:
    """Read one change: `type` may stand for `action`, one column's name for a list.

    >>> change_from_json({"action": "dropColumn", "fieldNames": ["a"]})
    DropColumn(field_names=('a',))
    """
    if not isinstance(json, Mapping):
        raise _no_change(f"expected an object such as {{action: dropColumn, …}}, got {json!r}")
    action, names = json.get("action", json.get("type")), json.get("fieldNames")
    kind = _CHANGES.get(str(action))
    if kind is None:
        raise _no_change(f"unknown action {action!r}; there are {', '.join(_CHANGES)}")
    members = {key: str(held) if isinstance(held, float) else held for key, held in json.items()}
    for each in fields(kind):
        name = each.encode_name
        if each.required and name not in json:
            raise _no_change(f"'{action}' needs '{name}'")
        if each.type is bool and json.get(name, False) is None:
            raise _no_change(f"'{name}' of '{action}' must be true or false, not None")
        if each.type == sc.Path:
            members[name] = names = [names] if isinstance(names, str) else names
            if not names or not isinstance(names, list) or not {str}.issuperset(map(type, names)):
                raise _no_change(f"'{name}' of '{action}' must list names, not {names!r}")
    try:
        return cast("sc.SchemaChange", read_members(kind, members))
    except errors.FormatError as error:
        raise _no_change(error.message.removesuffix(".")) from error


def _no_change(reason: str) -> errors.InvalidInputError:
    return errors.InvalidInputError(f"No schema change: {reason}.", kind="schema-change")


READERS: dict[Any, Reader] = {
    str: _text,
    int: _integer,
    bool: _boolean,
    DataType: parse_type,
    DataField: lambda json: parse_field(_object(json)),
    Snapshot: _snapshot,
    sc.SchemaChange: change_from_json,
}
"""Type → how a value of it is read, where its annotations do not say so."""
_EMPTY = {int: int, bool: bool}
