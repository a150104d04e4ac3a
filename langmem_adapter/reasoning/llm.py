"""The reasoner that asks a chat model, and which reasoner "offline", "openai:gpt-5-mini" or a chat model stands for."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from langchain_core.language_models.chat_models import BaseChatModel

from langmem_adapter.addresses import shown
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.limits import Limits, limits_of, model_name
from langmem_adapter.providers import patiently_made, provider_errors, server_options
from langmem_adapter.reasoning.base import Comparison, DecideOutput, ExtractInput, Extraction
from langmem_adapter.reasoning.free_text import LLMSummarizer, description, record
from langmem_adapter.reasoning.json_text import UnusableReplyError, complete_items
from langmem_adapter.reasoning.prompts import comparison_messages, example_words, extraction_messages
from langmem_adapter.reasoning.reader import additions, read_decision, read_facts, sources
from langmem_adapter.reasoning.replies import DecisionReply, FactsReply, GraphDecisionReply, GraphReply
from langmem_adapter.reasoning.runs import comparing, describing, finding
from langmem_adapter.reasoning.structured_output import Channel, full_text, structured
from langmem_adapter.records.checks import check_text
from langmem_adapter.twins import Plan

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from langchain_core.messages import AIMessage

    from langmem_adapter.reasoning.base import Reasoner, Verdict
    from langmem_adapter.settings import BadReply, Settings

__all__ = ["LLMReasoner", "named_model", "resolve_model"]


class LLMReasoner:
    """Finds facts and compares them with what is known by asking any LangChain chat model. See `Reasoner`, `Describer`.

    Two calls an add on the clean path, in the reply formats of Mem0 (Chhikara et al. 2025, arXiv:2504.19413): one for
    the facts, and with them the relations for a knowledge graph where one is kept; one for what the facts mean. A reply
    that cannot be used is sent back once with what was wrong. Two cases need no call: nobody of the wanted role spoke, or
    nothing is known to compare with.

    Args:
        model: Any chat model; it needs neither tool calls nor structured output.
        fact_extraction_prompt: Instructions for finding facts instead of ours; conversation and reply format are added.
        update_memory_prompt: Instructions for comparing instead of ours; memories, facts and reply format are added.
        graph_prompt: Instructions for the relations of a knowledge graph, beside ours.
        limits: How long a call may take, and how often it is asked again; `None` takes the defaults.
        on_bad_reply: What to do with a reply that stays unusable: `"keep"` keeps the speaker's words, and adds facts that were
            not decided, with a note; `"raise"` is an error.

    Raises:
        InvalidInputError: *model* is no chat model, or a prompt is blank.

    Example:
        >>> from langmem_adapter.testing import ScriptedChatModel
        >>> LLMReasoner(ScriptedChatModel(replies=['{"facts": []}'])).mode
        'scripted'
    """

    calls_model: Final = True

    def __init__(
        self,
        model: BaseChatModel,
        *,
        fact_extraction_prompt: str | None = None,
        update_memory_prompt: str | None = None,
        graph_prompt: str | None = None,
        limits: Limits | None = None,
        on_bad_reply: BadReply = "raise",
    ) -> None:
        if not isinstance(model, BaseChatModel):
            raise InvalidInputError(f"the model must be a LangChain chat model, not {type(model).__name__}")
        self._fact_prompt = _checked(fact_extraction_prompt, "fact_extraction_prompt")
        self._update_prompt = _checked(update_memory_prompt, "update_memory_prompt")
        self._graph_prompt = _checked(graph_prompt, "graph_prompt")
        self._keeps = on_bad_reply == "keep"
        self._channel = Channel(model, limits or Limits(model_name(model)))
        self.mode: Final = self._channel.name
        self.extract: Final = finding(self._find, "extract facts")
        self.decide: Final = comparing(self._compare, "compare facts")
        self.record: Final = finding(partial(record, self._channel), "record steps")
        self.summarizer: Final = LLMSummarizer(self._channel)
        self.describe: Final = describing(partial(description, self._channel), "describe image")

    def _find(self, question: ExtractInput) -> Plan[Extraction]:
        if not sources(question):
            return Plan.known(Extraction(()))
        schema = FactsReply if question.graph is None else GraphReply
        messages = extraction_messages(question, self._fact_prompt, relations=self._graph_prompt)
        read = partial(read_facts, question, example_words(messages[0].text))
        keep = partial(_kept_words, question, schema, read) if self._keeps and not question.must_read else None
        asked = structured(self._channel, schema, read, messages, keep=keep)
        return asked.then(lambda reply: replace(reply[0], usage=reply[1]))

    def _compare(self, comparison: Comparison) -> Plan[DecideOutput]:
        if not comparison.known or not comparison.facts:
            return Plan.known(DecideOutput(additions(comparison, "nothing was known yet")))
        schema = GraphDecisionReply if comparison.graph else DecisionReply
        messages = comparison_messages(comparison, self._update_prompt)
        read, notes = partial(read_decision, comparison, example_words(messages[0].text)), list[str]()

        def keep(why: str, _: AIMessage) -> tuple[Verdict, ...]:
            notes.append(f"{why}; what is new was added, and nothing was changed")
            return additions(comparison, "the model's decision could not be used; added so that it is not lost")

        asked = structured(self._channel, schema, read, messages, keep=keep if self._keeps else None)
        return asked.then(lambda reply: DecideOutput(*reply, tuple(notes)))


def _kept_words(
    question: ExtractInput,
    schema: type[FactsReply],
    read: Callable[[FactsReply], tuple[Extraction, Sequence[str]]],
    why: str,
    reply: AIMessage,
) -> Extraction:
    """The complete items of a reply that could not be used, where there are any; else the speaker's own words."""
    from langmem_adapter.reasoning.rules.reasoner import RuleReasoner  # noqa: PLC0415 - rarely needed

    listed = complete_items(full_text(reply), schema.root)
    if listed:
        with suppress(UnusableReplyError):
            found, _ = read(schema.of([{schema.root: listed[:-1] if reply.tool_calls else listed}]))
            if found.facts:
                note = f"{why}; {len(found.facts)} complete facts of it were kept"
                return replace(found, notes=(*found.notes, note))
    kept = RuleReasoner().extract.invoke(question)
    return replace(kept, notes=(f"{why}; what was said is kept in its own words",))


