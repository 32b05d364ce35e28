"""Options of a catalog behind a REST server: its address, credentials and storage.

Source: `org.apache.paimon.rest.RESTCatalogOptions`.
"""

from paimon_assets.engine.spec.options.option import Option

URI = Option("uri", "", "Where the REST catalog is, such as https://host/catalog.")
PREFIX = Option("prefix", "", "Part of the server's paths; it says so itself.")
TOKEN_PROVIDER = Option(
    "token.provider",
    "",
    "Who asks: bear, with a token, or dlf, with keys that sign.",
    parse=str.lower,
)
TOKEN = Option("token", "", "The bearer token; a secret.")
DLF_REGION = Option("dlf.region", "", "Region of DLF; else the one in the URI.")
DLF_ACCESS_KEY_ID = Option("dlf.access-key-id", "", "Key of DLF.")
DLF_ACCESS_KEY_SECRET = Option("dlf.access-key-secret", "", "Secret of the key.")
DLF_SECURITY_TOKEN = Option("dlf.security-token", "", "Token that belongs to a key that ends.")
DLF_TOKEN_PATH = Option("dlf.token-path", "", "File with a key that somebody renews.")
DLF_TOKEN_LOADER = Option(
    "dlf.token-loader",
    "",
    "Where keys come from: local_file, or ecs, the machine.",
    parse=str.lower,
)
DLF_ECS_METADATA_URL = Option(
    "dlf.token-ecs-metadata-url",
    "http://100.100.100.200/latest/meta-data/Ram/security-credentials/",
    "Where the machine says keys of its role.",
)
DLF_ECS_ROLE_NAME = Option("dlf.token-ecs-role-name", "", "Role; else the machine's only one.")
DLF_SIGNING_ALGORITHM = Option(
    "dlf.signing-algorithm", "", "default or openapi; else by the URI.", parse=str.lower
)
DLF_OSS_ENDPOINT = Option(
    "dlf.oss-endpoint", "", "Endpoint of OSS, before the one that a table's token names."
)
DATA_TOKEN_ENABLED = Option(
    "data-token.enabled", False, "Whether the server hands out a token for each table."
)
DROPS_EMPTY = "drop-database.cascade-parameter"
"""Of a server's configuration, `true`: it takes `cascade=false` where a database is dropped. Others
may take the parameter for a part of the name."""
HEADER_PREFIX = "header."
"""Before a name: a header of every request."""
TABLE_DEFAULT_PREFIX = "table-default."
"""Before a key: an option of every table that is created and does not say it."""
