"""A folder in which files land, and its files as one frame.

Files should land by rename: a file seen half-written is ingested half, and named as changed later.
Empty files, and names that begin with `_` or `.`, are never taken.
"""

import fnmatch
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cached_property, partial
from itertools import compress
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import dagster as dg
import pyarrow as pa
import pyarrow.types as pat
from msgspec import Struct, field
from pydantic import Field

from paimon_assets.assets.translator import identifier_of
from paimon_assets.engine import errors
from paimon_assets.engine.codec.arrow.arrow_types import from_arrow_type, to_arrow_schema
from paimon_assets.engine.control.segments import FolderFile, walk
from paimon_assets.engine.data.format import external_files, text_lines
from paimon_assets.engine.data.write.input_check import is_lossless_family
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.spec.segments.text_options import TextOptions
from paimon_assets.engine.spec.types.cast_fit import keeps_all
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.spec.words import separator_of, shorten

if TYPE_CHECKING:  # the intake imports the source
    from paimon_assets.assets.files.landing import FileIntake
    from paimon_assets.assets.files.sources import Opening

ChangeFormat = Literal["debezium-json", "canal-json", "maxwell-json"]
"""Formats of change logs, which `build_change_log_asset` takes."""

_HIDDEN = ("_", ".")
_GLOB = re.compile(r"\*\*/|\*\*|\*|\?|\[!?[^]]+\]|[^*?\[]+|\[")


class OnChanged(StrEnum):
    """The treatment of a file that changed since it was ingested."""

    REFUSE = "refuse"
    """The run fails and names it."""
    IGNORE = "ignore"
    """It stays as it was ingested."""
    AGAIN = "again"
    """It is ingested again, over its rows of before: the table has a primary key."""


class OnBadFile(StrEnum):
    """The treatment of a file that cannot be read."""

    REFUSE = "refuse"
    """The run fails and names it; nothing of the run is committed."""
    QUARANTINE = "quarantine"
    """It is left out and noted with the reason; the rest are ingested. It is tried again when it
    has changed. `build_quarantine_check` shows the files that were left out."""


class IngestConfig(dg.Config):
    """The config of an ingestion run.

    >>> config = dg.RunConfig(ops={"shop__orders": IngestConfig(max_files=100)})
    """

    source: str = Field(
        default="",
        description="Folder to read instead of the asset's own. Files keep their names: a name "
        "that was ingested is not ingested again.",
    )
    max_files: int = Field(
        default=0, description="Most files one run takes in, in name order; 0 takes all new ones."
    )
    dry_run: bool = Field(
        default=False, description="Only report which files are new; write nothing."
    )


MissingColumns = Literal["error", "null"]
ExtraColumns = Literal["error", "add", "ignore"]


