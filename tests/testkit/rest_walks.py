"""A catalog server for clients of other implementations, which walk through it once."""

import hashlib
import json
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paimon_assets.server.serve import ServeSettings
from tests.testkit.rest_server import ROOT, RestClient, serving

TOKEN = "a-token-of-an-outsider"  # noqa: S105
SECRET = "a-secret-of-an-outsider"  # noqa: S105
BEARER = {"token.provider": "bear", "token": TOKEN}
"""How a client signs in."""


def signed_by(algorithm: str) -> dict[str, str]:
    """Return how a client of DLF signs in."""
    return {
        "token.provider": "dlf",
        "dlf.region": "cn-hangzhou",
        "dlf.access-key-id": "AK",
        "dlf.access-key-secret": SECRET,
        "dlf.signing-algorithm": algorithm,
    }


@dataclass(frozen=True)
class Served:
    client: RestClient
    warehouse: Path

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.client.port}"

    def tokens(self) -> int:
        """Return how many data tokens it has handed out."""
        counts = self.client.of(TOKEN).get("/metrics").body.decode()
        found = re.search(r'operation="getTableToken",status="200"} (\d+)', counts)
        return int(found[1]) if found else 0

    def walk(
        self, command: Sequence[str], database: str, options: Mapping[str, str]
    ) -> dict[str, Any]:
        """Let a client walk through everything, and return what it saw."""
        before = self.tokens()
        done = subprocess.run(
            [*command, self.uri, "outside", database],
            input=json.dumps(options),
            capture_output=True,
            text=True,
            cwd=ROOT,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        assert self.tokens() > before
        seen: dict[str, Any] = json.loads(done.stdout)
        return seen


@contextmanager
def served_to_outsiders(folder: Path) -> Iterator[Served]:
    """Serve an empty warehouse, with data tokens, to one principal, who may do everything."""
    (folder / "secret").write_text(SECRET)
    principals = folder / "principals.toml"
    principals.write_text(
        f"""
[[principal]]
name = "outsider"
token-sha256 = ["{hashlib.sha256(TOKEN.encode()).hexdigest()}"]
access-keys = [{{ id = "AK", secret-file = "secret" }}]
grants = [{{ on = "*", may = ["all"] }}]
"""
    )
    warehouse = folder / "warehouse"
    warehouse.mkdir()
    tokens = folder / "tokens.toml"
    tokens.write_text('[update]\n"fs.any.option" = "value"')
    settings = ServeSettings(warehouse=str(warehouse), principals=principals, data_tokens=tokens)
    with serving(settings) as client:
        yield Served(client, warehouse)
