"""Export and import of whole scopes, without loss."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Unpack

from langmem_adapter.arguments import flag, optional_scope
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.memory.parts import MemoryMixin
from langmem_adapter.records.scope import SCOPE_FIELDS, Scope
from langmem_adapter.storage.lossless.export import export_lines
from langmem_adapter.storage.lossless.imports import ImportReport, LosslessImport
from langmem_adapter.twins import Plan, awaited, planned, run_in_executor

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

    from langmem_adapter.records.scope import ScopeArguments
    from langmem_adapter.storage.lossless.imports import RejectedLine

_CHUNK = 500


class ExportLines(Iterator[bytes], AsyncIterator[bytes]):
    """The lines of an export, for `for` and for `async for`. The database is read until the last one, or `close`."""

    def __init__(self, lines: Generator[bytes, None, None]) -> None:
        self._lines = lines
        self._chunk: list[bytes] = []

    def __next__(self) -> bytes:
        return next(self._lines)

    async def __anext__(self) -> bytes:
        if not self._chunk:
            self._chunk = (await run_in_executor(lambda: list(islice(self._lines, _CHUNK))))[::-1]
        if not self._chunk:
            raise StopAsyncIteration
        return self._chunk.pop()

    def close(self) -> None:
        """End the transaction before the last line."""
        self._lines.close()


class ExchangeMethods(MemoryMixin):
    """The methods of `Memory` that export and import."""

    @planned
    def export(
        self, *, everything: bool = False, vectors: bool = False, **fields: Unpack[ScopeArguments]
    ) -> Plan[ExportLines]:
        r"""Export a scope, or everything, as JSON lines without loss; `import_` reads them.

        The first line names the format and counts the lines of each kind, the last one has their digest (SHA-256). Between
        them each line is a row, with its `kind` and its `id`, sorted by these: conversations, entities, items of the
        LangGraph store (only with everything), memories, merges of entities, messages, notes, relations, revisions, scopes,
        sources (messages of a thread that were added). All lines show one moment, while others may write.

        Not included: lexical rows, traces, checkpoints, API keys, jobs and idempotency keys.

        Args:
            everything: All scopes, and rows without a scope.
            vectors: Include the vectors of memories and items. Without them the import embeds the texts.

        Returns:
            The lines, each with its line end; from `aexport` for `async for`.

        Raises:
            InvalidInputError: A scope and *everything* are given.

        Example:
            >>> from langmem_adapter import Memory
            >>> memory, other = Memory(":memory:"), Memory(":memory:")
            >>> added = memory.add("I live in Lyon.", user_id="alice")
            >>> other.import_(memory.export(user_id="alice")).added
            3
            >>> other.get_all(user_id="alice")[0].id == added.results[0].id
            True
            >>> memory.close(), other.close()
            (None, None)
        """
        scope = None if flag(everything, "everything") else Scope(**fields)
        if scope is None and optional_scope(fields):
            raise InvalidInputError("export takes a scope or everything=True, not both")
        lines = partial(export_lines, self.parts.database, scope, vectors=flag(vectors, "vectors"))
        return Plan.of(None).then(lambda _: ExportLines(lines()))

    aexport = awaited(export)

    @planned
    def import_(
        self,
        lines: Iterable[bytes | str],
        *,
        as_scope: Mapping[str, str] | None = None,
        dry_run: bool = False,
        name: str = "",
        announce: Callable[[int], object] = lambda _: None,
        rejected: Callable[[RejectedLine], object] = lambda _: None,
        progress: Callable[[int, int], object] = lambda _, __: None,
        **fields: Unpack[ScopeArguments],
    ) -> Plan[ImportReport]:
        """Import an export: the same ids, revisions, times and relations.

        A row that exists is counted as known. A line that contradicts the database is rejected, as is a scope with another
        history. Importing the same lines again continues where the first import stopped. If the last line is missing, the
        others are imported. No chat model is called.

        Args:
            lines: An export, line by line.
            as_scope: Import one scope under another name, with new ids: `{"user_id": "bob"}`.
            dry_run: Only count.
            name: A name for the lines, stored with the position of an unfinished import.
            announce: Called with the number of memories to embed, before the first one.
            rejected: Called with each rejected line.
            progress: Called with the lines done and all lines, after each 500.

        Raises:
            InvalidInputError: The first line is not that of an export, or the lines changed since a part was imported.
            EmbeddingMismatchError: The database has vectors of another embedding model.
            ConflictError: Another process imports the same lines.
        """
        if as_scope is not None and not (isinstance(as_scope, Mapping) and as_scope.keys() <= set(SCOPE_FIELDS)):
            raise InvalidInputError(f"as_scope names {', '.join(SCOPE_FIELDS)}, as {{'user_id': 'bob'}}")
        within, parts = optional_scope(fields), self.parts
        import_ = LosslessImport(
            *(parts.database, parts.fingerprint, parts.embedder.vectors, announce),
            within=within,
            renamed=Scope(**as_scope).named if as_scope else {},
            name=name,
            dry_run=flag(dry_run, "dry_run"),
            rejected=rejected,
            progress=progress,
        )
        return Plan.in_new_thread(partial(import_.run, lines))

    aimport_ = awaited(import_)
