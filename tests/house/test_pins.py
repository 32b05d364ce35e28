"""The pinned packages serve every Python that the project declares."""

import tomllib
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]


def _required_python(package: str) -> str | None:
    try:
        return metadata(package)["Requires-Python"]
    except PackageNotFoundError:  # one of other platforms
        return None


def test_pins_serve_oldest_python() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    oldest = project["requires-python"].removeprefix(">=") + ".0"
    pins = (ROOT / "requirements/constraints.txt").read_text(encoding="utf-8").splitlines()
    packages = [pin.partition("==")[0] for pin in pins if "==" in pin]
    asked = {name: required for name in packages if (required := _required_python(name))}
    assert len(asked) > 100
    refusing = {
        name: required for name, required in asked.items() if oldest not in SpecifierSet(required)
    }
    assert refusing == {}


def _pins(file: str) -> dict[str, str]:
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    pins = (line.split(" ")[0].partition("==") for line in lines if "==" in line)
    return {canonicalize_name(name): version for name, _, version in pins}


def test_hashes_are_those_of_pins() -> None:
    assert "://" not in (ROOT / "requirements/hashes.txt").read_text(encoding="utf-8")
    pinned, hashed = _pins("requirements/constraints.txt"), _pins("requirements/hashes.txt")
    differing = {
        name for name, version in hashed.items() if pinned.get(name) not in (None, version)
    }
    assert differing == set()
    built = {"pip", "setuptools", "wheel"}
    here = {name for name in pinned if _required_python(name) is not None}
    assert here - hashed.keys() <= built
