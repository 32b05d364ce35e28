"""HttpClient: one request: signed, sent, sent again where that is safe, its answer read; RestApi.

    busy (429), unavailable (503)     any is sent again, after Retry-After, or 1, 2, 4 … seconds
    connection lost, answer cut       requests that only read or delete are sent again
    no connection, TLS, time is out   nothing is sent again

A change whose answer was lost is unknown (`CommitUnknownError`); one that was never sent is not. A
deletion that is sent again and finds nothing has done its work.

Of a change, an answer that a server gives before it begins (400, 401, 403, 404, 409, 429, 501) is
definite: nothing was changed. One from its midst (500 and other), or a broken one, leaves it open:
unknown, too. A lost race is no error, as the specification has it.

RestApi: requests by the parts of a path below the catalog's prefix, which are the caller's names.
Lists are asked for page by page. Names are encoded as Java's client does.
Source: `org.apache.paimon.rest.HttpClient`, `ExponentialHttpRequestRetryStrategy`,
`DefaultErrorHandler`, `RESTApi`, `ResourcePaths`, `RESTUtil`.
"""

import datetime as dt
import logging
import os
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from email.utils import parsedate_to_datetime
from functools import lru_cache
from importlib import import_module
from typing import Any, Self, TypeVar, cast
from urllib.parse import quote, urlsplit

from msgspec import field

from paimon_assets.engine import errors
from paimon_assets.engine.codec.rest.bodies import ConfigResponse, ErrorResponse, Page
from paimon_assets.engine.codec.rest.structure import Structure
from paimon_assets.engine.control.clock import Clock, SystemClock
from paimon_assets.engine.control.rest.auth import Auth, SignedRequest, form_encoded
from paimon_assets.engine.spec.values import Value

logger = logging.getLogger(__name__)

S = TypeVar("S", bound=Structure)
_PRODUCT = "paimon-assets"
_TIMEOUT_S = 180.0
_CONNECT_TIMEOUT_S = 30.0
_MOST_RETRIES = 5
_LONGEST_WAIT_S = 64.0
_LONGEST_ASKED_WAIT_S = 300.0
_JITTER = 0.1
_LARGEST_ANSWER = 256 * 1024 * 1024
_PIECE = 1024 * 1024
_POOL = 32
_NOT_FOUND = 404
_UNAVAILABLE = 503
_BUSY = (429, _UNAVAILABLE)
_REPEATED = frozenset({"GET", "DELETE"})
_LONGEST_MESSAGE = 2_000
_LEAST_SECRET = 4
_OK = 200
_MULTIPLE = 300
_CONFLICT = 409
_DEFINITE: Mapping[int, tuple[type[errors.PaimonError], str]] = {
    400: (errors.InvalidInputError, "refused"),
    401: (errors.AccessDeniedError, "unauthorized"),
    403: (errors.AccessDeniedError, "forbidden"),
    404: (errors.NotFoundError, "not-found"),
    405: (errors.UnsupportedFeatureError, "server-unsupported"),
    409: (errors.AlreadyExistsError, "exists"),
    413: (errors.InvalidInputError, "refused"),
    429: (errors.StorageError, "server-busy"),
    501: (errors.UnsupportedFeatureError, "server-unsupported"),
}
_MEANING = {
    401: "does not know this client; give it a token (option token, or PAIMON_TOKEN), or check the"
    " keys and this machine's clock",
    403: "does not let you",
    404: "does not know this resource; look at the URI, if the name is right",
    429: "is busy",
    501: "does not do this",
    503: "is not available",
}


class Answer(Value, kw_only=False, hidden=("body",)):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def is_good(self) -> bool:
        return _OK <= self.status < _MULTIPLE


