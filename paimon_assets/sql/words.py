"""Words: a statement of SQL, read word by word, for statements that this engine parses itself.

sqlglot's tokens, as Spark cuts them: single and double quotes are texts, backticks are names, and
comments are passed over. The text between two places is available as it was written, so that a
query inside a statement reaches the query engine unchanged.
"""

from collections.abc import Callable, Sequence
from typing import ClassVar, NoReturn, TypeVar

from msgspec import Struct, field
from sqlglot import TokenType
from sqlglot.errors import SqlglotError, TokenError

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.table.read.spark_dialect import SparkSql

PARSE_FAULTS = (SqlglotError, RecursionError, ValueError, TypeError, LookupError, AttributeError)
"""Errors of sqlglot for a text that is no SQL; not all of them are its own."""
_SHOWN = 200
_KINDS = {
    TokenType.STRING: "text",
    TokenType.RAW_STRING: "text",
    TokenType.NATIONAL_STRING: "text",
    TokenType.IDENTIFIER: "quoted",
    TokenType.VAR: "word",
    TokenType.NUMBER: "word",
}

_PRINTED_QUOTES = {"\u2018": "\u2019", "\u2019": "\u2019", "\u201c": "\u201d", "\u201d": "\u201d"}
"""A quote that begins a text → the one that ends it."""

T = TypeVar("T")


_OPENINGS = ("'", '"', "`", "/*", *_PRINTED_QUOTES)


class _Plain(SparkSql):
    """The same without keywords: each word and each mark is a token of its own."""

    class Tokenizer(SparkSql.Tokenizer):
        KEYWORDS: ClassVar[dict[str, TokenType]] = {}
        # Documents print quotes as typographers set them, and statements are pasted from there.
        QUOTES: ClassVar[list[str | tuple[str, str]]] = ["'", '"', *_PRINTED_QUOTES.items()]
        SINGLE_TOKENS: ClassVar[dict[str, TokenType]] = {
            **SparkSql.Tokenizer.SINGLE_TOKENS,
            **dict.fromkeys(_PRINTED_QUOTES, TokenType.UNKNOWN),
        }
        NUMERIC_LITERALS: ClassVar[dict[str, str]] = {}
        NUMBERS_CAN_HAVE_DECIMALS = False


class Word(Struct, frozen=True):
    """A word of a statement, and its position."""

    kind: str
    """`text`, `quoted`, `word`, `mark` or `unknown`."""
    text: str
    """Without quotes."""
    start: int
    end: int


def words_of(text: str) -> list[Word]:
    """Return the words of a text; from a quote that is not closed on, all is one `unknown`."""
    end, tokens = len(text), None
    while tokens is None:
        try:
            tokens = _Plain().tokenize(text[:end])
        except TokenError:
            end = max(0, *(text.rfind(mark, 0, end) for mark in _OPENINGS))
    words = [
        Word(_KINDS.get(each.token_type, "mark"), each.text, each.start, each.end + 1)
        for each in tokens
    ]
    behind = [Word("unknown", text[end:], end, len(text))] if end < len(text) else []
    return words + behind


def split_statements(text: str) -> list[str]:
    r"""Return the statements of a text, which semicolons end.

    >>> split_statements("select ';' -- a; b\n; drop table t;")
    ["select ';' -- a; b", 'drop table t']
    """
    ends = [word.start for word in words_of(text) if word.kind == "mark" and word.text == ";"]
    starts = [0, *(end + 1 for end in ends)]
    parts = (text[start:end] for start, end in zip(starts, [*ends, len(text)], strict=True))
    return [part.strip() for part in parts if words_of(part)]