class FileSource(Value, dict=True):
    """The landing folder of an ingestion, and its format.

    >>> source = FileSource(folder="s3://lake/landing/orders", format="csv")
    """

    folder: str | dg.EnvVar
    """A path or a URL; an `EnvVar` is read when the asset runs."""
    format: external_files.ExternalFormat | ChangeFormat = "parquet"
    """CSV with a header line, JSON with one object a line, unless `options` say otherwise. Change
    logs have one record a line, or arrays of them; their names end as those of JSON."""
    pattern: str | None = None
    """Glob: on names in the folder, or with a `/` on paths below it, where `**/` is any number of
    folders. By default the format's ending, such as `*.parquet` or, of texts, `*.csv.gz` too."""
    options: Mapping[str, str] = field(default_factory=dict)
    """How CSV and JSON files are written, as for segments: `sep`, `header`, `quote`, `encoding`,
    `dateFormat`, `timestampFormat`, `multiLine`, `nullValue` ..."""
    on_changed: str = OnChanged.REFUSE
    """Treatment of a file that changed after it was ingested: `refuse`, `ignore`, `again`."""
    on_bad_file: str = OnBadFile.REFUSE
    """Treatment of a file that cannot be read, or has other columns: `refuse`, `quarantine`."""
    may_be_missing: bool = False
    """Whether a folder that does not exist holds no files, instead of being an error."""
    schema: Schema | None = None
    """Columns of the files, where they are not those of the table."""
    missing_columns: MissingColumns = "error"
    """Treatment of a file that lacks a column: it is refused (`error`), or has null there
     (`null`)."""
    extra_columns: ExtraColumns = "error"
    """Treatment of a file that has more columns: it is refused (`error`), or they are left out
     (`ignore`), or are added to the table (`add`): with the file's type, or, of CSV and JSON, with
    one that surely holds the values of all new files, else text. Declared columns have their
    declared type."""
    dead_letters: str | None = None
    """Of CSV and JSON: `database.table` for lines that do not parse or do not fit the table, each
    with file, line and reason; the other lines are ingested. Without it the first one fails the
    run. The process of the run reads the files, and a record is one line. After a `transform` rows
    are not compared with the table."""
    remembered_files: int | None = None
    """How many of the last names the ledger keeps at least, where names are ordered in time. A
    file whose name sorts before them counts as ingested, also if it lands late or changes. By
    default all names are kept."""

    def __post_init__(self) -> None:
        _ = self.kind
        if self.dead_letters is not None:
            self._check_dead_letters(self.dead_letters)
        if self.is_change_log and (self.options or self.schema is not None or self.may_drift):
            raise errors.InvalidInputError(
                f"Files of format '{self.format}' have no options, and no schema or words on "
                "columns of their own: give their form as ChangeLog(records=…).",
                kind="source-folder",
            )
        choices_of: Mapping[str, Iterable[str]] = {
            "on_changed": OnChanged,
            "on_bad_file": OnBadFile,
            "missing_columns": get_args(MissingColumns),
            "extra_columns": get_args(ExtraColumns),
        }
        for name, choices in choices_of.items():
            value = getattr(self, name)
            if value not in list(choices):
                message = f"{name} is '{value}'; expected one of {', '.join(choices)}."
                raise errors.InvalidInputError(message, kind="source-folder")
        if self.remembered_files is not None and self.remembered_files < 1:
            raise errors.InvalidInputError(
                f"remembered_files is {self.remembered_files}; give how many names the ledger "
                "keeps, or leave it out to keep all.",
                kind="source-folder",
            )

    def _check_dead_letters(self, table: str) -> None:
        identifier_of(table)
        if self.is_change_log:
            reason = "of change logs they are ChangeLog(dead_letters=…)"
        elif not self.has_lines:
            reason = "only CSV and JSON with a record a line have them; a file of another format "
            reason += "that cannot be read is left out by on_bad_file='quarantine'"
        elif self.extra_columns == "add":
            reason = "types of new columns come from all lines, also of bad ones; declare the "
            reason += "columns, or say extra_columns='ignore'"
        else:
            return
        message = f"FileSource(dead_letters='{table}') is not possible: {reason}."
        raise errors.InvalidInputError(message, kind="source-folder")

    @property
    def has_lines(self) -> bool:
        """Whether a record is a line of text."""
        if self.is_change_log or not self.is_text:
            return False
        return not TextOptions.of(self.format, self.options, ()).multi_line

    @cached_property
    def kind(self) -> external_files.FileKind:
        if self.format in get_args(ChangeFormat):
            return external_files.FileKind(format="json")
        if "-" in self.format:
            message = (
                f"Files of format '{self.format}' are not read; expected one of "
                f"{', '.join(get_args(ChangeFormat))}. Records in Avro, whose schemas a registry "
                "has, are read from topics (KafkaSource)."
            )
            raise errors.UnsupportedFeatureError(message, kind="cdc-format", format=self.format)
        return external_files.FileKind(
            format=cast("external_files.ExternalFormat", self.format),
            options=self.options,
            others="ignore" if self.extra_columns != "error" else "error" if self.may_drift else "",
        )

    @property
    def may_drift(self) -> bool:
        """Whether files of several shapes are taken."""
        return (self.missing_columns, self.extra_columns) != ("error", "error")

    @property
    def is_change_log(self) -> bool:
        """Whether the files hold changes of tables, not rows."""
        return self.format in get_args(ChangeFormat)

    @property
    def config(self) -> type[dg.Config]:
        return IngestConfig

    def check_rows(self, table: str, schema: Schema) -> None:
        """Refuse to feed a table with rows.

        Raises:
            InvalidInputError: The files are a change log; or changed files shall be ingested again
                by a table without a primary key, which would have their rows twice.
        """
        if self.is_change_log:
            raise errors.InvalidInputError(
                f"Records of format '{self.format}' are a change log: build_change_log_asset makes "
                f"the asset of table {table}.",
                kind="file-format",
            )
        if self.on_changed == OnChanged.AGAIN and not schema.primary_keys:
            raise errors.InvalidInputError(
                f"Changed files cannot be taken in again by table {table}: without a primary key "
                "it would have their rows twice. Declare primary_keys, or on_changed='ignore'.",
                kind="source-changed",
            )

    def open(self, opening: "Opening") -> "FileIntake":
        from paimon_assets.assets.files.landing import FileIntake  # noqa: PLC0415

        return FileIntake.open(self, opening)

    @property
    def title(self) -> str:
        return f"{self.format} files that land in a folder"

    @property
    def is_text(self) -> bool:
        """Whether files hold texts, to which the declared types are applied."""
        return self.kind.is_text

    def folder_path(self, override: str = "") -> str:
        """Return the folder, or the one that overrides it.

        Raises:
            InvalidInputError: The environment variable is not set.
        """
        if override:
            return override.rstrip("/")
        if not isinstance(self.folder, dg.EnvVar):
            return self.folder.rstrip("/")
        value = self.folder.get_value()
        if not value:
            raise errors.InvalidInputError(
                f"The source folder is taken from the environment variable "
                f"'{self.folder.env_var_name}', which is not set.",
                kind="source-folder",
            )
        return value.rstrip("/")

    def list_files(
        self, file_io: FileIO, folder: str, rest: list[FolderFile] | None = None
    ) -> list[FolderFile]:
        """Return the files that match, by name; none if there is no folder.

        `rest` gets those of another name or without bytes, but not hidden ones.

        Raises:
            StorageError: The storage failed.
            UnsupportedFeatureError: Of a pattern with folders: a table with a log is below it.

        Cost:
            One listing; of a pattern with folders, one for each folder below.
        """
        if self.pattern is not None and "/" in self.pattern:
            regex = glob_regex(self.pattern)
            try:
                files = walk(file_io, folder)
            except errors.NotFoundError:
                return []
            matches = [regex.fullmatch(file.name) is not None for file in files]
        else:
            endings = tuple(f".{ending}" for ending in self.kind.endings)
            files = [  # by name, as it is listed
                FolderFile(name=name, size=file.size, modified_ms=file.modified_ms, tag=file.tag)
                for file in file_io.list_directory(folder)
                if not file.is_directory and not (name := file.name).startswith(_HIDDEN)
            ]
            matches = [
                fnmatch.fnmatchcase(file.name, self.pattern)
                if self.pattern is not None
                else file.name.endswith(endings)
                for file in files
            ]
        flags = [is_match and file.size > 0 for file, is_match in zip(files, matches, strict=True)]
        if rest is not None:
            rest += [file for file, is_taken in zip(files, flags, strict=True) if not is_taken]
        return list(compress(files, flags))

    def check_folder(self, file_io: FileIO, folder: str, *, is_known: bool) -> None:
        """Refuse a folder that is not there: a wrong path must not look like no new files.

        It is known if files of it were ingested before: an object store has no folders, so one
        whose objects are gone is as if it never was.

        Raises:
            InvalidInputError: Kind `source-folder`.
        """
        if self.may_be_missing or file_io.exists(folder):
            return
        if is_known and file_io.spec.scheme != "file":
            return
        message = (
            f"The source folder '{folder}' does not exist. Correct it, make it, or say "
            "FileSource(may_be_missing=True)."
        )
        raise errors.InvalidInputError(message, kind="source-folder", folder=folder)


