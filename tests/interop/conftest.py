"""The peers as fixtures; scripts of the peers' environment are not collected here."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.environment import HOME, ROOT, iceberg_home, iceberg_python, peer_python
from tests.interop.steps import OurSide
from tests.testkit.oracle import Oracle

collect_ignore_glob = ["peers/*.py"]


@pytest.fixture(scope="session")
def shared_warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One warehouse that we and the peers read and write."""
    return tmp_path_factory.mktemp("warehouse")


@pytest.fixture
def ours(shared_warehouse: Path) -> OurSide:
    return OurSide(shared_warehouse)


def _peer(name: str, warehouse: Path, exchange: Path) -> Oracle:
    if not HOME.exists():
        pytest.skip("the peers' environment is absent; `make interop` creates it")
    command = [str(peer_python()), "-m", "tests.interop.peers.serve", name, str(warehouse)]
    return Oracle(command, exchange=exchange, working_directory=ROOT)


@pytest.fixture(scope="session")
def pypaimon(shared_warehouse: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oracle]:
    """Pure Python Paimon."""
    with _peer("pypaimon", shared_warehouse, tmp_path_factory.mktemp("pypaimon")) as oracle:
        yield oracle


@pytest.fixture(scope="session")
def rust(shared_warehouse: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oracle]:
    with _peer("pypaimon-rust", shared_warehouse, tmp_path_factory.mktemp("rust")) as oracle:
        yield oracle


@pytest.fixture(scope="session")
def iceberg(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oracle]:
    """Readers of Iceberg: pyiceberg and duckdb."""
    if not iceberg_home().exists():
        pytest.skip("the environment of Iceberg's readers is absent; `make interop` creates it")
    exchange = tmp_path_factory.mktemp("iceberg")
    serve = "tests.interop.peers.serve"
    command = [str(iceberg_python()), "-m", serve, "iceberg", str(exchange)]
    with Oracle(command, exchange=exchange, working_directory=ROOT) as oracle:
        yield oracle
