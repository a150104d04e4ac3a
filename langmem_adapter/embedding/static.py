"""Static embeddings: a vector for each piece of a word, learned once and averaged; offline, without a model to run.

The vectors are WordLlama's (github.com/dleemiller/WordLlama, MIT), as its wheel brings them: 32,000 pieces of words, 256
numbers each. Its own code is not imported, since that sets up the log of the whole program and may download.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import xxhash

from langmem_adapter.embedding.hashing import HashEmbeddings, LocalEmbeddings
from langmem_adapter.errors import MissingDependencyError
from langmem_adapter.forks import cached_property
from langmem_adapter.text import is_cjk

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from tokenizers import Tokenizer

__all__ = ["StaticEmbeddings", "is_installed"]

_PACKAGE: Final = "wordllama"
_WEIGHTS: Final = "weights/l2_supercat_256.safetensors"
_TOKENIZER: Final = "tokenizers/l2_supercat_tokenizer_config.json"
_DIMENSIONS: Final = 256
_HASHED: Final = HashEmbeddings(_DIMENSIONS)
# Of Chinese the tokenizer knows 700 characters, the rest are bytes to it. Nearness alone finds .70 of the evidence of
# MemoryBank's 100 Chinese questions among ten with this share, .63 without any (MRR .43 and .35); words beside it level that.
_CJK: Final = 0.5
_MOST: Final = 16_384


class StaticEmbeddings(LocalEmbeddings):
    """Unit vectors of 256 numbers: the mean of what each piece of a word means by itself, whatever stands beside it.

    Texts that say the same in other words are near each other, which hash embeddings cannot see. A query takes some twenty
    microseconds; nothing is downloaded or written. The pieces are those of an English tokenizer, so the vector of Chinese,
    Japanese and Korean text is half one of hashed characters. Of a text the first 16,384 characters count.

    Safe to use from many threads and in forked children: one text is split at a time, so no thread of the tokenizer is ever
    started. The weights take 16 MB, read with the first text.

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
        held = xxhash.xxh3_64(f"{self.version} {_HASHED.version}".encode())
        for name in (_WEIGHTS, _TOKENIZER):
            held.update((self._folder / name).read_bytes())
        return f"static/{held.hexdigest()}"

    def vector(self, text: str) -> NDArray[np.float32]:
        """The unit vector of one text; a text without anything in it has one, too."""
        text = text[:_MOST].encode(errors="replace").decode()  # half of a surrogate pair is nothing to the tokenizer
        pieces = self._tokenizer.encode(text, add_special_tokens=False).ids
        if not pieces:
            return _HASHED.vector(text)
        hashed = _CJK * _share_of_cjk(text)
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


def is_installed() -> bool:
    """Whether the extra `static` is there."""
    return _installed() is not None


def _folder() -> Path:
    folder = _installed()
    if folder is None:
        raise MissingDependencyError(_PACKAGE, extra="static")
    return folder


def _installed() -> Path | None:
    found = find_spec(_PACKAGE)
    folder = Path(found.origin).parent if found is not None and found.origin is not None else None
    return folder if folder is not None and (folder / _WEIGHTS).is_file() else None


def _share_of_cjk(text: str) -> float:
    return sum(map(is_cjk, text)) / sum(not letter.isspace() for letter in text) if is_cjk(text) else 0.0


def _unit(vector: NDArray[np.float32]) -> NDArray[np.float32]:
    return vector / np.linalg.norm(vector)
