"""Option values that are shown to people: all but possible keys and passwords.

Of a table's options those are hidden whose key names a secret. Of a catalog's and a storage's only
those are shown that are known to be none: what a storage takes for a secret, nobody can list.
"""

import re
from collections.abc import Mapping

from paimon_assets.engine.errors import HIDDEN, without_secrets
from paimon_assets.engine.spec.options.catalog_options import LOCK_ENABLED, METASTORE, WAREHOUSE
from paimon_assets.engine.spec.options.rest_options import (
    DATA_TOKEN_ENABLED,
    DLF_REGION,
    DLF_SIGNING_ALGORITHM,
    HEADER_PREFIX,
    PREFIX,
    TOKEN_PROVIDER,
)

_SECRET = re.compile(
    r"secret|passw(or)?d|passphrase|credential|token(?!iz)|signature|bearer|jaas|authorization"
    r"|connection[-_.]?string"
    r"|(access|account|api|private|encryption|service|shared|storage|master|customer|sse)[-_.]?key"
    r"|(^|[-_.])(auth|pass|pwd|sas|sig)($|[-_.])"
)
_SWITCH = frozenset({"true", "false"})
"""Values that are no secrets, whatever the key is called."""
_PLAIN_STORAGE = frozenset({"endpoint", "region", "path-style-access", "host", "port", "user"})
_PLAIN_CATALOG = frozenset(
    option.key
    for option in (
        WAREHOUSE,
        METASTORE,
        LOCK_ENABLED,
        PREFIX,
        TOKEN_PROVIDER,
        DLF_REGION,
        DLF_SIGNING_ALGORITHM,
        DATA_TOKEN_ENABLED,
    )
)
_OF_COLUMNS = ("fields.", "file-index.")


def shown_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return a table's options with the values of secrets hidden.

    >>> shown_options({"bucket": "2", "s3.secret-key": "abc", "fields.token.default-value": "x"})
    {'bucket': '2', 's3.secret-key': '******', 'fields.token.default-value': 'x'}
    """
    return {
        key: HIDDEN if _is_secret(key, value) else without_secrets(value)
        for key, value in options.items()
    }


def _is_secret(key: str, value: str) -> bool:
    # The keys of columns hold a name, which may be anything.
    return (
        value not in _SWITCH
        and not key.startswith(_OF_COLUMNS)
        and _SECRET.search(key.lower()) is not None
    )


def shown_catalog_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return a catalog's options with every value hidden that is not known to be no secret.

    >>> shown_catalog_options({"metastore": "rest", "s3.endpoint": "http://e", "s3.any": "abc"})
    {'metastore': 'rest', 's3.endpoint': 'http://e', 's3.any': '******'}
    """
    return {key: _show(key, value) for key, value in options.items()}


def _show(key: str, value: str) -> str:
    return without_secrets(value) if _is_plain(key) else HIDDEN


def _is_plain(key: str) -> bool:
    storage, dot, name = key.partition(".")
    return key in _PLAIN_CATALOG or (bool(dot) and name in _PLAIN_STORAGE and storage != "lock")


def secret_values(options: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values of a catalog's options that no text may hold, whoever wrote it.

    >>> secret_values({"token": "abc", "token.provider": "bear", "header.X": "h", "uri": "u"})
    ('abc', 'h')
    """
    return tuple(
        value
        for key, value in options.items()
        if value
        and not _is_plain(key)
        and (key.startswith(HEADER_PREFIX) or _is_secret(key, value))
    )
