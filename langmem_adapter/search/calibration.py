"""Calibrated meaning: what a cosine says, whichever model made the vectors.

Unrelated texts have a cosine near 0 with some models, and of .7 with others (E5, BGE, ada), of Chinese texts often another
one than of English texts. Questions and answers that come with this package say where "unrelated" lies: nothing is learned
from anybody's memories, so that it is the same for every scope, process and moment.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from langmem_adapter.errors import StorageError
from langmem_adapter.storage import meta
from langmem_adapter.text import is_cjk
from langmem_adapter.tracing import stage
from langmem_adapter.twins import Plan
from langmem_adapter.vocabulary import entries

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.embeddings import Embeddings
    from numpy.typing import NDArray
    from sqlalchemy import Connection

    from langmem_adapter.embedding.embedder import Embedder, UnitVectors
    from langmem_adapter.storage.database import Database

__all__ = ["RAW", "Calibration", "Scale"]

_VERSION: Final = "1"
"""Part of the key; raise it with every change of the pairs or of what is made of them."""
_MOST: Final = (
    0.95  # of a cosine of unrelated texts: a model that says the same of everything has nothing to be brought out
)
_LEAST: Final = 0.05  # between unrelated and related


@dataclass(frozen=True, slots=True)
class Scale:
    """What the cosines of one model mean.

    Attributes:
        unrelated: Mean cosine of a question and what does not answer it.
        related: The same of what answers it.
        apart: Mean cosine of two statements that have nothing in common.
        understands: Whether a high cosine says something where no word is shared; hashes know nothing but words.
    """

    unrelated: float
    related: float
    apart: float
    understands: bool = True

    def meaning(self, cosines: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
        """Cosines of a question and memories, brought to 0 for what is unrelated; 1 remains 1.

        Example:
            >>> Scale(unrelated=0.8, related=0.9, apart=0.8).meaning(np.array([0.8, 0.9, 1.0])).round(2).tolist()
            [0.0, 0.5, 1.0]
        """
        return (cosines - self.unrelated) / (1 - self.unrelated)

    def likeness(self, cosines: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
        """The same for cosines of two statements."""
        return (cosines - self.apart) / (1 - self.apart)

    @property
    def answering(self) -> float:
        """The meaning that what answers a question has with it, on average."""
        return (self.related - self.unrelated) / (1 - self.unrelated)


RAW: Final = Scale(unrelated=0.0, related=1.0, apart=0.0)
"""Cosines as they are: for who only orders by them."""


def _scale_of(questions: UnitVectors, answers: UnitVectors) -> Scale:
    """The scale of a model.

    Args:
        questions: Unit vectors of questions, shape (n, dimensions).
        answers: Unit vectors of their answers, in the same order.
    """
    asked, alike = questions @ answers.T, answers @ answers.T
    others = ~np.eye(len(answers), dtype=np.bool_)
    unrelated = min(float(asked[others].mean()), _MOST)
    related = max(float(asked.diagonal().mean()), unrelated + _LEAST * (1 - unrelated))
    return Scale(unrelated, related, min(float(alike[others].mean()), _MOST))


class Calibration:
    """The scales of an embedding model, one for questions in Chinese letters and one for all others.

    A model that is asked over a network is asked once for each database, and its scales are kept there; they are found anew
    where the model is another one. Of embeddings made in this process nothing is kept: they are the same in every one.
    Safe to use from many threads; two that need a scale at the same time may both ask for it, and go by the one kept first.

    Args:
        database: Where they are kept.
        embedder: Makes the vectors.
        fingerprint: Of the embedding model.
    """

    def __init__(self, database: Database, embedder: Embedder, fingerprint: str) -> None:
        self._database = database
        self._embedder = embedder
        self._fingerprint = fingerprint
        self._known: dict[str, Scale] = {}

    def of(self, text: str) -> Plan[Scale]:
        """The scale for a question or statement."""
        name = "CHINESE" if is_cjk(text) else "ENGLISH"
        if name in self._known:
            return Plan.known(self._known[name])
        if self._embedder.asks_nobody:
            found = partial(_measured, self._embedder.embeddings, *_pairs(name))
            return Plan(lambda: self._knowing(name, replace(found(), understands=False)))
        kept = Plan(lambda: self._kept(name))
        return kept.and_then(lambda scale: self._asking(name) if scale is None else Plan.known(scale))

    def _key(self, name: str) -> str:
        digest = blake2b(self._fingerprint.encode(), digest_size=16).hexdigest()
        return f"calibration/{_VERSION}/{name[:2]}/{digest}"

    def _kept(self, name: str) -> Scale | None:
        with self._database.read() as connection:
            kept = meta.get(connection, self._key(name))
        return None if kept is None else self._knowing(name, _read(kept))

    def _asking(self, name: str) -> Plan[Scale]:
        questions, answers = _pairs(name)
        each = Plan.each(lambda text: Plan.calling(self._embedder.query, self._embedder.aquery, text), questions)
        told = Plan.calling(self._embedder.vectors, self._embedder.avectors, answers)
        measured = each.and_then(lambda asked: told.then(lambda others: _scale_of(np.stack(asked), others)))
        calls = stage(measured, "calibrate", inputs={"language": name.lower()}, shown=asdict)
        return calls.and_then(lambda scale: Plan(lambda: self._keeping(name, scale)))

    def _keeping(self, name: str, scale: Scale) -> Scale:
        # Contract: of processes that measure at once all go by the scale that was written first, so that relevance is the
        # same in each. `test_all_processes_go_by_the_scale_that_was_kept_first`
        try:
            scale = self._database.write(lambda connection: _first(connection, self._key(name), scale))
        except StorageError:  # where nothing can be written, there can still be searched
            return self._knowing(name, scale)
        return self._knowing(name, scale)

    def _knowing(self, name: str, scale: Scale) -> Scale:
        self._known[name] = scale
        return scale


def _measured(embeddings: Embeddings, questions: Sequence[str], answers: Sequence[str]) -> Scale:
    return _scale_of(
        _units([embeddings.embed_query(text) for text in questions]), _units(embeddings.embed_documents([*answers]))
    )


def _units(vectors: Sequence[Sequence[float]]) -> UnitVectors:
    matrix = np.array(vectors, np.float32)
    units: UnitVectors = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
    return units


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
    lines = entries(Path(__file__).with_name("pairs.txt"))[name].split("\n")
    questions, answers = zip(*(line.split(" | ") for line in lines), strict=True)
    return questions, answers
