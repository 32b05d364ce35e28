"""Fixtures for tests of object stores: an S3 server, and a proxy that fails on demand."""

import pytest

from tests.testkit.s3_faults import s3_faults
from tests.testkit.s3_server import s3_server


@pytest.fixture(scope="module")
def server():
    """Return the options of a running server."""
    with s3_server() as options:
        yield options


@pytest.fixture(scope="module")
def proxy(server):
    """Return the faults of a proxy, and the options that go through it; its clients never retry."""
    with pytest.MonkeyPatch.context() as patch, s3_faults(server) as found:
        patch.setenv("AWS_MAX_ATTEMPTS", "1")
        yield found


@pytest.fixture
def faults(proxy):
    yield proxy[0]
    proxy[0].reset()
