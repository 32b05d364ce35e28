"""The packages of a Python worker: asked in a task, before the first work is sent there.

Standard library only: Spark sends this module by value to workers that may have nothing else.
"""

import importlib
import importlib.util
import json
import platform
import socket
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

PACKAGE = "paimon_assets"
_WORKER = f"{PACKAGE}.spark.worker"
ARCHIVE = f"{PACKAGE}-{{digest}}.zip"
"""Name of the shipped package, by its content."""


def digest_of(root: Path) -> str:
    """Return a digest of all sources of a package, in 16 digits. Cost: reads some megabytes."""
    digest = sha256()
    for source in sorted(root.rglob("*.py")):
        content = source.read_bytes()
        digest.update(f"{source.relative_to(root).as_posix()} {len(content)} ".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


def probe(digest: str, storage: str) -> str:
    """Return, as JSON, the versions of this process and its missing packages."""
    answer: dict[str, Any] = {
        "host": socket.gethostname(),
        "python": platform.python_version(),
        "interpreter": sys.executable,
        "package": "none",
        "place": None,
        "broken": None,
        "unseen": None,
    }
    # It is found, not loaded: another version would stay in this process.
    found = importlib.util.find_spec(PACKAGE)
    if found is not None and found.submodule_search_locations:
        place = answer["place"] = next(iter(found.submodule_search_locations))
        is_archive = ARCHIVE.format(digest=digest) in place
        is_same = is_archive or digest_of(Path(place)) == digest
        answer["package"] = "same" if is_same else "other"
    if answer["package"] == "same":
        try:
            worker = importlib.import_module(_WORKER)
        except Exception as error:  # noqa: BLE001 - whatever a package raises when it is loaded
            answer["broken"] = f"{type(error).__name__}: {error}"
        else:
            if storage:
                answer["unseen"] = worker.unseen(storage)
    return json.dumps(answer)


def probing(digest: str, storage: str) -> Callable[[int], str]:
    """Return `probe` as a function of a row."""

    def run(_: int) -> str:
        return probe(digest, storage)

    return run
