"""Long-term memory for LangChain and LangGraph programs.

Conversations go in, short facts come out: kept up to date, searchable, with their full history, per user, agent and run.

    messages ─ parse ─ extract ─ retrieve ─ decide ─ apply ─▶ SQL (source of truth) ─▶ vector index, lexical index

What each module or package contains. A package imports only from those above it in this list:

    errors        the error classes
    forks         locks, caches and properties that a forked child can use
    records       dataclasses that all packages share (Scope, MemoryItem, Hit, Change, Revision), checks of input
    text          words and stems of a text, word lists, equality of texts
    settings      the environment and configuration files
    arguments     checks of arguments
    twins         methods written once, called sync and async
    filters       the filter language
    statements    short English and Chinese statements as attribute and value
    names         names in the knowledge graph, and when two are the same
    scoping       the scope of a call: explicit argument, runtime context, configuration
    tracing       LangSmith runs, OpenTelemetry spans, operation counts
    providers     models by name, timeouts, retries, errors of providers
    storage       the SQL database: tables, migrations, transactions, the one writer of memories
    index         vector indexes, derived from storage
    reasoning     chat models and the offline rules: facts of a conversation, decisions
    embedding     vectors of texts: provider models, static vectors, hash vectors
    mirror        a copy of the knowledge graph in Neo4j or Memgraph
    search        one ranking by meaning, words, speaker and time
    knowledge     `Memory.graph`: reads, walks, drawings, import and export
    pipeline      parse, extract, retrieve, decide, apply, as a LangGraph graph
    memory        `Memory`
    conversation  working, long-term and brain memory, experiences
    adapters      LangChain, LangGraph, Mem0 and MetaGPT integrations
    maintenance   checks, re-embedding, consolidation
    migration     `migrate`: Mem0, LangGraph, LangMem, chat exports
    evaluation    data sets, metrics and reports of `eval`
    testing       fakes for your own tests
    server        REST, MCP, the web page, jobs, API keys
    cli           the command `langmem-adapter`

The names below are imported when they are first used, so `import langmem_adapter` is quick.

Example:
    >>> from langmem_adapter import Memory
    >>> with Memory(":memory:") as memory:
    ...     added = memory.add("I live in Lyon", user_id="alice")
    ...     [hit.text for hit in memory.search("where does she live", user_id="alice")]
    ['Lives in Lyon']
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from langmem_adapter._version import __version__

if TYPE_CHECKING:
    from langmem_adapter.adapters.middleware import MemoryMiddleware
    from langmem_adapter.embedding.models import HashEmbeddings, StaticEmbeddings
    from langmem_adapter.errors import (
        ConflictError,
        EmbeddingMismatchError,
        EntityNotFoundError,
        FilterError,
        GraphServerError,
        InvalidInputError,
        LangmemAdapterError,
        MemoryNotFoundError,
        MissingDependencyError,
        ModelContextError,
        ModelError,
        ModelReplyError,
        ModelTimeoutError,
        ModelUnreachableError,
        RelationNotFoundError,
        ScopeError,
        StorageError,
        UnknownArgumentError,
    )
    from langmem_adapter.memory.memory import Memory
    from langmem_adapter.records.graph import Entity, Neighbour, Relation, RelationChange
    from langmem_adapter.records.ranking import Ranking
    from langmem_adapter.records.results import (
        Abstained,
        AddResult,
        Change,
        Hit,
        MemoryItem,
        Page,
        Revision,
        SearchResults,
    )
    from langmem_adapter.records.scope import Scope
    from langmem_adapter.scoping import MemoryContext
    from langmem_adapter.settings import Settings

__all__ = [
    "Abstained",
    "AddResult",
    "Change",
    "ConflictError",
    "EmbeddingMismatchError",
    "Entity",
    "EntityNotFoundError",
    "FilterError",
    "GraphServerError",
    "HashEmbeddings",
    "Hit",
    "InvalidInputError",
    "LangmemAdapterError",
    "Memory",
    "MemoryContext",
    "MemoryItem",
    "MemoryMiddleware",
    "MemoryNotFoundError",
    "MissingDependencyError",
    "ModelContextError",
    "ModelError",
    "ModelReplyError",
    "ModelTimeoutError",
    "ModelUnreachableError",
    "Neighbour",
    "Page",
    "Ranking",
    "Relation",
    "RelationChange",
    "RelationNotFoundError",
    "Revision",
    "Scope",
    "ScopeError",
    "SearchResults",
    "Settings",
    "StaticEmbeddings",
    "StorageError",
    "UnknownArgumentError",
    "__version__",
]

_HOMES: Final = {
    "Abstained": "records.results",
    "AddResult": "records.results",
    "Change": "records.results",
    "Entity": "records.graph",
    "HashEmbeddings": "embedding.models",
    "Hit": "records.results",
    "Memory": "memory.memory",
    "MemoryContext": "scoping",
    "MemoryItem": "records.results",
    "MemoryMiddleware": "adapters.middleware",
    "Neighbour": "records.graph",
    "Page": "records.results",
    "Ranking": "records.ranking",
    "Relation": "records.graph",
    "RelationChange": "records.graph",
    "Revision": "records.results",
    "Scope": "records.scope",
    "SearchResults": "records.results",
    "Settings": "settings",
    "StaticEmbeddings": "embedding.models",
}
_INTEGRATIONS: Final = {
    "AsyncMemory": "mem0",
    "ConversationMemory": "classic",
    "MemoryRetriever": "retriever",
    "MemoryStore": "store",
    "RoleNodes": "roles",
    "SQLAlchemySaver": "checkpointer",
    "SQLChatMessageHistory": "chat_history",
    "create_memory_tools": "tools",
    "experience_node": "nodes",
    "recall_node": "nodes",
    "remember_node": "nodes",
    "summarize_node": "summarizing",
    "summarizer": "summarizing",
}
"""What does not live here, but is looked for here: each in a module of `adapters`."""


def __getattr__(name: str) -> object:
    """Import a public name from the module that defines it (PEP 562)."""
    if name in _INTEGRATIONS:
        where = f"{__name__}.adapters.{_INTEGRATIONS[name]}"
        raise ImportError(f"{name} lives in {where}; write: from {where} import {name}", name=__name__)
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_HOMES.get(name, 'errors')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names, imported already or not."""
    return sorted(__all__)
