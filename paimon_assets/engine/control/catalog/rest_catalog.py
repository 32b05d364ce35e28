"""RestCatalog: databases and tables that a REST server knows, and the versions it manages.

The server knows a table's location, its newest schema and its newest snapshot; it alone changes
names, schemas, snapshots, tags, branches and consumers. Files of data, manifests and lists are
written here. Tables it calls external keep their versions in their directory. A data token opens
the files of one table. One with less than an hour left, or that the storage refuses, is renewed; of
several threads one asks. Without an answer the old token serves to its end.
Source: `org.apache.paimon.rest.RESTCatalog`, `org.apache.paimon.rest.RESTTokenFileIO`.
"""

import datetime as dt
import logging
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

from paimon_assets.engine import errors
from paimon_assets.engine.codec.rest import bodies as rest
from paimon_assets.engine.control.catalog.catalog import Identifier, LoadedTable, check_name
from paimon_assets.engine.control.clock import Clock, SystemClock
from paimon_assets.engine.control.publishing import after
from paimon_assets.engine.control.rest.auth import auth_of
from paimon_assets.engine.control.rest.http_client import HttpClient, Pace, RestApi
from paimon_assets.engine.fileio.base import FileIO, FileIOSpec
from paimon_assets.engine.fileio.delegating import RenewedFileIO
from paimon_assets.engine.fileio.opening import file_io_for
from paimon_assets.engine.spec.evolution.schema_change import SchemaChange
from paimon_assets.engine.spec.evolution.schema_validation import first_schema
from paimon_assets.engine.spec.metadata.snapshot import PartitionStatistics, Snapshot, Tag
from paimon_assets.engine.spec.options import catalog_options
from paimon_assets.engine.spec.options.all_options import Options, parse_duration_ms
from paimon_assets.engine.spec.paths import MAIN_BRANCH
from paimon_assets.engine.spec.schema.schema import Schema, TableSchema, all_field_ids
from paimon_assets.engine.spec.words import counted

logger = logging.getLogger(__name__)

_SAFE_MS = 3_600_000
_PAUSE_MS = 60_000
"""How long a catalog that did not answer is not asked again while a token serves."""
_NAMES = {
    "fs.oss.accessKeyId": "oss.key",
    "fs.oss.accessKeySecret": "oss.secret",
    "fs.oss.securityToken": "oss.token",
    "fs.oss.endpoint": "oss.endpoint",
    "fs.s3a.access.key": "s3.access-key",
    "fs.s3a.secret.key": "s3.secret-key",
    "fs.s3a.session.token": "s3.session-token",
    "fs.s3a.endpoint": "s3.endpoint",
    "fs.s3a.endpoint.region": "s3.region",
    "fs.s3a.path.style.access": "s3.path-style-access",
    "s3.access.key": "s3.access-key",
    "s3.secret.key": "s3.secret-key",
    "s3.session.token": "s3.session-token",
    "s3.path.style.access": "s3.path-style-access",
}
"""Names of Hadoop's and of Java's options → those of this engine's storages."""
_CREDENTIALS = frozenset(
    f"{scheme}.{name}"
    for scheme in ("s3", "s3a", "oss")
    for name in (
        "access-key", "access-key-id", "secret-key", "session-token", "key", "secret", "token",
    )
)  # fmt: skip


