"""Silent and slow connections are closed."""

import shutil
import socket
import ssl
import subprocess

import pytest

from paimon_assets.server.serve import Handshakes, PunctualProtocol, ServeSettings
from tests.testkit.rest_server import serving


@pytest.fixture(scope="module")
def client(served):
    with serving(ServeSettings(warehouse=served, insecure=True)) as found:
        yield found


@pytest.mark.parametrize("sent", ["nothing", "half a head", "half of a second head"])
def test_slow_connection_is_closed(client, monkeypatch, sent):
    monkeypatch.setattr(PunctualProtocol, "head_seconds", 0.2)
    half = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
    with socket.create_connection(("127.0.0.1", client.port), timeout=20) as raw:
        if sent == "half of a second head":
            raw.sendall(half + b"\r\n")
            assert b" 200 " in raw.recv(10_000)
        if sent != "nothing":
            raw.sendall(half)
        while raw.recv(10_000):
            pass


def test_body_may_take_longer_than_head(client, monkeypatch):
    monkeypatch.setattr(PunctualProtocol, "head_seconds", 0.05)
    head = b"POST /v1/paimon/databases HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n"
    with (
        socket.create_connection(("127.0.0.1", client.port), timeout=20) as raw,
        socket.create_connection(("127.0.0.1", client.port), timeout=20) as silent,
    ):
        raw.sendall(head + b"\r\n{")
        assert silent.recv(1) == b""  # its time is over, and the body's is not
        raw.sendall(b"}")
        assert b" 400 " in raw.recv(10_000)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes a certificate with openssl")
@pytest.mark.parametrize("limit", ["most", "seconds"])
def test_handshakes_that_never_finish_are_closed(served, tmp_path, monkeypatch, limit):
    monkeypatch.setattr(Handshakes, limit, 4 if limit == "most" else 0.2)
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "1",
        "-subj",
        "/CN=localhost",
    ]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command, *files], check=True, capture_output=True)
    settings = ServeSettings(
        warehouse=served, insecure=True, tls_key=key, tls_certificate=certificate
    )
    context = ssl.create_default_context(cafile=certificate)
    with serving(settings) as client:
        address = ("127.0.0.1", client.port)
        silent = [socket.create_connection(address, timeout=20) for _ in range(8)]
        assert silent[0].recv(1) == b""
        with (
            socket.create_connection(address, timeout=20) as raw,
            context.wrap_socket(raw, server_hostname="localhost") as secure,
        ):
            secure.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b" 200 " in secure.recv(10_000)
        for each in silent:
            each.close()
