"""Where the demo lives: `.demo` under the checkout (or `PAIMON_DEMO_HOME`), and nothing outside it.

.demo/landing        the files that "arrive": changes of flights, weather
.demo/warehouse      the Paimon tables
.demo/dagster_home   Dagster's runs and events; `make dev` shows them
.demo/server.log     of `--rest`, beside principals.toml
.demo/s3             all of this again, of `--s3`
"""

import os
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DEMO = Path(os.environ.get("PAIMON_DEMO_HOME") or ROOT / ".demo").absolute()
LANDING = DEMO / "landing"
STORE = os.environ.get("PAIMON_DEMO_STORE")
"""Folder of an object store to which all of `LANDING` is uploaded, if tables are to read it there.
"""
DAGSTER_HOME = DEMO / "dagster_home"
SAMPLE_DAGSTER_YAML = ROOT / "resources" / "dagster.yaml"


def prepare_dagster_home() -> Path:
    """Create the demo's DAGSTER_HOME where it is missing, point this process at it, return it."""
    DAGSTER_HOME.mkdir(parents=True, exist_ok=True)
    settings = DAGSTER_HOME / "dagster.yaml"
    if not settings.exists():
        shutil.copyfile(SAMPLE_DAGSTER_YAML, settings)
    os.environ["DAGSTER_HOME"] = str(DAGSTER_HOME)
    return DAGSTER_HOME


if __name__ == "__main__":
    prepare_dagster_home()
