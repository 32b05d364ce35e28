"""Text → a statement. Nothing is opened, and nothing runs.

Parts that only a query engine understands are cut from the text, as written.
"""

import re
from collections.abc import Callable

from msgspec.structs import replace

from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.errors import InvalidInputError, UnsupportedFeatureError
from paimon_assets.engine.spec.evolution import schema_change as sc
from paimon_assets.engine.spec.predicate.predicate import LiteralValue
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.spec.types.data_types import DataType, not_null
from paimon_assets.engine.spec.types.literals import Literal
from paimon_assets.engine.table.read.spark_dialect import SparkSql
from paimon_assets.engine.table.read.where import parse_expression
from paimon_assets.sql import segment_sql as segments
from paimon_assets.sql import statements as st
from paimon_assets.sql.sql_types import take_type
from paimon_assets.sql.statements import Acts, Meets, Names, PartitionTexts, Shown
from paimon_assets.sql.table_uses import find_tables
from paimon_assets.sql.words import Words

_OF_SEGMENTS = re.compile(r"\s*TABLE\s+\S+\s+WHERE\s+SEGMENT\b", re.IGNORECASE)
"""The rest of DELETE FROM, for segments."""
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
    " DESCRIBE, ANALYZE TABLE, CLEAN FILES and CALL"
)

_SHOWN_OF_TABLES = {
    "CREATE TABLE": Shown.CREATE,
    "CREATE VIEW": Shown.CREATE,
    "PARTITIONS": Shown.PARTITIONS,
    "COLUMNS IN": Shown.COLUMNS,
    "COLUMNS FROM": Shown.COLUMNS,
    "TAGS": Shown.TAGS,
    "TBLPROPERTIES": Shown.PROPERTIES,
}
_TAGGED = {
    "RENAME TAG": "rename_tag",
    "DELETE TAG": "delete_tag",
    "CREATE OR REPLACE TAG": "create_or_replace_tag",
    "CREATE TAG": "create_tag",
    "REPLACE TAG": "replace_tag",
}
"""ALTER TABLE ... → the procedure it is short for."""
_PRIMARY_KEY = "primary-key"
_COMMENT = "comment"
_OWN_PROVIDERS = ("PAIMON", "PAIMON_ASSETS")


def parse_sql(text: str, names: Names | None = None) -> st.Statement:
    """Parse one statement; a semicolon may end it."""
    names = names or Names()
    words = Words(text=text, forms=_FORMS)
    if words.sees("(") or any(words.sees(word) for word in _QUERIES):
        return st.Select(query=words.rest("a query"))
    if words.takes("REPLACE", "TABLE"):
        raise _replaced_table()
    for first, parse in _PARSERS.items():
        if words.takes(*first.split()):
            statement = parse(words, names)
            words.ends()
            return statement
    for word, way_out in _REFUSED.items():
        if words.sees(word):
            raise _refusal(word, way_out)
    return words.refuse("a statement")


def parse_changes(text: str) -> tuple[sc.SchemaChange, ...]:
    """Return the changes of a schema that follow ALTER TABLE in a statement.

    Raises:
        InvalidInputError: It is no statement, or another one (kind `schema-change`).
    """
    statement = parse_sql(f"ALTER TABLE db.t {text}")
    if not isinstance(statement, st.AlterTable):
        message = f"'{text}' is not a change of a schema, such as 'ADD COLUMN note STRING'."
        raise InvalidInputError(message, kind="schema-change")
    return statement.changes


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
        message = f"'{text}' is no literal, such as 1, 'a', true, DATE '2024-01-01' or NULL."
        raise InvalidInputError(message, kind="statement")
    return value.value


