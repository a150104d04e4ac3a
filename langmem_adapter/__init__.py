"""Long-term memory for LangChain and LangGraph programs.

Conversations go in, short facts come out: kept up to date, searchable, with their full history, per user, agent and run.

    messages ─ parse ─ extract ─ retrieve ─ decide ─ apply ─▶ SQL (truth) ─▶ vector index, words (derived)

The house, from the ground up; a room imports only from the rooms above it in this list:

    errors      owns the error tree: everything that is raised on purpose.
    forks       owns the locks that a forked child finds free.
    caches      owns what was worked out of texts; a purge empties it.
    addresses   owns what may be shown of an address: no password, no key.
    records     owns the words that all rooms speak: Scope, MemoryItem, Hit, Change, Revision …
    settings    owns the environment and the configuration files; nobody else reads them.
    vocabulary  owns word lists, English and Chinese.
    arguments   owns the checks of what callers give.
    languages   owns whose rules a word is stemmed by.
    text        owns what counts as a word, and when two texts are the same.
    diffs       owns what differs between two texts.
    filters     owns the filter language.
    statements  owns the table of what short statements say: whose attribute, which value, which relation.
    twins       owns how a method is written once and called sync and async.
    providers   owns how models are made by name: server, key, errors.
    limits      owns how long a model may take, and how often it is asked again.
    names       owns when two names of the knowledge graph mean the same.
    scoping     owns the one rule for whose memory it is.
    tracing     owns what traces see of it.
    telemetry   owns what operators see of it: spans, and what metrics count.
    storage     owns the truth: tables, transactions, migrations, and the one writer of memories.
    index       owns nearness: vector indexes, always derived from storage and rebuilt from it at any time.
    reasoning   owns judgement: which facts a conversation holds, and what they mean for what is known.
    embedding   owns vectors of texts: from a model, or, without one, from a table of word pieces or from hashes.
    mirror      owns the knowledge graph's copy in a graph database, which follows the change feed.
    search      owns ranking: meaning, words, speakers and time joined into one order.
    knowledge   owns `Memory.graph`: walks, pictures, evidence for a search, exports and imports, backfill, suggested merges.
    pipeline    owns the way in: parse, extract, retrieve, decide, apply, as a LangGraph graph.
    memory      owns `Memory`, which users hold: the wiring of its parts, and its methods, a group of them in each module.
    conversation owns what is kept of a talk: logs, roles, summaries, experiences.
    adapters    owns what guests see of it: LangChain's and LangGraph's interfaces, Mem0's and MetaGPT's shapes.
    maintenance owns the care of a database: checkups, a change of the embedding model, tidying.
    evaluation  owns measurement: data sets, metrics, a run, its report, another one beside it.
    testing     owns fakes that users may use too.
    server      owns the memory over HTTP: who may call it and how, `/v1`, Mem0's routes, MCP, the page, jobs, log, metrics.
    cli         owns the command `langmem-adapter`.

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
    from langmem_adapter.embedding.hashing import HashEmbeddings
    from langmem_adapter.embedding.static import StaticEmbeddings
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
    from langmem_adapter.records.results import Abstained, AddResult, Hit, MemoryItem, Page, Revision, SearchResults
    from langmem_adapter.records.scope import Scope
    from langmem_adapter.records.work import Change
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
    "Change": "records.work",
    "Entity": "records.graph",
    "HashEmbeddings": "embedding.hashing",
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
    "StaticEmbeddings": "embedding.static",
}
_GUESTS: Final = {
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
    """Import a public name from the room that owns it (PEP 562)."""
    if name in _GUESTS:
        where = f"{__name__}.adapters.{_GUESTS[name]}"
        raise ImportError(f"{name} lives in {where}; write: from {where} import {name}", name=__name__)
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_HOMES.get(name, 'errors')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names, imported already or not."""
    return sorted(__all__)
