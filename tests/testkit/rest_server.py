"""A real server in a thread of this process, or as a child; and a client that sends anything."""

import hashlib
import http.client
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paimon_assets.server.app import App
from paimon_assets.server.serve import ServeSettings, app_of, uvicorn_of
from tests.testkit.processes import LONGEST_SECONDS, end

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes
    headers: Mapping[str, str]

    @property
    def json(self) -> Any:
        return json.loads(self.body) if self.body else None

    @property
    def error(self) -> tuple[int, str | None, str | None]:
        members = self.json
        assert members["code"] == self.status
        return self.status, members["resourceType"], members["resourceName"]


@dataclass(frozen=True)
class RestClient:
    """Sends requests as they are given; `path` behind `/v1/paimon/`, or with a slash in front."""

    port: int
    headers: Mapping[str, str] = field(default_factory=dict)

    def ask(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        whole = path if path.startswith("/") else f"/v1/paimon/{path}"
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.putrequest(method, whole)
            for name, value in {**self.headers, **(headers or {})}.items():
                connection.putheader(name, value)
            if data is not None:
                connection.putheader("Content-Length", str(len(data)))
            connection.endheaders(data)
            response = connection.getresponse()
            return Answer(response.status, response.read(), dict(response.headers))
        finally:
            connection.close()

    def get(self, path: str) -> Answer:
        return self.ask("GET", path)

    def post(self, path: str, body: Any = None) -> Answer:
        return self.ask("POST", path, body)

    def delete(self, path: str) -> Answer:
        return self.ask("DELETE", path)

    def of(self, token: str) -> "RestClient":
        return RestClient(self.port, {"Authorization": f"Bearer {token}"})


@contextmanager
def serving(settings: ServeSettings, clock: Any = None) -> Iterator[RestClient]:
    """Serve in a thread of this process."""
    with serving_app(app_of(settings, clock=clock), settings) as client:
        yield client


@contextmanager
def serving_app(app: App, settings: ServeSettings) -> Iterator[RestClient]:
    server = uvicorn_of(app, settings)
    with socket.create_server(("127.0.0.1", 0), backlog=256) as listening:
        port = listening.getsockname()[1]
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield RestClient(port)
        finally:
            server.should_exit = True
            thread.join(LONGEST_SECONDS)


@contextmanager
def server_process(
    warehouse: Path | str, *arguments: str, log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[tuple[subprocess.Popen[bytes], RestClient]]:
    """Serve in a child, by `paimon-assets serve`."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            [
                *(sys.executable, "-c", "from paimon_assets.cli.main import main; main()"),
                *("-w", str(warehouse), "serve", "--port", "0", *arguments),
            ],
            cwd=ROOT,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **(environment or {})},
            stdout=subprocess.PIPE,
            stderr=output,
            start_new_session=True,
        )
        try:
            assert process.stdout is not None
            line = process.stdout.readline().decode()
            assert "serving" in line, log.read_text()
            client = RestClient(int(line.rsplit(":", 1)[1]))
            _until_up(client)
            yield process, client
        finally:
            if process.stdout is not None:
                process.stdout.close()
            end(process)


def _until_up(client: RestClient) -> None:
    last = time.monotonic() + LONGEST_SECONDS
    while time.monotonic() < last:
        try:
            if client.get("/healthz").status == 200:
                return
        except OSError:
            time.sleep(0.05)
    raise AssertionError("the server does not answer")


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
        """Let a client walk through everything, and return its results."""
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


def digest_of(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def principal(name: str, token: str, *grants: tuple[str, Sequence[str]], more: str = "") -> str:
    """Return one principal of a file of them; a grant is an item and its rights."""
    shown = ", ".join(f'{{ on = "{on}", may = {json.dumps(may)} }}' for on, may in grants)
    return (
        f'[[principal]]\nname = "{name}"\ntoken-sha256 = ["{digest_of(token)}"]\n'
        f"grants = [{shown}]\n{more}\n"
    )


@contextmanager
def served_to_outsiders(folder: Path) -> Iterator[Served]:
    """Serve an empty warehouse, with data tokens, to one principal with all rights."""
    (folder / "secret").write_text(SECRET)
    principals = folder / "principals.toml"
    keys = 'access-keys = [{ id = "AK", secret-file = "secret" }]'
    principals.write_text(principal("outsider", TOKEN, ("*", ["all"]), more=keys))
    warehouse = folder / "warehouse"
    warehouse.mkdir()
    tokens = folder / "tokens.toml"
    tokens.write_text('[update]\n"fs.any.option" = "value"')
    settings = ServeSettings(warehouse=str(warehouse), principals=principals, data_tokens=tokens)
    with serving(settings) as client:
        yield Served(client, warehouse)
