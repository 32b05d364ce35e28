"""Texts of filters and values → Predicate, Expression.

    price > 3 AND dt IN ('2024-01-01')     comparisons of a column with a literal, IN, BETWEEN,
                                           IS NULL, LIKE, AND, OR, NOT
    dt >= CURRENT_DATE - INTERVAL 7 DAYS   the day and the time of now, in UTC
    lower(name) = 'x', CAST(id AS INT) > 3 functions of one column, which may nest
    `order` = 1 OR "a b" = 2               names that are no plain words
    coalesce(price, 0) * 1.1               columns, literals, + - * /, ||, coalesce, round

sqlglot parses; nothing else is taken.
"""

import datetime as dt
from collections.abc import Callable, Iterable
from contextlib import suppress
from decimal import Decimal
from typing import ClassVar, NoReturn, TypeVar, cast

import sqlglot
from msgspec.structs import replace
from sqlglot import Token, TokenType
from sqlglot import expressions as exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, SqlglotError

from paimon_assets.engine.errors import FormatError, InvalidInputError
from paimon_assets.engine.spec.predicate import predicate as pred
from paimon_assets.engine.spec.types.literals import Literal
from paimon_assets.engine.spec.types.type_text import parse_type

_OPS = {
    exp.EQ: pred.CompareOp.EQ,
    exp.NEQ: pred.CompareOp.NE,
    exp.LT: pred.CompareOp.LT,
    exp.LTE: pred.CompareOp.LE,
    exp.GT: pred.CompareOp.GT,
    exp.GTE: pred.CompareOp.GE,
}


class _Sql(Dialect):
    """sqlglot's own SQL, in which names may stand in backticks too, as in Spark."""

    class Tokenizer(sqlglot.Tokenizer):
        IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ['"', "`"]


_NUMBERS_OF_SPARK = {exp.DType.BIGINT: 63, exp.DType.SMALLINT: 15, exp.DType.TINYINT: 7}
_FUNCTIONS: dict[type[exp.Expr], str] = {
    **{kind: kind.__name__.lower() for kind in (exp.Lower, exp.Upper, exp.Trim, exp.Length)},
    **{kind: kind.__name__.lower() for kind in (exp.Abs, exp.Year, exp.Month, exp.Day, exp.Hour)},
    exp.DayOfMonth: "day",
}
_UNITS = {name.upper(): f"{name}s" for name in ("week", "day", "hour", "minute", "second")}
"""Of intervals → of `timedelta`."""
_MOST_DEPTH = 30
"""Parentheses and NOTs inside each other; sqlglot takes up to 26 Python frames for one of them."""
_MOST_STEPS = 100
"""Operators of an expression above each other: `a + b + c` is two."""
_SHOWN = 200
_PLAIN = frozenset({TokenType.VAR, TokenType.IDENTIFIER, TokenType.STRING, TokenType.NUMBER})
_WORDS = frozenset(
    {"and", "or", "not", "in", "is", "null", "like", "ilike", "any", "all", "between", "symmetric"}
    | {"escape", "true", "false", "date", "time", "timestamp", "cast", "as"}
)
"""Words of SQL that stand in filters and expressions for themselves."""

_Built = TypeVar("_Built")


def parse_where(text: str, dialect: type[Dialect] = _Sql) -> pred.Predicate:
    """Parse a filter; it is not bound to a schema yet.

    Names that are no plain words stand in double quotes or backticks; in another dialect, as there.
    ANDs and ORs may be as many as memory takes; parentheses and NOTs lie at most 30 deep.

    >>> parse_where("a >= 3 and b is not null")
    And(children=(Comparison(field='a', op=<CompareOp.GE: '>='>, literal=3), \
IsNull(field='b', negated=True)))
    """
    return _build(text, dialect(), "filter", _predicate)


def parse_expression(text: str, dialect: type[Dialect] = _Sql) -> pred.Expression:
    """Parse the value of an update; it is not bound to a schema yet.

    >>> parse_expression("price * 2")
    Operation(operator=<Operator.MULTIPLY: '*'>, operands=(ColumnValue(name='price'), \
LiteralValue(value=2)))
    """
    return _build(text, dialect(), "expression", _shallow_expression)


