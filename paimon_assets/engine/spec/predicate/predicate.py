"""Predicate and expression: a filter over columns, and a value made of them, as trees of values.

Three-valued logic as in SQL: a row passes only if the predicate is true, not if it is unknown.
A predicate is *bound* to a schema once, at the door: `bind` checks the columns and turns literals
into internal values (`spec.types.literals`). Everything below the door holds bound predicates.
"""

import operator
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from enum import StrEnum
from functools import lru_cache
from itertools import takewhile
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import replace

from paimon_assets.engine.errors import InvalidInputError, NotFoundError
from paimon_assets.engine.spec.options.all_options import CAST_FLOAT_TO_BOOLEAN
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types import data_types as types
from paimon_assets.engine.spec.types.cast_rules import FLOAT_ROOTS, cast_refusal
from paimon_assets.engine.spec.types.literals import Literal, number_below, to_internal
from paimon_assets.engine.spec.types.type_text import parse_type


class CompareOp(StrEnum):
    EQ = "="
    NE = "<>"
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="

    @property
    def compare(self) -> Callable[[Any, Any], Any]:
        """Python's operator, which columns of frames and of Spark overload."""
        compare: Callable[[Any, Any], Any] = getattr(operator, self.name.lower())
        return compare

    @property
    def mirror(self) -> "CompareOp":
        """The comparison of the same two with their sides exchanged."""
        return _MIRRORED.get(self, self)

    @property
    def negation(self) -> "CompareOp":
        """The comparison that is true of two values where this one is not."""
        return _NEGATED[self]


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
_WITH_NUMBER_BELOW = {CompareOp.LT: CompareOp.LE, CompareOp.GE: CompareOp.GT}
"""How a column compares with its value below a number, instead of with the number."""


class Comparison(Struct, frozen=True):
    """`field op literal`; unknown where the field is null."""

    field: str
    op: CompareOp
    literal: Literal


class In(Struct, frozen=True):
    """`field IN (literals)`, or NOT IN; unknown where the field is null."""

    field: str
    literals: tuple[Literal, ...]
    negated: bool = False


class IsNull(Struct, frozen=True):
    """`field IS NULL`, or IS NOT NULL."""

    field: str
    negated: bool = False


class StartsWith(Struct, frozen=True):
    r"""`field LIKE 'prefix%'`."""

    field: str
    prefix: str


class Like(Struct, frozen=True):
    r"""`field LIKE 'pattern'`, or NOT LIKE; unknown where the field is null.

    `%` matches any characters, `_` one; `\` before them and itself takes them literally.
    """

    field: str
    pattern: str
    negated: bool = False


class Applied(Struct, frozen=True):
    """A test of a function of a column: `lower(field) = 'x'`, `CAST(field AS INT) > 3`.

    Nothing is pruned by it: statistics, partitions and indexes know values, not results.
    """

    field: str
    function: str
    """Of `FUNCTIONS`, or `cast`, `coalesce`."""
    test: "Leaf"
    """Of the result, which it calls `field` too; of another function of it, where they nest."""
    argument: Literal = None
    """The type of a cast as text; the value of `coalesce` instead of null."""


class And(Struct, frozen=True):
    children: tuple["Predicate", ...]


class Or(Struct, frozen=True):
    children: tuple["Predicate", ...]


Leaf = Comparison | In | IsNull | StartsWith | Like | Applied
Predicate = Leaf | And | Or

