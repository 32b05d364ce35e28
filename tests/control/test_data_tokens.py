"""Tables of a catalog that hands out a token for each: opened with it, and with nothing else."""

import pytest

from paimon_assets.engine.codec.rest.documents import TokenResponse
from paimon_assets.engine.control.catalog.data_tokens import TableStorage
from paimon_assets.engine.errors import ACCESS_DENIED, StorageError
from paimon_assets.engine.fileio.base import FileIOSpec
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.fileio.opening import current_spec, open_file_io
from paimon_assets.engine.fileio.renewed import RenewedFileIO

HOUR_MS = 3_600_000


class Clock:
    def __init__(self) -> None:
        self.now = 1_000 * HOUR_MS

    def now_millis(self) -> int:
        return self.now

    def sleep_millis(self, millis: float) -> None:
        raise AssertionError


class Issuer:
    """Hands out one token after the other; `lives_ms` says how long they serve."""

    def __init__(self, clock, **token) -> None:
        self.clock, self.token, self.asked, self.lives_ms = clock, token, 0, 12 * HOUR_MS

    def __call__(self) -> TokenResponse:
        self.asked += 1
        token = {key: f"{value}{self.asked}" for key, value in self.token.items()}
        return TokenResponse(token=token, expires_at_millis=self.clock.now + self.lives_ms)


@pytest.fixture
def clock():
    return Clock()


def storage(path, options, issuer):
    opened = TableStorage(path, options, issuer, issuer.clock)
    return RenewedFileIO(opened.opened)


def test_a_token_is_kept_until_an_hour_before_its_end(tmp_path, clock):
    issuer = Issuer(clock, any="value")
    file_io = storage(str(tmp_path), {}, issuer)
    assert issuer.asked == 0
    file_io.write_bytes(f"{tmp_path}/a", b"1")
    clock.now += 11 * HOUR_MS
    assert file_io.read_bytes(f"{tmp_path}/a") == b"1"
    assert issuer.asked == 1
    clock.now += 1
    assert file_io.exists(f"{tmp_path}/a")
    assert issuer.asked == 2


def test_a_token_of_less_than_an_hour_is_asked_for_each_time(tmp_path, clock):
    issuer = Issuer(clock)
    issuer.lives_ms = HOUR_MS - 1
    file_io = storage(str(tmp_path), {}, issuer)
    assert (file_io.exists("/a"), file_io.exists("/a"), issuer.asked) == (False, False, 2)


def test_work_elsewhere_gets_the_token_and_its_end_and_no_key_of_the_catalog(clock):
    token = {
        "fs.s3a.access.key": "k", "fs.s3a.secret.key": "s", "fs.s3a.session.token": "t",
    }  # fmt: skip
    of_catalog = {
        "s3.access-key": "CATALOG",
        "s3.secret-key": "CATALOG",
        "fs.s3a.session.token": "CATALOG",
        "s3.endpoint": "http://e",
        "token": "CATALOG",
        "dlf.access-key-secret": "CATALOG",
    }
    issuer = Issuer(clock, **token)
    spec = storage("s3://bucket/t", of_catalog, issuer).spec
    assert spec.expires_ms == clock.now + 12 * HOUR_MS
    assert spec.options == {
        "s3.endpoint": "http://e",
        "s3.access-key": "k1",
        "s3.secret-key": "s1",
        "s3.session-token": "t1",
    }
    assert "k1" not in repr(spec)


def test_work_that_begins_after_the_end_says_so(tmp_path, clock):
    clock.now = 0  # long ago
    spec = storage(str(tmp_path), {}, Issuer(clock)).spec
    with pytest.raises(StorageError) as expired:
        open_file_io(spec)
    assert expired.value.kind == "token-expired"


def test_the_endpoint_of_the_options_comes_before_that_of_the_token(clock):
    issuer = Issuer(clock, **{"fs.oss.endpoint": "theirs", "fs.oss.accessKeyId": "k"})
    opened = TableStorage(f"memory:/{id(clock)}", {"dlf.oss-endpoint": "ours"}, issuer, clock)
    assert opened.options_with(issuer())["oss.endpoint"] == "ours"
    opened = TableStorage(f"memory:/{id(clock)}", {}, issuer, clock)
    assert opened.options_with(issuer()) == {"oss.endpoint": "theirs2", "oss.key": "k2"}


def test_a_catalog_that_gives_no_token_opens_nothing(tmp_path, clock):
    def refuse():
        raise StorageError("no token")

    file_io = RenewedFileIO(TableStorage(str(tmp_path), {}, refuse, clock).opened)
    with pytest.raises(StorageError, match="no token"):
        file_io.read_bytes(f"{tmp_path}/a")


def test_a_token_serves_to_its_end_where_the_catalog_does_not_answer(tmp_path, clock):
    issuer, is_down = Issuer(clock, **{"fs.s3a.access.key": "k"}), [False]

    def ask():
        if is_down[0]:
            issuer.asked += 1
            raise StorageError("not there", kind="server-unreachable")
        return issuer()

    file_io = RenewedFileIO(TableStorage("s3://bucket/t", {}, ask, clock).opened)
    first, is_down[0] = file_io.spec, True
    clock.now += 11 * HOUR_MS + 1
    assert [file_io.spec, file_io.spec, issuer.asked] == [first, first, 2]
    clock.now += 60_000
    assert [file_io.spec, issuer.asked] == [first, 3]
    with pytest.raises(StorageError, match="not there"):
        file_io.renewed_spec(first)  # the storage takes it no more
    clock.now += HOUR_MS
    with pytest.raises(StorageError, match="not there"):
        _ = file_io.spec
    is_down[0] = False
    assert file_io.spec != first


class Guarded(LocalFileIO):
    """A storage that refuses some credentials, as object stores do before a token's end."""

    def __init__(self, spec, refused) -> None:
        self.own, self.refused = spec, refused

    @property
    def spec(self):
        return self.own

    def read_bytes(self, path):
        if self.own.options["s3.access-key"] in self.refused:
            raise StorageError("refused", kind=ACCESS_DENIED)
        return super().read_bytes(path)


def test_a_token_that_is_refused_is_asked_for_once_more(tmp_path):
    refused, given = {"k1", "k3"}, []

    def opened(spec):
        if spec is not None or not given:
            given.append(f"k{len(given) + 1}")
        return Guarded(FileIOSpec(options={"s3.access-key": given[-1]}), refused), 1

    file_io, path = RenewedFileIO(opened), tmp_path / "a"
    path.write_bytes(b"content")
    assert file_io.read_bytes(str(path)) == b"content"
    assert given == ["k1", "k2"]
    refused.add("k2")
    with pytest.raises(StorageError, match="refused"):
        file_io.read_bytes(str(path))
    assert given == ["k1", "k2", "k3"]


def test_work_elsewhere_gets_another_token_than_the_refused_one(clock):
    issuer = Issuer(clock, **{"fs.s3a.access.key": "k"})
    file_io = storage("s3://bucket/t", {}, issuer)
    first = file_io.spec
    assert (current_spec(first), issuer.asked) == (first, 1)
    other = current_spec(first, is_refused=True)
    assert other.options == {"s3.access-key": "k2"}
    assert current_spec(first, is_refused=True) == other  # another thread has asked already
    assert issuer.asked == 2


def test_a_catalog_that_gives_the_refused_token_again_opens_nothing_anew(clock):
    opened = TableStorage("s3://bucket/t", {}, issuer := Issuer(clock), clock)
    first, ends = opened.opened()
    clock.now += 1
    again, later = opened.opened(first.spec)
    assert again is first
    assert (later - ends, issuer.asked) == (1, 2)
