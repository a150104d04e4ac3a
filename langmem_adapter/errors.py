"""The error tree.

Everything that this package raises on purpose derives from `LangmemAdapterError` and, where one fits, from the builtin
that Python code would expect:

    LangmemAdapterError
    ├── ScopeError(ValueError)               no scope is named, or two that contradict
    ├── InvalidInputError(ValueError)        an argument, message or setting is not acceptable
    │   └── UnknownArgumentError(TypeError)  a keyword argument that does not exist
    ├── FilterError(ValueError)              a metadata filter cannot be understood
    ├── MemoryNotFoundError(LookupError, ValueError)   no such memory, or not within the given scope
    ├── RelationNotFoundError(LookupError)   no such relation, or not within the given scope
    ├── EntityNotFoundError(LookupError)     no entity of that name within the given scope
    ├── ModelError                           a chat model or embeddings failed, or the server of one
    │   ├── ModelReplyError(ValueError)      a chat model's reply stayed unreadable after one repair
    │   ├── ModelContextError(ValueError)    a prompt has more tokens than the model's context
    │   ├── ModelTimeoutError(TimeoutError)  no answer came in time
    │   └── ModelUnreachableError(ConnectionError)   connection refused, unknown host, connection lost
    ├── EmbeddingMismatchError(ValueError)   the vectors stored here come from another embedding model
    ├── ConflictError                        other writers changed the same memories each time
    ├── StorageError                         the database refused or failed
    │   └── GraphServerError                 the graph server of a mirror refused or failed
    └── MissingDependencyError(ImportError)  an optional package is not installed
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from langmem_adapter._version import DISTRIBUTION

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "ConflictError",
    "EmbeddingMismatchError",
    "EntityNotFoundError",
    "FilterError",
    "GraphServerError",
    "InvalidInputError",
    "LangmemAdapterError",
    "MemoryNotFoundError",
    "MissingDependencyError",
    "ModelContextError",
    "ModelError",
    "ModelReplyError",
    "ModelTimeoutError",
    "ModelUnreachableError",
    "RelationNotFoundError",
    "ScopeError",
    "StorageError",
    "UnknownArgumentError",
]

UNUSABLE: Final = "the database cannot be used at the moment; the log of the server says why"


class LangmemAdapterError(Exception):
    """Base of every error that this package raises on purpose."""

    @property
    def brief(self) -> str:
        """The text that a server may send to its callers."""
        return str(self)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle without `__init__`, which takes more than the message, so that errors survive a process pool."""
        return _again, (type(self), self.args), self.__dict__


def _again(kind: type[LangmemAdapterError], arguments: tuple[object, ...]) -> LangmemAdapterError:
    error = kind.__new__(kind, *arguments)
    super(LangmemAdapterError, error).__init__(*arguments)  # an ImportError keeps its message there as well
    return error


class ScopeError(LangmemAdapterError, ValueError):
    """No scope, a blank one, or two that contradict each other. The message names the fix."""


class InvalidInputError(LangmemAdapterError, ValueError):
    """An argument, a message or a setting is not acceptable; nothing was written."""


class UnknownArgumentError(InvalidInputError, TypeError):
    """A keyword argument does not exist; the message suggests one."""


class FilterError(LangmemAdapterError, ValueError):
    """A metadata filter cannot be understood; nothing was read."""


class MemoryNotFoundError(LangmemAdapterError, LookupError, ValueError):
    """There is no memory, or no trace, with this id, or it lies outside the scope that was given.

    The two cases are one on purpose: another tenant's id must not be told from a missing one. It is a `ValueError` as well,
    since programs written for Mem0 catch that.
    """

    def __init__(self, memory_id: str, what: str = "memory") -> None:
        super().__init__(
            f"no {what} {memory_id!r} here; it was deleted, never existed, or belongs to another scope than the one given"
        )
        self.memory_id = memory_id
        self.what = what


class RelationNotFoundError(LangmemAdapterError, LookupError):
    """There is no relation with this id that is believed, or it lies outside the scope that was given."""

    def __init__(self, relation_id: str) -> None:
        super().__init__(
            f"no relation {relation_id!r} here; it was withdrawn, never existed, or belongs to another scope than the one "
            f"given"
        )
        self.relation_id = relation_id


