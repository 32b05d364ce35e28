"""Text → a statement. Nothing is opened, and nothing runs."""

import re
from collections.abc import Callable

from paimon_assets.engine.spec.types.literals import Literal
from paimon_assets.engine.table.segments.segment_sql import parse_statement as parse_segments
from paimon_assets.engine.table.sql import parse_rows, parse_tables
from paimon_assets.engine.table.sql.parse_rows import fixed_partition, literal_of
from paimon_assets.engine.table.sql.parse_tables import refused, replaced_table
from paimon_assets.engine.table.sql.statements import (
    Analyze,
    Call,
    Describe,
    Names,
    Select,
    Show,
    Shown,
    Statement,
)
from paimon_assets.engine.table.sql_words import Words

_SEGMENTS = re.compile(
    r"\s*(ALTER\s+TABLE\s+[\w.`$]+\s+ADD\s+SEGMENT\b|SHOW\s+(HISTORY\s+)?SEGMENTS\b|"
    r"CLEAN\s+FILES\b|DELETE\s+FROM\s+TABLE\s+\S+\s+WHERE\s+SEGMENT\b)",
    re.IGNORECASE,
)
_QUERIES = ("SELECT", "WITH", "VALUES", "FROM", "TABLE")
_REFUSED = {
    "COPY": "COPY INTO: add files as a segment, or INSERT INTO ... SELECT * FROM csv.`path`",
    "SET": "settings are those of the session: session.conf.set(...)",
    "RESET": "settings are those of the session: session.conf.unset(...)",
    "USE": "name the database in the table's name, or by the argument `database`",
    "REFRESH": "every statement looks at the newest snapshot",
    "CACHE": "cache the DataFrame",
    "UNCACHE": "cache the DataFrame",
    "MSCK": "partitions are found in the table's own metadata",
    "EXPLAIN": "call explain() of the DataFrame of the query",
    "LOAD": "INSERT INTO ... SELECT * FROM parquet.`path`, or add the files as a segment",
    "GRANT": "grants are the catalog server's",
    "REVOKE": "grants are the catalog server's",
}
_FORMS = (
    "SELECT, INSERT, UPDATE, DELETE, MERGE INTO, CREATE, ALTER, DROP, TRUNCATE TABLE, SHOW,"
    " DESCRIBE, ANALYZE TABLE and CALL"
)


def is_segment_statement(text: str) -> bool:
    """Whether a text begins as a statement on segments does."""
    return _SEGMENTS.match(text) is not None


def parse_sql(text: str, names: Names | None = None) -> Statement:
    """Parse one statement; a semicolon may end it."""
    names = names or Names()
    if is_segment_statement(text):
        return parse_segments(text)
    words = Words(text=text, forms=_FORMS)
    if words.sees("(") or any(words.sees(word) for word in _QUERIES):
        return Select(query=words.rest("a query"))
    for first, parse in _PARSERS:
        if words.takes(*first):
            return parse(words, names)
    for word, way_out in _REFUSED.items():
        if words.sees(word):
            raise refused(word, way_out)
    return words.refuse("a statement")


def _call(words: Words, names: Names) -> Call:
    path = words.path("a procedure")
    if path[-2:-1] not in ((), ("sys",)) or path[:-2] not in ((), (names.catalog,)):
        words.refuse("a procedure of sys")
    arguments: dict[str, Literal] = {}
    words.wants("(")
    while not words.sees(")"):
        behind = words.until(",", "=", "=>", expected="an argument")
        if words.takes("=>") or words.takes("=", ">") or words.takes("="):
            name = behind.strip("`")
            arguments[name] = literal_of(words.until(",", expected="a value"))
        else:
            arguments[str(len(arguments))] = literal_of(behind)
        if not words.takes(","):
            break
    words.wants(")")
    words.ends()
    return Call(procedure=path[-1].lower(), arguments=arguments)


