import os

import pytest

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.fileio.opening import canonical_path


def test_names_of_one_local_folder_are_one(tmp_path, monkeypatch):
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    monkeypatch.chdir(tmp_path)
    expected = f"file:{os.path.realpath(tmp_path)}/a"
    for name in ("a", "./a/", "link", "a/../link/.", f"{tmp_path}//a", f"file://{tmp_path}/a"):
        assert canonical_path(name) == expected
    assert canonical_path(expected) == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("S3://Bucket/A/./b/", "s3://Bucket/A/b"),
        ("s3://bucket", "s3://bucket"),
        ("hdfs://host:9000/a/../b", "hdfs://host:9000/b"),
        ("memory:///a", "memory:///a"),
    ],
)
def test_uris_keep_their_authority(path, expected):
    assert canonical_path(path) == expected


def test_a_bucket_is_not_left():
    with pytest.raises(InvalidInputError, match="leaves 'bucket'"):
        canonical_path("s3://bucket/a/../../other/x")
