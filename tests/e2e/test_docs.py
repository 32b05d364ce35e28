"""Every page of docs/ runs from its first line to its last, as a reader would copy it.

Of a page's blocks, in their order, in one empty folder:

    ```python                  runs in the page's one namespace
    ```bash                    runs in a shell
    ```KIND title="a/file"     is written to the file
    anything else              is shown only: `console` installs, serves or needs a machine of yours

The names that a page assumes - a catalog, a table - are in `BEFORE`.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from paimon_assets.server.serve import ServeSettings
from tests.testkit.rest_server import serving

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))
_BLOCK = re.compile(
    r"^( *)```(\w+)(?: +title=\"([^\"]+)\")?\n(.*?)^ *```$", re.DOTALL | re.MULTILINE
)

_ASSETS = "import dagster as dg\nfrom paimon_assets.assets import *\n"
BEFORE = {"rest-client.md": f"{_ASSETS}import os\nfrom paimon_assets import open_catalog\n"}
FORKING_DAGSTER = ROOT / "tests" / "testkit" / "forking_dagster"
_ON_SPARK = {"spark.md", "sql/sql.md"}
"""Pages whose `get_session` is that of the tests."""
_SERVER = "https://catalog.example"
"""In a page: a server, which is ours."""

# Dagster 1.13 calls its own deprecated attribute when it sets up nested resources.
pytestmark = [
    pytest.mark.filterwarnings("ignore:InitResourceContext.dagster_run:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*is currently in beta"),
]


def blocks_of(page: str) -> list[tuple[str, str, str]]:
    """Return (language, title, text) of each block."""
    found = _BLOCK.findall((DOCS / page).read_text())
    return [
        (language, title, re.sub(rf"^{indent}", "", text, flags=re.MULTILINE))
        for indent, language, title, text in found
    ]


def runs(page: str) -> bool:
    return any(language in ("python", "bash") for language, _, _ in blocks_of(page))


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.spark] if page in _ON_SPARK else [])
        for page in PAGES
        if runs(page)
    ],
)
def test_docs_page_runs(page, tmp_path, monkeypatch, request):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    monkeypatch.setenv("TOKEN", "anything")
    names: dict[str, Any] = {}
    if page in _ON_SPARK:
        request.getfixturevalue("spark")
    exec(compile(BEFORE.get(page, ""), "BEFORE", "exec"), names)  # noqa: S102 - it is our own text
    with _server_of(page) as address:
        for number, (language, title, text) in enumerate(blocks_of(page), start=1):
            if title:
                Path(title).parent.mkdir(parents=True, exist_ok=True)
                Path(title).write_text(text)
            elif language == "python":
                code = compile(
                    text.replace(_SERVER, address), f"docs/{page}, block {number}", "exec"
                )
                exec(code, names)  # noqa: S102 - it is our own text
            elif language == "bash":
                _run_in_shell(text, tmp_path)


@contextmanager
def _server_of(page: str) -> Iterator[str]:
    """Serve an empty warehouse while a page runs that asks a server."""
    if _SERVER not in (DOCS / page).read_text():
        yield ""
        return
    Path("served").mkdir()
    with serving(ServeSettings(warehouse="served", insecure=True)) as client:
        yield f"http://127.0.0.1:{client.port}"


def _run_in_shell(text: str, folder: Path) -> None:
    places = [FORKING_DAGSTER, Path(sys.executable).parent, os.environ["PATH"]]
    path = os.pathsep.join(map(str, places))
    environment = os.environ | {"PATH": path, "DAGSTER_HOME": str(folder / "home")}
    (folder / "home").mkdir(exist_ok=True)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", PAGES)
def test_docs_links_exist(page):
    text = re.sub(r"```.*?```", "", (DOCS / page).read_text(), flags=re.DOTALL)
    targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text)
    missing = [
        target for target in targets
        if "://" not in target and not ((DOCS / page).parent / target).exists()
    ]  # fmt: skip
    assert missing == []
