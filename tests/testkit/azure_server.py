"""Azurite, Microsoft's emulator of Azure's blobs, where `npm install -g azurite` put it."""

import base64
import hashlib
import hmac
import http.client
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate

AZURITE = shutil.which("azurite-blob")
CONTAINER = "lake"
_ACCOUNT = "devstoreaccount1"
_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""Azurite's own account and key, which are no secret."""


@contextmanager
def azure_server() -> Iterator[dict[str, str]]:
    """Run a server with one empty container, and yield the catalog options to reach it."""
    command = [AZURITE or "azurite-blob", "--blobPort", "0", "--skipApiVersionCheck"]
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(
            [*command, "--silent", "--disableTelemetry", "--location", folder],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process,
    ):
        try:
            listens = re.compile(r"listens on http://127\.0\.0\.1:(\d+)")
            port = next(
                found[1] for line in process.stdout or () if (found := listens.search(line))
            )
            _make_container(int(port))
            yield {
                "az.account-name": _ACCOUNT,
                "az.account-key": _KEY,
                "az.endpoint": f"http://127.0.0.1:{port}/{_ACCOUNT}",
            }
        finally:
            process.kill()


def _make_container(port: int) -> None:
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2023-11-03"}
    signed = "".join(f"{name}:{value}\n" for name, value in headers.items())
    text = "PUT" + 12 * "\n" + f"{signed}/{_ACCOUNT}/{_ACCOUNT}/{CONTAINER}\nrestype:container"
    digest = hmac.new(base64.b64decode(_KEY), text.encode(), hashlib.sha256).digest()
    headers["Authorization"] = f"SharedKey {_ACCOUNT}:{base64.b64encode(digest).decode()}"
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("PUT", f"/{_ACCOUNT}/{CONTAINER}?restype=container", b"", headers)
    assert connection.getresponse().status == 201
    connection.close()
