"""Connections that say nothing, or too little, and would keep others out."""

import socket

import pytest

from paimon_assets.server.serve import PunctualProtocol, ServeSettings
from tests.testkit.rest_server import serving


@pytest.fixture(scope="module")
def client(served):
    with serving(ServeSettings(warehouse=served, insecure=True)) as found:
        yield found


@pytest.mark.parametrize("sent", ["nothing", "half a head", "half of a second head"])
def test_a_connection_that_says_too_little_is_closed(client, monkeypatch, sent):
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


def test_a_body_may_take_longer_than_a_head(client, monkeypatch):
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
