"""A registry of schemas, as Confluent's and those that answer like it: schemas by number.

A number means one schema for ever, so each is asked for once. Errors name the registry, and no
setting's value: it may be a secret.
"""

import base64
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any
from urllib.parse import quote, urlsplit

from msgspec import DecodeError, Struct
from msgspec.json import decode

from paimon_assets.cdc.records.avro_texts import AvroTexts
from paimon_assets.engine import errors
from paimon_assets.engine.spec.words import plain_sample

PREFIX = "schema.registry."
URL, USER = f"{PREFIX}url", f"{PREFIX}basic.auth.user.info"
_CA, _CERTIFICATE, _KEY, _PASSWORD = (
    f"{PREFIX}ssl.{name}"
    for name in ("ca.location", "certificate.location", "key.location", "key.password")
)
SETTINGS = (URL, USER, _CA, _CERTIFICATE, _KEY, _PASSWORD)
"""Names as of Confluent's clients."""
_LARGEST = 64 << 20
_MOST_REFERENCES, _MOST_DEPTH = 1000, 100
_DENIED, _NOT_FOUND = (401, 403), 404


class _Reference(Struct):
    subject: str
    version: int


class _Answer(Struct):
    schema: str
    schemaType: str | None = None  # noqa: N815 - a name of the protocol
    references: list[_Reference] | None = None


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Would send credentials to another host."""

    def redirect_request(self, *_: Any) -> None:
        return None


class SchemaRegistry:
    """Asks for schemas by HTTP."""

    def __init__(self, settings: Mapping[str, str], *, seconds: float = 60.0) -> None:
        """Take the settings of `SETTINGS`.

        Raises:
            InvalidInputError: Kind `kafka-setting`: one is not known, or cannot be used.
        """
        self._urls = [url.strip().rstrip("/") for url in settings.get(URL, "").split(",")]
        self._seconds = seconds
        self._known: dict[int, AvroTexts] = {}
        unknown = sorted({*settings} - {*SETTINGS})
        if unknown:
            raise _unusable(f"'{unknown[0]}' is not known; expected one of {', '.join(SETTINGS)}")
        for url in map(urlsplit, self._urls):
            is_open = "@" not in url.netloc and not url.query  # messages show it
            if url.scheme not in ("http", "https") or not url.hostname or not is_open:
                raise _unusable(
                    f"'{URL}' must be http(s)://host:port, and user and password '{USER}'"
                )
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if user := settings.get(USER):
            self._headers["Authorization"] = f"Basic {base64.b64encode(user.encode()).decode()}"
        try:
            context = ssl.create_default_context(cafile=settings.get(_CA))
            if certificate := settings.get(_CERTIFICATE):
                password = settings.get(_PASSWORD)
                context.load_cert_chain(certificate, settings.get(_KEY), password)
        except (OSError, ValueError) as error:
            raise _unusable(f"a certificate or key of '{PREFIX}ssl.…' cannot be read") from error
        handlers = (_NoRedirect(), urllib.request.HTTPSHandler(context=context))
        self._opener = urllib.request.build_opener(*handlers)

    def __call__(self, number: int) -> AvroTexts:
        """Return the reader of the records of a schema.

        Raises:
            NotFoundError: Kind `schema-registry`: there is no such schema.
            AccessDeniedError: Kind `schema-registry`.
            StorageError: Kind `schema-registry`: no registry answers.
            UnsupportedFeatureError: Kind `schema-registry`: it is no Avro, or Avro that Connect
                does not write.
        """
        if number not in self._known:
            answer = self._get(f"schemas/ids/{number}", f"schema {number}")
            if answer.schemaType not in (None, "AVRO"):
                reason = f"it is of type {plain_sample(answer.schemaType)}; only Avro is read"
                raise self._unread(number, reason)
            references = self._read_references(number, answer)
            try:
                self._known[number] = AvroTexts.of(answer.schema, references)
            except errors.FormatError as error:
                raise self._unread(number, error.message.removesuffix(".")) from error
        return self._known[number]

    def _unread(self, number: int, reason: str) -> errors.UnsupportedFeatureError:
        message = (
            f"Schema {number} of the registry at {self._urls[0]}: {reason}. Nothing was committed; "
            "let the connector write another schema, or JSON without a registry."
        )
        return errors.UnsupportedFeatureError(message, kind="schema-registry")

    def _read_references(self, number: int, answer: _Answer) -> list[str]:
        """Return the schemas that one refers to, each behind those that it uses itself."""
        found: dict[tuple[str, int], str | None] = {}

        def visit(held: _Answer, depth: int) -> None:
            for each in held.references or ():
                place = (each.subject, each.version)
                if found.get(place, "") is None:
                    raise self._unread(number, f"subject '{place[0]}' refers to itself")
                if depth > _MOST_DEPTH or len(found) > _MOST_REFERENCES:
                    raise self._unread(number, f"it refers to over {_MOST_REFERENCES} schemas, or "
                                       f"over {_MOST_DEPTH} deep")  # fmt: skip
                if place not in found:
                    found[place] = None
                    path = f"subjects/{quote(place[0], safe='')}/versions/{place[1]}"
                    inner = self._get(path, f"version {place[1]} of subject '{place[0]}'")
                    visit(inner, depth + 1)
                    found[place] = found.pop(place) or inner.schema

        visit(answer, 0)
        return [text for text in found.values() if text is not None]

    def _get(self, path: str, subject: str) -> _Answer:
        failure: Exception | None = None
        for url in self._urls:
            request = urllib.request.Request(f"{url}/{path}", headers=self._headers)  # noqa: S310
            try:
                with self._opener.open(request, timeout=self._seconds) as response:
                    return _answer_of(response.read(_LARGEST + 1))
            except urllib.error.HTTPError as error:
                error.close()
                if error.code in (*_DENIED, _NOT_FOUND):
                    raise self._refusal(error.code, url, subject) from error
                failure = error
            except (OSError, ValueError, HTTPException) as error:
                failure = error
        raise errors.StorageError(
            f"The schema registry at {', '.join(self._urls)} does not answer for {subject}: "
            f"{failure}. Nothing was committed; try again, or correct '{URL}'.",
            kind="schema-registry",
        ) from failure

    def _refusal(self, code: int, url: str, subject: str) -> errors.PaimonError:
        if code in _DENIED:
            return errors.AccessDeniedError(
                f"The schema registry at {url} does not show {subject}: {code}. Nothing was "
                f"committed; correct '{USER}', or let the user read it.",
                kind="schema-registry",
            )
        return errors.NotFoundError(
            f"The schema registry at {url} has no {subject}. Nothing was committed; look at "
            f"'{URL}': the producer writes by the schemas of another registry.",
            kind="schema-registry",
        )


def _answer_of(data: bytes) -> _Answer:
    """Return an answer; ValueError if it is none of a registry's."""
    if len(data) > _LARGEST:
        raise ValueError(f"its answer has more than {_LARGEST} bytes")
    try:
        return decode(data, type=_Answer)
    except (DecodeError, RecursionError) as error:
        raise ValueError("its answer is no schema as JSON") from error


def _unusable(message: str) -> errors.InvalidInputError:
    text = f"The schema registry's setting {message}. Correct KafkaSource(options=…)."
    return errors.InvalidInputError(text, kind="kafka-setting")