def _insert(words: Words, names: Names) -> st.Insert:
    overwrites = words.takes("OVERWRITE")
    if not overwrites:
        words.wants("INTO")
    words.takes("TABLE")
    table = _table_name(words, names)
    fixed: PartitionTexts = ()
    dynamic: tuple[str, ...] = ()
    if words.takes("PARTITION"):
        fixed, dynamic = _partition(words)
        if words.sees("IF", "NOT", "EXISTS"):
            words.refuse("the rows; INSERT ... IF NOT EXISTS is not taken")
    columns: tuple[str, ...] = ()
    by_name = words.takes("BY", "NAME")
    opens_query = any(words.sees("(", word) for word in (*_QUERIES, "("))
    if not by_name and words.sees("(") and not opens_query:
        columns = tuple(path[-1] for path in words.names("a column"))
    return st.Insert(
        table=table,
        overwrites=overwrites,
        fixed=fixed,
        dynamic=dynamic,
        columns=columns,
        by_name=by_name,
        query=words.rest("VALUES or a query"),
    )


def _partition(words: Words) -> tuple[PartitionTexts, tuple[str, ...]]:
    """Parse `(a = 1, b)`; return the columns with a value, and those without."""
    fixed: list[tuple[str, Literal]] = []
    dynamic: list[str] = []

    def column() -> None:
        name = words.name("a partition column")
        if words.takes("="):
            fixed.append((name, literal_of(words.until(",", expected="a value"))))
        else:
            dynamic.append(name)

    words.in_parentheses(column)
    return tuple(fixed), tuple(dynamic)


def _fixed_partition(words: Words) -> PartitionTexts:
    """Parse `(a = 1, b = 2)`."""
    fixed, dynamic = _partition(words)
    if dynamic:
        words.refuse(f"a value of the partition column '{dynamic[0]}'")
    return fixed


def _delete(words: Words, names: Names) -> st.Statement:
    if _OF_SEGMENTS.match(words.text, words.place):
        words.takes("TABLE")
        return segments.delete_segments(words, _table_name(words, names))
    table = _table_name(words, names)
    alias = _alias(words, "WHERE")
    where = words.rest("a condition") if words.takes("WHERE") else None
    return st.Delete(table=table, alias=alias, where=where)


def _update(words: Words, names: Names) -> st.Update:
    table = _table_name(words, names)
    alias = _alias(words, "SET")
    words.wants("SET")
    assignments = _assignments(words, "WHERE")
    where = words.rest("a condition") if words.takes("WHERE") else None
    return st.Update(table=table, alias=alias, assignments=assignments, where=where)


def _assignments(words: Words, *stops: str) -> tuple[tuple[tuple[str, ...], str], ...]:
    def assignment() -> tuple[tuple[str, ...], str]:
        path = words.path("a column")
        words.wants("=")
        return path, words.until(",", *stops)

    return tuple(words.several(assignment))


def _alias(words: Words, *stops: str) -> str | None:
    if words.takes("AS"):
        return words.name("an alias")
    if words.at_end or any(words.sees(stop) for stop in (*stops, ";")):
        return None
    return words.name("an alias")


def _merge(words: Words, names: Names) -> st.Merge:
    table = _table_name(words, names)
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
    return st.Merge(
        table=table,
        alias=alias,
        source=source,
        source_alias=_source_alias(source),
        on=on,
        whens=tuple(whens),
    )


def _source_alias(source: str) -> str:
    if not source.startswith("("):
        (use, *_) = find_tables(f"SELECT * FROM {source}").uses
        return use.alias or use.name[-1]
    words = Words(text=source)
    words.inside()
    words.takes("AS")
    return words.name("an alias of the source")


def _when(words: Words) -> st.When:
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
        return st.When(
            meets=meets, condition=condition, acts=Acts.INSERT, values=_parse_insert(words)
        )
    if words.takes("DELETE"):
        return st.When(meets=meets, condition=condition, acts=Acts.DELETE)
    words.wants("UPDATE", "SET")
    values = (
        None
        if words.takes("*")
        else tuple((path[-1], text) for path, text in _assignments(words, "WHEN"))
    )
    if values is None and meets is Meets.NOT_BY_SOURCE:
        words.refuse("columns to set: there is no source row")
    return st.When(meets=meets, condition=condition, acts=Acts.UPDATE, values=values)


