"""Import of MetaGPT's messages, memories and folders `role_mem/<role_id>/`; MetaGPT itself is not needed.

A class that a message or a file names is only a name here: nothing is imported, and no pickle is read. MetaGPT writes a folder
through llama-index: `docstore.json` has a node for each message, with the whole message as JSON in its metadata (`obj_json`);
`index_store.json` names the nodes that have a vector. The vectors themselves are not read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from langchain_core.messages import AIMessage, BaseMessage, ChatMessage, HumanMessage, SystemMessage, messages_to_dict
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from langmem_adapter.conversation.working import WorkingMemory
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.records.checks import check_metadata, quoted
from langmem_adapter.records.envelope import KEY, carried, fingerprint, label_of, stamp
from langmem_adapter.storage.conversations import drafts_of
from langmem_adapter.twins import Plan, awaited, planned

if TYPE_CHECKING:
    import os

__all__ = [
    "MessageImport",
    "RefusedMessage",
    "aimport_memory",
    "aimport_role",
    "brain_from_metagpt",
    "from_metagpt",
    "import_memory",
    "import_role",
    "to_metagpt",
]

_REQUIREMENT: Final = "metagpt.actions.add_requirement.UserRequirement"  # the cause of a message that names none, there
_EVERYBODY: Final = "<all>"
_IGNORED: Final = "0"  # the id of every message of a memory that ignores ids
_TYPES: Final[Mapping[str, type[BaseMessage]]] = {
    "user": HumanMessage,
    "assistant": AIMessage,
    "system": SystemMessage,
}
_REST: Final = "metagpt"  # beside what is stamped: what comes back in `to_metagpt` alone

S = TypeVar("S", bound=BaseModel)
MessageRow: TypeAlias = "tuple[str, Callable[[], BaseMessage]]"
"""The place of a message, and how it is read."""
ReadMessages: TypeAlias = "tuple[list[BaseMessage], list[RefusedMessage]]"


# ── messages ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class _Message(BaseModel):
    """MetaGPT's `Message`, as it dumps itself or as an object with these attributes."""

    model_config = ConfigDict(extra="allow", from_attributes=True, strict=True)

    content: str
    id: str | None = None
    instruct_content: Any = None
    role: str = ""
    cause_by: Any = None
    sent_from: Any = None
    send_to: list[Any] = Field(default_factory=list)
    metadata: dict[str, Any] = Field(default_factory=dict)

    @field_validator("send_to", mode="before")
    @classmethod
    def _listed(cls, to: object) -> object:
        if isinstance(to, set | frozenset | tuple):
            return [*to]
        return [to] if isinstance(to, str | type) else to or []


def from_metagpt(message: object) -> BaseMessage:
    """A message of MetaGPT's as a LangChain message that carries its fields; see `langmem_adapter.conversation.carried`.

    The roles "user", "assistant" and "system" become types of messages; any other becomes the label of a human message. A
    message without a cause is a requirement of the user, as there. A payload (`instruct_content`) of a class comes back
    as its object where that class is registered (`conversation.register`), otherwise as plain JSON.

    Example:
        >>> from langmem_adapter.conversation import carried
        >>> message = from_metagpt({"id": "1", "content": "Goals: ...", "role": "Boss", "cause_by": "WritePRD"})
        >>> message.text, carried(message).cause_by, carried(message).label
        ('Goals: ...', 'WritePRD', 'Boss')
    """
    # Its own dump knows how the payload is made again; a look at the payload's class would not.
    dump = getattr(message, "dump", None)
    fields = _parse_json(dump(), "its dump") if callable(dump) else message
    shape = _validate(_Message, fields, "message of MetaGPT's, which has id, content, role, …")
    kind = _TYPES.get(shape.role or "user")
    plain = (kind or HumanMessage)(content=shape.content, id=None if shape.id == _IGNORED else shape.id or None)
    stamped = stamp(
        plain,
        cause_by=shape.cause_by or _REQUIREMENT,
        sent_from=shape.sent_from or None,
        send_to=() if shape.send_to == [_EVERYBODY] else shape.send_to,
        label=None if kind else shape.role,
    )
    rest = dict(shape.model_extra or {}) | ({"metadata": shape.metadata} if shape.metadata else {})
    if shape.instruct_content is not None:
        made = dict(_payload(shape.instruct_content))
        schema = f"{made['module']}.{made['class']}" if "module" in made else ""
        stamped = stamp(stamped, payload=made.pop("value"), schema=schema)
        if not schema:
            rest["instruct_content"] = made
    if rest:
        stamped.additional_kwargs[KEY] |= {_REST: [check_metadata(rest)]}
    return stamped


