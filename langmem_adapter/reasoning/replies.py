"""The replies that a chat model gives: the facts of a conversation, and what they mean for the memories.

Each fact carries what belongs to it (its turn, its date, its relations), each entry of a decision the number of its fact. The
shapes of Mem0 are read as well: plain strings as facts, relations in a list of their own, entries without a number.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Final, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from langmem_adapter.reasoning.json_text import UnusableReplyError, decoded, listed_problems, members_of
from langmem_adapter.records.checks import check_text
from langmem_adapter.records.work import Event

__all__ = [
    "DecisionLine",
    "DecisionReply",
    "FactItem",
    "FactsReply",
    "GraphDecisionReply",
    "GraphReply",
    "RelatedReply",
    "ReplyModel",
    "SmallFactsReply",
    "UnenforcedSchemaError",
    "number_of",
]

_NUMBER: Final = re.compile(r"\s*-?[0-9]{1,9}\s*")
_FACTS_WITH_RELATIONS: Final = "The facts that were found and the relations they state."
_ENTRIES: Final = "One entry for each fact."
_NULLABLE_TEXT: Final = {"type": ["string", "null"]}
_MOST_FACTS: Final = 300
_MOST_ENTRIES: Final = 200


def number_of(value: Any) -> int | None:
    """The whole number that a value is, or is written as."""
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _record(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The schema of an object, as strict modes want it: every member required, no others."""
    required = {"required": [*properties], "additionalProperties": False}
    return {"type": "object", "properties": properties, **required, **more}


def _reply(title: str, description: str, root: str, item: dict[str, Any], most: int) -> dict[str, Any]:
    items = {"type": "array", "items": _record(item), "maxItems": most}
    return _record({root: items}, title=title, description=description)


_FACT: Final = {
    "text": {"type": "string"},
    "turn": {"type": "integer", "description": "Number of the turn that says it."},
    "date": {**_NULLABLE_TEXT, "description": "The day it speaks of, in ISO 8601, or null."},
}
_RELATION: Final = {
    "source": {"type": "string"},
    "relation": {"type": "string"},
    "target": {"type": "string"},
    "target_type": _NULLABLE_TEXT,
    "valid_from": {**_NULLABLE_TEXT, "description": "ISO 8601, or null."},
    "valid_to": {**_NULLABLE_TEXT, "description": "ISO 8601, or null."},
    "ended": {"type": "boolean", "description": "Whether it holds no longer."},
}
_RELATIONS: Final = {"type": "array", "items": _record(_RELATION), "maxItems": 50}
_OPTIONAL_RELATIONS: Final = {**_RELATIONS, "type": ["array", "null"]}
_ENTRY: Final = {
    "fact": {"type": ["integer", "null"], "description": "Number of the fact that it answers."},
    "event": {"type": "string", "enum": ["ADD", "UPDATE", "DELETE", "NONE"]},
    "id": {**_NULLABLE_TEXT, "description": "The memory's id as given; for ADD null."},
    "text": {**_NULLABLE_TEXT, "description": "The memory's text after the event."},
    "old_memory": {**_NULLABLE_TEXT, "description": "For UPDATE: the text before."},
    "reason": {"type": "string", "description": "Why, in a few words."},
}


_FORM: Final = "Reply with one JSON object and nothing else: "
_FACT_FORM: Final = '"text": "...", "turn": 0, "date": null'
_LINK_FORM: Final = (
    '{"source": "...", "relation": "...", "target": "...", "target_type": null, "valid_from": null, "valid_to": null, '
    '"ended": false}'
)
_ENTRY_FORM: Final = (
    '"fact": 0, "event": "ADD|UPDATE|DELETE|NONE", "id": "...", "text": "...", "old_memory": null, "reason": "..."'
)


class UnenforcedSchemaError(UnusableReplyError):
    """The reply has not the key that the schema demands: a server took the schema and did not hold the model to it."""


def _members(value: Any) -> Any:
    return members_of(value) if isinstance(value, dict) else value


def _list(value: Any) -> Any:
    """`null` holds nothing, so reading it as "none" loses nothing."""
    return [] if value is None else decoded(value)


def _event(value: Any) -> Any:
    word = value.strip().upper() if isinstance(value, str) else value
    return "NONE" if word == "NOOP" else word  # as Mem0's paper calls it


def _judgement(value: Any) -> Any:
    word = value.strip().casefold() if isinstance(value, str) else value
    return False if word in {"untrue", "unrelated"} else word


_Text = Annotated[str, Field(max_length=10_000), AfterValidator(lambda text: check_text(text, "it").strip())]
_OptionalText = Annotated[_Text, BeforeValidator(lambda value: "" if value is None else value)]
_Id = Annotated[str, BeforeValidator(lambda value: "" if value is None else str(value)[:100].strip())]
_Event = Annotated[Event, BeforeValidator(_event)]


