"""Refusals of the server's settings and of a client's, each with its way out taken."""

import sys
from pathlib import Path

import pytest

from paimon_assets import open_catalog
from paimon_assets.cli.main import CommandError, main
from paimon_assets.erasure import erase
from paimon_assets.server.serve import ServeSettings, app_of
from tests.testkit.rest_server import server_process, serving
from tests.testkit.tables import read
from tests.testkit.ways import Place, take, ways

SECRETS = {"s3.secret-key": "b"}


def app(**settings):
    """Return a call that makes the server's application."""
    return lambda at: app_of(ServeSettings(warehouse=str(at.path), **settings))


def client(options, use=lambda catalog: catalog.list_databases()):
    """Return a call that opens a catalog of a server; `uri` may be another one than its own."""

    def call(at):
        at.table({"k": "INT"}, (1,), (2,))
        with serving(ServeSettings(warehouse=str(at.path / "w"), insecure=True)) as rest:
            own = {"metastore": "rest", "uri": f"http://127.0.0.1:{rest.port}"}
            kept = {key: value for key, value in {**own, **options}.items() if value}
            return use(open_catalog("", kept))

    return call


def rows_left(catalog):
    assert read(catalog.get_table("db.t")) == [(2,)]


WAYS = [
    ("client-option", "Clients bring their own",
     app(insecure=True, client_options=SECRETS), app(insecure=True)),
    ("principals", "give one", app(insecure=True, principals=Path("p")), app(insecure=True)),
    ("principals", "or say --insecure if that is meant", app(), app(insecure=True)),
    ("tls", "--tls-key needs --tls-certificate",
     app(insecure=True, tls_key="x"), app(insecure=True)),
    ("rest-options", "A REST catalog needs 'uri', such as https://host/catalog",
     client({"uri": ""}), client({})),
    ("rest-options", "must be such as https://host:port/prefix",
     client({"uri": "ftp://host"}), client({})),
    ("rest-options", "there are bear and dlf",
     client({"token.provider": "x"}), client({"token.provider": "bear", "token": "t"})),
    ("rest-options", "'token' is missing",
     client({"token.provider": "bear"}), client({"token.provider": "bear", "token": "t"})),
    ("erase-managed", "Open the table by the warehouse's path",
     client({}, lambda catalog: erase(catalog.get_table("db.t"), "k = 1")),
     lambda at: (erase(at.table(), "k = 1"), client({}, rows_left)(at))),
]  # fmt: skip


@ways(WAYS)
def test_way_out_of_server_refusal_works(way, tmp_path):
    take(way, Place(tmp_path))


@pytest.mark.way_out("server-missing")
def test_server_starts_once_its_package_is_installed(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "uvicorn", None)
        patch.delitem(sys.modules, "paimon_assets.server.serve")
        with pytest.raises(CommandError, match=r"install paimon-assets\[server\]"):
            main(["-w", str(tmp_path), "serve", "--insecure"], standalone_mode=False)
    with server_process(tmp_path, "--insecure", log=tmp_path / "log"):
        pass
