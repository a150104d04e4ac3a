"""Structured output of any chat model: asked for in the best way that the model supports, read tolerantly, repaired once.

Three ways, best first: a JSON schema (`with_structured_output`), a tool call (`bind_tools`), the plain prompt. LangChain and
the vendors' clients differ in what they do with a reply that misses the schema: some raise, some give `None`. So only their
*asking* is used here; the raw message is read by our own code, and nothing that a model sent is lost.
"""

from __future__ import annotations

import inspect
import json
import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from langchain_core.language_models.chat_models import BaseChatModel, SimpleChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import Runnable, RunnableSequence
from pydantic import ValidationError

from langmem_adapter.errors import ModelContextError, ModelError, ModelReplyError
from langmem_adapter.forks import Lock
from langmem_adapter.providers import TOKEN_FIELDS, context_excess, model_name, status_of
from langmem_adapter.reasoning.prompts import repair, with_form
from langmem_adapter.reasoning.replies import (
    CutOffError,
    DeclinedError,
    ReplyModel,
    UnenforcedSchemaError,
    UnusableReplyError,
    decoded,
    json_values,
    listed_problems,
)
from langmem_adapter.records.results import ModelCall, Usage, tokens_in
from langmem_adapter.twins import Plan, steps

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from langmem_adapter.providers import Limits
    from langmem_adapter.storage.meta import ReplyLog
    from langmem_adapter.twins import PlanSteps

_WAYS: Final = ("json_schema", "tools", "plain")  # best first
_QUOTED: Final = 8_000  # a reply of a megabyte is not sent back in full
_REFUSED_STATUS: Final = frozenset({400, 404, 405, 415, 422, 501})
_WORDS_OF: Final = {
    "json_schema": re.compile("response_format|json.schema|structured output|output_format|output_config"),
    "tools": re.compile("tool|function"),
}
_REFUSAL_WORDS: Final = re.compile(
    "support|unknown|unrecogni|unexpected|invalid|not permitted|not allowed|extra|unavailable|not available|not enabled|"
    "not implemented|require"
)

M = TypeVar("M", bound=ReplyModel)
T = TypeVar("T")


@steps
def structured(
    channel: Channel,
    schema: type[M],
    read: Callable[[M, T | None], tuple[T, Sequence[str]]],
    messages: list[BaseMessage],
    *,
    keep: Callable[[str, AIMessage], T] | None = None,
    repairs: int = 1,
) -> PlanSteps[tuple[T, Usage]]:
    """Ask for a reply of a form, and repair it once if it cannot be used, or not all of it; with *repairs* 0 never.

    *read* turns the parsed reply into the value and a list of problems, in words for the model; without a value it raises
    `UnusableReplyError`. The second time it is given the first value, if there was one. *keep* makes a value of the last reply
    and of why it could not be used; without it that is a `ModelReplyError`.
    """
    sent, usage = messages, Usage()
    first: T | None = None
    for last in (not repairs, True):
        request, message = yield from channel.ask(schema, sent)
        usage += usage_of(schema.name, request, message)
        text = full_text(message)
        text = text if len(text) <= _QUOTED else f"{text[:_QUOTED]} …"
        value: T | None = None
        try:
            value, problems = read(read_reply(message, schema), first)
            problem, is_done, shorter = listed_problems(problems), last or not problems, ""
        except UnusableReplyError as error:
            channel.shows_form = channel.shows_form or isinstance(error, UnenforcedSchemaError)
            problem, is_done = str(error), last or isinstance(error, DeclinedError)
            shorter = "; send the same, complete but shorter" if isinstance(error, CutOffError) else ""
        yield from channel.note(usable=value is not None)
        if is_done:
            break
        form = f"\n{schema.form}" if channel.shows_form and request == sent else ""
        sent = [*request, AIMessage(text or "(empty)"), HumanMessage(repair(problem + shorter, schema.root) + form)]
        first = value
    if value is None and last:
        value = first
    if value is None:
        after = ", also after one repair" if last and repairs else ""
        why = f"the reply of {channel.name} could not be used{after}: {problem}"
        if keep is None:
            raise ModelReplyError(f"{why}; nothing was changed", reply=text)
        value = keep(why, message)
    return value, usage


