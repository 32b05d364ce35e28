import pytest

from paimon_assets.engine.spec.options.secret_options import (
    HIDDEN,
    shown_catalog_options,
    shown_options,
)


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
