"""Embeddings by name: a provider's model, static vectors, hash vectors; and the fingerprint of each.

The vectors are WordLlama's (github.com/dleemiller/WordLlama, MIT), as its wheel brings them: 32,000 pieces of words, 256
numbers each. Its own code is not imported, since that sets up the log of the whole program and may download.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from functools import partial
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import xxhash
from langchain_core.embeddings import Embeddings

from langmem_adapter.errors import InvalidInputError, MissingDependencyError
from langmem_adapter.forks import bounded_cache, cached_property
from langmem_adapter.providers import Limits, is_openai, limits_of, make_with_timeout, provider_errors, server_options
from langmem_adapter.records.checks import quoted, redact_url
from langmem_adapter.text import is_cjk, meaningful, words

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from tokenizers import Tokenizer

    from langmem_adapter.settings import Settings

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

    Texts that share words, or words that share letters, are near each other; synonyms are not. They run anywhere and give the
    same vector for ever: words in Latin letters are stemmed by English rules, whatever the language of the database. Feature
    hashing follows Weinberger et al. (2009, arXiv:0902.2206): every feature adds its weight, with a sign, at one place.

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
    content = [term for term in terms if term in telling]
    marks = [_mark(term, 1.0 if term in telling else _FUNCTION_WORD, dimensions) for term in terms]
    marks += [_mark(f"{first} {second}", _PAIR, dimensions) for first, second in pairwise(content)]
    for term in dict.fromkeys(content):
        if not is_cjk(term):  # letters and pairs of these scripts are features already
            marks += _grams(term, dimensions)
    return marks


@bounded_cache(16_384)
def _grams(term: str, dimensions: int) -> tuple[_Mark, ...]:
    grams = re.findall(r"(?=(...))", f"<{term}>")
    return tuple(_mark(f"~{gram}", _GRAM / max(1.0, len(grams) ** 0.5), dimensions) for gram in grams)


@bounded_cache(65_536)
def _mark(feature: str, weight: float, dimensions: int) -> _Mark:
    digest = xxhash.xxh3_64_intdigest(feature.encode(errors="surrogatepass"))
    return (digest >> 1) % dimensions, weight if digest & 1 else -weight


_PACKAGE: Final = "wordllama"
_WEIGHTS: Final = "weights/l2_supercat_256.safetensors"
_TOKENIZER: Final = "tokenizers/l2_supercat_tokenizer_config.json"
_DIMENSIONS: Final = 256
_HASHED: Final = HashEmbeddings(_DIMENSIONS)
# The tokenizer has 700 Chinese characters and reads the rest as bytes. On MemoryBank's 100 Chinese questions, recall@10 of
# vectors alone is 0.70 with this share and 0.63 without (MRR 0.43 and 0.35). With word search both are equal.
_CJK: Final = 0.5
_MOST_PIECES: Final = 16_384


class StaticEmbeddings(LocalEmbeddings):
    """Unit vectors of 256 numbers: the mean of static vectors of the pieces of words.

    Texts that say the same in other words are near each other, which hash embeddings cannot see. Nothing is downloaded or
    written. The tokenizer is English, so the vector of Chinese, Japanese and Korean text is half one of hashed characters. Of a
    text the first 16,384 characters count. Safe to use from many threads and in forked children. The weights take 16 MB.

    Raises:
        MissingDependencyError: The extra `static` is not installed.

    Example:
        >>> vectors = np.array(
        ...     StaticEmbeddings().embed_documents(["My puppy is ill", "The dog is sick", "I play chess"])
        ... )
        >>> bool(vectors[0] @ vectors[1] > 2 * (vectors[0] @ vectors[2]))
        True
    """

    version: Final = "1"
    """Part of the fingerprint; raise it when the same text would get another vector from the same weights."""

    def __init__(self) -> None:
        self._folder: Final = _folder()

    @cached_property
    def fingerprint(self) -> str:
        """What identifies these vectors: this class, hash embeddings, and what the two files hold."""
        digest = xxhash.xxh3_64(f"{self.version} {_HASHED.version}".encode())
        for name in (_WEIGHTS, _TOKENIZER):
            digest.update((self._folder / name).read_bytes())
        return f"static/{digest.hexdigest()}"

    def vector(self, text: str) -> NDArray[np.float32]:
        """The unit vector of one text; a text without anything in it has one, too."""
        text = (
            text[:_MOST_PIECES].encode(errors="replace").decode()
        )  # half of a surrogate pair is nothing to the tokenizer
        pieces = self._tokenizer.encode(text, add_special_tokens=False).ids
        if not pieces:
            return _HASHED.vector(text)
        visible = sum(not letter.isspace() for letter in text)
        hashed = _CJK * sum(map(is_cjk, text)) / visible if is_cjk(text) else 0.0
        mixed = _unit(self._weights[pieces].mean(axis=0, dtype=np.float32)) * np.float32((1 - hashed) ** 0.5)
        return _unit(mixed + _HASHED.vector(text) * np.float32(hashed**0.5)) if hashed else mixed

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        from tokenizers import Tokenizer  # noqa: PLC0415 - an extra

        return Tokenizer.from_file(str(self._folder / _TOKENIZER))

    @cached_property
    def _weights(self) -> NDArray[np.float16]:
        from safetensors.numpy import load_file  # noqa: PLC0415 - an extra

        return load_file(self._folder / _WEIGHTS)["embedding.weight"]


def has_static_embeddings() -> bool:
    """Whether the extra `static` is there."""
    return _installed() is not None


def _folder() -> Path:
    folder = _installed()
    if folder is None:
        raise MissingDependencyError(_PACKAGE, extra="static")
    return folder


def _installed() -> Path | None:
    spec = find_spec(_PACKAGE)
    folder = Path(spec.origin).parent if spec is not None and spec.origin is not None else None
    return folder if folder is not None and (folder / _WEIGHTS).is_file() else None


def _unit(vector: NDArray[np.float32]) -> NDArray[np.float32]:
    return vector / np.linalg.norm(vector)


_HASH: Final = re.compile(r"hash(?::(\d{1,6}))?")
_FORMS: Final = "write 'static', 'hash:512', or 'provider:name' as in 'openai:text-embedding-3-small'"


def resolve_embeddings(spec: str | Embeddings, settings: Settings) -> Embeddings:
    """The embeddings for `"static"`, `"hash"`, `"hash:512"`, or a name for LangChain's `init_embeddings`."""
    if isinstance(spec, Embeddings):
        return spec
    if not isinstance(spec, str):
        raise InvalidInputError(f"embeddings must be a name or LangChain Embeddings, not {type(spec).__name__}")
    if spec == "static":
        return StaticEmbeddings()
    hashed = _HASH.fullmatch(spec)
    if hashed is not None:
        return HashEmbeddings(int(hashed[1])) if hashed[1] else HashEmbeddings()
    if spec.startswith("static:"):
        raise InvalidInputError(
            f"static embeddings have no size to choose, as {redact_url(spec)!r} would; write 'static'"
        )
    if ":" not in spec:
        raise InvalidInputError(f"there are no embeddings {redact_url(spec)!r}; {_FORMS}")
    return _from_name(spec, settings)


