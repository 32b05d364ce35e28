"""INSERT, UPDATE, DELETE, MERGE and TRUNCATE → statements."""

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.predicate.expression import LiteralValue
from paimon_assets.engine.spec.types.literals import Literal
from paimon_assets.engine.table.read.where import parse_expression
from paimon_assets.engine.table.sql.statements import (
    Acts,
    Delete,
    Insert,
    Meets,
    Merge,
    Names,
    PartitionTexts,
    Truncate,
    Update,
    When,
)
from paimon_assets.engine.table.sql.table_uses import find_tables
from paimon_assets.engine.table.sql_words import SparkSql, Words


def literal_of(text: str) -> Literal:
    """Return the value of a literal as written.

    >>> literal_of("10L"), literal_of("'a'"), literal_of("DATE '2024-01-01'"), literal_of("true")
    (10, 'a', '2024-01-01', True)
    """
    try:
        value = parse_expression(text, SparkSql)
    except InvalidInputError:
        value = None
    if not isinstance(value, LiteralValue):
        raise InvalidInputError(
            f"'{text}' is no literal, such as 1, 'a', true, DATE '2024-01-01' or NULL.",
            kind="statement",
        )
    return value.value


def insert(words: Words, names: Names) -> Insert:
    """Parse what follows INSERT."""
    overwrites = words.takes("OVERWRITE")
    if not overwrites:
        words.wants("INTO")
    words.takes("TABLE")
    table = names.identifier(words.path("a table"))
    fixed: PartitionTexts = ()
    dynamic: tuple[str, ...] = ()
    if words.takes("PARTITION"):
        fixed, dynamic = partition(words)
        if words.sees("IF", "NOT", "EXISTS"):
            words.refuse("the rows; INSERT ... IF NOT EXISTS is not taken")
    columns: tuple[str, ...] = ()
    by_name = words.takes("BY", "NAME")
    if not by_name and words.sees("(") and not _opens_query(words):
        columns = tuple(path[-1] for path in words.listed("a column"))
    return Insert(
        table=table,
        overwrites=overwrites,
        fixed=fixed,
        dynamic=dynamic,
        columns=columns,
        by_name=by_name,
        query=words.rest("VALUES or a query"),
    )


def _opens_query(words: Words) -> bool:
    return any(words.sees("(", word) for word in ("SELECT", "WITH", "VALUES", "FROM", "TABLE", "("))


def partition(words: Words) -> tuple[PartitionTexts, tuple[str, ...]]:
    """Go behind `(a = 1, b)`; return the columns with a value, and those without."""
    fixed: list[tuple[str, Literal]] = []
    dynamic: list[str] = []

    def column() -> None:
        name = words.one("a partition column", "word", "quoted")
        if words.takes("="):
            fixed.append((name, literal_of(words.until(",", expected="a value"))))
        else:
            dynamic.append(name)

    words.enclosed(column)
    return tuple(fixed), tuple(dynamic)


def fixed_partition(words: Words) -> PartitionTexts:
    """Go behind `(a = 1, b = 2)`."""
    fixed, dynamic = partition(words)
    if dynamic:
        words.refuse(f"a value of the partition column '{dynamic[0]}'")
    return fixed


def delete(words: Words, names: Names) -> Delete:
    """Parse what follows DELETE FROM."""
    table = names.identifier(words.path("a table"))
    alias = _alias(words, "WHERE")
    where = words.rest("a condition") if words.takes("WHERE") else None
    words.ends()
    return Delete(table=table, alias=alias, where=where)


def update(words: Words, names: Names) -> Update:
    """Parse what follows UPDATE."""
    table = names.identifier(words.path("a table"))
    alias = _alias(words, "SET")
    words.wants("SET")
    assignments = _assignments(words, "WHERE")
    where = words.rest("a condition") if words.takes("WHERE") else None
    words.ends()
    return Update(table=table, alias=alias, assignments=assignments, where=where)


def _assignments(words: Words, *stops: str) -> tuple[tuple[tuple[str, ...], str], ...]:
    def assignment() -> tuple[tuple[str, ...], str]:
        path = words.path("a column")
        words.wants("=")
        return path, words.until(",", *stops)

    return tuple(words.several(assignment))


def _alias(words: Words, *stops: str) -> str | None:
    if words.takes("AS"):
        return words.one("an alias", "word", "quoted")
    if words.at_end or any(words.sees(stop) for stop in (*stops, ";")):
        return None
    return words.one("an alias", "word", "quoted")


def merge(words: Words, names: Names) -> Merge:
    """Parse what follows MERGE INTO."""
    path = words.path("a table")
    table = names.identifier(path)
    alias = _alias(words, "USING")
    words.wants("USING")
    source = words.until("ON", expected="a source")
    words.wants("ON")
    on = words.until("WHEN")
    whens = []
    while words.takes("WHEN"):
        whens.append(_when(words))
    if not whens:
        words.refuse("WHEN MATCHED or WHEN NOT MATCHED")
    words.ends()
    return Merge(
        table=table,
        alias=alias,
        source=source,
        source_alias=_source_alias(source),
        on=on,
        whens=tuple(whens),
    )


def _source_alias(source: str) -> str:
    query = f"SELECT * FROM {source}"
    if not source.startswith("("):
        (use, *_) = find_tables(query).uses
        return use.alias or use.name[-1]
    words = Words(text=source)
    words.inside()
    words.takes("AS")
    return words.one("an alias of the source", "word", "quoted")


def _when(words: Words) -> When:
    meets = Meets.MATCHED
    if words.takes("NOT"):
        meets = Meets.NOT_MATCHED
    words.wants("MATCHED")
    if meets is Meets.NOT_MATCHED and words.takes("BY", "SOURCE"):
        meets = Meets.NOT_BY_SOURCE
    elif meets is Meets.NOT_MATCHED:
        words.takes("BY", "TARGET")
    condition = words.until("THEN") if words.takes("AND") else None
    words.wants("THEN")
    if meets is Meets.NOT_MATCHED:
        words.wants("INSERT")
        return When(meets=meets, condition=condition, acts=Acts.INSERT, values=_inserted(words))
    if words.takes("DELETE"):
        return When(meets=meets, condition=condition, acts=Acts.DELETE)
    words.wants("UPDATE", "SET")
    values = (
        None
        if words.takes("*")
        else tuple((path[-1], text) for path, text in _assignments(words, "WHEN"))
    )
    if values is None and meets is Meets.NOT_BY_SOURCE:
        words.refuse("columns to set: there is no source row")
    return When(meets=meets, condition=condition, acts=Acts.UPDATE, values=values)


def _inserted(words: Words) -> tuple[tuple[str, str], ...] | None:
    if words.takes("*"):
        return None
    columns = [path[-1] for path in words.listed("a column")]
    words.wants("VALUES", "(")
    values = words.several(lambda: words.until(","))
    words.wants(")")
    if len(values) != len(columns):
        words.refuse(f"{len(columns)} values, one a column, and not {len(values)}")
    return tuple(zip(columns, values, strict=True))


def truncate(words: Words, names: Names) -> Truncate:
    """Parse what follows TRUNCATE TABLE."""
    table = names.identifier(words.path("a table"))
    specs = (fixed_partition(words),) if words.takes("PARTITION") else ()
    words.ends()
    return Truncate(table=table, partitions=specs)