def _build(text: str, sql: Dialect, noun: str, build: Callable[[exp.Expr], _Built]) -> _Built:
    """Parse a text and build its value; every error is typed and names the way out."""
    kind = "where" if noun == "filter" else noun
    words: list[Token] = []
    try:
        words = sql.tokenize(text)
        if _depth(words) <= _MOST_DEPTH:
            try:
                trees = sql.parser().parse(words, text)
            except (ValueError, TypeError, LookupError, AttributeError) as error:
                raise ParseError(str(error)) from error  # a slip of the parser
            if len(trees) != 1 or trees[0] is None:
                raise ParseError(f"{len(trees)} statements")
            return build(trees[0])
    except RecursionError:
        pass
    except SqlglotError as error:
        # Where it cannot be parsed: the last character that was read.
        first = error.errors[0] if isinstance(error, ParseError) and error.errors else {}
        column, line = first.get("col"), first.get("line") or 1
        place = f" at character {column}" if column else ""
        place += f" of line {line}" if column and line > 1 else ""
        message = f"Cannot parse the {noun} '{_short(text)}'{place}.{_quoting(words)}"
        raise InvalidInputError(message, kind=kind) from error
    except InvalidInputError as error:
        raise InvalidInputError(error.message + _quoting(words), kind=kind) from error
    raise InvalidInputError(
        f"The {noun} '{_short(text)}' is nested too deep: at most {_MOST_DEPTH} parentheses and"
        f" NOTs may lie inside each other, and {_MOST_STEPS} operators. Write many alternatives"
        " as an IN, or as ORs side by side.",
        kind=kind,
    )


def _depth(words: Iterable[Token]) -> int:
    """Return how deeply parentheses and NOTs are nested, without recursion."""
    deepest = 0
    outer: list[int] = []
    inside = 0
    for word in words:
        match word.token_type:
            case TokenType.NOT:
                inside += 1
            case TokenType.L_PAREN:
                outer.append(inside)
                inside += 1
            case TokenType.R_PAREN:
                inside = outer.pop() if outer else 0
            case TokenType.AND | TokenType.OR:
                inside = outer[-1] + 1 if outer else 0
            case _:
                continue
        deepest = max(deepest, inside)
    return deepest


def _quoting(words: Iterable[Token]) -> str:
    """Return a hint to quote a column whose name is a word of SQL; empty if there is none."""
    for word in words:
        plain = word.token_type in _PLAIN or word.text.lower() in _WORDS
        if not plain and word.text.isidentifier():
            return f" If '{word.text}' is a column, write `{word.text}`: it is a word of SQL."
    return ""


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


_SOURCE = "source"
"""How expressions name the rows that are merged into a table: `source.price`."""
_OPERATORS = {
    exp.Add: pred.Operator.ADD,
    exp.Sub: pred.Operator.SUBTRACT,
    exp.Mul: pred.Operator.MULTIPLY,
    exp.Div: pred.Operator.DIVIDE,
    exp.DPipe: pred.Operator.CONCAT,
}


def _shallow_expression(node: exp.Expr) -> pred.Expression:
    level = [node]
    for _ in range(_MOST_STEPS):
        level = [part for above in level for part in above.iter_expressions()]
        if not level:
            return _expression(node)
    raise RecursionError


def _expression(node: exp.Expr) -> pred.Expression:
    match node:
        case exp.Paren():
            return _expression(node.this)
        case exp.Column() if not node.table:
            return pred.ColumnValue(node.name)
        case exp.Column() if node.table == _SOURCE:
            return pred.SourceValue(node.name)
        case exp.Coalesce():
            parts = tuple(map(_expression, (node.this, *node.expressions)))
            return pred.Operation(pred.Operator.COALESCE, parts)
        case exp.Round():
            digits = node.args.get("decimals")
            places = pred.LiteralValue(0) if digits is None else _expression(digits)
            if not (isinstance(places, pred.LiteralValue) and isinstance(places.value, int)):
                raise _refused_value(node)
            return pred.Operation(pred.Operator.ROUND, (_expression(node.this), places))
        case exp.Binary() if type(node) in _OPERATORS:
            sides = (_expression(node.left), _expression(node.right))
            return pred.Operation(_OPERATORS[type(node)], sides)
        case exp.Neg() if not isinstance(node.this, exp.Literal | exp.TryCast):
            return pred.Operation(
                pred.Operator.SUBTRACT, (pred.LiteralValue(0), _expression(node.this))
            )
        case exp.Cast() if node.find(exp.Column):
            raise _refused_value(node)
        case exp.Neg() | exp.Literal() | exp.RawString() | exp.Boolean() | exp.Null() | exp.Cast():
            return pred.LiteralValue(_literal(node))
        case _:
            raise _refused_value(node)


