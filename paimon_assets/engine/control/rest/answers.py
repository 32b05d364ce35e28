"""The meaning of an HTTP answer: a document, or an error.

Of a change, what a server says before it begins (400, 401, 403, 404, 409, 429, 501) is sure:
nothing was changed. What comes from its midst (500 and other), comes broken or not at all leaves it
open: `CommitUnknownError`. A lost race is no error; the document says so.
Source: `org.apache.paimon.rest.DefaultErrorHandler`.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from paimon_assets.engine.codec.rest.documents import ErrorResponse
from paimon_assets.engine.errors import (
    HIDDEN,
    AccessDeniedError,
    AlreadyExistsError,
    CommitUnknownError,
    Detail,
    FormatError,
    InvalidInputError,
    NotFoundError,
    PaimonError,
    StorageError,
    UnsupportedFeatureError,
)

_LONGEST_MESSAGE = 2_000
_LEAST_SECRET = 4
_OK = 200
_NOT_FOUND = 404
_MULTIPLE = 300
_CONFLICT = 409
_SURE: Mapping[int, tuple[type[PaimonError], str]] = {
    400: (InvalidInputError, "refused"),
    401: (AccessDeniedError, "unauthorized"),
    403: (AccessDeniedError, "forbidden"),
    404: (NotFoundError, "not-found"),
    405: (UnsupportedFeatureError, "server-unsupported"),
    409: (AlreadyExistsError, "exists"),
    413: (InvalidInputError, "refused"),
    429: (StorageError, "server-busy"),
    501: (UnsupportedFeatureError, "server-unsupported"),
}
_MEANING = {
    401: "does not know who asks; give it a token (option token, or PAIMON_TOKEN), or look at the"
    " keys and this machine's clock",
    403: "does not let you",
    404: "does not know what is asked for; look at the URI, if the name is right",
    429: "is busy",
    501: "does not do this",
    503: "is not available",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer as it came."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)

    @property
    def is_good(self) -> bool:
        """Whether the server accepted the request."""
        return _OK <= self.status < _MULTIPLE


def error_of(
    answer: Answer, what: str, *, is_change: bool, in_doubt: bool, secrets: Collection[str]
) -> PaimonError:
    """Return the error that a bad answer means."""
    said = _said(answer)
    sure = _SURE.get(answer.status)
    reason = said.message or _reason(answer.status, said)
    identity = answer.headers.get("x-request-id") or answer.headers.get("request-id")
    text = without(
        f"The REST catalog answered {answer.status} to {what}: {reason[:_LONGEST_MESSAGE]}"
        + (f" (request {identity})" if identity else ""),
        secrets,
    )
    details: dict[str, Detail] = {
        "status": answer.status,
        "request_id": without(identity or "", secrets),
    }
    if is_change and (in_doubt or sure is None):
        return CommitUnknownError(
            f"{text}. Whether it was done is unknown: look first.", details=details
        )
    error, kind = sure or (StorageError, "server-failed")
    resource = (said.resource_type or "").lower()
    if resource and answer.status in (_NOT_FOUND, _CONFLICT):
        suffix = "exists" if error is AlreadyExistsError else "not-found"
        kind = f"{resource}-{suffix}"
    return error(text, kind=kind, details=details)


def _reason(status: int, said: ErrorResponse) -> str:
    if said.resource_type and status == _NOT_FOUND:
        return f"there is no {said.resource_type.lower()} '{said.resource_name}'"
    return f"it {_MEANING.get(status, 'failed')}"


def _said(answer: Answer) -> ErrorResponse:
    try:
        return ErrorResponse.from_bytes(answer.body)
    except FormatError:
        return ErrorResponse()  # a proxy's page


def without(text: str, secrets: Collection[str]) -> str:
    """Return a text in which no secret is left."""
    for secret in secrets:
        if len(secret) >= _LEAST_SECRET:
            text = text.replace(secret, HIDDEN)
    return text
