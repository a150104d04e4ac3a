"""Hash embeddings: vectors of a text's own words and letters, without a model, a key or a download."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import xxhash
from langchain_core.embeddings import Embeddings

from langmem_adapter.caches import remembered
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.records.checks import quoted
from langmem_adapter.text import is_cjk, meaningful, words

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["HashEmbeddings", "LocalEmbeddings"]

_LEAST: Final = 8
_MOST: Final = 8192
_FUNCTION_WORD: Final = 0.15  # "the", "has": they mark style, hardly meaning
_PAIR: Final = 0.4
_GRAM: Final = 0.35
_SPELLING: Final = "spelling "


class LocalEmbeddings(Embeddings, ABC):
    """Embeddings that are made in this process, one text at a time, alike for questions and statements."""

    @abstractmethod
    def vector(self, text: str) -> NDArray[np.float32]:
        """The unit vector of one text; whatever the text, it has one."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """One unit vector per text, in order."""
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """The unit vector of one text."""
        values: list[float] = self.vector(text).tolist()
        return values


class HashEmbeddings(LocalEmbeddings):
    """Unit vectors from hashed words, word pairs and letter trigrams.

    Texts that share words, or words that share letters, are near each other; synonyms are not, so this is no replacement
    for an embedding model, only an honest stand-in that runs anywhere and gives the same vector for ever: words in Latin
    letters are stemmed by English rules, whatever the language of the database. Feature hashing
    follows Weinberger et al. (2009, arXiv:0902.2206): every feature adds its weight, with a sign, at one place.

    Args:
        dimensions: Length of the vectors, 8 to 8,192. Below 256 unrelated texts begin to look alike.

    Raises:
        InvalidInputError: *dimensions* is out of range.

    Example:
        >>> vector = HashEmbeddings(64).embed_query("Likes hiking in the Alps")
        >>> len(vector), round(sum(x * x for x in vector), 6)
        (64, 1.0)
    """

    version: Final = "2"
    """Part of the fingerprint; raise it when the same text would get another vector."""

    def __init__(self, dimensions: int = 512) -> None:
        if isinstance(dimensions, bool) or not isinstance(dimensions, int) or not _LEAST <= dimensions <= _MOST:
            raise InvalidInputError(f"hash embeddings have {_LEAST} to {_MOST} dimensions, not {quoted(dimensions)}")
        self.dimensions = dimensions

    def vector(self, text: str) -> NDArray[np.float32]:
        """The unit vector of one text; a text without words gets the vector of its letters."""
        vector = np.zeros(self.dimensions, np.float32)
        if marks := _marks(text, self.dimensions):
            places, weights = [place for place, _ in marks], [weight for _, weight in marks]
            np.add.at(vector, np.array(places), np.array(weights, np.float32))
        length = math.sqrt(vector.dot(vector))
        if length == 0.0:  # no words at all, or features that cancelled each other out exactly
            vector[_mark(_SPELLING + text, 1.0, self.dimensions)[0]] = length = 1.0
        return vector / np.float32(length)


_Mark: TypeAlias = tuple[int, float]


def _marks(text: str, dimensions: int) -> list[_Mark]:
    """Places and weights of a text's features, in an order that is always the same: sums of floats depend on it."""
    terms = words(text)
    telling = meaningful(terms)
    told = [term for term in terms if term in telling]
    marks = [_mark(term, 1.0 if term in telling else _FUNCTION_WORD, dimensions) for term in terms]
    marks += [_mark(f"{first} {second}", _PAIR, dimensions) for first, second in pairwise(told)]
    for term in dict.fromkeys(told):
        if not is_cjk(term):  # letters and pairs of these scripts are features already
            marks += _grams(term, dimensions)
    return marks


@remembered(16_384)
def _grams(term: str, dimensions: int) -> tuple[_Mark, ...]:
    grams = re.findall(r"(?=(...))", f"<{term}>")
    return tuple(_mark(f"~{gram}", _GRAM / max(1.0, len(grams) ** 0.5), dimensions) for gram in grams)


@remembered(65_536)
def _mark(feature: str, weight: float, dimensions: int) -> _Mark:
    digest = xxhash.xxh3_64_intdigest(feature.encode(errors="surrogatepass"))
    return (digest >> 1) % dimensions, weight if digest & 1 else -weight
