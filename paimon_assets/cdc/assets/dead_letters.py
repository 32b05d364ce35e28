"""Records of a change log that cannot be read: a table has them, each with the reason."""

import pyarrow as pa
from msgspec import Struct, field

from paimon_assets.assets.metadata import Metadata, grid
from paimon_assets.assets.translator import identifier_of
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.table.api import TableCatalog

_SHOWN = 20
_SCHEMA = Schema.of(
    {"file": "STRING", "line": "BIGINT", "reason": "STRING", "record": "STRING"},
    primary_keys=["file", "line"],
    options={"bucket": "1"},
    comment="Records of change logs that could not be read.",
)


class DeadLetters(Struct, kw_only=True):
    """The records of one run that could not be read."""

    table: str | None
    """Where they go; None: the first one fails the run."""
    tables: list[pa.Table] = field(default_factory=list)
    """Of `REJECTED_SCHEMA`."""

    def write(self, catalog: TableCatalog) -> None:
        """Keep them; a file and line has one, however often it is read."""
        if not self.tables or self.table is None:
            return
        name = identifier_of(self.table)
        catalog.create_database(name.database, ignore_if_exists=True)
        letters = catalog.create_table(name, _SCHEMA, ignore_if_exists=True)
        letters.new_write_builder().write(pa.concat_tables(self.tables))

    def metadata(self) -> Metadata:
        """Return how many there are, and the first ones."""
        metadata: Metadata = {"paimon/dead_letters": sum(map(len, self.tables))}
        if self.tables:
            shown = pa.concat_tables(self.tables).slice(0, _SHOWN)
            columns = ["file", "line", "reason"]
            metadata["paimon/dead_letters_shown"] = grid(shown.select(columns).to_pylist())
        return metadata
