"""SqlQuery: a SELECT over tables of a catalog, run by duckdb in this process.

    text ─▶ find_tables ─▶ each table a dataset of its own name ─▶ duckdb ─▶ batches
                                └─ columns and filters of the query reach our scan

duckdb is an extra. It reads batch by batch, and so does whoever reads the result.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from msgspec import Struct, field

from paimon_assets.engine.contract.executor import Executor
from paimon_assets.engine.control.catalog.catalog import Identifier, TableName
from paimon_assets.engine.errors import InvalidInputError, PaimonError
from paimon_assets.engine.spec.options.all_options import SCAN_TIMESTAMP, SCAN_VERSION
from paimon_assets.engine.spec.predicate.predicate import Predicate
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.table.api import TableCatalog
from paimon_assets.engine.table.frames.frames import FrameResults, library
from paimon_assets.engine.table.read.read_builder import ReadBuilder
from paimon_assets.engine.table.system.system_table import GlobalSystemTable, SystemTable
from paimon_assets.sql.table_uses import Query, TableUse, find_tables

Source = ReadBuilder | SystemTable | GlobalSystemTable | pa.Table
OpenTable = Callable[[str, dict[str, str]], Source]
"""Opens `database.table` with the options of a time-travel target."""
_SHOWN = 100
"""Characters of a query that its repr shows."""
_REASON = 400
"""Characters of duckdb's own message."""


class SqlQuery(FrameResults, Value):
    """A query; each read runs it again.

    >>> catalog.sql("SELECT count(*) AS n FROM shop.orders").to_arrow().to_pylist()
    [{'n': 2}]
    """

    text: str
    open_table: OpenTable
    database: str | None = None
    """Of tables that are named without one."""
    external_access: bool = True
    """Whether the query may read files and addresses of its own, as duckdb's `read_csv` does."""

    def __repr__(self) -> str:
        return f"SqlQuery({self.text[:_SHOWN]!r})"

    def to_reader(self, executor: Executor[Any] | None = None) -> pa.RecordBatchReader:
        """Run the query, and read its rows in bounded memory."""
        return _Run(sql=self, executor=executor).reader(find_tables(self.text, "duckdb"))


class _Run(Struct, kw_only=True):
    sql: SqlQuery
    executor: Executor[Any] | None
    failures: list[PaimonError] = field(default_factory=list)
    """Errors of scans; duckdb makes errors of its own of them."""

    def reader(self, query: Query) -> pa.RecordBatchReader:
        duckdb = library("duckdb")
        # A variable of this process is no table.
        connection = duckdb.connect(
            config={
                "python_enable_replacements": "false",
                "enable_external_access": str(self.sql.external_access).lower(),
            }
        )
        try:
            names: dict[tuple[object, ...], str] = {}
            text = query.replace_tables(
                lambda use: self._register(use, connection, names), quote='"'
            )
            with self._explain(duckdb):
                batches = connection.sql(text).to_arrow_reader()
        except BaseException:
            connection.close()
            raise

        def read() -> Iterator[pa.RecordBatch]:
            try:
                with self._explain(duckdb):
                    yield from batches
            finally:
                connection.close()

        return pa.RecordBatchReader.from_batches(batches.schema, read())

    @contextmanager
    def _explain(self, duckdb: Any) -> Iterator[None]:
        """Convert duckdb's errors: to the error of a scan that caused it, else of the query."""
        try:
            yield
        except PaimonError:
            raise
        except BaseException as error:
            if self.failures:
                raise self.failures[0] from error
            if isinstance(error, duckdb.Error):
                reason = str(error).split("\n", 1)[0]
                hint = " Name tables as database.table." if "Table with name" in reason else ""
                raise InvalidInputError(
                    f"The query failed: {reason[:_REASON]}{hint}", kind="query"
                ) from error
            raise

    def _register(
        self, use: TableUse, connection: Any, names: dict[tuple[object, ...], str]
    ) -> str | None:
        """Register a table in duckdb; None if the catalog has no such table."""
        parts = use.name
        if use.arguments is not None or (len(parts) == 1 and self.sql.database is None):
            return None
        if len(parts) == 1:
            parts = (str(self.sql.database), *parts)
        if len(parts) != 2:
            raise InvalidInputError(f"'{'.'.join(parts)}' is not database.table.", kind="query")
        key = (*parts, use.version, use.timestamp)
        if key not in names:
            names[key] = f'"paimon {len(names)}"'
            source = self.sql.open_table(".".join(parts), _time_travel(use))
            rows = source if isinstance(source, pa.Table) else self._dataset(source)
            connection.register(names[key].strip('"'), rows)
        return names[key]

    def _dataset(self, source: ReadBuilder | SystemTable | GlobalSystemTable) -> Any:
        name = "paimon_assets.engine.table.frames.arrow_dataset"
        schema = source.arrow_schema

        def scan(
            columns: Sequence[str] | None, predicate: Predicate | None
        ) -> pa.RecordBatchReader:
            with self._noting():
                if isinstance(source, ReadBuilder):
                    reader = source.narrow(columns, predicate, self.executor)
                else:
                    reader = source.to_reader(self.executor)

            def batches() -> Iterator[pa.RecordBatch]:
                with self._noting(), reader:
                    yield from reader

            return pa.RecordBatchReader.from_batches(reader.schema, batches())

        return library(name).ScanDataset(schema, scan)

    @contextmanager
    def _noting(self) -> Iterator[None]:
        try:
            yield
        except PaimonError as error:
            self.failures.append(error)
            raise


def _time_travel(use: TableUse) -> dict[str, str]:
    if use.version is not None:
        return {SCAN_VERSION.key: use.version}
    if use.timestamp is None:
        return {}
    text = use.timestamp.strip()
    if text.upper().startswith("TIMESTAMP"):
        text = text[len("TIMESTAMP") :].strip()
    if len(text) < 2 or text[0] != "'" or text[-1] != "'":
        message = f"'{use.timestamp}' is no time; write TIMESTAMP AS OF '2024-01-31 12:00:00'."
        raise InvalidInputError(message, kind="query")
    return {SCAN_TIMESTAMP.key: text[1:-1]}


def new_query(
    catalog: TableCatalog, text: str, *, database: str | None, external_access: bool
) -> SqlQuery:
    """Return a query over tables of a catalog; see `TableCatalog.sql`."""

    def read_of(name: str, options: Mapping[str, str]) -> Source:
        if TableName.parse(Identifier.parse(name)).is_system_table:
            return catalog.get_system_table(name, options=options or None)
        return catalog.get_table(name).new_read_builder().with_options(options)

    return SqlQuery(
        text=text, open_table=read_of, database=database, external_access=external_access
    )
