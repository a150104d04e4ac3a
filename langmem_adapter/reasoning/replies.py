"""Replies of chat models: the JSON in them, and the schemas of facts, decisions and relations.

A value is read whole or not at all. A cut or broken value and a repeated key are errors for the repair: libraries that
complete them (`json-repair`, LangChain's `parse_partial_json`) lose something silently.

Each fact carries its turn, its date and its relations, each entry of a decision the number of its fact. The shapes of Mem0 are
read as well: plain strings as facts, relations in a separate list, entries without a number.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, NoReturn, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from langmem_adapter.names import LONGEST_NAME, LONGEST_RELATION, entity_key, owner_role, relation_name
from langmem_adapter.records.checks import check_text
from langmem_adapter.records.graph import ASSISTANT, SELF, Triple
from langmem_adapter.records.results import Event

if TYPE_CHECKING:
    from collections.abc import Sequence

_LONGEST_REPLY: Final = 500_000
_TAGS: Final = "(?:think|thinking|thought|reasoning)"
_MARK: Final = re.compile(rf"[\[{{]|</?{_TAGS}>", re.IGNORECASE)
_THOUGHT_END: Final = re.compile(rf"</{_TAGS}>", re.IGNORECASE)
_NEXT: Final = re.compile(r"[\s,]*")
_JSON: Final = re.compile(r"""\[\s*["'\[{\]]|\{\s*(?:["'}]|\w+\s*:)""")  # other brackets are prose
_STRING: Final = r'"(?:[^"\\]|\\.?)*(?:"|\Z)'  # to the end where it has none, so that every text is read in one pass
_COMMENT: Final = re.compile(rf"{_STRING}|//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_SPARE_COMMA: Final = re.compile(rf"{_STRING}|,(?=\s*[\]}}])", re.DOTALL)


class UnusableReplyError(Exception):
    """What is wrong with a reply, in words that the model itself can act on."""


class CutOffError(UnusableReplyError):
    """The reply was cut off at the length limit."""


class DeclinedError(UnusableReplyError):
    """The model declined; asking again is pointless."""


def listed_problems(problems: Sequence[str]) -> str:
    """The first ten of what is wrong, and how many more there are."""
    return "; ".join(first_ten(problems))


def first_ten(texts: Sequence[str]) -> list[str]:
    """Ten texts, and how many more there are."""
    return [*texts[:10], *([f"and {len(texts) - 10:,} more"] if len(texts) > 10 else [])]  # noqa: PLR2004 - ten


def json_values(text: str) -> list[Any]:
    r"""Every JSON object and list in a text, outermost only, in order, outside of thoughts.

    Raises:
        UnusableReplyError: It is too long, a value in it is cut or broken, or a key is repeated.

    Example:
        >>> json_values('<think>{"facts": []}?</think> Sure! ```json\n{"facts": ["Likes tea",],}\n```')
        [{'facts': ['Likes tea']}]
    """
    if len(text) > _LONGEST_REPLY:
        raise UnusableReplyError(f"the reply has {len(text):,} characters, and at most {_LONGEST_REPLY:,} are read")
    values: list[Any] = []
    place = 0
    while mark := _MARK.search(text, place):
        if mark[0].startswith("</"):  # the opening tag was in the model's template: all before is thought
            values, place = [], mark.end()
        elif mark[0].startswith("<"):
            end = _THOUGHT_END.search(text, mark.end())
            if end is None:
                raise UnusableReplyError("the reply has thoughts only; send the JSON object alone")
            place = end.end()
        elif _JSON.match(text, mark.start()):
            value, place = _value(text, mark.start())
            values.append(value)
        else:
            place = mark.end()
    return values


def complete_items(text: str, root: str) -> list[Any]:
    """The items of a list that a reply was to be, up to the first that is cut or broken; repeated ones once."""
    items: dict[str, Any] = {}
    start = re.search(rf'"{root}"\s*:\s*\[\s*', text)
    place = -1 if start is None else start.end()
    with suppress(ValueError, RecursionError, UnusableReplyError):
        while 0 <= place < len(text) and text[place] != "]":
            item, place = _DECODER.raw_decode(text, place)
            items.setdefault(repr(item), item)
            gap = _NEXT.match(text, place)
            place = gap.end() if gap else place
    return list(items.values())


def decoded(value: Any) -> Any:
    """The JSON list or object that a string holds, or the value itself."""
    if not isinstance(value, str) or not value.lstrip().startswith(("[", "{")):
        return value
    values = json_values(value)
    return values[0] if len(values) == 1 else value


def members_of(value: Any) -> dict[str, Any]:
    """The members of an object by their names in lower case; none of what is no object."""
    if not isinstance(value, dict):
        return {}
    members = {str(key).strip().casefold(): member for key, member in value.items()}
    if len(members) < len(value):
        raise UnusableReplyError(f"some keys differ only in their case: {', '.join(map(str, value))[:200]}")
    return members


