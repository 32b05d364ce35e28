"""A real `dagster-webserver` on this deployment, spoken to as its pages speak: by GraphQL."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.testkit.processes import LONGEST_SECONDS, end

ROOT = Path(__file__).resolve().parents[2]
LOCATION = {"repositoryName": "__repository__", "repositoryLocationName": "paimon"}

# Runs start at once, in the server itself: no daemon, no queue, no process that imports all again.
SETTINGS = """
telemetry: {enabled: false}
nux: {enabled: false}
run_coordinator:
  module: dagster._core.run_coordinator
  class: DefaultRunCoordinator
run_launcher:
  module: dagster._core.launcher.sync_in_memory_run_launcher
  class: SyncInMemoryRunLauncher
"""

METADATA = """
fragment Meta on MetadataEntry {
  label
  ... on TextMetadataEntry { text }
  ... on IntMetadataEntry { intValue }
  ... on FloatMetadataEntry { floatValue }
  ... on BoolMetadataEntry { boolValue }
  ... on PathMetadataEntry { path }
  ... on MarkdownMetadataEntry { mdStr }
  ... on JsonMetadataEntry { jsonString }
  ... on TableMetadataEntry { table { records } }
}"""

LAUNCH = """
mutation($params: ExecutionParams!) {
  launchRun(executionParams: $params) {
    __typename
    ... on LaunchRunSuccess { run { runId } }
    ... on RunConfigValidationInvalid { errors { message } }
    ... on PythonError { message }
  }
}"""

LOCATIONS = "{ workspaceOrError { ... on Workspace { locationEntries { loadStatus } } } }"
STATUS = "query($id: ID!) { runOrError(runId: $id) { ... on Run { status } } }"

EVENTS = (
    METADATA
    + """
query($id: ID!) {
  logsForRun(runId: $id, limit: 1000) {
    ... on EventConnection {
      events {
        __typename
        ... on LogMessageEvent { message }
        ... on MaterializationEvent { assetKey { path } description metadataEntries { ...Meta } }
        ... on ObservationEvent { assetKey { path } description metadataEntries { ...Meta } }
        ... on AssetCheckEvaluationEvent {
          evaluation { checkName success description metadataEntries { ...Meta } }
        }
        ... on ExecutionStepFailureEvent {
          error { message }
          failureMetadata { description metadataEntries { ...Meta } }
        }
      }
    }
  }
}"""
)


class Run:
    def __init__(self, status: str, events: list[dict[str, Any]]) -> None:
        self.status = status
        self._events = events

    def event(self, kind: str, *key: str) -> tuple[str, dict[str, Any]]:
        """Return description and metadata of the one event of a kind, perhaps on an asset."""
        [event] = [
            event
            for event in self._events
            if event["__typename"] == kind and (not key or event["assetKey"]["path"] == list(key))
        ]
        return event["description"], values(event["metadataEntries"])

    def failure(self) -> tuple[str, dict[str, Any]]:
        """Return the shown text of the step that failed, and its metadata."""
        [event] = [
            event for event in self._events if event["__typename"] == "ExecutionStepFailureEvent"
        ]
        failure = event["failureMetadata"]
        return failure["description"], values(failure["metadataEntries"])

    def checks(self) -> dict[str, bool]:
        """Name of each check that was evaluated → whether it passed."""
        found = [event["evaluation"] for event in self._events if "evaluation" in event]
        return {check["checkName"]: check["success"] for check in found}

    def log(self) -> str:
        return "\n".join(event.get("message", "") for event in self._events)


def values(entries: list[dict[str, Any]]) -> dict[str, Any]:
    """Metadata as plain values; a table is the list of its records."""
    return {entry.pop("label"): _value(entry) for entry in entries}


def _value(entry: dict[str, Any]) -> Any:
    if "table" in entry:
        return [json.loads(record) for record in entry["table"]["records"]]
    return next(iter(entry.values()), None)


class Webserver:
    """The requests of a browser to a running server."""

    def __init__(self, port: int, log: Path) -> None:
        self._url = f"http://127.0.0.1:{port}/graphql"
        self._log = log
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def ask(self, query: str, **variables: Any) -> Any:
        """Return the answer's data."""
        body = json.dumps({"query": query, "variables": variables}).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self._url, data=body, headers=headers)  # noqa: S310
        with self._opener.open(request, timeout=LONGEST_SECONDS) as response:
            answer = json.load(response)
        assert not answer.get("errors"), answer["errors"]
        return answer["data"]

    def wait_for(self, process: subprocess.Popen[bytes]) -> None:
        """Return once the location is loaded."""

        def is_up() -> bool:
            assert process.poll() is None, self._log.read_text()
            try:
                found = self.ask(LOCATIONS)["workspaceOrError"]["locationEntries"]
            except (urllib.error.URLError, ConnectionError):
                return False
            return bool(found) and all(entry["loadStatus"] == "LOADED" for entry in found)

        self._until(is_up, "the server is up")

    def launch(self, job: str, config: str, assets: list[list[str]] | None = None) -> str:
        """Launch a job with the text of its Launchpad; return the run's id."""
        selector: dict[str, Any] = {**LOCATION, "pipelineName": job}
        if assets is not None:
            selector |= {"assetSelection": [{"path": path} for path in assets]}
        params = {"selector": selector, "mode": "default", "runConfigData": config}
        launched = self.ask(LAUNCH, params=params)["launchRun"]
        assert launched["__typename"] == "LaunchRunSuccess", launched
        return str(launched["run"]["runId"])

    def wait_for_run(self, run_id: str) -> Run:
        def status() -> str:
            return str(self.ask(STATUS, id=run_id)["runOrError"]["status"])

        self._until(lambda: status() in {"SUCCESS", "FAILURE", "CANCELED"}, f"run {run_id} ended")
        return Run(status(), self.ask(EVENTS, id=run_id)["logsForRun"]["events"])

    def run(self, job: str, config: str = "", assets: list[list[str]] | None = None) -> Run:
        """Launch a job and wait for its end."""
        return self.wait_for_run(self.launch(job, config, assets))

    def _until(self, is_true: Any, event: str) -> None:
        end = time.monotonic() + LONGEST_SECONDS
        while not is_true():
            assert time.monotonic() < end, f"not yet: {event}\n{self._log.read_text()[-4000:]}"
            time.sleep(0.2)


@contextmanager
def webserver(home: Path) -> Iterator[Webserver]:
    """Serve `workspace.yaml` with a home, warehouse and landing folder below `home`."""
    settings = home / "dagster_home" / "dagster.yaml"
    settings.parent.mkdir(parents=True)
    settings.write_text(SETTINGS)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = home / "webserver.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                *(Path(sys.executable).with_name("dagster-webserver"), "-w", "workspace.yaml"),
                *("-h", "127.0.0.1", "-p", str(port)),
            ],
            cwd=ROOT,
            env={
                **os.environ,
                "DAGSTER_HOME": str(settings.parent),
                "PAIMON_DEMO_HOME": str(home),
                "PAIMON_WAREHOUSE": str(home / "warehouse"),
                "PAIMON_EXECUTOR": "embedded",
            },
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            server = Webserver(port, log)
            server.wait_for(process)
            yield server
        finally:
            end(process)
