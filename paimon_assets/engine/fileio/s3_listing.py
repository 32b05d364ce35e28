"""Listings of an S3 bucket, whose answers are looked at: obstore takes any XML for an empty one.

A gateway may answer 200 with a page of its own, S3 with an `<Error>`. Deletions depend on names
that are not listed, so only a whole `ListBucketResult` of the requested prefix is a listing.
"""

import datetime as dt
import errno
import os
import ssl
from collections.abc import Callable, Iterator
from functools import cached_property
from importlib import import_module
from threading import Event
from typing import Any
from urllib.parse import quote, unquote_plus, urlencode
from xml.etree import ElementTree

from msgspec import Struct
from msgspec.structs import replace

from paimon_assets.engine.spec.values import Value

_RETRIED = frozenset({429, 500, 502, 503, 504})
_FIRST_WAIT, _LONGEST_WAIT = 0.1, 5.0
"""Seconds between two tries."""
_CONNECTIONS = 16


class NoListingError(OSError):
    """The answer to a listing is none."""

    def __init__(self, why: str) -> None:
        text = f"the answer to a listing is no listing ({why}); look at the storage's endpoint"
        super().__init__(errno.EIO, f"{text}, and at proxies in front of it")


class Page(Struct, frozen=True):
    """Some objects, as obstore describes them, and the directories beside them."""

    objects: list[dict[str, Any]]
    common_prefixes: list[str]


class S3Listing(Value, dict=True):
    """Lists one bucket."""

    url: str
    """Of the bucket."""
    region: str
    keys: Callable[[], dict[str, Any]] | None
    """Returns credentials; None asks without a signature."""
    attempts: int
    limits: tuple[float, ...]
    """Seconds for a connection, and of a server's silence."""
    verifies: bool = True
    """Whether the server's certificate is checked."""
    proxy: str = ""
    pays: bool = False
    """Whether the requester pays for it."""

    def pages(
        self, prefix: str, *, delimiter: str = "", after: str = "", most: int = 1_000
    ) -> Iterator[Page]:
        """Yield the pages of the names that begin with a prefix, from behind a name on."""
        asked = {
            "delimiter": delimiter,
            "encoding-type": "url",
            "list-type": "2",
            "max-keys": str(most),
            "prefix": prefix,
            "start-after": after,
        }
        tokens, last = {""}, set[str]()
        while True:
            page, following = _parse_page(self._answer(asked), prefix)
            names = {each["path"]: each for each in page.objects}
            if following in tokens or (names and names.keys() <= last):
                raise NoListingError("its pages repeat")
            yield replace(page, objects=[names[name] for name in names if name not in last])
            if following is None:
                return
            asked["continuation-token"], last = following, {*names}
            tokens.add(following)

    def _answer(self, asked: dict[str, str]) -> bytes:
        """Return the body of an answer 200; other answers have the text of obstore's errors."""
        query = urlencode({name: text for name, text in asked.items() if text}, quote_via=quote)
        exceptions, failure = import_module("botocore.exceptions"), ""
        for attempt in range(1, self.attempts + 1):
            try:
                response = self._session.send(self._request(f"{self.url}?{query}"))
                body: bytes = response.content
            except exceptions.ReadTimeoutError:
                raise OSError("kind: Timeout") from None
            except (exceptions.HTTPClientError, exceptions.ConnectionError) as error:
                cause = str(error.kwargs.get("error", error)).rpartition(": ")[2]
                failure = f'message: "{cause}"'
            else:
                if response.status_code == 200:
                    return body
                if response.status_code == 404 and b"<Code>NoSuchBucket" not in body:
                    raise NoListingError("but 404")  # a folder without files is no 404
                failure = f"status code: {response.status_code} {body.decode(errors='replace')}"
                if 300 <= response.status_code < 400:
                    failure = "incorrectly configured region"
                if response.status_code not in _RETRIED:
                    break
            if attempt < self.attempts:
                Event().wait(min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** (attempt - 1)))
        raise OSError(failure)

    def _request(self, url: str) -> Any:
        aws = import_module("botocore.awsrequest")
        payer = {"x-amz-request-payer": "requester"} if self.pays else {}
        request = aws.AWSRequest("GET", url, headers=payer)
        if self.keys is not None:
            keys = self.keys()
            credentials = import_module("botocore.credentials").Credentials(
                keys["access_key_id"], keys["secret_access_key"], keys["token"]
            )
            auth = import_module("botocore.auth")
            auth.S3SigV4Auth(credentials, "s3", self.region).add_auth(request)
        return request.prepare()

    @cached_property
    def _session(self) -> Any:
        proxies = import_module("botocore.utils").get_environ_proxies(self.url)
        if self.proxy:
            proxies = dict.fromkeys(("http", "https"), self.proxy)
        certificates = os.environ.get("AWS_CA_BUNDLE") or ssl.get_default_verify_paths().cafile
        return import_module("botocore.httpsession").URLLib3Session(
            verify=(certificates or True) if self.verifies else False,
            proxies=proxies,
            timeout=self.limits,
            max_pool_connections=_CONNECTIONS,
        )


def _parse_page(body: bytes, prefix: str) -> tuple[Page, str | None]:
    """Return a page, and the token of the next one; raises NoListingError."""
    try:
        root = ElementTree.fromstring(body)  # noqa: S314 - expat refuses unbounded growth
    except ElementTree.ParseError:
        raise NoListingError("it is no XML, or not whole") from None
    if _tag(root) != "ListBucketResult":
        raise NoListingError(f"its root is <{_tag(root)}>, not <ListBucketResult>")
    decode = unquote_plus if _text(root, "EncodingType") == "url" else str
    objects, directories = [], []
    for element in root:
        if _tag(element) == "Contents":
            objects.append(_object(element, decode))
        elif _tag(element) == "CommonPrefixes":
            directories.append(decode(_text(element, "Prefix")).strip("/"))
    echo = _text(root, "Prefix")
    if echo and prefix not in (echo, decode(echo)):
        raise NoListingError(f"it is of '{decode(echo)}', and was asked for '{prefix}'")
    names = [*(each["path"] for each in objects), *directories]
    if other := next((name for name in names if not f"{name}/".startswith(prefix)), None):
        raise NoListingError(f"it has '{other}', and was asked for '{prefix}'")
    following = _text(root, "NextContinuationToken") or None
    if following is None and _text(root, "IsTruncated") == "true":
        raise NoListingError("it is cut, and has no token of the next page")
    return Page(objects, directories), following


def _object(element: ElementTree.Element, decode: Callable[[str], str]) -> dict[str, Any]:
    try:
        return {
            "path": decode(_text(element, "Key")).strip("/"),
            "size": int(_text(element, "Size")),
            "e_tag": _text(element, "ETag") or None,
            "last_modified": dt.datetime.fromisoformat(_text(element, "LastModified")),
        }
    except ValueError:
        raise NoListingError("an entry has no size, or no time") from None


def _tag(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


def _text(element: ElementTree.Element, tag: str) -> str:
    return next((each.text or "" for each in element if _tag(each) == tag), "")
