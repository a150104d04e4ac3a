"""Mem0's rerankers by name: LangChain compressors, and one that asks the chat model."""

from __future__ import annotations

import json
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.language_models.chat_models import BaseChatModel  # noqa: TC002 - a field's type
from langchain_core.runnables import RunnableConfig
from pydantic import Field

from langmem_adapter.adapters.mem0.models import Construction, chat_model, langchain_object
from langmem_adapter.adapters.mem0.sections import Section, section
from langmem_adapter.adapters.mem0.tables import chosen, imported
from langmem_adapter.errors import InvalidInputError, ModelError
from langmem_adapter.limits import limits_of
from langmem_adapter.reasoning.json_text import UnusableReplyError, json_values
from langmem_adapter.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from langchain_core.callbacks import Callbacks

__all__ = ["ChatReranker", "reranker"]

_log = logging.getLogger("langmem_adapter")

_WHERE: Final = "config.reranker"
_LLM: Final = "llm_reranker"
_INSTRUCTIONS: Final = (
    "Score how relevant each document is to the query: 1.0 answers it directly, 0.5 is somewhat relevant, 0.0 is not."
)
_FORM: Final = 'Reply with JSON alone, one score from 0.0 to 1.0 for each document in its order: {"scores": [0.0, …]}'


def _cross_encoder(package: str) -> Callable[..., BaseDocumentCompressor]:
    encoder = imported("langchain_community.cross_encoders:HuggingFaceCrossEncoder", package)
    compressor = imported("langchain_classic.retrievers.document_compressors:CrossEncoderReranker", package)
    return lambda *, top_n, **model: compressor(model=encoder(**model), top_n=top_n)


def reranker(section: Section | None, model: BaseChatModel | None) -> BaseDocumentCompressor | None:
    """What orders the best hits once more, of `config.reranker`; *model* is the chat model of the configuration.

    Raises:
        InvalidInputError: The provider is unknown, an option cannot be honoured, or the key is missing.
        MissingDependencyError: The provider's package is not installed.
    """
    if section is None:
        return None
    provider, options = section
    if provider == "langchain":
        wanted = "a LangChain BaseDocumentCompressor"
        given: BaseDocumentCompressor = langchain_object(options, _WHERE, BaseDocumentCompressor, wanted)
        return given
    row = chosen(provider, "reranker")
    arguments = row.arguments(options, f"{_WHERE}.config")
    if provider == _LLM:
        return _asking(arguments, model)
    make = imported(row.target, row.package) if row.target else _cross_encoder(row.package)
    with Construction(f"{_WHERE} {provider}", row.package):
        made: BaseDocumentCompressor = make(**arguments)
    return made


def _asking(arguments: dict[str, Any], model: BaseChatModel | None) -> ChatReranker:
    options = dict(arguments)
    how = {"top_n": options.pop("top_k", None), "instructions": options.pop("scoring_prompt", _INSTRUCTIONS)}
    nested = options.pop("llm", None)
    if nested is not None:
        provider, inner = section(nested, "reranker.config.llm")
        model = chat_model(Section(provider, {**options, **inner}), f"{_WHERE}.config.llm")
    elif "model" in options or "provider" in options:
        model = chat_model(Section(options.pop("provider", "openai"), {"max_tokens": None, **options}), _WHERE)
    if model is None:
        raise InvalidInputError(f"{_WHERE} {_LLM!r} asks a chat model: name one in llm, or in the reranker's config")
    return ChatReranker(model=model, **how)


class ChatReranker(BaseDocumentCompressor):
    """Orders documents by the scores that a chat model gives them, in one call.

    A reply that cannot be used, or none, keeps the order that the documents have, and adds a note. *instructions* are what the
    model is asked, and *top_n* is how many documents are kept.
    """

    model: BaseChatModel
    instructions: str = _INSTRUCTIONS
    top_n: int | None = None
    notes: list[str] = Field(default_factory=list)  # of one search, which works with a copy

    def fresh(self) -> ChatReranker:
        """One without notes."""
        return self.model_copy(update={"notes": []})

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        """The documents, most relevant first."""
        call = partial(self.model.invoke, self._prompt(documents, query), RunnableConfig(callbacks=callbacks))
        try:
            reply = str(limits_of(self.model, self.model, Settings()).plan(call).run().text)
        except ModelError as error:
            reply = str(error)
        return self._ordered(documents, reply)

    def _prompt(self, documents: Sequence[Document], query: str) -> list[tuple[str, str]]:
        texts = json.dumps([document.page_content for document in documents], ensure_ascii=False)
        return [("system", self.instructions), ("human", f"Query: {query}\n\nDocuments: {texts}\n\n{_FORM}")]

    def _ordered(self, documents: Sequence[Document], reply: str) -> list[Document]:
        scores = _scores(reply, len(documents))
        if scores is None:
            note = "the reranker's reply has no score for each memory; the rows stand in the order of the search"
            self.notes.append(note)
            _log.warning("%s: %.200s", note, reply)
            return list(documents)[: self.top_n]
        scored = [
            document.model_copy(update={"metadata": {**document.metadata, "relevance_score": score}})
            for document, score in zip(documents, scores, strict=True)
        ]
        return sorted(scored, key=lambda document: -document.metadata["relevance_score"])[: self.top_n]


def _scores(reply: str, count: int) -> list[float] | None:
    """The scores of a reply, from 0 to 1; `None` where it has not one for each document."""
    try:
        (scores,) = (value["scores"] for value in json_values(reply) if isinstance(value, dict) and "scores" in value)
        numbers = [min(max(float(score), 0.0), 1.0) for score in scores]
    except (UnusableReplyError, ValueError, TypeError):
        return None
    return numbers if len(numbers) == count else None
