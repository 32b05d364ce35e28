"""A registry of schemas, as Confluent's and those that answer like it: schemas by number.

A number means one schema for ever, so each is asked for once. Errors name the registry, and no
setting's value: it may be a secret.
"""

import base64
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any
from urllib.parse import quote, urlsplit

from paimon_assets.cdc.records.avro_texts import AvroTexts
from paimon_assets.engine import errors

PREFIX = "schema.registry."
URL, USER = f"{PREFIX}url", f"{PREFIX}basic.auth.user.info"
_CA, _CERTIFICATE, _KEY, _PASSWORD = (
    f"{PREFIX}ssl.{name}"
    for name in ("ca.location", "certificate.location", "key.location", "key.password")
)
SETTINGS = (URL, USER, _CA, _CERTIFICATE, _KEY, _PASSWORD)
"""Names as of Confluent's clients."""
_LARGEST = 64 << 20
_MOST_REFERENCES = 1000
_DENIED, _NOT_FOUND = (401, 403), 404


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
            if url.scheme not in ("http", "https") or not url.hostname or url.username:
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
        """Return what reads the records of a schema.

        Raises:
            NotFoundError: Kind `schema-registry`: there is no such schema.
            AccessDeniedError: Kind `schema-registry`.
            StorageError: Kind `schema-registry`: no registry answers.
            UnsupportedFeatureError: Kind `schema-registry`: it is no Avro, or Avro that Connect
                does not write.
        """
        if number not in self._known:
            answer = self._get(f"schemas/ids/{number}", f"schema {number}")
            kind = answer.get("schemaType", "AVRO")
            if kind != "AVRO":
                raise errors.UnsupportedFeatureError(
                    f"Schema {number} of the registry at {self._urls[0]} is of type {kind}; only "
                    "Avro is read. Let the connector write Avro, or JSON without a registry.",
                    kind="schema-registry",
                )
            try:
                self._known[number] = AvroTexts.of(answer["schema"], self._referenced(answer))
            except errors.FormatError as error:
                message = f"Schema {number} of the registry at {self._urls[0]}: {error.message}."
                raise errors.UnsupportedFeatureError(message, kind="schema-registry") from error
        return self._known[number]

    def _referenced(self, answer: Mapping[str, Any]) -> list[str]:
        """Return the schemas that one refers to, those that others use first."""
        found: dict[tuple[str, int], str] = {}

        def visit(held: Mapping[str, Any], depth: int) -> None:
            for each in held.get("references") or ():
                place = (str(each["subject"]), int(each["version"]))
                if place in found or depth + len(found) > _MOST_REFERENCES:
                    continue
                path = f"subjects/{quote(place[0], safe='')}/versions/{place[1]}"
                inner = self._get(path, f"version {place[1]} of subject '{place[0]}'")
                visit(inner, depth + 1)
                found[place] = inner["schema"]

        visit(answer, 0)
        return [*found.values()]

    def _get(self, path: str, what: str) -> Mapping[str, Any]:
        failure: Exception | None = None
        for url in self._urls:
            request = urllib.request.Request(f"{url}/{path}", headers=self._headers)  # noqa: S310
            try:
                with self._opener.open(request, timeout=self._seconds) as response:
                    answer = json.loads(response.read(_LARGEST))
                if isinstance(answer, dict) and isinstance(answer.get("schema"), str):
                    return answer
                failure = ValueError("its answer has no schema")
            except urllib.error.HTTPError as error:
                error.close()
                if error.code in (*_DENIED, _NOT_FOUND):
                    raise self._refusal(error.code, url, what) from error
                failure = error
            except (OSError, ValueError, HTTPException) as error:
                failure = error
        raise errors.StorageError(
            f"The schema registry at {', '.join(self._urls)} does not answer for {what}: "
            f"{failure}. Nothing was committed; try again.",
            kind="schema-registry",
        ) from failure

    def _refusal(self, code: int, url: str, what: str) -> errors.PaimonError:
        if code in _DENIED:
            return errors.AccessDeniedError(
                f"The schema registry at {url} does not show {what}: {code}. Nothing was "
                f"committed; correct '{USER}', or let the user read it.",
                kind="schema-registry",
            )
        return errors.NotFoundError(
            f"The schema registry at {url} has no {what}. Nothing was committed; look at '{URL}': "
            "the producer writes by the schemas of another registry.",
            kind="schema-registry",
        )


def _unusable(message: str) -> errors.InvalidInputError:
    text = f"The schema registry's setting {message}. Correct KafkaSource(options=…)."
    return errors.InvalidInputError(text, kind="kafka-setting")
