"""The tables that a query names, and their replacement by other names. Nothing is opened.

    SELECT o.id FROM db.orders VERSION AS OF 3 AS o JOIN db.items ON db.items.id = o.item
                     ^ use 1                             ^ use 2     ^ qualifier of use 2

The text is changed at the names of tables and nowhere else, so that the query engine sees the query
as it was written, whatever sqlglot makes of the rest.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from sqlglot import Token, TokenType
from sqlglot import expressions as exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.parser import Parser

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.table.read.spark_dialect import SparkSql
from paimon_assets.sql.words import PARSE_FAULTS

_AS_OF = re.compile(
    r"(?:FOR\s+)?(?P<kind>VERSION|TIMESTAMP|SYSTEM_TIME)\s+AS\s+OF\s+(?P<operand>.+)",
    re.IGNORECASE | re.DOTALL,
)


_SHOWN = 200


class _Placing(Parser):
    """A parser that keeps the places of the clauses behind a table's name."""

    def _parse_version(self) -> exp.Version | None:
        start, version = self._curr.start, super()._parse_version()
        if version is not None:
            version.meta.update(start=start, end=self._prev.end + 1)
        return version

    def _parse_table_sample(self, *args: Any, **named: Any) -> exp.TableSample | None:
        sample = super()._parse_table_sample(*args, **named)
        if sample is not None:
            sample.meta["end"] = self._prev.end + 1
        return sample


class TableUse(Value):
    """One place of a query that names a table, or calls a function in FROM."""

    name: tuple[str, ...]
    """Its parts as written, without quotes: catalog, database, table, as many as there are."""
    start: int
    """Where it begins in the text."""
    end: int
    """Behind its last character, and behind its AS OF."""
    alias: str | None = None
    alias_at: int = 0
    """Where an alias would go, if it has none."""
    version: str | None = None
    """The operand of VERSION AS OF: digits, or a text without quotes."""
    timestamp: str | None = None
    """The operand of TIMESTAMP AS OF: an expression as written."""
    arguments: tuple[str, ...] | None = None
    """Of a function: its arguments, as written."""


class Query(Value):
    """A query, and the tables it names that are no names of its own WITH."""

    text: str
    uses: tuple[TableUse, ...]
    qualifiers: tuple[tuple[tuple[str, int, int], ...], ...] = ()
    """Of columns with at least two names before theirs: all names, with their places."""
    functions: frozenset[str] = frozenset()
    """Names of functions that are not of standard SQL, in small letters."""

    def replace_tables(self, choose: Callable[[TableUse], str | None], *, quote: str = "`") -> str:
        """Return the query with other tables; one for which `choose` returns None stays.

        Each has an alias then, its own name where it had none, so that its columns can be named
        as before, with the database too.
        """
        edits: list[tuple[int, int, str]] = []
        named: dict[tuple[str, ...], str] = {}
        named_as: dict[str, tuple[str, ...]] = {}
        for use in self.uses:
            other = choose(use)
            if other is None:
                continue
            edits.append((use.start, use.end, other))
            if use.alias is None:
                full = tuple(part.lower() for part in use.name)
                alias = use.name[-1]
                if named_as.setdefault(alias.lower(), full) != full:
                    alias = "_".join(use.name)
                named[full] = alias
                edits.append((use.alias_at, use.alias_at, f" AS {_quote(alias, quote)}"))
        for names in self.qualifiers:
            edits += _requalify(names, named, quote)
        return _edit(self.text, edits)


_INCOMPLETE = re.compile(r"Required keyword: '\w+' missing for <class '[\w.]+\.(\w+)'>")
"""The parser's words for a part of a query without its operand."""


