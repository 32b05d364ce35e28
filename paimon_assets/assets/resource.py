"""The two resources: which warehouse, and which Spark.

Every field takes `dg.EnvVar`. Give secrets that way and no other: the UI then shows the variable's
name only, and Launchpad runs keep working. `repr` shows neither option values nor Spark settings.
pyspark is loaded by name, when a session is first asked for; without it the embedded executor
works.
"""

import os
import shlex
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Self, get_args

import dagster as dg
import pyarrow as pa
from pydantic import Field, PrivateAttr

from paimon_assets.assets.failures import refuse_unknown
from paimon_assets.engine.contract.executor import CountingExecutor
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.errors import InvalidInputError, NotFoundError, without_secrets
from paimon_assets.engine.executors import kind_for, new_executor, spark_module
from paimon_assets.engine.spec.options import catalog_options as opt
from paimon_assets.engine.spec.paths import branch_name
from paimon_assets.engine.table.api import TableCatalog, open_catalog
from paimon_assets.engine.table.read.read_builder import Plan, ReadBuilder
from paimon_assets.engine.table.segments.segments import Segments
from paimon_assets.engine.table.table import Table

ExecutorKind = Literal["spark", "embedded", "auto"]
"""The executor of rows: Spark, this process, or Spark for its own frames and large inputs only."""

BRANCH_VARIABLE = "PAIMON_BRANCH"
"""Names the branch where Dagster+ does not."""
_PLUS = "DAGSTER_CLOUD_IS_BRANCH_DEPLOYMENT"
_PLUS_NAMES = ("DAGSTER_CLOUD_GIT_BRANCH", "DAGSTER_CLOUD_DEPLOYMENT_NAME")


def executor_kind(text: str) -> str:
    kinds = get_args(ExecutorKind)
    if text not in kinds:
        message = f"The executor '{text}' is unknown; expected one of {', '.join(kinds)}."
        raise InvalidInputError(message, kind="executor")
    return text


def branch_of_environment(environment: Mapping[str, str] = os.environ) -> str:
    """Return the branch that `PAIMON_BRANCH` names, or else a branch deployment of Dagster+."""
    names = [BRANCH_VARIABLE, *(_PLUS_NAMES if environment.get(_PLUS) == "1" else ())]
    return branch_name(next((environment[name] for name in names if environment.get(name)), ""))


