"""Data tokens: the options of the storage that clients get to open the files of a table.

    hours = 12                       # how long a client may keep them; 12 is the default
    [update]                         # given to principals with `update`
    "s3.access-key" = "WRITER"
    "s3.secret-key" = { secret-file = "/run/secrets/writer" }     # or { secret-env = "NAME" }
    [select]                         # given to principals that may only select
    "s3.access-key" = "READER"
    "s3.secret-key" = { secret-file = "/run/secrets/reader" }

They are keys of the storage, whose own policy limits them: one key reads the warehouse, one writes
it. They are the same for every table. The file is read for each token, so keys are changed by
writing it; issued keys stay valid until the storage revokes them.
"""

import os
import re
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import fsspec  # type: ignore[import-untyped]  # because it ships no types
from msgspec import field

from paimon_assets.engine.codec.rest.bodies import TokenResponse
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.options.catalog_options import secret_values
from paimon_assets.engine.spec.values import Value
from paimon_assets.server.principals import Action, read_secret

_HOUR_MS = 3_600_000
_HOURS = 12
_FEWEST_HOURS, _MOST_HOURS = 2, 24 * 7
"""Java's clients ask again when less than one is left, at every file if it never is more."""
_PLAIN = ("access-key", "access.key", "accesskeyid", "access-key-id")
"""Endings of options, in small letters, that hold the name of a key and no secret."""
_TEMPORARY = ("sessiontoken", "securitytoken", "accesstoken")
"""Parts of options for temporary keys, in small letters without dots and dashes."""
_TEMPORARY_IDS = ("ASIA", "STS.")
"""Prefixes of the ids of temporary keys, at AWS and Alibaba."""
_OWN_VARIABLES = ("AWS_", "PAIMON_", "FSSPEC_", "GOOGLE_", "GCS_", "AZURE_", "OSS_", "ALIBABA_")
"""Prefixes of environment variables that storage clients read by themselves."""
_OWN_FILES = (
    ("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials"),
    ("AWS_CONFIG_FILE", "~/.aws/config"),
    ("BOTO_CONFIG", "~/.boto"),
    ("ALIBABA_CLOUD_CREDENTIALS_FILE", "~/.alibabacloud/credentials"),
    ("GOOGLE_APPLICATION_CREDENTIALS", "~/.config/gcloud/application_default_credentials.json"),
)
"""(Variable that names a file, the file if it names none), of the same clients."""


class DataTokens(Value, hidden=("own_options",)):
    path: Path
    own_options: Mapping[str, str] = field(default_factory=dict)

    def issue(self, action: Action, now_millis: int) -> TokenResponse | None:
        """Return the storage token for a principal's rights; None if there is none."""
        members = self._members()
        tokens = {
            each: {key: self._value(key, value) for key, value in members[each].items()}
            for each in (Action.SELECT.value, Action.UPDATE.value)
            if each in members
        }
        keys = [  # the secrets of each token, and the ids of its keys
            {*secret_values(t), *(v for k, v in t.items() if k.lower().endswith(_PLAIN))}
            for t in tokens.values()
        ]
        if len(keys) > 1 and keys[0] & keys[1]:
            raise self._wrong("[select] has a key of [update], so that readers could write")
        if action.value not in tokens:
            return None
        hours = members.get("hours", _HOURS)
        return TokenResponse(
            token=tokens[action.value], expires_at_millis=now_millis + int(hours * _HOUR_MS)
        )

    def check(self) -> None:
        tokens = [self.issue(action, 0) for action in (Action.UPDATE, Action.SELECT)]
        if not any(tokens):
            raise self._wrong("it has neither [update] nor [select]")

    def _members(self) -> Mapping[str, Any]:
        try:
            members = tomllib.loads(self.path.read_text(encoding="utf-8"))
        except OSError as error:
            raise self._wrong(error.strerror or "it cannot be read") from error
        except ValueError as error:  # its text may quote a secret
            raise self._wrong("it is no TOML") from error
        unknown = members.keys() - {"hours", Action.SELECT.value, Action.UPDATE.value}
        if unknown:
            raise self._wrong(f"it has an unknown '{min(unknown)}'")
        hours = members.get("hours", _HOURS)
        if type(hours) is not int or not _FEWEST_HOURS <= hours <= _MOST_HOURS:
            raise self._wrong(f"'hours' is a number of {_FEWEST_HOURS} to {_MOST_HOURS}")
        for action in (Action.SELECT.value, Action.UPDATE.value):
            if not isinstance(members.get(action, {}), dict):
                raise self._wrong(f"[{action}] is a table of options")
        return members

    def _value(self, key: str, value: object) -> str:
        is_id = key.lower().endswith(_PLAIN)
        if any(word in re.sub("[.-]", "", key.lower()) for word in _TEMPORARY):
            raise self._temporary(key)
        if isinstance(value, str):
            if is_id:
                self._check_key(key, value)
            if secret_values({key: value}) and not is_id:
                raise self._wrong(
                    f"'{key}' is a secret: say {{ secret-file = … }} or {{ secret-env = … }}"
                )
            return value
        try:
            secret = read_secret(value, self.path.parent)
        except OSError as error:
            raise self._wrong(f"'{key}': {error.strerror}, secret-file") from error
        if secret is None:
            raise self._wrong(f"'{key}' is a text, or has secret-file or secret-env")
        if not secret:
            raise self._wrong(f"'{key}' is empty")
        self._check_key(key, secret)
        return secret

    def _check_key(self, key: str, value: str) -> None:
        """Refuse a secret or the id of a key that ends by itself, or is the server's own."""
        if value.startswith(_TEMPORARY_IDS):
            raise self._temporary(key)
        if self._is_own(value):
            raise self._wrong(f"'{key}' is the server's own; clients get keys made for them")

    def _is_own(self, key: str) -> bool:
        """Whether the server itself may open the storage with a key, wherever it has it from."""
        texts = [value for name, value in os.environ.items() if name.startswith(_OWN_VARIABLES)]
        texts.append(str(fsspec.config.conf))
        for name, default in _OWN_FILES:
            with suppress(OSError, ValueError):
                path = Path(os.environ.get(name, default)).expanduser()
                texts.append(path.read_text(encoding="utf-8"))
        whole = re.compile(rf"(?<![\w/+]){re.escape(key)}(?![\w/+])")  # a short id is in any text
        return key in self.own_options.values() or any(whole.search(text) for text in texts)

    def _temporary(self, key: str) -> InvalidInputError:
        return self._wrong(
            f"'{key}' is of a key that ends by itself, as those of machines and roles do; clients "
            "get lasting keys made for them"
        )

    def _wrong(self, fault: str) -> InvalidInputError:
        return InvalidInputError(
            f"The file of data tokens '{self.path}': {fault}.", kind="data-tokens"
        )
