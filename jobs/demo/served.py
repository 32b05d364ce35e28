"""`--rest`: the demo as a client of a REST catalog server that is started for it, and ends with it.

The server listens on this machine only, for one token that is made at its start: its file of
principals holds the hash, the environment of the demo's own process the token.
"""

import hashlib
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import click

from jobs.demo.home import DEMO, ROOT
from resources.paimon import warehouse_when_loaded

_PRINCIPALS = """[[principal]]
name = "demo"
token-sha256 = ["{digest}"]
grants = [{{ on = "*", may = ["all"] }}]
"""


def run_over_rest(arguments: list[str]) -> int:
    """Run the demo in a process whose catalog is a server's; return its exit code."""
    with _serve_catalog() as environment:
        command = [sys.executable, "-m", "jobs.demo.run", *arguments]
        done = subprocess.run(command, cwd=ROOT, env=environment, check=False)  # noqa: S603 - our own
        return done.returncode


@contextmanager
def _serve_catalog() -> Iterator[Mapping[str, str]]:
    """Serve the demo's warehouse; yield the environment of its clients."""
    warehouse = warehouse_when_loaded()
    if warehouse is None:
        sys.exit("PAIMON_URI names a REST catalog already: leave out --rest.")
    if "://" not in warehouse:
        Path(warehouse).mkdir(parents=True, exist_ok=True)
    DEMO.mkdir(parents=True, exist_ok=True)
    token = secrets.token_hex(32)
    principals = DEMO / "principals.toml"
    digest = hashlib.sha256(token.encode()).hexdigest()
    principals.write_text(_PRINCIPALS.format(digest=digest))
    log = DEMO / "server.log"
    server = [
        *(sys.executable, "-c", "from paimon_assets.cli.main import main; main()"),
        *("--warehouse", warehouse, "serve", "--port", "0", "--principals", str(principals)),
    ]
    with (
        log.open("w") as output,
        subprocess.Popen(  # noqa: S603 - our own
            server, cwd=ROOT, stdout=subprocess.PIPE, stderr=output
        ) as process,
    ):
        try:
            line = process.stdout.readline().decode().strip() if process.stdout else ""
            if not line:
                sys.exit(f"The server did not start:\n{log.read_text()}")
            click.echo(f"{line}, to whoever has the token made for this run; its log is {log}")
            clients = {key: value for key, value in os.environ.items() if key != "PAIMON_WAREHOUSE"}
            yield {**clients, "PAIMON_URI": line.rsplit(" ", 1)[1], "PAIMON_TOKEN": token}
        finally:
            process.terminate()
