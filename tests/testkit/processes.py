"""Children of tests: they start with default signals, compile nothing anew, end for certain."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

LONGEST_SECONDS = 300
"""No child of a healthy machine takes so long."""

JVM_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC"
"""Short lives repay neither the JVM's second compiler nor the threads of a collector.

The first compiler alone gets 48 MB for its code, which it then clears and fills again.
"""


WORKER_START = str(Path(__file__).with_name("worker_start"))
"""On a Python's path it makes Spark's workers quicker (`worker_start/sitecustomize.py`)."""


def restore_signals() -> None:
    """Let this process, and thereby its children, be interrupted and ended.

    A shell without job control lets what it starts in the background ignore SIGINT, and whoever is
    started inherits what is ignored. Dagster handles SIGTERM as SIGINT is handled, so that a child
    started after a run of Dagster's would ignore that as well.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    for number, handler in (
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGTERM, signal.SIG_DFL),
    ):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


def keep_bytecode() -> None:
    """Let this process and its children keep what they compile, whatever the environment says.

    Else each of some hundred children compiles the package again, and each worker every test.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False


def start_jvms_lightly() -> None:
    """Give `JVM_OPTIONS` to every Spark that this process or a child of it submits to."""
    for variable in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS"):
        os.environ.setdefault(variable, JVM_OPTIONS)


def start_workers_lightly() -> None:
    """Let the Python workers of every Spark below this process be forked with their imports."""
    inherited = os.environ.get("PYTHONPATH")
    places = [WORKER_START, *([inherited] if inherited else [])]
    os.environ["PYTHONPATH"] = os.pathsep.join(places)


def end(process: subprocess.Popen[Any], seconds: float = 20.0) -> None:
    """End a child that leads a session of its own, and all it started; kill what stays so long."""
    try:
        _signal(process, signal.SIGTERM)
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        _signal(process, signal.SIGKILL)
        process.wait()


def _signal(process: subprocess.Popen[Any], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)