@lru_cache(16)
def find_tables(text: str, dialect: str = "spark") -> Query:
    """Find the tables a query names.

    >>> [use.name for use in find_tables("WITH a AS (SELECT 1) SELECT * FROM a, db.t$files").uses]
    [('db', 't$files')]
    """
    sql = SparkSql() if dialect == "spark" else Dialect.get_or_raise(dialect)
    parser: Any = type("Parser", (_Placing, sql.parser_class), {})
    try:
        tokens = sql.tokenize(text)
        trees = parser(dialect=sql).parse(tokens, text)
    except PARSE_FAULTS as error:
        reason = _INCOMPLETE.sub(lambda match: f"{match[1].upper()} is not complete", str(error))
        raise InvalidInputError(
            f"Cannot parse the query '{_short(text)}': {reason[:_SHOWN]}", kind="query"
        ) from error
    if len(trees) != 1 or not isinstance(trees[0], exp.Query | exp.Values):
        raise InvalidInputError(
            f"'{_short(text)}' is no query: one SELECT, VALUES or WITH.", kind="query"
        )
    tree = trees[0]
    places = {token.start: number for number, token in enumerate(tokens)}
    reading = _Reading(text=text, tokens=tokens, places=places)
    uses = [use for node in tree.find_all(exp.Table) for use in reading.use(node)]
    qualifiers = (reading.qualifier(node) for node in tree.find_all(exp.Column))
    return Query(
        text=text,
        uses=tuple(sorted(uses, key=lambda use: use.start)),
        qualifiers=tuple(names for names in qualifiers if names),
        functions=frozenset(node.name.lower() for node in tree.find_all(exp.Anonymous)),
    )


def names_in(text: str, without: str | None = None) -> frozenset[str]:
    """Return all names that columns of a query are made of: of columns, fields and tables.

    Only the table shows which of them are its columns.
    """
    tree = _tree(text)
    if tree is None:
        return frozenset()
    other = (without or "").lower()
    columns = [column.parts for column in tree.find_all(exp.Column)]
    return frozenset(
        part.name for parts in columns for part in parts if parts[0].name.lower() != other
    )


def equal_columns(condition: str) -> list[frozenset[str]]:
    """Return the pairs of columns that are equal wherever a condition holds, in small letters.

    >>> [sorted(pair) for pair in equal_columns("t.a = S.a AND (`s`.`b` = t.b) AND t.c = 1")]
    [['s.a', 't.a'], ['s.b', 't.b']]
    """
    equal = [p for p in conjuncts(condition) if isinstance(p, exp.EQ | exp.NullSafeEQ)]
    pairs = [(part.left.unnest(), part.right.unnest()) for part in equal]
    columns = ([side for side in pair if isinstance(side, exp.Column)] for pair in pairs)
    return [
        frozenset(".".join(name.name for name in side.parts).lower() for side in pair)
        for pair in columns
        if len(pair) == 2
    ]


def conjuncts(condition: str) -> list[exp.Expr]:
    """Return the conditions that a condition joins by AND; itself, if there is none."""
    tree = _tree(f"SELECT 1 WHERE {condition}")
    both = tree.args["where"].this.unnest() if tree is not None else exp.null()
    return [part.unnest() for part in (both.flatten() if isinstance(both, exp.And) else [both])]


def _tree(text: str) -> exp.Expr | None:
    try:
        return SparkSql().parse(text)[0]
    except PARSE_FAULTS as error:
        raise InvalidInputError(f"Cannot parse '{_short(text)}'.", kind="query") from error


