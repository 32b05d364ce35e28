"""CREATE, ALTER and DROP of databases, tables and views → statements."""

from dataclasses import dataclass, field, replace

from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.errors import InvalidInputError, UnsupportedFeatureError
from paimon_assets.engine.spec.evolution.schema_change import (
    AddColumn,
    DropColumn,
    Move,
    MoveType,
    RemoveOption,
    RenameColumn,
    SchemaChange,
    SetOption,
    UpdateColumnComment,
    UpdateColumnDefaultValue,
    UpdateColumnNullability,
    UpdateColumnPosition,
    UpdateColumnType,
    UpdateComment,
)
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.spec.types.data_types import DataType, not_null
from paimon_assets.engine.spec.types.literals import Literal
from paimon_assets.engine.table.sql.parse_rows import fixed_partition, literal_of
from paimon_assets.engine.table.sql.sql_types import take_type
from paimon_assets.engine.table.sql.statements import (
    AlterTable,
    Call,
    CreateDatabase,
    CreateTable,
    CreateView,
    Drop,
    DropDatabase,
    Names,
    Rename,
    Statement,
    Truncate,
)
from paimon_assets.engine.table.sql_words import Words

_PRIMARY_KEY = "primary-key"
_COMMENT = "comment"
_OWN_PROVIDERS = ("PAIMON", "PAIMON_ASSETS")


def create(words: Words, names: Names) -> Statement:
    """Parse what follows CREATE."""
    replaces = words.takes("OR", "REPLACE")
    if words.takes("VIEW"):
        return _view(words, names, replaces=replaces)
    if words.takes("DATABASE") or words.takes("SCHEMA") or words.takes("NAMESPACE"):
        missing_only = words.takes("IF", "NOT", "EXISTS")
        name = names.database_of(words.path("a database"))
        options = {_COMMENT: words.string("a comment")} if words.takes("COMMENT") else {}
        if words.takes("WITH"):
            _ = words.takes("DBPROPERTIES") or words.takes("PROPERTIES")
            options |= properties(words)
        words.ends()
        return CreateDatabase(name=name, if_not_exists=missing_only, options=options)
    if words.sees("TEMPORARY") or words.sees("TEMP") or words.sees("GLOBAL"):
        raise refused("CREATE TEMPORARY VIEW", "make it by session.sql or createTempView")
    if words.sees("FUNCTION") or words.sees("EXTERNAL"):
        what = words.one("TABLE", "word").upper()
        raise refused(f"CREATE {what}", "only databases, tables and views are created")
    if not words.takes("TABLE"):
        words.refuse("TABLE, VIEW or DATABASE")
    if replaces:
        raise replaced_table()
    return _table(words, names)


def replaced_table() -> UnsupportedFeatureError:
    """Return the refusal of REPLACE TABLE."""
    return refused(
        "REPLACE TABLE", "drop and create the table, or ALTER it and INSERT OVERWRITE its rows"
    )


def refused(statement: str, way_out: str) -> UnsupportedFeatureError:
    """Return the refusal of a statement, by its name."""
    return UnsupportedFeatureError(
        f"{statement} is not taken; {way_out}.",
        kind="statement-unsupported",
        details={"statement": statement},
    )


def _table(words: Words, names: Names) -> CreateTable:
    missing_only = words.takes("IF", "NOT", "EXISTS")
    table = names.identifier(words.path("a table"))
    like = names.identifier(words.path("a table")) if words.takes("LIKE") else None
    columns: dict[str, DataType] = {}
    comments: dict[str, str] = {}
    defaults: dict[str, str] = {}
    keys: list[str] = []

    def column_or_key() -> None:
        if words.takes("PRIMARY", "KEY"):  # of Flink
            keys.extend(path[0] for path in words.listed("a column"))
            words.takes("NOT", "ENFORCED")
        else:
            _column(words, columns, comments, defaults)

    if words.sees("("):
        words.enclosed(column_or_key)
    clauses = _clauses(words)
    if clauses.query is not None and columns:
        words.refuse("either columns or AS with a query")
    if not columns and clauses.query is None and like is None:
        words.refuse("columns, LIKE or AS with a query")
    options = dict(clauses.options)
    comment = options.pop(_COMMENT, clauses.comment)
    named = options.pop(_PRIMARY_KEY, "").split(",")
    if keys and named != [""]:
        words.refuse(f"either PRIMARY KEY or '{_PRIMARY_KEY}'")
    keys = keys or [name.strip() for name in named if name.strip()]
    schema = Schema(
        fields=(),
        partition_keys=clauses.partitions,
        primary_keys=tuple(keys),
        options=options,
        comment=comment,
    )
    if columns:
        declared = Schema.of(
            columns, partition_keys=clauses.partitions, primary_keys=keys, comments=comments
        )
        fields = (replace(f, default_value=defaults.get(f.name)) for f in declared.fields)
        schema = replace(schema, fields=tuple(fields))
    return CreateTable(
        table=table, schema=schema, if_not_exists=missing_only, query=clauses.query, like=like
    )


