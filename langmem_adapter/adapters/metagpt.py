"""MetaGPT's messages, its memories and its folders `role_mem/<role_id>/`, taken into ours; MetaGPT itself is not needed.

What MetaGPT's `Message` has and LangChain's have not is stamped on them (`langmem_adapter.conversation.stamp`). A class that a
message or a file names is only a name here: nothing is imported, and no pickle is read. A folder is read as MetaGPT writes it
through llama-index: `docstore.json` holds a node for each message, with the whole message as JSON in the node's metadata
(`obj_json`), in the order of adding; `index_store.json` names the nodes that have a vector. The vectors
(`default__vector_store.json`, a FAISS file in spite of its name) stay unread: those here come from the memory's own embeddings.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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

_LOST: Final = "index_store.json names it and docstore.json does not hold it"

S = TypeVar("S", bound=BaseModel)
MessageRow: TypeAlias = "tuple[str, Callable[[], BaseMessage]]"
"""Where a message stands, and how it is read."""
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
    """A message of MetaGPT's shape as a LangChain message that carries its fields; see `langmem_adapter.conversation.carried`.

    The roles "user", "assistant" and "system" become types of messages; any other becomes the label of a human message. What
    names no cause is a requirement of the user, as there. A payload (`instruct_content`) of a pydantic class comes back as its
    object where that class is registered (`conversation.register`), otherwise as plain JSON.

    Args:
        message: A `Message`, any object with its attributes, or its dump; it is not changed.

    Raises:
        InvalidInputError: It is not of that shape.

    Example:
        >>> from langmem_adapter.conversation import carried
        >>> message = from_metagpt({"id": "1", "content": "Goals: ...", "role": "Boss", "cause_by": "WritePRD"})
        >>> message.text, carried(message).cause_by, carried(message).label
        ('Goals: ...', 'WritePRD', 'Boss')
    """
    shape = _shape(_Message, _dump_of(message), "message of MetaGPT's, which has id, content, role, …")
    kind = _TYPES.get(shape.role or "user")
    said = (kind or HumanMessage)(content=shape.content, id=None if shape.id == _IGNORED else shape.id or None)
    stamped = stamp(
        said,
        cause_by=shape.cause_by or _REQUIREMENT,
        sent_from=shape.sent_from or None,
        send_to=() if shape.send_to == [_EVERYBODY] else shape.send_to,
        label=None if kind else shape.role,
    )
    return _with_payload(stamped, shape)


def to_metagpt(message: BaseMessage) -> dict[str, Any]:
    """The inverse of `from_metagpt`: a dict that MetaGPT's `Message(**...)` takes.

    Args:
        message: What a person, a model or the system says, as text. Usage and other traces of a model stay behind.

    Raises:
        InvalidInputError: It holds what MetaGPT's messages have no place for; the text says what.

    Example:
        >>> from langchain_core.messages import HumanMessage
        >>> to_metagpt(HumanMessage("Write a snake game.", id="1"))["send_to"]
        ['<all>']
    """
    _check_sayable(message)
    held = carried(message)
    rest = dict(_first(message, _REST) or {})
    said = {
        "id": message.id or "",
        "content": message.text,
        "instruct_content": _dumped(message, rest.pop("instruct_content", {})),
        "role": label_of(message),
        "cause_by": held.cause_by,
        "sent_from": held.sent_from,
        "send_to": sorted(held.send_to) or [_EVERYBODY],
        "metadata": rest.pop("metadata", {}),
    }
    return rest | said


def _shape(kind: type[S], given: object, name: str) -> S:
    try:
        return kind.model_validate(dict(given) if isinstance(given, Mapping) else given)
    except ValidationError as error:
        told = "; ".join(f"{'.'.join(map(str, part['loc'])) or 'it'}: {part['msg']}" for part in error.errors())
        raise InvalidInputError(f"this is no {name}: {told}") from None


def _dump_of(message: object) -> object:
    """A message as its own dump, which knows how its payload is made again; a look at the payload's class would not."""
    dump = getattr(message, "dump", None)
    return _parsed(dump(), "its dump") if callable(dump) else message


def _with_payload(message: BaseMessage, shape: _Message) -> BaseMessage:
    rest = dict(shape.model_extra or {}) | ({"metadata": shape.metadata} if shape.metadata else {})
    if shape.instruct_content is not None:
        made = dict(_payload(shape.instruct_content))
        value = made.pop("value")
        schema = f"{made['module']}.{made['class']}" if "module" in made else ""
        message = stamp(message, payload=value, schema=schema)
        if not schema:
            rest["instruct_content"] = made
    if not rest:
        return message
    kept = {**message.additional_kwargs[KEY], _REST: [check_metadata(rest)]}
    return message.model_copy(update={"additional_kwargs": {**message.additional_kwargs, KEY: kept}})