def error_of(
    answer: Answer, request_line: str, *, is_change: bool, in_doubt: bool, secrets: Collection[str]
) -> errors.PaimonError:
    """Return the error that a bad answer means."""
    try:
        document = ErrorResponse.from_bytes(answer.body)
    except errors.FormatError:
        document = ErrorResponse()  # a proxy's page
    resource = (document.resource_type or "").lower()
    definite = _DEFINITE.get(answer.status)
    reason = document.message or f"it {_MEANING.get(answer.status, 'failed')}"
    if not document.message and resource and answer.status == _NOT_FOUND:
        reason = f"there is no {resource} '{document.resource_name}'"
    identity = answer.headers.get("x-request-id") or answer.headers.get("request-id")
    text = without(
        f"The REST catalog answered {answer.status} to {request_line}: {reason[:_LONGEST_MESSAGE]}"
        + (f" (request {identity})" if identity else ""),
        secrets,
    )
    request_id = without(identity or "", secrets)
    if is_change and (in_doubt or definite is None):
        message = f"{text}. Whether it was done is unknown: look first."
        return errors.CommitUnknownError(message, status=answer.status, request_id=request_id)
    error, kind = definite or (errors.StorageError, "server-failed")
    if resource and answer.status in (_NOT_FOUND, _CONFLICT):
        suffix = "exists" if error is errors.AlreadyExistsError else "not-found"
        kind = f"{resource}-{suffix}"
    return error(text, kind=kind, status=answer.status, request_id=request_id)


def without(text: str, secrets: Collection[str]) -> str:
    """Return a text in which no secret is left."""
    for secret in secrets:
        if len(secret) >= _LEAST_SECRET:
            text = text.replace(secret, errors.HIDDEN)
    return text


class Nothing(Structure):
    """An answer whose body is not read."""

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        return cls()


class _LostError(Exception):
    """A request that may have arrived, and whose answer did not."""

    def __init__(self, reason: str, *, may_repeat: bool) -> None:
        super().__init__(reason)
        self.may_repeat = may_repeat


class _NotSentError(Exception):
    """A request that definitely did not arrive."""


class Request(Value):
    method: str
    path: str
    """Encoded, below the URI of the catalog."""
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    is_change: bool = False

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@lru_cache(maxsize=1)
def _session(process: int) -> Any:
    """Return the pool of connections of a process, which a fork does not share; no cookies."""
    try:
        requests = import_module("requests")
    except ImportError as error:
        message = "A REST catalog needs the package requests: pip install 'paimon-assets[rest]'."
        raise errors.InvalidInputError(message, kind="rest-package") from error
    session = requests.Session()
    for scheme in ("http://", "https://"):
        session.mount(scheme, requests.adapters.HTTPAdapter(_POOL, _POOL, max_retries=0))
    session.cookies.set_policy(
        import_module("http.cookiejar").DefaultCookiePolicy(allowed_domains=[])
    )
    return session


def checked_uri(uri: str) -> str:
    """Return the URI of a catalog with its scheme and without a slash at its end.

    >>> checked_uri("host:8080/catalog/")
    'http://host:8080/catalog'
    """
    full = uri.strip() if "://" in uri else f"http://{uri.strip()}"
    try:
        parts = urlsplit(full)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise errors.InvalidInputError(
            "The catalog's 'uri' is none; write https://host:port/prefix.", kind="rest-options"
        ) from None
    if not is_good or "@" in parts.netloc or parts.query or parts.fragment:
        raise errors.InvalidInputError(
            "The catalog's 'uri' must be such as https://host:port/prefix, without a user and"
            " without a query; authenticate by 'token' or keys.",
            kind="rest-options",
        )
    return full.rstrip("/")


class Pace(Value):
    """How long a client waits: between tries, and for an answer."""

    clock: Clock = field(default_factory=SystemClock)
    random_fraction: Callable[[], float] = random.random
    """Returns numbers in [0, 1), for jitter."""
    timeout_s: float = _TIMEOUT_S
    """How long a server may be silent."""