def storage_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return options with the names that storages here know.

    >>> storage_options({"fs.oss.endpoint": "e", "s3.region": "r"})
    {'oss.endpoint': 'e', 's3.region': 'r'}
    """
    return {_NAMES.get(key, key): value for key, value in options.items()}


class TableStorage:
    """The storage of one table, opened with the catalog's data token."""

    def __init__(
        self,
        path: str,
        options: Mapping[str, str],
        ask: Callable[[], rest.TokenResponse],
        clock: Clock,
    ) -> None:
        self._path = path
        self._options = {
            key: value for key, value in storage_options(options).items() if key not in _CREDENTIALS
        }
        self._endpoint = Options(options).get(catalog_options.DLF_OSS_ENDPOINT)
        self._ask = ask
        self._clock = clock
        self._lock = threading.Lock()
        self._opened: tuple[FileIO, int] | None = None
        self._asked_again_ms = 0

    def open(self, refused: FileIOSpec | None = None) -> tuple[FileIO, int]:
        """Return the storage, opened with a token that serves for a while, and when that ends."""
        with self._lock:
            now, held = self._clock.now_millis(), self._opened
            serves = None
            if held is not None and held[1] > now:
                is_refused = refused is not None and held[0].spec.options == refused.options
                serves = None if is_refused else held
            if serves is not None and (serves[1] - now >= _SAFE_MS or now < self._asked_again_ms):
                return serves
            try:
                token = self._ask()
            except errors.StorageError as error:
                if serves is None:
                    raise
                logger.warning("the token of '%s' was not renewed yet: %s", self._path, error)
                self._asked_again_ms = self._clock.now_millis() + _PAUSE_MS
                return serves
            opened = file_io_for(self._path, self.options_with(token))
            if held is not None and held[0].spec == opened.spec:
                opened = held[0]
            self._opened = (opened, token.expires_at_millis)
            return self._opened

    def options_with(self, token: rest.TokenResponse) -> dict[str, str]:
        """Return the options that open the storage with a token."""
        options = {**self._options, **storage_options(token.token)}
        return {**options, "oss.endpoint": self._endpoint} if self._endpoint else options


_DURATION = re.compile(
    r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d{1,9}))?S)?)?", re.IGNORECASE
)


def race_error(identifier: Identifier, from_snapshot: int | None) -> errors.CommitConflictError:
    """Return the error of a rollback after another commit."""
    message = (
        f"Table '{identifier}' is not at snapshot {from_snapshot} any more; look again before it is"
        " rolled back."
    )
    return errors.CommitConflictError(message, kind="rollback-raced", table=str(identifier))


def headers_of(options: Mapping[str, str]) -> dict[str, str]:
    headers = {
        key.removeprefix(catalog_options.HEADER_PREFIX): value
        for key, value in options.items()
        if key.startswith(catalog_options.HEADER_PREFIX)
    }
    for name, value in headers.items():
        if not name.isascii() or not name.replace("-", "").replace("_", "").isalnum():
            message = f"{name!r} is no name of a header; use letters, digits, - and _."
            raise errors.InvalidInputError(message, kind="rest-options")
        if any(not " " <= character <= "~" for character in value):
            raise errors.InvalidInputError(
                f"Header '{name}' holds a character that no header may.", kind="rest-options"
            )
    return headers


def wire_name(identifier: Identifier) -> rest.Identifier:
    """Return a table as requests name it, with its branch."""
    return rest.Identifier(database=identifier.database, object=identifier.object_name)


def path_to(identifier: Identifier, *more: str, kind: str = "tables") -> tuple[str, ...]:
    """Return the parts of the path to a table, with its branch, or to a view or function."""
    return ("databases", identifier.database, kind, identifier.object_name, *more)


def path_of_main(identifier: Identifier, *more: str) -> tuple[str, ...]:
    """Return the parts of the path to a table, whichever branch it is."""
    return path_to(identifier.at_branch(MAIN_BRANCH), *more)


def schema_of(got: rest.TableResponse) -> TableSchema:
    schema = got.schema
    return TableSchema(
        id=got.schema_id,
        fields=schema.fields,
        highest_field_id=max(all_field_ids(schema.fields), default=-1),
        partition_keys=schema.partition_keys,
        primary_keys=schema.primary_keys,
        options=schema.options,
        comment=schema.comment,
        time_millis=got.updated_at,
    )


def tag_of(got: rest.TagResponse) -> Tag:
    """Return a tag; its time is the wall clock of this machine."""
    created = got.tag_create_time
    return Tag(
        name=got.tag_name,
        snapshot=got.snapshot,
        create_time=None if created is None else dt.datetime.fromtimestamp(created / 1000),  # noqa: DTZ006
        time_retained=_time_retained(got.tag_time_retained),
    )


