"""Java Paimon as a fixture: one process on the warehouse that all tests share."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.environment import HOME, ROOT, java_peer
from tests.testkit.oracle import Oracle


@pytest.fixture(scope="session")
def java(shared_warehouse: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oracle]:
    """Java Paimon."""
    if shutil.which("java") is None or shutil.which("javac") is None:
        pytest.skip("there is no JDK on the PATH")
    if not HOME.exists():
        pytest.skip("Java Paimon is absent; `make interop-java` fetches it")
    exchange = tmp_path_factory.mktemp("java")
    command = java_peer(shared_warehouse)
    with Oracle(command, exchange=exchange, working_directory=ROOT) as oracle:
        yield oracle
