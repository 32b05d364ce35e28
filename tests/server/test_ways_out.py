"""Refusals of the server's settings and of a client's, each with its way out taken."""

from pathlib import Path

from paimon_assets import open_catalog
from paimon_assets.server.serve import ServeSettings, app_of
from tests.testkit.rest_server import serving
from tests.testkit.ways import Place, take, ways

SECRETS = {"s3.secret-key": "b"}


def app(**settings):
    """Return a call that makes the server's application."""
    return lambda at: app_of(ServeSettings(warehouse=str(at.path), **settings))


def client(options):
    """Return a call that opens a catalog of a server; `uri` may be another one than its own."""

    def call(at):
        at.catalog.list_databases()
        with serving(ServeSettings(warehouse=str(at.path / "w"), insecure=True)) as rest:
            own = {"metastore": "rest", "uri": f"http://127.0.0.1:{rest.port}"}
            kept = {key: value for key, value in {**own, **options}.items() if value}
            return open_catalog("", kept).list_databases()

    return call


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
]  # fmt: skip


@ways(WAYS)
def test_way_out_of_server_refusal_works(way, tmp_path):
    take(way, Place(tmp_path))