def _time_retained(text: str | None) -> dt.timedelta | None:
    """Read `PT24H` as Java writes it, or `1 d` as people do."""
    if not text:
        return None
    parts = _DURATION.fullmatch(text.strip())
    if parts is None:
        return dt.timedelta(milliseconds=parse_duration_ms(text))
    days, hours, minutes, seconds = (int(part or 0) for part in parts.groups()[:4])
    micros = int((parts[5] or "").ljust(6, "0")[:6])
    return dt.timedelta(days, seconds, micros, hours=hours, minutes=minutes)


@contextmanager
def naming(
    identifier: Identifier | None = None,
    *,
    database: str | None = None,
    taken: Identifier | None = None,
) -> Iterator[None]:
    """Let errors name the table as the other catalogs do."""
    try:
        yield
    except errors.PaimonError as error:
        where = taken or identifier
        text = {
            "table-not-found": f"Table '{identifier}' does not exist.",
            "table-exists": f"Table '{where}' exists already.",
            "database-not-found": f"Database '{database or (where and where.database)}' does not"
            " exist.",
            "database-exists": f"Database '{database}' exists already.",
        }.get(error.kind)
        if text is None:
            raise
        name = {"table": str(where)} if database is None else {"database": database}
        raise error.with_message(text, **name) from error


