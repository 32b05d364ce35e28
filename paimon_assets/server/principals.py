"""Principals: the users of this server and their rights, read from a TOML file.

    [[principal]]
    name = "etl"
    token-sha256 = ["9f86d08…"]                      # printf %s TOKEN | sha256sum
    access-keys = [{ id = "AK", secret-file = "/run/secrets/ak" }]     # or secret-env = "NAME"
    grants = [{ on = "sales.*", may = ["select", "update"] }, { on = "sales", may = ["create"] }]
    roots = ["s3://landing/sales"]            # where its tables outside the warehouse may lie

A grant's `on` is a glob of `database` or of `database.object`; `*` alone is everything. An object
is a table, view or function; a branch is its table's. Stronger rights hold weaker ones, see
`_IMPLIED`.
The file is read again when it changes; if it is wrong, the old principals stay, and it is logged.
"""

import hashlib
import hmac
import logging
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from threading import Lock
from typing import Any

from msgspec import field

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.values import Value

logger = logging.getLogger(__name__)

ANYTHING = "*"
_SHA256 = re.compile("[0-9a-f]{64}")


class Action(StrEnum):
    LIST = "list"
    DESCRIBE = "describe"
    SELECT = "select"
    UPDATE = "update"
    ALTER = "alter"
    DROP = "drop"
    CREATE = "create"
    GRANT = "grant"


_IMPLIED = {
    Action.DESCRIBE: (Action.LIST,),
    Action.SELECT: (Action.LIST, Action.DESCRIBE),
    Action.UPDATE: (Action.LIST, Action.DESCRIBE),
    Action.ALTER: (Action.LIST, Action.DESCRIBE),
    Action.DROP: (Action.LIST, Action.DESCRIBE),
}


class Grant(Value):
    database: str
    name: str | None
    """Glob of an object's name; None is the database itself."""
    may: frozenset[Action]

    def covers(self, database: str, name: str | None) -> bool:
        """Whether it is about a database, or about an object in it."""
        if not fnmatchcase(database, self.database):
            return False
        if self.name is None or name is None:
            everything = self.database == ANYTHING and self.name is None
            return everything or (self.name is None and name is None)
        return fnmatchcase(name, self.name)


class Principal(Value, hidden=("token_digests", "access_keys")):
    name: str
    grants: tuple[Grant, ...] = ()
    token_digests: tuple[str, ...] = ()
    access_keys: Mapping[str, str] = field(default_factory=dict)
    """Id of a key pair → its secret."""
    roots: tuple[str, ...] | None = ()
    """Folders it may give to tables; None is every one that the server allows."""

    def may(self, action: Action, database: str, name: str | None = None) -> bool:
        return any(action in grant.may and grant.covers(database, name) for grant in self.grants)

    def has_grant(self, database: str | None) -> bool:
        """Whether it has any right, in a database or in any of them."""
        return any(
            database is None or fnmatchcase(database, grant.database) for grant in self.grants
        )

    def sees(self, database: str) -> bool:
        """Whether it may list a database: it, or something that is in it or may come to be."""
        return any(
            Action.LIST in grant.may and fnmatchcase(database, grant.database)
            for grant in self.grants
        )


EVERYBODY = Principal(
    name="anonymous",
    grants=(Grant(database=ANYTHING, name=None, may=frozenset(Action)),),
    roots=None,
)
"""Principal of every request to a server without tokens."""


class Principals:
    """All principals of one reading of the file."""

    def __init__(self, principals: Sequence[Principal]) -> None:
        self.all = tuple(principals)
        self._by_key = {key: each for each in self.all for key in each.access_keys}

    def __len__(self) -> int:
        return len(self.all)

    def of_token(self, token: str) -> Principal | None:
        """Return the principal of a bearer token, in constant time."""
        digest = hashlib.sha256(token.encode()).hexdigest()
        found = None
        for principal in self.all:
            for known in principal.token_digests:
                if hmac.compare_digest(known, digest):
                    found = principal
        return found

    def of_access_key(self, access_key: str) -> tuple[Principal, str] | None:
        principal = self._by_key.get(access_key)
        return None if principal is None else (principal, principal.access_keys[access_key])

    @classmethod
    def of_toml(cls, text: str, *, directory: Path) -> "Principals":
        try:
            members = tomllib.loads(text)
            principals = [_principal(item, directory) for item in members.get("principal", [])]
        except (tomllib.TOMLDecodeError, TypeError, KeyError, AttributeError) as error:
            raise _wrong(f"it cannot be read ({error!r})") from error
        for noun, names in (
            ("principals", [each.name for each in principals]),
            ("access keys", [key for each in principals for key in each.access_keys]),
        ):
            twice = {name for name in names if names.count(name) > 1}
            if twice:
                raise _wrong(f"two {noun} are called '{min(twice)}'")
        return cls(principals)


