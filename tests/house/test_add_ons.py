"""Add-ons lie on top: the core names them in one table, and nowhere else."""

import re
from pathlib import Path

import pytest

from paimon_assets.engine.add_ons import ADD_ONS
from paimon_assets.engine.control import listeners
from paimon_assets.engine.spec.schema import add_on_rules

ROOT = Path(__file__).resolve().parents[2] / "paimon_assets"
NAMES = ("cdc", "columns", "components", "erasure", "iceberg", "review", "server")
TABLE = ROOT / "engine" / "add_ons.py"
IN_TEXT = {"assets/files/ingestion.py", "engine/table/table.py"}
"""Docstrings that point to another source, and to the class that a method returns."""


def core_modules() -> list[Path]:
    """Return the modules of the core."""
    return [
        path
        for path in sorted(ROOT.rglob("*.py"))
        if path.relative_to(ROOT).parts[0] not in NAMES and path != TABLE
    ]


def test_core_names_no_add_on() -> None:
    named = re.compile(rf"paimon_assets[./]({'|'.join(NAMES)})\b")
    found = {
        str(path.relative_to(ROOT)) for path in core_modules() if named.search(path.read_text())
    }
    assert found == IN_TEXT
    assert named.search(TABLE.read_text())


@pytest.mark.parametrize("add_on", ADD_ONS, ids=lambda add_on: add_on.package)
def test_add_on_has_hooks_of_engine(add_on) -> None:
    for module, protocol in (
        ("listener", listeners.CommitListener),
        ("rules", add_on_rules.SchemaRules),
    ):
        needed = {name for name in vars(protocol) if not name.startswith("_")}
        assert needed
        assert needed <= set(dir(add_on.load(module)))
