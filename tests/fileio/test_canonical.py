import os

import pytest

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.fileio.opening import canonical_path


def test_local_folder_has_one_canonical_name(tmp_path, monkeypatch):
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


def test_path_stays_in_its_bucket():
    with pytest.raises(InvalidInputError, match="leaves 'bucket'"):
        canonical_path("s3://bucket/a/../../other/x")