def glob_regex(pattern: str) -> re.Pattern[str]:
    """Return the paths a glob means: `**/` is any number of folders, `*` stays in one.

    >>> [bool(glob_regex("**/*.csv").fullmatch(path)) for path in ("a.csv", "b/c/a.csv", "a.orc")]
    [True, True, False]
    >>> [bool(glob_regex("*/20*.csv").fullmatch(path)) for path in ("x/2024-1.csv", "2024-1.csv")]
    [True, False]
    """
    words = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts = []
    for match in _GLOB.finditer(pattern):
        word = match.group()
        if word in words:
            parts.append(words[word])
        elif word.startswith("[") and len(word) > 1:
            parts.append(word.replace("[!", "[^", 1))
        else:
            parts.append(re.escape(word))
    return re.compile("".join(parts))


NO_COLUMNS = pa.schema([])
BadFile = Callable[[str, errors.PaimonError], None]
"""Takes the path of a file that cannot be read, and why."""


def checked_schema(
    file_io: FileIO,
    paths: Sequence[str],
    source: FileSource,
    expected: Schema | None,
    on_bad: BadFile | None = None,
    *,
    stored: pa.Schema = NO_COLUMNS,
    shapes: dict[str, list[str]] | None = None,
) -> pa.Schema | None:
    """Return the schema all files are read as, after comparing every file with it.

    Columns and types of Parquet, ORC, Avro and Arrow files are those of the first file, of CSV and
    JSON files those expected, or those of the first file where nothing is. A source whose files
    drift has those of all files. Files that are wrong go to `on_bad`; without it the error of the
    first one is raised, which counts the further ones. None if no file is right. Undeclared text
    columns have the types of `stored` ones; `shapes` gets the paths of files by the names of
    their columns.

    Cost:
        One footer, or the first block of a text file, each; see also `seen_types`.
    """
    columns = _Columns(source=source, stored=stored)
    if expected is not None:
        columns.declared = to_arrow_schema(expected.fields)
        columns.required = frozenset(expected.primary_keys).union(
            field.name for field in expected.fields if not field.type.nullable
        )
    bad: dict[str, errors.PaimonError] = {}
    for path in paths:
        try:
            names = columns.add(file_io, path)
        except (errors.FormatError, errors.InvalidInputError) as error:
            (on_bad or bad.__setitem__)(path, error)
            continue
        if shapes is not None and names:
            shapes.setdefault(", ".join(names), []).append(path)
    for first in bad.values():
        raise first.with_message(first.message + more_files(bad)) from first
    return columns.schema()


