"""Frames: the tables, views and functions that a query names, as DataFrames.

    query ─ find_tables ─▶ uses ─▶ DataFrames ───────────┐
      └─ the same text, with the names of their views ──┴─▶ session.sql(text)

A few files that Spark's own reader opens are one relation, however often the query names them: the
optimizer prunes its columns and rows, and reuses its scans and subqueries, as those of any files.
Where there are other tables, the text is analysed twice: first for its needs of each table
(`pushdown`), then for its rows.

The views are temporary for the time of the call, or part of the plan (Connect): nothing of them
stays in the session. Spark resolves names that the catalog does not have: temporary views,
other catalogs, files.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any
from uuid import uuid4

from msgspec import field
from msgspec.structs import replace
from pyspark.sql import DataFrame, SparkSession

from paimon_assets.engine.control.catalog.catalog import Identifier, TableName
from paimon_assets.engine.errors import InvalidInputError, NotFoundError, UnsupportedFeatureError
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.table.api import TableCatalog
from paimon_assets.engine.table.read.read_builder import ReadBuilder
from paimon_assets.spark.dataframes.tables import system_to_spark, to_spark
from paimon_assets.spark.job_names import is_connect
from paimon_assets.sql.parse import literal_of
from paimon_assets.sql.spark.pushdown import (
    narrow_read,
    needs,
    placeholder,
    relation,
    show_view,
    shows_plans,
    temporary_views,
)
from paimon_assets.sql.statements import Names
from paimon_assets.sql.table_uses import TableUse, find_tables
from paimon_assets.sql.words import Words

Place = Callable[[ReadBuilder], Any]
"""Makes a DataFrame of a read, or a `relation`."""
_MOST_VIEWS = 30
"""Views that read views, one above the other."""
_OPEN, _CLOSE = "\ue001", "\ue002"
"""Stand around the place of a DataFrame until the braces of the query are doubled."""
_OF_JAVA = frozenset({"reflect", "java_method", "try_reflect"})
"""Functions that call any method of the JVM."""
_OF_SPARK = ("global_temp", "session", "system")
"""Databases that are always Spark's."""


