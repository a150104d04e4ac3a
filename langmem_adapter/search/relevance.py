"""Relevance, 0 to 1, which compares between queries, and the calibration of an embedding model's cosines.

Unrelated texts have a cosine near 0 with some models and of 0.7 with others (E5, BGE, ada); Chinese and English texts differ.
Question-answer pairs in this package measure it, so it is the same for every scope, process and moment.

Relevance is the share of the question's words that the memory, or the messages around it, hold. A rare word counts more, one
that no memory holds most. A related word ("moved" for "live") counts in part; words of small talk that no memory holds do not
count. Calibrated meaning is added, and can count alone. Figures: `tests/benchmarks/relevance.py`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import time
from concurrent.futures import Future
from dataclasses import asdict, dataclass, replace
from functools import cache, partial, reduce
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from langmem_adapter.errors import StorageError
from langmem_adapter.forks import Lock
from langmem_adapter.search.query import is_talk, lexical_terms
from langmem_adapter.storage import meta
from langmem_adapter.text import groups_of, is_cjk, read_entries
from langmem_adapter.tracing import stage
from langmem_adapter.twins import Outcome, Plan, aattempt, attempt, in_thread, steps

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from langchain_core.embeddings import Embeddings
    from numpy.typing import NDArray
    from sqlalchemy import Connection

    from langmem_adapter.embedding.embedder import Embedder, UnitVectors
    from langmem_adapter.records.results import MemoryItem
    from langmem_adapter.search.query import Question
    from langmem_adapter.search.ranking import Ranked
    from langmem_adapter.search.scope_cache import Load, ScopeCache
    from langmem_adapter.storage.database import Database
    from langmem_adapter.twins import PlanSteps

_log = logging.getLogger("langmem_adapter")

_VERSION: Final = "1"
"""Part of the key; raise it with every change of the pairs or of what is made of them."""
_LEAST: Final = 0.05  # between unrelated and related, and between unrelated and 1
_CLEAR: Final = 2.0  # deviations of unrelated ones that answers must lie above them: English models do not in Chinese
_AGAIN: Final = 60.0  # seconds after which a model that could not be measured is asked again
_PATIENCE: Final = 1.0  # seconds to wait until a scale is kept, while another process writes


@dataclass(frozen=True, slots=True)
class Scale:
    """What the cosines of one model mean."""

    unrelated: float  # mean cosine of a question and what does not answer it
    related: float  # the same of what answers it
    apart: float  # mean cosine of two statements that have nothing in common
    understands: bool = True  # whether a high cosine says something where no word is shared; hashes know only words

    def meaning(self, cosines: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
        """Cosines of a question and memories, brought to 0 for what is unrelated; 1 remains 1.

        Example:
            >>> Scale(unrelated=0.8, related=0.9, apart=0.8).meaning(np.array([0.8, 0.9, 1.0])).round(2).tolist()
            [0.0, 0.5, 1.0]
        """
        return (cosines - self.unrelated) / _room(self.unrelated)

    def likeness(self, cosines: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
        """The same for cosines of two statements."""
        return (cosines - self.apart) / _room(self.apart)

    @property
    def answering(self) -> float:
        """The meaning that what answers a question has with it, on average."""
        return (self.related - self.unrelated) / _room(self.unrelated)


RAW: Final = Scale(unrelated=0.0, related=1.0, apart=0.0, understands=False)
"""Cosines as they are: for who only orders by them."""


def _scale_of(questions: UnitVectors, answers: UnitVectors) -> Scale:
    """The scale of a model, of the unit vectors of questions and of their answers, in the same order."""
    cosines, alike = questions @ answers.T, answers @ answers.T
    others = ~np.eye(len(answers), dtype=np.bool_)
    unrelated, answering = float(cosines[others].mean()), float(cosines.diagonal().mean())
    related = max(answering, unrelated + _LEAST * _room(unrelated))
    understands = answering - unrelated > _CLEAR * float(cosines[others].std())
    return Scale(unrelated, related, float(alike[others].mean()), understands)


def _room(unrelated: float) -> float:
    return max(1 - unrelated, _LEAST)


class Calibration:
    """The scales of an embedding model, one for Chinese questions and one for all others. Safe to use from many threads.

    A model that is called over a network is measured once for each database, which keeps the scales. Where it fails, cosines
    are taken as they are, a warning says so, and it is measured again a minute later.
    """

    def __init__(self, database: Database, embedder: Embedder, fingerprint: str) -> None:
        self._database = database
        self._embedder = embedder
        self._fingerprint = fingerprint
        self.is_hashed: Final = fingerprint.startswith("hash:")
        self._scales: dict[str, Scale] = {}
        self._failed: dict[str, float] = {}  # when each will be asked again
        self._running: dict[str, Future[Scale]] = {}
        self._lock = Lock()

    @steps
    def of(self, text: str) -> PlanSteps[Scale]:
        """The scale for a question or statement."""
        name = "CHINESE" if is_cjk(text) else "ENGLISH"
        if name in self._scales:
            return self._scales[name]
        if time.monotonic() < self._failed.get(name, 0.0):
            return RAW
        if self._embedder.asks_nobody:
            scale = yield from Plan(partial(_measure, self._embedder.embeddings, *_pairs(name)))
            return self._remember(name, scale)
        stored = yield from Plan(partial(self._stored, name))
        return (yield from self._once(name)) if stored is None else stored

    def _key(self, name: str) -> str:
        digest = blake2b(self._fingerprint.encode(), digest_size=16).hexdigest()
        return f"calibration/{_VERSION}/{name[:2]}/{digest}"

    def _stored(self, name: str) -> Scale | None:
        kept = self._database.fetch(meta.get, self._key(name))
        return None if kept is None else self._remember(name, _read(kept))

    def _once(self, name: str) -> Plan[Scale]:
        """Measured by one of those who need it at the same time, for all of them."""

        def run() -> Scale:
            waiting, ours = self._claim(name)
            return self._end(name, waiting, attempt(self._plan_measurement(name).run)) if ours else waiting.result()

        async def arun() -> Scale:
            waiting, ours = self._claim(name)
            if ours:
                return self._end(name, waiting, await aattempt(self._plan_measurement(name).arun))
            return await asyncio.wrap_future(waiting)

        return Plan(run, arun)

    def _claim(self, name: str) -> tuple[Future[Scale], bool]:
        with self._lock:
            ours = name not in self._running
            return self._running.setdefault(name, Future()), ours

    def _end(self, name: str, waiting: Future[Scale], outcome: Outcome[Scale]) -> Scale:
        # Contract: whatever comes of it, callers that wait get a scale, and none waits for a measurement that has ended.
        # `test_a_model_that_cannot_be_measured_is_searched_with_all_the_same`
        scale = outcome.result if outcome.error is None else RAW
        if outcome.error is not None:
            self._failed[name] = time.monotonic() + _AGAIN
            _log.warning(
                "the embedding model could not be calibrated; its cosines are taken as they are: %s", outcome.error
            )
        with self._lock:
            del self._running[name]
        waiting.set_result(scale)
        if outcome.error is not None and not isinstance(outcome.error, Exception):  # an interrupt is the caller's own
            raise outcome.error
        return scale

    @steps
    def _plan_measurement(self, name: str) -> PlanSteps[Scale]:
        calls = stage(self._measured(name), "calibrate", inputs={"language": name.lower()}, summarize=asdict)
        scale = yield from calls
        return (yield from Plan(partial(self._store, name, scale)))

    @steps
    def _measured(self, name: str) -> PlanSteps[Scale]:
        questions, answers = _pairs(name)
        each = Plan.each(lambda text: Plan.calling(self._embedder.query, self._embedder.aquery, text), questions)
        vectors = yield from each
        others = yield from Plan.calling(self._embedder.vectors, self._embedder.avectors, answers)
        return _scale_of(np.stack(vectors), others)

    def _store(self, name: str, scale: Scale) -> Scale:
        # Contract: of processes that measure at once all go by the scale that was written first, so that relevance is the
        # same in each; who finds the database locked goes on with its own, and keeps it when it can.
        # `test_all_processes_go_by_the_scale_that_was_kept_first`
        self._remember(name, scale)
        writing = in_thread(
            lambda: self._remember(name, self._database.write(partial(_first, key=self._key(name), scale=scale)))
        )
        try:
            return writing.result(_PATIENCE)
        except (StorageError, TimeoutError):  # where nothing can be written, there can still be searched
            return scale

    def _remember(self, name: str, scale: Scale) -> Scale:
        self._scales[name] = scale
        return scale


def _measure(embeddings: Embeddings, questions: Sequence[str], answers: Sequence[str]) -> Scale:
    vectors = [embeddings.embed_query(text) for text in questions], embeddings.embed_documents([*answers])
    matrices = (np.array(each, np.float32) for each in vectors)
    scale = _scale_of(*(matrix / np.linalg.norm(matrix, axis=1, keepdims=True) for matrix in matrices))
    return replace(scale, understands=False)


def _first(connection: Connection, key: str, scale: Scale) -> Scale:
    kept = meta.get(connection, key)
    if kept is not None:
        return _read(kept)
    meta.put(connection, key, json.dumps(asdict(scale)))
    return scale


def _read(kept: str) -> Scale:
    return Scale(**json.loads(kept))


@cache
def _pairs(name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Questions, and their answers."""
    lines = read_entries(Path(__file__).with_name("pairs.txt"))[name].split("\n")
    questions, answers = zip(*(line.split(" | ") for line in lines), strict=True)
    return questions, answers