class ReplyModel(BaseModel):
    """A reply that is one list, or one value, under the key *root*.

    Models are asked for it by *name*, with the schema *wire*, or in the words of *form* where no schema holds them to it.
    """

    model_config = ConfigDict(frozen=True)

    name: ClassVar[str]
    root: ClassVar[str]
    wire: ClassVar[dict[str, Any]]
    form: ClassVar[str]

    @classmethod
    def of(cls, values: list[Any], *, joined: bool = False) -> Self:
        """Read the reply out of JSON values; *joined*: all belong to it (parallel tool calls), instead of one being it.

        Raises:
            UnusableReplyError: None of them is such a reply, several are, or its content is not acceptable.
        """
        sent = [members for value in values if cls.root in (members := cls._called(members_of(value)))]
        if not sent:
            raise UnenforcedSchemaError(f'there is no JSON object with the key "{cls.root}" in the reply')
        if joined and len(values) > 1:
            sent = [cls._joined(sent, len(values))]
        if any(other != sent[0] for other in sent[1:]):
            raise UnusableReplyError(
                f'there are several different JSON objects with "{cls.root}"; send only the final one'
            )
        try:
            return cls.model_validate(sent[0])
        except ValidationError as error:
            raise UnusableReplyError(_explained(error)) from None

    @classmethod
    def _called(cls, members: dict[str, Any]) -> dict[str, Any]:
        """The arguments, where a tool call was written as text."""
        inner = members_of(decoded(members.get("arguments", members.get("parameters"))))
        return inner if cls.root in inner and cls.root not in members else members

    @classmethod
    def _joined(cls, sent: list[dict[str, Any]], calls: int) -> dict[str, Any]:
        lists = [decoded(members[cls.root]) for members in sent]
        beside = "relations" in cls.model_fields and any(len(members) > 1 for members in sent)
        if beside or len(sent) < calls or not all(isinstance(each, list) for each in lists):
            raise UnusableReplyError(f'not each of the calls is one list "{cls.root}"; make one call with everything')
        return {cls.root: [item for each in lists for item in each]}


class FactItem(BaseModel):
    """One item of the list of facts, as sent; the text is blank where the item holds none."""

    model_config = ConfigDict(frozen=True, extra="allow")

    text: _Text
    turn: Any = None
    date: Any = None
    relations: Any = None

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: Any) -> dict[str, Any]:
        if value is None or isinstance(value, str):
            return {"text": value or ""}
        members = members_of(value)
        texts = [members[name] for name in ("text", "fact", "memory") if isinstance(members.get(name), str)]
        if len(texts) != 1:
            raise ValueError(f'must be a string, or an object with one "text", not {type(value).__name__}')
        return {**members, "text": texts[0]}


class FactsReply(ReplyModel):
    """Extraction: short statements, in the language of the conversation, each with its turn and its date."""

    name: ClassVar[str] = "facts_found"
    root: ClassVar[str] = "facts"
    wire: ClassVar[dict[str, Any]] = _reply(name, "The facts that were found.", root, _FACT, _MOST_FACTS)

    form: ClassVar[str] = f'{_FORM}{{"facts": [{{{_FACT_FORM}}}]}}'

    facts: Annotated[list[FactItem], BeforeValidator(_list), Field(max_length=1_000)]


class SmallFactsReply(FactsReply):
    """Extraction by a small model: texts alone."""

    name: ClassVar[str] = "texts_found"
    wire: ClassVar[dict[str, Any]] = _reply(name, "The facts.", "facts", {"text": {"type": "string"}}, 20)
    form: ClassVar[str] = f'{_FORM}{{"facts": [{{"text": "..."}}]}}'


class GraphReply(FactsReply):
    """Extraction with the relations that each fact states; Mem0 has them in a list of their own."""

    model_config = ConfigDict(extra="allow")

    name: ClassVar[str] = "graph_found"
    wire: ClassVar[dict[str, Any]] = _reply(
        name, _FACTS_WITH_RELATIONS, "facts", _FACT | {"relations": _RELATIONS}, _MOST_FACTS
    )

    form: ClassVar[str] = f'{_FORM}{{"facts": [{{{_FACT_FORM}, "relations": [{_LINK_FORM}]}}]}}'

    relations: Any = None


class DecisionLine(BaseModel):
    """One line of a decision: what shall happen to the memory *id* (anything for an ADD), or with the fact of a number."""

    model_config = ConfigDict(frozen=True)

    fact: Annotated[int | None, BeforeValidator(number_of)] = None
    event: _Event
    id: _Id = ""
    text: _OptionalText = ""
    old_memory: _OptionalText = ""
    reason: _OptionalText = ""
    relations: Any = None

    _read = model_validator(mode="before")(_members)


class DecisionReply(ReplyModel):
    """Decision: what each fact means for the memories."""

    name: ClassVar[str] = "memory_decided"
    root: ClassVar[str] = "memory"
    wire: ClassVar[dict[str, Any]] = _reply(name, _ENTRIES, root, _ENTRY, _MOST_ENTRIES)

    form: ClassVar[str] = f'{_FORM}{{"memory": [{{{_ENTRY_FORM}}}]}}'

    memory: Annotated[list[DecisionLine], BeforeValidator(_list), Field(max_length=6_000)]


class GraphDecisionReply(DecisionReply):
    """Decision with the relations of texts that are not those of their facts."""

    name: ClassVar[str] = "memory_and_graph_decided"
    wire: ClassVar[dict[str, Any]] = _reply(
        name, _ENTRIES, "memory", _ENTRY | {"relations": _OPTIONAL_RELATIONS}, _MOST_ENTRIES
    )
    form: ClassVar[str] = f'{_FORM}{{"memory": [{{{_ENTRY_FORM}, "relations": [{_LINK_FORM}]}}]}}'


class RelatedReply(ReplyModel):
    """Whether two texts belong together."""

    name: ClassVar[str] = "relatedness_judged"
    root: ClassVar[str] = "related"
    wire: ClassVar[dict[str, Any]] = _record({root: {"type": "boolean"}}, title=name, description="The judgement.")

    form: ClassVar[str] = f'{_FORM}{{"related": true|false}}'

    related: Annotated[bool, BeforeValidator(_judgement)]


def _explained(error: ValidationError) -> str:
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    told = [(".".join(map(str, each["loc"])), each["msg"].removeprefix("Value error, ")) for each in problems]
    return listed_problems([f"{place}: {message}" for place, message in told])
