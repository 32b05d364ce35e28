"""Requests, parsed and checked; pages of lists; refusals, which are answers of 400 and above."""

import base64
import binascii
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from itertools import islice
from typing import Any, TypeVar
from urllib.parse import unquote_plus

from msgspec import field

from paimon_assets.engine import errors
from paimon_assets.engine.codec.rest.structure import Structure
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.fileio.atomic import NO_ATOMIC_PUBLISH
from paimon_assets.engine.spec.values import Value
from paimon_assets.server.principals import Action, Principal

PREFIX = "paimon"
"""Path segment after `/v1/`; clients learn it from `/v1/config`."""

Answer = Mapping[str, Any] | None
"""The members of a body; None is an empty one."""
RESOURCES = ("database", "table", "partition", "column", "snapshot", "branch", "tag", "view",
             "dialect", "function", "definition")  # fmt: skip
"""First words of kinds such as `table-not-found` → `resourceType` in capitals."""
_LONGEST = 4000
"""Characters of a message, which may repeat texts of the client."""
_LAST_PART = frozenset({"table"})
"""Resources that errors name with their database."""


@dataclass
class Refusal(Exception):  # noqa: N818 - an answer, no failure of ours
    status: int
    message: str
    resource_type: str | None = None
    resource_name: str | None = None

    def body(self) -> dict[str, object]:
        """Return the members of the error body, as Java's clients read it."""
        return {
            "message": self.message[:_LONGEST],
            "resourceType": self.resource_type,
            "resourceName": self.resource_name,
            "code": self.status,
        }


def bad_request(message: str) -> Refusal:
    return Refusal(HTTPStatus.BAD_REQUEST, message)


def forbidden(resource_type: str, name: str) -> Refusal:
    """Return the answer to a principal that lacks a grant, whether the thing exists or not."""
    return Refusal(
        HTTPStatus.FORBIDDEN,
        f"No permission on {resource_type.lower()} '{name}'.",
        resource_type,
        name,
    )


def not_implemented(resource: str) -> Refusal:
    return Refusal(HTTPStatus.NOT_IMPLEMENTED, f"This server does not serve {resource}.")


def refusal_of(error: errors.PaimonError, names: Mapping[str, str]) -> Refusal:
    status = _status(error)
    resource = next((r for r in RESOURCES if error.kind.startswith(f"{r}-")), None)
    if resource is None or status not in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
        return Refusal(status, error.message)
    known = error.details.get(resource, error.details.get(f"{resource}_id"))
    name = names.get(resource) if known is None else known
    if resource in _LAST_PART:
        name = names.get(resource) or str(name).rpartition(".")[2]
    return Refusal(status, error.message, resource.upper(), None if name is None else str(name))


def _status(error: errors.PaimonError) -> int:
    match error:
        case errors.NotFoundError():
            # A file that is missing inside a table is damage, no wrong name.
            lost = error.kind == "file-not-found"
            return HTTPStatus.INTERNAL_SERVER_ERROR if lost else HTTPStatus.NOT_FOUND
        case errors.AlreadyExistsError():
            return HTTPStatus.CONFLICT
        case errors.InvalidInputError():
            return HTTPStatus.BAD_REQUEST
        case errors.UnsupportedFeatureError():
            return HTTPStatus.NOT_IMPLEMENTED
        case errors.CommitConflictError() if error.kind == "branch-behind":
            return HTTPStatus.CONFLICT  # the same again would not help
        case errors.CommitConflictError():
            # Surely nothing was changed, and clients wait and ask again.
            return HTTPStatus.SERVICE_UNAVAILABLE
        case _:
            no_publish = error.kind == NO_ATOMIC_PUBLISH
            return HTTPStatus.NOT_IMPLEMENTED if no_publish else HTTPStatus.INTERNAL_SERVER_ERROR


StructureT = TypeVar("StructureT", bound=Structure)
DEFAULT_RESULTS = 100
MOST_RESULTS = 1000
_UNESCAPED = frozenset("_\\")


class Request(Value, hidden=("body",)):
    operation: str
    names: Mapping[str, str]
    """Parameters of the path, decoded: `database`, `table`, …"""
    query: Mapping[str, str]
    body: bytes
    principal: Principal
    id: str
    noted: dict[str, str | int | bool] = field(default_factory=dict)
    """Further items of its audit line: a snapshot, a new name."""
    opened: list[str] = field(default_factory=list)
    """Id of the table that it works on, empty if that has none."""
    delegation: str = ""
    """The ways to the files of tables that a client can take, separated by commas."""

    def read(self, structure: type[StructureT]) -> StructureT:
        try:
            return structure.from_bytes(self.body)
        except errors.FormatError as error:
            raise bad_request(f"Malformed request: {error.message}") from error

    def require(
        self, action: Action, database: str, name: str | None = None, *, noun: str = "TABLE"
    ) -> None:
        if self.principal.may(action, database, name):
            return
        raise forbidden("DATABASE", database) if name is None else forbidden(noun, name)

    def require_rename(self, source: Identifier, target: Identifier, *, noun: str) -> None:
        """Refuse a rename without rights on both names, or that would give more rights."""
        self.require(Action.ALTER, source.database, source.table, noun=noun)
        self.require(Action.CREATE, target.database, target.table, noun=noun)
        for action in set(Action) - {Action.CREATE}:
            if self.principal.may(action, target.database, target.table):
                self.require(action, source.database, source.table, noun=noun)

    def page(self, pattern_name: str = "", *, size_name: str = "maxResults") -> "Page":
        text = self.query.get(size_name, "")
        if text and not (text.isascii() and text.isdecimal()):
            raise bad_request(f"{size_name} {text!r} is no number of results.")
        pattern = self.query.get(pattern_name, "") if pattern_name else ""
        try:
            token = self.query.get("pageToken", "").encode("ascii")
            after = base64.b64decode(token, altchars=b"-_", validate=True).decode()
        except (binascii.Error, ValueError) as error:
            raise bad_request("pageToken is none of this server's.") from error
        return Page(
            after=after,
            most=min(int(text[:9] or 0) or DEFAULT_RESULTS, MOST_RESULTS),
            pattern=pattern or None,
            prefix=prefix_of(pattern),
        )


class Page(Value):
    """The part of a sorted list that is asked for."""

    after: str
    """The last name of the page before, empty at first."""
    most: int
    pattern: str | None
    prefix: str

    def matches(self, name: str) -> bool:
        if self.pattern is None:
            return True
        if self.pattern.endswith("%"):
            return name.startswith(self.prefix)
        return name == self.pattern

    def of(self, names: Iterable[str]) -> tuple[list[str], str | None]:
        """Take the page out of sorted names; look no further than one name behind it."""
        behind = (name for name in names if name > self.after and self.matches(name))
        page = list(islice(behind, self.most + 1))
        if len(page) <= self.most:
            return page, None
        return page[:-1], page_token(page[-2])


def prefix_of(pattern: str) -> str:
    """Return the text before the first wildcard of a LIKE pattern."""
    prefix = pattern.removesuffix("%")
    if "%" in prefix or not _UNESCAPED.isdisjoint(prefix):
        raise bad_request("Can only support prefix sql like pattern query now.")
    return prefix


def page_token(name: str) -> str:
    """Return a token of the page behind a name; opaque to clients."""
    return base64.urlsafe_b64encode(name.encode()).decode()


def decode_segment(segment: str) -> str:
    """Return a part of a path as it was before Java's `URLEncoder`."""
    try:
        return unquote_plus(segment, errors="strict")
    except UnicodeDecodeError as error:
        raise bad_request("Malformed request: the path is no UTF-8.") from error
