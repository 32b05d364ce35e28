"""The Spark of the deployment, from the environment."""

import dagster as dg
import pytest

from paimon_assets.assets.resource import PaimonSparkResource, parse_settings
from paimon_assets.engine.errors import InvalidInputError


def test_any_setting_of_spark_is_read_from_environment(monkeypatch):
    monkeypatch.setenv("SPARK_MASTER", "spark://host:7077")
    monkeypatch.setenv("SECRET_OF_TEST", "hunter2")
    monkeypatch.setenv(
        "SPARK_SETTINGS",
        "spark.archives=e.tar.gz#e 'spark.app.name=two words' "
        "spark.hadoop.fs.s3a.secret.key=$SECRET_OF_TEST",
    )
    resource = PaimonSparkResource.from_env()
    assert resource.master == "spark://host:7077"
    assert resource.extra["spark.app.name"] == "two words"
    assert "hunter2" not in repr(resource)
    with dg.build_resources({"spark": resource}) as resources:
        assert resources.spark.extra == {
            "spark.archives": "e.tar.gz#e",
            "spark.app.name": "two words",
            "spark.hadoop.fs.s3a.secret.key": "hunter2",
        }


@pytest.mark.parametrize("text", ["executor.cores=2", "spark.executor.cores", "spark.a=1 , "])
def test_invalid_spark_setting_is_refused(text):
    with pytest.raises(InvalidInputError, match="SPARK_SETTINGS has the word") as caught:
        parse_settings(text)
    assert caught.value.kind == "spark-settings"


def test_spark_settings_default_to_none():
    assert parse_settings("") == {}
