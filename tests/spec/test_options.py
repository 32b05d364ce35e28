import pytest

from paimon_assets import InvalidInputError, open_catalog
from paimon_assets.engine.errors import HIDDEN
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.options.catalog_options import shown_catalog_options, shown_options


def test_absent_option_has_its_default():
    assert opt.Options({}).get(opt.BUCKET) == -1


def test_fallback_key_is_found():
    assert opt.Options({"deduplicate.ignore-delete": "TRUE"}).get(opt.IGNORE_DELETE) is True


def test_bad_value_names_option_and_text():
    with pytest.raises(InvalidInputError, match=r"'partition.legacy-name' has the value 'yes'"):
        opt.Options({"partition.legacy-name": "yes"}).get(opt.PARTITION_LEGACY_NAME)


@pytest.mark.parametrize("text", ["", "mb", "1 xb", "-1 mb", "1.5 gb"])
def test_bad_memory_size_is_refused(text):
    with pytest.raises(ValueError, match="size"):
        opt.parse_memory(text)


@pytest.mark.parametrize(("text", "millis"), [("1 d", 86_400_000), ("5min", 300_000), ("7", 7)])
def test_durations_are_milliseconds(text, millis):
    assert opt.parse_duration_ms(text) == millis


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


def test_credentials_in_path_are_hidden():
    options = {"data-file.external-paths": "s3://key:secret@bucket/a,oss://b/c"}
    assert shown_options(options) == {
        "data-file.external-paths": f"s3://{HIDDEN}@bucket/a,oss://b/c"
    }


def test_only_known_plain_catalog_options_are_shown():
    shown = {"metastore": "filesystem", "warehouse": "/w", "s3.region": "eu", "hdfs.user": "me"}
    hidden = {"uri": "jdbc:sqlite:/l", "lock.user": "me", "s3.anything": "abc", "anything": "abc"}
    found = shown_catalog_options({**shown, **hidden})
    assert found == {**shown, **dict.fromkeys(hidden, HIDDEN)}


def test_boolean_is_no_secret():
    assert shown_options({"query-auth.enabled": "true"}) == {"query-auth.enabled": "true"}


def test_no_error_shows_credentials_in_path():
    path = "s3://key:sec/ret@bucket/warehouse"
    error = InvalidInputError(f"'{path}' is wrong", path=path)
    assert f"{error} {error.message} {error.details} {error!r}".count("sec/ret") == 0
    with pytest.raises(InvalidInputError, match=r"s3\.secret-key") as caught:
        open_catalog("s3://key:secret@bucket/warehouse")
    assert "key:secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "millis"),
    [
        ("0", 0),
        ("-5", -5),
        (" 1700000000000 ", 1_700_000_000_000),
        ("1970-01-02", 86_400_000),
        ("1970-01-01 00:00:01", 1000),
        ("1970-01-01T00:00:01.234567", 1234),
        ("1970-01-01 02:00:00+02:00", 0),
        ("1969-12-31 23:59:59.999", -1),
    ],
)
def test_timestamp_is_milliseconds_or_time(text, millis):
    assert opt.parse_instant_ms(text) == millis


def test_two_timestamps_are_separated():
    options = opt.Options(
        {
            opt.INCREMENTAL_BETWEEN.key: " v1 , v2 ",
            opt.INCREMENTAL_BETWEEN_TIMESTAMP.key: "1000,1970-01-01 00:00:02",
            "log.scan": "LATEST",
        }
    )
    assert options.get(opt.INCREMENTAL_BETWEEN) == ("v1", "v2")
    assert options.get(opt.INCREMENTAL_BETWEEN_TIMESTAMP) == (1000, 2000)
    assert options.get(opt.SCAN_MODE) is opt.ScanMode.LATEST


@pytest.mark.parametrize("text", ["", "1", ",2", "1,", "1,2,3", "now,1"])
def test_invalid_timestamp_names_its_option(text):
    options = opt.Options({opt.INCREMENTAL_BETWEEN_TIMESTAMP.key: text})
    with pytest.raises(InvalidInputError, match=opt.INCREMENTAL_BETWEEN_TIMESTAMP.key):
        options.get(opt.INCREMENTAL_BETWEEN_TIMESTAMP)
