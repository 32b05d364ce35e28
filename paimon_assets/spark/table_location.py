"""Location: which table the options of `format("paimon_assets")` name, and how to open it."""

from collections.abc import Mapping

from paimon_assets.engine.control.catalog.catalog import Identifier, TableName
from paimon_assets.engine.errors import InvalidInputError, UnsupportedFeatureError
from paimon_assets.engine.fileio.opening import scheme_of
from paimon_assets.engine.spec.evolution.option_rules import is_option, key_hints
from paimon_assets.engine.spec.options import catalog_options as opt
from paimon_assets.engine.spec.options.all_options import SCAN_TIMESTAMP, SCAN_VERSION, Options
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.table.api import open_catalog, open_table
from paimon_assets.engine.table.system.system_table import GlobalSystemTable, SystemTable
from paimon_assets.engine.table.table import Table

PATH, WAREHOUSE, TABLE, COLUMNS, WHERE = "path", "warehouse", "table", "columns", "where"
_CHECKPOINT = "checkpointlocation"
"""Spark's option of a written stream, in small letters as Spark passes it."""
MAX_ROWS = "read.stream.maxrowspertrigger"
_OWN = frozenset({PATH, WAREHOUSE, TABLE, COLUMNS, WHERE, _CHECKPOINT, MAX_ROWS})
_OF_SPARK = {"versionasof": SCAN_VERSION.key, "timestampasof": SCAN_TIMESTAMP.key}
"""Spark's words for time travel, in the small letters of options → Paimon's."""
_CREATED = "provider"
"""Option that only CREATE TABLE gives."""
_S3 = ("s3.", "s3a.")


class Location(Value, hidden=("options",)):
    """A table by name or path; plain values, so that it can be opened anywhere."""

    options: Mapping[str, str]
    """The options of a read or write; credentials among them."""

    @classmethod
    def of(cls, given: Mapping[str, str], defaults: Mapping[str, str]) -> "Location":
        """Join the options of a read with those of `register`."""
        if _CREATED in given:
            raise UnsupportedFeatureError(
                "Spark keeps no options of a table that CREATE TABLE ... USING makes, so that it "
                "could not be read; use CREATE TEMPORARY VIEW ... USING with the same options.",
                kind="spark-format-create",
            )
        location = cls(options={**defaults, **{_OF_SPARK.get(k, k): v for k, v in given.items()}})
        options = location.options
        is_directory = Options(options).get(opt.METASTORE) == opt.METASTORE.default
        needed = (WAREHOUSE, TABLE) if is_directory else (TABLE,)
        missing = [key for key in needed if key not in options]
        if missing and PATH not in options:
            text = (
                f"The Spark format needs the option '{missing[0]}'; give 'path', or 'warehouse' "
                "and 'table' (database.table). Spark keeps no options of CREATE TABLE."
            )
            raise InvalidInputError(text, kind="spark-options", option=missing[0])
        known = _OWN | _OF_SPARK.keys()
        for key in sorted(opt.table_options(given)):
            if key in known or key.startswith(location._storage) or is_option(key):
                continue
            hint = "".join(f"; did you mean '{close}'?" for close in key_hints([key]).values())
            message = f"The Spark format knows no option '{key}'{hint}; leave it out."
            raise InvalidInputError(message, kind="spark-options", option=key)
        return location

    @property
    def _storage(self) -> tuple[str, ...]:
        """Return the prefixes of storage options."""
        root = self.options.get(PATH) or self._warehouse
        return (f"{scheme_of(root)}.", *_S3)

    @property
    def has_catalog_secrets(self) -> bool:
        """Whether options hold secrets of more than the storage: no task may get those."""
        rest = {k: v for k, v in self.options.items() if not k.startswith(self._storage)}
        return bool(opt.secret_values(rest))

    @property
    def table_options(self) -> dict[str, str]:
        return {
            key: value
            for key, value in opt.table_options(self.options).items()
            if key not in _OWN and not key.startswith(self._storage)
        }

    @property
    def columns(self) -> list[str] | None:
        text = self.options.get(COLUMNS)
        return None if text is None else [name.strip() for name in text.split(",")]

    @property
    def checkpoint(self) -> str | None:
        """Where Spark notes how far a stream is; None if none is written."""
        return self.options.get(_CHECKPOINT)

    @property
    def max_rows(self) -> int | None:
        """Most rows of a micro-batch that is read; None without a limit."""
        text = self.options.get(MAX_ROWS)
        if text is None or (text.isascii() and text.isdigit() and int(text) > 0):
            return None if text is None else int(text)
        message = (
            f"The option 'read.stream.maxRowsPerTrigger' is '{text}'; expected a number of rows "
            "above 0."
        )
        raise InvalidInputError(message, kind="spark-options", option=MAX_ROWS)

    @property
    def where(self) -> str | None:
        return self.options.get(WHERE)

    @property
    def is_system_table(self) -> bool:
        """Whether the name is one of a system table, such as `db.t$snapshots` or `sys.tables`."""
        if PATH in self.options:
            return False
        return self._name.is_system_table

    def table(self) -> Table:
        if PATH in self.options:
            return open_table(self.options[PATH], self.options)
        catalog = open_catalog(self._warehouse, self.options)
        return catalog.get_table(self.options[TABLE])

    def system_table(self) -> SystemTable | GlobalSystemTable:
        of_catalog = {key: value for key, value in self.options.items() if key not in _OWN}
        catalog = open_catalog(self._warehouse, of_catalog)
        options = None if self._name.is_global else self.table_options
        return catalog.get_system_table(self.options[TABLE], options=options)

    @property
    def _warehouse(self) -> str:
        return self.options.get(WAREHOUSE, "")

    @property
    def _name(self) -> TableName:
        return TableName.parse(Identifier.parse(self.options[TABLE]))
