import subprocess
import sys
from pathlib import Path

import pytest

from tests.testkit.processes import end

ROOT = Path(__file__).resolve().parents[2]
STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("deaf", flush=True)
time.sleep(600)
"""
STARTED_IN_THE_BACKGROUND = """
import signal, subprocess, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
{restore}
signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))  # as Dagster does
from tests.testkit.processes import end
child = subprocess.Popen(["sleep", "600"], start_new_session=True)
end(child, seconds=1)
print(-child.returncode)
"""


def test_child_keeps_its_compiled_modules():
    program = "import sys; print(sys.dont_write_bytecode)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"


def test_child_that_does_not_end_is_killed():
    child = subprocess.Popen(
        [sys.executable, "-c", STUBBORN], start_new_session=True, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    with child.stdout:
        assert child.stdout.readline() == "deaf\n"
        end(child, seconds=0.1)
    assert child.returncode == -9


@pytest.mark.parametrize(
    ("restore", "ended_by"),
    [
        ("from tests.testkit.processes import restore_signals; restore_signals()", "15\n"),
        ("", "9\n"),
    ],
)
def test_children_end_where_sigint_was_ignored(restore, ended_by):
    program = STARTED_IN_THE_BACKGROUND.format(restore=restore)
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == ended_by
