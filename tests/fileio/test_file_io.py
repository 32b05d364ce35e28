"""Behaviour every FileIO shares, on the local disk, on an fsspec filesystem, on S3 and Azure."""

import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from paimon_assets.engine import errors
from paimon_assets.engine.fileio.base import FileIO, FileIOSpec
from paimon_assets.engine.fileio.delegating import RenewedFileIO
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.fileio.opening import current_spec, file_io_for, open_file_io
from tests.testkit.azure_server import AZURITE, CONTAINER, azure_server
from tests.testkit.errors import refused
from tests.testkit.s3_server import BUCKET, s3_server


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, str]]:
    with s3_server() as options:
        yield options


@pytest.fixture(scope="module")
def az() -> Iterator[dict[str, str]]:
    if AZURITE is None:
        pytest.skip("no azurite-blob on the path")
    with azure_server() as options:
        yield options


@pytest.fixture(params=["plain", "file:", "file://", "memory://", "s3://", "az://"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param in ("s3://", "az://"):
        bucket = BUCKET if request.param == "s3://" else CONTAINER
        yield f"{request.param}{bucket}/{uuid4().hex}"
        return
    if request.param != "memory://":
        prefix = "" if request.param == "plain" else request.param
        yield f"{prefix}{tmp_path}"
        return
    path = f"memory://{uuid4().hex}"
    yield path
    file_io_for(path).delete_directory(path)


@pytest.fixture
def file_io(root: str, request: pytest.FixtureRequest) -> FileIO:
    scheme = root.partition("://")[0]
    return file_io_for(root, request.getfixturevalue(scheme) if scheme in ("s3", "az") else None)


def test_written_file_is_read_below_new_directory(file_io, root):
    path = f"{root}/a/b c/x=%2F/file"
    file_io.write_bytes(path, b"content")
    assert file_io.read_bytes(path) == b"content"
    assert file_io.file_size(path) == 7
    assert file_io.exists(path)
    assert file_io.exists(f"{root}/a/b c")


def test_streams_read_and_write_at_any_position(file_io, root):
    path = f"{root}/new/stream"
    with file_io.open_output(path) as stream:
        stream.write(b"0123")
        stream.write(b"456789")
    with file_io.open_input(path) as file:
        assert file.size() == 10
        file.seek(7)
        assert file.read(2) == b"78"


def test_publish_creates_only_its_file_once(file_io, root):
    path = f"{root}/snapshot/snapshot-1"
    assert file_io.publish(path, b"first") is True
    assert file_io.publish(path, b"second") is False
    assert file_io.read_bytes(path) == b"first"
    assert [status.name for status in file_io.list_directory(f"{root}/snapshot")] == ["snapshot-1"]


def test_replace_creates_or_overwrites_only_its_file(file_io, root):
    path = f"{root}/snapshot/LATEST"
    file_io.replace(path, b"12345")
    file_io.replace(path, b"6")
    assert file_io.read_bytes(path) == b"6"
    assert len(file_io.list_directory(f"{root}/snapshot")) == 1


def test_hint_of_any_length_replaces_previous(file_io, root):
    path = f"{root}/snapshot/LATEST"
    for hint in (b"9", b"10", b"7"):
        file_io.write_hint(path, hint)
        assert file_io.read_bytes(path) == hint
    assert len(file_io.list_directory(f"{root}/snapshot")) == 1


def test_list_returns_full_paths_in_given_form(file_io, root):
    file_io.write_bytes(f"{root}/d/b", b"xy")
    file_io.write_bytes(f"{root}/d/a/inner", b"")
    statuses = file_io.list_directory(f"{root}/d")
    assert [status.path for status in statuses] == [f"{root}/d/a", f"{root}/d/b"]
    assert [status.is_directory for status in statuses] == [True, False]
    assert [status.size for status in statuses] == [0, 2]


def test_missing_directory_lists_empty(file_io, root):
    assert file_io.list_directory(f"{root}/nowhere") == []


@pytest.mark.parametrize("call", ["read_bytes", "open_input", "file_size"])
def test_missing_file_is_named(file_io, root, call):
    with refused(errors.NotFoundError, kind="file-not-found") as caught:
        getattr(file_io, call)(f"{root}/nowhere/file")
    assert f"{root}/nowhere/file" in caught.value.message


def test_deletion_of_missing_file_succeeds(file_io, root):
    file_io.delete_file(f"{root}/nowhere/file")
    file_io.delete_directory(f"{root}/nowhere")


def test_deletes_files_and_whole_directories(file_io, root):
    file_io.write_bytes(f"{root}/d/a/file", b"")
    file_io.write_bytes(f"{root}/d/other", b"")
    file_io.delete_file(f"{root}/d/other")
    assert not file_io.exists(f"{root}/d/other")
    file_io.delete_directory(f"{root}/d")
    assert not file_io.exists(f"{root}/d")


def test_deletes_many_files_and_shows_tree(file_io, root):
    for name in ("a/x", "a/y", "a/b/z", "c"):
        file_io.write_bytes(f"{root}/t/{name}", b"12")
    listed = file_io.list_tree(f"{root}/t")
    shown = {path: listed(f"{root}/t{path}") for path in ("", "/a", "/a/b", "/none")}
    assert {path: [s.path[len(root) :] for s in found] for path, found in shown.items()} == {
        "": ["/t/a", "/t/c"],
        "/a": ["/t/a/b", "/t/a/x", "/t/a/y"],
        "/a/b": ["/t/a/b/z"],
        "/none": [],
    }
    assert [(s.is_directory, s.size) for s in shown["/a"]] == [(True, 0), (False, 2), (False, 2)]
    file_io.delete_files([f"{root}/t/a/x", f"{root}/t/none", f"{root}/t/a/b/z"])
    file_io.delete_files([])
    assert [s.name for s in file_io.list_directory(f"{root}/t/a") if not s.is_directory] == ["y"]


def test_directories_are_created_repeatedly(file_io, root):
    file_io.make_directory(f"{root}/a/b")
    file_io.make_directory(f"{root}/a/b")
    assert file_io.exists(f"{root}/a/b")
    assert file_io.list_directory(f"{root}/a/b") == []


def test_rename_does_not_overwrite_directory(file_io, root):
    file_io.write_bytes(f"{root}/a/schema/schema-0", b"a")
    file_io.write_bytes(f"{root}/b/schema/schema-0", b"b")
    with pytest.raises(errors.AlreadyExistsError):
        file_io.rename_directory(f"{root}/a", f"{root}/b")
    file_io.rename_directory(f"{root}/a", f"{root}/c")
    assert file_io.read_bytes(f"{root}/c/schema/schema-0") == b"a"
    assert not file_io.exists(f"{root}/a")


def test_renaming_missing_file_is_error(file_io, root):
    with pytest.raises(errors.NotFoundError):
        file_io.rename_directory(f"{root}/nowhere", f"{root}/c")


def test_storage_spec_opens_same_storage(file_io, root):
    file_io.write_bytes(f"{root}/file", b"content")
    assert open_file_io(file_io.spec).read_bytes(f"{root}/file") == b"content"


def test_path_of_another_storage_is_refused(file_io):
    with refused(errors.PaimonError, kind="path"):
        file_io.read_bytes("elsewhere://bucket/file")


def test_storage_is_not_opened_with_credentials_that_have_expired():
    now_ms = int(time.time() * 1000)
    assert open_file_io(FileIOSpec(expires_ms=now_ms + 600_000)).spec.scheme == "file"
    with refused(errors.StorageError, kind="token-expired") as caught:
        open_file_io(FileIOSpec(options={"s3.secret-key": "hush"}, scheme="s3", expires_ms=now_ms))
    assert "hush" not in str(caught.value)


def test_spec_with_renewal_opens_renewing_storage(tmp_path):
    ends = itertools.count(1)
    storage = RenewedFileIO(lambda _: (LocalFileIO(), next(ends)))
    spec = storage.spec
    assert open_file_io(spec) is storage
    path = f"{tmp_path}/file"
    open_file_io(spec).write_bytes(path, b"content")
    assert storage.read_bytes(path) == b"content"
    assert (spec.expires_ms, current_spec(spec).expires_ms) == (1, 4)
    del storage
    assert current_spec(spec) is spec
    with pytest.raises(errors.StorageError, match="expired"):
        open_file_io(spec)
