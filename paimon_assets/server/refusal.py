"""Refusal: an answer that is no success, and the mapping of engine errors to HTTP."""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

from paimon_assets.engine.errors import (
    AlreadyExistsError,
    CommitConflictError,
    InvalidInputError,
    NotFoundError,
    PaimonError,
    UnsupportedFeatureError,
)
from paimon_assets.engine.fileio.atomic import NO_ATOMIC_PUBLISH

RESOURCES = ("database", "table", "partition", "column", "snapshot", "branch", "tag", "view",
             "dialect", "function", "definition")  # fmt: skip
"""What a kind such as `table-not-found` begins with → `resourceType` in capitals."""
_LONGEST = 4000
"""Characters of a message, which may repeat what the client sent."""
_LAST_PART = frozenset({"table"})
"""Resources that errors name with their database."""


@dataclass
class Refusal(Exception):  # noqa: N818 - an answer, no failure of ours
    """An answer of 400 and above."""

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
    """Return the answer to a malformed request."""
    return Refusal(HTTPStatus.BAD_REQUEST, message)


def forbidden(resource_type: str, name: str) -> Refusal:
    """Return the answer to a principal that lacks a grant, whether the thing exists or not."""
    return Refusal(
        HTTPStatus.FORBIDDEN,
        f"No permission on {resource_type.lower()} '{name}'.",
        resource_type,
        name,
    )


def not_implemented(what: str) -> Refusal:
    """Return the answer to a call this server knows and does not serve."""
    return Refusal(HTTPStatus.NOT_IMPLEMENTED, f"This server does not serve {what}.")


def refusal_of(error: PaimonError, names: Mapping[str, str]) -> Refusal:
    """Return the HTTP answer of an engine error."""
    status = _status(error)
    resource = next((r for r in RESOURCES if error.kind.startswith(f"{r}-")), None)
    if resource is None or status not in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
        return Refusal(status, error.message)
    known = error.details.get(resource, error.details.get(f"{resource}_id"))
    name = names.get(resource) if known is None else known
    if resource in _LAST_PART:
        name = names.get(resource) or str(name).rpartition(".")[2]
    return Refusal(status, error.message, resource.upper(), None if name is None else str(name))


def _status(error: PaimonError) -> int:
    match error:
        case NotFoundError():
            # A file that is missing inside a table is damage, no wrong name.
            lost = error.kind == "file-not-found"
            return HTTPStatus.INTERNAL_SERVER_ERROR if lost else HTTPStatus.NOT_FOUND
        case AlreadyExistsError():
            return HTTPStatus.CONFLICT
        case InvalidInputError():
            return HTTPStatus.BAD_REQUEST
        case UnsupportedFeatureError():
            return HTTPStatus.NOT_IMPLEMENTED
        case CommitConflictError():
            # Surely nothing was changed, and clients wait and ask again.
            return HTTPStatus.SERVICE_UNAVAILABLE
        case _:
            no_publish = error.kind == NO_ATOMIC_PUBLISH
            return HTTPStatus.NOT_IMPLEMENTED if no_publish else HTTPStatus.INTERNAL_SERVER_ERROR