class Channel:
    """A chat model, and in which way it gives structured replies. Safe to use from many threads; each reasoner has its own.

    A way is given up only after the next one was answered. A model that a schema holds to the form does not get the form in
    words, unless a reply shows that the schema is not enforced.
    """

    def __init__(self, model: BaseChatModel, limits: Limits, bounds: Mapping[str, Any] | None = None) -> None:
        self.name = model_name(model)
        self._model = model.model_copy(update=bounds) if bounds else model
        self._bounds: dict[str, Sequence[str]] = {}  # what a server may call a parameter
        for field, value in (bounds or {}).items():
            names = TOKEN_FIELDS if field in TOKEN_FIELDS else [field]
            self._bounds[field] = [*value] if isinstance(value, dict) else names
        self._gave_up = 0  # how many parameters a server refused
        self._has_limits = True  # whether schemas say how many items a list may have
        self._limits = limits
        # Whether it waits on the event loop; LangChain's defaults occupy a thread of the loop's executor.
        own = [vars(cls) for cls in type(model).__mro__ if cls not in (BaseChatModel, SimpleChatModel)]
        self._on_loop = any(name in names for names in own for name in ("_agenerate", "_astream"))
        self._way = 0
        self.shows_form = False
        self.replies: ReplyLog | None = None
        self.is_blind = (getattr(model, "profile", None) or {}).get("image_inputs") is False
        self._lock = Lock()

    @steps
    def say(
        self, messages: list[BaseMessage], bind: Callable[[], Runnable[Any, BaseMessage] | None] | None = None
    ) -> PlanSteps[BaseMessage]:
        """One call of the model, or of what *bind* makes of it. A parameter that a server refuses is not sent again."""
        while True:
            model, before = (bind() if bind else None) or self._model, self._gave_up
            arun = partial(model.ainvoke, messages) if self._on_loop else None
            try:
                return (yield from self._limits.plan(partial(model.invoke, messages), arun))
            except ModelError as error:
                cause = error.__cause__ or error
                if (excess := context_excess(cause)) is not None:
                    raise self._excess_error(messages, error, *excess) from error
                if not self._gives_up(cause) and before == self._gave_up:
                    raise

    def note(self, *, usable: bool) -> Plan[None]:
        """Note the reply where notes are kept and it changes them."""
        if self.replies is None or (usable and self.replies.is_clean):
            return Plan.of(None)
        return Plan(partial(self.replies.note, usable))

    def _gives_up(self, error: BaseException) -> bool:
        """Whether a parameter that was sent is refused by its name; it is not sent any more."""
        if status_of(error) not in _REFUSED_STATUS:
            return False
        with self._lock:
            named = [field for field, names in self._bounds.items() if any(name in str(error) for name in names)]
            for field in named:
                default = type(self._model).model_fields[field].get_default(call_default_factory=True)
                self._model = self._model.model_copy(update={field: default})
                del self._bounds[field]
            no_limits = self._has_limits and "maxItems" in str(error)
            self._has_limits = self._has_limits and not no_limits
            self._gave_up += bool(named) or no_limits
        return bool(named) or no_limits

    def _excess_error(
        self, messages: list[BaseMessage], error: Exception, prompt: int, context: int
    ) -> ModelContextError:
        prompt = prompt or sum(tokens_in(message.text) for message in messages)
        context = context or (getattr(self._model, "profile", None) or {}).get("max_input_tokens", 0)
        size = f"the context of the model {context:,}" if context else "more than the context of the model"
        why = str(error).removesuffix(f"; {getattr(error, 'hint', '')}")  # without keys, which the cause may quote
        problem = f"the prompt has about {prompt:,} tokens, {size}: {why}"
        return ModelContextError(problem, prompt_tokens=prompt, context_tokens=context)

    @steps
    def ask(
        self, schema: type[ReplyModel], messages: list[BaseMessage]
    ) -> PlanSteps[tuple[list[BaseMessage], AIMessage]]:
        """Ask for a reply of a form in the best way known to work: the request and the reply."""
        way = self._way
        while True:
            while bind_way(self._model, schema.wire, _WAYS[way]) is None:
                way += 1
            is_first = len(messages) == 2  # noqa: PLR2004 - instructions and data, nothing yet to repair
            needs_form = is_first and (self.shows_form or _WAYS[way] != "json_schema")
            sent = with_form(messages, schema.form) if needs_form else messages
            try:
                message = yield from self.say(sent, partial(self._bind, schema, _WAYS[way]))
            except ModelError as error:
                cause = error.__cause__ or error
                if (sent_anyway := _message_within(cause)) is None:
                    if way == len(_WAYS) - 1 or not _refuses(cause, _WAYS[way]):
                        raise
                    way = max(self._way, way + 1)
                    continue
                message = sent_anyway
            with self._lock:
                self._way = max(self._way, way)
            return sent, message if isinstance(message, AIMessage) else AIMessage(message.content)

    def _bind(self, schema: type[ReplyModel], way: str) -> Runnable[Any, BaseMessage] | None:
        return bind_way(self._model, schema.wire if self._has_limits else _unlimited(schema.wire), way)


def _unlimited(schema: Any) -> Any:
    """A schema that does not say how many items a list may have."""
    if isinstance(schema, dict):
        return {name: _unlimited(part) for name, part in schema.items() if name != "maxItems"}
    return [_unlimited(part) for part in schema] if isinstance(schema, list) else schema


