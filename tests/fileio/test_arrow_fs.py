from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from fsspec.implementations.local import LocalFileSystem  # type: ignore[import-untyped]
from pyarrow.fs import FSSpecHandler, PyFileSystem

from paimon_assets.engine import errors
from paimon_assets.engine.fileio.arrow_fs import ArrowFileIO, publish_by_rename
from paimon_assets.engine.fileio.base import FileIOSpec
from paimon_assets.engine.fileio.opening import file_io_for, open_file_io, scheme_of


class _RefusingRename(FSSpecHandler):
    """A rename that fails if the target exists, as on HDFS.

    `lost` loses its answer, and `late` its call, until the next deletion; `failing` fails so often.
    """

    def __init__(self, *, lost: bool = False, late: bool = False, failing: int = 0) -> None:
        super().__init__(LocalFileSystem())
        self.lost, self.late, self.failing = lost, late, failing
        self.moves: list[tuple[str, str]] = []

    def move(self, source, target):
        if Path(target).exists():
            raise OSError("rename: target exists")
        self.moves.append((source, target))
        if self.late or len(self.moves) <= self.failing:
            raise OSError("connection reset")
        super().move(source, target)
        if self.lost:
            raise OSError("connection reset")

    def delete_file(self, path):
        for move in self.moves if self.late else ():
            super().move(*move)
        super().delete_file(path)


def _renaming(**more: bool) -> Callable[[str, bytes], bool]:
    handler = _RefusingRename(**more)  # type: ignore[abstract]  # because the stubs are wrong
    return partial(publish_by_rename, PyFileSystem(handler))


def test_exclusive_rename_publishes(tmp_path):
    publish = _renaming()
    path = str(tmp_path / "snapshot-1")
    assert publish(path, b"first") is True
    assert publish(path, b"second") is False
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [b"first"]


def test_rename_without_answer_is_unknown(tmp_path):
    with pytest.raises(errors.CommitUnknownError):
        _renaming(lost=True)(str(tmp_path / "s-1"), b"{}")


def test_late_rename_is_unknown(tmp_path):
    with pytest.raises(errors.CommitUnknownError):
        _renaming(late=True)(str(tmp_path / "s-1"), b"{}")
    assert (tmp_path / "s-1").read_bytes() == b"{}"


def test_replace_repeats_failed_renames(tmp_path):
    (tmp_path / "LATEST").write_bytes(b"1")
    handler = _RefusingRename(failing=3)
    ArrowFileIO(PyFileSystem(handler), FileIOSpec(scheme="file")).replace(
        f"file://{tmp_path}/LATEST", b"2"
    )
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [b"2"]


def test_failed_rename_is_definite(tmp_path):
    publish = _renaming()
    with pytest.raises(OSError, match="deep"):
        publish(str(tmp_path / "deep" / "snapshot-1"), b"{}")


def _without_publishing() -> ArrowFileIO:
    backend = LocalFileSystem()
    handler = FSSpecHandler(backend)  # type: ignore[abstract]  # because the stubs are wrong
    return ArrowFileIO(PyFileSystem(handler), FileIOSpec(scheme="sftp"), backend=backend)


def test_storage_without_atomic_publish_is_read_only(tmp_path):
    file_io = _without_publishing()
    (tmp_path / "file").write_bytes(b"content")
    assert file_io.read_bytes(f"sftp://{tmp_path}/file") == b"content"
    with pytest.raises(errors.UnsupportedFeatureError) as caught:
        file_io.publish(f"sftp://{tmp_path}/snapshot-1", b"{}")
    assert caught.value.kind == "no-atomic-publish"


def test_no_message_shows_option_value():
    options = {"s3.access-key": "SECRET", "s3.endpoint": "SECRET", "memory.bad-option": "SECRET"}
    for path in ("s3://bucket/warehouse", "nowhere://bucket"):
        with pytest.raises((errors.InvalidInputError, errors.StorageError)) as caught:
            file_io_for(path, options).read_bytes(f"{path}/x")
        assert "SECRET" not in str(caught.value)
    assert "SECRET" not in repr(file_io_for("memory://x", options).spec)


def test_spec_keeps_options_of_its_own_storage_only():
    options = {"memory.skip-instance-cache": "x", "s3.secret-key": "SECRET", "warehouse": "w"}
    spec = file_io_for("memory://x", options).spec
    assert spec == FileIOSpec(scheme="memory", options={"memory.skip-instance-cache": "x"})
    assert open_file_io(spec).spec == spec


def test_scheme_is_text_before_slashes():
    assert scheme_of("S3://bucket/a") == "s3"
    assert scheme_of("relative/dir") == "file"
    assert scheme_of("/a/b://c") == "file"