def _refused_value(node: exp.Expr) -> InvalidInputError:
    return InvalidInputError(
        f"The expression part '{_short(node.sql())}' is not supported; use columns, literals, + - "
        "* /, ||, COALESCE, ROUND. On Spark an UPDATE takes all of SQL (spark_sql, or"
        " `paimon-assets sql --executor spark`).",
        kind="expression",
    )


def _refuse(node: exp.Expr) -> NoReturn:
    raise InvalidInputError(
        f"The filter part '{_short(node.sql())}' is not supported; use comparisons of a column "
        "with a literal, IN, BETWEEN, IS NULL, LIKE, AND, OR, NOT; CAST, coalesce, "
        f"{', '.join(pred.FUNCTIONS)} of a column. A SELECT of catalog.sql, or of "
        "`paimon-assets sql`, takes all of SQL; a DELETE or UPDATE of all rows has no WHERE.",
        kind="where",
    )


def _predicate(node: exp.Expr) -> pred.Predicate:
    match node:
        case exp.Paren():
            return _predicate(node.this)
        case exp.And():
            joined = pred.all_of(map(_predicate, node.flatten()))
            return joined if joined is not None else _refuse(node)
        case exp.Or():
            return pred.any_of(map(_predicate, node.flatten()))
        case exp.Not():
            return _negate(_predicate(node.this), node)
        case exp.In() if node.expressions:
            literals = tuple(_literal(item) for item in node.expressions)
            return _test_column(node.this, lambda column: pred.In(column, literals))
        case exp.Between() if not node.args.get("symmetric"):
            low, high = _literal(node.args["low"]), _literal(node.args["high"])
            above = _compare(node.this, pred.CompareOp.GE, low)
            return pred.And((above, _compare(node.this, pred.CompareOp.LE, high)))
        case exp.Is() if isinstance(node.expression, exp.Null):
            return _test_column(node.this, pred.IsNull)
        case exp.Like():
            return _like(node)
        case exp.Binary() if type(node) in _OPS:
            return _comparison(node)
        case exp.Column() | exp.Cast() | exp.Coalesce():
            return _compare(node, pred.CompareOp.EQ, True)  # noqa: FBT003 - the literal
        case _:
            _refuse(node)


def _comparison(node: exp.Binary) -> pred.Predicate:
    left, right, op = node.left.unnest(), node.right.unnest(), _OPS[type(node)]
    if left.find(exp.Column) is None:
        left, right, op = right, left, op.mirror
    if left.find(exp.Column) is None:
        _refuse(node)
    return _compare(left, op, _literal(right))


def _compare(node: exp.Expr, op: pred.CompareOp, literal: Literal) -> pred.Leaf:
    return _test_column(node, lambda column: pred.Comparison(column, op, literal))


def _like(node: exp.Like) -> pred.Predicate:
    pattern = _literal(node.expression)
    if not isinstance(pattern, str):
        _refuse(node)
    prefix, negated = pattern.removesuffix("%"), bool(node.args.get("negate"))
    if negated or prefix == pattern or any(wild in prefix for wild in "%_\\"):
        return _test_column(node.this, lambda column: pred.Like(column, pattern, negated))
    return _test_column(node.this, lambda column: pred.StartsWith(column, prefix))


def _negate(predicate: pred.Predicate, node: exp.Expr) -> pred.Predicate:
    """Push NOT down to the leaves; three-valued logic is kept."""
    match predicate:
        case pred.Comparison(field=field, op=op, literal=literal):
            return pred.Comparison(field, op.negation, literal)
        case pred.In(field=field, literals=literals, negated=negated):
            return pred.In(field, literals, negated=not negated)
        case pred.IsNull(field=field, negated=negated):
            return pred.IsNull(field, negated=not negated)
        case pred.StartsWith(field=field, prefix=prefix):
            return pred.Like(field, f"{prefix}%", negated=True)
        case pred.Like(field=field, pattern=pattern, negated=negated):
            return pred.Like(field, pattern, negated=not negated)
        case pred.Applied(test=test):
            return replace(predicate, test=cast(pred.Leaf, _negate(test, node)))
        case pred.And(children=children):
            return pred.any_of(_negate(child, node) for child in children)
        case pred.Or(children=children):
            return pred.And(tuple(_negate(child, node) for child in children))
        case _:
            _refuse(node)


