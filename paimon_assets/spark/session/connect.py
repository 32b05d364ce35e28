"""A session on a Spark Connect server: no Java runs here, and there is no SparkContext.

PySpark's client of Connect needs packages of its own, so it is loaded when an address is asked for.
"""

import importlib
import logging
import os
from dataclasses import dataclass

from pyspark import SparkContext
from pyspark.errors import PySparkException, PySparkImportError, PySparkValueError
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from paimon_assets.engine.errors import InvalidInputError

logger = logging.getLogger(__name__)

ANSWER_SECONDS = 30
"""How long a server may take to answer. PySpark itself would try for ten minutes."""

_MODE = "SPARK_CONNECT_MODE_ENABLED"
"""PySpark sets this variable and knows Connect sessions only, while it is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """A session, and how this process came to it."""

    address: str
    session: SparkSession
    is_ours: bool
    """Somebody else's session is not ours to stop."""

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
            f"{shown(address)} is asked for, but this process runs Spark itself, and PySpark can "
            "have one kind of session in a process. Stop that session first, or use another "
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


def shown(address: str) -> str:
    """Return an address for messages: its parameters may hold a token."""
    return address.partition(";")[0]


def _wait_for_answer(address: str) -> None:
    try:
        client = importlib.import_module("pyspark.sql.connect.client")
        channel = client.DefaultChannelBuilder(address).toChannel()
    except PySparkImportError as error:
        raise InvalidInputError(
            f"Spark Connect ({shown(address)}) needs more packages: "
            f"pip install 'paimon-assets[connect]'. {error}",
            kind="spark-connect",
        ) from error
    except PySparkValueError:
        # PySpark's error, which is not shown, repeats the parameters.
        raise InvalidInputError(
            f"'{shown(address)}' with its parameters is no address of Spark Connect; expected "
            "sc://host:port/;name=value;…",
            kind="spark-connect",
        ) from None
    grpc = importlib.import_module("grpc")
    try:
        grpc.channel_ready_future(channel).result(timeout=ANSWER_SECONDS)
    except grpc.FutureTimeoutError as error:
        raise InvalidInputError(
            f"No Spark Connect server answers at {shown(address)} within {ANSWER_SECONDS} s: "
            "start it, or check host, port, use_ssl and token.",
            kind="spark-connect",
        ) from error
    finally:
        channel.close()
