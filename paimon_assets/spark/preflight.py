"""Once per session: missing packages of workers are one error, and this package is sent to them.

    first job ─▶ a task a core asks: which Python, which paimon_assets, is the storage seen?
                   none, or another one ─▶ a zip of ours is sent, and they are asked again

Local masters are asked only if their workers run another Python than this process, as in a session
that a user makes without PYSPARK_PYTHON: Spark then takes the first `python3`. The zip is sent to
all workers, those that come later too. A cluster that has this very package keeps its own.

Modules that this process has compiled are sent, too, because a worker would compile some hundred
each time it starts: loading them takes half as long. They serve Pythons of this minor version, as
Spark demands of workers anyway; other versions would read the sources.
"""

import atexit
import base64
import json
import logging
import re
import shutil
import sys
import tempfile
import threading
import zipfile
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.util import MAGIC_NUMBER, cache_from_source
from pathlib import Path
from typing import Any, ClassVar

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # ships no types
from pyspark.cloudpickle import register_pickle_by_value
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

from paimon_assets.engine.contract.wire import dump
from paimon_assets.engine.errors import InvalidInputError, PaimonError
from paimon_assets.engine.fileio.base import FileIOSpec
from paimon_assets.engine.fileio.opening import open_file_io
from paimon_assets.spark import worker_probe
from paimon_assets.spark.failure import typed_errors
from paimon_assets.spark.job_names import is_connect, named_jobs

logger = logging.getLogger(__name__)

WORKER_KIND = "spark-worker"

_MOST_TASKS = 64
_TASKS_OVER_CONNECT = 8
_NO_PROGRAM = re.compile(r'Cannot run program "([^"]+)"')
_OTHER_VERSION = re.compile(
    r"PYTHON_VERSION_MISMATCH\] Python in worker has different version: (\S+) than that in driver: "
    r"(\d+\.\d+)"
)
_NO_MODULE = re.compile(r"No module named '?([\w.]+)")
_WAYS_OUT = (
    "Give all workers one environment, by spark.archives and PYSPARK_PYTHON or by their image: "
    "docs/spark.md shows how."
)
_PACKAGE = Path(worker_probe.__file__).parents[1]
_UNCHECKED = (1).to_bytes(4, "little")
"""Flags of compiled code that is not compared with its source: times in a zip know no zone."""
_HASH = bytes(8)


@cache
def package_digest() -> str:
    return worker_probe.digest_of(_PACKAGE)


def package_archive(directory: Path) -> Path:
    """Write this package as a zip for `sys.path`, with its compiled modules; return the path."""
    archive = directory / worker_probe.ARCHIVE.format(digest=package_digest())
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as package:
        for source in sorted(_PACKAGE.rglob("*")):
            if source.is_file() and "__pycache__" not in source.parts:
                name = source.relative_to(_PACKAGE.parent)
                package.write(source, name)
                compiled = _compile(source) if source.suffix == ".py" else None
                if compiled is not None:
                    package.writestr(f"{name.with_suffix('.pyc').as_posix()}", compiled)
    return archive


def _compile(source: Path) -> bytes | None:
    """Return the compiled code of a source as this Python keeps it; None if that is not there."""
    try:
        content = Path(cache_from_source(str(source))).read_bytes()
    except (OSError, NotImplementedError):
        return None
    state = source.stat()
    seen = (int(state.st_mtime) & 0xFFFFFFFF, state.st_size & 0xFFFFFFFF)
    made_of = b"".join(number.to_bytes(4, "little") for number in seen)
    if content[:16] != MAGIC_NUMBER + bytes(4) + made_of:
        return None
    return MAGIC_NUMBER + _UNCHECKED + _HASH + content[16:]


register_pickle_by_value(worker_probe)  # type: ignore[no-untyped-call]  # PySpark's


class _Known:
    """The checked sessions of this process."""

    lock = threading.Lock()
    ready: ClassVar[set[str]] = set()
    """Sessions whose workers have this package."""
    seen: ClassVar[set[tuple[str, str]]] = set()
    """(session, scheme) of storages that they see."""