_DAYS = types.TIMESTAMP_ROOTS | {types.TypeRoot.DATE}
FUNCTIONS: Mapping[str, tuple[frozenset[types.TypeRoot], types.DataType | None]] = {
    "lower": (types.CHARACTER_ROOTS, types.string()),
    "upper": (types.CHARACTER_ROOTS, types.string()),
    "trim": (types.CHARACTER_ROOTS, types.string()),
    "length": (types.CHARACTER_ROOTS, types.integer()),
    "abs": (types.INTEGER_ROOTS | FLOAT_ROOTS | {types.TypeRoot.DECIMAL}, None),
    "year": (_DAYS, types.bigint()),
    "month": (_DAYS, types.bigint()),
    "day": (_DAYS, types.bigint()),
    "hour": (types.TIMESTAMP_ROOTS, types.bigint()),
}
"""Function → the types it takes and the type of its result, None for that of its column."""
_WHOLE = types.decimal(19, 0)
"""The type of `abs` of integers: of the smallest BIGINT it is no BIGINT."""
_WILDCARDS = ("%", "_")
_PATTERN = r"(?s)(?:[^\\]|\\[%_\\])*"
_PARTS = r"(?s)[%_]|\\.|[^%_\\]+"
MOST_DEPTH = 64
"""Most levels of a bound predicate, as functions over it recurse."""


def equal(field: str, literal: Literal) -> Predicate:
    """`field = literal`; a null literal means IS NULL."""
    return IsNull(field) if literal is None else Comparison(field, CompareOp.EQ, literal)


def like_parts(pattern: str) -> tuple[str, ...]:
    r"""Split a pattern of LIKE into texts and the wildcards `%` and `_`; texts are as they match.

    A text that is a wildcard itself begins with a backslash.

    >>> like_parts(r"ab%c\_")
    ('ab', '%', 'c', '\\_')
    """
    if re.fullmatch(_PATTERN, pattern) is None:
        raise InvalidInputError(
            f"The pattern '{pattern}' of LIKE has a backslash before something else than %, _ or a"
            " backslash; write two of them for one.",
            kind="where",
        )
    return tuple(re.findall(_PARTS, pattern))


@lru_cache(maxsize=64)
def like_regex(pattern: str) -> re.Pattern[str]:
    """Return the regular expression whose full match is LIKE."""
    texts = (
        {"%": ".*", "_": "."}.get(part) or re.escape(part.removeprefix("\\"))
        for part in like_parts(pattern)
    )
    return re.compile("".join(texts), re.DOTALL)


def like_prefix(pattern: str) -> str:
    """Return the text with which all texts begin that LIKE takes."""
    parts = takewhile(lambda part: part not in _WILDCARDS, like_parts(pattern))
    return "".join(part.removeprefix("\\") for part in parts)


def all_of(children: Iterable[Predicate | None]) -> Predicate | None:
    """Join predicates by AND; None (no filter) is left out.

    >>> all_of([None, equal("a", 1)])
    Comparison(field='a', op=<CompareOp.EQ: '='>, literal=1)
    """
    flat: list[Predicate] = []
    for child in children:
        if isinstance(child, And):
            flat.extend(child.children)
        elif child is not None:
            flat.append(child)
    if len(flat) > 1:
        return And(tuple(flat))
    return flat[0] if flat else None


def any_of(children: Iterable[Predicate]) -> Predicate:
    """Join predicates by OR.

    >>> any_of([Or((IsNull("a"), IsNull("b"))), IsNull("c")]) == Or(tuple(map(IsNull, "abc")))
    True
    """
    flat: list[Predicate] = []
    for child in children:
        flat.extend(child.children if isinstance(child, Or) else (child,))
    return flat[0] if len(flat) == 1 else Or(tuple(flat))


def conjuncts(predicate: Predicate | None) -> tuple[Predicate, ...]:
    """Return the parts that must all be true."""
    match predicate:
        case None:
            return ()
        case And(children=children):
            return tuple(part for child in children for part in conjuncts(child))
        case _:
            return (predicate,)


def fields_of(predicate: Predicate | None) -> frozenset[str]:
    """Return the names of the columns a predicate looks at."""
    match predicate:
        case None:
            return frozenset()
        case And(children=children) | Or(children=children):
            return frozenset().union(*(fields_of(child) for child in children))
        case _:
            return frozenset({predicate.field})