def more_files(paths: Iterable[str]) -> str:
    """Return a sentence that counts files after the first; an empty text if there is none.

    >>> more_files(["in/a.csv", "in/b.csv", "in/c.csv"]), more_files(["in/a.csv"])
    (" More files at fault: 2 ('b.csv', 'c.csv').", '')
    """
    names = [f"'{path.rpartition('/')[2]}'" for path in paths][1:]
    return f" More files at fault: {len(names):,} ({shorten(names)})." if names else ""


class _Columns(Struct, kw_only=True):
    """The columns of the files so far."""

    source: FileSource
    stored: pa.Schema
    declared: pa.Schema | None = None
    required: frozenset[str] = frozenset()
    """Columns that no file may lack."""
    fields: dict[str, "pa.Field[Any]"] | None = None
    types: dict[str, Sequence[pa.DataType]] = field(default_factory=dict)
    """Undeclared column → types that hold its values in all text files so far."""

    @property
    def known_columns(self) -> pa.Schema:
        """Columns of text files whose types are given."""
        declared = self.declared if self.declared is not None else NO_COLUMNS
        return pa.schema([*declared, *(c for c in self.stored if c.name not in declared.names)])

    def schema(self) -> pa.Schema | None:
        if self.fields is None:
            return None
        types = {each.name: each.type for each in self.fields.values()}
        if not self.source.may_drift:
            return pa.schema([*self.fields.values()])
        for name, kinds in self.types.items():
            types[name] = kinds[0] if len(kinds) < len(external_files.ALL_TYPES) else pa.string()
        declared = {each.name: each.type for each in self.declared or ()}
        for name in [name for name, kind in types.items() if pat.is_null(kind)]:
            types[name] = declared.get(name, pa.string())
        return pa.schema([*(declared | types).items()])

    def add(self, file_io: FileIO, path: str) -> Sequence[str]:
        """Take the columns of a file and return their names, or none of an empty file."""
        source, fields, known = self.source, self.fields, self.known_columns
        types: Mapping[str, Sequence[pa.DataType]] | None = {}
        if source.dead_letters is not None and self.declared is not None:
            own = text_lines.named_columns(file_io, path, source.kind, self.declared)
            types = {} if own.names else None
        elif source.is_text and source.extra_columns == "add":
            types = external_files.seen_types(file_io, path, source.kind, known)
            own = pa.schema([(name, pa.string()) for name in types or ()])
        else:
            with external_files.open_external_file(
                file_io, path, source.kind, self.declared
            ) as opened:
                own = opened.schema
            types = None if opened.is_empty else {}
        if types is None:
            return ()
        expected = own.names if self.declared is None else self.declared.names
        if fields is not None and (self.declared is None or not source.may_drift):
            expected = [*fields]
        self._compare_names(path, own.names, expected)
        if source.extra_columns == "add":
            self._check_new_names(path, own.names)
        joined = dict(fields or {})
        for each in own:
            name = each.name
            if source.extra_columns == "ignore" and name not in expected:
                continue
            if source.is_text:
                column = known.field(name) if name in known.names else each
                joined.setdefault(name, column)
            else:
                self._check_type(path, each)
                joined[name] = self._join_fields(path, joined.get(name, each), each)
        for name in types.keys() - {*known.names}:
            kinds = types[name]
            self.types[name] = [
                each for each in self.types.get(name, external_files.ALL_TYPES) if each in kinds
            ]
        self.fields = joined
        return own.names

    def _compare_names(self, path: str, names: Sequence[str], expected: Sequence[str]) -> None:
        source, parts = self.source, []
        known, given = {*expected}, {*names}
        unknown = [name for name in names if name not in known]
        missing = [name for name in expected if name not in given]
        if source.missing_columns == "null":
            missing = [name for name in missing if name in self.required]
        elif source.kind.format == "json" and source.extra_columns == "add":
            missing = [] if len(missing) < len(expected) else missing  # as of all JSON
        ways = []
        if unknown and source.extra_columns == "error":
            parts.append(f"has columns that are not expected ({shorten(unknown)})")
            ways.append("extra_columns='add' or 'ignore'")
        if missing and source.missing_columns == "error":
            parts.append(f"lacks columns ({shorten(missing)})")
            ways.append("missing_columns='null'")
        elif missing:
            parts.append(f"lacks columns ({shorten(missing)}), which cannot be null")
        if parts:
            if (mark := separator_of(names, expected)) is not None:
                ways = [f"options={{'sep': {mark!r}}}"]
            way_out = f"Use FileSource({', '.join(ways)}), or declare" if ways else "Declare"
            message = (
                f"'{path}' {' and '.join(parts)}; expected {shorten(expected)}. {way_out} the "
                "files' own columns as FileSource(schema=…) and map them with transform."
            )
            raise errors.InvalidInputError(message, kind="source-columns", file=path)

    def _check_new_names(self, path: str, names: Sequence[str]) -> None:
        """Refuse names that cannot be added to the table: it would fail the run for all files."""
        known = {name.lower(): name for name in (*self.known_columns.names, *(self.fields or ()))}
        for name in names:
            other = known.setdefault(name.lower(), name)
            if name.strip() and other == name:
                continue
            fault = f"beside '{other}'" if name.strip() else "which is blank"
            message = (
                f"'{path}' has column '{name}', {fault}: no table can have it. Rename it in the "
                "file, or leave such columns out by FileSource(extra_columns='ignore')."
            )
            raise errors.InvalidInputError(message, kind="source-columns", file=path)

    def _check_type(self, path: str, own: "pa.Field[Any]") -> None:
        """Refuse a type that no column takes, unless a transform sees it first."""
        declared, kind = self.declared, cast("Any", own.type)
        if declared is None or self.source.schema is not None:
            return
        kind = kind.value_type if pat.is_dictionary(kind) else kind
        place = declared.get_field_index(own.name)
        wanted = declared.field(place).type if place >= 0 else None
        try:
            fits = pat.is_null(kind) or bool(from_arrow_type(kind))
        except errors.InvalidInputError:
            fits = False
        if wanted is not None and self.source.extra_columns != "add":  # which may widen columns
            fits = is_lossless_family(kind, wanted)
        if not fits:
            fault = "which no column holds" if wanted is None else f"not as {wanted}"
            raise errors.InvalidInputError(
                f"'{path}' holds column '{own.name}' as {own.type}, {fault}. Write the file with "
                "another type, or leave the column out: do not declare it, and say "
                "FileSource(extra_columns='ignore').",
                kind="source-columns",
                file=path,
                column=own.name,
            )

    def _join_fields(
        self, path: str, have: "pa.Field[Any]", own: "pa.Field[Any]"
    ) -> "pa.Field[Any]":
        """Return a column in the type that holds the values of both files."""
        wider = next((one for one in (have, own) if _holds(one, have) and _holds(one, own)), None)
        if wider is not None and (have.type == own.type or self.source.may_drift):
            return wider
        way = (
            ""
            if wider is None
            else (
                ", or say FileSource(extra_columns='add') with "
                "schema_policy='widen' to read the wider"
            )
        )
        message = (
            f"'{path}' holds column '{own.name}' as {own.type}, files before it as {have.type}; "
            f"ingest them in runs of their own, or write them alike{way}."
        )
        raise errors.InvalidInputError(message, kind="source-columns", file=path, column=own.name)