def check_workers(
    session: SparkSession, file_io: FileIOSpec | None = None, path: str | None = None
) -> None:
    """Check a session's workers once, by a job or two, and send them this package if needed."""
    if is_connect(session):
        remote: Any = session
        name = str(remote.session_id)
    else:
        master, name = str(session.sparkContext.master), str(session.sparkContext.applicationId)
        is_local = master == "local" or master.startswith("local[")
        if is_local and _is_this_python(str(session.sparkContext.pythonExec)):
            return
    scheme = None if file_io is None or path is None else file_io.scheme
    with _Known.lock:
        if name in _Known.ready and (scheme is None or (name, scheme) in _Known.seen):
            return
        look = storage_look(file_io, path) if file_io and path else ""
        answers = _ask(session, look)
        if any(answer["package"] != "same" for answer in answers):
            places = {str(answer["place"]) for answer in answers if answer["package"] == "other"}
            have = f"another one in {', '.join(sorted(places))}" if places else "none"
            logger.info("Spark's workers are sent paimon_assets: they have %s", have)
            _send_package(session)
            answers = _ask(session, look)
        _refuse(answers)
        _Known.ready.add(name)
        if scheme is not None:
            _Known.seen.add((name, scheme))


def _is_this_python(program: str) -> bool:
    """Whether a program is in the environment of this process; links lead out of it."""
    place = shutil.which(program)
    return place is not None and Path(place).parent.samefile(Path(sys.executable).parent)


def _ask(session: SparkSession, look: str) -> list[dict[str, Any]]:
    """Return an answer of each task; several may be of one process."""
    if is_connect(session):
        tasks = _TASKS_OVER_CONNECT
    else:
        tasks = max(2, min(session.sparkContext.defaultParallelism, _MOST_TASKS))
    # Rows one by one: neither pyarrow nor pandas is needed.
    ask: Any = udf(worker_probe.probing(package_digest(), look), useArrow=False)
    try:
        with typed_errors(), named_jobs(session, "check workers"):
            rows = session.range(0, tasks, 1, tasks).select(ask("id")).collect()
    except (PySparkException, Py4JError) as failure:
        raise _typed_error(failure) or failure from failure
    return [json.loads(row[0]) for row in rows]


def _typed_error(failure: Exception) -> InvalidInputError | None:
    """Return the typed error of a failed first job; None if workers have the right Python."""
    text = str(failure)
    if (program := _NO_PROGRAM.search(text)) is not None:
        reason = (
            f"have no Python '{program.group(1)}'. That is the interpreter of this process unless "
            "PYSPARK_PYTHON, spark.pyspark.python or spark.executorEnv.PYSPARK_PYTHON names theirs"
        )
    elif (versions := _OTHER_VERSION.search(text)) is not None:
        reason = (
            f"run Python {versions.group(1)}, and this process {versions.group(2)}: both must be "
            "of one minor version"
        )
    elif (module := _NO_MODULE.search(text)) is not None:
        reason = f"have a Python that does not start Spark's worker: it lacks '{module.group(1)}'"
    else:
        return None
    return InvalidInputError(f"Spark's workers {reason}. {_WAYS_OUT}", kind=WORKER_KIND)


def _refuse(answers: Sequence[Mapping[str, Any]]) -> None:
    """Raise one error for everything that all workers lack."""
    lacking: dict[str, set[str]] = {}
    for answer in answers:
        reasons = []
        if answer["package"] != "same":
            place = answer["place"] or "nowhere"
            reasons.append(f"loads paimon_assets from {place}, not as it was sent")
        if answer["broken"] is not None:
            reasons.append(f"lacks a package of paimon_assets: {answer['broken']}")
        if answer["unseen"] is not None:
            reasons.append(
                f"does not see the table's storage: {answer['unseen']}. A warehouse must be on "
                "storage that all workers reach"
            )
        for reason in reasons:
            where = f"{answer['host']} ({answer['interpreter']}, Python {answer['python']})"
            lacking.setdefault(reason, set()).add(where)
    if lacking:
        texts = [f"{', '.join(sorted(hosts))} {reason}" for reason, hosts in lacking.items()]
        raise InvalidInputError(
            f"Spark's workers cannot do the work: {'; '.join(texts)}. {_WAYS_OUT}",
            kind=WORKER_KIND,
            workers=len({host for hosts in lacking.values() for host in hosts}),
        )


def _send_package(session: SparkSession) -> None:
    # Spark fetches it whenever a new executor starts: it must stay where it is.
    directory = Path(tempfile.mkdtemp(prefix="paimon-assets-package-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    archive = str(package_archive(directory))
    if is_connect(session):
        session.addArtifacts(archive, pyfile=True)
    else:
        session.sparkContext.addPyFile(archive)


def storage_look(spec: FileIOSpec, path: str) -> str:
    """Return the path that `worker.unseen` looks up; empty if the driver does not see it either."""
    try:
        is_seen = open_file_io(spec).exists(path)
    except PaimonError:
        return ""  # the work itself will say why
    return json.dumps([base64.b64encode(dump(spec)).decode(), path]) if is_seen else ""
