import os

import pytest

from tests.testkit import jvm_classes
from tests.testkit.processes import JVM_OPTIONS


@pytest.fixture
def place(tmp_path, monkeypatch):
    path = tmp_path / "classes.jsa"
    monkeypatch.setattr(jvm_classes, "archive", lambda: path)
    return path


@pytest.mark.parametrize(
    ("is_there", "options", "are_shared"),
    [(True, JVM_OPTIONS, True), (False, JVM_OPTIONS, False), (True, "-Dmine=1", False)],
)
def test_archive_is_shared_if_it_exists_and_none_was_chosen(
    place, monkeypatch, is_there, options, are_shared
):
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", options)
    if is_there:
        place.touch()
    jvm_classes.share_classes()
    jvm_classes.share_classes()
    added = os.environ["SPARK_SUBMIT_OPTS"].removeprefix(options)
    assert added.count(f"-XX:SharedArchiveFile={place}") == are_shared
    assert bool(added) == are_shared
