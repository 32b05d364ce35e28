"""A folder in which files land, and its files as one frame.

Files should land by rename: a file seen half-written is ingested half, and named as changed later.
Empty files, and names that begin with `_` or `.`, are never taken.
"""

import fnmatch
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Literal, cast, get_args

import dagster as dg
import pyarrow as pa
from msgspec import field
from pydantic import Field

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema
from paimon_assets.engine.control.segments import FolderFile, walk
from paimon_assets.engine.data.format.external_files import (
    ExternalFormat,
    FileKind,
    open_external_file,
)
from paimon_assets.engine.errors import (
    FormatError,
    InvalidInputError,
    NotFoundError,
    PaimonError,
    UnsupportedFeatureError,
)
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.spec.words import shorten

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
    """It is left out and noted with the reason; the others are ingested. It is tried again when it
    has changed. `build_quarantine_check` shows what was left out."""


class IngestConfig(dg.Config):
    """The config of an ingestion run."""

    source: str = Field(
        default="",
        description="Folder to read instead of the asset's own. Files keep their names: what was "
        "ingested under a name is not ingested again.",
    )
    max_files: int = Field(
        default=0, description="Most files one run takes in, in name order; 0 takes all new ones."
    )
    dry_run: bool = Field(
        default=False, description="Only report which files are new; write nothing."
    )


class FileSource(Value, dict=True):
    """The landing folder of an ingestion, and its format."""

    folder: str | dg.EnvVar
    """A path or a URL; an `EnvVar` is read when the asset runs."""
    format: ExternalFormat | ChangeFormat = "parquet"
    """CSV with a header line, JSON with one object a line, unless `options` say otherwise. Change
    logs have one record a line, or arrays of them; their names end as those of JSON."""
    pattern: str | None = None
    """Glob: on names in the folder, or with a `/` on paths below it, where `**/` is any number of
    folders. By default the format's ending, such as `*.parquet` or, of texts, `*.csv.gz` too."""
    options: Mapping[str, str] = field(default_factory=dict)
    """How CSV and JSON files are written, as for segments: `sep`, `header`, `quote`, `encoding`,
    `dateFormat`, `timestampFormat`, `multiLine`, `nullValue` ..."""
    on_changed: str = OnChanged.REFUSE
    """What becomes of a file that changed after it was ingested: `refuse`, `ignore`, `again`."""
    on_bad_file: str = OnBadFile.REFUSE
    """What becomes of a file that cannot be read, or has other columns: `refuse`, `quarantine`."""
    may_be_missing: bool = False
    """Whether a folder that does not exist holds no files, instead of being an error."""
    schema: Schema | None = None
    """Columns of the files, where they are not those of the table."""
    remembered_files: int | None = None
    """How many of the last names the ledger keeps at least, where names are ordered in time. A
    file whose name sorts before them counts as ingested, also if it lands late or changes. By
    default all names are kept."""

    def __post_init__(self) -> None:
        """Check format, options and choices."""
        _ = self.kind
        if self.is_change_log and (self.options or self.schema is not None):
            raise InvalidInputError(
                f"Files of format '{self.format}' have no options and no schema of their own: "
                "ChangeLog(records=…) says how they are written.",
                kind="source-folder",
            )
        for name, choices in (("on_changed", OnChanged), ("on_bad_file", OnBadFile)):
            value = getattr(self, name)
            if value not in list(choices):
                raise InvalidInputError(
                    f"{name} is '{value}'; expected one of {', '.join(choices)}.",
                    kind="source-folder",
                )
        if self.remembered_files is not None and self.remembered_files < 1:
            raise InvalidInputError(
                f"remembered_files is {self.remembered_files}; give how many names the ledger "
                "keeps, or leave it out to keep all.",
                kind="source-folder",
            )

    @cached_property
    def kind(self) -> FileKind:
        """The format of the files, with its options."""
        if self.format in get_args(ChangeFormat):
            return FileKind(format="json")
        if "-" in self.format:
            raise UnsupportedFeatureError(
                f"Files of format '{self.format}' are not read; expected one of "
                f"{', '.join(get_args(ChangeFormat))}. Records in Avro, whose schemas a registry "
                "has, are read from topics (KafkaSource).",
                kind="cdc-format",
                details={"format": self.format},
            )
        return FileKind(format=cast("ExternalFormat", self.format), options=self.options)

    @property
    def is_change_log(self) -> bool:
        """Whether the files hold changes of tables, not rows."""
        return self.format in get_args(ChangeFormat)

    @property
    def config(self) -> type[dg.Config]:
        """The config of a run that ingests the files."""
        return IngestConfig

    def check_rows(self, table: str, schema: Schema) -> None:
        """Refuse to feed a table with rows.

        Raises:
            InvalidInputError: The files are a change log; or changed files shall be ingested again
                by a table without a primary key, which would have their rows twice.
        """
        if self.is_change_log:
            raise InvalidInputError(
                f"Records of format '{self.format}' are a change log: build_change_log_asset makes "
                f"the asset of table {table}.",
                kind="file-format",
            )
        if self.on_changed == OnChanged.AGAIN and not schema.primary_keys:
            raise InvalidInputError(
                f"Changed files cannot be taken in again by table {table}: without a primary key "
                "it would have their rows twice. Declare primary_keys, or on_changed='ignore'.",
                kind="source-changed",
            )

    def open(self, opening: "Opening") -> "FileIntake":
        """Compare the folder with the ledger of a table."""
        from paimon_assets.assets.files.landing import FileIntake, compare_landing  # noqa: PLC0415

        folder = opening.config.source
        landing = compare_landing(opening.paimon, opening.table, opening.key, self, folder=folder)
        return FileIntake(
            paimon=opening.paimon,
            table=opening.table,
            source=self,
            landing=landing,
            log=opening.log,
        )

    @property
    def title(self) -> str:
        """What feeds a table, for its asset."""
        return f"{self.format} files that land in a folder"

    @property
    def is_text(self) -> bool:
        """Whether values are texts that must be parsed, so that types are ours to say."""
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
            raise InvalidInputError(
                f"The source folder is taken from the environment variable "
                f"'{self.folder.env_var_name}', which is not set.",
                kind="source-folder",
            )
        return value.rstrip("/")

    def list_files(self, file_io: FileIO, folder: str) -> list[FolderFile]:
        """Return the files that match, by name; none if there is no folder.

        Raises:
            StorageError: The storage failed.
            UnsupportedFeatureError: Of a pattern with folders: below it lies a table with a log.

        Cost:
            One listing; of a pattern with folders, one for each folder below.
        """
        if self.pattern is not None and "/" in self.pattern:
            regex = glob_regex(self.pattern)
            try:
                files = walk(file_io, folder)
            except NotFoundError:
                return []
            return [file for file in files if file.size > 0 and regex.fullmatch(file.name)]
        endings = tuple(f".{ending}" for ending in self.kind.endings)
        return [  # by name, as it is listed
            FolderFile(name=name, size=file.size, modified_ms=file.modified_ms, tag=file.tag)
            for file in file_io.list_directory(folder)
            if not file.is_directory
            and file.size > 0
            and not (name := file.name).startswith(_HIDDEN)
            and (
                fnmatch.fnmatchcase(name, self.pattern)
                if self.pattern is not None
                else name.endswith(endings)
            )
        ]

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
        raise InvalidInputError(
            f"The source folder '{folder}' does not exist. Correct it, make it, or say "
            "FileSource(may_be_missing=True).",
            kind="source-folder",
            details={"folder": folder},
        )


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