RELEVANT: Final = 0.25
"""Least relevance of a memory that belongs into a prompt (`threshold="auto"`).

With hash embeddings, of the questions that can be answered 0.97 (LoCoMo), 0.95 (REALTALK), 0.96 (BEAM) and 0.98 (MemoryBank)
find something; of questions about other data sets 0.30, 0.37, 0.08 and 0.09. Of 30 short facts 24 are found; the others share
no word with their question.
"""

_WORDS: Final = 0.8  # share of the words; meaning has the rest
_ALONE: Final = 0.6  # of meaning where no word is shared
_RELATED: Final = 0.4  # of the only word of a query, where a related one is found ("divorced" for "married")
_RELATED_BESIDE: Final = 0.3  # the same beside other words, so that a related word alone does not reach `RELEVANT`
_COMMON: Final = 1.0  # how fast a word loses weight with the memories that hold it
_BY_ANOTHER: Final = 0.8  # of what is said neither by nor of a person whom the query names


def relevance(
    ranked: Ranked, items: Sequence[MemoryItem], question: Question, cache: ScopeCache, load: Load, scale: Scale | None
) -> NDArray[np.float64]:
    """How well each of some memories, ranked and fetched, answers a query, 0 to 1; without a scale everything is asked for."""
    if scale is None:
        return np.ones(len(ranked))
    if ranked.window is not None and not ranked.window.topic:
        return (ranked.window.lying > 0).astype(np.float64)
    places = np.searchsorted(cache.columns.pks, ranked.pks)
    near = np.minimum(np.maximum(ranked.meaning / scale.answering, 0.0), 1.0)  # `clip` takes twice as long
    worth = _WORDS * _answered(ranked, places, question, cache, load) + (1 - _WORDS) * near
    if scale.understands:
        worth = np.maximum(worth, _ALONE * near)
    named = cache.stated_by(question.names)  # `None` where the query names no speaker, or all
    if named is not None:
        concerned = named[places]
        for place in np.flatnonzero(~concerned).tolist():
            text = items[place].text.casefold()
            concerned[place] = any(name in text for name in question.names)
        worth = np.where(concerned, worth, _BY_ANOTHER * worth)
    answers: NDArray[np.float64] = np.minimum(worth, 1.0)
    return answers


