"""Filters and values as people write them → Predicate, Expression.

    price > 3 AND dt IN ('2024-01-01')     comparisons of a column with a literal, IN, BETWEEN,
                                           IS NULL, LIKE 'prefix%', AND, OR, NOT
    coalesce(price, 0) * 1.1               columns, literals, + - * /, ||, coalesce, round

sqlglot parses; nothing else is taken.
"""

from decimal import Decimal
from typing import NoReturn

import sqlglot
from sqlglot import expressions as exp

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.predicate.expression import (
    ColumnValue,
    Expression,
    LiteralValue,
    Operation,
    Operator,
    SourceValue,
)
from paimon_assets.engine.spec.predicate.predicate import (
    And,
    CompareOp,
    Comparison,
    In,
    IsNull,
    Or,
    Predicate,
    StartsWith,
    all_of,
    any_of,
)
from paimon_assets.engine.spec.types.literals import Literal

_OPS = {
    exp.EQ: CompareOp.EQ,
    exp.NEQ: CompareOp.NE,
    exp.LT: CompareOp.LT,
    exp.LTE: CompareOp.LE,
    exp.GT: CompareOp.GT,
    exp.GTE: CompareOp.GE,
}
_MIRRORED = {
    CompareOp.LT: CompareOp.GT,
    CompareOp.LE: CompareOp.GE,
    CompareOp.GT: CompareOp.LT,
    CompareOp.GE: CompareOp.LE,
}
_NEGATED = {
    CompareOp.EQ: CompareOp.NE,
    CompareOp.NE: CompareOp.EQ,
    CompareOp.LT: CompareOp.GE,
    CompareOp.GE: CompareOp.LT,
    CompareOp.GT: CompareOp.LE,
    CompareOp.LE: CompareOp.GT,
}


def parse_where(text: str) -> Predicate:
    """Parse a filter; it is not bound to a schema yet.

    Raises:
        InvalidInputError: Not a filter this engine takes; quotes the part.

    >>> parse_where("a >= 3 and b is not null")
    And(children=(Comparison(field='a', op=<CompareOp.GE: '>='>, literal=3), \
IsNull(field='b', negated=True)))
    """
    try:
        tree = sqlglot.parse_one(text)
    except sqlglot.errors.SqlglotError as error:
        raise InvalidInputError(f"Cannot parse the filter '{text}'.", kind="where") from error
    return _predicate(tree)


def parse_expression(text: str) -> Expression:
    """Parse the value of an update; it is not bound to a schema yet.

    Raises:
        InvalidInputError: Not an expression this engine computes; quotes the part.

    >>> parse_expression("price * 2")
    Operation(operator=<Operator.MULTIPLY: '*'>, operands=(ColumnValue(name='price'), \
LiteralValue(value=2)))
    """
    try:
        tree = sqlglot.parse_one(text)
    except sqlglot.errors.SqlglotError as error:
        raise InvalidInputError(
            f"Cannot parse the expression '{text}'.", kind="expression"
        ) from error
    return _expression(tree)


_SOURCE = "source"
"""How expressions name the rows that are merged into a table: `source.price`."""
_OPERATORS = {
    exp.Add: Operator.ADD,
    exp.Sub: Operator.SUBTRACT,
    exp.Mul: Operator.MULTIPLY,
    exp.Div: Operator.DIVIDE,
    exp.DPipe: Operator.CONCAT,
}


def _expression(node: exp.Expr) -> Expression:
    match node:
        case exp.Paren():
            return _expression(node.this)
        case exp.Column() if not node.table:
            return ColumnValue(node.name)
        case exp.Column() if node.table == _SOURCE:
            return SourceValue(node.name)
        case exp.Coalesce():
            parts = tuple(map(_expression, (node.this, *node.expressions)))
            return Operation(Operator.COALESCE, parts)
        case exp.Round():
            digits = node.args.get("decimals")
            given = LiteralValue(0) if digits is None else _expression(digits)
            if isinstance(given, LiteralValue) and isinstance(given.value, int):
                return Operation(Operator.ROUND, (_expression(node.this), given))
            raise _refused_value(node)
        case exp.Binary() if type(node) in _OPERATORS:
            sides = (_expression(node.left), _expression(node.right))
            return Operation(_OPERATORS[type(node)], sides)
        case exp.Neg() if not isinstance(node.this, exp.Literal):
            return Operation(Operator.SUBTRACT, (LiteralValue(0), _expression(node.this)))
        case exp.Neg() | exp.Literal() | exp.Boolean() | exp.Null() | exp.Cast():
            return LiteralValue(_literal(node))
        case _:
            raise _refused_value(node)