def _payload(given: object) -> Mapping[str, Any]:
    """A payload as MetaGPT dumps it: its value, its class, and the module or the mapping of fields that this is made from."""
    if isinstance(given, BaseModel):
        return {"class": type(given).__name__, "module": type(given).__module__, "value": given.model_dump(mode="json")}
    if isinstance(given, Mapping) and isinstance(given.get("class"), str) and isinstance(given.get("value"), Mapping):
        if isinstance(given.get("mapping"), Mapping) and "module" not in given:
            return given
        if given.keys() == {"class", "module", "value"} and isinstance(given["module"], str):
            return given
    raise InvalidInputError(
        "instruct_content is a pydantic object, or what MetaGPT dumps of one: class, module or mapping, value; not "
        f"{quoted(given)}"
    )


def _dumped(message: BaseMessage, made: Mapping[str, Any]) -> dict[str, Any] | None:
    """The inverse of `_payload`."""
    payload = _first(message, "payload")
    if payload is None:
        return None
    module, _, name = payload["schema"].rpartition(".")
    if not (made or module):
        raise InvalidInputError("its payload names no class, without which MetaGPT makes none; stamp a pydantic object")
    return {**(made or {"class": name, "module": module}), "value": payload["value"]}


def _first(message: BaseMessage, field: str) -> Any:
    values = message.additional_kwargs.get(KEY, {}).get(field)
    return values[0] if values else None


def _check_sayable(message: BaseMessage) -> None:
    """Refuse what would be lost."""
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
    """A message that was not taken.

    Attributes:
        place: Where it stands: the id of its node, or its number, from 1.
        reason: Why.
    """

    place: str
    reason: str


@dataclass(frozen=True, slots=True)
class MessageImport:
    """What an import did.

    Attributes:
        new: How many messages were taken.
        known: How many were there already, so that nothing was done.
        refused: Those that could not be taken.
    """

    new: int
    known: int
    refused: tuple[RefusedMessage, ...] = ()


@planned
def import_memory(memory: object, into: WorkingMemory) -> Plan[MessageImport]:
    """Take the messages of a MetaGPT `Memory` into ours, in their order; done twice, it takes nothing new.

    A message that stands in the index there and not in the storage is reported, not taken.

    Args:
        memory: A `Memory`, any object with its attributes `storage`, `index` and `ignore_id`, or its dump.
        into: Where; with `ignore_id=True` if the memory ignores ids.

    Raises:
        InvalidInputError: It is no such memory, or it ignores ids and *into* does not.

    Example:
        >>> from langmem_adapter.conversation import WorkingMemory
        >>> log = WorkingMemory()
        >>> dump = {"storage": [{"id": "1", "content": "Write a snake game."}], "index": {}, "ignore_id": False}
        >>> import_memory(dump, log)
        MessageImport(new=1, known=0, refused=())
        >>> import_memory(dump, log).known
        1
    """
    shape = _shape(_Memory, memory, "memory of MetaGPT's, which has storage, index, ignore_id")
    if shape.ignore_id and not into.ignore_id:
        raise InvalidInputError("that memory ignores ids; import it into one made with ignore_id=True")
    messages, refused = _messages(_numbered("storage", shape.storage))
    return _kept(into, (messages, [*refused, *_unstored(shape.index, messages)]))


aimport_memory = awaited(import_memory)


@planned
def import_role(folder: str | os.PathLike[str], into: WorkingMemory) -> Plan[MessageImport]:
    """Take the messages of a role, `role_mem/<role_id>/`, into ours, in their order; done twice, it takes nothing new.

    The name of the folder means nothing here: whose the messages become is what *into* says.

    Args:
        folder: The folder; it is only read.
        into: Where; a `LongTermMemory` embeds anew what it watches.

    Raises:
        InvalidInputError: There is no such folder, or a file in it is damaged; the text names it.

    Example:
        >>> import_role("role_mem/Alice", WorkingMemory())
        Traceback (most recent call last):
        langmem_adapter.errors.InvalidInputError: there is no role_mem/Alice/docstore.json; ...
    """
    return Plan(partial(_read, Path(folder))).and_then(partial(_kept, into))


aimport_role = awaited(import_role)