def bind_way(model: BaseChatModel, wire: dict[str, Any], way: str) -> Runnable[Any, BaseMessage] | None:
    """The model prepared for a way, or `None` if it says beforehand that it does not know that way."""
    if way == "plain":
        return model
    try:
        if way == "json_schema":
            return _bind_schema(model, wire)
        return model.bind_tools([wire], tool_choice="any")
    except (NotImplementedError, TypeError, ValueError):
        return None


def _bind_schema(model: BaseChatModel, wire: dict[str, Any]) -> Runnable[Any, BaseMessage] | None:
    ask = type(model).with_structured_output
    if ask is BaseChatModel.with_structured_output:
        return None  # the default makes a tool call of it, which is the next way
    strict = {"strict": True} if "strict" in inspect.signature(ask).parameters else {}
    chain = model.with_structured_output(wire, method="json_schema", **strict)
    # A dict as schema keeps clients from parsing. Of "model | parser" only the model is wanted, whatever the vendor binds.
    return chain.first if isinstance(chain, RunnableSequence) else None


def _refuses(error: BaseException, way: str) -> bool:
    """Whether a server, or the client that reads its answer, does not know this way of asking; nothing else counts."""
    if isinstance(error, NotImplementedError) or (isinstance(error, ValidationError) and error.title == "AIMessage"):
        return True  # no AIMessage takes the arguments of a tool call that a server encoded twice
    text = str(error).casefold().replace("invalid_request_error", "")
    says_so = _WORDS_OF[way].search(text) and _REFUSAL_WORDS.search(text)
    return status_of(error) in _REFUSED_STATUS and says_so is not None


def _message_within(error: BaseException) -> AIMessage | None:
    """The model's message, where OpenAI's client raised it: the length limit or the content filter ended the reply."""
    completion = getattr(error, "completion", None)
    choices = getattr(completion, "choices", None)
    if not choices:
        return None
    usage = getattr(completion, "usage", None)
    read, written = getattr(usage, "prompt_tokens", 0) or 0, getattr(usage, "completion_tokens", 0) or 0
    return AIMessage(
        getattr(choices[0].message, "content", None) or "",
        response_metadata={"finish_reason": choices[0].finish_reason},
        usage_metadata={"input_tokens": read, "output_tokens": written, "total_tokens": read + written},
    )


_CUT_OFF: Final = frozenset({"length", "max_tokens", "max_output_tokens"})
_DECLINED: Final = frozenset({"content_filter", "refusal", "safety", "prohibited_content", "blocklist"})


def full_text(message: BaseMessage) -> str:
    """What a message says; of tool calls, their arguments."""
    calls = [*message.tool_calls, *message.invalid_tool_calls] if isinstance(message, AIMessage) else []
    arguments = [
        call["args"] if isinstance(call["args"], str) else json.dumps(call["args"], ensure_ascii=False, default=str)
        for call in calls
    ]
    return "\n".join(filter(None, (message.text, *arguments)))


def usage_of(task: str, messages: Sequence[BaseMessage], reply: BaseMessage) -> Usage:
    """What one call cost, as far as the model says, and what both sides said."""
    tokens: Any = (reply.usage_metadata if isinstance(reply, AIMessage) else None) or {}
    text = full_text(reply).encode(errors="replace").decode().replace("\x00", "?")  # for a trace, as databases keep it
    call = ModelCall(task, tuple((message.type, message.text) for message in messages), text)
    return Usage(1, tokens.get("input_tokens", 0), tokens.get("output_tokens", 0), calls=(call,))


def read_reply(message: AIMessage, schema: type[M]) -> M:
    """Read a reply out of the tool calls of a message, or else out of its text."""
    blocks: list[Any] = message.content if isinstance(message.content, list) else []
    refusals = [block.get("refusal") for block in blocks if isinstance(block, dict) and block.get("type") == "refusal"]
    why = message.additional_kwargs.get("refusal") or next(iter(refusals), None)
    if why or refusals or _ending(message) in _DECLINED:
        raise DeclinedError(f"the model declined ({str(why or _ending(message))[:200]})")
    is_cut_off = _ending(message) in _CUT_OFF
    try:
        calls = [call["args"] for call in message.tool_calls]
        calls += [decoded(call["args"]) for call in message.invalid_tool_calls]
        if any(calls) and not is_cut_off:  # streaming clients complete the brackets of a cut call
            return schema.of(calls, joined=True)
        if not message.text.strip():
            raise UnusableReplyError("the reply is empty")  # noqa: TRY301 - one place says that a reply was cut off
        return schema.of(json_values(message.text))
    except UnusableReplyError:
        if is_cut_off:
            raise CutOffError("the reply was cut off at the length limit") from None
        raise


def _ending(message: AIMessage) -> str:
    reasons = (message.response_metadata.get(key) for key in ("finish_reason", "stop_reason", "done_reason"))
    return next((reason.casefold() for reason in reasons if isinstance(reason, str)), "")
