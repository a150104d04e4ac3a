"""The embedder: unit vectors of texts, cached, checked, and kept out of traces.

It refuses a missing vector, another dimension, NaN and zeros, which would otherwise become a search that finds nothing.
"""

from __future__ import annotations

import logging
import math
import sys
from collections import OrderedDict
from collections.abc import Sized
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import numpy as np
from langchain_core.embeddings import Embeddings
from numpy.typing import NDArray

from langmem_adapter.embedding.models import LocalEmbeddings
from langmem_adapter.errors import EmbeddingMismatchError, InvalidInputError
from langmem_adapter.forks import Lock
from langmem_adapter.providers import BATCH, is_too_large
from langmem_adapter.records.checks import quoted
from langmem_adapter.tracing import stage
from langmem_adapter.twins import Plan, awaited, planned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from langmem_adapter.providers import Limits

K = TypeVar("K")
V = TypeVar("V")
UnitVectors: TypeAlias = NDArray[np.float32]

_log = logging.getLogger("langmem_adapter")

_CACHED: Final = 4_096
_SHORT: Final = 200
"""Letters that every model takes."""
_METHODS: Final = ("embed_documents", "embed_query", "aembed_documents", "aembed_query")
_Key: TypeAlias = tuple[str, str]
_Made: TypeAlias = dict[str, UnitVectors]
_RUNNING: Final[ContextVar[tuple[list[Embedder], ...]]] = ContextVar("running", default=())
"""For each call of an embedding model that the code runs within: its embedder, as long as the call lasts."""


