"""The table of records that are no rows: of landed files, of topics, of change logs."""

import pyarrow as pa
from msgspec import Struct, field

from paimon_assets.assets.metadata import Metadata, grid
from paimon_assets.assets.translator import identifier_of
from paimon_assets.engine.codec.arrow.arrow_types import empty_batch
from paimon_assets.engine.data.format import text_lines
from paimon_assets.engine.data.write.input_check import InputCheck, row_kinds
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.table.api import TableCatalog
from paimon_assets.engine.table.table import Table

_LETTERS_SHOWN = 20
_LETTERS = Schema.of(
    {"file": "STRING", "line": "BIGINT", "reason": "STRING", "record": "STRING"},
    primary_keys=["file", "line"],
    options={"bucket": "1"},
    comment="Records that could not be read, or did not fit their table.",
)


def check_of(table: Table, columns: pa.Schema) -> text_lines.Check | None:
    """Return the table's check of rows; None where it refuses all rows with these columns."""
    check = InputCheck(table=table.name, schema=table.schema)
    try:
        check.conform(empty_batch(columns))
    except InvalidInputError:  # the write refuses them
        return None
    return lambda rows: row_kinds(check.conform(rows), table.schema)


class DeadLetters(Struct, kw_only=True):
    """The records of one run that could not be read."""

    table: str | None
    """Where they go; None: the first one fails the run."""
    tables: list[pa.Table] = field(default_factory=list)
    place: text_lines.Place = text_lines.Place.LINE
    shows_values: bool = True

    def write(self, catalog: TableCatalog) -> None:
        """Keep them; a file and line has one, however often it is read."""
        if not self.tables or self.table is None:
            return
        name = identifier_of(self.table)
        catalog.create_database(name.database, ignore_if_exists=True)
        letters = catalog.create_table(name, _LETTERS, ignore_if_exists=True)
        letters.new_write_builder().write(pa.concat_tables(self.tables))

    def add(self, file: str, record: text_lines.Rejected) -> None:
        """Keep a record of a file or topic.

        Raises:
            FormatError: Kind `bad-record`: there is no table for it.
        """
        if self.table is None:
            raise text_lines.refusal(file, record, self.place, show=self.shows_values)
        self.tables.append(text_lines.rejected_table(file, [record]))

    def metadata(self) -> Metadata:
        metadata: Metadata = {"paimon/dead_letters": sum(map(len, self.tables))}
        if self.tables:
            shown = pa.concat_tables(self.tables).slice(0, _LETTERS_SHOWN)
            columns = ["file", "line", "reason"] if self.shows_values else ["file", "line"]
            metadata["paimon/dead_letters_shown"] = grid(shown.select(columns).to_pylist())
        return metadata
