"""Types as Spark writes them → Paimon's types.

    STRUCT<a: INT, b: STRING>     ROW<a INT, b STRING>
    TIMESTAMP, TIMESTAMP_LTZ      TIMESTAMP(6) WITH LOCAL TIME ZONE
    TIMESTAMP_NTZ                 TIMESTAMP(6)
    BYTE, SHORT, LONG, REAL       TINYINT, SMALLINT, BIGINT, FLOAT
    BINARY                        BYTES

Source: `org.apache.paimon.spark.SparkTypeUtils`.
"""

from paimon_assets.engine.errors import FormatError, InvalidInputError
from paimon_assets.engine.spec.types import data_types as types
from paimon_assets.engine.spec.types.type_text import parse_type
from paimon_assets.sql.words import Words

_NAMES = {
    "BYTE": "TINYINT",
    "SHORT": "SMALLINT",
    "INTEGER": "INT",
    "LONG": "BIGINT",
    "REAL": "FLOAT",
    "NUMERIC": "DECIMAL",
    "DEC": "DECIMAL",
    "TIMESTAMP": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    "TIMESTAMP_LTZ": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    "TIMESTAMP_NTZ": "TIMESTAMP(6)",
    "BINARY": "BYTES",
}
_SHOWN = {
    types.TypeRoot.TIMESTAMP: "TIMESTAMP_NTZ",
    types.TypeRoot.TIMESTAMP_LTZ: "TIMESTAMP",
    types.TypeRoot.VARBINARY: "BINARY",
    types.TypeRoot.BINARY: "BINARY",
    types.TypeRoot.BLOB: "BINARY",
}


def take_type(words: Words) -> types.DataType:
    """Parse a type; the words after it, such as NOT NULL, are left."""
    text = _text(words)
    try:
        return parse_type(text)
    except FormatError as error:
        raise InvalidInputError(
            f"{error.message} Write types as Spark does.", kind="statement"
        ) from error


def _text(words: Words) -> str:
    name = words.one("a type", "word").upper()
    if name == "ARRAY":
        words.wants("<")
        inner = _text(words)
        words.wants(">")
        return f"ARRAY<{inner}>"
    if name == "MAP":
        words.wants("<")
        key = _text(words)
        words.wants(",")
        value = _text(words)
        words.wants(">")
        return f"MAP<{key}, {value}>"
    if name == "STRUCT":
        words.wants("<")
        fields = words.several(lambda: _field(words))
        words.wants(">")
        return f"ROW<{', '.join(fields)}>"
    if words.sees("("):
        return f"{_NAMES.get(name, name).partition('(')[0]}({words.inside()})"
    return _NAMES.get(name, name)


def _field(words: Words) -> str:
    name = words.one("a field", "word", "quoted").replace("`", "``")
    words.takes(":")
    inner = _text(words)
    return f"`{name}` {inner}{' NOT NULL' if words.takes('NOT', 'NULL') else ''}"


def spark_text(data_type: types.DataType) -> str:
    """Return a type as Spark writes it, in capitals and without nullability.

    >>> spark_text(parse_type("ROW<a TIMESTAMP(3), b ARRAY<STRING>>"))
    'STRUCT<a: TIMESTAMP_NTZ, b: ARRAY<STRING>>'
    """
    match data_type:
        case types.ArrayType(element=element):
            return f"ARRAY<{spark_text(element)}>"
        case types.MapType(key=key, value=value):
            return f"MAP<{spark_text(key)}, {spark_text(value)}>"
        case types.RowType(fields=fields):
            inner = ", ".join(f"{field.name}: {spark_text(field.type)}" for field in fields)
            return f"STRUCT<{inner}>"
        case types.AtomicType(root=root) if root in _SHOWN:
            return _SHOWN[root]
        case types.AtomicType(root=types.TypeRoot.DECIMAL, precision=precision, scale=scale):
            return f"DECIMAL({precision},{scale})"
        case _:
            return str(data_type).removesuffix(" NOT NULL")