class HttpClient:
    def __init__(
        self,
        uri: str,
        auth: Auth | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        secrets: tuple[str, ...] = (),
        pace: "Pace | None" = None,
    ) -> None:
        self.uri = checked_uri(uri)
        self._auth = auth
        self._headers = {"User-Agent": _PRODUCT, "Accept": "application/json", **(headers or {})}
        self._secrets = secrets
        self._pace = pace or Pace()

    def __repr__(self) -> str:
        return f"HttpClient({self.uri!r})"

    def with_headers(self, headers: Mapping[str, str]) -> "HttpClient":
        other = HttpClient.__new__(HttpClient)
        other.__dict__ = {**self.__dict__, "_headers": {**self._headers, **headers}}
        return other

    def ask(self, request: Request, into: type[S]) -> S:
        answer, in_doubt = self._answer(request)
        if answer.is_good:
            try:
                return into.from_bytes(answer.body)
            except errors.FormatError as error:
                if request.is_change:
                    raise self._unknown(
                        request, f"the answer is broken ({error.message})"
                    ) from error
                raise
        if in_doubt and request.method == "DELETE" and answer.status == _NOT_FOUND:
            return into.from_bytes(b"")
        raise error_of(
            answer,
            str(request),
            is_change=request.is_change,
            in_doubt=in_doubt,
            secrets=self._secrets,
        )

    def fetch(self, url: str) -> bytes:
        """Return the content of another URL, without credentials."""
        bare = HttpClient(url, pace=self._pace)
        suffix = "/" if url.endswith("/") else ""
        answer, _ = bare._answer(Request(method="GET", path=suffix))
        if not answer.is_good:
            raise errors.StorageError(f"'{url}' answered {answer.status}.", kind="server-failed")
        return answer.body

    def _answer(self, request: Request) -> tuple[Answer, bool]:
        """Return the answer, and whether a try before it may have been done."""
        in_doubt = False
        for tried in range(_MOST_RETRIES + 1):
            is_last = tried == _MOST_RETRIES
            try:
                answer = self._send(request)
            except _NotSentError as error:
                if in_doubt and request.is_change:
                    raise self._unknown(request, str(error)) from None
                raise self._failure(request, str(error)) from None
            except _LostError as error:
                if is_last or not error.may_repeat or request.method not in _REPEATED:
                    failed = self._unknown if request.is_change else self._failure
                    raise failed(request, str(error)) from None
                wait_s = self._wait_s(tried, None)
                in_doubt = True
            else:
                if answer.status not in _BUSY or is_last:
                    return answer, in_doubt
                wait_s = self._wait_s(tried, answer.headers.get("retry-after"))
                in_doubt = in_doubt or answer.status == _UNAVAILABLE
            logger.warning("REST catalog: %s is sent again in %.1f s", request, wait_s)
            self._pace.clock.sleep_millis(wait_s * 1000)
        raise AssertionError

    def _send(self, request: Request) -> Answer:
        requests = import_module("requests")
        signed = SignedRequest(
            method=request.method,
            path=request.path,
            query=request.query,
            body=request.body,
            host=urlsplit(self.uri).netloc,
        )
        signature = {} if self._auth is None else self._auth.headers(signed)
        content = {} if request.body is None else {"Content-Type": "application/json"}
        session = _session(os.getpid())
        url = f"{self.uri}{request.path}{query_text(request.query)}"
        prepared = requests.Request(
            request.method,
            self.uri,
            headers={**self._headers, **content, **signature},
            data=request.body,
        ).prepare()
        prepared.url = url  # as it was signed: requests would write some characters in another way
        try:
            proxies = session.merge_environment_settings(
                url, {}, stream=True, verify=None, cert=None
            )
            with session.send(
                prepared,
                timeout=(min(_CONNECT_TIMEOUT_S, self._pace.timeout_s), self._pace.timeout_s),
                allow_redirects=False,
                **proxies,
            ) as response:
                body = bytearray()
                for piece in response.iter_content(_PIECE):
                    body += piece
                    if len(body) > _LARGEST_ANSWER:
                        reason = f"the answer has more than {_LARGEST_ANSWER} bytes"
                        raise _LostError(reason, may_repeat=False)
                headers = {name.lower(): value for name, value in response.headers.items()}
                return Answer(response.status_code, headers, bytes(body))
        except requests.exceptions.RequestException as error:
            raise _judge(requests, error) from None

    def _wait_s(self, tried: int, asked: str | None) -> float:
        text = (asked or "").strip()
        try:
            if text.isdecimal():
                return min(float(text), _LONGEST_ASKED_WAIT_S)
            at = parsedate_to_datetime(text)
            at = at if at.tzinfo else at.replace(tzinfo=dt.UTC)
            seconds = at.timestamp() - self._pace.clock.now_millis() / 1000
            return min(max(0.0, seconds), _LONGEST_ASKED_WAIT_S)
        except ValueError:  # it asks for no wait
            wait: float = min(_LONGEST_WAIT_S, float(1 << tried))
            return wait * (1 + _JITTER * self._pace.random_fraction())

    def _failure(self, request: Request, reason: str) -> errors.StorageError:
        return errors.StorageError(
            without(f"The REST catalog at {self.uri}: {request}: {reason}.", self._secrets),
            kind="server-unreachable",
        )

    def _unknown(self, request: Request, reason: str) -> errors.CommitUnknownError:
        return errors.CommitUnknownError(
            without(
                f"The REST catalog at {self.uri}: {request}: {reason}. Whether it was done is"
                " unknown: look first.",
                self._secrets,
            )
        )