def to_metagpt(message: BaseMessage) -> dict[str, Any]:
    """The inverse of `from_metagpt`: a dict that MetaGPT's `Message(**...)` takes; usage and traces of a model are left out.

    Raises:
        InvalidInputError: It has content that MetaGPT's messages have no place for; the text says what.

    Example:
        >>> from langchain_core.messages import HumanMessage
        >>> to_metagpt(HumanMessage("Write a snake game.", id="1"))["send_to"]
        ['<all>']
    """
    _refuse_loss(message)
    envelope, stamped = carried(message), message.additional_kwargs.get(KEY, {})
    rest, payload = (next(iter(stamped.get(field) or ()), None) for field in (_REST, "payload"))
    rest = dict(rest or {})
    made = rest.pop("instruct_content", {})
    if payload is not None:
        module, _, name = payload["schema"].rpartition(".")
        if not (made or module):
            raise InvalidInputError(
                "its payload names no class, without which MetaGPT makes none; stamp a pydantic object"
            )
        payload = {**(made or {"class": name, "module": module}), "value": payload["value"]}
    fields = {
        "id": message.id or "",
        "content": message.text,
        "instruct_content": payload,
        "role": label_of(message),
        "cause_by": envelope.cause_by,
        "sent_from": envelope.sent_from,
        "send_to": sorted(envelope.send_to) or [_EVERYBODY],
        "metadata": rest.pop("metadata", {}),
    }
    return rest | fields


def _validate(kind: type[S], value: object, name: str) -> S:
    try:
        return kind.model_validate(dict(value) if isinstance(value, Mapping) else value)
    except ValidationError as error:
        reasons = "; ".join(f"{'.'.join(map(str, part['loc'])) or 'it'}: {part['msg']}" for part in error.errors())
        raise InvalidInputError(f"this is no {name}: {reasons}") from None


def _payload(value: object) -> Mapping[str, Any]:
    """A payload as MetaGPT dumps it: its value, its class, and the module or the mapping of fields that this is made from."""
    if isinstance(value, BaseModel):
        return {"class": type(value).__name__, "module": type(value).__module__, "value": value.model_dump(mode="json")}
    if isinstance(value, Mapping) and isinstance(value.get("class"), str) and isinstance(value.get("value"), Mapping):
        if isinstance(value.get("mapping"), Mapping) and "module" not in value:
            return value
        if value.keys() == {"class", "module", "value"} and isinstance(value["module"], str):
            return value
    raise InvalidInputError(
        "instruct_content is a pydantic object, or what MetaGPT dumps of one: class, module or mapping, value; not "
        f"{quoted(value)}"
    )


def _refuse_loss(message: BaseMessage) -> None:
    if not isinstance(message, HumanMessage | AIMessage | SystemMessage | ChatMessage):
        raise InvalidInputError(f"MetaGPT has no place for a {type(message).__name__}; leave it out")
    blocks = [] if isinstance(message.content, str) else message.content
    if not all(isinstance(block, str) or block.get("type") == "text" for block in blocks):
        raise InvalidInputError("its content is more than text, for which MetaGPT has no place; describe it in words")
    if isinstance(message, AIMessage) and (message.tool_calls or message.invalid_tool_calls):
        raise InvalidInputError(
            "it calls tools, for which MetaGPT has no place; leave it out, with what the tools returned"
        )


# ── memories ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class RefusedMessage:
    """A message that was not imported: its *place*, the id of its node or its number from 1, and the *reason*."""

    place: str
    reason: str


