"""Each file in changes/ is a fragment that a release can join into CHANGELOG.md."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MOST_WORDS = 80


def _faults(name: str, text: str, kinds: set[str]) -> list[str]:
    parts = re.fullmatch(r"(\+[a-z0-9-]+|\d+)\.([a-z]+)\.md", name)
    faults = [] if parts and parts[2] in kinds else ["name"]
    is_text = text.strip().endswith(".") and len(text.split()) <= MOST_WORDS
    return faults if is_text else [*faults, "text"]


def test_fragments_have_kind_and_short_text() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    kinds = {kind["directory"] for kind in project["tool"]["towncrier"]["type"]}
    assert _faults("+x.fixed.md", "It works.", kinds) == []
    assert _faults("x.fixed.md", "a " * 90, kinds) == ["name", "text"]
    assert _faults("12.wrong.md", "It works.", kinds) == ["name"]
    folder = [path for path in (ROOT / "changes").iterdir() if path.name != "README.md"]
    faults = {path.name: _faults(path.name, path.read_text(), kinds) for path in folder}
    assert {name: each for name, each in faults.items() if each} == {}