def only_on(predicate: Predicate | None, names: Iterable[str]) -> Predicate | None:
    """Keep the conjuncts that look at nothing but `names`: a weaker filter, safe to push down.

    Those with functions stay behind; they are evaluated on rows alone.
    """
    allowed = frozenset(names)
    return all_of(part for part in conjuncts(predicate) if decided_by(part, allowed))


def decided_by(predicate: Predicate | None, names: Iterable[str]) -> bool:
    """Whether `prune.may_match` decides exactly, given the values of `names`: of a partition."""
    return fields_of(predicate) <= frozenset(names) and next(functions_of(predicate), None) is None


def functions_of(predicate: Predicate | None) -> Iterator[Applied]:
    """Yield the tests of functions."""
    match predicate:
        case And(children=children) | Or(children=children):
            for child in children:
                yield from functions_of(child)
        case Applied():
            yield predicate
        case _:
            return


def rename(predicate: Predicate, names: Mapping[str, str]) -> Predicate:
    """Return the predicate with columns renamed; names not in the mapping stay."""
    match predicate:
        case And(children=children) | Or(children=children):
            return replace(predicate, children=tuple(rename(child, names) for child in children))
        case Applied(field=field, test=test):
            renamed = cast(Leaf, rename(test, names))
            return replace(predicate, field=names.get(field, field), test=renamed)
        case _:
            return replace(predicate, field=names.get(predicate.field, predicate.field))


def bind(predicate: Predicate, schema: TableSchema) -> Predicate:
    """Check the predicate's columns and convert its literals to internal values."""
    level: list[Predicate] = [predicate]
    for _ in range(MOST_DEPTH):
        level = [part for above in level for part in _below(above)]
        if not level:
            return _bind(predicate, schema)
    raise InvalidInputError(
        f"The filter is nested deeper than {MOST_DEPTH}; join ANDs and ORs side by side, as"
        " `any_of` and `all_of` do.",
        kind="where",
    )


def no_predicate(given: object) -> InvalidInputError:
    """Build the error for something that is no filter, such as another library's."""
    return InvalidInputError(
        f"'{given}' ({type(given).__module__}.{type(given).__name__}) is no filter. Give a text"
        " such as \"price > 3 AND dt IN ('2024-01-01')\", or a Predicate of engine.spec.predicate.",
        kind="where",
    )


def _below(predicate: Predicate) -> tuple[Predicate, ...]:
    match predicate:
        case And(children=children) | Or(children=children):
            return children
        case Applied(test=test):
            return (test,)
        case _:
            return ()


def _bind(predicate: Predicate, schema: TableSchema) -> Predicate:
    match predicate:
        case And(children=children) | Or(children=children):
            return replace(predicate, children=tuple(_bind(child, schema) for child in children))
        case Comparison() | In() | IsNull() | StartsWith() | Like() | Applied():
            reals = schema.typed_options.get(CAST_FLOAT_TO_BOOLEAN)
            column = schema.column(predicate.field)
            return _bound_leaf(predicate, column.type, float_to_boolean=reals)
        case _:
            raise no_predicate(predicate)


def _bound_leaf(leaf: Leaf, data_type: types.DataType, *, float_to_boolean: bool) -> Leaf:
    field = leaf.field
    match leaf:
        case Comparison(op=op, literal=literal):
            below = number_below(literal, data_type)
            if below is None:
                return replace(leaf, literal=to_internal(literal, data_type, field))
            if op in (CompareOp.EQ, CompareOp.NE):
                return In(field, (), negated=op is CompareOp.NE)
            return Comparison(field, _WITH_NUMBER_BELOW.get(op, op), below)
        case In(literals=literals):
            held = (each for each in literals if number_below(each, data_type) is None)
            return replace(leaf, literals=tuple(to_internal(e, data_type, field) for e in held))
        case StartsWith() | Like():
            if data_type.root not in types.CHARACTER_ROOTS:
                message = f"Column '{field}' is {data_type}; LIKE takes texts only."
                raise InvalidInputError(message, kind="literal", column=field)
            if isinstance(leaf, Like):
                like_parts(leaf.pattern)
            return leaf
        case Applied(function=function, test=test, argument=argument):
            if getattr(test, "field", None) != field:
                raise no_predicate(leaf)
            if function == "coalesce":
                argument = to_internal(argument, data_type, field)
            result = result_type(leaf, data_type, float_to_boolean=float_to_boolean)
            bound_test = _bound_leaf(test, result, float_to_boolean=float_to_boolean)
            return replace(leaf, test=bound_test, argument=argument)
        case _:
            return leaf