def _test_column(node: exp.Expr, test: Callable[[str], pred.Leaf]) -> pred.Leaf:
    """Return a test of a column, or of a function of one."""
    node = node.unnest()
    if isinstance(node, exp.Column):
        return test(_column(node))
    inner: exp.Expr = node.this
    argument: Literal = None
    match node:
        case exp.Cast() if not node.args.get("safe") and not _is_literal(node):
            function, argument = "cast", _type_text(node)
        case exp.Coalesce() if len(node.expressions) == 1:
            function, argument = "coalesce", _literal(node.expressions[0])
        case exp.Func() if type(node) in _FUNCTIONS and _is_plain(node):
            function = _FUNCTIONS[type(node)]
            if isinstance(inner, exp.TsOrDsToDate):  # which Spark's dialect writes
                inner = inner.this
        case _:
            _refuse(node)
    return _test_column(
        inner, lambda column: pred.Applied(column, function, test(column), argument)
    )


def _is_plain(node: exp.Expr) -> bool:
    """Whether a function's only argument is its column: no `BOTH 'x' FROM` and the like."""
    return all(name == "this" or not value for name, value in node.args.items())


def _type_text(node: exp.Cast) -> str:
    """Return the type of a cast as Paimon writes it; a missing length is not guessed."""
    kind = node.to
    name = kind.this.value if isinstance(kind.this, exp.DType) else ""
    sizes = ", ".join(size.sql() for size in kind.expressions)
    if name in ("TEXT", "VARCHAR") and not sizes:
        name = "STRING"
    zone = " WITH LOCAL TIME ZONE" if name in ("TIMESTAMPTZ", "TIMESTAMPLTZ") else ""
    text = f"{'TIMESTAMP' if zone else name}{f'({sizes})' if sizes else ''}{zone}"
    try:
        parse_type(text)
    except FormatError:
        _refuse(node)
    return _refuse(node) if text in ("CHAR", "BINARY", "VARBINARY") else text


def _column(node: exp.Expr) -> str:
    if isinstance(node, exp.Column) and not node.table:
        return node.name
    _refuse(node)


def _is_literal(node: exp.Cast) -> bool:
    """Whether a cast is a literal: `DATE '…'` and the like, or a number such as `10L`."""
    literal = node.this
    if not isinstance(literal, exp.Literal):
        return False
    if literal.is_string:  # the column's own type parses it
        return bool(node.is_type(*exp.DataType.TEMPORAL_TYPES, exp.DataType.Type.TIME))
    bits = next((bits for kind, bits in _NUMBERS_OF_SPARK.items() if node.is_type(kind)), 0)
    return isinstance(node, exp.TryCast) and literal.is_int and int(literal.name) < 2**bits


def _instant(node: exp.Expr) -> Literal:
    """Return the current date or time in UTC, with an interval added or subtracted."""
    now = dt.datetime.now(dt.UTC)
    match node:
        case exp.CurrentDate() if node.this is None:
            return now.date()
        case exp.CurrentTimestamp() if node.this is None:
            return now
        case exp.Add() | exp.Sub() if isinstance(node.right, exp.Interval):
            start, count = _instant(node.left), node.right.text("this")
            unit = _UNITS.get(node.right.text("unit").upper().removesuffix("S"))
            if unit is not None and isinstance(start, dt.date) and count.isdecimal():
                with suppress(OverflowError):
                    step = dt.timedelta(**{unit: int(count)})
                    return start + step if isinstance(node, exp.Add) else start - step
        case _:
            pass
    _refuse(node)


def _literal(node: exp.Expr) -> Literal:
    match node:
        case exp.Neg():
            value = _literal(node.this)
            if isinstance(value, Decimal):
                return value.copy_negate()  # `-value` loses digits, and the sign of a zero
            if isinstance(value, int | float):
                return -value
            _refuse(node)
        case exp.RawString():
            return node.name
        case exp.Literal():
            if node.is_string:
                return node.name
            return int(node.name) if node.is_int else Decimal(node.name)
        case exp.Boolean():
            return bool(node.this)
        case exp.Null():
            return None
        case exp.Paren():
            return _literal(node.this)
        case exp.Cast() if _is_literal(node):
            return _literal(node.this)
        case _:
            return _instant(node)
