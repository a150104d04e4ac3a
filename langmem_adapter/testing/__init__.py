"""Fakes for tests of programs that use this package, and `StoreContract`, a pytest class for any LangGraph store.

With them a program with a memory is tested without a key and without a network. Nothing else in the package uses them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence  # noqa: TC003 - pydantic reads the annotation of a field
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Literal

from langchain_core.embeddings import Embeddings
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.output_parsers import JsonOutputParser
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import PrivateAttr

from langmem_adapter.embedding.models import fingerprint

if TYPE_CHECKING:
    from langchain_core.callbacks import CallbackManagerForLLMRun
    from langchain_core.runnables import Runnable

    from langmem_adapter.testing.store_contract import StoreContract

__all__ = ["CountingEmbeddings", "ScriptedChatModel", "StoreContract"]


def __getattr__(name: str) -> Any:
    if name != "StoreContract":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import pytest  # noqa: PLC0415 - nothing else of this package needs it

    if "langmem_adapter.testing.store_contract" not in sys.modules:
        pytest.register_assert_rewrite("langmem_adapter.testing.store_contract")
    from langmem_adapter.testing.store_contract import StoreContract  # noqa: PLC0415 - the same

    return StoreContract


_LETTERS_PER_TOKEN: Final = 4


class ScriptedChatModel(BaseChatModel):
    """A chat model that answers from a list, in order; usable from many threads.

    Args:
        replies: What to answer: a text, an `AIMessage` as it is, an exception to raise, or a function of the messages
            that gives one of these.
        modes: What it supports: `"json_schema"` (structured output and tool calls), `"tools"` (tool calls) or `"plain"`
            (neither). It decides only how it can be asked; the replies are sent unchanged.
        model_name: Its name, as results show it.

    Raises:
        RuntimeError: At a call, when the script has run out.

    Example:
        >>> model = ScriptedChatModel(replies=["Hello!", lambda messages: messages[-1].content[::-1]])
        >>> model.invoke("Hi").content, model.invoke("abc").content, len(model.calls)
        ('Hello!', 'cba', 2)
    """

    replies: Sequence[Any] = ()
    modes: Literal["json_schema", "tools", "plain"] = "plain"
    model_name: str = "scripted"

    _calls: list[list[BaseMessage]] = PrivateAttr(default_factory=list)
    _options: list[dict[str, Any]] = PrivateAttr(default_factory=list)
    _lock: Any = PrivateAttr(default_factory=Lock)

    @property
    def calls(self) -> list[list[BaseMessage]]:
        """The messages of every call so far."""
        with self._lock:
            return list(self._calls)

    @property
    def options(self) -> list[dict[str, Any]]:
        """What was bound to each call, as `tools` or `response_format`."""
        with self._lock:
            return list(self._options)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(
        self, tools: Sequence[Any], *, tool_choice: str | None = None, **kwargs: Any
    ) -> Runnable[Any, AIMessage]:
        """Accept tools, where the script says so."""
        if self.modes == "plain":
            raise NotImplementedError("this scripted model knows no tools")
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], tool_choice=tool_choice, **kwargs)

    def with_structured_output(self, schema: Any, *, include_raw: bool = False, **kwargs: Any) -> Runnable[Any, Any]:
        """Accept a schema, where the script says so; else as LangChain does without support for it."""
        if self.modes != "json_schema" or include_raw:
            return super().with_structured_output(schema, include_raw=include_raw, **kwargs)
        return self.bind(response_format=schema) | JsonOutputParser()

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002 - LangChain fixes the signature
        **kwargs: Any,
    ) -> ChatResult:
        with self._lock:
            place = len(self._calls)
            self._calls.append(list(messages))
            self._options.append({**kwargs, **({"stop": stop} if stop else {})})
        if place >= len(self.replies):
            raise RuntimeError(
                f"the script has {len(self.replies)} replies; this is call {place + 1}: {messages[-1].content!r}"
            )
        step = self.replies[place]
        answer = step(list(messages)) if callable(step) else step
        if isinstance(answer, BaseException):
            raise answer
        message = AIMessage(answer) if isinstance(answer, str) else answer
        if message.usage_metadata is None:
            sizes = [max(1, len(str(each.content)) // _LETTERS_PER_TOKEN) for each in (message, *messages)]
            usage = {"input_tokens": sum(sizes[1:]), "output_tokens": sizes[0], "total_tokens": sum(sizes)}
            message = message.model_copy(update={"usage_metadata": usage})
        return ChatResult(generations=[ChatGeneration(message=message)])


class CountingEmbeddings(Embeddings):
    """Embeddings that remember what they were asked, for tests of how often a program embeds.

    Args:
        embeddings: Who does the work.

    Attributes:
        documents: The batches given to `embed_documents`.
        queries: The texts given to `embed_query`.

    Example:
        >>> from langmem_adapter.embedding.models import HashEmbeddings
        >>> counting = CountingEmbeddings(HashEmbeddings(64))
        >>> _ = counting.embed_documents(["tea", "coffee"])
        >>> counting.calls, counting.texts
        (1, 2)
    """

    def __init__(self, embeddings: Embeddings) -> None:
        self._embeddings = embeddings
        self._lock = Lock()
        self.documents: list[list[str]] = []
        self.queries: list[str] = []

    @property
    def fingerprint(self) -> str:
        """That of the embeddings which do the work: counting does not change a vector."""
        return fingerprint(self._embeddings)

    @property
    def calls(self) -> int:
        """How often it was asked."""
        with self._lock:
            return len(self.documents) + len(self.queries)

    @property
    def texts(self) -> int:
        """How many texts it was asked for."""
        with self._lock:
            return sum(map(len, self.documents)) + len(self.queries)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Count and pass on."""
        self._count(documents=texts)
        return self._embeddings.embed_documents(texts)

    def embed_query(self, text: str) -> list[float]:
        """Count and pass on."""
        self._count(query=text)
        return self._embeddings.embed_query(text)

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """Count and pass on."""
        self._count(documents=texts)
        return await self._embeddings.aembed_documents(texts)

    async def aembed_query(self, text: str) -> list[float]:
        """Count and pass on."""
        self._count(query=text)
        return await self._embeddings.aembed_query(text)

    def _count(self, *, documents: list[str] | None = None, query: str | None = None) -> None:
        with self._lock:
            self.documents += [] if documents is None else [list(documents)]
            self.queries += [] if query is None else [query]