def _holds(column: "pa.Field[Any]", other: "pa.Field[Any]") -> bool:
    """Whether a column holds all values of another, without turning them to texts."""
    if column.type == other.type or pat.is_null(other.type):
        return True
    kinds = [each.type for each in (column, other)]
    if pat.is_null(kinds[0]) or sum(map(pat.is_string, kinds)) == 1:
        return False
    return keeps_all(from_arrow_type(kinds[1]), from_arrow_type(kinds[0]))


def read_files(
    file_io: FileIO,
    paths: Sequence[str],
    source: FileSource,
    schema: pa.Schema,
    *,
    check: text_lines.Check | None = None,
    reject: Callable[[str, text_lines.Rejected], None] | None = None,
) -> pa.RecordBatchReader:
    """Return the rows of all files in path order, read as they are consumed.

    With `reject`, it gets lines of texts that do not parse, or that `check` refuses.
    """

    def batches() -> Iterator[pa.RecordBatch]:
        for path in paths:
            if reject is not None:
                yield from text_lines.rows_of_lines(
                    file_io, path, source.kind, schema, check=check, reject=partial(reject, path)
                )
                continue
            with external_files.open_fitted(file_io, path, source.kind, schema) as opened:
                for batch in opened.batches:
                    yield batch.select(schema.names)

    return pa.RecordBatchReader.from_batches(schema, batches())