class PrincipalsFile:
    """The file of principals, read again whenever it changes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = Lock()
        self._secrets: list[Path] = []
        seen = self._versions()  # before the read: a later change is read again
        try:
            self._principals, self._secrets = self._read()
        except UnicodeDecodeError as error:
            raise _wrong(f"'{path}' and the files of its secrets are no UTF-8") from error
        self._seen = {**self._versions(), **seen}

    def current(self) -> Principals:
        """Return the principals as of now. Cost: a `stat` of the file, and of each secret's."""
        if self._versions() == self._seen:
            return self._principals
        with self._lock:
            seen = self._versions()
            if seen == self._seen:
                return self._principals
            try:
                self._principals, self._secrets = self._read()
                logger.info("principals: %d are read again", len(self._principals))
            except (OSError, ValueError, InvalidInputError) as error:
                logger.error(  # noqa: TRY400 - a stack does not help here
                    "principals: '%s' is wrong, the old ones stay valid: %s", self._path, error
                )
            self._seen = {**self._versions(), **seen}
        return self._principals

    def _read(self) -> tuple[Principals, list[Path]]:
        text = self._path.read_text(encoding="utf-8")
        principals = Principals.of_toml(text, directory=self._path.parent)
        if not any(each.token_digests or each.access_keys for each in principals.all):
            # Empty for the instant of its writing, perhaps.
            raise _wrong("it has no token and no access key, so every request would be refused")
        items = tomllib.loads(text).get("principal", [])
        pairs = [pair for item in items for pair in item.get("access-keys", ())]
        files = [pair["secret-file"] for pair in pairs if "secret-file" in pair]
        return principals, [self._path.parent / name for name in files]

    def _versions(self) -> dict[Path, tuple[int, ...] | None]:
        return {path: _version(path) for path in (self._path, *self._secrets)}


def _version(path: Path) -> tuple[int, ...] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _principal(item: Mapping[str, Any], directory: Path) -> Principal:
    name = item["name"]
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise _wrong(f"{name!r} is no name of a principal")
    unknown = set(item) - {"name", "token-sha256", "access-keys", "grants", "roots"}
    if unknown:
        raise _wrong(f"principal '{name}' has an unknown '{min(unknown)}'")
    digests, roots = item.get("token-sha256", []), item.get("roots", [])
    if not isinstance(digests, list) or not all(
        isinstance(digest, str) and _SHA256.fullmatch(digest) for digest in digests
    ):
        raise _wrong(f"principal '{name}': token-sha256 is a list of 64 small hexadecimal digits")
    if not isinstance(roots, list) or not all(
        isinstance(root, str) and root.strip() for root in roots
    ):
        raise _wrong(f"principal '{name}': roots is a list of folders")
    return Principal(
        name=name,
        roots=tuple(roots),
        grants=tuple(_grant(name, grant) for grant in item.get("grants", ())),
        token_digests=tuple(digests),
        access_keys={
            pair["id"]: _secret(name, pair, directory) for pair in item.get("access-keys", ())
        },
    )


def _grant(principal: str, item: Mapping[str, Any]) -> Grant:
    unknown = [may for may in item["may"] if may not in {*Action, "all"}]
    if unknown or set(item) != {"on", "may"}:
        raise _wrong(
            f"principal '{principal}': a grant is {{ on = \"database.table\", may = [...] }} with "
            f"{', '.join(Action)} or all"
        )
    given = set(Action) if "all" in item["may"] else {Action(may) for may in item["may"]}
    for action in tuple(given):
        given.update(_IMPLIED.get(action, ()))
    database, dot, name = item["on"].partition(".")
    return Grant(database=database, name=name if dot else None, may=frozenset(given))


def read_secret(given: object, directory: Path) -> str | None:
    """Return the secret that `{ secret-env = … }` or `{ secret-file = … }` means."""
    match given:
        case {"secret-env": str(name), **others} if not others:
            return os.environ.get(name, "")
        case {"secret-file": str(name), **others} if not others:
            return (directory / name).read_text(encoding="utf-8").strip()
        case _:
            return None


def _secret(principal: str, pair: Mapping[str, Any], directory: Path) -> str:
    try:
        secret = read_secret({key: pair[key] for key in pair if key != "id"}, directory)
    except OSError as error:
        raise _wrong(f"principal '{principal}': {error.strerror}, secret-file") from error
    if secret is None:
        raise _wrong(f"principal '{principal}': an access key has id, and secret-file or -env")
    if not secret:
        raise _wrong(f"principal '{principal}': the secret of an access key is empty")
    return secret


def _wrong(fault: str) -> InvalidInputError:
    return InvalidInputError(f"The file of principals: {fault}.", kind="principals")