@dataclass(frozen=True, slots=True)
class MessageImport:
    """How many messages were added (*new*), how many were there already (*known*), and those that could not be imported."""

    new: int
    known: int
    refused: tuple[RefusedMessage, ...] = ()


@planned
def import_memory(memory: object, into: WorkingMemory) -> Plan[MessageImport]:
    """Import the messages of a MetaGPT `Memory` into a log, in their order; a second import adds nothing.

    The *memory* is any object with the attributes `storage`, `index` and `ignore_id`, or its dump. A message that is in its
    index and not in its storage is refused. If it ignores ids, *into* has to be made with `ignore_id=True`.

    Example:
        >>> from langmem_adapter.conversation import WorkingMemory
        >>> log = WorkingMemory()
        >>> dump = {"storage": [{"id": "1", "content": "Write a snake game."}], "index": {}, "ignore_id": False}
        >>> import_memory(dump, log)
        MessageImport(new=1, known=0, refused=())
        >>> import_memory(dump, log).known
        1
    """
    shape = _validate(_Memory, memory, "memory of MetaGPT's, which has storage, index, ignore_id")
    if shape.ignore_id and not into.ignore_id:
        raise InvalidInputError("that memory ignores ids; import it into one made with ignore_id=True")
    messages, refused = _read_messages(_numbered("storage", shape.storage))
    keys = {(message.id, fingerprint(message)) for message in messages}

    def from_storage(make: Callable[[], BaseMessage]) -> BaseMessage:
        message = make()
        if (message.id, fingerprint(message)) not in keys:
            raise InvalidInputError(f"the storage does not hold it: {quoted(message.text)}")
        return message

    rows = (row for cause, entries in shape.index.items() for row in _numbered(f"index of {cause}", entries))
    _, missing = _read_messages((place, partial(from_storage, make)) for place, make in rows)
    return _add(into, (messages, [*refused, *missing]))


aimport_memory = awaited(import_memory)


@planned
def import_role(folder: str | os.PathLike[str], into: WorkingMemory) -> Plan[MessageImport]:
    """Import the messages of a role's folder, `role_mem/<role_id>/`, into a log, in their order; a second import adds nothing.

    The folder is only read, and its name has no meaning: *into* has a scope. A `LongTermMemory` embeds anew what it watches.

    Example:
        >>> import_role("role_mem/Alice", WorkingMemory())
        Traceback (most recent call last):
        langmem_adapter.errors.InvalidInputError: there is no role_mem/Alice/docstore.json; ...
    """
    return Plan(partial(_read_folder, Path(folder))).and_then(partial(_add, into))


aimport_role = awaited(import_role)


def brain_from_metagpt(brain: object) -> dict[str, Any]:
    """The contents of MetaGPT's `BrainMemory` for our `BrainMemory.loads`: history, summary, knowledge and last talk.

    It may be an object with its attributes, or its dump as a mapping or as JSON (what it put into Redis). Nothing else is read:
    its dumps contain its configuration, with the keys in it.

    Example:
        >>> from langmem_adapter import Memory
        >>> from langmem_adapter.conversation import BrainMemory
        >>> memory = Memory(":memory:")
        >>> chat = BrainMemory(memory, "monday", user_id="ann")
        >>> chat.loads(brain_from_metagpt({"history": [{"content": "Hi"}], "historical_summary": "Ann likes tea."}))
        >>> chat.historical_summary, chat.history[0].text
        ('Ann likes tea.', 'Hi')
        >>> memory.close()
    """
    fields = _parse_json(brain, "the dump") if isinstance(brain, str) else brain
    name = "BrainMemory of MetaGPT's, which has history, knowledge, historical_summary, last_talk"
    shape = _validate(_Brain, fields, name)
    messages, refused = _read_messages([*_numbered("history", shape.history), *_numbered("knowledge", shape.knowledge)])
    if refused:
        raise InvalidInputError(f"{refused[0].place}: {refused[0].reason}")
    history, knowledge = messages[: len(shape.history)], messages[len(shape.history) :]
    return {
        "history": messages_to_dict(history),
        "historical_summary": shape.historical_summary,
        "knowledge": [message.text for message in knowledge],
        "last_talk": shape.last_talk,
    }


