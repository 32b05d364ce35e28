"""The reference pages have every public name, and the site every page."""

import re
from pathlib import Path

import pytest

import paimon_assets
import paimon_assets.assets
import paimon_assets.cdc
import paimon_assets.erasure
import paimon_assets.review

DOCS = Path(__file__).resolve().parents[2] / "docs"


def words_of(page: str) -> set[str]:
    return set(re.findall(r"\w+", (DOCS / page).read_text(encoding="utf-8")))


def test_reference_has_every_public_name() -> None:
    words = words_of("reference/python.md") | words_of("errors.md")
    assert sorted({*paimon_assets.__all__, *paimon_assets.erasure.__all__} - words) == []
    words = words_of("reference/dagster.md")
    assert sorted({*paimon_assets.assets.__all__, *paimon_assets.cdc.__all__} - words) == []
    assert sorted({*paimon_assets.review.__all__} - words - words_of("reference/python.md")) == []


def test_site_has_every_page() -> None:
    named = re.findall(r": (\S+\.md)$", (DOCS.parent / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(named) == sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))


def test_reference_shows_fields_and_examples() -> None:
    griffe = pytest.importorskip("griffe")
    extension = str(DOCS.parent / "scripts" / "field_docs.py")
    loader = griffe.GriffeLoader(extensions=griffe.load_extensions(extension))
    package = loader.load("paimon_assets.assets", submodules=True)
    resource = package["resource.PaimonCatalogResource"]
    assert "\n```pycon\n>>> paimon = PaimonCatalogResource(" in resource.docstring.value
    assert resource.docstring.value.endswith("\n```")
    field = resource["executor"]
    assert field.value == "'auto'"
    assert field.docstring.value.startswith("Executor of rows")
    assert package["jobs.maintenance.MaintenanceConfig.delete_orphans"].docstring is not None
