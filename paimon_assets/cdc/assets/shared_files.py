"""Files of a log that several tables of a run read: each is parsed once for all."""

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from paimon_assets.cdc.assets.change_files import read_changes
from paimon_assets.cdc.records.change_batch import CdcOptions, ChangeBatch, SourceName, SourceTable
from paimon_assets.cdc.records.formats import CdcFormat
from paimon_assets.engine.errors import PaimonError
from paimon_assets.engine.fileio.base import FileIO

Parsed: TypeAlias = dict[SourceName, list[ChangeBatch] | None]
"""Table → its changes; None: it has taken them."""


class SharedFiles(Struct, kw_only=True):
    """Reads files for several tables; each table takes its changes of a file once.

    A table reads a file by itself where a record of it cannot be read, so that it fails or rejects
    as it would alone; where its columns have changed since; and once `most_bytes` wait for others.
    """

    tables: Mapping[str, SourceTable]
    """Source table → what is known of it."""
    most_bytes: int
    """Of changes that tables have not taken yet; 0: all."""
    _parsed: dict[str, Parsed | None] = field(default_factory=dict)
    _waiting: int = 0

    def __call__(
        self, file_io: FileIO, path: str, kind: CdcFormat, options: CdcOptions
    ) -> Iterable[ChangeBatch]:
        """Return the changes of the tables that options take; see `change_files.ReadFile`."""
        if options.on_rejected is not None:
            return read_changes(file_io, path, kind, options)
        if path not in self._parsed:
            self._parsed[path] = self._parse(file_io, path, kind, options)
        parsed = self._parsed[path]
        own = [name for name in parsed or () if options.table_of(name) is not None]
        is_alike = all(options.table_of(name) == self._known(name) for name in own)
        if parsed is None or not is_alike or None in map(parsed.get, own):
            return read_changes(file_io, path, kind, options)
        batches = [batch for name in own for batch in parsed[name] or ()]
        self._waiting -= sum(batch.rows.nbytes for batch in batches)
        parsed.update(dict.fromkeys(own))
        return batches

    def _known(self, name: SourceName) -> SourceTable | None:
        return self.tables.get(".".join(part for part in name if part))

    def _parse(
        self, file_io: FileIO, path: str, kind: CdcFormat, options: CdcOptions
    ) -> Parsed | None:
        if self.most_bytes and self._waiting > self.most_bytes:
            return None
        parsed: dict[SourceName, list[ChangeBatch]] = {}
        try:
            for batch in read_changes(file_io, path, kind, replace(options, table_of=self._known)):
                parsed.setdefault((batch.database, batch.schema, batch.table), []).append(batch)
                self._waiting += batch.rows.nbytes
        except PaimonError:
            return None
        return {**parsed}
