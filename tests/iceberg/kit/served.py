"""Tables with Iceberg metadata, served to principals with different rights, on disk and on S3."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.table.api import TableCatalog, open_catalog
from paimon_assets.server.serve import ServeSettings
from tests.testkit.rest_server import Answer, principal, serving
from tests.testkit.s3_faults import S3Faults, s3_faults
from tests.testkit.s3_server import BUCKET, s3_server

ICEBERG = {"metadata.iceberg.storage": "table-location"}
IN_CATALOG = {"metadata.iceberg.storage": "hadoop-catalog"}
COLUMNS = {"id": "INT", "text": "STRING"}
VENDED = {"X-Iceberg-Access-Delegation": "vended-credentials,remote-signing"}
KEY, READER, WRITER = "KEY-OF-READERS", "the-secret-of-the-reader", "the-secret-of-the-writer"
GRANTS = {
    "admin": ("*", ["all"]),
    "analyst": ("db.pub_*", ["select"]),
    "clerk": ("db.pub_*", ["describe"]),
    "lister": ("db.pub_*", ["list"]),
    "etl": ("db.*", ["update"]),
    "stranger": ("other.*", ["all"]),
    "outsider": ("lake.*", ["select"]),
    "blind": None,
}
DB = "/iceberg/v1/namespaces/db"
ROWS = [[1, "x1"], [2, "x2"], [3, "x3"]]
"""The rows of the tables `t` and `elsewhere` of a lake; `keyed` has another text for 3."""
_REQUESTS = 1_000_000


def token_of(name: str) -> str:
    return f"token-of-the-{name}"


def written_settings(folder: Path) -> dict[str, Path]:
    """Write the files of principals and data tokens, and return the settings that name them."""
    (folder / "principals.toml").write_text(
        "".join(
            principal(name, token_of(name), *([grant] if grant else []))
            for name, grant in GRANTS.items()
        )
    )
    for kind, secret in (("select", READER), ("update", WRITER)):
        (folder / kind).write_text(secret)
    (folder / "tokens.toml").write_text(
        "\n".join(
            f'[{kind}]\n"s3.access-key" = "{key}"\n"s3.secret-key" = {{ secret-file = "{kind}" }}'
            for kind, key in (("select", KEY), ("update", "KEY-OF-WRITERS"))
        )
    )
    return {"principals": folder / "principals.toml", "data_tokens": folder / "tokens.toml"}


def rows(*ids: int, text: str = "x") -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int32()), "text": [f"{text}{n}" for n in ids]})


def make_tables(catalog: TableCatalog) -> None:
    """Make tables with metadata, without the option, and without a commit."""
    for database in ("db", "hidden"):
        catalog.create_database(database)
    for name in ("db.pub_a", "db.secret_a", "hidden.t"):
        catalog.create_table(name, Schema.of(COLUMNS, options=ICEBERG)).append(rows(1, 2, 3))
    catalog.create_table("db.pub_plain", Schema.of(COLUMNS)).append(rows(1))
    catalog.create_table("db.pub_new", Schema.of(COLUMNS, options=ICEBERG))


def error_of(answer: Answer) -> tuple[int, str]:
    """Return code and type of an error in Iceberg's form."""
    members = answer.json["error"]
    assert set(members) == {"message", "type", "code"}
    assert members["code"] == answer.status
    return answer.status, members["type"]


def client_options(options: dict[str, str]) -> dict[str, str]:
    """Return the storage options that clients get."""
    return {key: options[key] for key in ("s3.endpoint", "s3.region", "s3.path-style-access")}


@dataclass(frozen=True)
class ServedLake:
    uri: str
    endpoint: str
    faults: S3Faults

    @property
    def reads(self) -> int:
        """How many requests the storage had that were signed by the key of readers."""
        return _REQUESTS - self.faults.lives[KEY]


@contextmanager
def served_lake(folder: Path) -> Iterator[ServedLake]:
    """Serve the database `lake` on an S3 server that counts the requests of readers."""
    warehouse = f"s3://{BUCKET}/lake"
    with s3_server() as options, s3_faults(options) as (faults, through):
        catalog = open_catalog(warehouse, options)
        for database in ("lake", "hidden"):
            catalog.create_database(database)
        for name, storage in (("t", ICEBERG), ("elsewhere", IN_CATALOG), ("plain", {})):
            table = catalog.create_table(f"lake.{name}", Schema.of(COLUMNS, options=storage))
            table.append(rows(1, 2))
            table.append(rows(3))
        schema = Schema.of(COLUMNS, primary_keys=["id"], options={**ICEBERG, "bucket": "1"})
        keyed = catalog.create_table("lake.keyed", schema)
        keyed.upsert(rows(1, 2, 3))
        keyed.upsert(rows(3, text="y"))
        keyed.compact(full=True)
        faults.lives[KEY] = _REQUESTS
        settings = ServeSettings(
            warehouse=warehouse,
            storage_options=options,
            client_options=client_options(through),
            **written_settings(folder),  # type: ignore[arg-type]  # files, all of them
        )
        with serving(settings) as client:
            uri = f"http://127.0.0.1:{client.port}/iceberg"
            yield ServedLake(uri, through["s3.endpoint"], faults)