class PaimonSparkResource(dg.ConfigurableResource):  # type: ignore[type-arg]  # because it provides itself
    """The Spark session of this process, started at first use.

    >>> spark = PaimonSparkResource(master="local[2]", driver_memory="4g")

    Has the two properties of dagster-pyspark's `LazyPySparkResource`, so that functions written for
    it run unchanged, and becomes one (`as_dagster_pyspark`). Beyond it: environment variables
    resolve in every field, Java is found, a live session with other fixed settings is refused
    instead of silently kept, and a session that this resource started ends with the step process.
    """

    master: str = Field(
        default="local[*]",
        description="Spark master such as local[*] or spark://host:7077, or sc://host for Connect.",
    )
    app_name: str = Field(default="paimon-assets", description="Name shown by Spark.")
    driver_memory: str = Field(
        default="", description="Heap of the driver, such as 4g; empty for the default (2g)."
    )
    extra: dict[str, str] = Field(
        default={}, description="Further Spark settings, key to value. Secrets by EnvVar only."
    )
    _session: Any = PrivateAttr(default=None)
    _run: tuple[str, Any] | None = PrivateAttr(default=None)
    """Name of the run's jobs, and its log."""
    _jobs: Any = PrivateAttr(default=None)

    def __init__(self, **data: Any) -> None:
        refuse_unknown_fields(type(self), data)
        super().__init__(**data)

    @classmethod
    def from_env(cls, **fields: Any) -> Self:
        """Return the Spark that environment variables describe.

        `SPARK_MASTER` names a cluster (`spark://host:7077`, `yarn`, `k8s://…`, `sc://…`),
        `SPARK_DRIVER_MEMORY` the heap of the driver, `SPARK_SETTINGS` all else: words of a shell,
        `spark.executor.memory=4g …`. A value `$NAME` stays the name of a variable, which the UI
        shows in place of it: give secrets so.

        `fields` take precedence over the environment.

        Raises:
            InvalidInputError: A word of `SPARK_SETTINGS` is no `key=value` of Spark's.
        """
        variables = {"master": "SPARK_MASTER", "driver_memory": "SPARK_DRIVER_MEMORY"}
        found: dict[str, Any] = {
            name: os.environ[variable]
            for name, variable in variables.items()
            if os.environ.get(variable)
        }
        found["extra"] = parse_settings(os.environ.get("SPARK_SETTINGS", ""))
        return cls(**{**found, **fields})

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        """Remember the run, for the names of Spark's jobs."""
        if context.run is not None and context.log is not None:
            job = context.run.job_name
            run = f"Dagster run {context.run.run_id[:8]}"
            # Selected assets run as a job of Dagster's own.
            self._run = (run if job.startswith("__") else f"{job}, {run}", context.log)

    @property
    def run_log(self) -> Callable[[str], None] | None:
        """Writes a line to the log of the run, None outside of one."""
        return None if self._run is None else self._run[1].info

    def session(self) -> Any:
        """Return the SparkSession, starting it if there is none.

        In a run the jobs of the calling thread carry its name, and the run's log has the address of
        Spark's pages and the progress of long jobs.

        Raises:
            InvalidInputError: pyspark is not installed, Java is missing or too old, or a live
                session differs in settings that are fixed at its start; lists them.

        Cost:
            Seconds for the first call in a process.
        """
        if self._session is None:
            _refuse_masks({"master": self.master, **self.extra})
            settings = spark_module("paimon_assets.spark.session").SparkSettings(
                master=self.master,
                app_name=self.app_name,
                driver_memory=self.driver_memory or None,
                extra=self.extra,
            )
            self._session = _SESSION.acquire(self, settings)
        session = self._session
        if self._run is not None:
            name, log = self._run
            if self._jobs is None:
                self._jobs = spark_module("paimon_assets.spark.job_names").JobLog(
                    session, name, log.info
                )
            self._jobs.mark_thread()
        return session

    def as_dagster_pyspark(self) -> Any:
        """Return this session as a `dagster_pyspark.LazyPySparkResource`.

        Raises:
            InvalidInputError: As `session`; or dagster-pyspark is not installed (an extra of its
                name).
        """
        wrapped = spark_module("dagster_pyspark").LazyPySparkResource
        self.session()
        # The session lives: dagster-pyspark finds it and need not configure it.
        config = {"spark.remote": self.master} if self.master.startswith("sc://") else {}
        return wrapped(spark_config=config)

    @property
    def spark_session(self) -> Any:
        """Return and raise as `session()`, under the name that dagster-pyspark uses."""
        return self.session()

    @property
    def spark_context(self) -> Any:
        """The SparkContext.

        Raises:
            InvalidInputError: The master is Spark Connect, which has none.
        """
        if self.master.startswith("sc://"):
            raise InvalidInputError(
                "Spark Connect has no SparkContext: use spark_session, or a master that is none "
                "of sc://.",
                kind="spark-connect",
            )
        return self.session().sparkContext

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        """Stop the session if this resource started it and no other one uses it."""
        self.stop()

    def stop(self) -> None:
        """Release the session; it ends if this resource started it and no other one uses it."""
        if self._jobs is not None:
            self._jobs.close()
        self._session = self._jobs = None
        _SESSION.release(self)

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        yield from (("master", self.master), ("app_name", self.app_name))
        yield from (("driver_memory", self.driver_memory), ("extra", sorted(self.extra)))


def refuse_unknown_fields(
    resource: type[Any], fields: Iterable[str], more: Iterable[str] = ()
) -> None:
    """Refuse fields that a resource does not have, which pydantic would leave out."""
    known = {*resource.model_fields, *more}
    refuse_unknown(fields, known, resource.__name__, kind="resource-field")


