"""Conventions of Iceberg's REST catalog: errors, names of databases, options of storages.

Source: `open-api/rest-catalog-open-api.yaml` of Iceberg, `org.apache.iceberg.rest.ErrorHandlers`.
"""

from collections.abc import Mapping
from http import HTTPStatus

from paimon_assets.engine.control.catalog.rest_catalog import storage_options
from paimon_assets.server.request import Refusal

PATH = "/iceberg"
"""In front of `/v1/…`, beside Paimon's own catalog."""
DELEGATION = "x-iceberg-access-delegation"
"""The header of clients that would take credentials."""
VENDED = "vended-credentials"
LEVELS = "\x1f"
"""Between the levels of a namespace. Databases here have one."""
OAUTH = "OAUTH"
"""`resource_type` of the answer to a request for an OAuth token."""
_MISSING = {
    "TABLE": "NoSuchTableException",
    "ICEBERG-TABLE": "NoSuchIcebergTableException",
    "VIEW": "NoSuchViewException",
    "DATABASE": "NoSuchNamespaceException",
}
_TYPES: Mapping[int, str] = {
    HTTPStatus.UNAUTHORIZED: "NotAuthorizedException",
    HTTPStatus.FORBIDDEN: "ForbiddenException",
    HTTPStatus.METHOD_NOT_ALLOWED: "UnsupportedOperationException",
    HTTPStatus.NOT_IMPLEMENTED: "UnsupportedOperationException",
    HTTPStatus.SERVICE_UNAVAILABLE: "ServiceUnavailableException",
}
_NAMES: Mapping[str, tuple[str, ...]] = {
    "s3.access-key": ("s3.access-key-id",),
    "s3.secret-key": ("s3.secret-access-key",),
    "s3.region": ("s3.region", "client.region"),
}
"""This engine's options of storages → those of Iceberg's clients."""


def error_members(refusal: Refusal) -> Mapping[str, object]:
    """Return the members of an error's body."""
    members = refusal.body()
    if refusal.resource_type == OAUTH:
        return {"error": "unsupported_grant_type", "error_description": members["message"]}
    return {
        "error": {"message": members["message"], "type": _type(refusal), "code": refusal.status}
    }


def _type(refusal: Refusal) -> str:
    if refusal.status == HTTPStatus.NOT_FOUND:
        return _MISSING.get(refusal.resource_type or "", "NotFoundException")
    is_internal = refusal.status >= HTTPStatus.INTERNAL_SERVER_ERROR
    fallback = "InternalServerError" if is_internal else "BadRequestException"
    return _TYPES.get(refusal.status, fallback)


def client_storage(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options that open a storage by the names of Iceberg's clients.

    >>> client_storage({"s3.access-key": "A", "fs.s3a.endpoint": "e", "adls.account-key": "K"})
    {'s3.access-key-id': 'A', 's3.endpoint': 'e', 'adls.account-key': 'K'}
    """
    return {
        name: value
        for key, value in storage_options(options).items()
        for name in _NAMES.get(key, (key,))
    }
