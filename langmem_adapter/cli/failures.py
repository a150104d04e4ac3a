"""Errors as a command line tells them: a short code, a sentence, a hint, and the exit code.

Scripts branch on the exit code, programs that read `--json` on the short code; both stay the same for ever.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from langmem_adapter.addresses import cleaned
from langmem_adapter.errors import (
    ConflictError,
    EmbeddingMismatchError,
    EntityNotFoundError,
    FilterError,
    InvalidInputError,
    LangmemAdapterError,
    MemoryNotFoundError,
    MissingDependencyError,
    ModelReplyError,
    RelationNotFoundError,
    ScopeError,
    StorageError,
)

__all__ = ["CommandError", "ExitCode", "Failure", "failure_of", "known_errors"]


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


class CommandError(LangmemAdapterError):
    """A command cannot go on, for a reason of the command line's own.

    Attributes:
        code: A short name for programs.
        hint: What to do, often a command to type.
        exit_code: How the command ends.
    """

    def __init__(self, message: str, *, code: str, exit_code: ExitCode, hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint
        self.exit_code = exit_code


@dataclass(frozen=True, slots=True)
class Failure:
    """An error, ready to be shown."""

    code: str
    message: str
    hint: str
    exit_code: ExitCode


_DOCTOR: Final = "langmem-adapter doctor says what is wrong"
_KINDS: Final[tuple[tuple[type[BaseException], str, ExitCode, str], ...]] = (
    (
        ScopeError,
        "scope",
        ExitCode.USAGE,
        "name the user with -u NAME (or --agent, --run), or once for all: export LANGMEM_ADAPTER_USER=NAME",
    ),
    (FilterError, "filter", ExitCode.USAGE, ""),
    (InvalidInputError, "invalid_input", ExitCode.USAGE, ""),
    (MemoryNotFoundError, "not_found", ExitCode.NOTHING_FOUND, "langmem-adapter list -u NAME shows the ids"),
    (RelationNotFoundError, "not_found", ExitCode.NOTHING_FOUND, "langmem-adapter graph -u NAME shows the ids"),
    (EntityNotFoundError, "not_found", ExitCode.NOTHING_FOUND, "langmem-adapter graph entities -u NAME lists them"),
    (MissingDependencyError, "missing_dependency", ExitCode.CONFIGURATION, ""),
    (EmbeddingMismatchError, "embedding_mismatch", ExitCode.CONFIGURATION, _DOCTOR),
    (ModelReplyError, "model_reply", ExitCode.UNREACHABLE, "try again, or another --model"),
    (ConflictError, "conflict", ExitCode.UNREACHABLE, "try again"),
    (StorageError, "storage", ExitCode.UNREACHABLE, _DOCTOR),
)


def failure_of(error: BaseException) -> Failure:
    """What to show for an error, and how to end."""
    if isinstance(error, CommandError):
        return Failure(error.code, str(error), error.hint, error.exit_code)
    for kind, code, exit_code, hint in _KINDS:
        if isinstance(error, kind):
            return Failure(code, str(error), hint, exit_code)
    return _failure_of_a_model(error)


def known_errors() -> tuple[type[BaseException], ...]:
    """The errors that a command tells without a traceback: ours, and those of the model clients that are loaded.

    Meant for an `except` clause, which asks only once something was raised; so nothing is imported for it.
    """
    clients = (("openai", "OpenAIError"), ("httpx", "HTTPError"))
    loaded = (getattr(sys.modules.get(module), name, None) for module, name in clients)
    return LangmemAdapterError, *(kind for kind in loaded if kind is not None)


def _failure_of_a_model(error: BaseException) -> Failure:
    name = type(error).__name__
    if name in {"OpenAIError", "AuthenticationError", "PermissionDeniedError", "NotFoundError"}:
        hint = "set the provider's key, for example OPENAI_API_KEY, or work without a model: --model offline"
        return Failure("model_configuration", _first_line(error), hint, ExitCode.CONFIGURATION)
    return Failure("model_unreachable", f"{name}: {_first_line(error)}", "try again later", ExitCode.UNREACHABLE)


def _first_line(error: BaseException) -> str:
    return cleaned((str(error).strip() or type(error).__name__).splitlines()[0])