def _parse_insert(words: Words) -> tuple[tuple[str, str], ...] | None:
    if words.takes("*"):
        return None
    columns = [path[-1] for path in words.names("a column")]
    words.wants("VALUES", "(")
    values = words.several(lambda: words.until(","))
    words.wants(")")
    if len(values) != len(columns):
        words.refuse(f"one value a column ({len(columns)}), and not {len(values)}")
    return tuple(zip(columns, values, strict=True))


def _truncate(words: Words, names: Names) -> st.Truncate:
    table = _table_name(words, names)
    specs = (_fixed_partition(words),) if words.takes("PARTITION") else ()
    return st.Truncate(table=table, partitions=specs)


def _create(words: Words, names: Names) -> st.Statement:
    replaces = words.takes("OR", "REPLACE")
    if words.takes("VIEW"):
        return _view(words, names, replaces=replaces)
    if words.takes_any("DATABASE", "SCHEMA", "NAMESPACE"):
        missing_only = words.takes("IF", "NOT", "EXISTS")
        name = names.database_of(words.path("a database"))
        options = {_COMMENT: words.string("a comment")} if words.takes("COMMENT") else {}
        if words.takes("WITH"):
            words.takes_any("DBPROPERTIES", "PROPERTIES")
            options |= _properties(words)
        return st.CreateDatabase(name=name, if_not_exists=missing_only, options=options)
    if words.takes_any("TEMPORARY", "TEMP", "GLOBAL"):
        raise _refusal("CREATE TEMPORARY VIEW", "make it by session.sql or createTempView")
    if words.sees("FUNCTION") or words.sees("EXTERNAL"):
        kind = words.one("TABLE", "word").upper()
        raise _refusal(f"CREATE {kind}", "only databases, tables and views are created")
    if not words.takes("TABLE"):
        words.refuse("TABLE, VIEW or DATABASE")
    if replaces:
        raise _replaced_table()
    return _table(words, names)


def _replaced_table() -> UnsupportedFeatureError:
    return _refusal(
        "REPLACE TABLE", "drop and create the table, or ALTER it and INSERT OVERWRITE its rows"
    )


def _refusal(statement: str, way_out: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"{statement} is not taken; {way_out}.", kind="statement-unsupported", statement=statement
    )


def _table(words: Words, names: Names) -> st.CreateTable:
    missing_only = words.takes("IF", "NOT", "EXISTS")
    table = _table_name(words, names)
    like = _table_name(words, names) if words.takes("LIKE") else None
    columns: dict[str, DataType] = {}
    comments: dict[str, str] = {}
    defaults: dict[str, str] = {}
    keys: list[str] = []

    def column_or_key() -> None:
        if words.takes("PRIMARY", "KEY"):  # of Flink
            keys.extend(path[0] for path in words.names("a column"))
            words.takes("NOT", "ENFORCED")
        else:
            _column(words, columns, comments, defaults)

    if words.sees("("):
        words.in_parentheses(column_or_key)
    options, partitions, query = _clauses(words)
    if query is not None and columns:
        words.refuse("either columns or AS with a query")
    if not columns and query is None and like is None:
        words.refuse("columns, LIKE or AS with a query")
    named = options.pop(_PRIMARY_KEY, "").split(",")
    if keys and named != [""]:
        words.refuse(f"either PRIMARY KEY or '{_PRIMARY_KEY}'")
    keys = keys or [name.strip() for name in named if name.strip()]
    schema = Schema(
        fields=(),
        partition_keys=partitions,
        primary_keys=tuple(keys),
        comment=options.pop(_COMMENT, None),
        options=options,
    )
    if columns:
        declared = Schema.of(
            columns, partition_keys=partitions, primary_keys=keys, comments=comments
        )
        fields = (replace(f, default_value=defaults.get(f.name)) for f in declared.fields)
        schema = replace(schema, fields=tuple(fields))
    return st.CreateTable(
        table=table, schema=schema, if_not_exists=missing_only, query=query, like=like
    )


