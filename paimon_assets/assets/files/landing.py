"""The files of a landing folder: which are new, and how one run takes them.

A file that cannot be read is quarantined, if the source has a quarantine; the rest are read again.
"""

import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Self

import dagster as dg
import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from paimon_assets.assets.files import ledger as ledgers
from paimon_assets.assets.files import source_files
from paimon_assets.assets.files.dead_letters import DeadLetters, check_of
from paimon_assets.assets.files.sources import Opening, source_name_of
from paimon_assets.assets.metadata import Metadata, grid
from paimon_assets.assets.resource import PaimonCatalogResource
from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema
from paimon_assets.engine.control.segments import FolderFile
from paimon_assets.engine.data.format.text_lines import BAD_RECORD, named_columns
from paimon_assets.engine.data.write.input_check import InputCheck, row_kinds
from paimon_assets.engine.errors import FormatError, InvalidInputError, PaimonError
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.fileio.opening import file_io_for
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.spec.words import counted, printable
from paimon_assets.engine.table import schema_merging
from paimon_assets.engine.table.frames.frames import Frame
from paimon_assets.engine.table.table import Table

_FILES_SHOWN = 200
_LINE = re.compile(r"\bline (\d+): ")


class Landing(Value):
    """The files of a landing folder that a table has not ingested yet."""

    folder: str
    file_io: FileIO
    ledger: ledgers.Ledger
    files: list[FolderFile]
    rest: list[FolderFile]
    """Files that are not taken: by their names, or as they have no bytes."""
    pending: ledgers.Pending


def compare_landing(
    paimon: PaimonCatalogResource,
    table: Table | None,
    key: dg.AssetKey,
    source: source_files.FileSource,
    *,
    folder: str = "",
) -> Landing:
    """Compare the folder of a source with the ledger of an ingestion asset, if it has a table."""
    name, folder = source_name_of(key), source.folder_path(folder)
    file_io = file_io_for(folder, paimon.options)
    rest: list[FolderFile] = []
    files = source.list_files(file_io, folder, rest)
    ledger = ledgers.load_ledger(table, name)
    pending = ledgers.compare(files, ledger, table)
    return Landing(
        folder=folder, file_io=file_io, ledger=ledger, files=files, rest=rest, pending=pending
    )


def quarantine_value(quarantined: Sequence[ledgers.Quarantined]) -> dg.TableMetadataValue:
    return grid(
        {"file": each.file.display_name, "bytes": each.file.size, "reason": each.reason}
        for each in quarantined[:_FILES_SHOWN]
    )


