"""Authentication: from the head of a request to a principal; its body is not read before."""

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

from paimon_assets.engine.control.clock import Clock
from paimon_assets.engine.errors import CommitConflictError
from paimon_assets.server.principals import EVERYBODY, Principal, PrincipalsFile
from paimon_assets.server.refusal import Refusal
from paimon_assets.server.signatures import (
    BadSignature,
    Head,
    Nonces,
    access_key_of,
    check_body,
    check_head,
)

_BEARER = "bearer "
_NO_SECRET = "x"  # noqa: S105 - what a signature of an unknown key is compared with
_BUSY = HTTPStatus.SERVICE_UNAVAILABLE
_LONGEST = 8192
"""Characters of an Authorization header."""


class Authentication:
    """Knows principals by bearer token or by signature."""

    def __init__(self, principals: PrincipalsFile | None, clock: Clock, nonces: Nonces) -> None:
        self._principals = principals
        self._clock = clock
        self._nonces = nonces

    def principal(self, head: Head) -> Principal:
        """Return the principal of a request."""
        if self._principals is None:
            return EVERYBODY
        current = self._principals.current()
        authorization = head.header("authorization")
        if not authorization or len(authorization) > _LONGEST:
            raise _unauthorized()
        if authorization[: len(_BEARER)].lower() == _BEARER:
            found = current.of_token(authorization[len(_BEARER) :].strip())
            if found is None:
                raise _unauthorized()
            return found
        access_key = access_key_of(authorization)
        if access_key is None:
            raise _unauthorized()
        principal, secret = current.of_access_key(access_key) or (None, _NO_SECRET)
        try:
            check_head(head, secret, clock=self._clock)
        except BadSignature as error:
            raise _unauthorized() from error
        if principal is None:
            raise _unauthorized()
        return principal

    @contextmanager
    def nonce(self, head: Head) -> Iterator[None]:
        """Use up the nonce of a signed change; a retry after a failed storage may use it again."""
        try:
            path = None if self._principals is None else self._nonces.use(head)
        except BadSignature as error:
            raise _unauthorized() from error
        try:
            yield
        except (CommitConflictError, Refusal) as error:
            if path is not None and getattr(error, "status", None) in (None, _BUSY):
                self._nonces.release(path)
            raise

    def check_body(self, head: Head, body: bytes) -> None:
        """Check the body of a signed request."""
        if self._principals is None or access_key_of(head.header("authorization")) is None:
            return
        try:
            check_body(head, body)
        except BadSignature as error:
            raise _unauthorized() from error


def _unauthorized() -> Refusal:
    return Refusal(
        HTTPStatus.UNAUTHORIZED, "Not authorized: the token or signature is absent or wrong."
    )