def _clauses(words: Words) -> tuple[dict[str, str], tuple[str, ...], str | None]:
    """Parse the clauses after the columns: properties, partition columns and the query."""
    options: dict[str, str] = {}
    partitions: tuple[str, ...] = ()
    while not words.at_end:
        if words.takes("USING"):
            provider = words.name("a format")
            if provider.upper() not in _OWN_PROVIDERS:
                raise _refusal(f"CREATE TABLE ... USING {provider}", "leave USING out")
        elif words.takes("PARTITIONED", "BY"):
            partitions = tuple(path[0] for path in words.names("a column"))
        elif words.takes("COMMENT"):
            options.setdefault(_COMMENT, words.string("a comment"))
        elif words.takes_any("TBLPROPERTIES", "OPTIONS") or words.sees("WITH", "("):
            words.takes("WITH")
            options.update(_properties(words))
        elif words.takes_any("LOCATION", "CLUSTERED", "STORED"):
            raise _refusal(
                "CREATE TABLE ... LOCATION, CLUSTERED BY or STORED AS",
                "the catalog decides where tables are, and 'bucket' is a property",
            )
        elif words.takes("AS") or words.sees("SELECT") or words.sees("WITH"):
            return options, partitions, words.rest("a query")
        else:
            words.refuse("PARTITIONED BY, COMMENT, TBLPROPERTIES or AS")
    return options, partitions, None


def _column(
    words: Words, columns: dict[str, DataType], comments: dict[str, str], defaults: dict[str, str]
) -> None:
    name = words.name("a column")
    if name in columns:
        words.refuse(f"column '{name}' once")
    kind = take_type(words)
    while True:
        if words.takes("NOT", "NULL"):
            kind = not_null(kind)
        elif words.takes("COMMENT"):
            comments[name] = words.string("a comment")
        elif words.takes("DEFAULT"):
            defaults[name] = _default(words.until(",", "COMMENT", "NOT"))
        elif words.sees("GENERATED"):
            raise _refusal("GENERATED columns", "compute the value when rows are written")
        else:
            break
    columns[name] = kind


def _default(text: str) -> str:
    value: Literal = literal_of(text)
    if value is None:
        raise _refusal("DEFAULT NULL", "leave the default out: it is null")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _properties(words: Words) -> dict[str, str]:
    """Parse `('key' = 'value', ...)`."""
    properties: dict[str, str] = {}

    def one() -> None:
        key = _key(words)
        words.wants("=")
        value = literal_of(words.until(",", expected="a value"))
        if key in properties:
            words.refuse(f"property '{key}' once")
        properties[key] = str(value).lower() if isinstance(value, bool) else str(value)

    words.in_parentheses(one)
    return properties


def _key(words: Words) -> str:
    key = words.one("a property", "text", "word", "quoted")
    while words.takes("."):
        key += "." + words.name("a property")
    return key


def _view(words: Words, names: Names, *, replaces: bool) -> st.CreateView:
    missing_only = words.takes("IF", "NOT", "EXISTS")
    name = _table_name(words, names, "a view")

    def column() -> tuple[str, str | None]:
        name = words.name("a column")
        return name, words.string("a comment") if words.takes("COMMENT") else None

    columns = words.in_parentheses(column) if words.sees("(") else ()
    comment, options = None, {}
    while not words.takes("AS"):
        if words.takes("COMMENT"):
            comment = words.string("a comment")
        elif words.takes("TBLPROPERTIES"):
            options = _properties(words)
        else:
            words.refuse("AS")
    return st.CreateView(
        name=name,
        columns=tuple(columns),
        comment=comment,
        options=options,
        query=words.rest("a query"),
        if_not_exists=missing_only,
        replaces=replaces,
    )


