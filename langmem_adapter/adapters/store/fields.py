"""What of an item is embedded, and by which model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from langchain_core.embeddings import Embeddings
from langgraph.store.base import IndexConfig, ensure_embeddings, get_text_at_path, tokenize_path

from langmem_adapter.adapters.calls import only
from langmem_adapter.embedding.embedder import Embedder
from langmem_adapter.embedding.resolve import embedding_limits, fingerprint, resolve_embeddings
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.records.checks import quoted
from langmem_adapter.storage.items import PLACES

if TYPE_CHECKING:
    from langmem_adapter.embedding.embedder import UnitVectors
    from langmem_adapter.memory.parts import Parts

__all__ = ["FieldIndex", "Index", "as_bytes", "field_index"]

Index: TypeAlias = Literal[False] | list[str] | None
"""What a put says about its item: the store's own fields, none, or these paths."""

_WHOLE: Final = "$"
_KEYS: Final = tuple(IndexConfig.__annotations__)


class FieldIndex:
    """The paths of a value that are embedded, and the model that does it.

    Args:
        embedder: Makes the vectors.
        mark: Fingerprint of its model.
        fields: Paths as LangGraph writes them: `"$"` for the whole value as JSON, `"title"`, `"notes[*].text"`.
    """

    def __init__(self, embedder: Embedder, mark: str, fields: object) -> None:
        self.embedder: Final = embedder
        self.mark: Final = mark
        self._fields: Final = _paths(fields, "index['fields']")
        self._written: Final[Any] = fields

    @property
    def config(self) -> IndexConfig:
        """It as LangGraph writes it; `dims` only where they are known already."""
        config = IndexConfig(embed=self.embedder.embeddings, fields=list(self._written))
        if self.embedder.dimensions is not None:
            config["dims"] = self.embedder.dimensions
        return config

    def texts(self, value: Mapping[str, Any], index: Index, name: str) -> list[str]:
        """What is embedded of a value: a text for each path, and for each element that a path finds.

        Paths that find nothing, and blank texts, have no vector; *index* are paths instead of the store's own.

        Raises:
            InvalidInputError: *index* is not understood, or there are too many.
        """
        paths = self._fields if index is None else [] if index is False else _paths(index, "index")
        found = [text for path in paths for text in get_text_at_path(value, path) if text.strip()]
        if len(found) > PLACES:
            raise InvalidInputError(
                f"{name} would have {len(found):,} vectors, {PLACES:,} are allowed; index less of it"
            )
        return found


def field_index(parts: Parts, index: IndexConfig | Literal[False] | None) -> FieldIndex | None:
    """What a store embeds, from its configuration; `None` where it embeds nothing."""
    if index is False:
        return None
    if index is None:
        return FieldIndex(parts.embedder, parts.fingerprint, [_WHOLE])
    if not isinstance(index, Mapping):
        raise InvalidInputError(
            f"index must be None (the memory's own embeddings), False (no vectors) or a mapping, not {type(index).__name__}"
        )
    only(index, _KEYS, "index")
    fields, dims = index.get("fields") or [_WHOLE], index.get("dims")
    if (embed := index.get("embed")) is None:
        if dims is not None:
            raise InvalidInputError(
                "index['dims'] belongs to index['embed']; give both, or neither for the memory's own"
            )
        return FieldIndex(parts.embedder, parts.fingerprint, fields)
    if dims is not None and (isinstance(dims, bool) or not isinstance(dims, int) or dims < 1):
        raise InvalidInputError(f"index['dims'] must be the number of dimensions, at least 1, not {quoted(dims)}")
    vectors, mark = _embeddings(embed, parts, dims)
    limits = embedding_limits(embed, vectors, parts.settings)
    return FieldIndex(Embedder(vectors, dimensions=dims, limits=limits), mark, fields)


def as_bytes(vector: UnitVectors) -> bytes:
    """A vector as it is kept."""
    return vector.astype("<f4", copy=False).tobytes()


def _embeddings(embed: object, parts: Parts, dims: int | None) -> tuple[Embeddings, str]:
    if isinstance(embed, Embeddings | str):
        vectors = resolve_embeddings(embed, parts.settings)
        return vectors, fingerprint(vectors)
    if not callable(embed):
        raise InvalidInputError(
            f"index['embed'] must be Embeddings, a name like 'openai:text-embedding-3-small' or a function of texts, "
            f"not {type(embed).__name__}"
        )
    return ensure_embeddings(embed), _mark_of(embed, dims)


def _mark_of(function: Callable[..., Any], dims: int | None) -> str:
    """A function is known by its name, unless it says otherwise: where it lies changes with every tidying up."""
    own = getattr(function, "fingerprint", None)
    name = getattr(function, "__name__", type(function).__name__)
    return own if isinstance(own, str) else f"function:{name}:{dims or 'any'}"


def _paths(fields: object, name: str) -> list[str | list[str]]:
    if not isinstance(fields, list | tuple) or not all(isinstance(path, str) and path.strip() for path in fields):
        raise InvalidInputError(f"{name} must be a list of paths like ['title', 'notes[*].text'], not {quoted(fields)}")
    return [path if path == _WHOLE else tokenize_path(path) for path in fields]
