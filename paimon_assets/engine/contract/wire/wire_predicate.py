"""Bound predicates as JSON, with the exact types of their literals."""

import base64
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, assert_never

from paimon_assets.engine.contract.wire.wire_frame import base64_text
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.predicate.predicate import (
    And,
    CompareOp,
    Comparison,
    In,
    IsNull,
    Or,
    Predicate,
    StartsWith,
)


def predicate_json(predicate: Predicate) -> dict[str, Any]:
    """Return a bound predicate as JSON."""
    match predicate:
        case And(children=children):
            return {"is": "and", "of": [predicate_json(child) for child in children]}
        case Or(children=children):
            return {"is": "or", "of": [predicate_json(child) for child in children]}
        case Comparison(field=field, op=op, literal=literal):
            return {"is": "compare", "field": field, "op": op.value, "to": literal_json(literal)}
        case In(field=field, literals=literals, negated=negated):
            texts = [literal_json(literal) for literal in literals]
            return {"is": "in", "field": field, "of": texts, "not": negated}
        case IsNull(field=field, negated=negated):
            return {"is": "null", "field": field, "not": negated}
        case StartsWith(field=field, prefix=prefix):
            return {"is": "prefix", "field": field, "to": prefix}
        case _:
            assert_never(predicate)


def predicate_of(json_: Mapping[str, Any]) -> Predicate:
    """Inverse of `predicate_json`."""
    match json_["is"]:
        case "and":
            return And(tuple(map(predicate_of, json_["of"])))
        case "or":
            return Or(tuple(map(predicate_of, json_["of"])))
        case "compare":
            return Comparison(json_["field"], CompareOp(json_["op"]), literal_of(json_["to"]))
        case "in":
            return In(json_["field"], tuple(map(literal_of, json_["of"])), json_["not"])
        case "null":
            return IsNull(json_["field"], json_["not"])
        case "prefix":
            return StartsWith(json_["field"], json_["to"])
        case other:
            raise ValueError(f"unknown predicate '{other}'")


def literal_json(literal: Any) -> list[Any]:
    """Return [type, value]; floats as hexadecimal text, which is exact and knows NaN."""
    match literal:
        case None | bool() | int() | str():
            return ["plain", literal]
        case float():
            return ["float", literal.hex()]
        case bytes():
            return ["bytes", base64_text(literal)]
        case Decimal():
            return ["decimal", str(literal)]
        case _:
            raise InvalidInputError(
                f"{literal!r} is no internal value; bind the predicate first.", kind="literal"
            )


def literal_of(json_: Sequence[Any]) -> Any:
    """Inverse of `literal_json`."""
    kind, value = json_
    match kind:
        case "plain":
            return value
        case "float":
            return float.fromhex(value)
        case "bytes":
            return base64.b64decode(value)
        case "decimal":
            return Decimal(value)
        case other:
            raise ValueError(f"unknown literal type '{other}'")
