"""Values of REST catalogs as this engine knows them: names, headers, schemas, tags, errors."""

import datetime as dt
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from paimon_assets.engine.codec.rest import resources
from paimon_assets.engine.codec.rest.rest_responses import TableResponse, TagResponse
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.errors import CommitConflictError, InvalidInputError, PaimonError
from paimon_assets.engine.spec.metadata.tag import Tag
from paimon_assets.engine.spec.options.option import parse_duration_ms
from paimon_assets.engine.spec.options.rest_options import HEADER_PREFIX
from paimon_assets.engine.spec.paths import MAIN_BRANCH
from paimon_assets.engine.spec.schema.schema import TableSchema, all_field_ids

_DURATION = re.compile(
    r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d{1,9}))?S)?)?", re.IGNORECASE
)


def raced(identifier: Identifier, from_snapshot: int | None) -> CommitConflictError:
    """Return the error of a rollback that another commit was faster than."""
    return CommitConflictError(
        f"Table '{identifier}' is not at snapshot {from_snapshot} any more; look again before it is"
        " rolled back.",
        kind="rollback-raced",
        details={"table": str(identifier)},
    )


def headers_of(options: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that options ask for."""
    headers = {
        key.removeprefix(HEADER_PREFIX): value
        for key, value in options.items()
        if key.startswith(HEADER_PREFIX)
    }
    for name, value in headers.items():
        if not name.isascii() or not name.replace("-", "").replace("_", "").isalnum():
            raise InvalidInputError(f"{name!r} is no name of a header.", kind="rest-options")
        if any(not " " <= character <= "~" for character in value):
            raise InvalidInputError(
                f"Header '{name}' holds a character that no header may.", kind="rest-options"
            )
    return headers


def named(identifier: Identifier) -> resources.Identifier:
    """Return a table as requests name it, with its branch."""
    return resources.Identifier(database=identifier.database, object=identifier.object_name)


def path_to(identifier: Identifier, *more: str, kind: str = "tables") -> tuple[str, ...]:
    """Return the parts of the path to a table, with its branch, or to a view or function."""
    return ("databases", identifier.database, kind, identifier.object_name, *more)


def path_of_main(identifier: Identifier, *more: str) -> tuple[str, ...]:
    """Return the parts of the path to a table, whichever branch it is."""
    return path_to(identifier.at_branch(MAIN_BRANCH), *more)


def location_of(got: TableResponse) -> str:
    """Return the directory of a table; one of this machine without its scheme."""
    path = got.path.rstrip("/") or "/"
    if path[:5].lower() != "file:":
        return path
    return "/" + path[5:].lstrip("/")


def audit_of(got: TableResponse) -> dict[str, str | int | None]:
    """Return the creator and the last author of a table, and the times."""
    return {
        "owner": got.owner,
        "created_at": got.created_at or None,
        "created_by": got.created_by,
        "updated_at": got.updated_at or None,
        "updated_by": got.updated_by,
    }


def schema_of(got: TableResponse) -> TableSchema:
    """Return the newest schema of a table."""
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


def tag_of(got: TagResponse) -> Tag:
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
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        return dt.timedelta(milliseconds=parse_duration_ms(text))
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups()[:4])
    micros = int((found[5] or "").ljust(6, "0")[:6])
    return dt.timedelta(
        days=days, hours=hours, minutes=minutes, seconds=seconds, microseconds=micros
    )


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
    except PaimonError as error:
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
        details = {**error.details}
        if database is None:
            details["table"] = str(where)
        else:
            details["database"] = database
        raise type(error)(text, kind=error.kind, details=details) from error