def _drop(words: Words, names: Names) -> st.Statement:
    if words.takes_any("DATABASE", "SCHEMA", "NAMESPACE"):
        if_exists = words.takes("IF", "EXISTS")
        name = names.database_of(words.path("a database"))
        cascade = words.takes("CASCADE")
        if not cascade:
            words.takes("RESTRICT")
        return st.DropDatabase(name=name, if_exists=if_exists, cascade=cascade)
    is_view = words.takes("VIEW")
    if not is_view and not words.takes("TABLE"):
        words.refuse("TABLE, VIEW or DATABASE")
    if_exists = words.takes("IF", "EXISTS")
    dropped = _table_name(words, names, "a name")
    words.takes("PURGE")
    cascade = not is_view and words.takes("CASCADE")
    return st.Drop(name=dropped, if_exists=if_exists, is_view=is_view, cascade=cascade)


def _alter(words: Words, names: Names) -> st.Statement:
    if words.takes("VIEW"):
        name = _table_name(words, names, "a view")
        if not words.takes("RENAME", "TO"):
            raise _refusal("ALTER VIEW but RENAME TO", "CREATE OR REPLACE the view")
        return _rename(words, names, name, is_view=True)
    if words.takes_any("DATABASE", "SCHEMA", "NAMESPACE"):
        raise _refusal("ALTER DATABASE", "properties of a database are set through its catalog")
    words.wants("TABLE")
    table = _table_name(words, names)
    if words.takes("RENAME", "TO"):
        return _rename(words, names, table)
    if words.takes("DROP", "PARTITION") or words.takes("DROP", "IF", "EXISTS", "PARTITION"):
        specs = [_fixed_partition(words)]
        while words.takes(","):
            words.takes("PARTITION")
            specs.append(_fixed_partition(words))
        return st.Truncate(table=table, partitions=tuple(specs))
    if words.takes("ADD", "SEGMENT"):
        return segments.add_segment(words, table)
    tagged = _tag(words, str(table))
    return tagged or st.AlterTable(table=table, changes=tuple(_changes(words)))


def _rename(words: Words, names: Names, name: Identifier, *, is_view: bool = False) -> st.Rename:
    names = replace(names, database=name.database)
    return st.Rename(name=name, target=_table_name(words, names, "a name"), is_view=is_view)


def _tag(words: Words, table: str) -> st.Call | None:
    procedure = next((name for form, name in _TAGGED.items() if words.takes(*form.split())), None)
    if procedure is None:
        return None
    arguments: dict[str, Literal] = {"table": table}
    if procedure == "delete_tag":
        arguments["if_exists"] = words.takes("IF", "EXISTS")
    elif procedure == "create_tag":
        arguments["if_not_exists"] = words.takes("IF", "NOT", "EXISTS")
    arguments["tag"] = words.name("a tag")
    if procedure == "rename_tag":
        words.wants("TO")
        arguments["target_tag"] = words.name("a tag")
    elif procedure != "delete_tag":
        if words.takes("AS", "OF", "VERSION"):
            arguments["snapshot"] = words.number("a snapshot")
        if words.takes("RETAIN"):
            unit = words.number("a number"), words.one("DAYS, HOURS or MINUTES", "word").lower()
            arguments["time_retained"] = f"{unit[0]} {unit[1].removesuffix('s')}"
    return st.Call(procedure=procedure, arguments=arguments)