BadFile = Callable[[str, PaimonError], None]
"""Takes the path of a file that cannot be read, and why."""


def checked_schema(
    file_io: FileIO,
    paths: Sequence[str],
    source: FileSource,
    expected: Schema | None,
    on_bad: BadFile | None = None,
) -> pa.Schema | None:
    """Return the schema all files are read as, after comparing every file with it.

    Columns and types of Parquet, ORC, Avro and Arrow files are those of the first file, of CSV and
    JSON files those expected, or those of the first file where nothing is. Files that are wrong go
    to `on_bad`; without it the first one is raised. None if no file is right.

    Cost:
        One footer, or the first block of a text file, each.
    """
    declared = None if expected is None else to_arrow_schema(expected.fields)
    schema: pa.Schema | None = None
    for path in paths:
        try:
            schema = _compare(file_io, path, source, declared, schema)
        except (FormatError, InvalidInputError) as error:
            if on_bad is None:
                raise
            on_bad(path, error)
    return schema


def _compare(
    file_io: FileIO,
    path: str,
    source: FileSource,
    declared: pa.Schema | None,
    schema: pa.Schema | None,
) -> pa.Schema | None:
    """Return the schema of all files, which is that of the first one with columns."""
    with open_external_file(file_io, path, source.kind, declared) as opened:
        own = opened.schema
    if opened.is_empty:
        return schema
    if schema is not None:
        _compare_columns(path, own.names, schema.names)
        if not source.is_text:
            _compare_types(path, own, schema)
        return schema
    if declared is None:
        return own
    _compare_columns(path, own.names, declared.names)
    return pa.schema([declared.field(name) for name in own.names]) if source.is_text else own


def read_files(
    file_io: FileIO, paths: Sequence[str], source: FileSource, schema: pa.Schema
) -> pa.RecordBatchReader:
    """Return the rows of all files in path order, read as they are consumed."""

    def batches() -> Iterator[pa.RecordBatch]:
        for path in paths:
            with open_external_file(file_io, path, source.kind, schema) as opened:
                for batch in opened.batches:
                    yield batch.select(schema.names)

    return pa.RecordBatchReader.from_batches(schema, batches())


def _compare_columns(path: str, names: Sequence[str], expected: Sequence[str]) -> None:
    unknown = [name for name in names if name not in expected]
    missing = [name for name in expected if name not in names]
    parts = []
    if unknown:
        parts.append(f"has columns that are not expected ({shorten(unknown)})")
    if missing:
        parts.append(f"lacks columns ({shorten(missing)})")
    if parts:
        raise InvalidInputError(
            f"'{path}' {' and '.join(parts)}; expected {shorten(expected)}. Declare the files' "
            "own columns as FileSource(schema=…) and map them with transform.",
            kind="source-columns",
            details={"file": path},
        )


def _compare_types(path: str, own: pa.Schema, expected: pa.Schema) -> None:
    for column in expected:
        other = own.field(column.name).type
        if other != column.type:
            raise InvalidInputError(
                f"'{path}' holds column '{column.name}' as {other}, files before it as "
                f"{column.type}; ingest them in runs of their own, or write them alike.",
                kind="source-columns",
                details={"file": path, "column": column.name},
            )