class Words(Struct, kw_only=True):
    """A statement, and how far it was parsed.

    Every method that `wants` something raises `InvalidInputError` of kind `statement`, which names
    the expected words and the position.
    """

    text: str
    forms: str = ""
    """The statements that are possible, for messages."""
    _words: list[Word] = field(default_factory=list)
    _next: int = 0

    def __post_init__(self) -> None:
        self._words = words_of(self.text)
        if len(self._words) > 1 and self._words[-1].text == ";":
            self._words.pop()

    @property
    def at_end(self) -> bool:
        """Whether everything was parsed; a semicolon at the end is ignored."""
        return self._next == len(self._words)

    @property
    def place(self) -> int:
        """Where the next word begins in the text."""
        return len(self.text) if self.at_end else self._words[self._next].start

    def sees(self, *words: str) -> bool:
        """Whether these words come next, in any letter case."""
        coming = self._words[self._next : self._next + len(words)]
        return [w.kind in ("word", "mark") and w.text.upper() for w in coming] == list(words)

    def takes(self, *words: str) -> bool:
        """Take these words if they come next; return whether they did."""
        same = self.sees(*words)
        self._next += len(words) if same else 0
        return same

    def takes_any(self, *words: str) -> bool:
        """Take one of these words if one is next; return it."""
        return any(self.takes(word) for word in words)

    def wants(self, *words: str) -> None:
        """Take these words; refuse the statement if other words are next."""
        if not self.takes(*words):
            self.refuse(" ".join(words))

    def one(self, expected: str, *kinds: str) -> str:
        """Take one word of some kind, and return its text without quotes."""
        if self.at_end or self._words[self._next].kind not in kinds:
            self.refuse(expected)
        word = self._words[self._next]
        self._next += 1
        return word.text

    def name(self, expected: str) -> str:
        """Take a name."""
        return self.one(expected, "word", "quoted")

    def string(self, expected: str) -> str:
        """Take a text in quotes."""
        return self.one(expected, "text")

    def number(self, expected: str) -> int:
        """Take a number."""
        text = self.one(expected, "word", "text")
        if not text.isdecimal():
            self._next -= 1
            self.refuse(expected)
        return int(text)

    def path(self, expected: str) -> tuple[str, ...]:
        """Take names with dots between them."""
        names = [self.name(expected)]
        while self.takes("."):
            names.append(self.name(expected))
        return tuple(names)

    def several(self, read: Callable[[], T]) -> list[T]:
        """Read a list of items, each by `read`, with commas between."""
        items = [read()]
        while self.takes(","):
            items.append(read())
        return items

    def in_parentheses(self, read: Callable[[], T]) -> list[T]:
        """Take `several` in parentheses."""
        self.wants("(")
        items = self.several(read)
        self.wants(")")
        return items

    def names(self, expected: str) -> tuple[tuple[str, ...], ...]:
        """Take a list of names in parentheses."""
        return tuple(self.in_parentheses(lambda: self.path(expected)))

    def until(self, *stops: str, expected: str = "an expression") -> str:
        """Skip to the first of some words or the end, and return the text before, as written.

        Words inside parentheses, brackets and CASE ... END are no stops. It is not empty.
        """
        first, depth = self._next, 0
        while not self.at_end:
            word = self._words[self._next]
            name = word.text.upper() if word.kind in ("word", "mark") else ""
            if depth == 0 and name in (*stops, ")"):
                break
            depth += (name in ("(", "[", "CASE")) - (name in (")", "]", "END"))
            self._next += 1
        if first == self._next:
            self.refuse(expected)
        return self.text[self._words[first].start : self._words[self._next - 1].end].strip()

    def inside(self) -> str:
        """Skip parentheses, and return their text, as written."""
        self.wants("(")
        text = self.until(")", expected="something in the parentheses")
        self.wants(")")
        return text

    def rest(self, expected: str) -> str:
        """Return the rest of the text, as written; it is not empty."""
        if self.at_end:
            self.refuse(expected)
        start, self._next = self._words[self._next].start, len(self._words)
        return self.text[start : self._words[-1].end]

    def ends(self) -> None:
        """Refuse the statement if words are left."""
        self.takes(";")
        if not self.at_end:
            self.refuse("the end")

    def refuse(self, expected: str) -> NoReturn:
        """Raise an error with the position in the statement."""
        word = None if self.at_end else self._words[self._next]
        place = "the end" if word is None else f"'{self.text[word.start : word.end][:_SHOWN]}'"
        forms = f" Statements are {self.forms}." if self.forms else ""
        message = f"Expected {expected}, found {place} in: {self.text.strip()[:_SHOWN]}.{forms}"
        raise InvalidInputError(message, kind="statement")


def without_qualifiers(text: str, qualifiers: Sequence[tuple[str, ...]], instead: str = "") -> str:
    """Return an expression whose columns are named without their table, or with another.

    >>> without_qualifiers("t.a = 't.b' AND db.t.c > s.t.d", [("t",), ("db", "t")])
    "a = 't.b' AND c > s.t.d"
    """
    words = words_of(text)
    parts, place, number = [], 0, 0
    while number < len(words):
        for path in qualifiers:
            span = words[number : number + 2 * len(path)]
            names = [word.text.lower() for word in span[::2] if word.kind in ("word", "quoted")]
            dots = [word.text for word in span[1::2]]
            behind_dot = number > 0 and words[number - 1].text == "."
            if names == [n.lower() for n in path] and set(dots) == {"."} and not behind_dot:
                parts += [text[place : words[number].start], instead]
                number += 2 * len(path)
                place = words[number].start if number < len(words) else len(text)
                break
        else:
            number += 1
    return "".join([*parts, text[place:]])


def with_nulls_for_default(text: str) -> str:
    """Return VALUES in which each DEFAULT in place of a value is NULL.

    >>> with_nulls_for_default("VALUES (1, DEFAULT), ('DEFAULT', f(DEFAULT, 2))")
    "VALUES (1, NULL), ('DEFAULT', f(DEFAULT, 2))"
    """
    words = words_of(text)
    parts, place, depth = [], 0, 0
    for number, word in enumerate(words):
        depth += (word.text == "(") - (word.text == ")")
        around = (words[number - 1].text, words[min(number + 1, len(words) - 1)].text)
        alone = around[0] in ("(", ",") and around[1] in (")", ",")
        if depth == 1 and alone and word.kind == "word" and word.text.upper() == "DEFAULT":
            parts += [text[place : word.start], "NULL"]
            place = word.end
    return "".join([*parts, text[place:]])