def result_type(
    leaf: Applied, data_type: types.DataType, *, float_to_boolean: bool = True
) -> types.DataType:
    """Return the type of a function's result, of a column of a type that it takes."""
    if leaf.function == "coalesce":
        return data_type
    if leaf.function == "cast":
        target = parse_type(str(leaf.argument))
        refusal = cast_refusal(data_type, target, float_to_boolean=float_to_boolean)
    else:
        takes, result = FUNCTIONS.get(leaf.function, (frozenset(), None))
        target = result or (_WHOLE if data_type.root in types.INTEGER_ROOTS else data_type)
        refusal = f"it takes {', '.join(sorted(takes))}" if data_type.root not in takes else None
    if refusal is not None:
        message = (
            f"Column '{leaf.field}' is {data_type} where the filter calls {leaf.function} of it:"
            f" {refusal}."
        )
        raise InvalidInputError(message, kind="literal", column=leaf.field)
    return target


class Operator(StrEnum):
    ADD = "+"
    SUBTRACT = "-"
    MULTIPLY = "*"
    DIVIDE = "/"
    CONCAT = "||"
    COALESCE = "coalesce"
    """The first operand that is not null."""
    ROUND = "round"
    """The first operand, to as many digits as the second operand."""


class ColumnValue(Struct, frozen=True):
    """The row's value of a column, before the change."""

    name: str


class SourceValue(Struct, frozen=True):
    """The value of a column of the source's row that matches, where rows are merged."""

    name: str


class LiteralValue(Struct, frozen=True):
    """The same value for every row."""

    value: Literal


class Operation(Struct, frozen=True):
    operator: Operator
    operands: tuple["Expression", ...]


Expression = ColumnValue | SourceValue | LiteralValue | Operation


class Assignment(Struct, frozen=True):
    """`column = expression`."""

    column: str
    expression: Expression


def bind_assignments(
    assignments: Mapping[str, Expression | Literal],
    schema: TableSchema,
    source: Collection[str] = (),
) -> tuple[Assignment, ...]:
    """Check the columns of assignments, and turn plain values into internal values."""
    bound = []
    for name, given in assignments.items():
        column = schema.column(name)
        expression = given if isinstance(given, Expression) else LiteralValue(given)
        for used in _names_used(expression, ColumnValue):
            schema.column(used)
        unknown = sorted(_names_used(expression, SourceValue) - set(source))
        if unknown:
            message = (
                f"There is no column 'source.{unknown[0]}' for column '{name}'; the source has"
                f" {', '.join(source) or 'none'}."
            )
            raise NotFoundError(message, kind="column-not-found", column=unknown[0])
        if isinstance(expression, LiteralValue):
            expression = LiteralValue(to_internal(expression.value, column.type, name))
        bound.append(Assignment(name, expression))
    return tuple(bound)


def columns_of(assignments: Iterable[Assignment]) -> frozenset[str]:
    """Return the columns of the rows that new values are made from."""
    return frozenset().union(*(_names_used(each.expression, ColumnValue) for each in assignments))


def _names_used(expression: Expression, kind: type[ColumnValue | SourceValue]) -> frozenset[str]:
    """Return the names of the columns of a kind that an expression looks at."""
    if isinstance(expression, Operation):
        return frozenset().union(*(_names_used(operand, kind) for operand in expression.operands))
    return frozenset({expression.name}) if isinstance(expression, kind) else frozenset()
