"""Progress of `make demo`: a line per step, and the step's own report."""

import logging
import time

import dagster as dg
from rich.console import Console


class Progress:
    """Listens to the events of one run and prints them as sentences."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._started: dict[str, float] = {}
        self.seconds: dict[str, float] = {}
        """Step key → how long it took."""

    def say(self, text: str) -> None:
        """Print one line."""
        self._console.print(f"[bold]==>[/] {text}")

    def on_event(self, entry: dg.EventLogEntry) -> None:
        """Print an event of the run, if it is one a person wants to see."""
        event = entry.dagster_event
        step = entry.step_key or ""
        if event is None:
            if int(entry.level) >= logging.INFO:
                self._console.print(f"    {entry.user_message}", markup=False)
        elif event.event_type is dg.DagsterEventType.STEP_START:
            self._started[step] = time.monotonic()
            self.say(_step_name(step))
        elif event.event_type is dg.DagsterEventType.STEP_SUCCESS:
            self._say_end(step)
        elif event.event_type is dg.DagsterEventType.STEP_FAILURE:
            self._say_end(step)
            self._console.print(_failure(event), style="red", markup=False)
        elif event.event_type is dg.DagsterEventType.ASSET_CHECK_EVALUATION:
            check = event.asset_check_evaluation_data
            is_warning = check.severity is dg.AssetCheckSeverity.WARN
            verdict = "passed" if check.passed else "warning" if is_warning else "FAILED"
            self._console.print(f"    {verdict}: {check.description}", markup=False)

    def _say_end(self, step: str) -> None:
        self.seconds[step] = time.monotonic() - self._started.get(step, time.monotonic())
        self._console.print(f"    {self.seconds[step]:.1f} s", style="dim")


def _step_name(step: str) -> str:
    return step.replace("__", "/")


def _failure(event: dg.DagsterEvent) -> str:
    """Return the message of a failure's cause, without the stack."""
    data = event.step_failure_data
    if data.user_failure_data is not None and data.user_failure_data.description:
        return f"    {data.user_failure_data.description}"
    error = data.error
    cause = error.cause if error and error.cause else error
    return f"    {cause.message.strip()}" if cause else "    failed without a message"