def _value(text: str, start: int) -> tuple[Any, int]:
    """The value at a bracket and where it ends; one with comments or spare commas has to be the last."""
    try:
        return _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        tidy = text[start:]
    for spare in (_COMMENT, _SPARE_COMMA):
        tidy = spare.sub(lambda match: match[0] if match[0].startswith('"') else "", tidy)
    try:
        value, end = _DECODER.raw_decode(tidy)
    except (ValueError, RecursionError) as error:
        raise UnusableReplyError(f"the JSON is broken or not complete: {str(error)[:100]}") from None
    if _MARK.search(tidy, end):
        raise UnusableReplyError("the JSON is not valid, and more follows it; send the JSON object alone")
    return value, len(text)


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")  # NaN and Infinity, which Python's decoder would accept


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        [(twice, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise UnusableReplyError(
            f"the key {twice!r} occurs twice in one JSON object; send one list with everything in it"
        )
    return members


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_refuse, strict=False)


_LONGEST_TYPE: Final = 50
_MEM0: Final = {"relationship": "relation", "destination": "target", "destination_type": "target_type"}
_BOOLEANS: Final = {"true": True, "false": False, "none": False}
_PRONOUNS: Final = frozenset(
    "he she it they we you him her them us his hers its their theirs our ours your yours this that these those here there "
    "himself herself itself themselves someone somebody something 他 她 它 他们 她们 它们 我们 咱们 你 您 你们 这 那 这里 那里 "
    "这个 那个 其".split()
)
_FIRST_PERSON: Final = frozenset({"i", "me", "my", "myself", "我", "我自己", "本人"})


def relations_in(value: Any) -> list[Any]:
    """The items of a list of relations, as sent; one alone may come without a list."""
    try:
        value = decoded(value)
    except UnusableReplyError:
        return [value]  # it costs no fact: it is reported like any unreadable relation
    if value is None or value in ("", {}):
        return []
    return [item for item in value if item is not None] if isinstance(value, list) else [value]


def is_relation(item: Any) -> bool:
    """Whether an item says that it is from one thing to another."""
    try:
        return {"source", "target"} <= _triple_members(item).keys()
    except ValueError:
        return False


def triple_of(item: Any, about: str) -> tuple[Triple, list[str]]:
    """One relation, and which of its dates cannot be read and are left out; "I" is the person that the facts are *about*."""
    members = _triple_members(item)
    problems: list[str] = []
    dates: list[DateSpan | None] = []
    for name in ("valid_from", "valid_to"):
        try:
            dates.append(period(members.get(name)))
        except ValueError as error:
            problems.append(f"{name}: {error}")
            dates.append(None)
    try:
        start, end = interval(*dates)
    except ValueError as error:
        problems.append(str(error))
        start, end = None, None
    source, relation, target = _name(members, "source", about), _relation(members), _name(members, "target", about)
    ended = str(members.get("ended")).strip().casefold()
    if ended not in _BOOLEANS:
        raise ValueError(f"ended must be true or false, not {ended[:40]!r}")
    types = _type(members, "source_type"), _type(members, "target_type")
    return Triple(source, relation, target, *types, start, end, ended=_BOOLEANS[ended]), problems


def _triple_members(item: Any) -> dict[str, Any]:
    if not isinstance(item, dict):
        raise ValueError(f"must be an object with source, relation and target, not {type(item).__name__}")  # noqa: TRY004 - reported like all that is wrong with it
    try:
        members = members_of(item)
    except UnusableReplyError as error:
        raise ValueError(str(error)) from None
    return {_MEM0.get(name, name): member for name, member in members.items()}


def _name(members: dict[str, Any], role: str, about: str) -> str:
    name = " ".join(check_text(members.get(role), role).split())
    if len(name) > LONGEST_NAME:
        raise ValueError(f"{role} has {len(name):,} characters; a name has at most {LONGEST_NAME}")
    if not entity_key(name):
        raise ValueError(f"{role} is empty; it must be a name")
    if name.casefold() in _FIRST_PERSON:
        return ASSISTANT if about == ASSISTANT else SELF
    if name.casefold() in _PRONOUNS:
        raise ValueError(f"{role} is a pronoun, {name!r}; write the name of who or what is meant")
    return owner_role(name) or name


def _relation(members: dict[str, Any]) -> str:
    text = check_text(members.get("relation"), "relation").strip()
    name = relation_name(text) if len(text) <= LONGEST_RELATION else text
    if len(name) > LONGEST_RELATION:
        raise ValueError(f"relation has {len(text):,} characters; its name has at most {LONGEST_RELATION}")
    if not name:
        raise ValueError('relation is empty; it must be a name like "works_at"')
    return name


def _type(members: dict[str, Any], name: str) -> str:
    try:
        return " ".join(check_text(members.get(name), name).casefold().split())[:_LONGEST_TYPE].strip()
    except ValueError:
        return ""


DateSpan = tuple[datetime, datetime]
"""A stretch of time, half-open: a year, a month, a day; of an exact time, both ends are that time."""

_DATE: Final = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?", re.ASCII)
_NO_DATE: Final = frozenset({"", "null", "none", "unknown", "present"})


def period(value: Any) -> DateSpan | None:
    """The time that a date means, in UTC where no zone is named; `None` where it says that there is no date.

    Raises:
        ValueError: It is no date.

    Example:
        >>> [str(time.date()) for time in period("2019-05")]
        ['2019-05-01', '2019-06-01']
    """
    text = "" if value is None else str(value).strip()
    if text.casefold() in _NO_DATE:
        return None
    try:
        return _period(text)
    except (ValueError, OverflowError):
        raise ValueError(f"{text[:40]!r} is no date in ISO 8601, like 2019, 2019-05 or 2019-05-31") from None


def interval(since: DateSpan | None, until: DateSpan | None) -> tuple[datetime | None, datetime | None]:
    """From when and until when: the beginnings of both; of one period named twice, its beginning and its end."""
    start, end = since and since[0], until and until[0]
    if start and until and until[0] <= start:
        end = until[1]
    if start and end and end <= start:
        raise ValueError(f"valid_to ({end.isoformat()}) is not after valid_from ({start.isoformat()})")
    return start, end


def _period(text: str) -> DateSpan:
    match = _DATE.fullmatch(text)
    if match is None:
        time = datetime.fromisoformat(text)
        time = time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
        return time, time
    year, month, day = (int(part or 0) for part in match.groups())
    start = datetime(year, month or 1, day or 1, tzinfo=UTC)
    if day:
        return start, start + timedelta(days=1)
    return start, (start + timedelta(days=31 if month else 366)).replace(day=1)


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


def _read_list(value: Any) -> Any:
    """`null` holds nothing, so reading it as "none" loses nothing."""
    return [] if value is None else decoded(value)


def _event(value: Any) -> Any:
    word = value.strip().upper() if isinstance(value, str) else value
    return "NONE" if word == "NOOP" else word  # as Mem0's paper calls it


def _judgement(value: Any) -> Any:
    word = value.strip().casefold() if isinstance(value, str) else value
    return False if word in ("untrue", "unrelated") else word


_Text = Annotated[str, Field(max_length=10_000), AfterValidator(lambda text: check_text(text, "it").strip())]
_OptionalText = Annotated[_Text, BeforeValidator(lambda value: "" if value is None else value)]
_Id = Annotated[str, BeforeValidator(lambda value: "" if value is None else str(value)[:100].strip())]
_Event = Annotated[Event, BeforeValidator(_event)]


class ReplyModel(BaseModel):
    """A reply that is one list or value under the key *root*, asked for with the schema *wire* or in the words of *form*."""

    model_config = ConfigDict(frozen=True)

    name: ClassVar[str]
    root: ClassVar[str]
    wire: ClassVar[dict[str, Any]]
    form: ClassVar[str]

    @classmethod
    def of(cls, values: list[Any], *, joined: bool = False) -> Self:
        """Read the reply out of JSON values; *joined*: all belong to it (parallel tool calls), instead of one being it."""
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
            problems = error.errors(include_url=False, include_context=False, include_input=False)
            places = [".".join(map(str, each["loc"])) for each in problems]
            messages = [each["msg"].removeprefix("Value error, ") for each in problems]
            lines = [f"{place}: {message}" for place, message in zip(places, messages, strict=True)]
            raise UnusableReplyError(listed_problems(lines)) from None

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

    facts: Annotated[list[FactItem], BeforeValidator(_read_list), Field(max_length=1_000)]


class SmallFactsReply(FactsReply):
    """Extraction by a small model: texts alone."""

    name: ClassVar[str] = "texts_found"
    wire: ClassVar[dict[str, Any]] = _reply(name, "The facts.", "facts", {"text": {"type": "string"}}, 20)
    form: ClassVar[str] = f'{_FORM}{{"facts": [{{"text": "..."}}]}}'


class GraphReply(FactsReply):
    """Extraction with the relations that each fact states; Mem0 has them in a separate list."""

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

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: Any) -> Any:
        return members_of(value) if isinstance(value, dict) else value


class DecisionReply(ReplyModel):
    """Decision: what each fact means for the memories."""

    name: ClassVar[str] = "memory_decided"
    root: ClassVar[str] = "memory"
    wire: ClassVar[dict[str, Any]] = _reply(name, _ENTRIES, root, _ENTRY, _MOST_ENTRIES)

    form: ClassVar[str] = f'{_FORM}{{"memory": [{{{_ENTRY_FORM}}}]}}'

    memory: Annotated[list[DecisionLine], BeforeValidator(_read_list), Field(max_length=6_000)]


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
