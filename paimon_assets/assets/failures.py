"""PaimonError → Dagster's next step: retry, or fail for a person to look at.

This is the Dagster boundary: engine errors are sorted by the caller's next step, and so are
Dagster's.
"""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from functools import wraps
from typing import Any, ParamSpec, TypeVar, get_type_hints

import dagster as dg
import pydantic
from pydantic_core import SchemaError

from paimon_assets.engine import errors
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.spec.words import did_you_mean

ChoiceT = TypeVar("ChoiceT", bound=StrEnum)
T = TypeVar("T")
P = ParamSpec("P")

MAX_RETRIES = 3
RETRY_WAIT_SECONDS = 2

TRY_AGAIN = (errors.CommitConflictError, errors.CommitUnknownError, errors.StorageError)
"""After an unknown outcome the next try looks first, by commit user, so trying again is safe."""


@contextmanager
def dagster_failures(table: Identifier, context: Any = None) -> Iterator[None]:
    """Turn engine errors of the block into Dagster's.

    Errors that may pass are retried: by the retry policy of the step, or else `MAX_RETRIES`
    times, unless a client waited its whole time (`waited_seconds` of the details). The last
    failure names the operation and the table. `context` is of the op, asset, check, input or
    output; None where Dagster runs none.
    """
    try:
        yield
    except TRY_AGAIN as error:
        step = _step(context)
        policy = None if step is None else step.op_retry_policy
        usual = 0 if "waited_seconds" in error.details else MAX_RETRIES
        most = usual if policy is None else policy.max_retries
        if step is not None and (step.retry_mode.disabled or step.previous_attempt_count >= most):
            raise failure_of(error, table) from error
        if policy is not None:
            raise failure_of(error, table, allow_retries=True) from error
        raise dg.RetryRequested(max_retries=most, seconds_to_wait=RETRY_WAIT_SECONDS) from error
    except errors.PaimonError as error:
        raise failure_of(error, table) from error


def _step(context: Any) -> Any:
    """Return Dagster's context of the running step, None outside of a run."""
    if isinstance(context, dg.InputContext | dg.OutputContext):
        return context.step_context
    if not isinstance(context, dg.OpExecutionContext):
        context = getattr(context, "op_execution_context", None)
    return None if context is None else context.get_step_execution_context()


def failure_of(
    error: errors.PaimonError, table: Identifier, *, allow_retries: bool = False
) -> dg.Failure:
    """Return the failure a person reads: the cause first, then the table, with details beside."""
    named = str(table) in error.message
    details = {f"paimon/{key}": value for key, value in error.details.items() if value is not None}
    return dg.Failure(
        description=error.message if named else f"{error.message} (table {table})",
        metadata={"paimon/table": str(table), "paimon/error_kind": error.kind, **details},
        allow_retries=allow_retries,
    )


def naming_arguments(build: Callable[P, T]) -> Callable[P, T]:
    """Wrap a function that users call: a failure names the argument that has another type.

    Types are looked at after a failure only, so that a call that succeeds costs nothing.
    """

    @wraps(build)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return build(*args, **kwargs)
        except errors.PaimonError:
            raise
        except Exception as error:
            for name, kind, value in _arguments(build, args, kwargs):
                if not _is_of_type(value, kind):
                    wanted = re.sub(r"\b\w+\.", "", inspect.formatannotation(kind))
                    raise errors.InvalidInputError(
                        f"{build.__name__} takes '{name}' as {wanted}, and is given "
                        f"{type(value).__name__} {value!r:.80}.",
                        kind="argument",
                        argument=name,
                    ) from error
            if isinstance(error, dg.DagsterError):
                message = f"{build.__name__}: {error}"
                raise errors.InvalidInputError(message, kind="argument") from error
            raise

    return call


def _arguments(
    build: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Iterator[tuple[str, Any, Any]]:
    try:
        arguments = inspect.signature(build).bind(*args, **kwargs).arguments
        hints = get_type_hints(build)
    except (TypeError, NameError):  # Python's own error is clear
        return
    yield from ((name, hints[name], value) for name, value in arguments.items() if name in hints)


def _is_of_type(value: object, kind: Any) -> bool:
    try:
        adapter = pydantic.TypeAdapter(kind, config={"arbitrary_types_allowed": True})
        adapter.validate_python(value, strict=True)
    except pydantic.ValidationError:
        return False
    except (pydantic.PydanticUserError, SchemaError, TypeError):  # pydantic has no such type
        return True
    return True


def refuse_unknown(names: Iterable[str], expected: Iterable[str], owner: str, *, kind: str) -> None:
    """Refuse names that are not known.

    >>> refuse_unknown(["mode"], ["mode", "table"], "paimon_output", kind="output-option")
    """
    known = sorted(expected)
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known)
            message = f"{owner} has no '{name}'.{hint} It takes {', '.join(known)}."
            raise errors.InvalidInputError(message, kind=kind, option=name)


def choice_of(choices: type[ChoiceT], text: str, noun: str, table: str, kind: str) -> ChoiceT:
    """Return the choice of that name; the error has the kind."""
    try:
        return choices(text)
    except ValueError:
        message = (
            f"{noun} '{text}' of table '{table}' is unknown; expected one of {', '.join(choices)}."
        )
        raise errors.InvalidInputError(message, kind=kind, table=table) from None
