"""The files of a change log that one run takes."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from paimon_assets.assets.files.landing import FileIntake, compare_landing
from paimon_assets.assets.files.source_files import FileSource
from paimon_assets.assets.files.sources import Opening
from paimon_assets.cdc.records.change_batch import CdcOptions, ChangeBatch
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
    """Yield the changes in a file of a change log."""
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
            Where damage shows only while a file is read, the others are read again.
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


def open_change_files(
    source: FileSource, opening: Opening, read: ReadFile = read_changes
) -> ChangeFileIntake:
    """Compare the folder of a change log with the ledger of a table."""
    folder = opening.config.source
    landing = compare_landing(opening.paimon, opening.table, opening.key, source, folder=folder)
    return ChangeFileIntake(
        paimon=opening.paimon, table=opening.table, source=source, landing=landing,
        log=opening.log, read=read,
    )  # fmt: skip