class _Reading(Value):
    text: str
    tokens: Sequence[Token]
    places: dict[int, int]
    """Where a token starts → its number."""

    def use(self, node: exp.Table) -> Iterator[TableUse]:
        """Yield the use of a table in a node; nothing, if it is no table."""
        if isinstance(node.this, exp.Func):
            yield from self._function(node)
            return
        names = self._names(node.parts)
        is_hint = node.find_ancestor(exp.Hint) is not None
        if not names or is_hint or (len(names) == 1 and _is_own(node)):
            return
        start, end = names[0][1], names[-1][2]
        version = timestamp = None
        if (clause := node.args.get("version")) is not None:
            written = self.text[clause.meta["start"] : clause.meta["end"]]
            as_of = _AS_OF.fullmatch(written)
            if as_of is None or self.text[end : clause.meta["start"]].strip():
                raise InvalidInputError(
                    f"The AS OF of table '{'.'.join(name for name, _, _ in names)}' is not"
                    " understood; write VERSION AS OF or TIMESTAMP AS OF right behind its name.",
                    kind="query",
                )
            end = clause.meta["end"]
            if as_of["kind"].upper() == "VERSION":
                version = as_of["operand"].strip("'\"").removesuffix("L")
            else:
                timestamp = as_of["operand"]
        sample = node.args.get("sample")
        yield TableUse(
            name=tuple(name for name, _, _ in names),
            start=start,
            end=end,
            alias=node.alias or None,
            alias_at=end if sample is None else sample.meta["end"],
            version=version,
            timestamp=timestamp,
        )

    def _function(self, node: exp.Table) -> Iterator[TableUse]:
        function = node.this
        if not isinstance(function, exp.Anonymous):
            return
        start = function.meta["start"]
        opened = next(
            number
            for number in range(self.places.get(start, 0), len(self.tokens))
            if self.tokens[number].token_type is TokenType.L_PAREN
        )
        closed, arguments = self._call(opened)
        end = self.tokens[closed].end + 1
        yield TableUse(
            name=(function.name,),
            start=start,
            end=end,
            alias=node.alias or None,
            alias_at=end,
            arguments=arguments,
        )

    def _call(self, opened: int) -> tuple[int, tuple[str, ...]]:
        """Return the token that closes a parenthesis, and the arguments inside, as written."""
        arguments, depth, first = [], 0, self.tokens[opened].end + 1
        for number, token in enumerate(self.tokens[opened:], opened):
            kind = token.token_type
            depth += (kind is TokenType.L_PAREN) - (kind is TokenType.R_PAREN)
            if depth == 0 or (depth == 1 and kind is TokenType.COMMA):
                arguments.append(self.text[first : token.start].strip())
                first = token.end + 1
            if depth == 0:
                return number, tuple(filter(None, arguments))
        return len(self.tokens) - 1, ()

    def qualifier(self, node: exp.Column) -> tuple[tuple[str, int, int], ...]:
        """Return the parts of a column's name if it is qualified by at least two."""
        names = self._names([part for part in node.parts if isinstance(part, exp.Identifier)])
        starred = isinstance(node.this, exp.Star)
        return tuple(names) if len(names) + starred > 2 else ()

    def _names(self, parts: Sequence[Any]) -> list[tuple[str, int, int]]:
        """Return names with their positions; empty if the position of one is unknown."""
        names = []
        for part in parts:
            if not isinstance(part, exp.Identifier) or "start" not in part.meta:
                return []
            names.append((part.name, part.meta["start"], part.meta["end"] + 1))
        return names


def _is_own(node: exp.Table) -> bool:
    """Whether a name is that of a WITH around it, declared before it."""
    path: list[exp.Expr] = [node]
    while (outer := path[-1].parent) is not None:
        clause = outer.args.get("with_") or outer.args.get("with")
        if isinstance(clause, exp.With):
            names = [each.alias.lower() for each in clause.expressions]
            if path[-1] is clause and not clause.args.get("recursive"):
                own = [any(each is step for step in path) for each in clause.expressions]
                names = names[: own.index(True)] if any(own) else names
            if node.name.lower() in names:
                return True
        path.append(outer)
    return False


def _requalify(
    names: Sequence[tuple[str, int, int]], named: dict[tuple[str, ...], str], quote: str
) -> Iterator[tuple[int, int, str]]:
    """Yield the edit that names a column's table by its alias, if its name is that of a table."""
    plain = tuple(name.lower() for name, _, _ in names)
    for full, alias in named.items():
        for own in (full, full[-2:]):
            if len(own) > 1 and plain[: len(own)] == own:
                yield names[0][1], names[len(own) - 1][2], _quote(alias, quote)
                return


def _edit(text: str, edits: Sequence[tuple[int, int, str]]) -> str:
    parts, place = [], 0
    for start, end, new in sorted(edits, key=lambda edit: edit[:2]):
        parts += [text[place:start], new]
        place = end
    return "".join([*parts, text[place:]])


def _quote(name: str, quote: str) -> str:
    return f"{quote}{name.replace(quote, quote * 2)}{quote}"


def _short(text: str) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= _SHOWN else f"{plain[:_SHOWN]}..."
