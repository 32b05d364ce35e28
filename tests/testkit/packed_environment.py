"""A packed environment for Spark's workers, as venv-pack makes them: Python and its packages.

It is small, because its packages are links: whoever unpacks it must be on this machine.
"""

import sys
import sysconfig
import tarfile
from pathlib import Path

_LEFT_OUT = ("paimon_assets", "__editable__", "_paimon", "pyspark", "py4j")
"""Packages that the session itself brings, and Spark."""


def base_interpreter() -> str:
    """Return the Python that this process's environment was made of: it has no packages."""
    return str(getattr(sys, "_base_executable", sys.executable))


def pack_environment(archive: Path) -> None:
    """Write this process's third-party packages, behind a Python of their own, as a tar.gz."""
    home = archive.with_suffix("")
    packages = home / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    packages.mkdir(parents=True)
    for source in Path(sysconfig.get_path("purelib")).iterdir():
        if not source.name.startswith(_LEFT_OUT) and source.suffix != ".pth":
            (packages / source.name).symlink_to(source)
    (home / "bin").mkdir()
    base = Path(base_interpreter())
    (home / "bin" / "python").symlink_to(base)
    (home / "pyvenv.cfg").write_text(
        f"home = {base.parent}\ninclude-system-site-packages = false\n"
    )
    with tarfile.open(archive, "w:gz") as packed:
        for part in home.iterdir():
            packed.add(part, part.name)