def _refused_value(node: exp.Expr) -> InvalidInputError:
    return InvalidInputError(
        f"The expression part '{node.sql()}' is not supported; use columns, literals, + - * /, "
        "||, COALESCE, ROUND.",
        kind="expression",
    )


def _refuse(node: exp.Expr) -> NoReturn:
    raise InvalidInputError(
        f"The filter part '{node.sql()}' is not supported; use comparisons of a column with a "
        "literal, IN, BETWEEN, IS NULL, LIKE 'prefix%', AND, OR, NOT.",
        kind="where",
    )


def _predicate(node: exp.Expr) -> Predicate:  # noqa: PLR0911 - one a kind
    match node:
        case exp.Paren():
            return _predicate(node.this)
        case exp.And():
            joined = all_of([_predicate(node.left), _predicate(node.right)])
            return joined if joined is not None else _refuse(node)
        case exp.Or():
            return any_of([_predicate(node.left), _predicate(node.right)])
        case exp.Not():
            return _negate(_predicate(node.this), node)
        case exp.In() if node.expressions:
            return In(_column(node.this), tuple(_literal(item) for item in node.expressions))
        case exp.Between() if not node.args.get("symmetric"):
            column = _column(node.this)
            low, high = _literal(node.args["low"]), _literal(node.args["high"])
            return And(
                (Comparison(column, CompareOp.GE, low), Comparison(column, CompareOp.LE, high))
            )
        case exp.Is() if isinstance(node.expression, exp.Null):
            return IsNull(_column(node.this))
        case exp.Like():
            return _like(node)
        case exp.Binary() if type(node) in _OPS:
            return _comparison(node)
        case exp.Column():
            return Comparison(_column(node), CompareOp.EQ, literal=True)
        case _:
            _refuse(node)


def _comparison(node: exp.Binary) -> Predicate:
    op = _OPS[type(node)]
    left, right = node.left.unnest(), node.right.unnest()
    if isinstance(left, exp.Column):
        return Comparison(_column(left), op, _literal(right))
    if isinstance(right, exp.Column):
        return Comparison(_column(right), _MIRRORED.get(op, op), _literal(left))
    _refuse(node)


def _like(node: exp.Like) -> Predicate:
    if node.args.get("negate"):
        _refuse(node)
    pattern = _literal(node.expression)
    if isinstance(pattern, str) and pattern.endswith("%"):
        prefix = pattern[:-1]
        if not any(wild in prefix for wild in "%_\\"):
            return StartsWith(_column(node.this), prefix)
    _refuse(node)


def _negate(predicate: Predicate, node: exp.Expr) -> Predicate:
    """Push NOT down to the leaves; three-valued logic is kept."""
    match predicate:
        case Comparison(field=field, op=op, literal=literal):
            return Comparison(field, _NEGATED[op], literal)
        case In(field=field, literals=literals, negated=negated):
            return In(field, literals, negated=not negated)
        case IsNull(field=field, negated=negated):
            return IsNull(field, negated=not negated)
        case And(children=children):
            return Or(tuple(_negate(child, node) for child in children))
        case Or(children=children):
            return And(tuple(_negate(child, node) for child in children))
        case _:
            _refuse(node)


def _column(node: exp.Expr) -> str:
    if isinstance(node, exp.Column) and not node.table:
        return node.name
    _refuse(node)


def _is_text_of_time(node: exp.Cast) -> bool:
    """Whether this is `DATE '…'` or the like: the column's own type parses the text."""
    text = node.this
    return isinstance(text, exp.Literal) and bool(
        text.is_string and node.is_type(*exp.DataType.TEMPORAL_TYPES, exp.DataType.Type.TIME)
    )


def _literal(node: exp.Expr) -> Literal:
    match node:
        case exp.Neg():
            value = _literal(node.this)
            if isinstance(value, int | float | Decimal):
                return -value
            _refuse(node)
        case exp.Literal() if node.is_string:
            return node.name
        case exp.Literal():
            return int(node.name) if node.is_int else Decimal(node.name)
        case exp.Boolean():
            return bool(node.this)
        case exp.Null():
            return None
        case exp.Paren():
            return _literal(node.this)
        case exp.Cast() if _is_text_of_time(node):
            return _literal(node.this)
        case _:
            _refuse(node)
