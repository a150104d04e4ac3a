"""What an experience is, and what is made of it: its score, whether it may be used again, how it is shown and written down.

Each of these can be replaced by a function (or, for the last, an object) of one's own; what is here are the defaults, and those
for requests that are lists of messages.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypeAlias, runtime_checkable

from langchain_core.messages import BaseMessage, convert_to_messages

from langmem_adapter.arguments import bounded
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.records.checks import check_text, quoted
from langmem_adapter.records.escapes import escape

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from langmem_adapter.records.results import MemoryItem

__all__ = [
    "BEST",
    "MASK",
    "TEXTS",
    "Context",
    "Experience",
    "Judge",
    "Messages",
    "Score",
    "Scorer",
    "Serializer",
    "Texts",
    "in_context",
    "in_messages",
    "numbered",
    "perfect",
]

BEST: Final = 10
"""The best score; the worst is 1."""
MASK: Final = "{experiences}"
"""What `in_messages` replaces."""
_TEXTS: Final = ("response", "tag", "reason")


@dataclass(frozen=True, slots=True)
class Score:
    """How good a response is.

    Args:
        value: From 1 to 10.
        reason: Why.

    Raises:
        InvalidInputError: It is no such number, or the reason no text.
    """

    value: int
    reason: str = ""

    def __post_init__(self) -> None:
        """Refuse what is no score."""
        bounded(self.value, "a score", most=BEST)
        check_text(self.reason, "the reason of a score")


@dataclass(frozen=True, slots=True)
class Experience:
    """A request and what it was answered with.

    Attributes:
        id: Of the memory that keeps it.
        request: As it was given, as text.
        response: What came of it, as text.
        tag: What it is filed under.
        score: How good that was; `None` where nobody said.
        seconds: How long the answer took; `None` where nobody measured.
        created_at: When it was first kept.
    """

    id: str
    request: str
    response: str
    tag: str
    score: Score | None
    seconds: float | None
    created_at: datetime

    @classmethod
    def of(cls, item: MemoryItem) -> Self:
        """As it stands in a memory. What an edit by hand left of it is shown; without a response it has no score."""
        data = item.metadata
        response, tag, reason = (told if isinstance(told := data.get(name), str) else "" for name in _TEXTS)
        value = data.get("score") if isinstance(data.get("response"), str) else None
        score = Score(value, reason) if type(value) is int and 1 <= value <= BEST else None
        return cls(item.id, item.text, response, tag, score, data.get("seconds"), item.created_at)


Scorer: TypeAlias = "Callable[[str, str], Score | None]"
"""From a request and a response to how good that is, or `None`: by running it, by comparing it, by asking a person.

The model that wrote the response is no judge of it: MetaGPT lets it score itself, its 10 becomes a hit of the cache, and a
wrong answer is given again for ever.
"""
Judge: TypeAlias = "Callable[[str, Experience], bool]"
"""Whether an experience answers a request so well that nothing has to be done again."""
Context: TypeAlias = "Callable[[Any, Sequence[Experience]], Any]"
"""A request as the function gets it, with experiences beside it; the one that was given is not changed."""


@runtime_checkable
class Serializer(Protocol):
    """Turns requests and responses into texts, and texts of responses back."""

    def request(self, value: Any, /) -> str:
        """A request as text; a blank one is answered and not kept."""

    def response(self, value: Any, /) -> str:
        """A response as text."""

    def parse(self, text: str, /) -> Any:
        """The response that a text stands for."""


class Texts:
    """The plain serializer: `str()` of requests and responses; what was kept comes back as text.

    Example:
        >>> Texts().request(7), Texts().parse(Texts().response("Paris"))
        ('7', 'Paris')
    """

    def request(self, value: Any, /) -> str:
        """The request's `str()`."""
        return _text(value)

    def response(self, value: Any, /) -> str:
        """The response's `str()`."""
        return _text(value)

    def parse(self, text: str, /) -> Any:
        """The text itself."""
        return text


TEXTS: Final = Texts()
"""The default serializer."""


def perfect(request: str, experience: Experience, /) -> bool:
    """The default judge: the very same request, answered with the best score."""
    return experience.request == request and experience.score is not None and experience.score.value == BEST


def numbered(experiences: Sequence[Experience]) -> str:
    """Experiences as text, a line for each."""
    return "\n".join(f"{number}. {_told(each)}" for number, each in enumerate(experiences, 1))


def _told(experience: Experience) -> str:
    text = escape(f"Given the request: {experience.request}, We can get the response: {experience.response}")
    return f"{text}." if experience.score is None else f"{text}, which scored: {experience.score.value}."


def in_context(request: Any, experiences: Sequence[Experience], /) -> Any:
    """The default context: the request under the experiences; without any, the request as it is.

    Example:
        >>> in_context("Sort [2, 1]", [])
        'Sort [2, 1]'
    """
    if not experiences:
        return request
    return f"# Experiences\n\n{numbered(experiences)}\n\n# Request\n\n{request}"


class Messages(Texts):
    """The serializer for requests that are lists of messages (LangChain's, or dicts with role and content).

    Args:
        keep: Says of a message whether it belongs to the request; by default all do. What changes from call to call, like a
            clock in the system message, would keep equal requests from meeting.

    Example:
        >>> Messages(keep=lambda message: message.type == "human").request([("system", "It is noon."), ("user", "Hi")])
        '[["human", "Hi"]]'
        >>> Messages().request([])
        ''
    """

    def __init__(self, *, keep: Callable[[BaseMessage], bool] | None = None) -> None:
        self._keep = keep

    def request(self, value: Any, /) -> str:
        """The messages that belong to it, each with type and text, as JSON; blank where there are none."""
        messages = [each for each in convert_to_messages(value) if self._keep is None or self._keep(each)]
        return json.dumps([[each.type, each.text] for each in messages], ensure_ascii=False) if messages else ""

    def response(self, value: Any, /) -> str:
        """The text of a message; of anything else its `str()`."""
        return value.text if isinstance(value, BaseMessage) else _text(value)


def in_messages(request: Any, experiences: Sequence[Experience], /) -> Any:
    """The context for lists of messages: experiences in the place of `MASK` in the last one; without any, the list as it is.

    Example:
        >>> in_messages([], [])
        []
    """
    if not request or not experiences:
        return request
    *before, last = convert_to_messages(request)
    return [*before, last.model_copy(update={"content": last.text.replace(MASK, numbered(experiences))})]


def _text(value: object) -> str:
    try:
        return str(value)
    except ValueError:  # Python writes no number of more than 4,300 digits
        raise InvalidInputError(f"{quoted(value)} has no text; give the experiences a serializer of your own") from None
