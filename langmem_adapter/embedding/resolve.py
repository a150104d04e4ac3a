"""From the name of embeddings to `Embeddings`, and the fingerprint that tells one model's vectors from another's."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from langchain_core.embeddings import Embeddings

from langmem_adapter.addresses import shown
from langmem_adapter.embedding.hashing import HashEmbeddings, LocalEmbeddings
from langmem_adapter.embedding.static import StaticEmbeddings
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.limits import Limits, limits_of
from langmem_adapter.providers import is_openai, patiently_made, provider_errors, server_options

if TYPE_CHECKING:
    from langmem_adapter.settings import Settings

__all__ = ["embedding_limits", "fingerprint", "resolve_embeddings"]

_HASH: Final = re.compile(r"hash(?::(\d{1,6}))?")
_FORMS: Final = "write 'static', 'hash:512', or 'provider:name' as in 'openai:text-embedding-3-small'"


def resolve_embeddings(spec: str | Embeddings, settings: Settings) -> Embeddings:
    """The embeddings for a name.

    Args:
        spec: `"static"`, `"hash"`, `"hash:512"`, a name for LangChain's `init_embeddings`, or embeddings, used as they are.
        settings: `base_url` and `api_key` for a name.

    Raises:
        InvalidInputError: The name is not understood, or the key is missing.
        MissingDependencyError: The provider's package, or the extra `static`, is not installed.

    Example:
        >>> from langmem_adapter.settings import Settings
        >>> resolve_embeddings("hash:64", Settings()).dimensions
        64
    """
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
        raise InvalidInputError(f"static embeddings have no size to choose, as {shown(spec)!r} would; write 'static'")
    if ":" not in spec:
        raise InvalidInputError(f"there are no embeddings {shown(spec)!r}; {_FORMS}")
    return _from_name(spec, settings)


def embedding_limits(spec: object, embeddings: Embeddings, settings: Settings) -> Limits | None:
    """The limits for what `resolve_embeddings` made of *spec*; embeddings made in this process need none."""
    return None if isinstance(embeddings, LocalEmbeddings) else limits_of(spec, embeddings, settings)


def fingerprint(embeddings: Embeddings) -> str:
    """What identifies the vectors of these embeddings, the same in every process.

    Two embeddings of the same class, model and dimensions have one fingerprint, whatever server they ask. What a class
    keeps in other attributes is not seen; give it a `fingerprint` text of its own if it should be.

    Example:
        >>> fingerprint(HashEmbeddings(512))
        'hash:512/2'
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

    with provider_errors(f"embeddings {shown(name)!r}", form=_FORMS):
        make = partial(init_embeddings, name, **server_options(name, settings), **_length_check(name, settings))
        return patiently_made(make, settings)


def _length_check(name: str, settings: Settings) -> dict[str, Any]:
    # OpenAI's client would download token tables to check lengths; another server's model has other tokens anyway.
    return {"check_embedding_ctx_length": False} if settings.base_url is not None and is_openai(name) else {}
