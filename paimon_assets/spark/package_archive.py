"""This package as a zip for workers, whose name says what is in it.

What this process has compiled goes along, because a worker would compile some hundred modules each
time it starts: loading them takes half as long. It serves Pythons of this minor version, as Spark
demands of workers anyway; others would read the sources.
"""

import zipfile
from functools import cache
from importlib.util import MAGIC_NUMBER, cache_from_source
from pathlib import Path

from paimon_assets.spark import worker_probe

_PACKAGE = Path(worker_probe.__file__).parents[1]
_UNCHECKED = (1).to_bytes(4, "little")
"""Flags of compiled code that is not compared with its source: times in a zip know no zone."""
_HASH = bytes(8)


@cache
def package_digest() -> str:
    """Return the digest of this process's package."""
    return worker_probe.digest_of(_PACKAGE)


def package_archive(directory: Path) -> Path:
    """Write this package as a zip Python can import from, and return its path."""
    archive = directory / worker_probe.ARCHIVE.format(digest=package_digest())
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as package:
        for source in sorted(_PACKAGE.rglob("*")):
            if source.is_file() and "__pycache__" not in source.parts:
                name = source.relative_to(_PACKAGE.parent)
                package.write(source, name)
                compiled = _compiled(source) if source.suffix == ".py" else None
                if compiled is not None:
                    package.writestr(f"{name.with_suffix('.pyc').as_posix()}", compiled)
    return archive


def _compiled(source: Path) -> bytes | None:
    """Return the compiled code of a source as this Python keeps it; None if that is not there."""
    try:
        content = Path(cache_from_source(str(source))).read_bytes()
    except (OSError, NotImplementedError):
        return None
    state = source.stat()
    seen = (int(state.st_mtime) & 0xFFFFFFFF, state.st_size & 0xFFFFFFFF)
    made_of = b"".join(number.to_bytes(4, "little") for number in seen)
    if content[:16] != MAGIC_NUMBER + bytes(4) + made_of:
        return None
    return MAGIC_NUMBER + _UNCHECKED + _HASH + content[16:]
