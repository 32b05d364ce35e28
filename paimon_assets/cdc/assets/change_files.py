"""The files of a change log that one run takes, or that several tables of a run read."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from paimon_assets.assets.files.landing import FileIntake
from paimon_assets.cdc.records.change_batch import CdcOptions, ChangeBatch, SourceName, SourceTable
from paimon_assets.cdc.records.formats import CdcFormat, cdc_format, changes_of
from paimon_assets.engine.codec.row_files import RowFormat, naming
from paimon_assets.engine.data.format.text_streams import open_text_stream
from paimon_assets.engine.errors import FormatError, InvalidInputError, PaimonError
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.segments.text_options import TextOptions

ReadFile = Callable[[FileIO, str, CdcFormat, CdcOptions], Iterable[ChangeBatch]]


def read_changes(
    file_io: FileIO, path: str, kind: CdcFormat, options: CdcOptions
) -> Iterator[ChangeBatch]:
    with naming(path, RowFormat.JSON), open_text_stream(file_io, path, TextOptions()) as stream:
        yield from changes_of(stream, path, kind, options)


@dataclass(kw_only=True)
class ChangeFileIntake(FileIntake):
    """The files of a change log; see `change_log_run.ChangeIntake`."""

    read: ReadFile = field(default_factory=lambda: read_changes)
    arrival: str = "order of files"

    def changes(self, options: CdcOptions) -> list[ChangeBatch] | None:
        """Return the changes in the files; None if some went to quarantine.

        Cost:
            If damage shows only while a file is read, the remaining files are read again.
        """
        kind = cdc_format(self.source.format)
        bad: dict[str, PaimonError] = {}
        batches: list[ChangeBatch] = []
        for path in self.paths:
            try:
                batches += self.read(self.landing.file_io, path, kind, options)
            except (FormatError, InvalidInputError) as error:
                if not self.has_quarantine:
                    raise
                bad[path] = error
        self.quarantine(bad)
        return None if bad else batches


Parsed: TypeAlias = dict[SourceName, list[ChangeBatch] | None]
"""Table → its changes; None: it has taken them."""


class SharedFiles(msgspec.Struct, kw_only=True):
    """Reads files for several tables; each table takes its changes of a file once.

    A table reads a file by itself where a record of it cannot be read, so that it fails or rejects
    as it would alone; where its columns have changed since; and once `most_bytes` wait.
    """

    tables: Mapping[str, SourceTable]
    """Source table → its columns and keys, as far as records had them."""
    most_bytes: int
    """Of changes that tables have not taken yet; 0: all."""
    _parsed: dict[str, Parsed | None] = msgspec.field(default_factory=dict)
    _waiting: int = 0

    def __call__(
        self, file_io: FileIO, path: str, kind: CdcFormat, options: CdcOptions
    ) -> Iterable[ChangeBatch]:
        """Return the changes of the tables that options take; see `ReadFile`."""
        if options.on_rejected is not None:
            return read_changes(file_io, path, kind, options)
        if path not in self._parsed:
            self._parsed[path] = self._parse(file_io, path, kind, options)
        parsed = self._parsed[path]
        own = [name for name in parsed or () if options.table_of(name) is not None]
        is_alike = all(options.table_of(name) == self._find_table(name) for name in own)
        if parsed is None or not is_alike or None in map(parsed.get, own):
            return read_changes(file_io, path, kind, options)
        batches = [batch for name in own for batch in parsed[name] or ()]
        self._waiting -= sum(batch.rows.nbytes for batch in batches)
        parsed.update(dict.fromkeys(own))
        return batches

    def _find_table(self, name: SourceName) -> SourceTable | None:
        return self.tables.get(".".join(part for part in name if part))

    def _parse(
        self, file_io: FileIO, path: str, kind: CdcFormat, options: CdcOptions
    ) -> Parsed | None:
        if self.most_bytes and self._waiting > self.most_bytes:
            return None
        parsed: dict[SourceName, list[ChangeBatch]] = {}
        try:
            for batch in read_changes(
                file_io, path, kind, replace(options, table_of=self._find_table, keys=())
            ):
                parsed.setdefault((batch.database, batch.schema, batch.table), []).append(batch)
                self._waiting += batch.rows.nbytes
        except PaimonError:
            return None
        return {**parsed}
