"""The SparkSession of this process, from plain settings: local, on a cluster, or over Connect.

A session we start needs no prepared machine: Java is found (`spark.java`), workers run this
process's Python unless another is named, import this package, which a cluster is sent
(`preflight`), nothing is written into the working directory, and its log is silent but for errors.

With Connect no Java runs here, and there is no SparkContext. PySpark's client of it needs packages
of its own, so it is loaded when an address is asked for.
"""

import atexit
import contextlib
import importlib
import logging
import os
import shutil
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from subprocess import Popen, TimeoutExpired

from msgspec import field
from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # ships no types
from pyspark import SparkContext
from pyspark.errors import PySparkException, PySparkImportError, PySparkValueError
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from paimon_assets.engine.errors import InvalidInputError, PaimonError
from paimon_assets.engine.spec.values import Value
from paimon_assets.spark.arrow_batches import MOST_BATCH_BYTES
from paimon_assets.spark.data_source import register
from paimon_assets.spark.java import find_java

logger = logging.getLogger(__name__)

DEFAULT_DRIVER_MEMORY = "2g"
"""Heap of a session we start, unless the settings say otherwise."""

_PACKAGE = Path(__file__).parents[1]
_LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
_JVM_EXIT_SECONDS = 30
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_INTERPRETERS = ("spark.pyspark.python", "spark.executorEnv.PYSPARK_PYTHON")
"""Settings that name the workers' Python, the first wins; PYSPARK_PYTHON is the last."""
_PYTHON_MB_A_CORE = 1024
"""A Python worker was measured to hold 500 to 850 MB; each core has one."""
_JVM_OVERHEAD_MB = 384
"""Spark's own least."""
_CORES = "spark.executor.cores"
_OVERHEAD = "spark.executor.memoryOverhead"
_CONTAINER_MEMORY = (
    _OVERHEAD,
    "spark.executor.memoryOverheadFactor",
    "spark.executor.pyspark.memory",
)
_SHOWN = ("spark.master", "spark.driver.memory")
"""Settings whose values a message may show; other values may be secrets."""
ANSWER_SECONDS = 30
"""How long a server may take to answer. PySpark itself would try for ten minutes."""

_MODE = "SPARK_CONNECT_MODE_ENABLED"
"""PySpark sets this variable and knows Connect sessions only, while it is there."""
_SQL_DEFAULTS: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.execution.arrow.maxBytesPerBatch": MOST_BATCH_BYTES,
}
"""Settings of every session we start; each can be changed while it lives."""


class SparkSettings(Value):
    """The settings of a Spark session.

    >>> SparkSettings(master="local[2]", driver_memory="4g").is_local
    True
    """

    master: str = "local[*]"
    """A Spark master (`local[2]`, `spark://…`, `yarn`), or `sc://…` for Spark Connect."""
    app_name: str = "paimon-assets"
    driver_memory: str | None = None
    """Heap of the driver, which is all of Spark on a local master; None asks for nothing special.

    A Connect server has its own.
    """
    extra: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_connect(self) -> bool:
        """Whether the session talks to a Spark Connect server; no Java runs here then."""
        return self.master.startswith("sc://")

    @property
    def is_local(self) -> bool:
        """Whether Spark runs inside this machine, sharing its disk and its Python."""
        return self.master == "local" or self.master.startswith("local[")

    @property
    def shown_master(self) -> str:
        """The master for messages: parameters of a Connect address may hold a token."""
        return mask(self.master)

    def requested_settings(self) -> dict[str, str]:
        wanted = {"spark.master": self.master, **self.extra}
        if self.driver_memory is not None:
            wanted["spark.driver.memory"] = self.driver_memory
        return wanted

    def configuration(self, *, warehouse: str) -> dict[str, str]:
        """Return the whole configuration of a session to start; `extra` wins over defaults."""
        configuration = {
            **_SQL_DEFAULTS,
            "spark.app.name": self.app_name,
            "spark.driver.memory": DEFAULT_DRIVER_MEMORY,
            "spark.sql.warehouse.dir": warehouse,
            "spark.ui.enabled": "false" if self.is_local else "true",
            "spark.ui.showConsoleProgress": "false",
        }
        if self.is_local:
            # The loopback address needs neither a network nor a resolvable host name.
            configuration["spark.driver.bindAddress"] = "127.0.0.1"
            configuration["spark.driver.host"] = "127.0.0.1"
            configuration["spark.sql.shuffle.partitions"] = str(2 * (os.cpu_count() or 1))
        is_container = self.master == "yarn" or self.master.startswith("k8s://")
        if is_container and self.extra.keys().isdisjoint(_CONTAINER_MEMORY):
            cores = self.extra.get(_CORES, "1")
            python_mb = _PYTHON_MB_A_CORE * (int(cores) if cores.isdigit() else 1)
            configuration[_OVERHEAD] = f"{_JVM_OVERHEAD_MB + python_mb}m"
        configuration |= self.requested_settings()
        log_option = f'"-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()}"'
        configuration[_JAVA_OPTIONS] = f"{log_option} {self.extra.get(_JAVA_OPTIONS, '')}".strip()
        return configuration