def _checked(prompt: str | None, name: str) -> str | None:
    if prompt is not None and not check_text(prompt, name).strip():
        raise InvalidInputError(f"{name} is blank; leave it out to use the built-in instructions")
    return prompt


_OFFLINE: Final = "offline"
_FORMS: Final = "write 'offline', or 'provider:name' as in 'openai:gpt-5-mini'"


def resolve_model(model: str | BaseChatModel, settings: Settings, **prompts: str | None) -> Reasoner:
    """The reasoner for a model.

    A key of the environment (`OPENAI_API_KEY`) is never sent to a `base_url` of the settings: that server gets the key
    of the settings, or a placeholder.

    Args:
        model: `"offline"`, a name for LangChain's `init_chat_model`, or a chat model, which is used as it is.
        settings: `base_url` and `api_key` for a name; `model_timeout`, `model_retries` and `on_bad_reply` for any model.
        prompts: Those of `LLMReasoner`.

    Raises:
        InvalidInputError: The name is not understood, the key is missing, or prompts have no model to follow them.
        MissingDependencyError: The provider's package is not installed.

    Example:
        >>> from langmem_adapter.settings import Settings
        >>> resolve_model("offline", Settings()).mode
        'offline'
    """
    if model == _OFFLINE:
        if any(prompts.values()):
            raise InvalidInputError("prompts are instructions for a chat model; also give model='openai:…' or the like")
        from langmem_adapter.reasoning.rules.reasoner import RuleReasoner  # noqa: PLC0415 - only one of the two is needed

        return RuleReasoner()
    made = patiently_made(partial(named_model, model, settings), settings) if isinstance(model, str) else model
    limits = limits_of(model, made, settings)
    return LLMReasoner(made, limits=limits, on_bad_reply=settings.on_bad_reply, **prompts)


def named_model(name: str, settings: Settings, **parameters: Any) -> BaseChatModel:
    """The chat model of a name, at the server and with the key of the settings.

    Raises:
        InvalidInputError: The name is not understood, or the key is missing.
        MissingDependencyError: The provider's package is not installed.
    """
    from langchain.chat_models import init_chat_model  # noqa: PLC0415 - langchain is slow to import, and offline needs none

    with provider_errors(f"model {shown(name)!r}", form=_FORMS):
        chat_model: BaseChatModel = init_chat_model(name, **server_options(name, settings), **parameters)
    return chat_model