def _changes(words: Words) -> list[sc.SchemaChange]:
    if words.takes("SET", "TBLPROPERTIES"):
        return [
            sc.UpdateComment(comment=value)
            if key == _COMMENT
            else sc.SetOption(key=key, value=value)
            for key, value in _properties(words).items()
        ]
    if words.takes("UNSET", "TBLPROPERTIES"):
        words.takes("IF", "EXISTS")
        return [
            sc.UpdateComment(comment=None) if key == _COMMENT else sc.RemoveOption(key=key)
            for key in words.in_parentheses(lambda: _key(words))
        ]
    if words.takes("ADD", "COLUMNS") or words.takes("ADD", "COLUMN"):
        return _add(words)
    if words.takes("RENAME", "COLUMN"):
        path = words.path("a column")
        words.wants("TO")
        return [sc.RenameColumn(field_names=path, new_name=words.name("a name"))]
    if words.takes("DROP", "COLUMNS") or words.takes("DROP", "COLUMN"):
        words.takes("IF", "EXISTS")
        read = words.in_parentheses if words.sees("(") else words.several
        return [sc.DropColumn(field_names=path) for path in read(lambda: words.path("a column"))]
    if words.takes("ALTER", "COLUMN") or words.takes("CHANGE", "COLUMN") or words.takes("ALTER"):
        return _parse_alter(words)
    for verb in ("ADD", "REPLACE", "SET", "RECOVER", "CLUSTER", "RENAME", "DROP"):
        if words.takes(verb):
            behind = "" if words.at_end else words.one("a word", "word", "text", "quoted")
            raise _refusal(
                f"ALTER TABLE ... {verb} {behind}".strip(),
                "columns are ADDed, DROPped, RENAMEd and ALTERed, properties SET and UNSET,"
                " partitions DROPped",
            )
    return words.refuse("ADD, DROP, RENAME, ALTER COLUMN, SET or UNSET TBLPROPERTIES")


def _add(words: Words) -> list[sc.SchemaChange]:
    def column() -> sc.SchemaChange:
        path, kind = words.path("a column"), take_type(words)
        comment, move = None, None
        while True:
            if words.takes("COMMENT"):
                comment = words.string("a comment")
            elif words.sees("NOT", "NULL"):
                raise _refusal("ADD COLUMN ... NOT NULL", "rows have no value yet: add it null")
            elif words.sees("DEFAULT"):
                raise _refusal("ADD COLUMN ... DEFAULT", "then ALTER COLUMN SET DEFAULT")
            elif (move := move or _move(words, path)) is None or not words.sees("COMMENT"):
                break
        return sc.AddColumn(field_names=path, data_type=kind, comment=comment, move=move)

    return words.in_parentheses(column) if words.sees("(") else words.several(column)


def _move(words: Words, path: tuple[str, ...]) -> sc.Move | None:
    if words.takes("FIRST"):
        return sc.Move(field_name=path[-1], type=sc.MoveType.FIRST)
    if words.takes("AFTER"):
        after = words.name("a column")
        return sc.Move(field_name=path[-1], reference_field_name=after, type=sc.MoveType.AFTER)
    return None


def _parse_alter(words: Words) -> list[sc.SchemaChange]:
    path = words.path("a column")
    if words.takes("TYPE"):
        return [sc.UpdateColumnType(
            field_names=path, new_data_type=take_type(words), keep_nullability=True
        )]  # fmt: skip
    if words.takes("COMMENT"):
        return [sc.UpdateColumnComment(field_names=path, new_comment=words.string("a comment"))]
    if words.takes("SET", "NOT", "NULL"):
        return [sc.UpdateColumnNullability(field_names=path, new_nullability=False)]
    if words.takes("DROP", "NOT", "NULL"):
        return [sc.UpdateColumnNullability(field_names=path, new_nullability=True)]
    if words.takes("SET", "DEFAULT"):
        default = _default(words.rest("a value"))
        return [sc.UpdateColumnDefaultValue(field_names=path, new_default_value=default)]
    if words.takes("DROP", "DEFAULT"):
        return [sc.UpdateColumnDefaultValue(field_names=path, new_default_value=None)]
    move = _move(words, path)
    if move is None:
        words.refuse("TYPE, COMMENT, FIRST, AFTER, SET or DROP NOT NULL, SET or DROP DEFAULT")
    if len(path) > 1:
        raise InvalidInputError("Only columns of the table itself are moved.", kind="statement")
    return [sc.UpdateColumnPosition(move=move)]