class Connection(Value):
    """A session, and how this process came to it."""

    address: str
    session: SparkSession
    is_ours: bool
    """Whether we started the session, and may stop it."""

    def is_alive(self) -> bool:
        """Whether the server still knows the session: it forgets idle ones, and all in a restart.

        One that it has forgotten is closed on this side too.
        """
        _wait_for_answer(self.address)
        try:
            self.session.conf.get("spark.sql.session.timeZone")
        except PySparkException as error:
            logger.warning("the Spark Connect session ended: %s", str(error).partition("\n")[0])
            self.session.stop()
            return False
        return True

    def close(self) -> None:
        """End the session if it is ours; then another kind of session can be started."""
        if self.is_ours:
            self.session.stop()
            os.environ.pop(_MODE, None)


def open_connection(address: str) -> Connection:
    """Return a session on a server, that of this process if there is one."""
    if SparkContext._active_spark_context is not None:  # noqa: SLF001 - starts none
        raise InvalidInputError(
            f"{mask(address)} is asked for, but this process runs Spark itself, and PySpark "
            "can have one kind of session in a process. Stop that session first, or use another "
            "process.",
            kind="spark-session-settings",
        )
    _wait_for_answer(address)
    remote = importlib.import_module("pyspark.sql.connect.session").SparkSession
    before = remote.getActiveSession()
    session = SparkSession.builder.remote(address).getOrCreate()
    return Connection(address=address, session=session, is_ours=session is not before)


def refuse_other_kind(master: str) -> None:
    """Refuse to run Spark in a process with a Connect session: PySpark cannot."""
    if is_remote():
        raise InvalidInputError(
            f"Master {master} is asked for, but this process has a Spark Connect session, and "
            "PySpark can have one kind of session in a process. Stop it first (stop_session), or "
            "use another process.",
            kind="spark-session-settings",
        )


def mask(address: str) -> str:
    """Return an address for messages: its parameters may hold a token."""
    return address.partition(";")[0]


def _wait_for_answer(address: str) -> None:
    try:
        client = importlib.import_module("pyspark.sql.connect.client")
        channel = client.DefaultChannelBuilder(address).toChannel()
    except PySparkImportError as error:
        raise InvalidInputError(
            f"Spark Connect ({mask(address)}) needs more packages: "
            f"pip install 'paimon-assets[connect]'. {error}",
            kind="spark-connect",
        ) from error
    except PySparkValueError:
        # PySpark's error, which is not shown, repeats the parameters.
        raise InvalidInputError(
            f"'{mask(address)}' with its parameters is no address of Spark Connect; "
            "expected sc://host:port/;name=value;…",
            kind="spark-connect",
        ) from None
    grpc = importlib.import_module("grpc")
    try:
        grpc.channel_ready_future(channel).result(timeout=ANSWER_SECONDS)
    except grpc.FutureTimeoutError as error:
        raise InvalidInputError(
            f"No Spark Connect server answers at {mask(address)} within {ANSWER_SECONDS} s: "
            "start it, or check host, port, use_ssl and token.",
            kind="spark-connect",
        ) from error
    finally:
        channel.close()


class _Owned:
    """The resources this process started and must clean up."""

    lock = threading.RLock()
    session: SparkSession | None = None
    """The session we started; None if there is none, or a foreign one lives."""
    process_id: int | None = None
    """Process that started it: a forked child must not stop its parent's."""
    connection: Connection | None = None
    warehouse: Path | None = None


def get_session(settings: SparkSettings | None = None) -> SparkSession:
    """Return the live session if it has the settings of `settings`, else start one.

    >>> spark = get_session(SparkSettings(master="local[2]"))            # doctest: +SKIP

    A foreign session is used too, if its master and every setting named in `extra`
    agree; settings that can change while a session lives are changed.

    Raises:
        InvalidInputError: A live session differs in settings fixed at its start (kind
            `spark-session-settings`, each is named), no usable Java (see `find_java`), or packages
            for Spark Connect are missing.

    Cost:
        Nothing for a live session, some seconds for a new one.
    """
    wanted = settings or SparkSettings()
    with _Owned.lock:
        if wanted.is_connect:
            return _connect(wanted)
        jvm = _jvm()
        if _Owned.session is not None and jvm is not None and jvm.poll() is not None:
            logger.warning("the JVM of the Spark session ended; starting another")
            stop_session()
        if _live_context() is None:
            refuse_other_kind(wanted.shown_master)
            return _start(wanted)
        session = SparkSession.builder.getOrCreate()
        _agree(session, wanted.requested_settings(), session.sparkContext.getConf().get)
        return session


