from pathlib import Path

import pytest
from fsspec.implementations.local import LocalFileSystem  # type: ignore[import-untyped]
from fsspec.implementations.memory import MemoryFileSystem  # type: ignore[import-untyped]
from pyarrow.fs import FSSpecHandler, PyFileSystem

from paimon_assets.engine.errors import (
    CommitUnknownError,
    InvalidInputError,
    StorageError,
    UnsupportedFeatureError,
)
from paimon_assets.engine.fileio.arrow_fs import ArrowFileIO, ConditionalPut, RenameNoReplace
from paimon_assets.engine.fileio.atomic import is_taken
from paimon_assets.engine.fileio.base import FileIOSpec
from paimon_assets.engine.fileio.opening import file_io_for, open_file_io, scheme_of


class _Answering(MemoryFileSystem):  # type: ignore[misc]  # because fsspec has no types
    """Obeys conditions, and raises what an SDK would raise instead of putting a snapshot."""

    cachable = False

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def pipe_file(self, path, value, mode="overwrite", **kwargs):
        if path.endswith(".tmp"):
            raise FileExistsError
        raise self.error


class _ClientError(Exception):
    def __init__(self, code: str) -> None:
        super().__init__(f"An error occurred ({code}), key=SECRET")
        self.response = {"Error": {"Code": code}}


class _HttpError(Exception):
    code = 412


def test_a_conditional_put_that_finds_the_name_taken_lost():
    for error in (FileExistsError(), _ClientError("PreconditionFailed"), _HttpError()):
        assert ConditionalPut(_Answering(error))("/t/snapshot-1", b"{}") is False


def test_the_reason_may_lie_deeper_in_the_chain():
    outer = OSError("upload failed")
    assert not is_taken(outer)
    outer.__cause__ = _ClientError("PreconditionFailed")
    assert is_taken(outer)


def test_any_other_answer_to_a_conditional_put_is_unknown_and_shows_no_sdk_text():
    for error in (TimeoutError("SECRET"), _ClientError("SlowDown"), ConnectionResetError()):
        with pytest.raises(CommitUnknownError, match="snapshot-1") as caught:
            ConditionalPut(_Answering(error))("/t/snapshot-1", b"{}")
        assert "SECRET" not in str(caught.value)


def test_without_permission_nothing_is_published():
    class Refusing(_Answering):
        def pipe_file(self, path, value, mode="overwrite", **kwargs):
            raise self.error

    with pytest.raises(StorageError, match="Not permitted") as caught:
        ConditionalPut(Refusing(PermissionError("SECRET")))("/t/snapshot-1", b"{}")
    assert "SECRET" not in str(caught.value)


class _Store(MemoryFileSystem):  # type: ignore[misc]  # because fsspec has no types
    """An object store of its own, which obeys a condition or ignores it."""

    cachable = False
    protocol = "test-store"

    def __init__(self, *, obeys: bool) -> None:
        super().__init__()
        self.obeys = obeys
        self.store: dict[str, bytes] = {}
        self.puts = 0

    def pipe_file(self, path, value, mode="overwrite", **kwargs):
        self.puts += 1
        if self.obeys and mode == "create" and path in self.store:
            raise _ClientError("PreconditionFailed")
        self.store[path] = value

    def rm_file(self, path):
        del self.store[path]

    def __hash__(self):
        return id(self)

    def __eq__(self, other):
        return self is other


def test_a_store_is_asked_once_whether_it_obeys_conditions():
    store = _Store(obeys=True)
    for number in (1, 2):
        assert ConditionalPut(store)(f"/t/snapshot-{number}", b"{}") is True
    assert ConditionalPut(store)("/t/snapshot-2", b"[]") is False
    assert store.store == {"/t/snapshot-1": b"{}", "/t/snapshot-2": b"{}"}
    assert store.puts == 2 + 3


def test_a_store_that_ignores_conditions_is_refused():
    store = _Store(obeys=False)
    with pytest.raises(UnsupportedFeatureError, match="If-None-Match") as caught:
        ConditionalPut(store)("/t/snapshot-1", b"{}")
    assert caught.value.kind == "no-atomic-publish"
    assert store.store == {}


class _RefusingRename(FSSpecHandler):
    """A rename that fails if the target exists, as on HDFS; `lost` loses its answer."""

    def __init__(self, *, lost: bool = False) -> None:
        super().__init__(LocalFileSystem())
        self.lost = lost

    def move(self, source, target):
        if Path(target).exists():
            raise OSError("rename: target exists")
        super().move(source, target)
        if self.lost:
            raise OSError("connection reset")


def _renaming(*, lost: bool = False) -> RenameNoReplace:
    handler = _RefusingRename(lost=lost)  # type: ignore[abstract]  # because the stubs are wrong
    return RenameNoReplace(PyFileSystem(handler))


def test_a_rename_that_refuses_existing_targets_publishes(tmp_path):
    publish = _renaming()
    path = str(tmp_path / "snapshot-1")
    assert publish(path, b"first") is True
    assert publish(path, b"second") is False
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [b"first"]


def test_a_rename_without_an_answer_is_unknown(tmp_path):
    with pytest.raises(CommitUnknownError):
        _renaming(lost=True)(str(tmp_path / "s-1"), b"{}")


def test_a_rename_that_fails_for_another_reason_surely_did_nothing(tmp_path):
    publish = _renaming()
    with pytest.raises(OSError, match="deep"):
        publish(str(tmp_path / "deep" / "snapshot-1"), b"{}")


def _without_publishing() -> ArrowFileIO:
    backend = LocalFileSystem()
    handler = FSSpecHandler(backend)  # type: ignore[abstract]  # because the stubs are wrong
    return ArrowFileIO(PyFileSystem(handler), FileIOSpec(scheme="sftp"), backend=backend)


def test_a_storage_without_an_atomic_way_can_be_read_but_not_committed_to(tmp_path):
    file_io = _without_publishing()
    (tmp_path / "file").write_bytes(b"content")
    assert file_io.read_bytes(f"sftp://{tmp_path}/file") == b"content"
    with pytest.raises(UnsupportedFeatureError) as caught:
        file_io.publish(f"sftp://{tmp_path}/snapshot-1", b"{}")
    assert caught.value.kind == "no-atomic-publish"


def test_no_message_shows_an_option_value():
    options = {"s3.access-key": "SECRET", "s3.endpoint": "SECRET", "memory.bad-option": "SECRET"}
    for path in ("s3://bucket/warehouse", "nowhere://bucket"):
        with pytest.raises((InvalidInputError, StorageError)) as caught:
            file_io_for(path, options).read_bytes(f"{path}/x")
        assert "SECRET" not in str(caught.value)
    assert "SECRET" not in repr(file_io_for("memory://x", options).spec)


def test_a_spec_keeps_the_options_of_its_own_storage_only():
    options = {"memory.skip-instance-cache": "x", "s3.secret-key": "SECRET", "warehouse": "w"}
    spec = file_io_for("memory://x", options).spec
    assert spec == FileIOSpec(scheme="memory", options={"memory.skip-instance-cache": "x"})
    assert open_file_io(spec).spec == spec


def test_the_scheme_is_what_stands_before_the_slashes():
    assert scheme_of("S3://bucket/a") == "s3"
    assert scheme_of("relative/dir") == "file"
    assert scheme_of("/a/b://c") == "file"