def brain_from_metagpt(brain: object) -> dict[str, Any]:
    """What MetaGPT's `BrainMemory` holds, for our `BrainMemory.loads`: history, summary, knowledge (as text) and last talk.

    Nothing else is looked at: its dumps hold its configuration, with the keys in it.

    Args:
        brain: A `BrainMemory`, any object with its attributes, or its dump as a mapping or as JSON (what it put into Redis).

    Raises:
        InvalidInputError: It is none, or a message in it cannot be kept; the text says which.

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
    given = _parsed(brain, "the dump") if isinstance(brain, str) else brain
    shape = _shape(
        _Brain, given, "BrainMemory of MetaGPT's, which has history, knowledge, historical_summary, last_talk"
    )
    rows = [*_numbered("history", shape.history), *_numbered("knowledge", shape.knowledge)]
    messages, refused = _messages(rows)
    if refused:
        raise InvalidInputError(f"{refused[0].place}: {refused[0].reason}")
    told = len(shape.history)
    return {
        "history": messages_to_dict(messages[:told]),
        "historical_summary": shape.historical_summary,
        "knowledge": [message.text for message in messages[told:]],
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


def _kept(into: WorkingMemory, found: ReadMessages) -> Plan[MessageImport]:
    if not isinstance(into, WorkingMemory):
        raise InvalidInputError(f"import into a WorkingMemory or a LongTermMemory, not {quoted(into)}")
    messages, refused = found
    keep = Plan.calling(into.add_batch, into.aadd_batch, messages)
    return keep.then(lambda new: MessageImport(new, len(messages) - new, tuple(refused)))


def _messages(rows: Iterable[MessageRow]) -> ReadMessages:
    messages: list[BaseMessage] = []
    refused: list[RefusedMessage] = []
    for place, made in rows:
        try:
            message = made()
            drafts_of([message])
        except InvalidInputError as error:
            refused.append(RefusedMessage(place, str(error)))
        else:
            messages.append(message)
    return messages, refused


def _numbered(name: str, given: Iterable[object]) -> Iterator[MessageRow]:
    return ((f"{name} {number}", partial(from_metagpt, each)) for number, each in enumerate(given, start=1))


def _unstored(index: Mapping[str, Sequence[object]], stored: Iterable[BaseMessage]) -> list[RefusedMessage]:
    known = {(message.id, fingerprint(message)) for message in stored}

    def from_storage(made: Callable[[], BaseMessage]) -> BaseMessage:
        message = made()
        if (message.id, fingerprint(message)) not in known:
            raise InvalidInputError(f"the storage does not hold it: {quoted(message.text)}")
        return message

    rows = (row for cause, listed in index.items() for row in _numbered(f"index of {cause}", listed))
    return _messages((place, partial(from_storage, made)) for place, made in rows)[1]


# ── folders ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _read(folder: Path) -> ReadMessages:
    nodes = _section(folder / "docstore.json", "docstore/data")
    messages, refused = _messages((place, partial(_of_node, place, node)) for place, node in nodes.items())
    return messages, [*refused, *(RefusedMessage(place, _LOST) for place in _indexed(folder) if place not in nodes)]


def _of_node(place: str, node: object) -> BaseMessage:
    dump = _within(node, "__data__", "metadata", "obj_json")
    if not isinstance(dump, str):
        raise InvalidInputError("its metadata hold no obj_json, so that it is no message of MetaGPT's")
    message = from_metagpt(_parsed(dump, "obj_json"))
    return message if message.id else message.model_copy(update={"id": place})


def _indexed(folder: Path) -> list[str]:
    """The nodes that have a vector."""
    path = folder / "index_store.json"
    if not path.is_file():
        return []
    named: list[str] = []
    for index in _section(path, "index_store/data").values():
        data = _within(index, "__data__")
        nodes = _within(_parsed(data, str(path)) if isinstance(data, str) else data, "nodes_dict")
        if not isinstance(nodes, Mapping):
            raise InvalidInputError(f"{path} is damaged: an index in it has no nodes_dict")
        named += map(str, nodes.values())
    return named


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
    whole = _parsed(text, str(path))
    section = whole.get(name) if isinstance(whole, dict) and whole else whole  # an empty store is an empty object
    if not isinstance(section, dict):
        raise InvalidInputError(f"{path} is damaged: it has no object {quoted(name)}")
    return section


def _parsed(text: str, name: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"{name} is no JSON: {error}; restore it from a backup") from None


def _within(value: object, *path: str) -> object:
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
