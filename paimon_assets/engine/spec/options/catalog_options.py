"""Options of a catalog, by environment variables too, and which values people may see.

A table's options are hidden if their key names a secret. A catalog's and a storage's are shown
only if they are known to be no secret: the secrets of all storages cannot be listed.
Source: `org.apache.paimon.options.CatalogOptions`, `org.apache.paimon.rest.RESTCatalogOptions`.
"""

import os
import re
from collections.abc import Mapping

from paimon_assets.engine.errors import HIDDEN, without_secrets
from paimon_assets.engine.spec.options.option import Option, word

WAREHOUSE = Option("warehouse", "", "Path of the directory that is the catalog.")
METASTORE = word("metastore", "filesystem", "Keeper of the tables' names.")
FILE_FSYNC = Option(
    "file.fsync", False, "Whether commits on a local disk are flushed to it before they return."
)
LOCK_ENABLED = Option("lock.enabled", False, "Whether writers take a catalog lock; refused.")

CATALOG_PREFIXES = ("lock.", "lock-", "token", "data-token.", "dlf.", "header.", "table-default.")
"""Prefixes of keys that only a catalog reads."""


def table_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options that are no catalog's; those of a storage are among them.

    >>> table_options({"metastore": "rest", "token": "abc", "scan.snapshot-id": "1"})
    {'scan.snapshot-id': '1'}
    """
    own = {WAREHOUSE.key, METASTORE.key, "uri", "catalog-key", "prefix"}
    return {
        key: value
        for key, value in options.items()
        if key not in own and not key.startswith(CATALOG_PREFIXES)
    }


URI = Option("uri", "", "Where the REST catalog is, such as https://host/catalog.")
PREFIX = Option("prefix", "", "Part of the server's paths; the server sends it.")
TOKEN_PROVIDER = word(
    "token.provider", "", "Authentication: bear, with a token, or dlf, with keys that sign."
)
TOKEN = Option("token", "", "The bearer token; a secret.")
DLF_REGION = Option("dlf.region", "", "Region of DLF; else the one in the URI.")
DLF_ACCESS_KEY_ID = Option("dlf.access-key-id", "", "Key of DLF.")
DLF_ACCESS_KEY_SECRET = Option("dlf.access-key-secret", "", "Secret of the key.")
DLF_SECURITY_TOKEN = Option("dlf.security-token", "", "Token that belongs to a key that ends.")
DLF_TOKEN_PATH = Option("dlf.token-path", "", "File with a key that another program renews.")
DLF_TOKEN_LOADER = word(
    "dlf.token-loader", "", "Where keys come from: local_file, or ecs, the machine."
)
DLF_ECS_METADATA_URL = Option(
    "dlf.token-ecs-metadata-url",
    "http://100.100.100.200/latest/meta-data/Ram/security-credentials/",
    "URL from which the machine gets keys of its role.",
)
DLF_ECS_ROLE_NAME = Option("dlf.token-ecs-role-name", "", "Role; else the machine's only one.")
DLF_SIGNING_ALGORITHM = word("dlf.signing-algorithm", "", "default or openapi; else by the URI.")
DLF_OSS_ENDPOINT = Option(
    "dlf.oss-endpoint", "", "Endpoint of OSS, before the one that a table's token names."
)
DATA_TOKEN_ENABLED = Option(
    "data-token.enabled", False, "Whether the server hands out a token for each table."
)
DROPS_EMPTY = "drop-database.cascade-parameter"
"""Of a server's configuration, `true`: it takes `cascade=false` where a database is dropped. Other
servers may take the parameter for a part of the name."""
HEADER_PREFIX = "header."
"""Before a name: a header of every request."""
TABLE_DEFAULT_PREFIX = "table-default."
"""Before a key: an option of every table that is created and does not say it."""

_HIDDEN_KEYS = (
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
        FILE_FSYNC,
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
        and re.search(_HIDDEN_KEYS, key.lower()) is not None
    )


def shown_catalog_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return a catalog's options with every value hidden that is not known to be no secret.

    >>> shown_catalog_options({"metastore": "rest", "s3.endpoint": "http://e", "s3.any": "abc"})
    {'metastore': 'rest', 's3.endpoint': 'http://e', 's3.any': '******'}
    """
    return {
        key: without_secrets(value) if _is_plain(key) else HIDDEN for key, value in options.items()
    }


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


VARIABLES = {
    option: f"PAIMON_{option.upper().replace('.', '_').replace('-', '_')}"
    for option in (
        WAREHOUSE.key, METASTORE.key, URI.key, TOKEN.key, TOKEN_PROVIDER.key, DLF_REGION.key,
        DLF_ACCESS_KEY_ID.key, DLF_ACCESS_KEY_SECRET.key, DLF_SECURITY_TOKEN.key,
        DLF_TOKEN_PATH.key,
        "s3.endpoint", "s3.region", "s3.access-key", "s3.secret-key", "s3.session-token",
        "s3.path-style-access",
    )
}  # fmt: skip
"""Option of the catalog or the storage → environment variable of its default."""


def environment_variables() -> dict[str, str]:
    """Return option → variable, of the variables that are set."""
    return {option: name for option, name in VARIABLES.items() if os.environ.get(name)}


def environment_options() -> dict[str, str]:
    """Return the options that the environment sets."""
    return {option: os.environ[name] for option, name in environment_variables().items()}