def _show(words: Words, names: Names) -> Show:
    if words.takes("CREATE", "TABLE") or words.takes("CREATE", "VIEW"):
        found = Show(shown=Shown.CREATE, table=names.identifier(words.path("a table")))
    elif words.takes("DATABASES") or words.takes("SCHEMAS") or words.takes("NAMESPACES"):
        found = Show(shown=Shown.DATABASES, pattern=_pattern(words))
    elif words.sees("TABLES") or words.sees("VIEWS"):
        shown = Shown(words.one("TABLES or VIEWS", "word").lower())
        database = names.database
        if words.takes("IN") or words.takes("FROM"):
            database = names.database_of(words.path("a database"))
        if database is None:
            words.refuse("IN and a database")
        found = Show(shown=shown, database=database, pattern=_pattern(words))
    elif words.takes("PARTITIONS"):
        table = names.identifier(words.path("a table"))
        spec = fixed_partition(words) if words.takes("PARTITION") else ()
        found = Show(shown=Shown.PARTITIONS, table=table, partition=spec)
    elif words.takes("COLUMNS"):
        if not words.takes("IN"):
            words.wants("FROM")
        found = Show(shown=Shown.COLUMNS, table=names.identifier(words.path("a table")))
    elif words.takes("TAGS"):
        found = Show(shown=Shown.TAGS, table=names.identifier(words.path("a table")))
    elif words.takes("TBLPROPERTIES"):
        found = Show(shown=Shown.PROPERTIES, table=names.identifier(words.path("a table")))
    else:
        what = "" if words.at_end else words.one("a word", "word", "quoted", "text")
        raise refused(
            f"SHOW {what}".strip(),
            "DATABASES, TABLES, VIEWS, COLUMNS, PARTITIONS, TAGS, TBLPROPERTIES, SEGMENTS and"
            " CREATE TABLE are shown; system tables have the rest",
        )
    words.ends()
    return found


def _pattern(words: Words) -> str | None:
    if words.takes("LIKE"):
        return words.string("a pattern")
    if not words.at_end and not words.sees(";"):
        return words.string("LIKE and a pattern")
    return None


def _describe(words: Words, names: Names) -> Describe:
    for word in ("DATABASE", "SCHEMA", "FUNCTION", "QUERY", "SELECT", "NAMESPACE"):
        if words.sees(word):
            raise refused(f"DESCRIBE {word}", "tables and views are described")
    words.takes("TABLE")
    extended = words.takes("EXTENDED") or words.takes("FORMATTED")
    table = names.identifier(words.path("a table"))
    words.ends()
    return Describe(table=table, extended=extended)


def _analyze(words: Words, names: Names) -> Analyze:
    table = names.identifier(words.path("a table"))
    words.wants("COMPUTE", "STATISTICS")
    columns: tuple[str, ...] | None = None
    if words.takes("FOR", "ALL", "COLUMNS"):
        columns = ()
    elif words.takes("FOR", "COLUMNS"):
        columns = tuple(words.several(lambda: words.one("a column", "word", "quoted")))
    words.ends()
    return Analyze(table=table, columns=columns)


def _replace(_words: Words, _names: Names) -> Statement:
    raise replaced_table()


_PARSERS: tuple[tuple[tuple[str, ...], Callable[[Words, Names], Statement]], ...] = (
    (("INSERT",), parse_rows.insert),
    (("DELETE", "FROM"), parse_rows.delete),
    (("UPDATE",), parse_rows.update),
    (("MERGE", "INTO"), parse_rows.merge),
    (("TRUNCATE", "TABLE"), parse_rows.truncate),
    (("CREATE",), parse_tables.create),
    (("ALTER",), parse_tables.alter),
    (("DROP",), parse_tables.drop),
    (("REPLACE", "TABLE"), _replace),
    (("CALL",), _call),
    (("SHOW",), _show),
    (("DESCRIBE",), _describe),
    (("DESC",), _describe),
    (("ANALYZE", "TABLE"), _analyze),
)
