"""Errors as a command line tells them: a short code, a sentence, a hint, and the exit code.

Scripts branch on the exit code, programs that read `--json` on the short code; both stay the same for ever.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from langmem_adapter import errors

__all__ = ["DOCTOR", "CommandError", "ExitCode", "failure_of"]


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
_TOO_MANY: Final = 429
_UNREACHABLE: Final = "model_unreachable", ExitCode.UNREACHABLE
_CONFIGURATION: Final = "model_configuration", ExitCode.CONFIGURATION
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
    (errors.ModelError, *_CONFIGURATION, "try another --model"),
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
    if isinstance(error, errors.ModelError) and error.hint:
        passes = error.transient or error.status == _TOO_MANY  # so does a quota, once it is paid for
        code, exit_code = _UNREACHABLE if passes else _CONFIGURATION
        message = str(error).removesuffix(f"; {error.hint}")
        return CommandError(message, error.hint, code=code, exit_code=exit_code)
    for kind, code, exit_code, hint in _KINDS:
        if isinstance(error, kind):
            listing = _LISTING.get(getattr(error, "what", ""), hint)
            return CommandError(str(error), listing, code=code, exit_code=exit_code)
    return CommandError(str(error), DOCTOR, code="failed", exit_code=ExitCode.CONFIGURATION)