class PaimonCatalogResource(dg.ConfigurableResource):  # type: ignore[type-arg]  # because it provides itself
    """A Paimon warehouse or REST catalog, and the executor that reads and writes its rows.

    >>> paimon = PaimonCatalogResource(warehouse="s3://lake/warehouse", executor="embedded")
    """

    warehouse: str = Field(
        default="",
        description="Root of the warehouse: a path, or a URL such as s3://bucket/warehouse. Of a "
        "REST catalog, the name its server gives the warehouse; empty if it has one only.",
    )
    metastore: str = Field(
        default="", description="'rest' for a REST catalog; empty for the warehouse's directories."
    )
    uri: str = Field(default="", description="Where the REST catalog is: https://host/prefix.")
    token: str = Field(
        default="",
        description="Bearer token of the REST catalog, by EnvVar only. Keys of DLF go to options.",
    )
    options: dict[str, str] = Field(
        default={},
        description="Storage and catalog options such as s3.endpoint. Secrets by EnvVar only.",
    )
    executor: str = Field(
        default="auto",
        description="Executor of rows: 'spark', 'embedded' for this process, or 'auto': "
        "Spark, if installed, for Spark DataFrames and inputs above 512 MB, else this process.",
    )
    segment_roots: list[str] = Field(
        default=[],
        description="Folders that segments may be imported from, links followed; empty for any "
        "folder that a run or an asset names.",
    )
    show_values: bool = Field(
        default=True,
        description="Whether errors and checks show some of the rows' values; false where rows "
        "hold people's data. A check's own options come first.",
    )
    preview_rows: int = Field(
        default=5,
        ge=0,
        le=100,
        description="Rows of a table that each materialization shows on the asset's page; 0 for "
        "none. None are shown without show_values.",
    )
    branch: str = Field(
        default="",
        description="Branch of every table to work on: reads take main where a table lacks it, the"
        " first write makes it. By default that of PAIMON_BRANCH, or of Dagster+'s branch"
        " deployment; main for none.",
    )
    spark: PaimonSparkResource = Field(default_factory=PaimonSparkResource)

    def __init__(self, **data: Any) -> None:
        refuse_unknown_fields(type(self), data)
        # Dagster passes over the defaults of nested resources.
        data.setdefault("spark", PaimonSparkResource())
        super().__init__(**data)

    @classmethod
    def from_env(cls, **fields: Any) -> Self:
        """Return the catalog that environment variables describe, those of the command line.

        `PAIMON_WAREHOUSE`, `PAIMON_URI`, `PAIMON_TOKEN` and `PAIMON_METASTORE` name the catalog,
        `PAIMON_S3_ENDPOINT`, `PAIMON_S3_ACCESS_KEY` and the like its storage, `PAIMON_EXECUTOR` the
        executor, `PAIMON_SEGMENT_ROOTS` the roots of segments, with blanks between. All but the
        last two stay variables: the UI shows names, no values. Spark as
        `PaimonSparkResource.from_env`.

        `fields` take precedence over the environment.

        Raises:
            InvalidInputError: As `PaimonSparkResource.from_env`.
        """
        options: dict[str, Any] = {
            option: dg.EnvVar(variable) for option, variable in opt.environment_variables().items()
        }
        names = (opt.WAREHOUSE.key, opt.METASTORE.key, opt.URI.key, opt.TOKEN.key)
        found: dict[str, Any] = {name: options.pop(name) for name in names if name in options}
        if opt.URI.key in found:
            found.setdefault(opt.METASTORE.key, "rest")
        if os.environ.get("PAIMON_EXECUTOR"):
            found["executor"] = executor_kind(os.environ["PAIMON_EXECUTOR"])
        if os.environ.get("PAIMON_SEGMENT_ROOTS"):
            found["segment_roots"] = os.environ["PAIMON_SEGMENT_ROOTS"].split()
        if "spark" not in fields:
            found["spark"] = PaimonSparkResource.from_env()
        return cls(**{**found, "options": options, **fields})

    def catalog(self) -> TableCatalog:
        """Return the catalog.

        Raises:
            InvalidInputError: A value is the UI's mask of a secret; or the storage is unknown.
            UnsupportedFeatureError: There is no such metastore.
            AccessDeniedError: The REST catalog does not know the client.
            StorageError: The storage could not be opened, or the REST catalog does not answer.
        """
        named = {"warehouse": self.warehouse, "uri": self.uri, "token": self.token}
        _refuse_masks({**named, **self.options})
        return open_catalog(
            self.warehouse,
            self.options,
            metastore=self.metastore,
            uri=self.uri,
            token=self.token,
            preview=branch_name(self.branch) if self.branch else branch_of_environment(),
        )

    @property
    def rows_shown(self) -> int:
        """How many rows an asset's page shows."""
        return self.preview_rows if self.show_values else 0

    def segments(self, table: Table) -> Segments:
        """Return a table's segments; files are taken from `segment_roots` only, if there are any.

        Raises:
            InvalidInputError: One of `segment_roots` is blank.
        """
        return table.segments(roots=self.segment_roots or None)

    def new_executor(
        self, kind: str | None = None, *, reports: bool = True
    ) -> CountingExecutor[Any]:
        """Return the executor of reads and writes; in a run, its log shows progress of long work.

        Args:
            kind: `spark`, `embedded` or `auto`; None is the resource's own choice.
            reports: Whether the run's log gets lines of progress.

        Raises:
            InvalidInputError: Another kind, or Spark cannot be used; see
                `PaimonSparkResource.session`.
        """
        log = self.spark.run_log if reports else None
        return new_executor(kind or self.executor, self.spark.session, log=log)

    def executor_for(self, input_bytes: int, kind: str | None = None) -> str:
        """Return the executor for files of so many bytes: `spark` or `embedded`."""
        return kind_for(kind or self.executor, input_bytes)

    def spark_dataframe(self, read: ReadBuilder) -> Any:
        """Return a read as a Spark DataFrame, lazily: Spark's tasks read the splits.

        Raises:
            InvalidInputError: Spark cannot be used.
            PaimonError: As `ReadBuilder.plan`.
            UnsupportedFeatureError: A column has a type this Spark does not have.

        >>> flights = paimon.catalog().get_table("demo.flights")
        ... paimon.spark_dataframe(flights.new_read_builder().with_columns(["carrier"]))
        ... # doctest: +SKIP
        """
        frame = self.planned_dataframe(read.plan())
        return frame if read.limit is None else frame.limit(read.limit)

    def planned_dataframe(self, plan: Plan) -> Any:
        executor: Any = self.new_executor("spark")
        tables = spark_module("paimon_assets.spark.dataframes.tables")
        return tables.plan_to_spark(plan, executor.session)

    def files_dataframe(
        self,
        paths: Sequence[str],
        file_format: str,
        schema: pa.Schema,
        text_options: Mapping[str, str] | None = None,
        others: str = "",
    ) -> Any:
        """Return files as a Spark DataFrame whose rows remember their order.

        `paths` are in the order that counts; `text_options` as text segments take them; for
        `others` see `FileKind`.

        Raises:
            InvalidInputError: Spark cannot be used, an option is the UI's mask of a secret, or the
                files are none of those named; see `sources.files_to_dataframe`.
        """
        _refuse_masks(self.options)
        sources = spark_module("paimon_assets.spark.dataframes.sources")
        return sources.files_to_dataframe(
            self.spark.session(),
            paths,
            file_format,
            schema,
            options=self.options,
            text_options=text_options,
            others=others,
        )

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        yield from (("warehouse", self.warehouse), ("options", sorted(self.options)))
        yield from (("metastore", self.metastore), ("uri", without_secrets(self.uri)))
        yield from (("executor", self.executor), ("spark", self.spark))