def _call(words: Words, names: Names) -> st.Call:
    path = words.path("a procedure")
    if path[-2:-1] not in ((), ("sys",)) or path[:-2] not in ((), (names.catalog,)):
        words.refuse("a procedure of sys")
    arguments: dict[str, Literal] = {}
    words.wants("(")
    while not words.sees(")"):
        behind = words.until(",", "=", expected="an argument")
        if words.takes("="):
            words.takes(">")
            name = behind.strip("`")
            arguments[name] = literal_of(words.until(",", expected="a value"))
        else:
            arguments[str(len(arguments))] = literal_of(behind)
        if not words.takes(","):
            break
    words.wants(")")
    return st.Call(procedure=path[-1].lower(), arguments=arguments)


def _show(words: Words, names: Names) -> st.Statement:
    history = words.takes("HISTORY", "SEGMENTS")
    if history or words.takes("SEGMENTS"):
        if not words.takes("ON"):
            words.wants("FOR", "TABLE")
        return segments.show_segments(words, _table_name(words, names), history=history)
    for form, shown in _SHOWN_OF_TABLES.items():
        if words.takes(*form.split()):
            table = _table_name(words, names)
            of_some = shown is Shown.PARTITIONS and words.takes("PARTITION")
            return st.Show(
                shown=shown, table=table, partition=_fixed_partition(words) if of_some else ()
            )
    if words.takes("COLUMNS"):
        words.wants("FROM")
    if words.takes_any("DATABASES", "SCHEMAS", "NAMESPACES"):
        return st.Show(shown=Shown.DATABASES, pattern=_pattern(words))
    if not words.sees("TABLES") and not words.sees("VIEWS"):
        noun = "" if words.at_end else words.one("a word", "word", "quoted", "text")
        raise _refusal(
            f"SHOW {noun}".strip(),
            "DATABASES, TABLES, VIEWS, COLUMNS, PARTITIONS, TAGS, TBLPROPERTIES, SEGMENTS and"
            " CREATE TABLE are shown; system tables have the rest",
        )
    shown, database = Shown(words.one("TABLES or VIEWS", "word").lower()), names.database
    if words.takes_any("IN", "FROM"):
        database = names.database_of(words.path("a database"))
    if database is None:
        words.refuse("IN and a database")
    return st.Show(shown=shown, database=database, pattern=_pattern(words))


def _pattern(words: Words) -> str | None:
    if words.takes("LIKE"):
        return words.string("a pattern")
    if not words.at_end and not words.sees(";"):
        return words.string("LIKE and a pattern")
    return None


def _describe(words: Words, names: Names) -> st.Describe:
    for word in ("DATABASE", "SCHEMA", "FUNCTION", "QUERY", "SELECT", "NAMESPACE"):
        if words.sees(word):
            raise _refusal(f"DESCRIBE {word}", "tables and views are described")
    words.takes("TABLE")
    extended = words.takes_any("EXTENDED", "FORMATTED")
    table = _table_name(words, names)
    return st.Describe(table=table, extended=extended)


def _analyze(words: Words, names: Names) -> st.Analyze:
    table = _table_name(words, names)
    words.wants("COMPUTE", "STATISTICS")
    columns: tuple[str, ...] | None = None
    if words.takes("FOR", "ALL", "COLUMNS"):
        columns = ()
    elif words.takes("FOR", "COLUMNS"):
        columns = tuple(words.several(lambda: words.name("a column")))
    return st.Analyze(table=table, columns=columns)


def _table_name(words: Words, names: Names, expected: str = "a table") -> Identifier:
    return names.identifier(words.path(expected))


_PARSERS: dict[str, Callable[[Words, Names], st.Statement]] = {
    "INSERT": _insert,
    "DELETE FROM": _delete,
    "UPDATE": _update,
    "MERGE INTO": _merge,
    "TRUNCATE TABLE": _truncate,
    "CREATE": _create,
    "ALTER": _alter,
    "DROP": _drop,
    "CALL": _call,
    "SHOW": _show,
    "DESCRIBE": _describe,
    "DESC": _describe,
    "ANALYZE TABLE": _analyze,
    "CLEAN FILES FOR TABLE": lambda words, names: segments.clean_files(
        words, _table_name(words, names)
    ),
}