def _judge(requests: Any, error: Exception) -> Exception:
    """Return whether a request was definitely not sent, or may have been; no URL is shown."""
    kinds = requests.exceptions
    name = type(error).__name__
    if isinstance(error, kinds.ConnectTimeout | kinds.SSLError | kinds.ProxyError):
        return _NotSentError(f"no connection ({name})")
    if isinstance(error, kinds.Timeout):
        return _LostError("no answer in time", may_repeat=False)
    if isinstance(error, kinds.ConnectionError):
        reason = getattr(error.args[0] if error.args else None, "reason", None)
        if type(reason).__name__ in ("NewConnectionError", "NameResolutionError"):
            return _NotSentError("no connection")
        return _LostError("the connection was lost", may_repeat=True)
    if isinstance(error, kinds.ChunkedEncodingError | kinds.ContentDecodingError):
        return _LostError("the answer was cut", may_repeat=True)
    return _NotSentError(f"the request cannot be sent ({name})")


_DOTS = frozenset({"", ".", ".."})


def path_of(*parts: str) -> str:
    """Return a path of encoded names, beginning with a slash.

    >>> path_of("v1", "databases", "a b*~$/%")
    '/v1/databases/a+b*%7E%24%2F%25'
    """
    for part in parts:
        if part in _DOTS:
            raise errors.InvalidInputError(f"{part!r} is no name in a catalog.", kind="name")
    return "".join(f"/{form_encoded(part)}" for part in parts)


def query_text(query: Mapping[str, str]) -> str:
    """Return a query with its question mark, an empty text if there is nothing to ask.

    >>> query_text({"tableNamePattern": "a b%", "pageToken": ""})
    '?tableNamePattern=a%20b%25&pageToken='
    """
    pairs = [f"{quote(key, safe='')}={quote(value, safe='')}" for key, value in query.items()]
    return f"?{'&'.join(pairs)}" if pairs else ""


_TOKEN = "pageToken"  # noqa: S105  # because it is a query's name


class RestApi:
    def __init__(self, client: HttpClient, prefix: str = "") -> None:
        self._client = client
        self._root = ("v1", *(part for part in prefix.split("/") if part))

    def config(self, warehouse: str) -> ConfigResponse:
        query = {"warehouse": warehouse} if warehouse else {}
        request = Request(method="GET", path="/v1/config", query=query)
        return self._client.ask(request, ConfigResponse)

    def _path(self, parts: Sequence[str]) -> str:
        return path_of(*self._root, *parts)

    def get(self, parts: Sequence[str], into: type[S], query: Mapping[str, str] | None = None) -> S:
        request = Request(method="GET", path=self._path(parts), query=query or {})
        return self._client.ask(request, into)

    def delete(self, parts: Sequence[str], query: Mapping[str, str] | None = None) -> None:
        path = self._path(parts)
        request = Request(method="DELETE", path=path, query=query or {}, is_change=True)
        self._client.ask(request, Nothing)

    def post(
        self,
        parts: Sequence[str],
        body: Structure,
        into: type[S] | None = None,
        *,
        is_change: bool = True,
    ) -> S:
        request = Request(
            method="POST", path=self._path(parts), body=body.to_bytes(), is_change=is_change
        )
        return self._client.ask(request, cast("type[S]", into or Nothing))

    def list_all(self, parts: Sequence[str], into: type[Page], member: str) -> list[Any]:
        """Return the members of all pages of a list."""
        asked: dict[str, str] = {}
        seen: set[str] = set()
        found: list[Any] = []
        while True:
            page: Any = self.get(parts, into, asked)
            found += getattr(page, member)
            token = page.next_page_token
            if not token:
                return found
            if token in seen:
                raise errors.StorageError(
                    f"The REST catalog lists {'/'.join(parts)} in a circle.", kind="server-failed"
                )
            seen.add(token)
            asked[_TOKEN] = token