@dataclass(slots=True, kw_only=True)
class _Clauses:
    """What follows the columns of CREATE TABLE."""

    options: dict[str, str] = field(default_factory=dict)
    partitions: tuple[str, ...] = ()
    comment: str | None = None
    query: str | None = None


def _clauses(words: Words) -> _Clauses:
    found = _Clauses()
    while not words.at_end:
        if words.takes("USING"):
            provider = words.one("a format", "word", "quoted")
            if provider.upper() not in _OWN_PROVIDERS:
                raise refused(f"CREATE TABLE ... USING {provider}", "leave USING out")
        elif words.takes("PARTITIONED", "BY"):
            found.partitions = tuple(path[0] for path in words.listed("a column"))
        elif words.takes("COMMENT"):
            found.comment = words.string("a comment")
        elif words.takes("TBLPROPERTIES") or words.takes("OPTIONS") or words.sees("WITH", "("):
            words.takes("WITH")
            found.options.update(properties(words))
        elif any(words.sees(word) for word in ("LOCATION", "CLUSTERED", "STORED")):
            raise refused(
                "CREATE TABLE ... LOCATION, CLUSTERED BY or STORED AS",
                "tables lie where their catalog says, and 'bucket' is a property",
            )
        elif words.takes("AS") or words.sees("SELECT") or words.sees("WITH"):
            found.query = words.rest("a query")
        else:
            words.refuse("PARTITIONED BY, COMMENT, TBLPROPERTIES or AS")
    return found


def _column(
    words: Words, columns: dict[str, DataType], comments: dict[str, str], defaults: dict[str, str]
) -> None:
    name = words.one("a column", "word", "quoted")
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
            raise refused("GENERATED columns", "compute the value when rows are written")
        else:
            break
    columns[name] = kind


def _default(text: str) -> str:
    value: Literal = literal_of(text)
    if value is None:
        raise refused("DEFAULT NULL", "leave the default out: it is null")
    return str(value).lower() if isinstance(value, bool) else str(value)


def properties(words: Words) -> dict[str, str]:
    """Go behind `('key' = 'value', ...)`."""
    found: dict[str, str] = {}

    def one() -> None:
        key = _key(words)
        words.wants("=")
        value = literal_of(words.until(",", expected="a value"))
        if key in found:
            words.refuse(f"property '{key}' once")
        found[key] = str(value).lower() if isinstance(value, bool) else str(value)

    words.enclosed(one)
    return found


def _key(words: Words) -> str:
    key = words.one("a property", "text", "word", "quoted")
    while words.takes("."):
        key += "." + words.one("a property", "word", "quoted")
    return key


def _view(words: Words, names: Names, *, replaces: bool) -> CreateView:
    missing_only = words.takes("IF", "NOT", "EXISTS")
    name = names.identifier(words.path("a view"))

    def column() -> tuple[str, str | None]:
        found = words.one("a column", "word", "quoted")
        return found, words.string("a comment") if words.takes("COMMENT") else None

    columns = words.enclosed(column) if words.sees("(") else ()
    comment, options = None, {}
    while not words.takes("AS"):
        if words.takes("COMMENT"):
            comment = words.string("a comment")
        elif words.takes("TBLPROPERTIES"):
            options = properties(words)
        else:
            words.refuse("AS")
    return CreateView(
        name=name,
        columns=tuple(columns),
        comment=comment,
        options=options,
        query=words.rest("a query"),
        if_not_exists=missing_only,
        replaces=replaces,
    )


