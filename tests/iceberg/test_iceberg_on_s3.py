"""Iceberg's readers get the options to open the files of a table on S3, and no other secrets."""

import json
import logging

import pytest

from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.table.api import open_catalog
from paimon_assets.server.serve import ServeSettings
from tests.iceberg.kit import served as kit
from tests.testkit.rest_server import serving
from tests.testkit.s3_server import BUCKET, s3_server

pytestmark = pytest.mark.slow

WAREHOUSE = f"s3://{BUCKET}/iceberg"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return kit.written_settings(tmp_path_factory.mktemp("settings"))


@pytest.fixture(scope="module")
def on_s3(files):
    with s3_server() as options:
        catalog = open_catalog(WAREHOUSE, options)
        kit.make_tables(catalog)
        catalog.create_table("db.pub_h", Schema.of(kit.COLUMNS, options=kit.IN_CATALOG)).append(
            kit.rows(1)
        )
        shown = kit.client_options(options)
        settings = ServeSettings(
            warehouse=WAREHOUSE, storage_options=options, client_options=shown, **files
        )
        with serving(settings) as client:
            yield client, shown


def test_readers_get_reading_key(on_s3):
    client, shown = on_s3
    expected = {
        **shown,
        "client.region": "us-east-1",
        "s3.access-key-id": kit.KEY,
        "s3.secret-access-key": kit.READER,
    }
    for principal in ("analyst", "admin"):
        loaded = (
            client.of(kit.token_of(principal))
            .ask("GET", f"{kit.DB}/tables/pub_a", headers=kit.VENDED)
            .json
        )
        assert loaded["config"] == expected
        folder = f"{WAREHOUSE}/db.db/pub_a"
        assert loaded["storage-credentials"] == [{"prefix": folder, "config": expected}]
        asked = client.of(kit.token_of(principal)).get(f"{kit.DB}/tables/pub_a/credentials").json
        assert asked == {"storage-credentials": loaded["storage-credentials"]}
    config = client.of(kit.token_of("analyst")).get("/iceberg/v1/config").json
    assert config["defaults"] == {**shown, "client.region": "us-east-1"}


def test_metadata_elsewhere_gets_key_too(on_s3):
    client, _ = on_s3
    loaded = (
        client.of(kit.token_of("admin"))
        .ask("GET", f"{kit.DB}/tables/pub_h", headers=kit.VENDED)
        .json
    )
    assert {each["prefix"] for each in loaded["storage-credentials"]} == {
        f"{WAREHOUSE}/db.db/pub_h",
        f"{WAREHOUSE}/iceberg/db/pub_h/metadata",
    }


def test_clients_without_request_or_grant_get_no_credentials(on_s3, audit_lines):
    client, _ = on_s3
    answers = [
        client.of(kit.token_of("analyst")).get(f"{kit.DB}/tables/pub_a"),
        client.of(kit.token_of("clerk")).ask("GET", f"{kit.DB}/tables/pub_a", headers=kit.VENDED),
        client.of(kit.token_of("etl")).ask("GET", f"{kit.DB}/tables/pub_a", headers=kit.VENDED),
    ]
    for answer in answers:
        assert answer.status == 200
        assert answer.json["config"] == {}
        assert "storage-credentials" not in answer.json
    for principal in ("clerk", "etl", "lister"):
        asked = client.of(kit.token_of(principal)).get(f"{kit.DB}/tables/pub_a/credentials")
        assert kit.error_of(asked) == (403, "ForbiddenException")
    lines = [json.loads(line) for line in audit_lines()]
    assert [line.get("token") for line in lines] == [None] * 6


def test_logs_metrics_and_errors_hold_no_secret(on_s3, caplog):
    client, _ = on_s3
    caplog.set_level(logging.DEBUG)
    analyst = client.of(kit.token_of("analyst"))
    assert (
        kit.READER in analyst.ask("GET", f"{kit.DB}/tables/pub_a", headers=kit.VENDED).body.decode()
    )
    answers = [
        analyst.ask("GET", f"{kit.DB}/tables/secret_a", headers=kit.VENDED),
        analyst.ask("GET", f"{kit.DB}/tables/pub_plain", headers=kit.VENDED),
        analyst.get("/metrics"),
    ]
    shown = caplog.text + "".join(str(record.__dict__) for record in caplog.records)
    shown += "".join(answer.body.decode() for answer in answers)
    for secret in (kit.READER, kit.WRITER, *(kit.token_of(principal) for principal in kit.GRANTS)):
        assert secret not in shown
    lines = [json.loads(r.message) for r in caplog.records if "audit" in r.name]
    assert [(line["operation"], line["status"], line.get("token")) for line in lines] == [
        ("icebergLoadTable", 200, "select"),
        ("icebergLoadTable", 403, None),
        ("icebergLoadTable", 404, None),
    ]
    assert 'operation="icebergLoadTable",status="403"' in answers[-1].body.decode()


def test_invalid_token_file_gives_no_token(on_s3, files):
    client, _ = on_s3
    text = files["data_tokens"].read_text()
    try:
        files["data_tokens"].write_text("[select")
        analyst = client.of(kit.token_of("analyst"))
        answer = analyst.ask("GET", f"{kit.DB}/tables/pub_a", headers=kit.VENDED)
        assert kit.error_of(answer) == (500, "InternalServerError")
        assert kit.READER not in answer.body.decode()
        files["data_tokens"].write_text(text[text.index("[update]") :])
        assert analyst.ask("GET", f"{kit.DB}/tables/pub_a", headers=kit.VENDED).json["config"] == {}
        assert analyst.get(f"{kit.DB}/tables/pub_a/credentials").status == 501
    finally:
        files["data_tokens"].write_text(text)