@dataclass(kw_only=True)
class FileIntake:
    """The files that one run takes; see `sources.Intake`."""

    paimon: PaimonCatalogResource
    table: Table
    source: source_files.FileSource
    landing: Landing
    log: Any
    ledger: ledgers.Ledger = field(init=False)
    """The files that the table has ingested before the run, with the quarantine of the run."""
    files: tuple[FolderFile, ...] = ()
    quarantined: tuple[ledgers.Quarantined, ...] = ()
    """Files in quarantine, of this run and of those before."""
    shapes: dict[str, list[str]] = field(default_factory=dict)
    """Names of columns → paths of the files that have them."""
    dead_letters: DeadLetters = field(init=False)
    expected: Schema | None = None
    """Columns that the files should have, those of the table; None before a transform."""
    files_left: int = 0
    """New files beyond the most of a run."""
    remembered: int | None = field(init=False)

    def __post_init__(self) -> None:
        self.ledger, self.quarantined = self.landing.ledger, self.landing.pending.quarantined
        self.dead_letters = DeadLetters(
            table=self.source.dead_letters, shows_values=self.paimon.show_values
        )
        self.remembered = self.source.remembered_files

    @classmethod
    def open(cls, source: source_files.FileSource, opening: Opening, **more: Any) -> Self:
        """Compare the folder of a source with the ledger of a table."""
        paimon, table, folder = opening.paimon, opening.table, opening.config.source
        landing = compare_landing(paimon, table, opening.key, source, folder=folder)
        log = opening.log
        return cls(paimon=paimon, table=table, source=source, landing=landing, log=log, **more)

    @property
    def place(self) -> str:
        return self.landing.folder

    @property
    def is_empty(self) -> bool:
        return not self.files

    @property
    def paths(self) -> dict[str, FolderFile]:
        """Path → file, of those that the run ingests."""
        return {f"{self.place}/{file.name}": file for file in self.files}

    @property
    def has_quarantine(self) -> bool:
        return self.source.on_bad_file == source_files.OnBadFile.QUARANTINE

    def choose(self, config: source_files.IngestConfig, *, again: bool = False) -> None:
        """Choose the new files that the run ingests; `again`: all count as new."""
        if config.max_files < 0:  # the Launchpad does not know this limit
            raise InvalidInputError(
                f"max_files is {config.max_files}; give 0 for all new files, or how many at most.",
                kind="ingest-config",
            )
        if again:
            ledger = self.ledger.without_files()
            pending = ledgers.compare(self.landing.files, ledger, self.table)
            self.landing = replace(self.landing, ledger=ledger, pending=pending)
            self.ledger, self.quarantined = ledger, pending.quarantined
        source, landing, pending = self.source, self.landing, self.landing.pending
        folder = landing.folder
        source.check_folder(landing.file_io, folder, is_known=self.ledger.file_count > 0)
        if config.source and not landing.files:
            message = (
                f"The run's source '{folder}' holds no {source.format} file to take in, or does "
                "not exist; correct it, or leave it out for the asset's own folder."
            )
            raise InvalidInputError(message, kind="source-folder", folder=folder)
        due = pending.new
        if source.on_changed == source_files.OnChanged.REFUSE:
            pending.refuse_changes(folder)
        elif source.on_changed == source_files.OnChanged.AGAIN:
            due = tuple(sorted((*due, *pending.changed)))
        self.files = due[: config.max_files or None]
        most = getattr(config, "max_bytes", 0)
        if most > 0 and len(self.files) > 1:
            total = np.cumsum([file.size for file in self.files])
            self.files = self.files[: max(1, int(np.searchsorted(total, most, side="right")))]
        self.files_left = len(due) - len(self.files)

    def news(self) -> str:
        count = counted(len(self.files), "new file")
        return f"{count} in '{self.place}': {ledgers.names_text(self.files)}."

    def nothing_note(self, *, dry_run: bool) -> str:
        if dry_run:
            files = counted(len(self.files), "new file")
            return f"Dry run: {files} would be ingested; nothing was written."
        before = counted(self.ledger.file_count, "file")
        return f"No new files in '{self.place}': it had {before} before; nothing was committed."

    def metadata(self) -> Metadata:
        shown = [{"file": f.display_name, "bytes": f.size} for f in self.files[:_FILES_SHOWN]]
        metadata: Metadata = {
            "paimon/source": self.landing.folder,
            "paimon/files_ingested": len(self.files),
            "paimon/files_left": self.files_left,
            "paimon/files_in_ledger": self.ledger.file_count + len(self.files),
            "paimon/source_bytes": sum(file.size for file in self.files),
        }
        if self.landing.rest:
            some = self.landing.rest[:_FILES_SHOWN]
            metadata["paimon/files_not_taken"] = grid(
                {"file": each.display_name, "bytes": each.size} for each in some
            )
        if shown:
            metadata["paimon/files_taken"] = grid(shown)
        if self.source.may_drift and self.shapes:
            metadata["paimon/file_shapes"] = grid(
                {"columns": names, "files": len(paths), "first": printable(paths[0])}
                for names, paths in islice(self.shapes.items(), _FILES_SHOWN)
            )
        if self.source.dead_letters is not None:
            metadata |= self.dead_letters.metadata()
        if self.landing.pending.changed:
            metadata["paimon/files_changed"] = len(self.landing.pending.changed)
        if self.has_quarantine:
            metadata["paimon/files_in_quarantine"] = len(self.quarantined)
        if self.quarantined:
            metadata["paimon/quarantine"] = quarantine_value(self.quarantined)
        return metadata

    def frame(self, expected: Schema | None, executor: str | None) -> Frame | None:
        self.expected = expected
        bad: dict[str, PaimonError] = {}
        file_io, paths, source = self.landing.file_io, [*self.paths], self.source
        on_bad = bad.__setitem__ if self.has_quarantine else None
        self.shapes = {}
        self.dead_letters.tables.clear()
        if source.dead_letters is not None and (source.schema or expected) is None:
            message = (
                "Dead letters before a transform need the files' columns: FileSource(schema=…)."
            )
            raise InvalidInputError(message, kind="source-columns")
        schema = self._columns_of(paths, on_bad=on_bad, shapes=self.shapes)
        if bad:
            self.quarantine(bad)
            return None
        if schema is None:
            return to_arrow_schema(self.table.schema.fields).empty_table()
        check = None if expected is None else check_of(self.table, schema)
        if source.dead_letters is not None:
            return source_files.read_files(
                file_io, paths, source, schema, check=check, reject=self.dead_letters.add
            )
        size = sum(file.size for file in self.files)
        if self.paimon.executor_for(size, executor) == "embedded":
            return source_files.read_files(file_io, paths, source, schema)
        kind = source.kind
        return self.paimon.files_dataframe(paths, kind.format, schema, kind.options, kind.others)

    def name_record(self, error: PaimonError) -> PaimonError:
        """Return the error of the first line that does not parse or fit, if a line is wrong."""
        path, source = str(error.details.get("path") or error.details.get("file")), self.source
        if not source.has_lines and (unfit := self._unfit_files(error)):
            path, first = next(iter(unfit.items()))
            text = first.message if self.paimon.show_values else error.message
            wider = "declare a wider type with schema_policy='sync', or "
            text += f" Or {wider if first.kind == 'input-value' else ''}leave such files out by "
            text += f"FileSource(on_bad_file='quarantine').{source_files.more_files(unfit)}"
            return InvalidInputError(f"'{path}': {text}", kind=error.kind, file=path)
        declared = source.schema or self.expected
        if isinstance(error, FormatError) and path in self.paths:
            paths = [path]
        elif error.kind.startswith("input-") and self.expected is not None:
            paths = [*self.paths]
        else:
            return error
        if declared is None or source.dead_letters is not None or not source.has_lines:
            return _with_way_out(error)
        columns = to_arrow_schema(declared.fields)
        check = None if self.expected is None else check_of(self.table, columns)
        file_io, reject = self.landing.file_io, self.dead_letters.add
        try:
            for each in paths:
                names = named_columns(file_io, each, source.kind, columns).names
                if names and not {*names}.issuperset(columns.names) and not source.may_drift:
                    return error  # of the line with the names
            rows = source_files.read_files(
                file_io, paths, source, columns, check=check, reject=reject
            )
            deque(rows, maxlen=0)
        except FormatError as first:
            # A value may have line ends, so this line may be no fault, unlike that of the error.
            place = _LINE.search(error.message) if self.paimon.show_values else None
            is_same = place is None or place[1] == str(first.details.get("line"))
            return first if first.kind == BAD_RECORD and is_same else _with_way_out(error)
        return error

    def can_leave_out(self, error: PaimonError) -> bool:
        """Whether a file that cannot be read is put into quarantine; then it is there."""
        path = str(error.details.get("path") or error.details.get("file"))
        if not self.has_quarantine:
            return False
        if bad := {path: error} if path in self.paths else self._unfit_files(error):
            self.quarantine(bad)
        return bool(bad)

    def _unfit_files(self, error: PaimonError) -> dict[str, PaimonError]:
        """Return the files with values that the table refuses: the error of a write names none."""
        if not error.kind.startswith("input-") or self.expected is None:
            return {}
        file_io, source, bad = self.landing.file_io, self.source, dict[str, PaimonError]()
        for path in self.paths:
            try:
                columns = self._columns_of([path])
                if columns is not None:
                    _, merged = schema_merging.schema_of(self.table.state.store, columns)
                    schema = merged or self.table.schema
                    check = InputCheck(table=self.table.name, schema=schema)
                    for batch in source_files.read_files(file_io, [path], source, columns):
                        row_kinds(check.conform(batch), schema)
            except PaimonError as unfit:
                bad[path] = unfit
        return bad

    def _columns_of(self, paths: Sequence[str], **words: Any) -> pa.Schema | None:
        source, expected = self.source, self.source.schema or self.expected
        own = (
            self.table.schema.fields if self.expected is not None and source.schema is None else ()
        )
        return source_files.checked_schema(
            self.landing.file_io, paths, source, expected, stored=to_arrow_schema(own), **words
        )

    def quarantine(self, bad: Mapping[str, PaimonError]) -> None:
        show, paths = self.paimon.show_values, self.paths
        added = []
        for path, error in bad.items():
            # A parser's message may quote a value.
            reason = "It is damaged, or a value does not fit; values are not shown."
            if show or not (isinstance(error, FormatError) or error.kind.startswith("input-")):
                reason = error.message
            self.log.warning("'%s' is left out: %s", printable(path), reason)
            added.append(ledgers.Quarantined(file=paths[path], reason=reason))
        self.ledger = self.ledger.with_quarantined(added)
        self.files = tuple(file for path, file in paths.items() if path not in bad)
        self.quarantined = (*self.quarantined, *added)

    def next_ledger(self) -> ledgers.Ledger:
        return self.ledger.with_files(self.files)

    def check_unchanged(self) -> None:
        """Refuse files that changed while they were read: their rows may be neither old nor new.

        Files that are gone do not matter; they were read.
        """
        self.dead_letters.write(self.paimon.catalog())  # before: a run that fails is repeated
        folder = self.landing.folder
        read = ledgers.Ledger(source=self.ledger.source).with_files(self.files)
        files = self.source.list_files(self.landing.file_io, folder)
        tags = {file.name: file.tag for file in self.files}
        retagged = [f for f in files if f.tag and f.tag != (tags.get(f.name) or f.tag)]
        changed = ledgers.compare(files, read).changed or tuple(retagged)
        if changed:
            raise InvalidInputError(
                f"{ledgers.names_text(changed)} in '{folder}' changed while being ingested; "
                "nothing was committed. Land files by rename, so that they appear whole, and run "
                "again.",
                kind="source-changed",
                folder=folder,
                files=len(changed),
            )


def _with_way_out(error: PaimonError) -> PaimonError:
    """Return the error of a damaged file with the advice to leave it out; keep all other errors."""
    if error.kind != "source-file":
        return error
    text = f"{error.message.rstrip('.')}. Repair or remove the file, or leave such files out by "
    return error.with_message(text + "FileSource(on_bad_file='quarantine').")