def drop(words: Words, names: Names) -> Statement:
    """Parse what follows DROP."""
    if words.takes("DATABASE") or words.takes("SCHEMA") or words.takes("NAMESPACE"):
        if_exists = words.takes("IF", "EXISTS")
        name = names.database_of(words.path("a database"))
        cascade = words.takes("CASCADE")
        if not cascade:
            words.takes("RESTRICT")
        words.ends()
        return DropDatabase(name=name, if_exists=if_exists, cascade=cascade)
    is_view = words.takes("VIEW")
    if not is_view and not words.takes("TABLE"):
        words.refuse("TABLE, VIEW or DATABASE")
    if_exists = words.takes("IF", "EXISTS")
    dropped = names.identifier(words.path("a name"))
    words.takes("PURGE")
    words.ends()
    return Drop(name=dropped, if_exists=if_exists, is_view=is_view)


def alter(words: Words, names: Names) -> Statement:
    """Parse what follows ALTER."""
    if words.takes("VIEW"):
        name = names.identifier(words.path("a view"))
        if not words.takes("RENAME", "TO"):
            raise refused("ALTER VIEW but RENAME TO", "CREATE OR REPLACE the view")
        target = _target(words, names, name.database)
        return Rename(name=name, target=target, is_view=True)
    if words.sees("DATABASE") or words.sees("SCHEMA") or words.sees("NAMESPACE"):
        raise refused("ALTER DATABASE", "properties of a database are set through its catalog")
    words.wants("TABLE")
    path = words.path("a table")
    table = names.identifier(path)
    if words.takes("RENAME", "TO"):
        return Rename(name=table, target=_target(words, names, table.database))
    if words.takes("DROP", "PARTITION") or words.takes("DROP", "IF", "EXISTS", "PARTITION"):
        specs = [fixed_partition(words)]
        while words.takes(","):
            words.takes("PARTITION")
            specs.append(fixed_partition(words))
        words.ends()
        return Truncate(table=table, partitions=tuple(specs))
    tagged = _tag(words, str(table))
    if tagged is not None:
        words.ends()
        return tagged
    changes = _changes(words)
    words.ends()
    return AlterTable(table=table, changes=tuple(changes))


def _target(words: Words, names: Names, database: str) -> Identifier:
    path = words.path("a name")
    words.ends()
    return replace(names, database=database).identifier(path)


def _tag(words: Words, table: str) -> Call | None:
    """Return the procedure a statement on tags is short for."""
    arguments: dict[str, Literal] = {"table": table}
    if words.takes("RENAME", "TAG"):
        arguments["tag"] = words.one("a tag", "word", "quoted")
        words.wants("TO")
        arguments["target_tag"] = words.one("a tag", "word", "quoted")
        return Call(procedure="rename_tag", arguments=arguments)
    if words.takes("DELETE", "TAG"):
        arguments["if_exists"] = words.takes("IF", "EXISTS")
        arguments["tag"] = words.one("a tag", "word", "quoted")
        return Call(procedure="delete_tag", arguments=arguments)
    if words.takes("CREATE", "OR", "REPLACE", "TAG"):
        procedure = "create_or_replace_tag"
    elif words.takes("CREATE", "TAG"):
        procedure = "create_tag"
        arguments["if_not_exists"] = words.takes("IF", "NOT", "EXISTS")
    elif words.takes("REPLACE", "TAG"):
        procedure = "replace_tag"
    else:
        return None
    arguments["tag"] = words.one("a tag", "word", "quoted")
    if words.takes("AS", "OF", "VERSION"):
        arguments["snapshot"] = words.number("a snapshot")
    if words.takes("RETAIN"):
        unit = words.number("a number"), words.one("DAYS, HOURS or MINUTES", "word").lower()
        arguments["time_retained"] = f"{unit[0]} {unit[1].removesuffix('s')}"
    return Call(procedure=procedure, arguments=arguments)