class RestCatalog:
    """Catalog behind a REST server; threads may share it."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._clock = SystemClock()
        self._storages: dict[tuple[str, str], RenewedFileIO] = {}
        own = {key: value for key, value in options.items() if key != catalog_options.METASTORE.key}
        pace = Pace(clock=self._clock)
        uri = Options(own).get(catalog_options.URI)
        if not uri:
            raise errors.InvalidInputError(
                "A REST catalog needs 'uri', such as https://host/catalog.", kind="rest-options"
            )
        bare = HttpClient(uri, pace=pace)
        client = HttpClient(
            uri,
            auth_of(own, self._clock, bare.fetch),
            headers=headers_of(own),
            secrets=catalog_options.secret_values(own),
            pace=pace,
        )
        config = RestApi(client).config(Options(own).get(catalog_options.WAREHOUSE))
        self._options = {**config.defaults, **own, **config.overrides}
        prefix = Options(self._options).get(catalog_options.PREFIX)
        self._api = RestApi(client.with_headers(headers_of(self._options)), prefix)
        self._uri = client.uri

    def __repr__(self) -> str:
        return f"RestCatalog({self._uri!r})"

    def list_databases(self) -> list[str]:
        return sorted(self._api.list_all(("databases",), rest.ListDatabasesResponse, "databases"))

    def create_database(
        self, name: str, *, ignore_if_exists: bool = False, options: Mapping[str, str] | None = None
    ) -> None:
        check_name("database", name)
        try:
            with naming(database=name):
                body = rest.CreateDatabaseRequest(name=name, options=options or {})
                self._api.post(("databases",), body)
        except errors.AlreadyExistsError:
            if not ignore_if_exists:
                raise

    def get_database(self, name: str) -> rest.DatabaseResponse:
        with naming(database=check_name("database", name)):
            return self._api.get(("databases", name), rest.DatabaseResponse)

    def alter_database(
        self, name: str, *, removals: Sequence[str] = (), updates: Mapping[str, str] | None = None
    ) -> rest.AlterDatabaseResponse:
        body = rest.AlterDatabaseRequest(removals=tuple(removals), updates=updates or {})
        with naming(database=check_name("database", name)):
            return self._api.post(("databases", name), body, rest.AlterDatabaseResponse)

    def drop_database(self, name: str, *, cascade: bool = False) -> None:
        """Drop a database; with `cascade` its tables, views and functions too.

        Without, `cascade=false` asks a server that knows it, as ours, to look again. Other servers
        also drop tables that were created after the check here.
        """
        if cascade:
            with naming(database=check_name("database", name)):
                self._api.delete(("databases", name))
            return
        for noun, list_names in (
            ("table", self.list_tables),
            ("view", self.list_views),
            ("function", self.list_functions),
        ):
            try:
                names = list_names(name)
            except errors.UnsupportedFeatureError:  # a server without views or functions
                continue
            if names:
                message = (
                    f"Database '{name}' holds {counted(len(names), noun)}, among them "
                    f"'{names[0]}'; drop them first, or drop it with cascade."
                )
                raise errors.InvalidInputError(message, kind="database-not-empty", database=name)
        with naming(database=name):
            takes = self._options.get(catalog_options.DROPS_EMPTY) == "true"
            self._api.delete(("databases", name), {"cascade": "false"} if takes else None)

    def list_tables(self, database: str) -> list[str]:
        return self._list(database, "tables", rest.ListTablesResponse)

    def _list(self, database: str, kind: str, into: type[rest.Page]) -> list[str]:
        with naming(database=check_name("database", database)):
            return sorted(self._api.list_all(("databases", database, kind), into, kind))

    def load_table(
        self, identifier: Identifier, *, newest: TableSchema | None = None
    ) -> LoadedTable:
        """Return the facts that open a table or a branch. Cost: one request."""
        got = self._got(identifier)
        path = got.path.rstrip("/") or "/"
        if path[:5].lower() == "file:":
            path = "/" + path[5:].lstrip("/")
        return LoadedTable(
            location=path,
            schema=schema_of(got),
            file_io=self._file_io(identifier, got, path),
            uuid=got.id,
            versions=None if got.is_external else self,
            audit={
                "owner": got.owner,
                "created_at": got.created_at or None,
                "created_by": got.created_by,
                "updated_at": got.updated_at or None,
                "updated_by": got.updated_by,
            },
        )

    def load_schema(self, identifier: Identifier) -> TableSchema:
        return schema_of(self._got(identifier))

    def create_table(
        self, identifier: Identifier, schema: Schema, *, ignore_if_exists: bool = False
    ) -> TableSchema:
        defaults = {
            key.removeprefix(catalog_options.TABLE_DEFAULT_PREFIX): value
            for key, value in self._options.items()
            if key.startswith(catalog_options.TABLE_DEFAULT_PREFIX)
        }
        first = first_schema(schema, time_millis=self._clock.now_millis())
        asked = Schema(
            fields=first.fields,
            partition_keys=first.partition_keys,
            primary_keys=first.primary_keys,
            options={**defaults, **first.options},
            comment=first.comment,
        )
        try:
            with naming(identifier):
                body = rest.CreateTableRequest(identifier=wire_name(identifier), schema=asked)
                self._api.post(("databases", identifier.database, "tables"), body)
        except errors.AlreadyExistsError:
            if not ignore_if_exists:
                raise
            return self.load_schema(identifier)
        with after("created", str(identifier)):
            return self.load_schema(identifier)

    def alter_table(self, identifier: Identifier, changes: Sequence[SchemaChange]) -> TableSchema:
        with naming(identifier):
            self._api.post(path_to(identifier), rest.AlterTableRequest(changes=tuple(changes)))
        with after("changed", str(identifier)):
            return self.load_schema(identifier)

    def drop_table(
        self, identifier: Identifier, *, ignore_if_missing: bool = False, cascade: bool = False
    ) -> None:
        """Drop a table; of one that is not external the server deletes the files.

        Our server takes `cascade`; other servers may or may not delete foreign files.
        """
        try:
            with naming(identifier):
                self._api.delete(path_to(identifier), {"cascade": "true"} if cascade else None)
        except errors.NotFoundError as error:
            if not ignore_if_missing or error.kind not in ("table-not-found", "database-not-found"):
                raise

    def rename_table(self, source: Identifier, target: Identifier) -> None:
        body = rest.RenameRequest(source=wire_name(source), destination=wire_name(target))
        with naming(source, taken=target):
            self._api.post(("tables", "rename"), body)

    def load_snapshot(self, identifier: Identifier) -> Snapshot | None:
        try:
            with naming(identifier):
                answer = self._api.get(path_to(identifier, "snapshot"), rest.SnapshotResponse)
        except errors.NotFoundError as error:
            if error.kind != "snapshot-not-found":
                raise
            return None
        return answer.snapshot.snapshot

    def commit_snapshot(
        self,
        identifier: Identifier,
        table_uuid: str,
        snapshot: Snapshot,
        *,
        base_uuid: str | None,
        statistics: Sequence[PartitionStatistics],
    ) -> bool:
        commit = rest.CommitRequest(
            table_id=table_uuid,
            base_snapshot_uuid=base_uuid,
            snapshot=snapshot,
            statistics=tuple(statistics),
        )
        with naming(identifier):
            return self._api.post(
                path_to(identifier, "commit"), commit, rest.CommitResponse
            ).success

    def rollback_to(
        self, identifier: Identifier, target: int | str, *, from_snapshot: int | None = None
    ) -> None:
        newest = self.load_snapshot(identifier)
        if from_snapshot is not None and (newest is None or newest.id != from_snapshot):
            raise race_error(identifier, from_snapshot)  # servers of 1.4 answer 500 to it
        instant = (
            rest.TagInstant(tag_name=target)
            if isinstance(target, str)
            else rest.SnapshotInstant(snapshot_id=target)
        )
        body = rest.RollbackRequest(instant=instant, from_snapshot=from_snapshot)
        try:
            with naming(identifier):
                self._api.post(path_to(identifier, "rollback"), body)
        except errors.AlreadyExistsError as error:
            raise race_error(identifier, from_snapshot) from error

    def list_tags(self, identifier: Identifier) -> list[str]:
        with naming(identifier):
            return sorted(
                self._api.list_all(path_to(identifier, "tags"), rest.ListTagsResponse, "tags")
            )

    def get_tag(self, identifier: Identifier, name: str) -> Tag:
        with naming(identifier):
            return tag_of(self._api.get(path_to(identifier, "tags", name), rest.TagResponse))

    def create_tag(
        self,
        identifier: Identifier,
        name: str,
        snapshot_id: int,
        *,
        time_retained: dt.timedelta | None = None,
    ) -> None:
        retention = (
            None if time_retained is None else f"{time_retained // dt.timedelta(milliseconds=1)}ms"
        )
        tag = rest.CreateTagRequest(tag_name=name, snapshot_id=snapshot_id, time_retained=retention)
        with naming(identifier):
            self._api.post(path_to(identifier, "tags"), tag)

    def delete_tag(self, identifier: Identifier, name: str) -> None:
        with naming(identifier):
            self._api.delete(path_to(identifier, "tags", name))

    def list_branches(self, identifier: Identifier) -> list[str]:
        with naming(identifier):
            answer = self._api.get(path_of_main(identifier, "branches"), rest.ListBranchesResponse)
        return sorted(set(answer.branches) - {MAIN_BRANCH})

    def create_branch(
        self, identifier: Identifier, name: str, *, from_tag: str | None = None
    ) -> None:
        with naming(identifier):
            body = rest.CreateBranchRequest(branch=name, from_tag=from_tag)
            self._api.post(path_of_main(identifier, "branches"), body)

    def drop_branch(self, identifier: Identifier, name: str) -> None:
        with naming(identifier):
            self._api.delete(path_of_main(identifier, "branches", name))

    def fast_forward(self, identifier: Identifier, name: str, *, keeps_main: bool = False) -> None:
        with naming(identifier):
            path = path_of_main(identifier, "branches", name, "forward")
            try:
                self._api.post(path, rest.ForwardBranchRequest(keeps_main=keeps_main or None))
            except errors.AlreadyExistsError as error:
                raise errors.CommitConflictError(error.message, kind="branch-behind") from error

    def list_consumers(self, identifier: Identifier) -> dict[str, int]:
        with naming(identifier):
            path = path_to(identifier, "consumers")
            consumers = self._api.list_all(path, rest.ListConsumersResponse, "consumers")
        return {
            each.consumer_id: each.next_snapshot
            for each in sorted(consumers, key=lambda each: each.consumer_id)
            if each.next_snapshot is not None
        }

    def reset_consumer(
        self, identifier: Identifier, consumer_id: str, next_snapshot: int | None
    ) -> None:
        body = rest.ResetConsumerRequest(consumer_id=consumer_id, next_snapshot_id=next_snapshot)
        with naming(identifier):
            self._api.post(path_to(identifier, "consumers", "reset"), body)

    def is_plain_query(self, identifier: Identifier, columns: Sequence[str]) -> bool:
        body = rest.AuthRequest(select=tuple(columns))
        with naming(identifier):
            path = path_to(identifier, "auth")
            answer = self._api.post(path, body, rest.AuthResponse, is_change=False)
        return not answer.filter and not answer.column_masking

    def rollback_schema(self, identifier: Identifier, schema_id: int) -> None:
        with naming(identifier):
            body = rest.RollbackSchemaRequest(schema_id=schema_id)
            self._api.post(path_to(identifier, "rollback-schema"), body)

    def list_functions(self, database: str) -> list[str]:
        return self._list(database, "functions", rest.ListFunctionsResponse)

    def get_function(self, identifier: Identifier) -> rest.FunctionResponse:
        return self._api.get(path_to(identifier, kind="functions"), rest.FunctionResponse)

    def list_views(self, database: str) -> list[str]:
        return self._list(database, "views", rest.ListViewsResponse)

    def get_view(self, identifier: Identifier) -> rest.ViewResponse:
        return self._api.get(path_to(identifier, kind="views"), rest.ViewResponse)

    def create_view(self, identifier: Identifier, schema: rest.ViewSchema) -> None:
        body = rest.CreateViewRequest(identifier=wire_name(identifier), schema=schema)
        self._api.post(("databases", identifier.database, "views"), body)

    def alter_view(self, identifier: Identifier, changes: Sequence[rest.ViewChange]) -> None:
        body = rest.AlterViewRequest(changes=tuple(changes))
        self._api.post(path_to(identifier, kind="views"), body)

    def drop_view(self, identifier: Identifier, *, ignore_if_missing: bool = False) -> None:
        try:
            self._api.delete(path_to(identifier, kind="views"))
        except errors.NotFoundError as error:
            if not ignore_if_missing or error.kind != "view-not-found":
                raise

    def rename_view(self, source: Identifier, target: Identifier) -> None:
        body = rest.RenameRequest(source=wire_name(source), destination=wire_name(target))
        self._api.post(("views", "rename"), body)

    def _got(self, identifier: Identifier) -> rest.TableResponse:
        try:
            with naming(identifier):
                return self._api.get(path_to(identifier), rest.TableResponse)
        except errors.NotFoundError as error:
            if error.kind != "table-not-found" or identifier.branch == MAIN_BRANCH:
                raise
        self._got(identifier.at_branch(MAIN_BRANCH))
        raise errors.NotFoundError(
            f"Table '{identifier.at_branch(MAIN_BRANCH)}' has no branch '{identifier.branch}'.",
            kind="branch-not-found",
            table=str(identifier),
            branch=identifier.branch,
        )

    def _file_io(self, identifier: Identifier, got: rest.TableResponse, path: str) -> FileIO:
        """Return a table's storage; tokens are kept while the table is the same."""
        if got.is_external or not Options(self._options).get(catalog_options.DATA_TOKEN_ENABLED):
            return file_io_for(path, storage_options(self._options))
        key = (str(identifier.at_branch(MAIN_BRANCH)), got.id or "")
        file_io = self._storages.get(key)
        if file_io is None:
            ask = partial(self._api.get, path_of_main(identifier, "token"), rest.TokenResponse)
            storage = TableStorage(path, self._options, ask, self._clock)
            file_io = self._storages.setdefault(key, RenewedFileIO(storage.open))
        return file_io
