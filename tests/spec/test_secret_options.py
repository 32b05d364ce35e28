import pytest

from paimon_assets import InvalidInputError, open_catalog
from paimon_assets.engine.errors import HIDDEN
from paimon_assets.engine.spec.options.catalog_options import shown_catalog_options, shown_options


@pytest.mark.parametrize(
    "key",
    [
        "s3.secret-key",
        "s3.access-key",
        "s3.session-token",
        "fs.oss.accessKeyId",
        "fs.oss.accessKeySecret",
        "fs.azure.account.key.x.dfs.core.windows.net",
        "metadata.iceberg.hive-password",
        "jdbc.PASSWORD",
        "api_key",
        "gs.credentials",
        "kafka.sasl.jaas.config",
        "kafka.properties.sasl.jaas.config",
        "http.auth",
        "rest.bearer",
        "jdbc.pwd",
        "ssl.key.passphrase",
        "abfs.sas",
        "fs.azure.sas.fixed",
        "abfs.connection-string",
        "s3.sse.key",
    ],
)
def test_secrets_of_tables_and_catalogs_are_hidden(key):
    assert shown_options({key: "abc"}) == {key: HIDDEN}
    assert shown_catalog_options({key: "abc"}) == {key: HIDDEN}


@pytest.mark.parametrize(
    "key",
    [
        "primary-key",
        "bucket-key",
        "sequence.field",
        "fields.token.aggregate-function",
        "file-index.bloom-filter.password.fpp",
        "full-text.tokenizer",
        "author",
    ],
)
def test_other_options_of_tables_are_shown(key):
    assert shown_options({key: "abc"}) == {key: "abc"}


def test_what_a_path_carries_for_its_host_is_hidden():
    options = {"data-file.external-paths": "s3://key:secret@bucket/a,oss://b/c"}
    assert shown_options(options) == {
        "data-file.external-paths": f"s3://{HIDDEN}@bucket/a,oss://b/c"
    }


def test_only_catalog_options_that_are_known_to_be_none_are_shown():
    shown = {"metastore": "filesystem", "warehouse": "/w", "s3.region": "eu", "hdfs.user": "me"}
    hidden = {"uri": "jdbc:sqlite:/l", "lock.user": "me", "s3.anything": "abc", "anything": "abc"}
    found = shown_catalog_options({**shown, **hidden})
    assert found == {**shown, **dict.fromkeys(hidden, HIDDEN)}


def test_a_switch_is_no_secret():
    assert shown_options({"query-auth.enabled": "true"}) == {"query-auth.enabled": "true"}


def test_no_error_shows_what_a_path_carries_for_its_host():
    path = "s3://key:sec/ret@bucket/warehouse"
    error = InvalidInputError(f"'{path}' is wrong", details={"path": path})
    assert f"{error} {error.message} {error.details} {error!r}".count("sec/ret") == 0
    with pytest.raises(InvalidInputError, match=r"s3\.secret-key") as caught:
        open_catalog("s3://key:secret@bucket/warehouse")
    assert "key:secret" not in str(caught.value)
