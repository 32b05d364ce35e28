"""DataType ⇄ the JSON form of Paimon's schema files.

A type is a text (`"DECIMAL(10, 2) NOT NULL"`) or an object (`{"type": "ARRAY NOT NULL", …}`).
People may write nested types as one text too (`"MAP<STRING, INT>"`), as `str` shows them.
Source: `org.apache.paimon.types.DataTypeJsonParser`.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import cast

from paimon_assets.engine.errors import FormatError
from paimon_assets.engine.spec.types import data_types as types
from paimon_assets.engine.spec.words import did_you_mean

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

_TEXT = re.compile(
    r"^(?P<name>[A-Z_]+(?: PRECISION| VARYING)?)"
    r"(?:\s*\(\s*(?P<a>\d+)\s*(?:,\s*(?P<b>\d+)\s*)?\))?"
    r"(?P<zone> WITH LOCAL TIME ZONE| WITHOUT TIME ZONE)?"
    r"(?P<nullability> NOT NULL| NULL)?$"
)

_NESTED = r"(?si)^(?P<root>[A-Z]+)\s*<(?P<inner>.*)>(?:\s+(?P<nullability>NOT\s+NULL|NULL))?$"
_ROOT = "ARRAY|MULTISET|MAP|ROW|VECTOR"
_ROW_FIELD = r"(?s)^(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<name>[^\s`<>]+))\s+(?P<type>.+)$"

_PLAIN = {
    **{root.value: root for root in [*types.TypeRoot][:7]},
    "INTEGER": types.TypeRoot.INT,
    "DOUBLE PRECISION": types.TypeRoot.DOUBLE,
    **{
        root.value: root
        for root in (types.TypeRoot.DATE, types.TypeRoot.VARIANT, types.TypeRoot.BLOB)
    },
}
"""Names of types without parameters; BOOLEAN to DOUBLE are the first."""
_SIZED = {
    root.value: root for root in (*sorted(types.CHARACTER_ROOTS), *sorted(types.BINARY_ROOTS))
}
_UNSIZED = {"STRING": types.TypeRoot.VARCHAR, "BYTES": types.TypeRoot.VARBINARY}
_PRECISE = {"TIME": 0, "TIMESTAMP": 6, "TIMESTAMP_LTZ": 6}
"""Name → precision if none is written."""


def parse_type(json: Json) -> types.DataType:
    """Parse the JSON form of a type.

    >>> str(parse_type("TIMESTAMP(3) WITH LOCAL TIME ZONE NOT NULL"))
    'TIMESTAMP(3) WITH LOCAL TIME ZONE NOT NULL'
    >>> str(parse_type({"type": "ARRAY", "element": "INT"}))
    'ARRAY<INT>'
    """
    if isinstance(json, str):
        nested = re.match(_NESTED, json.strip()) if "<" in json else None
        return _parse_text(json) if nested is None else _parse_nested(nested, json)
    if isinstance(json, Mapping):
        return _parse_object(json)
    raise FormatError(f"Not a data type: {json!r}.", kind="data-type")


@lru_cache(maxsize=1024)
def _parse_text(text: str) -> types.AtomicType:
    match = _TEXT.match(" ".join(text.upper().split()))
    if match is None:
        raise FormatError(f"Cannot parse data type '{text}'.", kind="data-type")
    name, first, second = match["name"], match["a"], match["b"]
    nullable = match["nullability"] != " NOT NULL"
    length = int(first) if first else None
    if name in _PLAIN and not first and not match["zone"]:
        return types.AtomicType(root=_PLAIN[name], nullable=nullable)
    if name in _UNSIZED and not first:
        return types.AtomicType(root=_UNSIZED[name], length=types.MAX_LENGTH, nullable=nullable)
    if name in _SIZED and not second:
        size = 1 if length is None else length
        if 1 <= size <= types.MAX_LENGTH:
            return types.AtomicType(root=_SIZED[name], length=size, nullable=nullable)
    if name in ("DECIMAL", "NUMERIC", "DEC"):
        precision, scale = 10 if length is None else length, int(second or 0)
        if 1 <= precision <= types.MAX_DECIMAL_PRECISION and scale <= precision:
            return types.AtomicType(
                root=types.TypeRoot.DECIMAL, precision=precision, scale=scale, nullable=nullable
            )
    if name in _PRECISE and not second:
        precision = _PRECISE[name] if length is None else length
        zoned = match["zone"] == " WITH LOCAL TIME ZONE" and name == "TIMESTAMP"
        root = types.TypeRoot.TIMESTAMP_LTZ if zoned else types.TypeRoot(name)
        if precision <= types.MAX_TIMESTAMP_PRECISION:
            return types.AtomicType(root=root, precision=precision, nullable=nullable)
    names = (*_PLAIN, *_UNSIZED, *_SIZED, *_PRECISE, "DECIMAL")
    hint = "" if name in names else did_you_mean(name, names)
    raise FormatError(f"Unknown or malformed data type '{text}'.{hint}", kind="data-type")


def _parse_nested(match: re.Match[str], text: str) -> types.DataType:
    """Parse `ROOT<inner, …>`, whose inner parts may be nested again."""
    nullable = not (match["nullability"] or "").upper().startswith("NOT")
    root, parts = match["root"].upper(), _split(match["inner"], text)
    members: dict[str, Json]
    match root, parts:
        case "ARRAY" | "MULTISET", [element]:
            members = {"element": element}
        case "MAP", [key, value]:
            members = {"key": key, "value": value}
        case "VECTOR", [element, length] if length.isdecimal():
            members = {"element": element, "length": length}
        case "ROW", [_, *_]:
            fields: list[Json] = []
            for number, part in enumerate(parts):
                field = re.match(_ROW_FIELD, part)
                if field is None:
                    message = f"Cannot parse data type '{text}': '{part}' is not \"NAME TYPE\"."
                    raise FormatError(message, kind="data-type")
                quoted = field["quoted"]
                name = field["name"] if quoted is None else quoted.replace("``", "`")
                fields.append({"id": number, "name": name, "type": field["type"]})
            members = {"fields": fields}
        case _:
            raise FormatError(f"Cannot parse data type '{text}'.", kind="data-type")
    return _nested_type(root, members, nullable=nullable)


def _split(inner: str, text: str) -> list[str]:
    """Split at the commas that stand in no brackets and no backquotes."""
    parts, depth, start, quoted = [], 0, 0, False
    for position, character in enumerate(inner):
        quoted ^= character == "`"
        if quoted:
            continue
        depth += (character in "<(") - (character in ">)")
        if depth < 0:
            break
        if character == "," and not depth:
            parts.append(inner[start:position].strip())
            start = position + 1
    if depth or quoted:
        raise FormatError(f"Cannot parse data type '{text}': unbalanced.", kind="data-type")
    return [*parts, inner[start:].strip()]


def _parse_object(json: Mapping[str, Json]) -> types.DataType:
    # As Java: the first word of the text is the root, `ARRAY<INT> NOT NULL` is an ARRAY.
    text = str(json.get("type", "")).upper()
    root = re.match(_ROOT, text)
    if root is None:
        raise FormatError(f"Unknown data type '{text}'.", kind="data-type")
    return _nested_type(root[0], json, nullable="NOT NULL" not in text)


def _nested_type(root: str, members: Mapping[str, Json], *, nullable: bool) -> types.DataType:
    match root:
        case "ROW":
            fields = cast("Sequence[Mapping[str, Json]]", members["fields"])
            return types.RowType(fields=tuple(map(parse_field, fields)), nullable=nullable)
        case "MAP":
            key, value = parse_type(members["key"]), parse_type(members["value"])
            return types.MapType(key=key, value=value, nullable=nullable)
        case "VECTOR":
            element, length = parse_type(members["element"]), int(cast("int", members["length"]))
            return types.VectorType(element=element, length=length, nullable=nullable)
        case _:
            kind = types.ArrayType if root == "ARRAY" else types.MultisetType
            return kind(element=parse_type(members["element"]), nullable=nullable)


def parse_field(json: Mapping[str, Json]) -> types.DataField:
    """Parse one field of a schema file or of a ROW."""
    description, default = json.get("description"), json.get("defaultValue")
    return types.DataField(
        id=int(cast("int", json["id"])),
        name=str(json["name"]),
        type=parse_type(json["type"]),
        description=None if description is None else str(description),
        default_value=None if default is None else str(default),
    )


def type_of(given: str | types.DataType | Mapping[str, Json]) -> types.DataType:
    """Return the type that is given as such, as text, or in the form of schema files."""
    if isinstance(given, types.DataType):
        return given
    return parse_type(given if isinstance(given, str) else dict(given))


def type_to_json(data_type: types.DataType) -> Json:
    """Write a type in the form `parse_type` reads; nested types become objects.

    >>> type_to_json(parse_type("decimal(10,2) not null"))
    'DECIMAL(10, 2) NOT NULL'
    """
    suffix = "" if data_type.nullable else " NOT NULL"
    match data_type:
        case types.AtomicType():
            return types.bare_text(data_type) + suffix
        case types.ArrayType(element=element) | types.MultisetType(element=element):
            return {"type": f"{data_type.root}{suffix}", "element": type_to_json(element)}
        case types.MapType(key=key, value=value):
            return {"type": f"MAP{suffix}", "key": type_to_json(key), "value": type_to_json(value)}
        case types.VectorType(element=element, length=length):
            return {"type": f"VECTOR{suffix}", "element": type_to_json(element), "length": length}
        case types.RowType(fields=fields):
            return {"type": f"ROW{suffix}", "fields": [field_to_json(field) for field in fields]}
        case _:
            raise FormatError(f"Not a data type: {data_type!r}.", kind="data-type")


def field_to_json(field: types.DataField) -> dict[str, Json]:
    """Write one field; absent description and default are left out."""
    json: dict[str, Json] = {"id": field.id, "name": field.name, "type": type_to_json(field.type)}
    if field.description is not None:
        json["description"] = field.description
    if field.default_value is not None:
        json["defaultValue"] = field.default_value
    return json