def stop_session() -> None:
    """Stop the session this module started, with its JVM; leave anybody else's alone."""
    with _Owned.lock:
        if _Owned.connection is not None:
            _Owned.connection.close()
            _Owned.connection = None
        session, _Owned.session = _Owned.session, None
        if session is None or _Owned.process_id != os.getpid():
            return
        if session.sparkContext is _live_context():
            try:
                session.stop()
            except (Py4JError, OSError) as error:
                logger.debug("Spark did not stop in order: %s", error)
            _end_jvm()
        if _Owned.warehouse is not None:
            shutil.rmtree(_Owned.warehouse, ignore_errors=True)


atexit.register(stop_session)


def _start(settings: SparkSettings) -> SparkSession:
    _Owned.warehouse = Path(tempfile.mkdtemp(prefix="paimon-assets-spark-"))
    configuration = settings.configuration(warehouse=str(_Owned.warehouse))
    logger.debug("starting Spark on %s", settings.shown_master)
    builder = SparkSession.builder
    for key, value in configuration.items():
        builder = builder.config(key, value)
    with _environment(_launch_variables(configuration)):
        session = builder.getOrCreate()
    _Owned.session, _Owned.process_id = session, os.getpid()
    _register(session)
    return session


def _register(session: SparkSession) -> None:
    """Register our format; stop a session whose workers cannot work, so that it can be fixed."""
    try:
        register(session)
    except PaimonError:
        stop_session()
        raise


def _connect(settings: SparkSettings) -> SparkSession:
    owned = _Owned.connection
    if owned is not None and owned.address != settings.master:
        raise InvalidInputError(
            f"A Spark Connect session to {mask(owned.address)} is open, and "
            f"{settings.shown_master} is asked for (parameters are not shown); stop it first "
            "(stop_session).",
            kind="spark-session-settings",
        )
    if owned is None or not owned.is_alive():
        owned = open_connection(settings.master)
        for key, value in _SQL_DEFAULTS.items():
            owned.session.conf.set(key, value)
        _Owned.connection = owned
        _register(owned.session)
    session = owned.session
    _agree(session, settings.extra, lambda key: session.conf.get(key, None))
    return session


def _launch_variables(configuration: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables of the JVM, from which its workers inherit."""
    interpreters = [*map(configuration.get, _INTERPRETERS), os.environ.get("PYSPARK_PYTHON")]
    variables = {
        "JAVA_HOME": str(find_java()),
        "PYSPARK_PYTHON": next(filter(None, interpreters), sys.executable),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    root = _PACKAGE.parent
    installed = {Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib")}
    if root.resolve() not in installed:
        # Run from a checkout: this process may know it by sys.path alone, workers would not.
        inherited = os.environ.get("PYTHONPATH")
        variables["PYTHONPATH"] = os.pathsep.join([str(root), *([inherited] if inherited else [])])
    return variables


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for the launch only."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _agree(
    session: SparkSession, asked: Mapping[str, str], live: Callable[[str], str | None]
) -> None:
    """Apply the settings that can change in a live session, and refuse the rest."""
    conflicts = []
    for key, value in asked.items():
        if session.conf.isModifiable(key):
            session.conf.set(key, value)
            continue
        have = live(key)
        same = have == value or (key == _JAVA_OPTIONS and have is not None and value in have)
        if not same:
            values = f" is {have or 'unset'}, asked for {value}" if key in _SHOWN else ""
            conflicts.append(f"{key}{values}")
    if conflicts:
        message = (
            "The Spark session of this process is already running with other settings: "
            + "; ".join(conflicts)
            + ". Ask for the same, stop the session first, or use another process."
        )
        raise InvalidInputError(message, kind="spark-session-settings", conflicts=len(conflicts))


def _live_context() -> SparkContext | None:
    context: SparkContext | None = SparkContext._active_spark_context  # noqa: SLF001 - starts none
    return context


def _jvm() -> "Popen[bytes] | None":
    """Return the process of the JVM, as far as Python started it."""
    gateway = SparkContext._gateway  # noqa: SLF001 - Spark has no call for it
    process: Popen[bytes] | None = getattr(gateway, "proc", None)
    return process


def _end_jvm() -> None:
    """End the JVM, so that its memory is free and the next session may size another."""
    gateway, process = SparkContext._gateway, _jvm()  # noqa: SLF001 - stop() keeps the JVM
    if gateway is None:
        return
    gateway.shutdown()
    if process is not None:
        if process.stdin is not None:
            process.stdin.close()
        try:
            process.wait(_JVM_EXIT_SECONDS)
        except TimeoutExpired:
            process.kill()
            process.wait()
    # As an orderly stop does; after a JVM was killed it stays.
    SparkContext._active_spark_context = None  # noqa: SLF001
    SparkContext._gateway = None  # noqa: SLF001
    SparkContext._jvm = None  # noqa: SLF001
    SparkSession._instantiatedSession = None  # noqa: SLF001