class EntityNotFoundError(LangmemAdapterError, LookupError):
    """The knowledge graph has no entity of this name within the given scope."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the graph has no entity {name!r} in this scope; memory.graph.entities(...) lists all")
        self.name = name


class ModelError(LangmemAdapterError):
    """A chat model or embeddings failed, or the server of one; nothing was written. `__cause__` is the client's own error.

    Attributes:
        status: The HTTP status of the answer, if there was one.
        transient: Whether the same call may succeed in a moment (too many requests, an error of the server, no connection).
        hint: What to do; the message ends with it.
    """

    def __init__(
        self, message: str, *, hint: str = "", status: int | None = None, transient: bool = False, brief: str = ""
    ) -> None:
        super().__init__(f"{message}; {hint}" if hint else message)
        self.hint, self.status, self.transient, self._brief = hint, status, transient, brief

    @property
    def brief(self) -> str:
        """The same without the words of the provider, which may quote keys and what was sent."""
        return self._brief or str(self)


class ModelReplyError(ModelError, ValueError):
    """A chat model's reply could not be read, also after one repair; nothing was written.

    Attributes:
        reply: The last reply as text, cut to 2,000 characters.
    """

    def __init__(self, message: str, *, reply: str = "") -> None:
        super().__init__(message)
        self.reply = reply[:2000]


class ModelContextError(ModelError, ValueError):
    """A prompt has more tokens than the context of the chat model; nothing was written.

    Attributes:
        prompt_tokens: Tokens of the prompt, counted by the server or else by us.
        context_tokens: Tokens of the model's context; 0 where the size is not known.
    """

    def __init__(self, message: str, *, prompt_tokens: int = 0, context_tokens: int = 0) -> None:
        super().__init__(message, hint="send less at once, or give the model a larger context", status=400)
        self.prompt_tokens, self.context_tokens = prompt_tokens, context_tokens


class ModelTimeoutError(ModelError, TimeoutError):
    """A chat model, or the embeddings, did not answer within `Settings.model_timeout`; nothing was written."""


class ModelUnreachableError(ModelError, ConnectionError):
    """No server of a chat model, or of embeddings, answers at its address; nothing was written."""


class EmbeddingMismatchError(LangmemAdapterError, ValueError):
    """The vectors stored in this database come from another embedding model or have another dimension."""


class ConflictError(LangmemAdapterError):
    """The memories that a decision was based on changed meanwhile; nothing was written. Try again."""


class StorageError(LangmemAdapterError):
    """The database refused or failed; the transaction was rolled back, unless the message says that this is not known.

    Attributes:
        transient: Whether the same call may well succeed in a moment (a lock, a lost connection).
        waited: Whether the call waited for a lock as long as the setting `busy_timeout` allows.
    """

    def __init__(self, message: str, *, transient: bool = False, waited: bool = False, brief: str = UNUSABLE) -> None:
        super().__init__(message)
        self.transient = transient
        self.waited = waited
        self._brief = brief

    @property
    def brief(self) -> str:
        """The same without what the driver said, which names paths, hosts and users of the database."""
        return self._brief


class GraphServerError(StorageError):
    """A graph server (Neo4j, Memgraph) cannot be reached, or refused; the memory itself is not concerned."""


class MissingDependencyError(LangmemAdapterError, ImportError):
    """An optional package is not installed.

    Attributes:
        package: Its name.
        extra: The extra of this package that brings it, as in `pip install 'langchain-langmem-adapter[extra]'`; `None` for
            packages of model providers, which are installed by their own name.
    """

    def __init__(self, package: str, *, extra: str | None = None) -> None:
        wanted = f"'{DISTRIBUTION}[{extra}]'" if extra else package
        super().__init__(f"{package} is not installed; run: pip install {wanted}")
        self.package = package
        self.extra = extra


@contextmanager
def noted_on(error: BaseException | None) -> Iterator[None]:
    """Close something at the end of a `with` statement: an error that is under way goes on, with a note of what closing met."""
    try:
        yield
    except (LangmemAdapterError, BaseExceptionGroup) as met:
        if error is None:
            raise
        errors = met.exceptions if isinstance(met, BaseExceptionGroup) else [met]
        error.add_note("while closing: " + "; ".join(f"{type(each).__name__}: {each}" for each in errors))


class ErrorOutcome(NamedTuple):
    """How an error ends a request or a command: a short code for programs, the HTTP status, the command's exit code."""

    code: str
    status: int
    exit_code: int


_TOO_MANY: Final = 429  # requests: a quota passes as well, once it is paid for
_OUTCOMES: Final[tuple[tuple[type[BaseException], ErrorOutcome], ...]] = (
    (ScopeError, ErrorOutcome("scope", 400, 2)),
    (FilterError, ErrorOutcome("filter", 400, 2)),
    (InvalidInputError, ErrorOutcome("invalid_input", 400, 2)),
    (MemoryNotFoundError, ErrorOutcome("not_found", 404, 3)),
    (RelationNotFoundError, ErrorOutcome("not_found", 404, 3)),
    (EntityNotFoundError, ErrorOutcome("not_found", 404, 3)),
    (MissingDependencyError, ErrorOutcome("missing_dependency", 501, 4)),
    (EmbeddingMismatchError, ErrorOutcome("embedding_mismatch", 503, 4)),
    (ModelReplyError, ErrorOutcome("model_reply", 502, 5)),
    (ModelTimeoutError, ErrorOutcome("model_unreachable", 504, 5)),
    (ModelUnreachableError, ErrorOutcome("model_unreachable", 502, 5)),
    (ModelError, ErrorOutcome("model_configuration", 502, 4)),
    (ConflictError, ErrorOutcome("conflict", 409, 5)),
    (GraphServerError, ErrorOutcome("graph_server", 503, 5)),
    (StorageError, ErrorOutcome("storage", 503, 5)),
)


def outcome_of(error: BaseException) -> ErrorOutcome:
    """How an error ends a request of the server, or a command.

    Example:
        >>> outcome_of(ConflictError("changed meanwhile"))
        ErrorOutcome(code='conflict', status=409, exit_code=5)
    """
    outcome = next((outcome for kind, outcome in _OUTCOMES if isinstance(error, kind)), ErrorOutcome("failed", 400, 4))
    is_passing = isinstance(error, ModelError) and (error.transient or error.status == _TOO_MANY)
    return ErrorOutcome("model_unreachable", outcome.status, 5) if is_passing else outcome