class Embedder:
    """Embeds texts as unit vectors, and caches the latest ones; queries have their own entries.

    In a trace a call of the model is a run named `embed`, without the vectors. Safe to use from many threads; two that miss the
    same text at the same time may both embed it. If a model refuses a call that may be too large, smaller ones follow: half of
    the texts (the size that works is kept), or half of the letters of a single text.
    """

    def __init__(
        self, embeddings: Embeddings, *, dimensions: int | None, cached: int = _CACHED, limits: Limits | None = None
    ) -> None:
        if cached < 1:
            raise InvalidInputError(f"an embedder remembers at least one vector, not {cached}")
        self.embeddings: Final = embeddings
        self.asks_nobody: Final = limits is None  # vectors are made in this process
        self.dimensions = dimensions  # `None` until the first vectors
        # Our own embeddings, unless a subclass has other methods.
        plain = all(getattr(type(embeddings), name) is getattr(LocalEmbeddings, name) for name in _METHODS)
        self._vector = embeddings.vector if isinstance(embeddings, LocalEmbeddings) and plain else None
        self._most = cached
        self._limits = limits
        self._batch = BATCH if limits is None else limits.batch
        self._first_parts: OrderedDict[str, int] = OrderedDict()
        self._cache: OrderedDict[_Key, UnitVectors] = OrderedDict()
        self._lock = Lock()

    @planned
    def vectors(self, texts: Sequence[str]) -> Plan[UnitVectors]:
        """Unit vectors of texts.

        Texts that are not remembered are embedded in calls of up to `embedding_batch` texts, each of them once. The result has
        the shape (n, dimensions), float32, C-contiguous; (0, 0) for no texts before the first vector.
        """
        if texts:
            self._refuse_reentrance()
        distinct = list(dict.fromkeys(texts))
        remembered = {text: self._recall(("text", text)) for text in distinct}
        vectors_by_text = {text: vector for text, vector in remembered.items() if vector is not None}
        missing = [text for text in distinct if text not in vectors_by_text]
        return self._embed(missing).then(lambda made: self._put_together(texts, vectors_by_text, made))

    avectors = awaited(vectors)

    @planned
    def query(self, text: str) -> Plan[UnitVectors]:
        """The unit vector of a question: shape (dimensions,), float32, read-only."""
        self._refuse_reentrance()
        if (vector := self._recall(("query", text))) is not None:
            return Plan.of(vector)
        made = self._question(text).or_else(partial(self._embed_first_part, text, self._question))
        return made.then(lambda vector: self._keep(self._cache, ("query", text), vector))

    aquery = awaited(query)

    def forget(self) -> None:
        """Remember no vector any longer."""
        with self._lock:
            self._cache.clear()
            self._first_parts.clear()

    def note(self, text: str) -> str | None:
        """What to tell the user where the vector of a text was made of its first part."""
        if (letters := self._first_parts.get(text)) is None:
            return None
        taken = f"the embedding model takes the first {letters:,}, so a search by meaning compares only these"
        return f"{_beginning(text)} has {len(text):,} letters; {taken}"

    # LangChain's embeddings are no Runnables: the run in a trace is ours, and shows how many vectors, never one of them.

    def _embed(self, texts: Sequence[str], most: int = sys.maxsize) -> Plan[list[_Made]]:
        def batches() -> Iterator[Sequence[str]]:
            start = 0
            while start < len(texts):
                batch = texts[start : start + min(self._batch, most)]  # the batch before may have made it smaller
                start += len(batch)
                yield batch

        def embed(batch: Sequence[str]) -> Plan[_Made]:
            return self._documents(batch).or_else(partial(self._embed_in_smaller_calls, batch))

        return Plan.late(lambda: Plan.each(embed, batches()))

    def _embed_in_smaller_calls(self, texts: Sequence[str], error: Exception) -> Plan[_Made] | None:
        """The same texts in smaller calls; where not even one short text is taken, the failure is about something else."""
        if len(texts) == 1:
            vector = self._embed_first_part(texts[0], self._document, error)
            return None if vector is None else vector.then(lambda vector: {texts[0]: vector})
        if not is_too_large(error):
            return None
        half = (len(texts) + 1) // 2
        probe = self._document(min(texts, key=len)[:_SHORT])
        return probe.and_then(lambda _: self._embed(texts, half)).then(partial(self._learn, texts, half))

    def _learn(self, texts: Sequence[str], half: int, made: list[_Made]) -> _Made:
        with self._lock:
            if self._first_parts.keys().isdisjoint(texts):  # else a long text may be what failed, not their number
                self._batch = min(self._batch, half)
        return {text: vector for vectors in made for text, vector in vectors.items()}

    def _embed_first_part(
        self, text: str, embed: Callable[[str], Plan[UnitVectors]], error: Exception
    ) -> Plan[UnitVectors] | None:
        """The vector of the first part that the model takes: half of the text, a quarter, and so on."""
        if not is_too_large(error) or len(text) <= _SHORT:
            return None

        def keep(letters: int, vector: UnitVectors) -> UnitVectors:
            self._keep(self._first_parts, text, letters)
            _log.warning("the embedding model takes the first %d letters of a text of %d", letters, len(text))
            return vector

        def first(letters: int) -> Plan[UnitVectors]:
            part = embed(text[:letters]).then(partial(keep, letters))
            return part.or_else(lambda error: first(letters // 2) if is_too_large(error) and letters > _SHORT else None)

        return embed(text[:_SHORT]).and_then(lambda _: first(len(text) // 2))

    def _document(self, text: str) -> Plan[UnitVectors]:
        return self._documents([text]).then(lambda made: made[text])

    def _documents(self, texts: Sequence[str]) -> Plan[_Made]:
        plan = self._call("embed_documents", list(texts))
        made = stage(plan, "embed", inputs={"texts": [*texts]}, summarize=lambda vectors: {"vectors": len(vectors)})
        return made.then(lambda vectors: self._checked(texts, vectors))

    def _question(self, text: str) -> Plan[UnitVectors]:
        plan = self._call("embed_query", text)
        made = stage(plan, "embed", inputs={"texts": [text]}, summarize=lambda _: {"vectors": 1})
        return made.then(lambda vector: self._checked([text], [vector])[text])

    def _call(self, method: str, texts: str | list[str]) -> Plan[Any]:
        if (vector := self._vector) is not None:  # arrays as they are, not through lists of numbers and back
            return Plan(lambda: vector(texts) if isinstance(texts, str) else list(map(vector, texts)))
        call, acall = (partial(getattr(self.embeddings, name), texts) for name in (method, f"a{method}"))

        def run() -> Any:
            with self._running():
                return call()

        async def arun() -> Any:
            with self._running():
                return await acall()

        own = getattr(type(self.embeddings), f"a{method}") is not getattr(Embeddings, f"a{method}")
        plan = Plan if self._limits is None else self._limits.plan
        return plan(run, arun if own else None)

    def _put_together(
        self, texts: Sequence[str], vectors_by_text: dict[str, UnitVectors], made: Iterable[Mapping[str, UnitVectors]]
    ) -> UnitVectors:
        for vectors in made:
            vectors_by_text |= vectors
            for text, vector in vectors.items():
                self._keep(self._cache, ("text", text), vector)
        if not texts:
            return np.zeros((0, self.dimensions or 0), np.float32)
        return np.stack([vectors_by_text[text] for text in texts])

    # Contract: what a call of the model starts, on its thread or in a copy of its context, cannot call the model again until
    # that call is over. tests/embedding/test_limits_of_models.py::test_embeddings_that_call_their_memory_get_an_error_at_once

    def _refuse_reentrance(self) -> None:
        if any(self in call for call in _RUNNING.get()):
            raise InvalidInputError(
                "these embeddings call the Memory that they embed for, which would never end; give them another Memory"
            )

    @contextmanager
    def _running(self) -> Iterator[None]:
        call = [self]
        token = _RUNNING.set((*_RUNNING.get(), call))
        try:
            yield
        finally:
            call.clear()
            _RUNNING.reset(token)

    def _recall(self, key: _Key) -> UnitVectors | None:
        with self._lock:
            if key in self._cache:
                self._cache.move_to_end(key)
            return self._cache.get(key)

    def _keep(self, store: OrderedDict[K, V], key: K, value: V) -> V:
        with self._lock:
            store[key] = value
            store.move_to_end(key)
            while len(store) > self._most:
                store.popitem(last=False)
        return value

    def _checked(self, texts: Sequence[str], vectors: Sequence[Any]) -> dict[str, UnitVectors]:
        """Unit vectors by text; each is a separate read-only array."""
        rows = vectors if self._vector is not None else _matrix(texts, vectors)
        dimensions = len(rows[0])
        with self._lock:
            if self.dimensions is None:
                self.dimensions = dimensions
        if dimensions != self.dimensions:
            raise EmbeddingMismatchError(
                f"the embedding model returned vectors of {dimensions} dimensions, {self.dimensions} were expected; "
                "use the model that this database was made with, or reindex it with the new one"
            )
        return {text: _unit(text, row) for text, row in zip(texts, rows, strict=True)}


def _unit(text: str, row: NDArray[Any]) -> UnitVectors:
    wide = row.astype(np.float64)
    with np.errstate(over="ignore"):
        length = math.sqrt(wide.dot(wide))
    if not 0 < length < math.inf:
        length = math.hypot(*wide.tolist())  # also where the squares are too large or too small for a float
    if not sys.float_info.min < length < math.inf:
        raise InvalidInputError(
            f"the embedding model returned no usable vector (NaN, infinite or all zeros) for {_beginning(text)}; "
            "leave this text out or use another model"
        )
    unit: UnitVectors = (wide / length).astype(np.float32)
    unit.setflags(write=False)
    return unit


def _matrix(texts: Sequence[str], vectors: Sequence[Sequence[float]]) -> NDArray[np.float64]:
    what = f"{len(texts)} texts, the first {_beginning(texts[0])}"
    if not isinstance(vectors, Sized):
        raise InvalidInputError(
            f"the embedding model returned {quoted(vectors)}, not a list of vectors; check the model"
        )
    if len(vectors) != len(texts):
        raise InvalidInputError(
            f"the embedding model returned {len(vectors)} vectors for {what}; check the model or its server"
        )
    try:
        matrix = np.asarray(vectors, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(
            f"the embedding model did not return equally long lists of numbers for {what}: {error}"
        ) from None
    if matrix.ndim != 2 or matrix.shape[1] == 0:  # noqa: PLR2004 - texts and dimensions
        raise InvalidInputError(
            f"the embedding model returned an array of shape {matrix.shape} for {what}; one flat vector per text is needed"
        )
    return matrix


def _beginning(text: str, most: int = 60) -> str:
    return repr(text if len(text) <= most else f"{text[:most]}…")
