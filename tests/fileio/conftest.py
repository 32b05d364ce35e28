"""What tests of object stores share: an S3 server, and a proxy before it that fails on demand."""

import pytest

from tests.testkit.s3_faults import s3_faults
from tests.testkit.s3_server import s3_server


@pytest.fixture(scope="module")
def server():
    """Return the options of a running server."""
    with s3_server() as options:
        yield options


@pytest.fixture(scope="module")
def proxied(server):
    """Return the faults of a proxy, and the options that go through it; its clients never retry."""
    with pytest.MonkeyPatch.context() as patch, s3_faults(server) as found:
        patch.setenv("AWS_MAX_ATTEMPTS", "1")
        yield found


@pytest.fixture
def faults(proxied):
    yield proxied[0]
    proxied[0].reset()