class Frames(Value, hidden=("known",)):
    """The tables of a catalog as DataFrames of a session."""

    session: SparkSession
    catalog: TableCatalog
    names: Names
    within: tuple[str, ...] = ()
    """The views that are being read, the outermost first."""
    known: dict[Any, Any] = field(default_factory=dict)

    def query(self, text: str, given: Mapping[str, DataFrame] | None = None) -> DataFrame:
        """Return the rows of a query, lazily; tables at their newest snapshot, or AS OF."""
        self.known.clear()
        if not shows_plans(self.session):
            return self.compose(text, lambda read: to_spark(read, self.session), given)
        reads: list[ReadBuilder] = []
        relations: dict[int, Any] = {}
        # The filter of a query of one table may leave a few rows, which the driver reads.
        is_joined = len(find_tables(text).uses) > 1

        def relation_of(read: ReadBuilder) -> Any:
            if is_joined and id(read) not in relations:
                relations[id(read)] = relation(self.session, read)
            return relations.get(id(read))

        def compose(place: Place) -> DataFrame:
            """Compose the query; `place` makes the rows of reads that are no relation."""
            return self.compose(text, lambda read: relation_of(read) or place(read), given)

        def hold(read: ReadBuilder) -> DataFrame:
            reads.append(read)
            return placeholder(self.session, read, len(reads))

        query = compose(hold)
        if not reads:
            return query
        needed, numbers = needs(query, reads), count(1)
        return compose(lambda read: narrow_read(self.session, read, needed.get(next(numbers))))

    def compose(
        self, text: str, place: Place, given: Mapping[str, DataFrame] | None = None
    ) -> DataFrame:
        """Return the rows of a query; `place` makes a DataFrame of the read of each table."""
        frames: dict[int, tuple[str, Any]] = {}

        def choose(use: TableUse) -> str | None:
            frame: Any = (given or {}).get(use.name[-1]) if len(use.name) == 1 else None
            if frame is None:
                key = (self.names.database, use.name, use.version, use.timestamp, use.arguments)
                if key not in self.known:
                    self.known[key] = self._meaning(use)
                frame = self.known[key]
            if isinstance(frame, ReadBuilder):
                frame = place(frame)
            elif isinstance(frame, Identifier):
                frame = self._view(frame, place)
            if frame is None:  # Spark may know the name; a view may not read that
                if self.within and use.arguments is None:
                    raise InvalidInputError(
                        f"It names '{'.'.join(use.name)}', which is no table or view of the "
                        "catalog; a view reads nothing else.",
                        kind="view-outside",
                    )
                return None
            name, _ = frames.setdefault(id(frame), (f"paimon_{uuid4().hex}", frame))
            return f"{_OPEN}{name}{_CLOSE}" if is_connect(self.session) else name

        query = find_tables(text)
        if self.within and (calls := query.functions & _OF_JAVA):
            raise InvalidInputError(
                f"It calls {', '.join(sorted(calls))}, which a view may not.", kind="view-outside"
            )
        replaced = query.replace_tables(choose)
        if is_connect(self.session) and frames:
            doubled = replaced.replace("{", "{{").replace("}", "}}")
            placed = doubled.replace(_OPEN, "{").replace(_CLOSE, "}")
            return self.session.sql(placed, **dict(frames.values()))
        try:
            for name, frame in frames.values():
                show_view(self.session, name, frame)
            return self.session.sql(replaced)
        finally:
            for name, _ in frames.values():
                temporary_views(self.session).dropTempView(name)

    def _meaning(self, use: TableUse) -> ReadBuilder | DataFrame | Identifier | None:
        """Return the read of a table, the rows of a system table, or the name of a view."""
        if use.arguments is not None:
            return self._function(use.name[-1].lower(), use.arguments)
        name = self._identifier(use.name)
        if name is None:
            return None
        try:
            if TableName.parse(name).is_system_table:
                return self._system(name, use)
            read = self.catalog.get_table(name).new_read_builder()
        except NotFoundError as error:
            if len(use.name) == 1 and error.kind in ("table-not-found", "database-not-found"):
                return None
            raise
        except UnsupportedFeatureError as error:
            if error.kind != "view":
                raise
            if use.version is not None or use.timestamp is not None:
                raise InvalidInputError(
                    f"'{name}' is a view, and views have no versions; say AS OF of its tables.",
                    kind="view-version",
                ) from error
            return name
        if use.version is not None:
            return read.at_version(use.version)
        return read if use.timestamp is None else read.at_timestamp(self._millis(use.timestamp))

    def _identifier(self, path: tuple[str, ...]) -> Identifier | None:
        """Return the table of the catalog a name may mean, None for one of Spark's."""
        if "/" in path[-1] or ":" in path[-1] or path[0].lower() in _OF_SPARK:
            return None
        if len(path) == 1:
            database = self.names.database
            return None if database is None else Identifier(database, path[0])
        if len(path) > 2 and path[0] != self.names.catalog:
            return None
        return self.names.identifier(path)

    def _millis(self, expression: str) -> int:
        """Return an instant by the session's time zone, in milliseconds."""
        text = f"SELECT unix_millis(CAST(({expression}) AS TIMESTAMP)) AS at"
        (row,) = self.session.sql(text).collect()
        if row.at is None:
            raise InvalidInputError(f"TIMESTAMP AS OF {expression} is no time.", kind="query")
        return int(row.at)

    def _system(self, name: Identifier, use: TableUse) -> ReadBuilder | DataFrame:
        options: dict[str, str] = {}
        if use.version is not None:
            options["scan.version"] = use.version
        if use.timestamp is not None:
            options["scan.timestamp-millis"] = str(self._millis(use.timestamp))
        parts = TableName.parse(name)
        if parts.system in ("ro", "audit_log"):
            # These have as many rows as their table: executors read them.
            table = self.catalog.get_table(replace(parts.table), options=options or None)
            table = table if parts.branch is None else table.at_branch(parts.branch)
            read = table.new_read_builder()
            return read.read_optimized() if parts.system == "ro" else read.with_row_kinds()
        return system_to_spark(self.catalog.get_system_table(name, options=options), self.session)

    def _function(self, name: str, arguments: Sequence[str]) -> ReadBuilder | None:
        if name == "paimon_incremental_to_auto_tag":
            message = f"{name} is not taken; read between two tags by paimon_incremental_query."
            raise UnsupportedFeatureError(message, kind="statement-unsupported", statement=name)
        if name not in ("paimon_incremental_query", "paimon_incremental_between_timestamp"):
            return None
        values = [literal_of(argument) for argument in arguments]
        if len(values) != 3:
            message = f"{name} takes a table, a start and an end: 3 values, and not {len(values)}."
            raise InvalidInputError(message, kind="query")
        table, start, end = map(str, values)
        path = Words(text=table).path("a table")
        read = self.catalog.get_table(self.names.identifier(path)).new_read_builder()
        if name == "paimon_incremental_query":
            return read.between(start, end)
        times = [at if at.isdecimal() else str(self._millis(f"'{at}'")) for at in (start, end)]
        return read.between_timestamps(*times)

    def _view(self, name: Identifier, place: Place) -> DataFrame:
        label = str(name)
        path = " -> ".join((*self.within, label))
        if label in self.within:
            raise InvalidInputError(f"View '{label}' reads itself: {path}.", kind="view-cycle")
        if len(self.within) >= _MOST_VIEWS:
            raise InvalidInputError(
                f"More than {_MOST_VIEWS} views read each other: {path}.", kind="view-depth"
            )
        if label not in self.known:
            self.known[label] = self.catalog.views.get(label)
        view = self.known[label]
        inner = replace(
            self, names=replace(self.names, database=name.database), within=(*self.within, label)
        )
        try:
            frame = inner.compose(view.query_for("spark"), place)
        except (InvalidInputError, NotFoundError) as error:
            if self.within or error.kind.startswith("view-"):
                raise
            raise error.with_message(f"View '{label}' cannot be read: {error.message}") from error
        columns = [field.name for field in view.fields]
        if len(columns) != len(frame.columns):
            raise InvalidInputError(
                f"View '{label}' has the columns {', '.join(columns)}, but its query has"
                f" {', '.join(frame.columns)}; replace the view.",
                kind="view-columns",
            )
        return frame.toDF(*columns)