class _Brain(BaseModel):
    """MetaGPT's `BrainMemory`, without its configuration."""

    model_config = ConfigDict(from_attributes=True, strict=True)

    history: list[Any]
    knowledge: list[Any] = Field(default_factory=list)
    historical_summary: str = ""
    last_talk: str | None = None


class _Memory(BaseModel):
    """MetaGPT's `Memory`."""

    model_config = ConfigDict(from_attributes=True, strict=True)

    storage: list[Any]
    index: dict[str, list[Any]] = Field(default_factory=dict)
    ignore_id: bool = False


def _add(into: WorkingMemory, read: ReadMessages) -> Plan[MessageImport]:
    if not isinstance(into, WorkingMemory):
        raise InvalidInputError(f"import into a WorkingMemory or a LongTermMemory, not {quoted(into)}")
    messages, refused = read
    added = Plan.calling(into.add_batch, into.aadd_batch, messages)
    return added.then(lambda new: MessageImport(new, len(messages) - new, tuple(refused)))


def _read_messages(rows: Iterable[MessageRow]) -> ReadMessages:
    messages: list[BaseMessage] = []
    refused: list[RefusedMessage] = []
    for place, make in rows:
        try:
            message = make()
            drafts_of([message])
        except InvalidInputError as error:
            refused.append(RefusedMessage(place, str(error)))
        else:
            messages.append(message)
    return messages, refused


def _numbered(name: str, values: Iterable[object]) -> Iterator[MessageRow]:
    return ((f"{name} {number}", partial(from_metagpt, each)) for number, each in enumerate(values, start=1))


# ── folders ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _read_folder(folder: Path) -> ReadMessages:
    nodes = _section(folder / "docstore.json", "docstore/data")
    messages, refused = _read_messages((place, partial(_parse_node, place, node)) for place, node in nodes.items())
    reason = "index_store.json names it and docstore.json does not hold it"
    lost = [RefusedMessage(place, reason) for place in _indexed(folder) if place not in nodes]
    return messages, [*refused, *lost]


def _parse_node(place: str, node: object) -> BaseMessage:
    dump = _value_at(node, "__data__", "metadata", "obj_json")
    if not isinstance(dump, str):
        raise InvalidInputError("its metadata hold no obj_json, so that it is no message of MetaGPT's")
    message = from_metagpt(_parse_json(dump, "obj_json"))
    return message if message.id else message.model_copy(update={"id": place})


def _indexed(folder: Path) -> list[str]:
    """The nodes that have a vector."""
    path = folder / "index_store.json"
    if not path.is_file():
        return []
    places: list[str] = []
    for index in _section(path, "index_store/data").values():
        data = _value_at(index, "__data__")
        nodes = _value_at(_parse_json(data, str(path)) if isinstance(data, str) else data, "nodes_dict")
        if not isinstance(nodes, Mapping):
            raise InvalidInputError(f"{path} is damaged: an index in it has no nodes_dict")
        places += map(str, nodes.values())
    return places


def _section(path: Path, name: str) -> Mapping[str, Any]:
    if not path.is_file():
        raise InvalidInputError(
            f"there is no {path}; name the folder of one role, role_mem/<role_id>. A folder of an old MetaGPT, with pickles "
            "in place of JSON, has to be loaded and persisted by a newer MetaGPT first"
        )
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{path} cannot be read: {error}") from None
    whole = _parse_json(text, str(path))
    section = whole.get(name) if isinstance(whole, dict) and whole else whole  # an empty store is an empty object
    if not isinstance(section, dict):
        raise InvalidInputError(f"{path} is damaged: it has no object {quoted(name)}")
    return section


def _parse_json(text: str, name: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"{name} is no JSON: {error}; restore it from a backup") from None


def _value_at(value: object, *path: str) -> object:
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
