"""Children of tests: they start with default signals, compile nothing again, end for certain."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
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

    A shell without job control lets its background processes ignore SIGINT, and their children
    inherit that. Dagster handles SIGTERM as SIGINT is handled, so that a child
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
    """Let this process and its children keep compiled modules, whatever the environment has.

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
    """End a child that leads a session of its own, with its children; kill those that stay."""
    try:
        _signal(process, signal.SIGTERM)
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        _signal(process, signal.SIGKILL)
        process.wait()


def _signal(process: subprocess.Popen[Any], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def keep_migrations() -> None:
    """Let Alembic keep its reading of a directory of migrations; none changes while tests run.

    It loads forty modules for each SQLite file of a run's events: a tenth of a second of a core.
    """
    try:
        from alembic.script import ScriptDirectory
    except ImportError:
        return
    read, kept = ScriptDirectory.from_config, dict[str | None, ScriptDirectory]()
    if read.__name__ != "from_config":
        return

    def from_kept(config: Any) -> ScriptDirectory:
        place = config.get_alembic_option("script_location")
        if place not in kept:
            kept[place] = read(config)
        return kept[place]

    ScriptDirectory.from_config = from_kept  # type: ignore[method-assign]


def read_migrations() -> None:
    """Read those of Dagster's databases, for processes that are forked later."""
    import dagster as dg

    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as home:
        warnings.simplefilter("ignore")
        dg.DagsterInstance.local_temp(home).dispose()


@contextlib.contextmanager
def running(
    command: Sequence[str], home: Path, environment: Mapping[str, str], is_up: re.Pattern[str]
) -> Iterator[re.Match[str]]:
    """Run a process while the block runs, from the line of its log that shows it is up."""
    process = subprocess.Popen(
        command,
        cwd=home,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    log, read = iter(process.stderr or ()), list[str]()
    # A full pipe would stop the process.
    emptied = threading.Thread(target=deque, args=(log, 0), daemon=True)
    try:
        started = None
        while started is None:
            read.append(next(log, ""))
            if not read[-1]:
                raise RuntimeError(f"{command[0]} did not start: {''.join(read)[-2000:]}")
            started = is_up.search(read[-1])
        emptied.start()
        yield started
    finally:
        end(process)
        if emptied.is_alive():
            emptied.join()
        if process.stderr is not None:
            process.stderr.close()


def answer_of(module: str, *arguments: str) -> Any:
    """Run a module of the tests in a child, and return the JSON of its last line."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        check=False,
        timeout=LONGEST_SECONDS,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])
