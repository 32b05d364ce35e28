"""Paimon's types as Iceberg's, and which changes of a type both formats read alike.

Ids inside lists and maps derive from the column's id, as data files have them.
Source: `org.apache.paimon.iceberg.metadata.IcebergDataField`, `SpecialFields`;
https://iceberg.apache.org/spec/#schemas-and-data-types
"""

from collections.abc import Collection, Iterable, Iterator

from paimon_assets.engine.spec.types import data_types as types
from paimon_assets.engine.spec.types.cast_rules import is_widened_integer
from paimon_assets.engine.spec.types.type_text import Json

_COLLECTION_ID_START = 536_870_911
_IDS_A_COLUMN = 1024
_MICROS = 6
_PLAIN = {
    types.TypeRoot.BOOLEAN: "boolean",
    types.TypeRoot.TINYINT: "int",
    types.TypeRoot.SMALLINT: "int",
    types.TypeRoot.INT: "int",
    types.TypeRoot.BIGINT: "long",
    types.TypeRoot.FLOAT: "float",
    types.TypeRoot.DOUBLE: "double",
    types.TypeRoot.DECIMAL: "decimal",
    types.TypeRoot.DATE: "date",
    types.TypeRoot.TIMESTAMP: "timestamp",
    types.TypeRoot.TIMESTAMP_LTZ: "timestamptz",
    **dict.fromkeys(types.CHARACTER_ROOTS, "string"),
    **dict.fromkeys(types.BINARY_ROOTS, "binary"),
}
_NESTED = frozenset({types.TypeRoot.ARRAY, types.TypeRoot.MAP, types.TypeRoot.ROW})


def iceberg_refusal(data_type: types.DataType) -> str | None:
    """Return why Iceberg has no counterpart of a type, None if it has one.

    >>> from paimon_assets.engine.spec.types.data_types import string, timestamp
    >>> iceberg_refusal(string()), iceberg_refusal(timestamp(9))
    (None, 'TIMESTAMP(9) is finer than microseconds')
    """
    for inner in types.types_within(data_type):
        if inner.root not in _PLAIN and inner.root not in _NESTED:
            return f"Iceberg's readers have no type for {inner.root}"
        precision = inner.precision if isinstance(inner, types.AtomicType) else None
        if inner.root in types.TIMESTAMP_ROOTS and (precision or 0) > _MICROS:
            return f"{inner} is finer than microseconds"
        if isinstance(inner, types.MapType) and inner.key.root in _NESTED:
            return f"{inner} has keys of keys, whose ids Paimon gives to its values, too"
    return None


def iceberg_type(data_type: types.DataType, column_id: int, depth: int = 1) -> Json:
    """Return a type in Iceberg's JSON; `iceberg_refusal` lists the types that it takes.

    >>> from paimon_assets.engine.spec.types.data_types import decimal, string
    >>> iceberg_type(decimal(10, 2), 1)
    'decimal(10, 2)'
    >>> iceberg_type(types.ArrayType(element=string()), 1)["element-id"]
    536871936
    """
    up = _COLLECTION_ID_START + _IDS_A_COLUMN * column_id + depth
    down = _COLLECTION_ID_START - _IDS_A_COLUMN * column_id - depth
    match data_type:
        case types.RowType(fields=fields):
            return {"type": "struct", "fields": iceberg_fields(fields)}
        case types.ArrayType(element=element):
            return {
                "type": "list",
                "element-id": up,
                "element-required": False,
                "element": iceberg_type(element, column_id, depth + 1),
            }
        case types.MapType(key=key, value=value):
            return {
                "type": "map",
                "key-id": down,
                "key": iceberg_type(key, column_id, depth + 1),
                "value-id": up,
                "value-required": False,
                "value": iceberg_type(value, column_id, depth + 1),
            }
        case types.AtomicType(root=types.TypeRoot.DECIMAL, precision=precision, scale=scale):
            return f"decimal({precision}, {scale})"
        case _:
            return _PLAIN[data_type.root]


def iceberg_fields(fields: Iterable[types.DataField], required: Collection[int] = ()) -> list[Json]:
    """Return columns as Iceberg's JSON has them; those of `required` ids hold no null."""
    listed: list[Json] = []
    for field in fields:
        member: dict[str, Json] = {
            "id": field.id,
            "name": field.name,
            "required": field.id in required,
            "type": iceberg_type(field.type, field.id),
        }
        if field.description is not None:
            member["doc"] = field.description
        listed.append(member)
    return listed


def iceberg_ids(json: Json) -> Iterator[int]:
    """Yield all ids in columns, those inside their types included.

    >>> from paimon_assets.engine.spec.types.data_types import string
    >>> list(iceberg_ids(iceberg_type(types.ArrayType(element=string()), 1)))
    [536871936]
    """
    if isinstance(json, list):
        for each in json:
            yield from iceberg_ids(each)
    elif isinstance(json, dict):
        for key, value in json.items():
            if key == "id" or key.endswith("-id"):
                yield int(str(value))
            else:
                yield from iceberg_ids(value)


def is_read_alike(old: types.DataType, new: types.DataType) -> bool:
    """Whether Iceberg's readers show values stored as `old` as Paimon shows them as `new`.

    >>> from paimon_assets.engine.spec.types.data_types import bigint, integer, string
    >>> is_read_alike(integer(), bigint()), is_read_alike(integer(), string())
    (True, False)
    """
    match old, new:
        case types.AtomicType(), types.AtomicType():
            return _atoms_alike(old, new)
        case types.ArrayType(element=before), types.ArrayType(element=after):
            return is_read_alike(before, after)
        case types.MapType(key=key, value=before), types.MapType(key=other, value=after):
            return is_read_alike(key, other) and is_read_alike(before, after)
        case types.RowType(fields=before), types.RowType(fields=after):
            known = {field.id: field.type for field in before}
            return all(
                field.id not in known or is_read_alike(known[field.id], field.type)
                for field in after
            )
        case _:
            return False


def _atoms_alike(old: types.AtomicType, new: types.AtomicType) -> bool:
    if is_widened_integer(old, new) or (old.root, new.root) == (
        types.TypeRoot.FLOAT,
        types.TypeRoot.DOUBLE,
    ):
        return True
    if old.root in types.CHARACTER_ROOTS and new.root is types.TypeRoot.VARCHAR:
        return (old.length or 0) <= (new.length or 0)
    if old.root in types.BINARY_ROOTS and new.root is types.TypeRoot.VARBINARY:
        return (old.length or 0) <= (new.length or 0)
    if old.root is not new.root or old.scale != new.scale or old.length != new.length:
        return False
    return (old.precision or 0) <= (new.precision or 0)
