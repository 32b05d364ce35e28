"""Filters of pyarrow → Predicate.

pyarrow gives no access to the parts of an Expression, but hands it over as Arrow data: its literals
are the columns of one batch, typed, and its tree is in the metadata of the schema, a key and a
value for each node, in the order of a walk. Keys repeat there, so they are read by Arrow's C
interface.
"""

import ctypes
import math
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from msgspec import Struct

from paimon_assets.engine.spec.predicate import predicate as pred

_OPS = {
    "equal": pred.CompareOp.EQ,
    "not_equal": pred.CompareOp.NE,
    "less": pred.CompareOp.LT,
    "less_equal": pred.CompareOp.LE,
    "greater": pred.CompareOp.GT,
    "greater_equal": pred.CompareOp.GE,
}


class _Field(Struct, frozen=True):
    path: tuple[str, ...]


class _Value(Struct, frozen=True):
    scalar: Any


class _Call(Struct, frozen=True):
    name: str
    arguments: tuple[Any, ...]
    options: Any = None


def columns_of(expression: Any) -> frozenset[str] | None:
    """Return the columns a pyarrow Expression looks at; None if it does not say."""
    tree = _tree(expression)
    return None if tree is None else frozenset(_columns(tree))


def weaker_filter(expression: Any) -> pred.Predicate | None:
    """Return a filter that is true wherever a pyarrow Expression is; None if there is none.

    Parts of an AND that have no Predicate are left out.
    """
    tree = _tree(expression)
    return None if tree is None else _predicate(tree, exactly=False)


def exact_filter(expression: Any) -> pred.Predicate | None:
    """Return a pyarrow Expression as a filter; None if it has no Predicate."""
    tree = _tree(expression)
    return None if tree is None else _predicate(tree, exactly=True)


def is_comparable(value: object) -> bool:
    """Whether a number compares here as elsewhere: NaN, and zeros with a sign, do not."""
    return not isinstance(value, float) or (value != 0 and not math.isnan(value))


def _tree(expression: Any) -> _Field | _Value | _Call | None:
    try:
        _, (data,) = expression.__reduce__()
        batch = pa.ipc.open_file(data).get_batch(0)
        return _node(_pairs(batch.schema)[::-1], batch)
    except (pa.ArrowException, TypeError, ValueError, IndexError, KeyError):
        return None  # fields by number have no name; a later pyarrow may write another form


class _ArrowSchema(ctypes.Structure):
    """The beginning of Arrow's C struct."""

    _fields_ = (
        ("format", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("metadata", ctypes.c_void_p),
    )


def _pairs(schema: pa.Schema) -> list[tuple[str, str]]:
    """Return the metadata of a schema with keys that repeat, in order."""
    capsule = schema.__arrow_c_schema__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    at: int = _ArrowSchema.from_address(pointer(capsule, b"arrow_schema")).metadata
    texts = []
    for _ in range(2 * ctypes.c_int32.from_address(at).value):
        at += 4
        length = ctypes.c_int32.from_address(at).value
        texts.append(ctypes.string_at(at + 4, length).decode())
        at += length
    return list(zip(texts[::2], texts[1::2], strict=True))


def _node(pairs: list[tuple[str, str]], batch: pa.RecordBatch) -> _Field | _Value | _Call:
    """Take the first node off `pairs`, which stand in reverse."""
    key, value = pairs.pop()
    match key:
        case "field_ref":
            return _Field((value,))
        case "nested_field_ref":
            return _Field(tuple(pairs.pop()[1] for _ in range(int(value))))
        case "literal":
            return _Value(batch.column(int(value))[0])
        case "call":
            arguments, options = [], None
            while pairs[-1][0] != "end":
                if pairs[-1][0] == "options":
                    options = batch.column(int(pairs.pop()[1]))[0]
                else:
                    arguments.append(_node(pairs, batch))
            pairs.pop()
            return _Call(value, tuple(arguments), options)
        case _:
            raise KeyError(key)


def _columns(node: _Field | _Value | _Call) -> Iterator[str]:
    if isinstance(node, _Field):
        yield node.path[0]
    elif isinstance(node, _Call):
        for argument in node.arguments:
            yield from _columns(argument)


def _predicate(node: Any, *, exactly: bool) -> pred.Predicate | None:
    match node:
        case _Call("and_kleene" | "and", (left, right)):
            parts = [_predicate(side, exactly=exactly) for side in (left, right)]
            return None if exactly and None in parts else pred.all_of(parts)
        case _Call("or_kleene" | "or", (left, right)):
            parts = [_predicate(side, exactly=exactly) for side in (left, right)]
            return pred.any_of([part for part in parts if part]) if None not in parts else None
        case _Call("if_else", (_Call("is_valid", (operand,)), then, _Value(scalar))) if (
            not scalar.is_valid and operand in getattr(then, "arguments", ())
        ):
            return _predicate(then, exactly=exactly)  # where it is null, it is not true anyway
        case _Call("invert", (inner,)):
            return _invert(_predicate(inner, exactly=True))
        case _:
            return _leaf(node)


def _leaf(node: Any) -> pred.Predicate | None:
    match node:
        case _Field((name,)):  # a condition by itself, so a boolean
            return pred.Comparison(name, pred.CompareOp.EQ, literal=True)
        case _Call(name, (_Field((column,)), _Value(scalar))) if name in _OPS:
            return _comparison(column, _OPS[name], scalar)
        case _Call(name, (_Value(scalar), _Field((column,)))) if name in _OPS:
            return _comparison(column, _OPS[name].mirror, scalar)
        case _Call("is_valid", (_Field((column,)),)):
            return pred.IsNull(column, negated=True)
        case _Call("is_null", (_Field((column,)),), options):
            of_nan = options is not None and options["nan_is_null"].as_py()
            return None if of_nan else pred.IsNull(column)
        case _Call("is_in", (_Field((column,)),), options):
            try:
                values = [_plain(value) for value in options["value_set"].values]
            except (OverflowError, ValueError):  # as in `_comparison`
                return None
            fine = all(value is not None and is_comparable(value) for value in values)
            return pred.In(column, tuple(values)) if fine else None
        case _Call("starts_with", (_Field((column,)),), options):
            folds = options["ignore_case"].as_py()
            return None if folds else pred.StartsWith(column, options["pattern"].as_py())
        case _:
            return None


def _comparison(column: str, op: pred.CompareOp, scalar: Any) -> pred.Predicate | None:
    try:
        value = _plain(scalar)
    except (OverflowError, ValueError):  # nanoseconds, or years, for which Python has no time
        return None
    return (
        pred.Comparison(column, op, value) if value is not None and is_comparable(value) else None
    )


def _plain(scalar: Any) -> Any:
    """Return Python's value of a scalar; one that it would round raises."""
    if pa.types.is_time64(scalar.type):
        scalar = scalar.cast(pa.time64("us"))
    return scalar.as_py()


def _invert(predicate: pred.Predicate | None) -> pred.Predicate | None:
    match predicate:
        case pred.IsNull(field=field, negated=negated):
            return pred.IsNull(field, negated=not negated)
        case pred.Comparison(field=field, op=op, literal=literal) if not isinstance(literal, float):
            return pred.Comparison(field, op.negation, literal)
        case _:
            return None
