"""The names of the jobs that Spark ran."""

from typing import Any


def names_of_jobs(session: Any) -> list[str]:
    """Return the descriptions of all jobs of a session that is not one of Connect."""
    context = session.sparkContext._jsc.sc()
    context.listenerBus().waitUntilEmpty()  # jobs are noted by a thread of their own
    jobs = context.statusStore().jobsList(None)
    named = [jobs.apply(number).description() for number in range(jobs.size())]
    return sorted({name.get() for name in named if name.isDefined()})
