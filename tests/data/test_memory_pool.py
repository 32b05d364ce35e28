import os
import subprocess
import sys

import pyarrow as pa
import pytest

PROGRAM = """
import pyarrow as pa
from paimon_assets.engine.embedded import EmbeddedExecutor
EmbeddedExecutor()
print(pa.default_memory_pool().backend_name)
"""


@pytest.mark.parametrize(("chosen", "expected"), [(None, "jemalloc"), ("system", "system")])
def test_executor_prefers_jemalloc_unless_user_chose(chosen, expected):
    if expected not in pa.supported_memory_backends():
        pytest.skip(f"this pyarrow has no {expected}")
    environment = {k: v for k, v in os.environ.items() if k != "ARROW_DEFAULT_MEMORY_POOL"}
    if chosen is not None:
        environment["ARROW_DEFAULT_MEMORY_POOL"] = chosen
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == expected
