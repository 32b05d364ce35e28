"""SchemaManager: the `schema-N` files of a table.

Source: `org.apache.paimon.schema.SchemaManager`.
"""

from paimon_assets.engine.codec.metadata_json import schema_from_json, schema_to_json
from paimon_assets.engine.errors import AlreadyExistsError, NotFoundError
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.paths import SCHEMA_PREFIX, TablePaths
from paimon_assets.engine.spec.schema import Schema, TableSchema, first_table_schema
from paimon_assets.engine.spec.schema_validation import validate_schema


class SchemaManager:
    """Reads and creates schema files; a schema file never changes, so each is read once."""

    def __init__(self, file_io: FileIO, paths: TablePaths) -> None:
        self._file_io = file_io
        self._paths = paths
        self._schemas: dict[int, TableSchema] = {}

    def list_ids(self) -> list[int]:
        """Return the ids of all schemas, ascending; empty if there is no table.

        Cost:
            One listing.
        """
        return sorted(
            int(number)
            for status in self._file_io.list_directory(self._paths.schema_directory)
            if (number := status.name.removeprefix(SCHEMA_PREFIX)).isdecimal()
            and status.name.startswith(SCHEMA_PREFIX)
        )

    def latest(self) -> TableSchema | None:
        """Return the newest schema, None if there is no table."""
        ids = self.list_ids()
        return self.schema(ids[-1]) if ids else None

    def latest_id(self, known: int) -> int:
        """Return the newest id, given one that a writer opened the table with.

        Ids are contiguous, so this asks for the next ones instead of listing.

        Raises:
            NotFoundError: The known schema is gone: the table was dropped meanwhile.
        """
        if not self._file_io.exists(self._paths.schema(known)):
            raise NotFoundError(
                f"Table '{self._paths.table}' was dropped: its schema {known} is gone.",
                kind="table-not-found",
                details={"path": self._paths.table},
            )
        while self._file_io.exists(self._paths.schema(known + 1)):
            known += 1
        return known

    def schema(self, schema_id: int) -> TableSchema:
        """Return one schema.

        Raises:
            NotFoundError: There is none of that id.
            FormatError: The file is damaged.
        """
        found = self._schemas.get(schema_id)
        if found is None:
            path = self._paths.schema(schema_id)
            found = schema_from_json(self._file_io.read_bytes(path), path)
            self._schemas[schema_id] = found
        return found

    def create(self, schema: Schema, *, time_millis: int) -> TableSchema:
        """Create a table by publishing its first schema.

        Raises:
            AlreadyExistsError: Somebody else created the table.
            InvalidInputError: The schema breaks a rule (`spec.schema_validation`).
        """
        first = first_table_schema(schema, time_millis=time_millis)
        validate_schema(first)
        if not self._file_io.publish(self._paths.schema(first.id), schema_to_json(first)):
            raise AlreadyExistsError(
                f"Table '{self._paths.table}' exists already.",
                kind="table-exists",
                details={"path": self._paths.table},
            )
        return first
