"""The protocols of a source that feeds an ingestion asset, and of its intake of one run."""

from typing import Any, Protocol

import dagster as dg

from paimon_assets.assets.files.ledger import Ledger, load_ledger
from paimon_assets.assets.metadata import Metadata
from paimon_assets.assets.resource import PaimonCatalogResource
from paimon_assets.engine.errors import PaimonError
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.table.frames.frames import Frame
from paimon_assets.engine.table.table import Table


def source_name_of(key: dg.AssetKey) -> str:
    """Return the name under which an ingestion asset keeps its ledger."""
    return key.to_user_string()


class Intake(Protocol):
    """The new rows that one run ingests, and the ledger that its commit stores."""

    ledger: Ledger
    """The ledger before the run."""
    remembered: int | None
    """The fewest names of files that the ledger keeps; None keeps all."""

    @property
    def place(self) -> str:
        """The source, as messages name it."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is chosen."""

    def choose(self, config: Any, *, again: bool = False) -> None:
        """Choose the rows of the run; with `again` as if the table were empty."""

    def news(self) -> str:
        """Return a line for the log about the chosen rows."""

    def nothing_note(self, *, dry_run: bool) -> str:
        """Return why nothing was written."""

    def metadata(self) -> Metadata:
        """Return counts of the ingested and the remaining rows."""

    def frame(self, expected: Schema | None, executor: str | None) -> Frame | None:
        """Return the rows; None if something is left out, so that the run begins again."""

    def can_leave_out(self, error: PaimonError) -> bool:
        """Whether the run may leave out files that cannot be read, and continue."""

    def name_record(self, error: PaimonError) -> PaimonError:
        """Return the error that names the record at fault, where there is one; else this one."""

    def next_ledger(self) -> Ledger:
        """Return the ledger of the table once the rows are committed."""

    def check_unchanged(self) -> None:
        """Refuse files that changed while they were read; called right before the commit."""


class Opening(Value):
    """A run for which a source opens its intake."""

    paimon: PaimonCatalogResource
    table: Table
    key: dg.AssetKey
    config: Any
    log: Any
    """Takes lines for the log of the run."""

    def ledger(self) -> Ledger:
        return load_ledger(self.table, source_name_of(self.key))


class Source(Protocol):
    """Rows that arrive somewhere, and are ingested once each."""

    @property
    def title(self) -> str:
        """The rows, for the description of the asset."""

    @property
    def config(self) -> type[dg.Config]:
        """The config of a run."""

    def check_rows(self, table: str, schema: Schema) -> None:
        """Refuse to feed a table with rows.

        Raises:
            InvalidInputError: The records are no rows, or the table would have some twice.
        """

    def open(self, opening: Opening) -> Intake:
        """Compare the source with the ledger of a table."""
