"""Jars of Maven Central, fetched once for a machine."""

import fcntl
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.interop.environment import HOME

_SECONDS = 180


def fetched_jars(name: str, pom: str) -> Path:
    """Return the folder of a pom's dependencies; skip the test where they cannot be fetched."""
    folder = HOME / name
    HOME.mkdir(exist_ok=True)
    with (HOME / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            if shutil.which("mvn") is None:
                pytest.skip(f"no Maven to fetch {name} with")
            with tempfile.TemporaryDirectory(dir=HOME) as made:
                Path(made, "pom.xml").write_text(pom, encoding="utf-8")
                command = ["mvn", "-q", "-B", "-f", f"{made}/pom.xml"]
                goal = ["dependency:copy-dependencies", "-DincludeScope=runtime"]
                try:
                    subprocess.run(
                        [*command, *goal, f"-DoutputDirectory={made}/jars"],
                        check=True, capture_output=True, timeout=_SECONDS,
                    )  # fmt: skip
                except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
                    pytest.skip(f"Maven does not fetch {name}")
                Path(made, "jars").rename(folder)
    return folder
