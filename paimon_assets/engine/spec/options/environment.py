"""Options of a catalog and its storage from environment variables; shared by CLI and resources."""

import os

from paimon_assets.engine.spec.options.catalog_options import (
    DLF_ACCESS_KEY_ID,
    DLF_ACCESS_KEY_SECRET,
    DLF_REGION,
    DLF_SECURITY_TOKEN,
    DLF_TOKEN_PATH,
    METASTORE,
    TOKEN,
    TOKEN_PROVIDER,
    URI,
    WAREHOUSE,
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
"""Option of the catalog or the storage → environment variable it comes from, where that is set."""


def environment_variables() -> dict[str, str]:
    """Return option → variable, of the variables that are set."""
    return {option: name for option, name in VARIABLES.items() if os.environ.get(name)}


def environment_options() -> dict[str, str]:
    """Return the options that the environment sets."""
    return {option: os.environ[name] for option, name in environment_variables().items()}