def catalog_resource(context: Any, resource_key: str) -> PaimonCatalogResource:
    """Return the catalog of a run, a check or a tick, by the key of its resource."""
    paimon: PaimonCatalogResource = getattr(context.resources, resource_key)
    return paimon


def table_or_none(paimon: PaimonCatalogResource, identifier: Identifier) -> Table | None:
    try:
        return paimon.catalog().get_table(identifier)
    except NotFoundError:
        return None


def parse_settings(text: str) -> dict[str, str]:
    """Return Spark settings written as words of a shell; see `PaimonSparkResource.from_env`.

    >>> parse_settings("spark.executor.cores=2 'spark.app.name=two words'")
    {'spark.executor.cores': '2', 'spark.app.name': 'two words'}
    """
    settings: dict[str, str] = {}
    for word in shlex.split(text):
        key, is_setting, value = word.partition("=")
        if not is_setting or not key.startswith("spark."):
            raise InvalidInputError(
                f"SPARK_SETTINGS has the word '{key}', which is no setting: write "
                "spark.executor.memory=4g, several with blanks between them, values with blanks "
                "in quotes.",
                kind="spark-settings",
            )
        settings[key] = dg.EnvVar(value[1:]) if value.startswith("$") else value
    return settings


class _SharedSession:
    """The users of the process's session, and whether one of them started it.

    Dagster sets a resource up once for every place it is nested in, so several resource objects
    may hold one session; it must end with the last of them, and never if it was there before.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users: set[int] = set()
        self._is_ours = False

    def acquire(self, user: object, settings: Any) -> Any:
        """Start the session, or check the live one, on behalf of `user`; return it."""
        with self._lock:
            if not self._users:
                self._is_ours = spark_module("pyspark.sql").SparkSession.getActiveSession() is None
            session = spark_module("paimon_assets.spark.session").get_session(settings)
            self._users.add(id(user))
            return session

    def release(self, user: object) -> None:
        """Remove `user`; stop a session of ours that no user is left of."""
        with self._lock:
            if id(user) not in self._users:
                return
            self._users.discard(id(user))
            if not self._users and self._is_ours:
                spark_module("paimon_assets.spark.session").stop_session()


_SESSION = _SharedSession()


def _refuse_masks(values: Mapping[str, str]) -> None:
    """Refuse asterisks: the Launchpad's mask of a secret, sent back as the secret."""
    for name in [name for name, value in values.items() if value and not value.strip("*")]:
        message = (
            f"The resource's '{name}' is '{values[name]}': the mask the UI shows, not the value. "
            "Remove the `resources:` section from the run's config."
        )
        raise InvalidInputError(message, kind="masked-secret", option=name)
