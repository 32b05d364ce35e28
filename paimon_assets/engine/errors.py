"""Errors, sorted by the caller's next step.

    PaimonError
    ├── InvalidInputError        fix the call or the data; nothing was committed
    │   ├── NotFoundError        the named thing does not exist
    │   └── AlreadyExistsError   the named thing exists already
    ├── AccessDeniedError        the catalog refuses access: other credentials, or a grant
    ├── CommitConflictError      another writer was faster: plan again
    ├── CommitUnknownError       look first, delete nothing
    ├── FormatError              bytes on disk do not follow the format
    ├── StorageError             the storage failed: try again later
    └── UnsupportedFeatureError  legal Paimon that this engine does not do

Every error has a stable `kind` for handlers, tests and dashboards, and `details` for metadata:
`raise NotFoundError("Table 'a' does not exist.", kind="table-not-found", table="a")`.
Errors cross process borders as `(class name, message, kind, details)`; `contract.wire`.
"""

import re
from collections.abc import Mapping
from functools import partial
from typing import Self

ACCESS_DENIED = "storage-access-denied"
"""Kind of the `StorageError` of a storage that refuses its credentials."""
TOKEN_EXPIRED = "token-expired"  # noqa: S105
"""Kind of the `StorageError` of credentials that have ended before they were used."""
CREDENTIALS_OVER = frozenset({ACCESS_DENIED, TOKEN_EXPIRED})
"""Kinds of errors that other credentials may mend."""
HIDDEN = "******"
"""Shown in place of a secret value."""

# The part in front of the @ of abfss://container@account is no secret.
_USER_INFO = r"(?<=://)(?<!abfs://)(?<!abfss://)(?:[^/@:\s'\"]*:[^@\s'\",]*|[^/@\s'\"]*)@"
_PARAMETER = (
    r"(?i)(?<=[?&;])((?:[\w.-]*(?:secret|token|signature|credential)[\w.-]*|password|passwd|pwd|sig"
    r"|accountkey|sharedaccesskey)=)[^&;\s'\"]+"
)
Detail = str | int | float | bool | None


def without_secrets(text: str) -> str:
    """Return a text without the users, passwords and keys that URLs in it carry.

    >>> without_secrets("no 's3://key:se/cret@bucket/a'"), without_secrets("abfss://box@account/b")
    ("no 's3://******@bucket/a'", 'abfss://box@account/b')
    >>> without_secrets("jdbc:mysql://host/db?user=me&password=abc")
    'jdbc:mysql://host/db?user=me&password=******'
    """
    if "://" not in text:
        return text
    return re.sub(_PARAMETER, rf"\1{HIDDEN}", re.sub(_USER_INFO, f"{HIDDEN}@", text))


class PaimonError(Exception):
    """Root of all errors this package raises on purpose; secrets in URLs are not shown.

    >>> try:
    ...     catalog.get_table("shop.nothing")
    ... except PaimonError as error:
    ...     type(error).__name__, error.kind, error.details["table"]
    ('NotFoundError', 'table-not-found', 'shop.nothing')
    """

    default_kind = "error"

    def __init__(self, message: str, /, *, kind: str | None = None, **details: Detail) -> None:
        self.message = without_secrets(message)
        super().__init__(self.message)
        self.kind = kind or self.default_kind
        self.details: dict[str, Detail] = {
            key: without_secrets(value) if isinstance(value, str) else value
            for key, value in details.items()
        }

    def __reduce__(self) -> tuple[object, ...]:
        return partial(type(self).of_parts, self.message, self.kind, self.details), ()

    def with_message(self, message: str, /, **details: Detail) -> Self:
        """Return an error of the same kind with another message, and more details."""
        return type(self)(message, kind=self.kind, **self.details | details)

    @classmethod
    def of_parts(cls, message: str, kind: str, details: Mapping[str, Detail]) -> Self:
        """Rebuild an error from the parts that crossed a process border."""
        return cls(message, kind=kind, **details)


class InvalidInputError(PaimonError):
    """The call, the configuration or the data is wrong; nothing was committed."""

    default_kind = "invalid-input"


class NotFoundError(InvalidInputError):
    """The named database, table, snapshot, tag or file does not exist."""

    default_kind = "not-found"


class AlreadyExistsError(InvalidInputError):
    """The named database or table exists already."""

    default_kind = "already-exists"


class AccessDeniedError(PaimonError):
    """The catalog does not know the user, or does not allow this; nothing was done."""

    default_kind = "forbidden"


class CommitConflictError(PaimonError):
    """A concurrent commit makes ours wrong; plan again on the newest snapshot."""

    default_kind = "commit-conflict"


class CommitUnknownError(PaimonError):
    """The commit may have happened. Look at the snapshots first; nothing was deleted."""

    default_kind = "commit-unknown"


class FormatError(PaimonError):
    """A file breaks its format."""

    default_kind = "format"


class StorageError(PaimonError):
    """The storage refused or failed; the same call may succeed later."""

    default_kind = "storage"


def storage_failure(message: str, path: str, error: Exception) -> StorageError:
    """Return the error of a failed storage request at a path, by the cause."""
    kind = ACCESS_DENIED if isinstance(error, PermissionError) else None
    return StorageError(message, kind=kind, path=path)


class UnsupportedFeatureError(PaimonError):
    """Legal Paimon that this engine does not do (yet); nothing was read or written."""

    default_kind = "unsupported"


_KINDS: tuple[type[PaimonError], ...] = (PaimonError, *PaimonError.__subclasses__())
ERROR_CLASSES = {cls.__name__: cls for cls in (*_KINDS, *InvalidInputError.__subclasses__())}
"""Class name → class, to rebuild an error that crossed a process border."""
