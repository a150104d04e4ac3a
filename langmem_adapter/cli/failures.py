"""Errors as a command line tells them: a short code, a sentence, a hint, and the exit code.

Scripts branch on the exit code, programs that read `--json` on the short code; both stay the same for ever.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from langmem_adapter import errors
from langmem_adapter.addresses import cleaned

__all__ = ["DOCTOR", "CommandError", "ExitCode", "failure_of", "known_errors"]


class ExitCode(IntEnum):
    """How a command ended."""

    OK = 0
    UNEXPECTED = 1
    USAGE = 2
    NOTHING_FOUND = 3
    CONFIGURATION = 4
    UNREACHABLE = 5
    PARTIAL = 6
    INTERRUPTED = 130


class CommandError(errors.LangmemAdapterError):
    """Why a command cannot go on: a message, a hint to do something about it, a short code for programs, and an exit code."""

    def __init__(
        self, message: str, hint: str = "", *, code: str = "usage", exit_code: ExitCode = ExitCode.USAGE
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.code = code
        self.exit_code = exit_code

    def to_json(self) -> dict[str, str]:
        """As an envelope has it."""
        return {"code": self.code, "message": self.message, "hint": self.hint}


DOCTOR: Final = "langmem-adapter doctor"
"""The hint where nothing better is known."""
_KEY: Final = (
    "set the key of that server: LANGMEM_ADAPTER_API_KEY, the only one that a LANGMEM_ADAPTER_BASE_URL gets; without one the "
    "provider's own will do, as OPENAI_API_KEY; or work without a model: --model offline"
)
_AWAY: Final = "is the server running? try again later"
_UNWELL: Final = "it answered, but cannot do this now: its log may say why; try again later"
_REFUSED: Final = "try another --model"
_BILLING: Final = "the account is used up; see the provider's billing"
_HINTS: Final = {
    None: "is it a page of HTML, or another API? see whether LANGMEM_ADAPTER_BASE_URL is right; it often ends in /v1",
    401: _KEY,
    403: _KEY,
    404: "see whether the name of the model is right, and LANGMEM_ADAPTER_BASE_URL",
}
_SCOPE: Final = "name the user with -u NAME (or --agent, --run), or once for all: export LANGMEM_ADAPTER_USER=NAME"
_SLOW: Final = "is the server well? for a slow model: export LANGMEM_ADAPTER_MODEL_TIMEOUT=300"
_KINDS: Final[tuple[tuple[type[BaseException], str, ExitCode, str], ...]] = (
    (errors.ScopeError, "scope", ExitCode.USAGE, _SCOPE),
    (errors.FilterError, "filter", ExitCode.USAGE, ""),
    (errors.InvalidInputError, "invalid_input", ExitCode.USAGE, ""),
    (errors.MemoryNotFoundError, "not_found", ExitCode.NOTHING_FOUND, "langmem-adapter list -u NAME shows the ids"),
    (errors.RelationNotFoundError, "not_found", ExitCode.NOTHING_FOUND, "langmem-adapter graph -u NAME shows the ids"),
    (
        errors.EntityNotFoundError,
        "not_found",
        ExitCode.NOTHING_FOUND,
        "langmem-adapter graph entities -u NAME lists them",
    ),
    (errors.MissingDependencyError, "missing_dependency", ExitCode.CONFIGURATION, ""),
    (errors.EmbeddingMismatchError, "embedding_mismatch", ExitCode.CONFIGURATION, DOCTOR),
    (errors.ModelReplyError, "model_reply", ExitCode.UNREACHABLE, "try again, or another --model"),
    (errors.ModelTimeoutError, "model_unreachable", ExitCode.UNREACHABLE, _SLOW),
    (errors.ConflictError, "conflict", ExitCode.UNREACHABLE, "try again"),
    (errors.GraphServerError, "graph_server", ExitCode.UNREACHABLE, ""),
    (errors.StorageError, "storage", ExitCode.UNREACHABLE, DOCTOR),
)
_LISTING: Final = {"trace": "langmem-adapter trace -u NAME shows the ids"}
"""The hint where something else than a memory is not found."""


def failure_of(error: BaseException) -> CommandError:
    """What to show for an error, and how to end."""
    if isinstance(error, CommandError):
        return error
    for kind, code, exit_code, hint in _KINDS:
        if isinstance(error, kind):
            listing = _LISTING.get(getattr(error, "what", ""), hint)
            return CommandError(str(error), listing, code=code, exit_code=exit_code)
    return _failure_of_a_model(error)


def known_errors() -> tuple[type[BaseException], ...]:
    """See `limits.known_errors`, which is imported once something was raised."""
    from langmem_adapter.limits import known_errors

    return known_errors()


def _failure_of_a_model(error: BaseException) -> CommandError:
    from langmem_adapter.limits import asked_of, is_passing, is_quota, status_of

    who, status, passing = asked_of(error) or "the model", status_of(error), is_passing(error)
    how = f"answered {status}" if status else "cannot be reached" if passing else "gave no answer that can be read"
    root = error if status else _root(error)
    told = f"{who} {how}: {cleaned((str(root).strip() or type(root).__name__).splitlines()[0])}"
    if not passing and not is_quota(error):
        hint = _HINTS.get(status, _REFUSED)
        return CommandError(told, hint, code="model_configuration", exit_code=ExitCode.CONFIGURATION)
    hint = _BILLING if is_quota(error) else _UNWELL if status else _AWAY
    return CommandError(told, hint, code="model_unreachable", exit_code=ExitCode.UNREACHABLE)


def _root(error: BaseException) -> BaseException:
    return error if error.__cause__ is None else _root(error.__cause__)