def embedding_limits(spec: object, embeddings: Embeddings, settings: Settings) -> Limits | None:
    """The limits for what `resolve_embeddings` made of *spec*; embeddings made in this process need none."""
    return None if isinstance(embeddings, LocalEmbeddings) else limits_of(spec, embeddings, settings)


def fingerprint(embeddings: Embeddings) -> str:
    """What identifies the vectors of these embeddings, the same in every process.

    Two embeddings of the same class, model and dimensions have one fingerprint, whatever server they ask. Other attributes
    do not count. Where they should, give the class its own `fingerprint` text.
    """
    if isinstance(embeddings, HashEmbeddings):
        return f"hash:{embeddings.dimensions}/{embeddings.version}"
    own = getattr(embeddings, "fingerprint", None)
    if isinstance(own, str):
        return own
    cls = type(embeddings)
    parts = [f"{cls.__module__.partition('.')[0]}.{cls.__qualname__}"]
    for names in (("model", "model_name", "model_id", "deployment"), ("dimensions", "size", "output_dimensionality")):
        values = (getattr(embeddings, name, None) for name in names)
        part = next(
            (str(value) for value in values if isinstance(value, str | int) and not isinstance(value, bool)), None
        )
        if part:
            parts.append(part)
    return ":".join(parts)


def _from_name(name: str, settings: Settings) -> Embeddings:
    from langchain.embeddings import init_embeddings  # noqa: PLC0415 - langchain is slow to import, and offline needs none

    with provider_errors(f"embeddings {redact_url(name)!r}", form=_FORMS):
        options = server_options(name, settings)
        if settings.base_url is not None and is_openai(name):
            # OpenAI's client would download token tables to check lengths; another server's model has other tokens anyway.
            options = {**options, "check_embedding_ctx_length": False}
        return make_with_timeout(partial(init_embeddings, name, **options), settings)