def _changes(words: Words) -> list[SchemaChange]:
    if words.takes("SET", "TBLPROPERTIES"):
        return [
            UpdateComment(comment=value) if key == _COMMENT else SetOption(key=key, value=value)
            for key, value in properties(words).items()
        ]
    if words.takes("UNSET", "TBLPROPERTIES"):
        words.takes("IF", "EXISTS")
        return [
            UpdateComment(comment=None) if key == _COMMENT else RemoveOption(key=key)
            for key in words.enclosed(lambda: _key(words))
        ]
    if words.takes("ADD", "COLUMNS") or words.takes("ADD", "COLUMN"):
        return _added(words)
    if words.takes("RENAME", "COLUMN"):
        path = words.path("a column")
        words.wants("TO")
        return [RenameColumn(field_names=path, new_name=words.one("a name", "word", "quoted"))]
    if words.takes("DROP", "COLUMNS") or words.takes("DROP", "COLUMN"):
        words.takes("IF", "EXISTS")
        read = words.enclosed if words.sees("(") else words.several
        return [DropColumn(field_names=path) for path in read(lambda: words.path("a column"))]
    if words.takes("ALTER", "COLUMN") or words.takes("CHANGE", "COLUMN") or words.takes("ALTER"):
        return _altered(words)
    for what in ("ADD", "REPLACE", "SET", "RECOVER", "CLUSTER", "RENAME", "DROP"):
        if words.takes(what):
            behind = "" if words.at_end else words.one("a word", "word", "text", "quoted")
            raise refused(
                f"ALTER TABLE ... {what} {behind}".strip(),
                "columns are ADDed, DROPped, RENAMEd and ALTERed, properties SET and UNSET,"
                " partitions DROPped",
            )
    return words.refuse("ADD, DROP, RENAME, ALTER COLUMN, SET or UNSET TBLPROPERTIES")


def _added(words: Words) -> list[SchemaChange]:
    several = words.takes("(")
    changes: list[SchemaChange] = []
    while True:
        path = words.path("a column")
        kind, comment, move = take_type(words), None, None
        while True:
            if words.takes("COMMENT"):
                comment = words.string("a comment")
            elif words.sees("NOT", "NULL"):
                raise refused("ADD COLUMN ... NOT NULL", "rows have no value yet: add it null")
            elif words.sees("DEFAULT"):
                raise refused("ADD COLUMN ... DEFAULT", "then ALTER COLUMN SET DEFAULT")
            elif (move := move or _move(words, path)) is None or not words.sees("COMMENT"):
                break
        changes.append(AddColumn(field_names=path, data_type=kind, comment=comment, move=move))
        if not words.takes(","):
            break
    if several:
        words.wants(")")
    return changes


def _move(words: Words, path: tuple[str, ...]) -> Move | None:
    if words.takes("FIRST"):
        return Move(field_name=path[-1], type=MoveType.FIRST)
    if words.takes("AFTER"):
        after = words.one("a column", "word", "quoted")
        return Move(field_name=path[-1], reference_field_name=after, type=MoveType.AFTER)
    return None


def _altered(words: Words) -> list[SchemaChange]:
    path = words.path("a column")
    if words.takes("TYPE"):
        return [UpdateColumnType(
            field_names=path, new_data_type=take_type(words), keep_nullability=True
        )]  # fmt: skip
    if words.takes("COMMENT"):
        return [UpdateColumnComment(field_names=path, new_comment=words.string("a comment"))]
    if words.takes("SET", "NOT", "NULL"):
        return [UpdateColumnNullability(field_names=path, new_nullability=False)]
    if words.takes("DROP", "NOT", "NULL"):
        return [UpdateColumnNullability(field_names=path, new_nullability=True)]
    if words.takes("SET", "DEFAULT"):
        default = _default(words.rest("a value"))
        return [UpdateColumnDefaultValue(field_names=path, new_default_value=default)]
    if words.takes("DROP", "DEFAULT"):
        return [UpdateColumnDefaultValue(field_names=path, new_default_value=None)]
    move = _move(words, path)
    if move is None:
        words.refuse("TYPE, COMMENT, FIRST, AFTER, SET or DROP NOT NULL, SET or DROP DEFAULT")
    if len(path) > 1:
        raise InvalidInputError("Only columns of the table itself are moved.", kind="statement")
    return [UpdateColumnPosition(move=move)]