def _answered(
    ranked: Ranked, places: NDArray[np.int64], question: Question, cache: ScopeCache, load: Load
) -> NDArray[np.float64]:
    """The share of the query that each memory answers: its words or related ones; beside them, the time that it names."""
    most, answered = 0.0, np.zeros(len(places))
    terms = question.terms if ranked.window is None else ranked.window.topic
    for shares, holders in _term_shares(places, terms, question, cache, load):
        weight = 1 / (1 + _COMMON * math.log1p(holders))
        most, answered = most + weight, answered + weight * shares
    if ranked.window is not None:
        most, answered = most + 1, np.where(answered > 0, answered + ranked.window.lying, 0.0)
    share: NDArray[np.float64] = answered / max(most, 1e-9)
    return share if ranked.graph is None else np.maximum(share, ranked.graph)


def _term_shares(
    places: NDArray[np.int64], wanted: frozenset[str], question: Question, cache: ScopeCache, load: Load
) -> Iterator[tuple[NDArray[np.float64], int]]:
    """For each wanted word how far each memory holds it, or a related one, and how many of all do."""
    groups, terms = sorted(question.groups), sorted(lexical_terms(wanted))
    alone = sum(not is_talk(term, question.language) for term in terms) <= 1
    worth = _RELATED if alone else _RELATED_BESIDE
    related = dict(zip(groups, cache.flags(groups, places, load), strict=True))
    for term, (flags, count) in zip(terms, cache.flags(terms, places, load), strict=True):
        near = [related[group] for group in groups_of([term], question.language)]
        holders = max([count, *(many for _, many in near)])
        if holders or not is_talk(term, question.language):
            yield reduce(np.maximum, [worth * others for others, _ in near], flags.astype(float)), holders
